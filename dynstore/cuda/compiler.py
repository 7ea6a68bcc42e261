"""Compiling and launching kernels; no other file names ``numba.cuda``.

Kernels use the ``cuda`` of this module, for ``cuda.grid(1)`` and the like. Our simulator (``NUMBA_ENABLE_CUDASIM=1``)
runs the same kernels without a GPU, in blocks of 32 threads.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from numba import config

from dynstore.cuda.launch import (
    Entry,
    Packed,
    ResidentOrder,
    describe_arguments,
    find_entry,
    start_entry,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Records = Mapping[str, Any]  # for each parameter that is a record, its NamedTuple class

config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from numba import cuda as _numba_cuda
    from numba.cuda.extending import intrinsic

__all__ = [
    "MAX_RESIDENT_BLOCKS",
    "SIMULATED",
    "THREADS",
    "WARP",
    "Kernel",
    "Parameters",
    "around_launches",
    "cuda",
    "device",
    "intrinsic",
    "kernel",
    "prepare",
    "unavailable",
]

SIMULATED = bool(config.ENABLE_CUDASIM)
cuda: Any = _numba_cuda

if SIMULATED:
    from dynstore.cuda import simulator

    cuda = simulator.cuda

WARP = 32
THREADS = WARP if SIMULATED else 256
# In the simulator each GPU thread is a Python call, so grid-stride kernels get one small grid there.
MAX_STRIDE_BLOCKS = 2 if SIMULATED else 132 * 16
# Blocks that wait for each other must be on the GPU at the same time.
MAX_RESIDENT_BLOCKS = 3 if SIMULATED else 1024


_Launch = tuple[Any, ...]  # `Kernel._run` and its arguments


class _Prepared(threading.local):
    """The launches that a host thread prepares, to start them later; None if launches start at once."""

    launches: list[_Launch] | None = None


_prepared = _Prepared()


class Parameters:
    """What a kernel is launched with, and which of that it reads as records: neighbouring parameters as one NamedTuple.

    Numba takes a record apart again, so the compiled kernel has the same parameters, in the same order, as one without.
    """

    def __init__(self, function: Callable[..., None], records: Records | None = None) -> None:
        self._function, self._records = function, records or {}
        if records and (unknown := records.keys() - set(self._names)):
            raise TypeError(f"{function.__name__} has no parameters {sorted(unknown)}")

    @property
    def _names(self) -> tuple[str, ...]:
        code = self._function.__code__
        return code.co_varnames[: code.co_argcount]

    @property
    def count(self) -> int:
        """The arguments of a launch: those of records one by one."""
        return len(self._names) + sum(len(kind._fields) - 1 for kind in self._records.values())

    def group_values(self, flat: Sequence[Any]) -> list[Any]:
        """Return the arguments of a launch as the kernel's function takes them."""
        return self._group(flat, lambda values, kind: kind(*values))

    def group_types(self, flat: Sequence[Any]) -> tuple[Any, ...]:
        """Return the Numba types of a launch's arguments as those of the function's parameters."""
        from numba import types

        return tuple(self._group(flat, types.NamedTuple))

    def _group(self, flat: Sequence[Any], make: Callable[[tuple[Any, ...], Any], Any]) -> list[Any]:
        if not self._records:
            return list(flat)
        if len(flat) != self.count:
            raise TypeError(f"{self._function.__name__} got {len(flat)} arguments; wanted {self.count}")
        rest, kinds = iter(flat), map(self._records.get, self._names)
        return [next(rest) if kind is None else make(tuple(islice(rest, len(kind._fields))), kind) for kind in kinds]


