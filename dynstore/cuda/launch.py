"""Starting a compiled kernel through the driver, with all its parameters in one packed block.

Numba's own launch examines every argument anew (dtype, layout, ownership). This takes longer than small kernels run. We
pass only CuPy arrays and numbers. So their dtypes find the compiled kernel, and their addresses and shapes are packed
as Numba's kernels expect them: an array is (meminfo, parent, size, item size, data, shape ..., strides ...).
"""

from __future__ import annotations

import ctypes
import logging
import struct
import threading
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.compilations import compilations
from dynstore.cuda.kernel_cache import find_place, read_kernel, write_kernel
from dynstore.interrupts import Uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    GroupTypes = Callable[[tuple[Any, ...]], tuple[Any, ...]]

__all__ = [
    "Entry",
    "Packed",
    "PackedKinds",
    "ResidentOrder",
    "describe_arguments",
    "find_entry",
    "find_layout",
    "make_block",
    "start_entry",
]

# CUDA driver API: cuLaunchKernel's `extra` list.
PARAMETER_BUFFER, PARAMETER_SIZE = 1, 2
EXTRA = struct.Struct("@5PQ")
PARAMETERS_AT = EXTRA.size  # offset of the parameters in a block
SCALAR_FORMATS = {np.dtype(code): code for code in "?bBhHiIqQfd"}
PLAIN = frozenset((bool, int, float))
ParameterBlock = tuple["ctypes.Array[ctypes.c_char]", int]  # the block and its address
PER_THREAD_STREAM = 2  # this handle means a default stream for each thread
NO_STREAM = -1
_log = logging.getLogger("dynstore")


class Entry:
    """A kernel compiled for one list of argument types, and memory for the packed parameters of launches.

    ``resident_blocks``: how many blocks the GPU holds at once; ``owner`` keeps the module loaded.
    """

    __slots__ = ("blocks", "handle", "layout", "owner", "resident_blocks")

    def __init__(self, handle: int, layout: struct.Struct, resident_blocks: int, owner: Any) -> None:
        self.handle, self.layout, self.resident_blocks, self.owner = handle, layout, resident_blocks, owner
        self.blocks: list[ParameterBlock] = []  # as many as the most launches at once


class PackedKinds:
    """The kinds of neighbouring arguments that are packed already; :func:`_pack_kinds` makes one object for each list.

    So two are equal if and only if they are the same object, and a launch need not hash the kinds inside.
    """

    __slots__ = ("kinds",)

    def __init__(self, kinds: tuple[Any, ...]) -> None:
        self.kinds = kinds


@cache
def _pack_kinds(kinds: tuple[Any, ...]) -> PackedKinds:
    return PackedKinds(kinds)


class Packed:
    """Arrays and integers that are passed to launches again and again: examined once, and packed once.

    A kernel gets them as ordinary parameters. Each must keep its memory, shape and dtype.
    """

    __slots__ = ("arrays", "described")

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        self.described: tuple[PackedKinds, bytes] | None = None  # by the first launch

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy or pickle the arrays: a copy has its own, at other addresses."""
        return Packed, self.arrays

    def describe(self) -> tuple[PackedKinds, bytes]:
        """Return kinds and values as :func:`describe_arguments` does, each packed into one object."""
        if self.described is None:
            kinds, values = describe_arguments(self.arrays)
            self.described = _pack_kinds(kinds), struct.pack(f"@{len(values)}q", *values)
        return self.described


def describe_arguments(arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the kind and the value of each argument.

    Returns
    -------
    kinds : tuple
        They decide the types that a kernel is compiled for; hashable. A contiguous 1-D array is its dtype's letter,
        other arrays are (letter, dimensions, contiguous), numbers their type, packed arrays :class:`PackedKinds`.
    values : list
        The contents of the kernel's parameter block.
    """
    kinds: list[Any] = []
    values: list[Any] = []
    for argument in arguments:
        kind = type(argument)
        if kind in PLAIN:
            kinds.append(kind)
            values.append(argument)
        elif kind is Packed:
            packed, block = argument.described or argument.describe()
            kinds.append(packed)
            values.append(block)
        else:
            item, strides = argument.itemsize, argument.strides
            if strides == (item,) or (len(strides) == 1 and argument.size < 2):
                size = argument.size
                kinds.append(argument.dtype.char)
                values += (0, 0, size, item, argument.data.ptr, size, item)
            elif strides == ():
                kinds.append(np.dtype(kind))
                values.append(argument)
            else:
                size = argument.size
                kinds.append((argument.dtype.char, argument.ndim, argument.flags.c_contiguous))
                values += (0, 0, size, item, argument.data.ptr, *argument.shape, *strides)
    return tuple(kinds), values


