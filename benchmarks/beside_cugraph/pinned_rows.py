"""cuGraph on rows in pinned host memory: ``python -m benchmarks.beside_cugraph.pinned_rows``.

cuGraph borrows packed rows of a symmetric R-MAT graph, numbered by falling degree. Their destinations lie on the device
or in pinned host memory; offsets and ids lie on the device. cuGraph's functions run unchanged on both. For each it
prints both times, and how many times as long it takes on pinned rows. It exits with 1 if the answers differ.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.documents import write_document
from benchmarks.rmat_pieces import OUT, RmatGraph
from dynstore.adapters.cugraph.borrowed.loading import load_bridge
from dynstore.adapters.cugraph.row_order import measure_rows, segments_of
from dynstore.adapters.libraries import require
from dynstore.adapters.memory import share_pool
from dynstore.backend import get_backend
from dynstore.bench.module_command import run_as_command
from dynstore.bench.outputs import check_outputs
from dynstore.bench.timing import percentiles, quiet, time_call
from dynstore.errors import InputError, MissingDependencyError, unknown_name
from dynstore.gts.links import make_link

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["ALGORITHMS", "main"]

PLACES = ("device", "pinned")
ITERATIONS = 10
# Louvain's modularity and PageRank's ranks in sum differ by less between two runs.
TOLERANCE = 1e-2


def _search(library: Any, handle: Any, graph: Any, start: Array) -> Any:
    return library.bfs(handle, graph, start, True, -1, True, False)[0]


def _rank(library: Any, handle: Any, graph: Any, start: Array) -> Any:
    return library.pagerank(
        handle, graph, None, None, None, None, 0.85, 0.0, ITERATIONS, False, fail_on_nonconvergence=False
    )[1]


def _label(library: Any, handle: Any, graph: Any, start: Array) -> Any:
    return library.weakly_connected_components(handle, graph, None, None, None, None, False)[1]


def _peel(library: Any, handle: Any, graph: Any, start: Array) -> Any:
    return library.core_number(handle, graph, "bidirectional", False)[1]


def _cluster(library: Any, handle: Any, graph: Any, start: Array) -> float:
    return float(library.louvain(handle, graph, 100, 1e-7, 1.0, False)[2])


EXACT, LOOSE, PARTITION = "exact", "loose", "partition"
# name -> its call, which returns what is compared; how that is compared; whether rows are destinations
ALGORITHMS: dict[str, tuple[Callable[..., Any], str, bool]] = {
    "bfs": (_search, EXACT, False),
    "weakly_connected_components": (_label, PARTITION, False),
    "pagerank": (_rank, LOOSE, True),
    "core_number": (_peel, EXACT, False),
    "louvain": (_cluster, LOOSE, False),
}


class _HostRows:
    """An array of pinned host memory, as kernels see it: the same address holds on the device."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False), "version": 3,
            "strides": None,
        }  # fmt: skip


