"""``maximum_spanning_tree`` of a live graph.

cuGraph 26.10 hands an adjacency list to C++ here, with as many rows as the graph has vertices. A live graph's list has
a row for each id up to the highest, so C++ would read past its end. pylibcugraph's ``minimum_spanning_tree`` takes a
graph instead, whatever its ids are. The weights change their signs before and after.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.cugraph.direct import thread_handle
from dynstore.adapters.cugraph.live_graph import build_graph
from dynstore.adapters.cugraph.packed import packed_rows
from dynstore.adapters.cugraph.shown import STRING
from dynstore.adapters.libraries import require
from dynstore.algorithms.calls import Call, note_call

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph

__all__ = ["find_maximum_tree"]

CALLER = "maximum_spanning_tree"
WEIGHT = "weight"


def find_maximum_tree(G: DynamicGraph) -> Any:
    """Return what ``cugraph.maximum_spanning_tree`` returns for an undirected graph: a new ``cugraph.Graph``.

    Without weights each edge counts 1.
    """
    cupy, cudf, plc = require(CALLER, "cupy"), require(CALLER, "cudf"), require(CALLER, "pylibcugraph")
    rows = packed_rows(G)
    weights = cupy.full(rows.indices.shape[0], 1, dtype=np.float32) if rows.weights is None else rows.weights
    graph = build_graph(replace(rows, weights=-weights), True, False)
    reason = "weights with other signs; SGGraph sorts and numbers the rows anew"
    note_call(G, Call(CALLER, "rebuilt", rows.version, rows.copied, 2 * rows.copied_bytes, reason))
    src, dst, negated, _ = plc.minimum_spanning_tree(thread_handle(), graph, False)
    ends = {"src": cudf.Series(src), "dst": cudf.Series(dst)}
    if rows.ids.strings is not None:
        names = cudf.Series(rows.ids.strings)
        ends = {key: names.take(numbers).reset_index(drop=True).astype(STRING) for key, numbers in ends.items()}
    tree = require(CALLER, "cugraph").Graph()
    tree.from_cudf_edgelist(
        cudf.DataFrame({**ends, WEIGHT: -negated}), source="src", destination="dst", edge_attr=WEIGHT
    )
    return tree
