"""Cases of the store contract for graphs with arbitrary vertex ids (``renumber=True``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore.errors import InputError, InputTypeError, LimitError, StaleSnapshotError
from dynstore.testing.contract import CoreContract, StoreContract
from dynstore.testing.faults import for_every_allocation, for_every_new_array
from dynstore.testing.pair import ID_KINDS, Contract, Pair

__all__ = ["IdCases", "RenumberedContract", "RenumberedCoreContract"]

every_kind_of_id = pytest.mark.parametrize("kind", ["sparse", "strings"])


def _named(kind: str, *numbers: int) -> list[Any]:
    """Return the ids that stand for some small numbers."""
    return [ID_KINDS[kind](number) for number in numbers]


class IdCases(Contract):
    """Small enough for the simulator; the class needs ``options = {"renumber": True}``."""

    def stocked(self, kind: str, **options: Any) -> Pair:
        """Make a weighted pair of five vertices: 3 is the hub, 1 and 4 tie."""
        pair = self.pair(weighted=True, **options)
        pair.insert(_named(kind, 3, 3, 3, 3, 4), _named(kind, 1, 4, 9, 6, 1), [1.0, 2.0, 3.0, 4.0, 5.0])
        return pair

    @every_kind_of_id
    @pytest.mark.parametrize("directed", [True, False])
    def test_any_ids_follow_the_model(self, kind: str, directed: bool) -> None:
        pair = self.stocked(kind, directed=directed, transposed=True)
        pair.check_queries()
        pair.insert(_named(kind, 3, 1, 70, 70), _named(kind, 9, 3, 70, 2), [9.0, 8.0, 7.0, 6.0], on_duplicate="add")
        report = pair.delete(_named(kind, 3, 50, 51, 50, 3), _named(kind, 1, 3, 3, 3, 80))
        assert (report.deleted, report.absent, report.duplicates) == (1, 3, 1)
        pair.update("insert_vertices", _named(kind, 2, 33, 3))
        pair.update("delete_vertices", _named(kind, 70, 44))
        pair.check_queries()

    @every_kind_of_id
    def test_first_edges_are_numbered_by_falling_degree(self, kind: str) -> None:
        pair = self.stocked(kind)
        tied, ends = sorted(_named(kind, 1, 4)), sorted(_named(kind, 6, 9))
        assert pair.graph.vertex_ids().tolist() == [*_named(kind, 3), *tied, *ends]
        pair.insert(_named(kind, 9, 9, 9, 5), _named(kind, 0, 7, 1, 9))
        later = sorted(_named(kind, 0, 5, 7))
        assert pair.graph.vertex_ids().tolist() == [*_named(kind, 3), *tied, *ends, *later]
        numbers = pair.graph.core.backend.to_host(pair.graph.vertex_numbers(_named(kind, 3, 99)))
        assert numbers.tolist() == [0, -1]

    @every_kind_of_id
    def test_an_order_that_has_drifted_is_restored(self, kind: str) -> None:
        pair = self.stocked(kind, transposed=True)
        assert pair.graph.reorder(threshold=0.0).moved == 0
        assert pair.graph.version == pair.model.version
        pair.insert(_named(kind, 6, 6, 6, 6, 6, 6, 6), _named(kind, 1, 3, 4, 6, 7, 8, 9))
        lease = pair.graph.snapshot()
        measured = pair.graph.reorder(threshold=1.0)
        assert measured.moved == 0
        assert lease.indices is not None
        report = pair.update("reorder")
        assert (report.vertex_drift, report.edge_drift) == (measured.vertex_drift, measured.edge_drift)
        assert 0 < report.vertex_drift < 1
        assert 0 < report.edge_drift < 1
        assert report.moved > 0
        with pytest.raises(StaleSnapshotError):
            _ = lease.indices
        assert pair.graph.vertex_ids().tolist()[0] == _named(kind, 6)[0]
        pair.check_queries()
        report = pair.update("reorder")
        assert (report.vertex_drift, report.edge_drift, report.moved) == (0.0, 0.0, 0)

    @every_kind_of_id
    def test_numbers_of_deleted_vertices_are_taken_over(self, kind: str) -> None:
        pair = self.stocked(kind, reuse_ids=True, transposed=True)
        pair.update("delete_vertices", _named(kind, 4, 6, 9))
        assert pair.graph.number_of_vertices() == 5
        assert pair.graph.neighbors(_named(kind, 9)[0]).shape == (0,)
        pair.insert(_named(kind, 6, 20), _named(kind, 3, 3))  # 6 is there again, 20 takes the number of 4
        assert pair.graph.number_of_vertices() == 5
        pair.refuse(InputError, "neighbors", _named(kind, 4)[0], match="is not in the graph")
        pair.check_queries()
        pair.insert(_named(kind, 21, 22, 4), _named(kind, 22, 3, 3))
        assert pair.graph.number_of_vertices() == 7
        pair.check_queries()
        pair.update("delete_vertices", _named(kind, 21, 22, 4))
        pair.update("reorder")
        pair.update("insert_vertices", _named(kind, 31, 32, 33, 34))
        assert pair.graph.number_of_vertices() == 8
        pair.check_queries()

    @every_kind_of_id
    def test_without_reuse_deleted_vertices_stay(self, kind: str) -> None:
        pair = self.stocked(kind)
        pair.update("delete_vertices", _named(kind, 4, 9))
        pair.insert(_named(kind, 20), _named(kind, 3))
        assert pair.graph.number_of_vertices() == 6

    @every_kind_of_id
    def test_running_out_of_memory_leaves_the_map_alone(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        pair = self.stocked(kind, reuse_ids=True)
        pair.update("delete_vertices", _named(kind, 4, 9))
        many = _named(kind, *range(100, 140))  # more than the first table can hold
        for method, args in (
            ("insert_edges", ((_named(kind, 3, 20, 21), _named(kind, 22, 3, 1), [1.0, 2.0, 3.0]),)),
            ("insert_vertices", (many,)),
            ("reorder", ()),
        ):
            for_every_allocation(monkeypatch, pair, method, *args)
        pair.check_queries()

    @every_kind_of_id
    def test_a_refused_batch_leaves_the_map_alone(self, kind: str) -> None:
        pair = self.stocked(kind, max_vertices=6)
        new, other = _named(kind, 50, 51, 52), _named("sparse" if kind == "strings" else "strings", 3, 4, 5)
        pair.refuse(LimitError, "insert_edges", (new, _named(kind, 3, 3, 3)), match="3 new ids would make 8 vertices")
        pair.refuse(LimitError, "insert_vertices", new, match="max_vertices is 6")
        pair.refuse(InputError, "insert_edges", (new, [*new[:2], None]), match="`dst` has a null at row 2")
        pair.refuse(InputTypeError, "insert_edges", (new, [*new[:2], 1.5]), match="1.5|float64")
        pair.refuse(InputTypeError, "insert_edges", (new, [*new[:2], other[2]]))
        pair.refuse(InputTypeError, "insert_edges", (other, other), match="`src` has")
        pair.refuse(InputTypeError, "has_edges", (new, other), match="`dst` has")
        pair.refuse(InputError, "insert_edges", (new, new, [1.0, 2.0, float("nan")]), match="`weights` is NaN")
        pair.refuse(InputError, "insert_edges", (new, new[:2]), match="`dst` has 2 items")
        pair.refuse(InputTypeError, "neighbors", 0.5)
        pair.insert(new[:1], _named(kind, 3))

    def test_a_cleared_graph_takes_ids_of_another_kind(self) -> None:
        pair = self.stocked("strings")
        other = pair.copy()
        pair.update("clear")
        assert pair.graph.vertex_ids().shape == (0,)
        pair.insert(_named("sparse", 1, 2), _named("sparse", 2, 5))
        pair.check_queries()
        other.insert(_named("strings", 8), _named("strings", 3))
        other.check_queries()

    def test_the_map_is_part_of_the_memory_in_use(self) -> None:
        pair = self.pair()
        assert pair.graph.memory_usage()["vertex_map"] == 0
        pair.insert([5, 10**18], [10**12, 7])
        usage = pair.graph.memory_usage()
        assert usage["vertex_map"] >= 4 * (8 + 16)
        sums = {"total", "host", "device"}
        assert usage["total"] == sum(size for part, size in usage.items() if part not in sums)
        if "host" in usage:
            assert usage["total"] == usage["host"] + usage["device"]


class RenumberedCoreContract(IdCases, CoreContract):
    """The essential cases with ``renumber=True``, small enough for the simulator."""

    options = {"renumber": True}  # noqa: RUF012  (subclasses replace it, it is never changed)


class RenumberedContract(IdCases, StoreContract):
    """The whole contract of a store, with ``renumber=True``."""

    options = {"renumber": True}  # noqa: RUF012

    @every_kind_of_id
    def test_no_new_array_is_made_once_the_map_is_written(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        pair = self.stocked(kind, reuse_ids=True)
        pair.update("delete_vertices", _named(kind, 4))
        fresh = self.pair(weighted=True)
        batch = _named(kind, 3, 20, 21), _named(kind, 22, 3, 1), [1.0, 2.0, 3.0]
        for_every_new_array(monkeypatch, fresh, "insert_edges", batch)
        for method, args in (
            ("insert_edges", (batch,)),
            ("insert_vertices", (_named(kind, *range(100, 140)),)),
            ("delete_vertices", (_named(kind, 3, 120),)),
            ("insert_vertices", (_named(kind, 200),)),
            ("reorder", ()),
        ):
            for_every_new_array(monkeypatch, pair, method, *args)

    @every_kind_of_id
    def test_vertices_come_and_go_for_long(self, kind: str) -> None:
        """A window over ever new ids: as numbers are reused, neither V nor the map grows."""
        pair = self.pair(reuse_ids=True)
        sizes = []
        for step in range(40):
            fresh = np.arange(10 * step, 10 * step + 10)
            pair.insert(_named(kind, *fresh), _named(kind, *(fresh + 1)))
            if step >= 4:
                pair.update("delete_vertices", _named(kind, *(fresh - 40)))
            sizes.append(pair.graph.memory_usage()["vertex_map"])
        assert pair.graph.number_of_vertices() <= 70
        assert max(sizes[20:]) <= max(sizes[5:20]) * 1.2
        pair.check_queries()