class _Lender:
    """The rows of a graph in both places, and what cuGraph needs to borrow them."""

    def __init__(self, graph: RmatGraph, borrowed_graph: Any) -> None:
        self.backend, self._borrowed_graph = graph.backend, borrowed_graph
        backend, xp = graph.backend, graph.backend.xp
        parts = list(graph.pieces(OUT))
        degrees, indices = (xp.concatenate([part[column] for part in parts]) for column in (0, 1))
        del parts
        if indices.shape[0] > np.iinfo(np.int32).max:
            raise InputError(f"pinned_rows: the graph has {indices.shape[0]} edges; wanted fewer than 2**31")
        self.offsets = backend.zeros(graph.num_vertices + 1, np.int32)
        self.offsets[1:] = xp.cumsum(degrees)
        self.ids = xp.arange(graph.num_vertices, dtype=np.int32)
        self.start = xp.zeros(1, dtype=np.int32)
        self.num_edges = int(indices.shape[0])
        self._link = make_link(backend, 1, 0)
        self._on_host = self._link.empty_pinned(self.num_edges, np.int32)
        self._link.fetch(self._on_host, indices)
        self._indices = {"device": indices, "pinned": _HostRows(self._on_host) if backend.on_gpu else self._on_host}
        self._segments = segments_of(measure_rows(backend.to_host(self.offsets))) or (-1, -1)

    def lend(self, place: str, transposed: bool) -> Any:
        """Return a graph for one call."""
        wide, medium = self._segments
        return self._borrowed_graph(
            self.offsets, self._indices[place], None, self.ids, symmetric=True, transposed=transposed,
            end_of_wide=wide, end_of_medium=medium,
        )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beside_cugraph.pinned_rows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scale", type=int, default=22, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="drawn edges for each vertex")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help="some of these, by comma")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    check_outputs(given.json)
    names = given.algorithms.split(",")
    for name in names:
        if name not in ALGORITHMS:
            raise unknown_name("pinned_rows", "algorithm", name, ALGORITHMS)
    library = require("pinned_rows", "pylibcugraph")
    backend = get_backend(given.device)
    bridge = load_bridge()
    if bridge.borrowed_graph is None:
        raise MissingDependencyError(f"pinned_rows: cuGraph cannot borrow rows here: {bridge.reason}")
    if backend.on_gpu:
        share_pool()
    lender = _Lender(RmatGraph(backend, given.scale, given.edge_factor, given.seed, True), bridge.borrowed_graph)
    print(f"{lender.num_edges} edges of {1 << given.scale} vertices")
    print(f"{'algorithm':<28} {'device ms':>11} {'pinned ms':>11} {'times':>6}")
    rows: list[dict[str, Any]] = []
    agree = True
    for name in names:
        times, answers = _measure(library, lender, name, given.repeats)
        device, pinned = (float(np.median(times[place])) for place in PLACES)
        print(f"{name:<28} {device:11.3f} {pinned:11.3f} {pinned / device:6.2f}", flush=True)
        rows += [_row(backend, lender, name, place, times[place]) for place in PLACES]
        if not _are_equal(backend, answers["device"], answers["pinned"], ALGORITHMS[name][1]):
            print(f"DISAGREEMENT: {name} has another answer on pinned rows")
            agree = False
        if given.json is not None:
            dataset = {
                "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": 1 << given.scale,
                "edges": given.edge_factor << given.scale, "seed": given.seed,
            }  # fmt: skip
            module = "beside_cugraph.pinned_rows"
            write_document(given.json, "pinned-rows", arguments, dataset, rows, agree, module=module)
    return int(not agree)


def _measure(library: Any, lender: _Lender, name: str, repeats: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Return times in ms and an answer, by place; both places take turns."""
    call, _, transposed = ALGORITHMS[name]
    handle = library.ResourceHandle()
    times: dict[str, list[float]] = {place: [] for place in PLACES}
    answers: dict[str, Any] = {}
    for turn in range(repeats + 1):
        for place in PLACES:
            graph = lender.lend(place, transposed)
            with quiet():
                answers[place], passed_ms = time_call(lender.backend, call, library, handle, graph, lender.start)
            if turn:  # the first turn warms up
                times[place].append(passed_ms)
    return times, answers


def _are_equal(backend: Backend, one: Any, other: Any, how: str) -> bool:
    if how == LOOSE:
        return float(abs(one - other).sum() if hasattr(one, "shape") else abs(one - other)) <= TOLERANCE
    if how == PARTITION:  # any vertex may stand for a component
        one, other = (_first_of_each(backend, labels) for labels in (one, other))
    return bool((one == other).all())


def _first_of_each(backend: Backend, labels: Array) -> Array:
    """Return for each entry the place of the first one with the same label."""
    _, first, numbers = backend.xp.unique(labels, return_index=True, return_inverse=True)
    places: Array = first[numbers]
    return places


def _row(backend: Backend, lender: _Lender, name: str, place: str, times: list[float]) -> dict[str, Any]:
    return {
        "store": f"cuGraph, {place} rows", "device": backend.name, "operation": "algorithm", "algorithm": name,
        "batch": 0, "edges": lender.num_edges, "steps": len(times), **percentiles(times), "bytes": None,
    }  # fmt: skip


if __name__ == "__main__":
    run_as_command(main)
