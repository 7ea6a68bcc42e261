"""Graphs whose edges lie in host memory: ``python -m benchmarks.out_of_core``.

An R-MAT graph is made on the device, piece by piece, and packed into pages of pinned host memory. Vertices are numbered
by falling degree, or as ``--order`` says. Algorithms then read the graph in each of several ways:

- zero-copy: kernels read plain pages in place;
- raw: plain pages are streamed through buffers;
- codec: encoded pages are streamed, and decoded inside the kernels;
- hybrid: of encoded pages, each pass takes the cheaper of both;
- codec-in-place: kernels read encoded pages in place;
- plain-hybrid: of plain pages, each pass takes the cheaper of both;
- gts: the same graph in slotted pages, streamed as in GTS, with the streams and copies that are best here;
- gts-paper: the same with 32 streams, a page a copy, and an LRU cache.

The last four run only if they are named. For each run it prints the median time, the bytes over the link, and the share
of the bound: the time that these bytes take at the link's measured speed, divided by the time taken. PageRank's figures
are those of one iteration. All ways have to give the same answers; else the exit status is 1. With ``--json`` the file
is written after each run, so that what is there stays if the rest is stopped. Progress is on stderr: a line before each
step, and in a terminal a bar while rows are drawn and packed.

Searches begin at the most connected vertex. Shortest paths (``sssp``) read weights of 1 to 100. Betweenness has
``--sources`` searches, which share their passes. Triangles need ``--symmetric``; with ``--triangle-bytes`` they come in
blocks.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.documents import write_document
from benchmarks.out_of_core.contest import (
    ALGORITHMS,
    NAMES,
    USUAL,
    USUAL_WAYS,
    WAYS,
    Contest,
    ContestPlan,
    Options,
    Run,
)
from benchmarks.out_of_core.slotted import SLOTTED, SLOTTED_ALGORITHMS
from benchmarks.rmat_pieces import ORDERS, RmatGraph
from dynstore.arguments import check_count
from dynstore.backend import get_backend
from dynstore.bench.outputs import check_outputs
from dynstore.bench.timing import percentiles
from dynstore.errors import InputError, unknown_name
from dynstore.stores.paged.links import measure_links

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.paged.links import Links

__all__ = ["ALGORITHMS", "SLOTTED", "USUAL", "USUAL_WAYS", "WAYS", "Run", "main"]

# The size in the link's row, and the memory that is copied and read to measure the link.
LINK_BYTES, COPIED_BYTES = 1 << 30, 1 << 28


def _listed(caller: str, text: str, known: Any) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            raise unknown_name("out_of_core", caller, name, known)
    return names


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the JSON of schema 1 on request; return 1 if two ways disagree."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.out_of_core",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scale", type=int, default=22, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="drawn edges for each vertex")
    parser.add_argument(
        "--ways", default=",".join(USUAL_WAYS), help="some of the above, by comma; the first four by default"
    )
    parser.add_argument("--resident", default="0", help="shares of the pages that stay on the device, by comma")
    parser.add_argument("--algorithms", default=",".join(USUAL), help=f"some of {', '.join(ALGORITHMS)}, by comma")
    parser.add_argument("--symmetric", action="store_true", help="each edge in both directions")
    parser.add_argument("--order", default=ORDERS[0], help=f"how vertices are numbered: {', '.join(ORDERS)}")
    parser.add_argument("--iterations", type=int, default=10, help="of PageRank")
    parser.add_argument("--sources", type=int, default=4, help="of betweenness")
    parser.add_argument("--triangle-bytes", type=int, help="device memory for triangles; default: a share of the free")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit-seconds", type=float, help="begin nothing more after so many seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    check_outputs(given.json)
    for name, least in {"edge_factor": 0, "iterations": 1, "repeats": 1}.items():
        check_count("out_of_core", f"--{name.replace('_', '-')}", getattr(given, name), least)
    ways, algorithms = _listed("way", given.ways, (*WAYS, *SLOTTED)), _listed("algorithm", given.algorithms, ALGORITHMS)
    if "triangles" in algorithms and not given.symmetric:
        raise InputError("out_of_core: triangles of a directed graph; wanted --symmetric")
    if not set(algorithms) & set(SLOTTED_ALGORITHMS) and not set(ways) & set(WAYS):
        raise InputError(f"out_of_core: {given.ways} do not have {given.algorithms}; wanted {SLOTTED_ALGORITHMS}")
    try:
        residents = [float(share) for share in given.resident.split(",")]
    except ValueError as error:
        raise InputError(f"out_of_core: --resident is {given.resident!r}; wanted numbers by comma") from error
    backend = get_backend(given.device)
    links = measure_links(backend, *backend.pinned(COPIED_BYTES // 4, np.uint32))
    print(f"link: {links.bytes_a_second / 1e9:.1f} GB/s, {links.requests_a_second / 1e6:.1f} M requests/s", flush=True)
    graph = RmatGraph(backend, given.scale, given.edge_factor, given.seed, given.symmetric, given.order)
    contest = Contest(graph, Options(given.iterations, given.sources, given.triangle_bytes))
    rows = [_link_row(backend, links)]

    def write() -> None:
        if given.json is not None:
            name = f"rmat:{given.scale}:{given.edge_factor}{_shown_order(given.order)}"
            edges = given.edge_factor << given.scale
            dataset = {"name": name, "vertices": graph.num_vertices, "edges": edges, "seed": given.seed}
            agree = not contest.disagreements
            write_document(given.json, "out-of-core", arguments, dataset, rows, agree, module="out_of_core")

    print(f"{'algorithm':<12} {'way':<14} {'resident':>8} {'ms':>10} {'link MB':>10} {'of all':>7} {'bound':>6}")
    for run in contest.measure(ContestPlan(ways, residents, algorithms, given.repeats, given.limit_seconds)):
        median = float(np.median(run.times))
        print(
            f"{run.algorithm:<12} {run.way:<14} {run.resident:8.2f} {median:10.3f} {run.link_bytes / 1e6:10.1f} "
            f"{run.link_bytes / max(run.pages_bytes, 1):7.1%} {run.bound_ms(links) / median:6.1%}",
            flush=True,
        )
        rows.append(_row(backend, run))
        write()
    write()
    for line in contest.disagreements:
        print(f"DISAGREEMENT: {line}")
    return int(bool(contest.disagreements))


def _shown_order(order: str) -> str:
    return "" if order == ORDERS[0] else f", {order} order"


def _row(backend: Backend, run: Run) -> dict[str, Any]:
    """Return a row of schema 1; ``bytes`` are those over the link."""
    return {
        "store": f"{run.way}, resident {run.resident:g}", "device": backend.name, "operation": "algorithm",
        "algorithm": NAMES[run.algorithm], "batch": 0, "edges": run.num_edges, "steps": len(run.times),
        **percentiles(run.times), "bytes": run.link_bytes,
    }  # fmt: skip


def _link_row(backend: Backend, links: Links) -> dict[str, Any]:
    """Return the row that the bounds follow from: the time of copying 1 GiB."""
    return {
        "store": "link", "device": backend.name, "operation": "convert", "algorithm": None, "batch": 0, "edges": 0,
        "steps": 1, **percentiles([LINK_BYTES / links.bytes_a_second * 1e3]), "bytes": LINK_BYTES,
    }  # fmt: skip