def find_entry(compiled: Any, kinds: tuple[Any, ...], threads: int, group_types: GroupTypes = tuple) -> Entry:
    """Load the kernel of a Numba dispatcher for some kinds of arguments from disk, or compile it.

    ``threads``: of a block, to find how many blocks there can be at once. ``group_types``: makes of the arguments'
    Numba types those of the kernel's parameters, which may be records. Signals wait meanwhile, as they do while a host
    kernel is compiled (``host_compiler``).
    """
    with Uninterrupted():
        return _find_entry(compiled, kinds, threads, group_types)


def _find_entry(compiled: Any, kinds: tuple[Any, ...], threads: int, group_types: GroupTypes) -> Entry:
    signature, layout, place = _find_files(compiled, kinds, group_types)
    kept = _load_kept(place, layout, threads)
    if kept is not None:
        compilations.load(compiled.py_func, signature)
        return kept
    compilations.begin()
    try:
        kernel = compiled.compile(signature)
    finally:
        compilations.end(compiled.py_func, signature)
    library = kernel._codelibrary
    handle = int(library.get_cufunc().handle)
    # If Numba links other files to a kernel, such as its memory manager, Numba must also set these up.
    image = None if library._linking_files else getattr(library.get_cubin(), "code", None)
    if place is not None and isinstance(image, bytes):
        write_kernel(place, kernel.entry_name, image)
    return Entry(handle, layout, _count_resident_blocks(handle, threads), kernel)


def _find_files(
    compiled: Any, kinds: tuple[Any, ...], group_types: GroupTypes
) -> tuple[tuple[Any, ...], struct.Struct, Path | None]:
    """Return the Numba types of parameters, the layout of their values, and the path of the kernel for them."""
    types, layout = find_layout(kinds)
    signature = group_types(types)
    driver_version = _checked("cuDriverGetVersion", _driver().cuDriverGetVersion())
    return signature, layout, find_place(compiled, signature, driver_version)


def _load_kept(place: Path | None, layout: struct.Struct, threads: int) -> Entry | None:
    """Load the kernel of a file; None if there is none that can be loaded."""
    kept = None if place is None else read_kernel(place)
    if kept is None:
        return None
    try:
        handle, loaded = _load_kernel(*kept)
        return Entry(handle, layout, _count_resident_blocks(handle, threads), loaded)
    except RuntimeError as error:
        _log.debug("%s cannot be loaded: %s", place, error)
        return None


def find_layout(kinds: tuple[Any, ...]) -> tuple[tuple[Any, ...], struct.Struct]:
    """Return the Numba types of arguments of some kinds, and the layout of their values."""
    signature, codes = _read_kinds(kinds)
    return tuple(signature), struct.Struct("@" + codes)


def _read_kinds(kinds: tuple[Any, ...]) -> tuple[list[Any], str]:
    from numba import types
    from numba.np import numpy_support

    signature: list[Any] = []
    codes = ""
    for kind in kinds:
        if isinstance(kind, PackedKinds):
            inner, inner_codes = _read_kinds(kind.kinds)
            signature += inner
            codes += f"0q{struct.calcsize('@' + inner_codes)}s"  # the first: from a place where an array may begin
        elif isinstance(kind, str | tuple):
            letter, ndim, contiguous = (kind, 1, True) if isinstance(kind, str) else kind
            element = numpy_support.from_dtype(np.dtype(letter))
            signature.append(types.Array(element, ndim, "C" if contiguous else "A"))
            codes += "q" * (5 + 2 * ndim)
        else:
            signature.append(numpy_support.from_dtype(np.dtype(kind)))
            codes += SCALAR_FORMATS[np.dtype(kind)]
    return signature, codes


