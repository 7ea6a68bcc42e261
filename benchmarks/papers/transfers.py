"""Copies between host and device beside updates and BFS (GPMA, Fig. 11), on one GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.papers.data import DATA_SETS
from benchmarks.papers.figures.printed import BESIDE, COPIES, IN_TURN
from dynstore.algorithms.registry import find_algorithm

if TYPE_CHECKING:
    from benchmarks.papers.bench import Bench
    from dynstore.backend import Backend
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["hidden_transfers"]

SLIDES = (0.0001, 0.001, 0.01)


class _Lane:
    """A stream for copies between the device and pinned memory of the host; on the host plain copies."""

    def __init__(self, backend: Backend) -> None:
        self._cuda = backend.xp.cuda if backend.on_gpu else None
        self._stream: Any = self._cuda.Stream(non_blocking=True) if self._cuda else None

    def pinned(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return host memory, int32."""
        if self._cuda is None:
            return np.empty(shape, np.int32)
        count = int(np.prod(shape))
        memory = self._cuda.alloc_pinned_memory(4 * count)
        return np.frombuffer(memory, np.int32, count).reshape(shape)

    def begin(self, target: Any, source: Any) -> None:
        """Begin to copy from one side to the other; both are packed and of one size."""
        if self._cuda is None:
            target[...] = source
            return
        runtime = self._cuda.runtime
        if isinstance(target, np.ndarray):
            to, out_of, kind = target.ctypes.data, source.data.ptr, runtime.memcpyDeviceToHost
        else:
            to, out_of, kind = target.data.ptr, source.ctypes.data, runtime.memcpyHostToDevice
        runtime.memcpyAsync(to, out_of, source.nbytes, kind, self._stream.ptr)

    def wait(self) -> None:
        if self._stream is not None:
            self._stream.synchronize()


class _TransferStream:
    """A window's batches in the host's memory, two of them at a time on the device, and the distances of a BFS."""

    def __init__(self, bench: Bench, size: int, steps: int) -> None:
        self.bench, self.size, self.lane = bench, size, _Lane(bench.backend)
        self.low, self.half = 0, len(bench.ring) // 2
        self.graph = bench.built(0, self.half)
        self.graph.insert_vertices([bench.ring.num_vertices - 1])  # so that all distances are equally long
        self.batches = self.lane.pinned((steps, 4, size))
        for step in range(steps):
            leaving = bench.rows(step * size, (step + 1) * size)
            entering = bench.rows(self.half + step * size, self.half + (step + 1) * size)
            for k, column in enumerate((*leaving, *entering)):
                self.batches[step, k] = bench.backend.to_host(column)
        self.buffers = [bench.backend.empty((4, size), np.int32) for _ in range(2)]
        self.distances = self.lane.pinned((bench.ring.num_vertices,))

    def send(self, step: int) -> None:
        self.lane.begin(self.buffers[step % 2], self.batches[step])

    def update(self, step: int) -> None:
        batch = self.buffers[step % 2]
        self.graph.delete_edges((batch[0], batch[1]))
        self.graph.insert_edges((batch[2], batch[3]))

    def search(self) -> Array:
        return _distances(self.graph, int(self.bench.ring.src[0]))

    def check(self, steps: int) -> None:
        self.bench.check_edges(self.graph, steps * self.size, self.half + steps * self.size)


def hidden_transfers(bench: Bench) -> None:
    """Slide a window whose batches come from the host and whose distances go there: in turn, then beside the work."""
    half = len(bench.ring) // 2
    for share in SLIDES:
        size = max(1, round(share * len(bench.ring)))
        paper = round(share * DATA_SETS[bench.ring.name].num_edges)
        steps = min(bench.job.steps + 1, half // size)
        in_turn = _TransferStream(bench, size, steps)
        for step in range(steps):
            times = _slide_in_turn(in_turn, step)
            if step:  # the first one warms up
                update, search, copies = times
                bench.note("update", update, size, paper, half, "update")
                bench.note("algorithm", search, size, paper, half, "BFS", "bfs")
                bench.note("total", copies, size, paper, half, COPIES)
                bench.note("total", update + search + copies, size, paper, half, IN_TURN)
        in_turn.check(steps)
        _compare(bench, in_turn, size)
        beside = _TransferStream(bench, size, steps)
        beside.send(0)
        beside.lane.wait()
        last: Array | None = None
        for step in range(steps):
            last, passed_ms = bench.timed(_slide_beside, beside, step, last)
            if step:
                bench.note("total", passed_ms, size, paper, half, BESIDE)
        beside.check(steps)
        beside.lane.begin(beside.distances, last)
        beside.lane.wait()
        _compare(bench, beside, size)
    if not bench.backend.on_gpu:
        bench.remark("on the host there is nothing to hide")


def _compare(bench: Bench, stream: _TransferStream, size: int) -> None:
    """Compare the distances that have come to the host with those of the contestants, and the way, before."""
    found, places = stream.distances.astype(np.int64), np.arange(1, stream.distances.shape[0] + 1)
    bench.agree(f"distances after slides of {size}", int((found * places).sum()))


def _slide_in_turn(stream: _TransferStream, step: int) -> tuple[float, float, float]:
    """Copy, work, copy; return the ms of the update, the BFS and both copies."""
    timed, lane = stream.bench.timed, stream.lane

    def copied(begin: Any, *arguments: Any) -> float:
        def copy() -> None:
            begin(*arguments)
            lane.wait()

        return timed(copy)[1]

    sending = copied(stream.send, step)
    _, updating = timed(stream.update, step)
    distances, searching = timed(stream.search)
    return updating, searching, sending + copied(lane.begin, stream.distances, distances)


def _slide_beside(stream: _TransferStream, step: int, last: Array | None) -> Array:
    """Send the next batch and fetch the last distances while this batch is worked on."""
    if step + 1 < stream.batches.shape[0]:
        stream.send(step + 1)
    if last is not None:
        stream.lane.begin(stream.distances, last)
    stream.update(step)
    distances = stream.search()
    stream.lane.wait()
    return distances


def _distances(graph: DynamicGraph, start: int) -> Array:
    """Return the distances of a BFS by vertex, int32, in the device's memory."""
    frame = find_algorithm("bfs").function(graph, start)
    return graph.core.backend.xp.ascontiguousarray(graph.core.backend.asarray(frame["distance"].values, np.int32))
