"""The store behind a ``dynstore`` graph class; it is updated by deltas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from itertools import islice
from typing import Any

import numpy as np

from dynstore.adapters.networkx.store import (
    GONE,
    Layer,
    StoreGraph,
    flatten,
    new_store,
    read_numbers,
    read_values,
)
from dynstore.graph import DynamicGraph

__all__ = ["TrackedGraph"]

MIN_HOLES = 1024  # so many numbers of removed nodes are always tolerated


class TrackedGraph(StoreGraph):
    """Follows a graph: changes logged between two calls become one batch of deletions and one of insertions.

    The graph's dicts are the truth. The log says only which edges may have changed. So any sequence of additions and
    removals of one edge needs one look into its dict.

    Attributes
    ----------
    rows : Counter
        Rows written to all stores together: ``built`` from the whole graph, ``inserted`` and ``deleted`` by deltas.
    """

    def __init__(self, G: Any) -> None:
        super().__init__(G.is_directed(), list(G._node))
        self._adj: dict[Any, Any] = G._adj
        self._pred: dict[Any, Any] = G._pred if self._directed else G._adj
        self._ranked: dict[bool, DynamicGraph] = {}
        self._packed: dict[bool, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        # Edge -> whether it is last in its rows, as it was absent at some time since the last refresh.
        self._touched: dict[tuple[int, int], bool] = {}
        self._cleared = False
        self._known = len(self.nodes)
        self._clock = 0.0  # above all ranks
        self.rows: Counter[str] = Counter()

    def follows(self, G: Any) -> bool:
        """Whether a refresh is enough to match the graph."""
        pred = G._pred if self._directed else G._adj
        holes = len(self.nodes) - len(self.ids)
        return (
            G._adj is self._adj
            and pred is self._pred
            and len(G._node) == len(self.ids)
            and holes <= max(MIN_HOLES, len(self.ids))
        )

    # ------------------------------------------------------------------ notes

    def note_edge(self, u: Hashable, v: Hashable, moved: bool) -> None:
        """Log that an edge was or will be added, changed or removed; ``moved`` if it is absent at some time."""
        i, j = self._number(u), self._number(v)
        key = (j, i) if not self._directed and j < i else (i, j)
        if moved:
            self._touched.pop(key, None)
            self._touched[key] = True
        else:
            self._touched.setdefault(key, False)

    def note_nodes(self, nodes: dict[Any, Any]) -> None:
        """Log the added nodes: the last keys of the graph's dict."""
        added = list(islice(reversed(nodes), len(nodes) - len(self.ids)))
        for node in reversed(added):
            self._number(node)

    def note_removal(self, node: Hashable) -> None:
        """Log that a node is about to be removed with its edges."""
        for neighbour in self._adj[node]:
            self.note_edge(node, neighbour, moved=True)
        if self._directed:
            for neighbour in self._pred[node]:
                self.note_edge(neighbour, node, moved=True)
        self.nodes[self.ids.pop(node)] = GONE

    def note_clear(self, nodes_too: bool) -> None:
        """Log that all edges, or also all nodes, were removed."""
        self._cleared = True
        self._touched = {}
        if nodes_too:
            self.nodes, self.ids, self._known = [], {}, 0

    def _number(self, node: Hashable) -> int:
        number = self.ids.get(node)
        if number is None:
            number = self.ids[node] = len(self.nodes)
            self.nodes.append(node)
        return number

    # ------------------------------------------------------------------ bringing the stores up to date

    def refresh(self) -> None:
        """Apply the log to the existing stores."""
        if not (self._touched or self._cleared or self._known < len(self.nodes)):
            return
        present: list[tuple[int, int, bool]] = []
        absent: list[tuple[int, int]] = []
        for (i, j), moved in self._touched.items():
            if self.nodes[j] in self._adj.get(self.nodes[i], ()):
                present.append((i, j, moved))
            else:
                absent.append((i, j))
        ends = np.array([(i, j) for i, j, _ in present], np.int64).reshape(-1, 2)
        moved_rows = np.array([moved for _, _, moved in present], bool)
        gone = np.array(absent, np.int64).reshape(-1, 2)
        for attribute in list(self.layers):
            self._refresh_layer(attribute, ends, moved_rows, gone)
        ranks = self._clock + np.arange(int(moved_rows.sum()))
        for inward, graph in self._ranked.items():
            self._refresh_ranks(graph, inward, ends[moved_rows], ranks, gone)
        self._packed = {}
        self._clock += ranks.shape[0]
        self._touched, self._cleared, self._known = {}, False, len(self.nodes)

    def _refresh_layer(self, attribute: str | None, ends: np.ndarray, moved: np.ndarray, gone: np.ndarray) -> None:
        layer = self.layers[attribute]
        if attribute is None:
            self._apply(layer.graph, ends[moved], None, gone)
            return
        values = [self._adj[self.nodes[i]][self.nodes[j]].get(attribute, 1) for i, j in ends.tolist()]
        try:
            weights, integral, largest = read_numbers(attribute, values)
        except NotImplementedError:
            del self.layers[attribute]  # the next request for this weight raises the error
            return
        layer.integral &= integral
        layer.largest = max(layer.largest, largest)
        self._apply(layer.graph, ends, weights, gone)

    def _refresh_ranks(
        self, graph: DynamicGraph, inward: bool, ends: np.ndarray, ranks: np.ndarray, gone: np.ndarray
    ) -> None:
        if self._directed:
            turn = -1 if inward else 1
            self._apply(graph, ends[:, ::turn], ranks, gone[:, ::turn])
        else:
            both = np.concatenate((ends, ends[:, ::-1]))
            self._apply(graph, both, np.concatenate((ranks, ranks)), np.concatenate((gone, gone[:, ::-1])))

    def _apply(self, graph: DynamicGraph, ends: np.ndarray, weights: np.ndarray | None, gone: np.ndarray) -> None:
        if self._cleared:
            graph.clear()
        if graph.number_of_vertices() < len(self.nodes):
            graph.insert_vertices(len(self.nodes) - 1)
        if gone.shape[0] and not self._cleared:
            graph.delete_edges((gone[:, 0], gone[:, 1]))
            self.rows["deleted"] += gone.shape[0]
        if ends.shape[0]:
            columns = (ends[:, 0], ends[:, 1])
            graph.insert_edges(columns if weights is None else (*columns, weights))
            self.rows["inserted"] += ends.shape[0]

    # ------------------------------------------------------------------ used by the functions

    def edges(self, inward: bool = False) -> tuple[np.ndarray, np.ndarray]:
        return flatten(self._pred if inward else self._adj, self.ids)

    def values(self, attribute: str) -> list[Any]:
        return read_values(self._adj, attribute, 1)

    def ranked_edges(self, inward: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        inward = inward and self._directed
        if inward not in self._ranked:
            # A separate store has the ranks as weights: an edge may have different places in its two rows.
            rows, neighbours = self.edges(inward)
            graph = new_store(directed=True, weighted=True, device="cpu")
            if self.nodes:
                graph.insert_vertices(len(self.nodes) - 1)
            if rows.shape[0]:
                graph.insert_edges((rows, neighbours, np.arange(rows.shape[0], dtype=np.float64)))
            self.rows["built"] += rows.shape[0]
            self._clock = max(self._clock, float(rows.shape[0]))
            self._ranked[inward] = graph
        if inward not in self._packed:
            packed = self._ranked[inward].snapshot().compact()
            self._packed[inward] = packed.sources, packed.indices, np.asarray(packed.weights)
        return self._packed[inward]

    def _build(self, weights: np.ndarray | None) -> DynamicGraph:
        graph = super()._build(weights)
        self.rows["built"] += graph.number_of_edges()
        return graph

    def layer(self, attribute: str | None) -> Layer:
        """Return the store of the edges with a weight, or without weights."""
        if attribute is not None:
            return self.weighted(attribute)
        self.unweighted()
        return self.layers[None]
