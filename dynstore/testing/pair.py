"""A graph and its model: every update is done to both, and everything is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dynstore.errors import DynstoreError
from dynstore.graph import DynamicGraph
from dynstore.testing.invariants import check_against_model, check_report, host_arrays
from dynstore.testing.model import COUNTS, ModelGraph, weigh
from dynstore.typing import ReorderReport

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Device, UpdateReport

__all__ = ["ID_KINDS", "Contract", "Pair", "assert_equal", "same_arrays"]

# How small numbers are mapped to ids; all but "dense" need renumber=True.
ID_KINDS: dict[str, Callable[[int], Any]] = {
    "dense": int,
    "sparse": lambda number: int(number) * 0x9E3779B97F4A7C15 % (2**63 - 1),
    "strings": lambda number: f"v{number}",
}


class Pair:
    """One graph, its model, and the updates done to both.

    Parameters
    ----------
    transposed : bool
        Whether the in-edge orientation is requested, and so kept, from the start.
    **options
        As for :class:`dynstore.DynamicGraph`.
    """

    def __init__(self, transposed: bool = False, **options: Any) -> None:
        self.graph = DynamicGraph(**options)
        known = ["directed", "weighted", "vertex_dtype", "weight_dtype", "max_vertices", "renumber", "reuse_ids"]
        known += ["edge_columns", "timestamps"]
        self.rows = 0
        self.model = ModelGraph(**{name: options[name] for name in known if name in options})
        self.transposed = transposed
        self.check()

    def check(self) -> None:
        """Assert the invariants, and that the graph is exactly the model."""
        check_against_model(self.graph, self.model, transposed=self.transposed)

    def update(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call ``method`` of both, compare reports and contents, and return the graph's report.

        Edges without weights have the weight 1, unless the arguments say otherwise. Each row gets a new value in
        extra columns.
        """
        kwargs = weigh(method, kwargs)
        args = self.with_columns(method, args)
        before = self.graph.number_of_edges()
        report = getattr(self.graph, method)(*args, **kwargs)
        self.follow(report, before, method, *args, **kwargs)
        return report

    def with_columns(self, method: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return an update's arguments with new values in the extra columns, if it inserts edges and there are any."""
        dtypes = list(self.model.edge_columns.values())
        if method not in ("insert_edges", "update") or not dtypes:
            return args
        first, self.rows = self.rows, self.rows + len(args[0][0])
        numbers = np.arange(first, self.rows)
        extra = [(numbers + 7 * place).astype(dtype) for place, dtype in enumerate(dtypes)]
        if self.model.timestamps and first % 2:  # some batches are in the order of time, some are not
            extra[-1] += numbers * 7919 % 13
        return ((*args[0], *extra), *args[1:])

    def follow(
        self, report: UpdateReport | ReorderReport | None, before: int, method: str, *args: Any, **kwargs: Any
    ) -> None:
        """Repeat on the model an update of the graph, which had ``before`` edges and returned ``report``; compare."""
        wanted = getattr(self.model, method)(*args, **weigh(method, kwargs))
        if isinstance(report, ReorderReport):
            self.check()
            return
        if report is None or wanted is None:
            assert report is wanted, f"{method}: {report}; the model says {wanted}"
            self.check()
            return
        got = {name: getattr(report, name) for name in COUNTS}
        assert got == {name: getattr(wanted, name) for name in COUNTS}, f"{method}: {report}; the model says {wanted}"
        assert all(type(value) is int for value in got.values()), f"{method}: counts are not int: {report}"
        assert type(report.grown) is bool, f"{method}: grown is {report.grown!r}"
        assert report.path in ("in-place", "merge"), f"{method}: path is {report.path!r}"
        check_report(before, report, self.graph.number_of_edges())
        self.check()

    def insert(self, *columns: Any, **kwargs: Any) -> UpdateReport:
        """Call ``insert_edges`` with the columns ``src, dst[, w]``."""
        report: UpdateReport = self.update("insert_edges", columns, **kwargs)
        return report

    def delete(self, *columns: Any) -> UpdateReport:
        """Call ``delete_edges`` with the columns ``src, dst``."""
        report: UpdateReport = self.update("delete_edges", columns)
        return report

    def copy(self) -> Pair:
        """Copy both."""
        other = Pair.__new__(Pair)
        other.graph, other.model, other.transposed = self.graph.copy(), self.model.copy(), self.transposed
        other.rows = self.rows
        return other

    def pinned(self) -> Pair:
        """Return a pin of the graph, and a copy of the model; they are only read."""
        other = Pair.__new__(Pair)
        pin: Any = self.graph.pin()
        other.graph, other.model, other.transposed = pin, self.model.copy(), self.transposed
        return other

    def check_queries(self, extra_ids: int = 3) -> None:
        """Compare every query with the model, also for unknown ids."""
        graph, model, host = self.graph, self.model, self.graph.core.backend.to_host
        assert graph.number_of_edges() == model.number_of_edges()
        for v, wanted in model.all_predecessors().items():
            assert_equal(host(graph.predecessors(v)), wanted)
        self.check_points(extra_ids)
        ins, outs = model.in_degrees(), model.out_degrees()
        for frame, wanted in (
            (graph.in_degree(), ins),
            (graph.out_degree(), outs),
            (graph.degree(), ins + outs),
        ):
            assert list(frame.columns) == ["vertex", "degree"]
            assert frame["vertex"].to_numpy().tolist() == model.vertex_ids()
            np.testing.assert_array_equal(frame["degree"].to_numpy(), wanted)
        self._check_table()

    def check_points(self, extra_ids: int = 3) -> None:
        """Compare the queries about single vertices and edges that need no in-edges with the model."""
        graph, model, host = self.graph, self.model, self.graph.core.backend.to_host
        for v, wanted in model.all_successors().items():
            assert_equal(host(graph.successors(v)), wanted)
            assert_equal(host(graph.neighbors(v)), wanted)
        first = model.vertex_ids()[:12]
        some = np.array([*first, *self._strangers(first, extra_ids)])
        table = np.repeat(some, some.size), np.tile(some, some.size)
        held = host(graph.has_edges(table))
        assert_equal(held, model.has_edges(table))
        weights = host(graph.edge_weights(table))
        np.testing.assert_array_equal(weights, model.edge_weights(table), strict=True)

    def _check_table(self) -> None:
        frame = self.graph.edge_table()
        names = ["source", "destination", *(["weight"] if self.model.weighted else []), *self.model.edge_columns]
        assert list(frame.columns) == names
        columns = [frame[name].to_numpy() for name in names]
        pairs = list(zip(columns[0].tolist(), columns[1].tolist(), strict=True))
        rows = {vertex: row for row, vertex in enumerate(self.model.vertex_ids())}

        def by_row(pair: tuple[Any, Any]) -> list[int]:
            ends = [rows[vertex] for vertex in pair]
            return ends if self.model.directed else sorted(ends)

        assert pairs == sorted(self.model.edges, key=by_row), "edge_table() has other edges, or another order"
        assert columns[0].dtype == columns[1].dtype == self._id_dtype(columns[0])
        if self.model.weighted:
            assert columns[2].dtype == self.model.weight_dtype
            assert columns[2].tolist() == [self.model.edges[pair] for pair in pairs]
        extra = columns[len(columns) - len(self.model.edge_columns) :]
        for place, (column, dtype) in enumerate(zip(extra, self.model.edge_columns.values(), strict=True)):
            assert column.dtype == dtype
            assert column.tolist() == [self.model.extra[pair][place] for pair in pairs]

    def _strangers(self, known: list[Any], count: int) -> list[Any]:
        """Return ids that are no vertices."""
        if known and isinstance(known[0], str):
            return [f"nobody {n}" for n in range(count)]
        return [max(self.model.vertex_ids(), default=-1) + 1 + n for n in range(count)]

    def _id_dtype(self, column: np.ndarray) -> Any:
        if not self.model.renumber:
            return self.model.vertex_dtype
        return column.dtype if any(isinstance(i, str) for i in self.model.ids) else np.int64

    def refuse(self, error: type[Exception], method: str, *args: Any, match: str | None = None, **kwargs: Any) -> str:
        """Assert that the call raises ``error`` and changes no byte; return the message."""
        lease, args = self.graph.snapshot(), self.with_columns(method, args)
        before = host_arrays(lease)
        with pytest.raises(error, match=match) as caught:
            getattr(self.graph, method)(*args, **weigh(method, kwargs))
        assert isinstance(caught.value, DynstoreError), f"{caught.value!r} is not one of dynstore's errors"
        self.unchanged(lease, before)
        return str(caught.value)

    def unchanged(self, lease: GapCSR, before: dict[str, Any]) -> None:
        """Assert that the lease is still valid, its arrays are unchanged, and the graph still equals the model."""
        assert same_arrays(before, host_arrays(lease)), "a refused update has changed the arrays"
        self.check()


class Contract:
    """Base of the contract classes: makes the graphs under test.

    Attributes
    ----------
    store, device : str
        As for :class:`dynstore.DynamicGraph`.
    options : dict
        Store options for every graph of the class.
    """

    store = "gpma+"
    device: Device = "cpu"
    options: dict[str, Any] = {}  # noqa: RUF012  (subclasses replace it, it is never changed)

    @property
    def renumbered(self) -> bool:
        """Whether the graphs of the class have ``renumber=True``: V is then the number of ids; no id is too high."""
        return bool(self.options.get("renumber", False))

    def pair(self, *, transposed: bool = False, **options: Any) -> Pair:
        """Make an empty graph of the store under test, and its model."""
        return Pair(transposed, store=self.store, device=self.device, **{**self.options, **options})


def assert_equal(got: np.ndarray, wanted: np.ndarray, name: str = "") -> None:
    """As NumPy's ``assert_array_equal(strict=True)``, which is asked only where the arrays are not plainly equal."""
    if got.dtype != wanted.dtype or not np.array_equal(got, wanted):
        np.testing.assert_array_equal(got, wanted, err_msg=name, strict=True)


def same_arrays(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two results of ``host_arrays`` are equal byte for byte."""
    return all(
        (a is None and b is None) or (a.dtype == b.dtype and a.tobytes() == b.tobytes())
        for a, b in ((one[name], other[name]) for name in one)
    )
