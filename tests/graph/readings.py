"""All that can be read of a graph or a view of it, as values that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import dynstore
from dynstore import DynamicGraph


def on_host(G: Any, found: Any) -> Any:
    """Return arrays and frames as lists."""
    if isinstance(found, tuple):
        return [on_host(G, part) for part in found]
    if isinstance(found, dict):
        return {name: on_host(G, column) for name, column in found.items()}
    if hasattr(found, "to_pandas"):
        found = found.to_pandas()
    if hasattr(found, "to_dict"):
        return {
            name: [round(x, 5) if isinstance(x, float) else x for x in column]
            for name, column in found.to_dict("list").items()
        }
    return G.core.backend.to_host(found).tolist() if hasattr(found, "shape") else found


def slots_of(G: Any, transposed: bool) -> list[list[Any]]:
    csr = G.snapshot(transposed).compact()
    arrays = [csr.offsets, csr.sources, csr.indices] + ([] if csr.weights is None else [csr.weights])
    return [G.core.backend.to_host(array).tolist() for array in arrays]


def points(G: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what does not read all edges."""
    ids = list(G)
    pairs = ([u for u in ids for _ in ids], [v for _ in ids for v in ids])
    yield "sizes", lambda: (G.number_of_vertices(), G.number_of_edges(), len(G), G.version, G.is_directed())
    yield "has_edges", lambda: G.has_edges(pairs)
    yield "edge_weights", lambda: [str(w) for w in on_host(G, G.edge_weights(pairs))]
    yield "contains", lambda: [name in G for name in (*ids, "nobody", 10**6)]
    for u in ids:
        yield f"successors {u}", lambda u=u: G.successors(u, weights=True)
        yield f"neighbors {u}", lambda u=u: G.neighbors(u)
        yield f"out_degree {u}", lambda u=u: G.out_degree(u)


def whole(G: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what reads all edges."""
    ids = list(G)
    yield "predecessors", lambda: [on_host(G, G.predecessors(u, weights=True)) for u in ids]
    yield "degree", lambda: (G.degree(ids[::-1]), G.in_degree(), G.out_degree(ids[:2]), G.degree(ids[0]))
    yield "k_hop", lambda: G.k_hop(ids[:1], 2)
    yield "edge_columns", G.edge_columns
    yield "edge_table", G.edge_table
    yield "pieces", lambda: [u for piece in G.iterate_edges(5) for u in on_host(G, piece)["source"]]
    yield "vertex_numbers", lambda: G.vertex_numbers(ids)
    yield "snapshot", lambda: slots_of(G, False)
    yield "transposed", lambda: slots_of(G, True)
    yield "row_lengths", lambda: (G.row_lengths(), G.row_lengths(True))
    yield "to_pandas", G.to_pandas
    yield "to_arrow", lambda: G.to_arrow(compact=True).to_pandas()
    yield "gaps", lambda: G.to_arrow().to_pandas().dropna()
    yield "to_scipy", lambda: G.to_scipy().toarray()
    yield (
        "to_networkx",
        lambda: (sorted(map(str, G.to_networkx().edges(data=True))), sorted(map(str, G.to_networkx().nodes))),
    )
    yield "subgraph", lambda: G.subgraph(ids[: len(ids) // 2]).edge_columns()
    yield "copy", lambda: (repr(G.copy()), on_host(G, G.copy().edge_columns()))
    yield "bfs", lambda: dynstore.bfs(G, ids[0]).drop(columns="predecessor")
    yield "pagerank", lambda: dynstore.pagerank(G)
    yield "components", lambda: dynstore.weakly_connected_components(G)
    yield "betweenness", lambda: dynstore.betweenness_centrality(G)
    if G.is_weighted():
        yield "sssp", lambda: dynstore.sssp(G, ids[0]).drop(columns="predecessor")
    if not G.is_directed():
        yield "triangles", lambda: dynstore.triangle_count(G)


def read(G: Any, parts: Callable[[Any], Iterator[tuple[str, Callable[[], Any]]]]) -> dict[str, Any]:
    return {name: on_host(G, make()) for name, make in parts(G)}


def make_random(device: str, rng: np.random.Generator, most: int, **options: Any) -> RandomGraph:
    return RandomGraph(DynamicGraph(device=device, **options), rng, most)


class RandomGraph:
    """A graph, and random updates of it."""

    def __init__(self, G: DynamicGraph, rng: np.random.Generator, most: int) -> None:
        self.G, self.rng, self.most = G, rng, most
        strings = G.is_renumbered()
        self.name: Callable[[int], Any] = (lambda number: f"v{number}") if strings else (lambda number: number)

    def _columns(self, count: int) -> list[list[Any]]:
        return [[self.name(int(n)) for n in self.rng.integers(0, self.most, count)] for _ in range(2)]

    def rows(self, count: int) -> tuple[Any, ...]:
        weights = [self.rng.integers(1, 9, count).tolist()] if self.G.is_weighted() else []
        extra = [self.rng.integers(0, 100, count).astype(dtype).tolist() for dtype in self.G.edge_dtypes.values()]
        return (*self._columns(count), *weights, *extra)

    def update(self, rare: bool = True) -> None:
        """Make a random update; ``rare``: also those that change everything."""
        G, size = self.G, int(self.rng.integers(0, 8))
        kind = int(self.rng.integers(0, 40))
        if kind < 16:
            G.insert_edges(self.rows(size), on_duplicate="add" if kind < 4 and G.is_weighted() else "replace")
        elif kind < 30:
            G.delete_edges(tuple(self._columns(size)))
        elif kind == 35 and G.timestamps is not None:
            bound = int(self.rng.integers(0, 30))
            if bound % 2:
                G.expire(bound)
            else:
                G.update(insert=self.rows(size), delete=tuple(self._columns(size)), expire_before=bound)
        elif kind < 36:
            G.update(insert=self.rows(size), delete=tuple(self._columns(size)))
        elif kind == 36:
            G.insert_vertices([self.name(int(self.rng.integers(self.most)))])
        elif kind == 37 and G.number_of_vertices():
            G.delete_vertices([next(iter(G))])
        elif kind == 38 and rare and G.is_renumbered():
            G.reorder()
        elif kind == 39 and rare:
            G.clear()
