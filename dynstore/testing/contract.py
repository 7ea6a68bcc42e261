"""The contract of all stores on all devices, as test classes to subclass.

A store and a device are checked by a few lines::

    class TestMyStore(StoreContract):
        store = "my-store"
        device = "cpu"

:class:`CoreContract` has the most important cases with the fewest steps: it also runs in our CUDA simulator, where
every GPU thread is a greenlet. :class:`StoreContract` adds all others. Accepted and refused input is the same for all
stores: :class:`~dynstore.testing.contract_inputs.InputContract`, once a device. The classes need pytest.
"""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.errors import InputError, OutOfMemoryError, StaleSnapshotError
from dynstore.testing.contract_leases import LeaseCases
from dynstore.testing.contract_shapes import ShapeCases
from dynstore.testing.faults import for_every_allocation
from dynstore.testing.pair import Contract

__all__ = ["CoreContract", "StoreContract"]

KINDS = [(True, False), (True, True), (False, False), (False, True)]
KIND_NAMES = ["directed", "directed-weighted", "undirected", "undirected-weighted"]
every_kind = pytest.mark.parametrize(("directed", "weighted"), KINDS, ids=KIND_NAMES)


class CoreContract(Contract):
    """The essential cases, small enough for the simulator."""

    @every_kind
    def test_inserts_deletes_and_queries_follow_the_model(self, directed: bool, weighted: bool) -> None:
        pair = self.pair(directed=directed, weighted=weighted, transposed=True)
        src, dst = [3, 0, 1, 3, 2, 0, 3], [1, 1, 0, 3, 4, 6, 1]
        weights = [[2.0, 0.5, 4.0, 8.0, 0.0, -1.0, 16.0]] if weighted else []
        pair.insert(src, dst, *weights)
        pair.check_queries()
        pair.delete([0, 3, 9, 3, 1], [1, 3, 9, 3, 3])
        pair.check_queries()
        pair.insert([7, 0], [0, 1], *([[0.25, 3.0]] if weighted else []))
        pair.check_queries()

    @pytest.mark.parametrize("directed", [True, False])
    @pytest.mark.parametrize("on_duplicate", ["replace", "add"])
    def test_duplicates_of_a_batch_and_of_the_graph(self, directed: bool, on_duplicate: str) -> None:
        pair = self.pair(directed=directed, weighted=True)
        pair.insert([1, 2, 1, 2, 1, 0], [2, 1, 2, 1, 2, 0], [1.0, 2.0, 4.0, 8.0, 16.0, 0.5], on_duplicate=on_duplicate)
        pair.insert([2, 0, 0, 1, 3], [1, 0, 0, 2, 3], [32.0, 1.0, 2.0, 64.0, 0.0], on_duplicate=on_duplicate)
        pair.check_queries()

    def test_duplicates_of_an_unweighted_graph_are_one_edge(self) -> None:
        pair = self.pair(directed=False)
        report = pair.insert([1, 2, 1, 3, 3], [2, 1, 2, 3, 3], on_duplicate="add")
        assert (report.inserted, report.duplicates) == (2, 3)
        report = pair.insert([2, 4], [1, 4])
        assert (report.inserted, report.replaced) == (1, 1)

    def test_a_weighted_graph_given_no_weight_takes_one(self) -> None:
        pair = self.pair(weighted=True)
        pair.insert([0, 1, 0], [1, 2, 1])
        assert pair.graph.core.backend.to_host(pair.graph.edge_weights(([0], [1]))).tolist() == [1.0]
        pair.insert([0, 0], [1, 1], on_duplicate="add")
        assert pair.graph.core.backend.to_host(pair.graph.edge_weights(([0], [1]))).tolist() == [3.0]

    @pytest.mark.parametrize("on_duplicate", ["replace", "add"])
    def test_an_edge_that_comes_back_starts_from_nothing(self, on_duplicate: str) -> None:
        pair = self.pair(weighted=True, directed=False)
        pair.insert([0, 1, 2], [1, 2, 3], [5.0, 7.0, 9.0])
        pair.delete([2], [1])
        report = pair.insert([1, 2], [2, 1], [0.5, 0.25], on_duplicate=on_duplicate)
        assert (report.inserted, report.replaced, report.duplicates) == (1, 0, 1)
        pair.check_queries()

    def test_delete_b_of_a_a_b_b(self) -> None:
        """Gaps between two edges repeat keys: no gap may make a deleted edge reappear."""
        pair = self.pair(weighted=True)
        pair.insert([0, 0, 0], [1, 5, 9], [1.0, 2.0, 3.0])
        pair.delete([0], [5])
        pair.check_queries()
        pair.insert([0, 0], [4, 6], [4.0, 5.0])
        pair.delete([0], [5])
        pair.insert([0], [5], [6.0])
        pair.delete([0, 0], [1, 4])
        pair.check_queries()

    def test_empty_the_first_segment(self) -> None:
        pair = self.pair()
        src = np.repeat(np.arange(8), 9)
        pair.insert(src, np.tile(np.arange(9), 8))
        pair.delete(src[:40], np.tile(np.arange(9), 8)[:40])
        pair.check_queries()
        pair.insert([0, 0, 4], [0, 3, 3])
        pair.check_queries()

    def test_empty_everything_and_begin_again(self) -> None:
        pair = self.pair(weighted=True, transposed=True)
        src, dst = np.repeat(np.arange(6), 7), np.tile(np.arange(7), 6)
        pair.insert(src, dst, src + dst / 8)
        report = pair.delete(dst, src)
        assert (report.deleted, report.absent) == (36, 6)
        pair.delete(src, dst)
        assert pair.graph.number_of_edges() == 0
        pair.check_queries()
        pair.insert(src[:5], dst[:5], [9.0] * 5)
        pair.check_queries()

    def test_delete_and_insert_again_with_another_weight(self) -> None:
        pair = self.pair(weighted=True)
        src, dst = np.arange(40) // 5, np.arange(40) % 5
        pair.insert(src, dst, np.full(40, 2.0))
        pair.delete(src[::3], dst[::3])
        pair.insert(src[::2], dst[::2], np.full(20, 0.5))
        pair.insert(src[::3], dst[::3], np.full(14, 0.25), on_duplicate="add")
        pair.check_queries()

    def test_the_edge_0_0_of_a_graph_that_never_held_one(self) -> None:
        """Arrays without edges are filled with the key (0, 0): it must not look like an edge."""
        pair = self.pair(weighted=True)
        assert pair.graph.core.backend.to_host(pair.graph.has_edges(([0], [0]))).tolist() == [False]
        assert pair.delete([0], [0]).absent == 1
        pair.update("insert_vertices", [2])
        assert pair.delete([0, 1], [0, 0]).absent == 2
        pair.check_queries()
        assert pair.insert([0], [0], [4.0]).inserted == 1
        pair.check_queries()
        assert pair.delete([0], [0]).deleted == 1
        pair.check_queries()

    def test_growth_and_shrinkage(self) -> None:
        pair = self.pair(directed=False, weighted=True)
        rng = np.random.default_rng(5)
        for size in (1, 3, 9, 27, 81):
            pair.insert(rng.integers(0, size + 3, size), rng.integers(0, size + 3, size), rng.integers(0, 9, size))
        edges = np.array(sorted(pair.model.edges))
        for part in np.array_split(rng.permutation(edges), 3):
            pair.delete(part[:, 0], part[:, 1])
        assert pair.graph.number_of_edges() == 0

    def test_empty_batches(self) -> None:
        pair = self.pair(weighted=True)
        pair.insert([], [])
        pair.insert([], [], [])
        pair.insert([1], [2], [3.0])
        pair.delete([], [])
        pair.insert(np.array([], dtype=np.int64), np.array([], dtype=np.int64))
        pair.update("insert_vertices", [])
        pair.update("delete_vertices", [])
        assert pair.graph.core.backend.to_host(pair.graph.has_edges(([], []))).shape == (0,)

    def test_vertices_come_and_go(self) -> None:
        pair = self.pair(directed=False, weighted=True, transposed=True)
        pair.update("insert_vertices", [4])
        pair.insert([0, 1, 2, 2], [1, 2, 2, 5], [1.0, 2.0, 3.0, 4.0])
        report = pair.update("delete_vertices", [2])
        assert (report.deleted, pair.graph.number_of_vertices()) == (3, 5 if self.renumbered else 6)
        pair.check_queries()
        pair.insert([2], [0], [8.0])
        pair.check_queries()

    def test_clear_and_copy_are_independent(self) -> None:
        pair = self.pair(weighted=True, transposed=True)
        pair.insert([0, 1, 2], [1, 2, 0], [1.0, 2.0, 3.0])
        other = pair.copy()
        other.check()
        pair.delete([0], [1])
        other.insert([3, 1], [3, 2], [4.0, 5.0])
        pair.update("clear")
        pair.check_queries()
        other.check_queries()
        pair.insert([5], [1], [6.0])
        pair.check_queries()
        other.check_queries()

    def test_only_the_last_row_is_bad(self) -> None:
        pair = self.pair(weighted=True)
        pair.insert([0, 1], [1, 2], [1.0, 2.0])
        pair.refuse(InputError, "insert_edges", ([0, 3, 2], [5, 1, -1], [1.0, 2.0, 3.0]), match="-1")
        pair.refuse(InputError, "insert_edges", ([0, 3, 2], [5, 1, 1], [1.0, 2.0, float("nan")]), match="NaN")
        pair.refuse(InputError, "delete_edges", ([0, 1], [1, -7]), match="-7")

    def test_out_of_memory_at_every_allocation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pair = self.pair(weighted=True, transposed=True)
        pair.insert([0, 1, 0], [1, 2, 0], [1.0, 2.0, 3.0])
        for_every_allocation(monkeypatch, pair, "insert_edges", ([0, 1, 9, 3], [7, 2, 9, 3], [4.0, 5.0, 6.0, 7.0]))
        for_every_allocation(monkeypatch, pair, "delete_edges", ([0, 1, 1], [1, 2, 4]))

    def test_a_snapshot_is_a_lease_on_one_version(self) -> None:
        pair = self.pair(weighted=True)
        pair.insert([0, 1], [1, 2], [1.0, 2.0])
        lease = pair.graph.snapshot()
        assert lease.version == pair.graph.version
        pair.graph.has_edges(([0], [1]))
        assert lease.offsets.shape == (4,)
        pair.delete([5], [5])
        for name in ("offsets", "sources", "indices", "weights", "valid"):
            with pytest.raises(StaleSnapshotError, match="version 1"):
                getattr(lease, name)

    def test_exported_arrays_never_change(self) -> None:
        pair = self.pair(weighted=True)
        pair.insert([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0])
        exported = pair.graph.snapshot().export()
        before = {name: np.array(pair.graph.core.backend.to_host(array)) for name, array in exported.items()}
        pair.insert([0, 1], [1, 0], [9.0, 9.0])
        pair.delete([1, 2], [2, 3])
        for name, array in exported.items():
            np.testing.assert_array_equal(pair.graph.core.backend.to_host(array), before[name], strict=True)

    def test_out_of_memory_is_a_memory_error(self) -> None:
        pair = self.pair()
        with pytest.raises(OutOfMemoryError) as error:
            pair.graph.core.backend.empty(1 << 60, np.int32)
        assert isinstance(error.value, MemoryError)


class StoreContract(LeaseCases, ShapeCases, CoreContract):
    """The whole contract of a store."""
