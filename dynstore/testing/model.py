"""A simple model of the graph: a dictionary of edges, one row at a time.

It has the methods of :class:`dynstore.DynamicGraph` that change or read a graph, with the same meaning. It shares only
the exceptions and the report with it. Any difference from a store is a fault of one of the two.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.typing import UpdateReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["COUNTS", "ModelGraph", "weigh"]

# An integer or, with renumber=True, also a string.
Id = Any
Edge = tuple[Id, Id]
MIN_MAX_VERTICES = 1 << 24
# What a report counts.
COUNTS = ("inserted", "replaced", "deleted", "absent", "duplicates", "expired", "late")


def weigh(method: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an update by which edges without weights have the weight 1."""
    return {"default_weight": 1.0, **kwargs} if method in ("insert_edges", "update") else kwargs


class ModelGraph:
    """A graph in one dict ``(u, v) -> weight``; undirected pairs are kept as ``u <= v``.

    Its methods are those of :class:`dynstore.DynamicGraph`, with the same meaning.

    Parameters
    ----------
    directed, weighted, vertex_dtype, weight_dtype, max_vertices, renumber, reuse_ids, edge_columns, timestamps
        As in :class:`dynstore.DynamicGraph`.

    Attributes
    ----------
    ids : list
        With ``renumber``, the id of each vertex by its number.
    gone : set
        With ``reuse_ids``, deleted vertices whose numbers new ids may take.
    edge_columns : dict
        The extra columns; the last one is "time" if there are ``timestamps``.
    extra : dict
        The values of the extra columns, a list for each edge that ever was there.
    """

    def __init__(
        self,
        directed: bool = True,
        weighted: bool = False,
        vertex_dtype: Any = "int32",
        weight_dtype: Any = "float32",
        max_vertices: int | None = None,
        renumber: bool = False,
        reuse_ids: bool = False,
        edge_columns: Mapping[str, Any] | None = None,
        timestamps: Any = None,
    ) -> None:
        self.timestamps = timestamps
        self.edge_columns = {**(edge_columns or {}), **({"time": timestamps} if timestamps else {})}
        self.extra: dict[Edge, list[Any]] = {}
        self.directed = directed
        self.weighted = weighted
        self.vertex_dtype = np.dtype(vertex_dtype)
        self.weight_dtype = np.dtype(weight_dtype)
        self.max_vertices = max_vertices
        self.edges: dict[Edge, float] = {}
        self.num_vertices = 0
        self.version = 0
        self.renumber = renumber
        self.reuse_ids = reuse_ids
        self.ids: list[Id] = []
        self.gone: set[Id] = set()

    # -- updates ---------------------------------------------------------------------------------

    def insert_edges(
        self,
        edges: Any,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        on_duplicate: str = "replace",
        default_weight: float = 1.0,
    ) -> UpdateReport:
        """Store every row's edge once; see :meth:`dynstore.DynamicGraph.insert_edges`."""
        if on_duplicate not in ("replace", "add"):
            raise InputError(f"model: on_duplicate is {on_duplicate!r}")
        edges, extra = self._split(edges)
        sources, destinations, weights = self._columns(edges, source, destination, weight)
        if weights is not None and not self.weighted:
            raise InputError("model: weights for an unweighted graph")
        rows = self._ids(sources), self._ids(destinations)
        values = [default_weight] * len(rows[0]) if weights is None else self._weights(weights)
        if not len(rows[0]) == len(rows[1]) == len(values):
            raise InputError("model: columns of different lengths")
        named = [*rows[0], *rows[1]]
        self._check_limits(named)

        batch: dict[Edge, float] = {}
        came: set[Edge] = set()
        for u, v, w in zip(*rows, values, strict=True):
            edge = self.canonical(u, v)
            batch[edge] = self._round(batch[edge] + w) if on_duplicate == "add" and edge in batch else w
        for u, v, *row in zip(*rows, *extra, strict=True):
            edge = self.canonical(u, v)
            if self.timestamps and (edge in self.edges or edge in came):
                row[-1] = max(row[-1], self.extra[edge][-1])
            self.extra[edge] = row
            came.add(edge)
        replaced = 0
        for edge, w in batch.items():
            present = edge in self.edges
            replaced += present
            self.edges[edge] = self._round(self.edges[edge] + w) if present and on_duplicate == "add" else w
        if self.renumber and not self.ids:
            self.ids = self._by_degree(set(named))
        self._see(named)
        self.version += 1
        return UpdateReport(inserted=len(batch) - replaced, replaced=replaced, duplicates=len(rows[0]) - len(batch))

    def delete_edges(self, edges: Any, source: str = "source", destination: str = "destination") -> UpdateReport:
        """Remove the rows' edges; absent ones are counted."""
        asked = self._pairs(edges, source, destination)
        batch = {self.canonical(u, v) for u, v in asked}
        present = batch & self.edges.keys()
        for edge in present:
            del self.edges[edge]
        self.version += 1
        return UpdateReport(deleted=len(present), absent=len(batch) - len(present), duplicates=len(asked) - len(batch))

    def expire(self, before: int) -> UpdateReport:
        """Remove the edges whose last time is below ``before``."""
        old = [edge for edge in self.edges if self.extra[edge][-1] < before]
        for edge in old:
            del self.edges[edge]
        self.version += 1
        return UpdateReport(expired=len(old))

    def update(self, insert: Any, delete: Any, expire_before: int | None = None, **kwargs: Any) -> UpdateReport:
        """Expire, delete and insert columns, as three calls would do; see :meth:`dynstore.DynamicGraph.update`."""
        version, late, reports = self.version, 0, []
        if expire_before is not None:
            rows = [row for row in zip(*insert, strict=True) if row[-1] >= expire_before]
            late = len(insert[0]) - len(rows)
            insert = tuple(map(list, zip(*rows, strict=True))) if rows else tuple([] for _ in insert)
            reports.append(self.expire(expire_before))
        reports += [self.delete_edges(delete), self.insert_edges(insert, **kwargs)]
        self.version = version + 1
        sums = {name: sum(getattr(report, name) for report in reports) for name in COUNTS}
        return UpdateReport(**{**sums, "late": late})

    def insert_vertices(self, ids: Any) -> UpdateReport:
        """Add the ids; V becomes at least the highest id + 1."""
        values = self._ids(ids)
        self._check_limits(values)
        self._see(values)
        self.version += 1
        return UpdateReport()

    def delete_vertices(self, ids: Any) -> UpdateReport:
        """Remove every edge at these vertices; V stays."""
        gone = set(self._ids(ids))
        lost = [edge for edge in self.edges if edge[0] in gone or edge[1] in gone]
        for edge in lost:
            del self.edges[edge]
        if self.reuse_ids:
            self.gone |= gone & set(self.ids)
        self.version += 1
        return UpdateReport(deleted=len(lost))

    def reorder(self) -> None:
        """Number the vertices by falling degree, equal degrees by ascending id."""
        self.ids = self._by_degree(set(self.ids))
        self.version += 1

    def clear(self) -> None:
        """Remove all edges and all vertices."""
        self.edges.clear()
        self.num_vertices = 0
        self.ids, self.gone = [], set()
        self.version += 1

    def copy(self) -> ModelGraph:
        """Return an independent graph."""
        other = ModelGraph(
            self.directed,
            self.weighted,
            self.vertex_dtype,
            self.weight_dtype,
            self.max_vertices,
            self.renumber,
            self.reuse_ids,
            {name: dtype for name, dtype in self.edge_columns.items() if name != "time" or not self.timestamps},
            self.timestamps,
        )
        other.extra = dict(self.extra)
        other.edges, other.ids, other.gone = dict(self.edges), list(self.ids), set(self.gone)
        other.num_vertices = self.num_vertices
        other.version = self.version
        return other

    # -- queries ---------------------------------------------------------------------------------

    def is_directed(self) -> bool:
        return self.directed

    def is_weighted(self) -> bool:
        return self.weighted

    def number_of_vertices(self) -> int:
        return self.num_vertices

    def number_of_edges(self) -> int:
        return len(self.edges)

    def has_edges(self, edges: Any, source: str = "source", destination: str = "destination") -> np.ndarray:
        pairs = self._pairs(edges, source, destination)
        return np.array([self.canonical(u, v) in self.edges for u, v in pairs], dtype=bool)

    def edge_weights(self, edges: Any, source: str = "source", destination: str = "destination") -> np.ndarray:
        pairs = self._pairs(edges, source, destination)
        values = [self.edges.get(self.canonical(u, v), math.nan) for u, v in pairs]
        return np.array(values, dtype=self.weight_dtype)

    def vertex_ids(self) -> list[Id]:
        """Return the ids of all vertices by number."""
        return list(self.ids) if self.renumber else list(range(self.num_vertices))

    def successors(self, v: Id) -> np.ndarray:
        return self._id_array(b for a, b in self.arcs() if a == v)

    def neighbors(self, v: Id) -> np.ndarray:
        return self.successors(v)

    def predecessors(self, v: Id) -> np.ndarray:
        return self._id_array(a for a, b in self.arcs() if b == v)

    def all_successors(self) -> dict[Id, np.ndarray]:
        """Return the successors of every vertex; it reads the edges once."""
        return self._grouped(self.arcs())

    def all_predecessors(self) -> dict[Id, np.ndarray]:
        """Return the predecessors of every vertex; it reads the edges once."""
        return self._grouped((v, u) for u, v in self.arcs())

    def out_degrees(self) -> np.ndarray:
        """Return the out-degree of every vertex by number, shape (V,)."""
        return self._count(u for u, _ in self.arcs())

    def in_degrees(self) -> np.ndarray:
        """Return the in-degree of every vertex by number, shape (V,)."""
        return self._count(v for _, v in self.arcs())

    def arcs(self) -> dict[Edge, float]:
        """Return every stored direction with its weight: an undirected pair twice, a self-loop once."""
        if self.directed:
            return dict(self.edges)
        return {arc: w for (u, v), w in self.edges.items() for arc in ((u, v), (v, u))}

    # -- checks, one value at a time -------------------------------------------------------------

    def _split(self, edges: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return a tuple of columns without the extra ones, and these."""
        others = len(edges) - len(self.edge_columns)
        return (edges[:others], edges[others:]) if self.edge_columns else (edges, ())

    def canonical(self, u: Id, v: Id) -> Edge:
        return (u, v) if self.directed or u <= v else (v, u)

    def _round(self, value: float) -> float:
        return float(self.weight_dtype.type(value)) if self.weighted else 1.0

    def _see(self, ids: Sequence[Id]) -> None:
        if not self.renumber:
            self.num_vertices = max([self.num_vertices, *(i + 1 for i in ids)])
            return
        self.gone -= set(ids)
        for new in sorted(set(ids) - set(self.ids)):
            taken = next((number for number, old in enumerate(self.ids) if old in self.gone), None)
            if taken is None:
                self.ids.append(new)
            else:
                self.gone.remove(self.ids[taken])
                self.ids[taken] = new
        self.num_vertices = len(self.ids)

    def _by_degree(self, ids: set[Id]) -> list[Id]:
        ends = Counter(end for arc in self.arcs() for end in arc)
        return sorted(ids, key=lambda i: (-ends[i], i))

    def _count(self, ends: Iterable[Id]) -> np.ndarray:
        counts = Counter(ends)
        return np.array([counts[i] for i in self.vertex_ids()], dtype=np.int64)

    def _grouped(self, arcs: Iterable[Edge]) -> dict[Id, np.ndarray]:
        rows: dict[Id, list[Id]] = {v: [] for v in self.vertex_ids()}
        for u, v in arcs:
            rows[u].append(v)
        return {v: self._id_array(ends) for v, ends in rows.items()}

    def _id_array(self, ids: Iterable[Id]) -> np.ndarray:
        ordered = sorted(ids)
        if not self.renumber:
            return np.array(ordered, dtype=self.vertex_dtype)
        strings = bool(self.ids) and isinstance(self.ids[0], str)  # then all are
        return np.array(ordered, dtype=object if strings else np.int64)

    def _pairs(self, edges: Any, source: str, destination: str) -> list[Edge]:
        sources, destinations, _ = self._columns(edges, source, destination, None)
        rows = self._ids(sources), self._ids(destinations)
        if len(rows[0]) != len(rows[1]):
            raise InputError("model: columns of different lengths")
        return list(zip(*rows, strict=True))

    @staticmethod
    def _columns(edges: Any, source: str, destination: str, weight: str | None) -> tuple[Any, Any, Any]:
        if isinstance(edges, tuple):
            return edges if len(edges) == 3 else (*edges, None)
        return edges[source], edges[destination], None if weight is None else edges[weight]

    def _ids(self, column: Any) -> list[Id]:
        values = np.asarray(column).tolist() if len(column) else []
        if self.renumber and values and all(isinstance(value, str) for value in values):
            if self.ids and not isinstance(self.ids[0], str):
                raise InputTypeError("model: strings among integer ids")
            return values
        if self.renumber and values and self.ids and isinstance(self.ids[0], str):
            raise InputTypeError("model: integers among string ids")
        most = np.iinfo(np.int64 if self.renumber else self.vertex_dtype).max
        for value in values:
            if not isinstance(value, int) or isinstance(value, bool):
                raise InputTypeError(f"model: {value!r} is no vertex id")
            if value < 0:
                raise InputError(f"model: {value} is negative")
            if value >= most:
                raise LimitError(f"model: {value} does not fit {self.vertex_dtype}")
        return values

    def _weights(self, column: Any) -> list[float]:
        weights = []
        for value in np.asarray(column).tolist() if len(column) else []:
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise InputTypeError(f"model: {value!r} is no weight")
            if math.isnan(value):
                raise InputError("model: a weight is NaN")
            weights.append(self._round(value))
        return weights

    def _check_limits(self, ids: Sequence[Id]) -> None:
        most = self.max_vertices
        if self.renumber:
            if len({type(i) for i in ids}) > 1:
                raise InputTypeError("model: integers and strings")
            free = len(self.gone - set(ids))
            total = len(self.ids) + max(0, len(set(ids) - set(self.ids)) - free)
            if most is not None and total > max(most, len(self.ids)):
                raise LimitError(f"model: {total} vertices are more than max_vertices {most}")
            return
        if most is None:
            most = max(MIN_MAX_VERTICES, 8 * self.num_vertices)
        if ids and max(ids) >= most:
            raise LimitError(f"model: id {max(ids)} is past max_vertices {most}")
