"""Starting a compiled kernel through the driver, with all its parameters in one packed block.

Numba's own launch looks at every argument anew (dtype, layout, ownership), which takes longer than the small
kernels run. What we pass is CuPy arrays and numbers, so one look at their dtypes finds the compiled kernel, and
their addresses and shapes are packed as Numba's kernels expect them: an array is (meminfo, parent, size,
item size, data, shape ..., strides ...).
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Entry", "describe_argument", "find_entry", "start_entry"]

# CUDA driver API: cuLaunchKernel's `extra` list.
PARAMETER_BUFFER, PARAMETER_SIZE = 1, 2
SCALAR_FORMATS = {np.dtype(code): code for code in "?bBhHiIqQfd"}


class Entry(NamedTuple):
    """A kernel compiled for one list of argument types."""

    handle: int
    layout: struct.Struct
    owner: Any  # keeps the module loaded


def describe_argument(argument: Any) -> Any:
    """Return what decides for which types a kernel is compiled; hashable."""
    if hasattr(argument, "ndim") and argument.ndim > 0:
        return argument.dtype, argument.ndim, argument.flags.c_contiguous
    if isinstance(argument, bool | np.bool_):
        return bool
    if isinstance(argument, int):
        return int
    return float if isinstance(argument, float) else np.dtype(type(argument))


def find_entry(compiled: Any, kinds: tuple[Any, ...]) -> Entry:
    """Compile a Numba dispatcher for some kinds of arguments and find the driver's handle of the kernel."""
    from numba import types
    from numba.np import numpy_support

    signature: list[Any] = []
    codes = "@"
    for kind in kinds:
        if isinstance(kind, tuple):
            dtype, ndim, contiguous = kind
            signature.append(types.Array(numpy_support.from_dtype(dtype), ndim, "C" if contiguous else "A"))
            codes += "q" * (5 + 2 * ndim)
        else:
            signature.append(numpy_support.from_dtype(np.dtype(kind)))
            codes += SCALAR_FORMATS[np.dtype(kind)]
    kernel = compiled.compile(tuple(signature))
    return Entry(int(kernel._codelibrary.get_cufunc().handle), struct.Struct(codes), kernel)


def start_entry(entry: Entry, blocks: int, threads: int, stream: int, arguments: tuple[Any, ...]) -> None:
    """Pack the arguments and launch; the driver has copied them when this returns."""
    from cuda.bindings import driver

    values: list[Any] = []
    for argument in arguments:
        if hasattr(argument, "ndim") and argument.ndim > 0:
            values += (0, 0, argument.size, argument.itemsize, argument.data.ptr, *argument.shape, *argument.strides)
        else:
            values.append(argument)
    block = ctypes.create_string_buffer(entry.layout.pack(*values), entry.layout.size)
    size = ctypes.c_size_t(entry.layout.size)
    extra = (ctypes.c_void_p * 5)(
        PARAMETER_BUFFER, ctypes.addressof(block), PARAMETER_SIZE, ctypes.addressof(size), None
    )
    (status,) = driver.cuLaunchKernel(entry.handle, blocks, 1, 1, threads, 1, 1, 0, stream, 0, ctypes.addressof(extra))
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cuLaunchKernel: {status}")
