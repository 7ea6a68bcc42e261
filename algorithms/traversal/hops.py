"""The vertices within some hops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.inputs import read_vertices, to_ids
from dynstore.algorithms.traversal.by_row import search_hops
from dynstore.arguments import check_integer
from dynstore.errors import InputError
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Frame

__all__ = ["k_hop"]


def k_hop(G: AnyGraph, vertices: Any, k: int) -> Frame:
    """Find the vertices within ``k`` edges of some vertices; see :meth:`dynstore.DynamicGraph.k_hop`."""
    if check_integer("k_hop", "k", k) < 0:
        raise InputError(f"k_hop: k is {k}; wanted 0 or more")
    sources = np.unique(read_vertices(G, "k_hop", "vertices", vertices))
    unreached = int(np.iinfo(G.vertex_dtype).max)
    limit = min(int(k), unreached)
    distances, _ = search_hops(G, sources, limit, False)
    rows = G.core.backend.xp.nonzero(distances != unreached)[0]
    rows = G.core.ids.by_id(rows.astype(G.vertex_dtype), G.number_of_vertices())
    return make_frame(G.core.backend, {"vertex": to_ids(G, rows), "distance": distances[rows]}, G.core.frames)
