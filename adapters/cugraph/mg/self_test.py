"""The test of lending on several GPUs, at first use: cuGraph's struct, then answers beside dynstore's own.

All ranks run it. So it cannot run in a process of its own, as that for one GPU does; that one has run before.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.cugraph.mg.links import CALLER, RankConnection
from dynstore.adapters.libraries import require
from dynstore.distributed import ShardedGraph, bfs, pagerank
from dynstore.distributed.calls import Collective
from dynstore.errors import MissingDependencyError

if TYPE_CHECKING:
    from dynstore.distributed.communicator import Communicator

__all__ = ["check_link"]

# Of ranks: both stop when these change by less than 1e-6 in sum, and add up in another order.
TOLERANCE = 2e-5
SIZE = 64


def check_link(comm: Communicator, link: RankConnection, lend: Callable[..., Any]) -> None:
    """Compare cuGraph's answers on lent rows with dynstore's own. All ranks call it.

    Parameters
    ----------
    comm : Communicator
    link : Link
    lend : callable
        Makes a graph of cuGraph's from a sharded graph.

    Raises
    ------
    MissingDependencyError
        If something is wrong on any rank.
    """
    problem = _agreed(comm, _problem_of_layout(comm, link))
    for ids, weighted in (("int32", False), ("int64", True)) if problem is None else ():
        problem = problem or _problem_of_answers(comm, link, lend, ids, weighted)
    if problem is not None:
        raise MissingDependencyError(
            f"{CALLER}: the library failed its self-test on several GPUs: {problem}; build a pylibcugraph.MGGraph of "
            "edge_table() instead"
        )


def _agreed(comm: Communicator, problem: str | None) -> str | None:
    """Return the first problem of any rank, and which rank that is."""
    with Collective(comm, CALLER) as call:
        found = [f"rank {rank}: {text}" for rank, text in enumerate(call.agree(problem)) if text is not None]
    return found[0] if found else None


def _problem_of_layout(comm: Communicator, link: RankConnection) -> str | None:
    """Compare the struct of rings that cuGraph has made with the one that the library writes; all ranks do all."""
    cupy, plc = require(CALLER, "cupy"), require(CALLER, "pylibcugraph")
    problem = None
    for ids, weighted, transposed in product(("int32", "int64"), (False, True), (False, True)):
        own = np.arange(SIZE, dtype=ids)[comm.rank :: comm.size]
        src, dst = cupy.asarray(own), cupy.asarray((own + 1) % SIZE)
        weights = cupy.asarray(np.ones(len(own), np.float32)) if weighted else None
        cupy.cuda.get_current_stream().synchronize()
        made = plc.MGGraph(
            link.handle,
            plc.GraphProperties(is_symmetric=False, is_multigraph=False),
            [src],
            [dst],
            weight_array=None if weights is None else [weights],
            store_transposed=transposed,
            num_arrays=1,
        )
        kinds = src.dtype.str, "<f4", weighted, transposed, True, SIZE
        problem = problem or link.bridge.borrowed_graph.problem_of_layout(made, *kinds)
    return None if problem is None else f"cuGraph's graphs have changed: {problem}"


def _problem_of_answers(
    comm: Communicator, link: RankConnection, lend: Callable[..., Any], ids: str, weighted: bool
) -> str | None:
    """Compare hops and ranks of a directed graph with a long row, a middling one and short ones; all ranks do both."""
    plc, cupy = require(CALLER, "pylibcugraph"), require(CALLER, "cupy")
    most = 1200
    short = np.arange(100, most)
    src = np.concatenate((np.zeros(1100, int), np.full(40, 1), short, short))
    dst = np.concatenate((np.arange(1, 1101), np.arange(1100, 1140), (short * 7 + 3) % most, (short + 500) % most))
    columns = [src, dst, 0.5 + (src + dst) % 3] if weighted else [src, dst]
    G = ShardedGraph(comm, vertex_dtype=ids, weighted=weighted, frames="pandas")
    G.insert_edges(tuple(column[comm.rank :: comm.size] for column in columns))
    hops = bfs(G, 0, return_predecessors=False)["distance"].to_numpy()
    ranked: Any = pagerank(G, tol=1e-6)
    ranks = ranked["pagerank"].to_numpy()
    sources = cupy.asarray(np.array([0] if comm.rank == 0 else [], dtype=ids))
    found, _, vertices = plc.bfs(link.handle, lend(G, link, False, False), sources, False, -1, True, False)
    problem = _difference("hops", cupy.asnumpy(vertices), cupy.asnumpy(found), hops, 0)
    rest = (None, None, None, None, 0.85, 1e-6, 100, False, False)
    vertices, found = plc.pagerank(link.handle, lend(G, link, True), *rest)[:2]
    problem = problem or _difference("ranks", cupy.asnumpy(vertices), cupy.asnumpy(found), ranks, TOLERANCE)
    return _agreed(comm, problem and f"{ids}: {problem}")


def _difference(what: str, vertices: np.ndarray, found: np.ndarray, wanted: np.ndarray, tolerance: float) -> str | None:
    """Return how many answers for some vertices are wrong, or None."""
    wrong = int((np.abs(found.astype(np.float64) - wanted[vertices]) > tolerance).sum())
    return f"{wrong} of {len(vertices)} {what} are wrong" if wrong else None
