"""Graphs whose edges lie in host memory: ``python -m dynstore.benchmarks.out_of_core``.

An R-MAT graph, numbered by falling degree, is made on the device, piece by piece, and packed into pages of pinned host
memory. Algorithms then read it in each of several ways:

- zero-copy: kernels read plain pages in place;
- raw: plain pages are streamed through buffers;
- codec: encoded pages are streamed, and decoded inside the kernels;
- hybrid: of encoded pages, each pass takes the cheaper of both.

For each run it prints the median time, the bytes over the link, and the share of the bound: the time that these bytes
take at the link's measured speed, divided by the time taken. PageRank's figures are those of one iteration. All ways
have to give the same answers.

Shortest paths (``sssp``) read weights of 1 to 100 from the most connected vertex on. Betweenness has ``--sources``
searches, which share their passes. Triangles need ``--symmetric``; with ``--triangle-bytes`` they come in blocks.

With ``--updates`` it also inserts batches of random edges into encoded rows, deletes them again, and flushes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynstore.algorithms.paged import (
    PagedGraph,
    PageReader,
    Traffic,
    betweenness_centrality,
    bfs,
    pagerank,
    sssp,
    triangle_count,
    weakly_connected_components,
)
from dynstore.backend import Backend, get_backend
from dynstore.benchmarks.module_command import run_as_command
from dynstore.benchmarks.outputs import check_outputs
from dynstore.benchmarks.rmat_pieces import INTO, OUT, RmatGraph
from dynstore.benchmarks.schema import write_document
from dynstore.benchmarks.timing import percentiles, quiet, time_call
from dynstore.errors import InputError, unknown_name
from dynstore.stores.paged.building import pack_pieces
from dynstore.stores.paged.layout import PagedRows
from dynstore.stores.paged.links import Links, measure_links

__all__ = ["ALGORITHMS", "USUAL", "WAYS", "Run", "main", "measure", "time_updates"]

# way -> whether pages are encoded, and how they are read
WAYS = {
    "zero-copy": (False, "zero-copy"),
    "raw": (False, "stream"),
    "codec": (True, "stream"),
    "hybrid": (True, "auto"),
}
NAMES = {
    "pagerank": "pagerank",
    "bfs": "bfs",
    "components": "weakly_connected_components",
    "sssp": "sssp",
    "triangles": "triangle_count",
    "betweenness": "betweenness_centrality",
}
ALGORITHMS = tuple(NAMES)
# Those that run unless others are named.
USUAL = ALGORITHMS[:3]
# Answers of float32 sums in another order differ by so much.
TOLERANCE = 1e-4
LINK_BYTES = 1 << 30


@dataclass
class Run:
    """One algorithm in one way.

    Attributes
    ----------
    way, algorithm : str
    resident : float
        The share of pages on the device.
    times : list of float
        ms of each call, or of each iteration.
    link_bytes : int
        Over the link in a call, or an iteration.
    pages_bytes : int
        Of all pages, with the weights if the algorithm reads them.
    num_edges : int
    """

    way: str
    algorithm: str
    resident: float
    times: list[float]
    link_bytes: int
    pages_bytes: int
    num_edges: int

    def bound_ms(self, links: Links) -> float:
        """Return how long these bytes take at least."""
        return self.link_bytes / links.bytes_a_second * 1e3


class Options(NamedTuple):
    """What algorithms do.

    Attributes
    ----------
    iterations : int
        Of PageRank.
    sources : int
        Of betweenness.
    triangle_bytes : int or None
        Device memory for the edges in which triangles are counted.
    """

    iterations: int = 10
    sources: int = 4
    triangle_bytes: int | None = None


class _Contest:
    """A graph, packed as the ways need it, and the first answers."""

    def __init__(self, graph: RmatGraph, options: Options) -> None:
        self.backend, self._graph, self._options = graph.backend, graph, options
        self._degrees: Any = None
        self._answers: dict[str, Any] = {}

    def pack(self, encode: bool, algorithms: list[str]) -> dict[str, PagedRows]:
        """Pack the directions that the algorithms read."""
        ranks = "pagerank" in algorithms
        if ranks and self._degrees is None:
            self._degrees = self._graph.out_degrees()
        packed: dict[str, PagedRows] = {}
        if self._graph.is_symmetric or set(algorithms) != {"pagerank"}:
            packed["out"] = self._pack(OUT, encode, "sssp" in algorithms)
        if ranks:
            packed["into"] = packed["out"] if self._graph.is_symmetric else self._pack(INTO, encode)
        return packed

    def _pack(self, kind: int, encode: bool, weighted: bool = False) -> PagedRows:
        graph, dtype = self._graph, np.float32 if weighted else None
        return pack_pieces(
            self.backend, graph.num_vertices, lambda: graph.pieces(kind, weighted), encode=encode, weight_dtype=dtype
        )

    def run(self, reader: PageReader, algorithm: str) -> Any:
        """Run an algorithm; return its answer."""
        symmetric = self._graph.is_symmetric
        if algorithm == "pagerank":
            return pagerank(reader, self._degrees, max_iter=self._options.iterations, tol=0.0)[0]
        if algorithm == "bfs":
            return bfs(reader, 0, symmetric=symmetric)[0]
        if algorithm == "sssp":
            return sssp(reader, 0)[0]
        if algorithm == "triangles":
            return triangle_count(reader, self._options.triangle_bytes)
        if algorithm == "betweenness":
            return betweenness_centrality(reader, self._options.sources, random_state=1, symmetric=symmetric)
        return weakly_connected_components(reader)

    def measure(self, packed: dict[str, PagedRows], way: str, resident: float, algorithm: str, repeats: int) -> Run:
        """Run once to warm up and compare the answer, then ``repeats`` times."""
        read = packed["into" if algorithm == "pagerank" else "out"]
        weighted = algorithm == "sssp"
        reader = PageReader(read, WAYS[way][1], resident, keep_weights=weighted)
        self._compare(algorithm, way, self.run(reader, algorithm))
        reader.keep_most_used()
        times, each = [], self._options.iterations if algorithm == "pagerank" else 1
        for _ in range(repeats):
            reader.traffic = Traffic()
            with quiet():
                times.append(time_call(self.backend, self.run, reader, algorithm)[1] / each)
        pages = int(read.page_bytes().sum()) + (int(read.weight_bytes().sum()) if weighted else 0)
        return Run(way, algorithm, resident, times, reader.traffic.link_bytes // each, pages, read.num_edges)

    def _compare(self, algorithm: str, way: str, answer: Any) -> None:
        first = self._answers.setdefault(algorithm, answer)
        if algorithm in ("pagerank", "betweenness"):
            agree = not bool((abs(first - answer) > TOLERANCE * first).any())  # betweenness may have NaN
        else:
            agree = bool((first == answer).all())
        if not agree:
            raise InputError(f"out_of_core: {algorithm} by {way} gives another answer than by the way before it")


def measure(
    contest: _Contest, ways: list[str], residents: list[float], algorithms: list[str], repeats: int
) -> Iterator[Run]:
    """Yield a run for each way, share of resident pages and algorithm; rows are packed when they are first needed."""
    for encode in (False, True):
        chosen = [way for way in ways if WAYS[way][0] == encode]
        if not chosen:
            continue
        packed = contest.pack(encode, algorithms)
        for kind, one in packed.items():
            sizes = one.bytes_an_edge()
            print(
                f"{kind:>4}: {one.num_edges} edges, {one.num_pages} pages, "
                f"{sizes['pages']:.3f} bytes an edge in pages, {sizes['leaves']:.3f} with heads and bases",
                flush=True,
            )
        for algorithm in algorithms:
            for way in chosen:
                for resident in residents:
                    yield contest.measure(packed, way, resident, algorithm, repeats)
        del packed  # before the next ones are made


def time_updates(contest: _Contest, batch: int, repeats: int, seed: int) -> dict[str, list[float]]:
    """Return ms by operation: insertions and deletions of ``batch`` random edges, and a flush after them.

    Raises
    ------
    InputError
        If the graph has not as many edges afterwards as before.
    """
    packed = contest.pack(True, ["pagerank", "components"])
    backend, num_vertices = contest.backend, packed["out"].num_vertices
    graph = PagedGraph(packed["out"], None if packed["into"] is packed["out"] else packed["into"])
    del packed  # so that a flush can give the pages back
    times: dict[str, list[float]] = {"insert": [], "delete": [], "flush": []}
    generator, before = backend.xp.random.default_rng(seed), graph.number_of_edges()
    for turn in range(repeats + 1):
        src, dst = (generator.integers(0, num_vertices, batch) for _ in range(2))
        is_new = ~graph.has_edges(src, dst)
        src, dst = src[is_new], dst[is_new]
        with quiet():
            found = {"insert": time_call(backend, graph.insert_edges, src, dst)[1]}
            if turn == repeats:
                found["flush"] = time_call(backend, graph.flush)[1]
            found["delete"] = time_call(backend, graph.delete_edges, src, dst)[1]
        if turn:  # the first turn warms up
            for operation, passed in found.items():
                times[operation].append(passed)
        if graph.number_of_edges() != before:
            raise InputError(f"out_of_core: {graph.number_of_edges()} edges after the updates; wanted {before}")
    return times


def _listed(caller: str, text: str, known: Any) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            raise unknown_name("out_of_core", caller, name, known)
    return names


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(
        prog="python -m dynstore.benchmarks.out_of_core",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scale", type=int, default=22, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="drawn edges for each vertex")
    parser.add_argument("--ways", default=",".join(WAYS), help="some of the above, by comma")
    parser.add_argument("--resident", default="0", help="shares of the pages that stay on the device, by comma")
    parser.add_argument("--algorithms", default=",".join(USUAL), help=f"some of {', '.join(ALGORITHMS)}, by comma")
    parser.add_argument("--symmetric", action="store_true", help="each edge in both directions")
    parser.add_argument("--iterations", type=int, default=10, help="of PageRank")
    parser.add_argument("--sources", type=int, default=4, help="of betweenness")
    parser.add_argument("--triangle-bytes", type=int, help="device memory for triangles; default: a share of the free")
    parser.add_argument("--updates", type=int, default=0, help="edges of a batch; 0: no updates")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    check_outputs(given.json)
    ways, algorithms = _listed("way", given.ways, WAYS), _listed("algorithm", given.algorithms, ALGORITHMS)
    if "triangles" in algorithms and not given.symmetric:
        raise InputError("out_of_core: triangles of a directed graph; wanted --symmetric")
    try:
        residents = [float(share) for share in given.resident.split(",")]
    except ValueError as error:
        raise InputError(f"out_of_core: --resident is {given.resident!r}; wanted numbers by comma") from error
    backend = get_backend(given.device)
    links = measure_links(backend)
    print(f"link: {links.bytes_a_second / 1e9:.1f} GB/s, {links.requests_a_second / 1e6:.1f} M requests/s", flush=True)
    graph = RmatGraph(backend, given.scale, given.edge_factor, given.seed, given.symmetric)
    contest = _Contest(graph, Options(given.iterations, given.sources, given.triangle_bytes))
    rows = [_link_row(backend, links)]
    print(f"{'algorithm':<12} {'way':<10} {'resident':>8} {'ms':>10} {'link MB':>10} {'of all':>7} {'bound':>6}")
    for run in measure(contest, ways, residents, algorithms, given.repeats):
        median = float(np.median(run.times))
        print(
            f"{run.algorithm:<12} {run.way:<10} {run.resident:8.2f} {median:10.3f} {run.link_bytes / 1e6:10.1f} "
            f"{run.link_bytes / max(run.pages_bytes, 1):7.1%} {run.bound_ms(links) / median:6.1%}",
            flush=True,
        )
        rows.append(_row(backend, run))
    if given.updates:
        for operation, values in time_updates(contest, given.updates, given.repeats, given.seed).items():
            median = float(np.median(values))
            print(f"{operation} of {given.updates}: {median:.3f} ms, {given.updates / median / 1e3:.2f} M edges/s")
            rows.append(_update_row(backend, operation, given.updates, values))
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": graph.num_vertices,
            "edges": given.edge_factor << given.scale, "seed": given.seed,
        }  # fmt: skip
        write_document(given.json, "out-of-core", arguments, dataset, rows)


def _row(backend: Backend, run: Run) -> dict[str, Any]:
    """Return a row of schema 1; ``bytes`` are those over the link."""
    return {
        "store": f"{run.way}, resident {run.resident:g}", "device": backend.name, "operation": "algorithm",
        "algorithm": NAMES[run.algorithm], "batch": 0, "edges": run.num_edges, "steps": len(run.times),
        **percentiles(run.times), "bytes": run.link_bytes,
    }  # fmt: skip


def _update_row(backend: Backend, operation: str, batch: int, values: list[float]) -> dict[str, Any]:
    """Return a row of schema 1; a flush is a "convert" of pages and changes to pages."""
    return {
        "store": "pages and delta", "device": backend.name,
        "operation": "convert" if operation == "flush" else operation, "algorithm": None, "batch": batch, "edges": 0,
        "steps": len(values), **percentiles(values), "bytes": None,
    }  # fmt: skip


def _link_row(backend: Backend, links: Links) -> dict[str, Any]:
    """Return the row that the bounds follow from: the time of copying 1 GiB."""
    return {
        "store": "link", "device": backend.name, "operation": "convert", "algorithm": None, "batch": 0, "edges": 0,
        "steps": 1, **percentiles([LINK_BYTES / links.bytes_a_second * 1e3]), "bytes": LINK_BYTES,
    }  # fmt: skip


if __name__ == "__main__":
    run_as_command(main)