def _load_kernel(name: str, image: bytes) -> tuple[int, Any]:
    """Load a cubin; return its kernel's handle and the object that keeps it loaded."""
    driver = _driver()
    library = _checked("cuLibraryLoadData", driver.cuLibraryLoadData(image, [], [], 0, [], [], 0))
    return int(_checked("cuLibraryGetKernel", driver.cuLibraryGetKernel(library, name.encode()))), library


def _count_resident_blocks(handle: int, threads: int) -> int:
    driver = _driver()
    device = _checked("cuCtxGetDevice", driver.cuCtxGetDevice())
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    processors = _checked("cuDeviceGetAttribute", driver.cuDeviceGetAttribute(attribute, device))
    on_each = _checked(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(handle, threads, 0),
    )
    return int(processors * on_each)


def start_entry(entry: Entry, blocks: int, threads: int, stream: int, values: list[Any]) -> None:
    """Pack the parameters and launch; the driver has copied them when this returns."""
    try:
        block = entry.blocks.pop()
    except IndexError:  # the first launch, or other threads use all blocks
        block = make_block(entry.layout.size)
    buffer, start = block
    entry.layout.pack_into(buffer, PARAMETERS_AT, *values)
    try:
        _launch_kernel()(entry.handle, blocks, 1, 1, threads, 1, 1, 0, stream, 0, start)
    finally:
        entry.blocks.append(block)


def make_block(size: int) -> ParameterBlock:
    """Make a block for the driver: the ``extra`` list, the parameters' size, then room for ``size`` bytes of them."""
    buffer = ctypes.create_string_buffer(EXTRA.size + size)
    start = ctypes.addressof(buffer)
    EXTRA.pack_into(buffer, 0, PARAMETER_BUFFER, start + EXTRA.size, PARAMETER_SIZE, start + EXTRA.size - 8, 0, size)
    return buffer, start


class ResidentOrder:
    """Runs resident kernels one after another on a GPU, whatever their streams.

    Two at once may each hold a part of the GPU and wait for the rest for ever. One stream runs its kernels in order, so
    while there is only one, nothing is done. When the stream first changes, the host waits for the GPU once. From then
    on each resident kernel records an event, and the next one on another stream waits for it.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda  # cupy.cuda
        self._lock = threading.Lock()
        # The stream of the last kernel. Threads and streams are kept alive, so that no new one gets the same handle.
        self._handle = NO_STREAM
        self._thread: threading.Thread | None = None
        self._stream: Any = None
        self._event: Any = None

    def start(self, entry: Entry, blocks: int, threads: int, stream: Any, values: list[Any]) -> None:
        """Launch as :func:`start_entry` does, on a CuPy stream, after the last kernel that was started here."""
        handle: int = stream.ptr
        thread = threading.current_thread() if handle == PER_THREAD_STREAM else None
        with self._lock:
            if handle != self._handle or thread is not self._thread:
                self._follow(stream)
                self._handle, self._thread, self._stream = handle, thread, stream
            start_entry(entry, blocks, threads, handle, values)
            if self._event is not None:
                self._event.record(stream)

    def _follow(self, stream: Any) -> None:
        if self._event is not None:
            stream.wait_event(self._event)
        elif self._handle != NO_STREAM:
            self._cuda.runtime.deviceSynchronize()
            self._event = self._cuda.Event(disable_timing=True)


def _checked(name: str, result: tuple[Any, ...]) -> Any:
    """Return the value of a driver call, if it has one; raise its error."""
    if result[0] != _driver().CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{name}: {result[0]}")
    return result[1] if len(result) > 1 else None


@lru_cache(maxsize=1)
def _launch_kernel() -> Any:
    """Return CuPy's cuLaunchKernel, which raises driver errors; the driver's bindings take four times as long."""
    import cupy

    return cupy.cuda.driver.launchKernel


@lru_cache(maxsize=1)
def _driver() -> Any:
    from cuda.bindings import driver

    return driver
