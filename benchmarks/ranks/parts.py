"""The parts of the measurement, by name: in a module of their own, as new processes do not import ``__main__``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from benchmarks.ranks.algorithms import measure_cugraph, measure_own
from benchmarks.ranks.bench import RankBench, RankSizes
from benchmarks.ranks.largest import measure_largest
from benchmarks.ranks.pages import measure_pages
from benchmarks.ranks.updates import measure_slides, measure_weak
from dynstore.adapters.libraries import require
from dynstore.bench.timing import quiet
from dynstore.distributed import Communicator
from dynstore.errors import MissingDependencyError

__all__ = ["PARTS", "run_part"]

PARTS: dict[str, Callable[[RankBench], None]] = {
    "weak": measure_weak,
    "own": measure_own,
    "cugraph": measure_cugraph,
    "slides": measure_slides,
    "pages": measure_pages,
    "largest": measure_largest,
}


def run_part(comm: Communicator, part: str, sizes: RankSizes, path: str) -> None:
    """Measure one part on this rank."""
    if comm.device == "cuda":
        with suppress(MissingDependencyError):  # without RMM CuPy has its own pool
            _choose_pool(part)
    # A collection before each timed call would take longer than the calls: 0.1 to 1 s with RAPIDS imported.
    with quiet():
        PARTS[part](RankBench(comm, sizes, path))


def _choose_pool(part: str) -> None:
    """Let CuPy and RAPIDS allocate from one pool.

    Arrays of several GB fill most of the memory in "largest". RMM's growing pool joins no free blocks of different
    allocations; that of the CUDA driver puts free pages together to large blocks.
    """
    from dynstore.adapters.memory import share_pool

    if part == "largest":
        rmm = require("ranks", "rmm")
        rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    share_pool()