class Kernel:
    """A kernel and the ways to start it on CuPy's current stream."""

    def __init__(
        self,
        function: Callable[..., None],
        max_registers: int | None = None,
        threads: int = THREADS,
        records: Records | None = None,
    ) -> None:
        self.name, self.threads, self.parameters = function.__name__, threads, Parameters(function, records)
        self.__doc__ = function.__doc__
        limits = {} if SIMULATED or max_registers is None else {"max_registers": max_registers}
        self._compiled = function if SIMULATED else cuda.jit(function, **limits)
        self._entries: dict[tuple[Any, ...], Entry] = {}  # by the arguments' kinds

    def launch(self, num_threads: int, *args: Any) -> None:
        """Start at least ``num_threads`` threads (whole blocks); nothing for 0."""
        if num_threads > 0:
            self._start(-(-num_threads // self.threads), args)

    def launch_warps(self, num_warps: int, *args: Any) -> None:
        """Start at least ``num_warps`` whole warps; nothing for 0."""
        self.launch(num_warps * WARP, *args)

    def launch_strided(self, num_threads: int, *args: Any) -> None:
        """Start at most as many threads as fill the GPU; the kernel has grid-stride loops."""
        if num_threads > 0:
            self._start(min(-(-num_threads // self.threads), MAX_STRIDE_BLOCKS), args)

    def launch_resident(self, num_threads: int, *args: Any) -> None:
        """Start at most as many blocks as the GPU holds at once, so that they may wait for each other (``grid``).

        Only one such kernel runs at a time, whatever the streams.
        """
        if num_threads > 0:
            self._start(min(-(-num_threads // self.threads), MAX_RESIDENT_BLOCKS), args, True)

    def _start(self, blocks: int, args: tuple[Any, ...], resident: bool = False) -> None:
        launches = _prepared.launches
        if launches is None:
            self._run(blocks, resident, self._find(args), args)
        else:
            launches.append((self._run, blocks, resident, self._find(args), args))

    def _find(self, args: tuple[Any, ...]) -> tuple[Entry, list[Any]] | None:
        """Return the compiled and loaded kernel for these arguments, and their values; None in the simulator."""
        if SIMULATED:
            return None
        kinds, values = describe_arguments(args)
        entry = self._entries.get(kinds)
        if entry is None:
            entry = self._entries[kinds] = find_entry(self._compiled, kinds, self.threads, self.parameters.group_types)
        return entry, values

    def _run(self, blocks: int, resident: bool, found: tuple[Entry, list[Any]] | None, args: tuple[Any, ...]) -> None:
        """Start the kernel that ``_find`` returned; ``args`` keeps the arrays alive until then."""
        if found is None:
            simulator.launch(self._compiled, blocks, self.threads, self.parameters.group_values(_unpacked(args)))
            return
        entry, values = found
        cuda = _cupy().cuda
        stream = cuda.get_current_stream()
        if resident:
            _resident_order(cuda).start(entry, min(blocks, entry.resident_blocks), self.threads, stream, values)
        else:
            start_entry(entry, blocks, self.threads, stream.ptr, values)


def kernel(
    function: Callable[..., None],
    max_registers: int | None = None,
    threads: int = THREADS,
    records: Records | None = None,
) -> Kernel:
    """Decorate a kernel ``k_verb_noun``.

    ``max_registers`` is a limit per thread, ``threads`` the size of a block. ``records``: the classes of parameters
    that are records; launches pass what these hold one by one (:class:`Parameters`).
    """
    return Kernel(function, max_registers, threads, records)


def device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a device function ``d_verb_noun``."""
    return function if SIMULATED else cuda.jit(device=True)(function)


def prepare(write: Callable[..., None], *args: Any) -> Callable[[], None]:
    """Find all kernels that ``write(*args)`` launches; return a function that launches them in the same order.

    So a kernel that cannot be compiled or loaded fails here, before any other has written. ``write`` must only launch
    kernels: anything else that it does happens here, too early.
    """
    launches: list[_Launch] = []
    outer = _prepared.launches
    try:
        _prepared.launches = launches
        write(*args)
    finally:
        _prepared.launches = outer
    return partial(_start_all, launches)


@contextmanager
def around_launches(start: Callable[[str, Callable[[], None]], None]) -> Iterator[None]:
    """Start each kernel of the ``with`` block by ``start(name, launch)``, which calls ``launch()``; used for timing."""
    run = Kernel._run

    def run_around(self: Kernel, *launch: Any) -> None:
        start(self.name, partial(run, self, *launch))

    Kernel._run = run_around  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        Kernel._run = run  # type: ignore[method-assign]


def _start_all(launches: list[_Launch]) -> None:
    if _prepared.launches is not None:
        _prepared.launches += launches
        return
    for run, *launch in launches:
        run(*launch)


def _unpacked(arguments: tuple[Any, ...]) -> list[Any]:
    """Return the arguments with packed arrays unpacked."""
    return [each for one in arguments for each in (one.arrays if isinstance(one, Packed) else (one,))]


@lru_cache(maxsize=1)
def _cupy() -> Any:
    import cupy

    return cupy


_resident_orders: dict[int, ResidentOrder] = {}  # by GPU


def _resident_order(cuda: Any) -> ResidentOrder:
    gpu = cuda.runtime.getDevice()
    order = _resident_orders.get(gpu)
    return _resident_orders.setdefault(gpu, ResidentOrder(cuda)) if order is None else order


def unavailable() -> str | None:
    """Return why Numba cannot launch kernels here, or None if it can; tries it with a small kernel."""
    import cupy

    probe = cupy.zeros(1, dtype=cupy.int32)
    try:
        k_probe.launch(1, probe)
        return None if int(probe[0]) == 1 else "a Numba kernel ran and wrote nothing"
    except Exception as error:  # numba-cuda fails in many ways on mismatched packages
        return f"Numba cannot compile or start a kernel: {type(error).__name__}: {error}"


@kernel
def k_probe(written):
    """The first thread writes a 1."""
    if cuda.grid(1) == 0:
        written[0] = 1
