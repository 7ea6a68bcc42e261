"""A Hypothesis state machine: any sequence of operations on a graph, compared with the model after each."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dynstore.errors import DynstoreError, StaleSnapshotError
from dynstore.testing.pair import ID_KINDS, Pair, assert_equal

__all__ = ["GraphMachine", "make_machine"]

MAX_VERTICES = 200
# Their sums are exact in float32, in any order.
WEIGHTS = st.integers(-64, 64).map(lambda quarter: quarter / 4)
COLUMNS = ("offsets", "sources", "indices", "weights", "valid")


def _ids(most: int) -> st.SearchStrategy[int]:
    """Return mostly few ids, so that edges repeat; sometimes a distant one, so that arrays grow."""
    return st.one_of(st.integers(0, min(6, most)), st.integers(0, min(6, most)), st.integers(0, most))


class GraphMachine(RuleBasedStateMachine):
    """Inserts, deletes, duplicates, restored edges, growth, queries, clear, copies, stale snapshots, exports, pins.

    Attributes
    ----------
    store, device : str
        As for :class:`dynstore.DynamicGraph`.
    options : dict
        Store options.
    most_rows, most_id : int
        Limits of drawn values; small ones keep the simulator fast enough.
    ids : {"dense", "sparse", "strings"}
        The kind of vertex ids.
    """

    ids = "dense"
    store = "gpma+"
    device = "cpu"
    options: dict[str, Any] = {}  # noqa: RUF012  (subclasses replace it, it is never changed)
    most_rows = 40
    most_id = 150

    def __init__(self) -> None:
        super().__init__()
        self.pair: Pair | None = None
        self.leases: list[Any] = []
        self.exports: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = []
        self.pins: list[Pair] = []
        self.aside: Pair | None = None

    @initialize(
        directed=st.booleans(),
        weighted=st.booleans(),
        transposed=st.booleans(),
        wide=st.booleans(),
        capacity=st.sampled_from([None, 0, 5, 100]),
        reuse=st.booleans(),
        extra=st.booleans(),
        timed=st.booleans(),
    )
    def begin(
        self,
        directed: bool,
        weighted: bool,
        transposed: bool,
        wide: bool,
        capacity: int | None,
        reuse: bool,
        extra: bool,
        timed: bool,
    ) -> None:
        columns: dict[str, Any] = {}
        if self.store == "gpma+":
            columns = {"edge_columns": {"id": "int64", "type": "uint8"}} if extra else {}
            columns |= {"timestamps": "int32" if wide else "int64"} if timed else {}
        mapped = {} if self.ids == "dense" else {"renumber": True, "reuse_ids": reuse}
        self.pair = Pair(
            transposed,
            store=self.store,
            device=self.device,
            directed=directed,
            weighted=weighted,
            vertex_dtype="int64" if wide else "int32",
            weight_dtype="float64" if wide else "float32",
            capacity=capacity,
            max_vertices=MAX_VERTICES,
            **mapped,
            **columns,
            **self.options,
        )

    def _named(self, numbers: Iterable[int]) -> list[Any]:
        return [ID_KINDS[self.ids](int(number)) for number in numbers]

    def _update(self, method: str, *args: Any, **kwargs: Any) -> None:
        assert self.pair is not None
        self.pair.update(method, *args, **kwargs)
        for lease in self.leases:
            for name in COLUMNS:
                with pytest.raises(StaleSnapshotError):
                    getattr(lease, name)
        self.leases = []

    def _draw_edges(self, data: st.DataObject, *, weights: bool) -> tuple[Any, ...]:
        end = _ids(self.most_id)
        rows = data.draw(st.lists(st.tuples(end, end, WEIGHTS), max_size=self.most_rows), label="rows")
        src, dst, drawn = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
        columns = self._named(src), self._named(dst)
        return (*columns, drawn) if weights else columns

    def _stored(self, data: st.DataObject) -> tuple[list[Any], list[Any]]:
        """Draw some of the present edges, undirected ones in either direction."""
        assert self.pair is not None
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.pair.model.arcs())), max_size=self.most_rows))
        return [u for u, _ in chosen], [v for _, v in chosen]

    @rule(data=st.data(), on_duplicate=st.sampled_from(["replace", "add"]), with_weights=st.booleans())
    def insert(self, data: st.DataObject, on_duplicate: str, with_weights: bool) -> None:
        assert self.pair is not None
        columns = self._draw_edges(data, weights=with_weights and self.pair.model.weighted)
        self._update("insert_edges", columns, on_duplicate=on_duplicate)

    @rule(vertex=st.integers(0, 6), count=st.integers(1, 100), turned=st.booleans())
    def insert_hub(self, vertex: int, count: int, turned: bool) -> None:
        count = min(count, 2 * self.most_rows, self.most_id)
        hub, spokes = self._named([vertex] * count), self._named(range(count))
        self._update("insert_edges", (spokes, hub) if turned else (hub, spokes))

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self._update("delete_edges", self._draw_edges(data, weights=False))

    @rule(
        data=st.data(), on_duplicate=st.sampled_from(["replace", "add"]), age=st.one_of(st.none(), st.integers(0, 60))
    )
    def exchange(self, data: st.DataObject, on_duplicate: str, age: int | None) -> None:
        assert self.pair is not None
        insert = self._draw_edges(data, weights=self.pair.model.weighted)
        delete = self._stored(data) if self.pair.model.edges else ([], [])
        before = self.pair.rows - age if self.pair.model.timestamps and age is not None else None
        self._update("update", insert, delete, before, on_duplicate=on_duplicate)

    @precondition(lambda self: self.pair is not None and self.pair.model.timestamps)
    @rule(age=st.integers(0, 60))
    def expire(self, age: int) -> None:
        assert self.pair is not None
        self._update("expire", self.pair.rows - age)

    @precondition(lambda self: self.pair is not None and self.pair.model.edges)
    @rule(data=st.data())
    def delete_stored(self, data: st.DataObject) -> None:
        self._update("delete_edges", self._stored(data))

    @precondition(lambda self: self.pair is not None and self.pair.model.edges)
    @rule(data=st.data(), weight=WEIGHTS, on_duplicate=st.sampled_from(["replace", "add"]))
    def revive(self, data: st.DataObject, weight: float, on_duplicate: str) -> None:
        """Delete edges and insert them again with another weight."""
        assert self.pair is not None
        src, dst = self._stored(data)
        self._update("delete_edges", (src, dst))
        weights = ([weight] * len(src),) if self.pair.model.weighted else ()
        self._update("insert_edges", (src, dst, *weights), on_duplicate=on_duplicate)

    @precondition(lambda self: self.pair is not None and self.pair.model.edges)
    @rule(part=st.sampled_from(["all", "first half", "every other"]))
    def delete_many(self, part: str) -> None:
        assert self.pair is not None
        edges = sorted(self.pair.model.edges)
        edges = {"all": edges, "first half": edges[: len(edges) // 2], "every other": edges[::2]}[part]
        self._update("delete_edges", ([u for u, _ in edges], [v for _, v in edges]))

    @rule(data=st.data(), remove=st.booleans())
    def vertices(self, data: st.DataObject, remove: bool) -> None:
        ids = data.draw(st.lists(_ids(self.most_id), max_size=3))
        self._update("delete_vertices" if remove else "insert_vertices", self._named(ids))

    @precondition(lambda self: self.ids != "dense")
    @rule()
    def reorder(self) -> None:
        self._update("reorder")
        assert self.pair is not None
        degrees = self.pair.graph.degree()["degree"].to_numpy()
        assert (degrees[1:] <= degrees[:-1]).all()

    @rule()
    def clear(self) -> None:
        self._update("clear")

    @rule(bad=st.sampled_from([-1, MAX_VERTICES, 2**31 - 1, 2**63, 0.5, None, "x"]), first=st.booleans())
    def refused(self, bad: Any, first: bool) -> None:
        """Insert a batch with a bad last row; it must be refused."""
        assert self.pair is not None
        good = self._named([0, 1, 3, 4, 5])
        if self.ids != "dense" and bad in (MAX_VERTICES, 2**31 - 1, "x"):
            bad = (
                None if self.pair.model.num_vertices == 0 else 7 if self.ids == "strings" else "x"
            )  # of the other kind
        ids: list[Any] = [*good[:2], bad]
        extra = ([1, 2, 3],) * len(self.pair.graph.edge_dtypes)
        with pytest.raises(DynstoreError):
            self.pair.graph.insert_edges((ids, good[2:], *extra) if first else (good[2:], ids, *extra))
        for lease in self.leases:
            _ = lease.indices
        self.pair.check()

    @rule()
    def query(self) -> None:
        assert self.pair is not None
        self.pair.check_queries()

    @rule(transposed=st.booleans())
    def take_snapshot(self, transposed: bool) -> None:
        assert self.pair is not None
        self.leases.append(self.pair.graph.snapshot(transposed=transposed and self.pair.transposed))

    @rule()
    def export(self) -> None:
        assert self.pair is not None
        arrays = self.pair.graph.snapshot().export()
        to_host = self.pair.graph.core.backend.to_host
        self.exports.append((arrays, {name: np.array(to_host(array)) for name, array in arrays.items()}))

    @precondition(lambda self: self.exports)
    @rule()
    def release_exports(self) -> None:
        self.exports = []
        gc.collect()

    @rule()
    def pin(self) -> None:
        assert self.pair is not None
        self.pins = [*self.pins[-2:], self.pair.pinned()]

    @precondition(lambda self: self.pins)
    @rule(number=st.integers(0, 2), whole=st.booleans())
    def read_a_pin(self, number: int, whole: bool) -> None:
        pinned = self.pins[number % len(self.pins)]
        pinned.check_points()
        if whole:
            pinned.check_queries()
            pinned.check()

    @precondition(lambda self: self.pins)
    @rule(number=st.integers(0, 2))
    def release_a_pin(self, number: int) -> None:
        pin: Any = self.pins.pop(number % len(self.pins)).graph
        pin.release()

    @rule()
    def set_a_copy_aside(self) -> None:
        assert self.pair is not None
        self.aside = self.pair.copy()

    @precondition(lambda self: self.aside is not None)
    @rule()
    def go_on_with_the_copy(self) -> None:
        self.pair, self.aside = self.aside, self.pair
        self.leases = []

    @invariant()
    def exports_are_as_they_were(self) -> None:
        for arrays, before in self.exports:
            for name, array in arrays.items():
                assert self.pair is not None
                assert_equal(self.pair.graph.core.backend.to_host(array), before[name], name)

    @invariant()
    def the_copy_is_its_own(self) -> None:
        if self.aside is not None:
            self.aside.check()


def make_machine(
    store: str, device: str, most_rows: int = 40, most_id: int = 150, ids: str = "dense", **options: Any
) -> type[GraphMachine]:
    """Return the machine of one store on one device; test runners use its ``TestCase``."""
    name = f"GraphMachine[{store},{device},{ids}]"
    members = {"store": store, "device": device, "options": options, "most_rows": most_rows, "most_id": most_id}
    members["ids"] = ids
    return type(name, (GraphMachine,), members)
