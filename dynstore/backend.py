"""Where arrays live and which kernels run on them.

==========  =======================  ==========================================
name        arrays                   kernels
==========  =======================  ==========================================
cpu         NumPy                    ``cpu`` modules: NumPy and Numba njit
cuda        CuPy                     ``cuda`` modules: Numba CUDA
cuda-sim    NumPy                    ``cuda`` modules in our simulator
==========  =======================  ==========================================

``cuda-sim`` is for tests: it needs ``NUMBA_ENABLE_CUDASIM=1`` before Numba is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from collections.abc import Callable
from functools import cache, lru_cache, partial
from math import prod
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

from dynstore.errors import InputError, MissingDependencyError, OutOfMemoryError, unknown_name
from dynstore.pinned_memory import PinnedMemory
from dynstore.typing import Array, Memory

__all__ = ["DEVICES", "Arena", "Backend", "Part", "Timer", "cuda_problem", "get_backend", "unknown_device"]

# Alignment in bytes of the arrays in one allocation.
ALIGNMENT = 256
DEVICES = ("auto", "cpu", "cuda")
CUDA_INSTALL_LINE = "pip install 'dynstore[cuda13]'  # or dynstore[cuda12]"
_log = logging.getLogger("dynstore")

# An array's shape and dtype. A third entry, for 1-D arrays: only so many first entries must be zero.
Part = tuple[int | tuple[int, ...], Any] | tuple[int, Any, int]


class Backend:
    """One device: its array module, its allocations, its kernels.

    Attributes
    ----------
    name : {"cpu", "cuda", "cuda-sim"}
    xp : module
        ``numpy`` or ``cupy``.
    family : {"cpu", "cuda"}
        Which kernels are used: those in a package's ``cpu`` or in its ``cuda``.
    on_gpu : bool
        Whether arrays live in GPU memory.
    """

    def __init__(self, name: str, xp: ModuleType, family: str) -> None:
        self.name = name
        self.xp: Any = xp
        self.family = family
        self.on_gpu = name == "cuda"
        self._nothing: dict[np.dtype, Array] = {}

    def __repr__(self) -> str:
        return f"Backend({self.name!r})"

    @cache  # noqa: B019 - the few backends live as long as the process
    def kernels(self, package: str, module: str = "") -> ModuleType:
        """Import a package's kernels for this device: ``package.cpu.module`` or ``package.cuda.module``.

        Without a ``module``: ``package.cpu`` or ``package.cuda``. Both sides offer the same functions.
        """
        return importlib.import_module(f"{package}.{self.family}.{module}".rstrip("."))

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Allocate without filling.

        Raises
        ------
        OutOfMemoryError
            When the device has not enough memory.
        """
        try:
            return self.xp.empty(shape, dtype=dtype)
        except (MemoryError, OverflowError, ValueError) as error:  # the last two: impossible sizes
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            raise OutOfMemoryError(f"device {self.name!r}: could not allocate {size} bytes ({error})") from error

    def pinned(self, shape: int | tuple[int, ...], dtype: Any) -> tuple[Array, np.ndarray]:
        """Allocate host memory without filling, once as kernels use it and once as the host does.

        On CUDA it is pinned: kernels read and write it in place, over the link. Elsewhere both are the same array.

        Raises
        ------
        OutOfMemoryError
            When so much host memory cannot be pinned.
        """
        count = int(np.prod(shape))
        if not self.on_gpu or not count:
            array = self.empty(shape, dtype)
            return array, np.empty(shape, dtype) if self.on_gpu else array
        cuda, size = self.xp.cuda, count * np.dtype(dtype).itemsize
        try:
            memory = PinnedMemory(cuda, size)
        except (MemoryError, OSError, OverflowError, cuda.runtime.CUDARuntimeError) as error:
            raise OutOfMemoryError(
                f"device {self.name!r}: could not pin {size} bytes of host memory ({error})"
            ) from error
        owned = cuda.UnownedMemory(memory.pointer, size, memory, cuda.runtime.getDevice())
        array = self.xp.ndarray(shape, dtype, memptr=cuda.MemoryPointer(owned, 0))
        return array, np.asarray(memory).view(dtype).reshape(shape)

    def empty_in(self, memory: Memory, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Allocate without filling in device memory, or in host memory that kernels use in place."""
        return self.pinned(shape, dtype)[0] if memory == "host" else self.empty(shape, dtype)

    def bring(self, memory: Memory, values: Any) -> Array:
        """Return host or device values as an array in one kind of memory; no copy if they are there already.

        Arrays of this backend count as there: those in device memory are not moved to the host.
        """
        if memory == "device" or not self.on_gpu or not isinstance(values, np.ndarray):
            return self.asarray(values)
        array, on_host = self.pinned(values.shape, values.dtype)
        on_host[...] = values
        return array

    def free_bytes(self) -> int | None:
        """Return the bytes of device memory that can still be allocated; None where arrays lie in host memory."""
        if not self.on_gpu:
            return None
        pool, (free, _) = self.xp.get_default_memory_pool(), self.xp.cuda.runtime.memGetInfo()
        free, limit = int(free) + int(pool.free_bytes()), int(pool.get_limit())
        return min(free, max(limit - int(pool.used_bytes()), 0)) if limit else free

    def nothing(self, dtype: Any) -> Array:
        """Return an empty array, the same one for all calls: allocating 0 bytes is as slow as any allocation."""
        key = np.dtype(dtype)
        if key not in self._nothing:
            self._nothing[key] = self.empty(0, key)
        return self._nothing[key]

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Allocate and fill with zeros."""
        array = self.empty(shape, dtype)
        if self.on_gpu:
            array.data.memset_async(0, array.nbytes)  # takes a tenth of the time of a fill kernel
        else:
            array.fill(0)
        return array

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Array:
        """Allocate and fill with one value."""
        array = self.empty(shape, dtype)
        array.fill(value)
        return array

    def empty_arena(self, *parts: Part, zeroed: int = 0) -> list[Array]:
        """Allocate several arrays at once, in about the time of one; see :class:`Arena`."""
        return self.arena(*parts, zeroed=zeroed).arrays

    def copies(self, *arrays: Array) -> list[Array]:
        """Copy several arrays into one allocation."""
        if len(arrays) == 1:
            copies = [self.empty(arrays[0].shape, arrays[0].dtype)]
        else:
            copies = self.empty_arena(*((array.shape, array.dtype) for array in arrays))
        for copy, array in zip(copies, arrays, strict=True):
            self.overwrite(copy, array)
        return copies

    def overwrite(self, array: Array, values: Array) -> None:
        """Copy values into a contiguous array of the same shape and dtype."""
        if self.on_gpu and values.flags.c_contiguous:
            array.data.copy_from_device_async(values.data, values.nbytes)  # starts no kernel
        else:
            array[...] = values

    def arena(self, *parts: Part, zeroed: int = 0) -> Arena:
        """Allocate several arrays at once that can be cleared and used again."""
        return Arena(self, parts, zeroed)

    def asarray(self, values: Any, dtype: Any = None) -> Array:
        """Bring host or device values to this device; no copy if they are there already."""
        if not self.on_gpu and hasattr(values, "__cuda_array_interface__"):
            values = _device_to_host(values)
        return self.xp.asarray(values, dtype=dtype)

    def to_host(self, array: Array) -> np.ndarray:
        """Return the values as a NumPy array (the same array if it is on the host already)."""
        return array.get() if self.on_gpu and not isinstance(array, np.ndarray) else np.asarray(array)

    def all_to_host(self, *arrays: Array) -> list[np.ndarray]:
        """Return the values of several arrays as NumPy arrays, as :meth:`to_host` does, but faster from a GPU.

        They lie in one piece of pinned memory. Its size is a power of two, so that CuPy's pool can use it again.
        """
        if not self.on_gpu:
            return [self.to_host(array) for array in arrays]
        cuda, arrays = self.xp.cuda, tuple(map(self.xp.ascontiguousarray, arrays))
        starts = np.cumsum([0, *(-(-array.nbytes // ALIGNMENT) * ALIGNMENT for array in arrays)])
        if not starts[-1]:
            return [self.to_host(array) for array in arrays]
        memory = cuda.alloc_pinned_memory(1 << int(starts[-1] - 1).bit_length())
        copies = []
        for array, start in zip(arrays, starts.tolist(), strict=False):
            array.data.copy_to_host_async(memory.ptr + start, array.nbytes, cuda.get_current_stream())
            copies.append(np.frombuffer(memory, array.dtype, array.size, start).reshape(array.shape))
        self.synchronize()
        return copies

    def prepare(self, write: Callable[..., None], *args: Any) -> Callable[[], None]:
        """Return a function that does ``write(*args)``; ``write``, a part of a commit, only launches kernels.

        The kernels are compiled and loaded here. So this call may fail, and the commit cannot.
        """
        if self.family == "cpu":
            return partial(write, *args)
        from dynstore.cuda import compiler

        return compiler.prepare(write, *args)

    def start_timer(self) -> Timer:
        """Return a timer of the work that is issued from now on."""
        return Timer(self)

    def synchronize(self) -> None:
        """Wait until all work issued so far is done."""
        if self.on_gpu:
            self.xp.cuda.get_current_stream().synchronize()

    def wait_for_stream(self) -> None:
        """Wait for what is written on a stream of the caller's: cuDF works on the default stream."""
        if self.on_gpu and self.xp.cuda.get_current_stream().ptr:
            self.synchronize()


class Timer:
    """The time of some work, measured without waiting for it: on a GPU by events."""

    def __init__(self, backend: Backend) -> None:
        self._cuda = backend.xp.cuda if backend.on_gpu else None
        self._begun: Any = self._now()
        self._ended: Any = None
        self._seconds: float | None = None

    def _now(self) -> Any:
        if self._cuda is None:
            return perf_counter()
        event = self._cuda.Event()
        event.record()
        return event

    def stop(self) -> Timer:
        """End the measured work here."""
        self._ended = self._now()
        return self

    def seconds(self) -> float:
        """Return what the work took; the first call waits until it is done."""
        if self._seconds is None:
            if self._cuda is None:
                self._seconds = float(self._ended - self._begun)
            else:
                self._ended.synchronize()
                self._seconds = float(self._cuda.get_elapsed_time(self._begun, self._ended)) / 1e3
        return self._seconds


class Arena:
    """Several arrays in one allocation.

    Parameters
    ----------
    parts : sequence of Part
    zeroed : int
        How many of the first parts are filled with zeros; the last of them perhaps only in part.

    Attributes
    ----------
    arrays : list of array
    nbytes : int
    is_clear : bool
        Set it if all entries that must be zero are zero already; the next :meth:`clear` then does nothing.
    """

    def __init__(self, backend: Backend, parts: tuple[Part, ...], zeroed: int) -> None:
        self.is_clear = False
        shapes = [(part[0],) if isinstance(part[0], int) else part[0] for part in parts]
        dtypes = [np.dtype(part[1]) for part in parts]
        lengths = [prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
        sizes = [-(-length // ALIGNMENT) * ALIGNMENT for length in lengths]
        self.parts, self.nbytes = parts, sum(sizes)
        self._backend, self._num_zeroed = backend, sum(sizes[:zeroed])
        last = parts[zeroed - 1]
        if zeroed and len(last) == 3:
            self._num_zeroed += last[2] * dtypes[zeroed - 1].itemsize - sizes[zeroed - 1]
        self._block = block = backend.empty(self.nbytes, np.uint8)
        self.clear()
        self.arrays, start = [], 0
        for shape, dtype, length, size in zip(shapes, dtypes, lengths, sizes, strict=True):
            if backend.on_gpu:
                self.arrays.append(backend.xp.ndarray(shape, dtype, memptr=block.data + start))
            else:
                self.arrays.append(block[start : start + length].view(dtype).reshape(shape))
            start += size

    def clear(self) -> None:
        """Fill the zeroed parts with zeros."""
        if self.is_clear:
            self.is_clear = False
        elif self._num_zeroed and self._backend.on_gpu:
            self._block.data.memset_async(0, self._num_zeroed)
        elif self._num_zeroed:
            self._block[: self._num_zeroed] = 0


def _device_to_host(values: Any) -> np.ndarray:
    getter = getattr(values, "get", None)
    if getter is not None:
        return np.asarray(getter())
    try:
        import cupy
    except ImportError as error:
        raise MissingDependencyError(f"to read an array on the GPU, CuPy is needed: {CUDA_INSTALL_LINE}") from error
    copied: np.ndarray = cupy.asnumpy(cupy.asarray(values))
    return copied


@lru_cache(maxsize=1)
def cuda_problem() -> str | None:
    """Return why CUDA cannot be used here, or None if it can."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        return "NUMBA_ENABLE_CUDASIM=1 replaces CUDA by the simulator"
    if importlib.util.find_spec("cupy") is None:
        return f"CuPy is not installed: {CUDA_INSTALL_LINE}"
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "no CUDA device was found"
        cupy.arange(1).sum()
    except Exception as error:  # any failure of driver or library means: no CUDA
        return f"CUDA does not work: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    from dynstore.cuda.compiler import unavailable

    return unavailable()


@lru_cache(maxsize=3)
def _make(name: str) -> Backend:
    if name == "cpu":
        return Backend("cpu", np, "cpu")
    if name == "cuda":
        import cupy

        return Backend("cuda", cupy, "cuda")
    return Backend("cuda-sim", np, "cuda")


@lru_cache(maxsize=1)
def _automatic() -> Backend:
    problem = cuda_problem()
    name = "cpu" if problem else "cuda"
    _log.info("device 'auto' is %r%s", name, f" ({problem})" if problem else "")
    return _make(name)


def get_backend(device: str = "auto") -> Backend:
    """Return the backend of a device name.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        "auto" takes CUDA if it works, and logs the choice once (logger ``dynstore``).

    Raises
    ------
    InputError
        For another name, or for "cuda" if CUDA does not work; the message says why.
    """
    if device == "auto":
        return _automatic()
    if device == "cpu":
        return _make("cpu")
    if device == "cuda":
        problem = cuda_problem()
        if problem:
            raise InputError(f"device 'cuda' cannot be used: {problem}")
        return _make("cuda")
    if device == "cuda-sim":
        if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
            raise InputError("device 'cuda-sim' needs NUMBA_ENABLE_CUDASIM=1 set before Numba is imported")
        if importlib.util.find_spec("greenlet") is None:
            raise MissingDependencyError("device 'cuda-sim' needs greenlet: pip install 'dynstore[test]'")
        return _make("cuda-sim")
    raise unknown_device(device)


def unknown_device(name: object) -> InputError:
    """Build the error for a device that does not exist."""
    if str(name).lower() == "gpu":  # of the known names "cpu" is the closest
        return InputError(f"device: unknown device {name!r}; known: 'auto', 'cpu', 'cuda'. Did you mean 'cuda'?")
    return unknown_name("device", "device", name, DEVICES)
