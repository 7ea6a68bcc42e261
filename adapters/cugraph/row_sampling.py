"""Sampling in-neighbours with pylibcugraph, on borrowed rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.adapters.cugraph.borrowed.loading import load_bridge
from dynstore.adapters.cugraph.direct import thread_handle
from dynstore.adapters.cugraph.live_graph import lend_numbered
from dynstore.adapters.cugraph.packed import packed_rows
from dynstore.adapters.libraries import require
from dynstore.algorithms.sampling.hops import pick_neighbors
from dynstore.errors import MissingDependencyError

if TYPE_CHECKING:
    from dynstore.algorithms.sampling.hops import Fanout, Pick
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["can_sample", "pick_borrowed"]

CALLER = "cuGraph"


def can_sample(G: DynamicGraph) -> bool:
    """Return whether pylibcugraph can sample the graph's rows where they are."""
    try:
        return G.backend.on_gpu and load_bridge().borrowed_graph is not None
    except MissingDependencyError:
        return False


def pick_borrowed(G: DynamicGraph, call: str) -> Pick:
    """Return what chooses in-neighbours of the current version by pylibcugraph.

    It samples a row only once a call, and at random. Where a row is there twice, our own kernels choose.
    """
    cupy, plc = require(CALLER, "cupy"), require(CALLER, "pylibcugraph")
    # cuGraph follows out-edges: here these are the in-edges of G.
    graph = lend_numbered(G, inward=True, transposed=False, call=call, weighted=False)
    dtype = packed_rows(G, True).indices.dtype
    own, num_vertices = pick_neighbors(G.snapshot(True)), G.number_of_vertices()

    def pick(rows: Array, fanout: Fanout, seed: int) -> tuple[Array, Array]:
        order = cupy.argsort(rows)
        ordered = rows[order]
        if fanout.most == 0 or bool((ordered[1:] == ordered[:-1]).any()):
            return own(rows, fanout, seed)
        starts = rows.astype(dtype)
        cupy.cuda.get_current_stream().synchronize()  # cuGraph's stream waits only for default streams
        found = plc.homogeneous_uniform_neighbor_sample(
            thread_handle(),
            graph,
            starts,
            None,
            np.array([fanout.most], dtype=np.int32),
            with_replacement=fanout.replace,
            do_expensive_check=False,
            random_state=seed >> 1,  # as a signed integer, too
        )
        places = order[cupy.searchsorted(ordered, found["majors"].astype(np.int64))]
        keys = cupy.sort(places * num_vertices + found["minors"].astype(np.int64))  # cuGraph promises no order
        return keys // num_vertices, keys % num_vertices

    return pick
