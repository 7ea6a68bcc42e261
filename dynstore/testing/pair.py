"""A graph and its model side by side: every update is done to both and everything is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dynstore.errors import DynstoreError
from dynstore.graph import DynamicGraph
from dynstore.testing.invariants import check_against_model, check_report, host_arrays
from dynstore.testing.model import ModelGraph

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Device, UpdateReport

__all__ = ["Contract", "Pair", "same_arrays"]

COUNTS = ("inserted", "replaced", "deleted", "absent", "duplicates")


class Pair:
    """One graph, its model, and the updates done to both.

    Parameters
    ----------
    transposed : bool
        Whether the in-edge orientation is asked for, and so kept, from the start.
    **options
        As for :class:`dynstore.DynamicGraph`.
    """

    def __init__(self, transposed: bool = False, **options: Any) -> None:
        self.graph = DynamicGraph(**options)
        known = ("directed", "weighted", "vertex_dtype", "weight_dtype", "max_vertices")
        self.model = ModelGraph(**{name: options[name] for name in known if name in options})
        self.transposed = transposed
        self.check()

    def check(self) -> None:
        """Assert the invariants, and that the graph is exactly the model."""
        check_against_model(self.graph, self.model, transposed=self.transposed)

    def update(self, method: str, *args: Any, **kwargs: Any) -> UpdateReport:
        """Call ``method`` of both, compare reports and contents, and return the graph's report."""
        before = self.graph.number_of_edges()
        report = getattr(self.graph, method)(*args, **kwargs)
        self.follow(report, before, method, *args, **kwargs)
        return report

    def follow(self, report: UpdateReport | None, before: int, method: str, *args: Any, **kwargs: Any) -> None:
        """Do to the model what was done to the graph, which had ``before`` edges and gave ``report``; compare."""
        wanted = getattr(self.model, method)(*args, **kwargs)
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
        """``insert_edges`` of the columns ``src, dst[, w]``."""
        return self.update("insert_edges", columns, **kwargs)

    def delete(self, *columns: Any) -> UpdateReport:
        """``delete_edges`` of the columns ``src, dst``."""
        return self.update("delete_edges", columns)

    def copy(self) -> Pair:
        """Copy both."""
        other = Pair.__new__(Pair)
        other.graph, other.model, other.transposed = self.graph.copy(), self.model.copy(), self.transposed
        return other

    def check_queries(self, extra_ids: int = 3) -> None:
        """Compare every query with the model, also for ids never seen."""
        graph, model, host = self.graph, self.model, self.graph.backend.to_host
        assert graph.number_of_edges() == model.number_of_edges()
        ids = range(model.num_vertices)
        for v in ids:
            np.testing.assert_array_equal(host(graph.successors(v)), model.successors(v), strict=True)
            np.testing.assert_array_equal(host(graph.neighbors(v)), model.neighbors(v), strict=True)
            np.testing.assert_array_equal(host(graph.predecessors(v)), model.predecessors(v), strict=True)
        some = np.arange(min(model.num_vertices, 12) + extra_ids)
        table = np.repeat(some, some.size), np.tile(some, some.size)
        held = host(graph.has_edges(table))
        np.testing.assert_array_equal(held, model.has_edges(table), strict=True)
        weights = host(graph.edge_weights(table))
        np.testing.assert_array_equal(weights, model.edge_weights(table), strict=True)
        ins, outs = model.in_degrees(), model.out_degrees()
        for frame, wanted in (
            (graph.in_degree(), ins),
            (graph.out_degree(), outs),
            (graph.degree(), ins + outs),
        ):
            assert list(frame.columns) == ["vertex", "degree"]
            np.testing.assert_array_equal(frame["vertex"].to_numpy(), np.arange(model.num_vertices))
            np.testing.assert_array_equal(frame["degree"].to_numpy(), wanted)
        self._check_table()

    def _check_table(self) -> None:
        frame = self.graph.edge_table()
        names = ["source", "destination", *(["weight"] if self.model.weighted else [])]
        assert list(frame.columns) == names
        columns = [frame[name].to_numpy() for name in names]
        pairs = list(zip(columns[0].tolist(), columns[1].tolist(), strict=True))
        assert pairs == sorted(self.model.edges), "edge_table() has other edges, or another order"
        assert columns[0].dtype == columns[1].dtype == self.model.vertex_dtype
        if self.model.weighted:
            assert columns[2].dtype == self.model.weight_dtype
            assert columns[2].tolist() == [self.model.edges[pair] for pair in pairs]

    def refuse(self, error: type[Exception], method: str, *args: Any, match: str | None = None, **kwargs: Any) -> str:
        """Assert that the call raises ``error`` and changes nothing, not a byte; return the message."""
        lease = self.graph.snapshot()
        before = host_arrays(lease)
        with pytest.raises(error, match=match) as caught:
            getattr(self.graph, method)(*args, **kwargs)
        assert isinstance(caught.value, DynstoreError), f"{caught.value!r} is not one of dynstore's errors"
        self.unchanged(lease, before)
        return str(caught.value)

    def unchanged(self, lease: GapCSR, before: dict[str, Any]) -> None:
        """Assert that the lease is still good, its arrays are as before, and the graph is still the model."""
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
    options: dict[str, Any] = {}  # noqa: RUF012  (subclasses replace it, nobody changes it)

    def pair(self, *, transposed: bool = False, **options: Any) -> Pair:
        """Make an empty graph of the store under test beside its model."""
        return Pair(transposed, store=self.store, device=self.device, **{**self.options, **options})


def same_arrays(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two results of ``host_arrays`` are equal byte for byte."""
    return all(
        (a is None and b is None) or (a.dtype == b.dtype and a.tobytes() == b.tobytes())
        for a, b in ((one[name], other[name]) for name in one)
    )
