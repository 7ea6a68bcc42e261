"""Cases of the store contract: leases and exports of arrays, how long they last, and what they cost."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dynstore.errors import InputError, StaleSnapshotError
from dynstore.graph import DynamicGraph
from dynstore.graph.transaction import Transaction
from dynstore.snapshot import GapCSR
from dynstore.testing.faults import count_bytes, for_every_allocation, for_every_new_array
from dynstore.testing.invariants import check_csr, live_edges
from dynstore.testing.pair import Contract, Pair

__all__ = ["LeaseCases"]

# updates of the graph that `busy` makes; together they take every path
UPDATES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "insert-few": ("insert_edges", (([0, 3, 3], [9, 3, 5], [1.0, 2.0, 3.0]),)),
    "insert-with-growth": ("insert_edges", ((np.arange(300) // 9, np.arange(300) % 40, np.arange(300) / 4),)),
    "insert-new-vertices": ("insert_edges", (([40, 2], [3, 500], [1.0, 2.0]),)),
    "replace": ("insert_edges", (([0, 0, 1], [1, 2, 2], [7.0, 8.0, 9.0]),)),
    "delete-few": ("delete_edges", (([0, 1, 1], [1, 2, 39]),)),
    "delete-all": ("delete_edges", ((np.repeat(np.arange(10), 10), np.tile(np.arange(10), 10)),)),
    "insert-vertices": ("insert_vertices", ([700],)),
    "delete-vertices": ("delete_vertices", ([1, 4, 900],)),
    "clear": ("clear", ()),
}
every_update = pytest.mark.parametrize("name", UPDATES)


class LeaseCases(Contract):
    """Mixed into :class:`dynstore.testing.contract.StoreContract`."""

    def busy(self, **options: Any) -> Pair:
        """Make a weighted pair of 10 vertices, with gaps if the store has gaps."""
        pair = self.pair(weighted=True, **options)
        src, dst = np.repeat(np.arange(10), 10), np.tile(np.arange(10), 10)
        pair.insert(src, dst, src + dst / 16)
        pair.delete(src[::3], dst[::3])
        return pair

    @every_update
    @pytest.mark.parametrize("directed", [True, False])
    def test_every_update_survives_running_out_of_memory(
        self, monkeypatch: pytest.MonkeyPatch, name: str, directed: bool
    ) -> None:
        method, args = UPDATES[name]
        for_every_allocation(monkeypatch, self.busy(directed=directed, transposed=True), method, *args)

    @every_update
    @pytest.mark.parametrize("transposed", [False, True])
    def test_no_new_array_is_made_once_writing_has_begun(
        self, monkeypatch: pytest.MonkeyPatch, name: str, transposed: bool
    ) -> None:
        method, args = UPDATES[name]
        for_every_new_array(monkeypatch, self.busy(transposed=transposed), method, *args)

    @pytest.mark.parametrize("name", ["insert", "add", "delete"])
    def test_writing_needs_no_memory(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        """A planned update allocates nothing that grows with the graph or the batch (measured on the host only)."""
        rng = np.random.default_rng(9)
        src, dst, weights = rng.integers(0, 300, 20_000), rng.integers(0, 300, 20_000), np.full(20_000, 0.5)
        extra = [np.arange(20_000)] * len(self.options.get("edge_columns", ()))
        first = DynamicGraph(weighted=True, store=self.store, device=self.device, **self.options)
        first.snapshot(transposed=True)
        first.insert_edges(tuple(column[:15_000] for column in (src, dst, weights, *extra)))
        peaks = []
        commit = Transaction.commit

        def measured(update: Transaction, *plans: Any) -> None:
            tracemalloc.start()
            try:
                commit(update, *plans)
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()

        monkeypatch.setattr(Transaction, "commit", measured)
        for graph in (first.copy(), first.copy()):  # the first run compiles
            if name == "delete":
                graph.delete_edges((src[::2], dst[::2]))
            else:
                columns = tuple(column[::2] for column in (src, dst, weights, *extra))
                graph.insert_edges(columns, on_duplicate="add" if name == "add" else "replace")
        assert peaks[1] < 32_000, f"writing took {peaks[1]} bytes"

    def test_out_of_memory_with_exports_alive(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pair = self.busy(transposed=True)
        exported = pair.graph.snapshot().export()
        before = _host_copies(pair, exported)
        for name in ("insert-few", "delete-few", "insert-with-growth", "clear"):
            method, args = UPDATES[name]
            for_every_allocation(monkeypatch, pair, method, *args)
        _assert_same(pair, exported, before)

    @every_update
    def test_every_update_ends_the_lease(self, name: str) -> None:
        pair = self.busy(transposed=True)
        leases = [pair.graph.snapshot(), pair.graph.snapshot(transposed=True)]
        uses: list[Callable[[GapCSR], Any]] = [
            lambda x: x.indices, lambda x: x.mask(), lambda x: x.compact(), lambda x: x.export(),
        ]  # fmt: skip
        version = pair.graph.version
        method, args = UPDATES[name]
        pair.update(method, *args)
        assert pair.graph.version == version + 1
        for lease in leases:
            for use in uses:
                with pytest.raises(StaleSnapshotError, match=f"version {version} of the graph.* version {version + 1}"):
                    use(lease)

    def test_updates_that_change_nothing_count_too(self) -> None:
        pair = self.busy()
        lease, version = pair.graph.snapshot(), pair.graph.version
        pair.insert([], [])
        pair.delete([77], [77])
        assert pair.graph.version == version + 2
        with pytest.raises(StaleSnapshotError):
            _ = lease.indices

    def test_a_refused_update_ends_no_lease(self) -> None:
        pair = self.busy()
        lease = pair.graph.snapshot()
        with pytest.raises(InputError):
            pair.graph.insert_edges(([0, -1], [1, 1]))
        assert lease is not None
        check_csr(lease, gapped=not lease.is_packed)

    def test_an_update_of_a_copy_ends_no_lease(self) -> None:
        pair = self.busy(transposed=True)
        lease, edges = pair.graph.snapshot(), live_edges(pair.graph.snapshot())
        other = pair.copy()
        for method, args in UPDATES.values():
            other.update(method, *args)
        assert live_edges(lease) == edges
        pair.check_queries()

    @every_update
    def test_exported_arrays_survive_every_update(self, name: str) -> None:
        pair = self.busy(transposed=True)
        exports = [pair.graph.snapshot().export(), pair.graph.snapshot(transposed=True).export()]
        copies = [_host_copies(pair, arrays) for arrays in exports]
        view = exports[0].pop("indices")[3:9:2]
        kept = np.array(pair.graph.core.backend.to_host(view))
        method, args = UPDATES[name]
        pair.update(method, *args)
        for later, more in (UPDATES["insert-few"], UPDATES["replace"], UPDATES["delete-few"]):
            pair.update(later, *more)
        for arrays, before in zip(exports, copies, strict=True):
            _assert_same(pair, arrays, before)
        np.testing.assert_array_equal(pair.graph.core.backend.to_host(view), kept)

    def test_one_exported_column_is_enough_to_keep_it(self) -> None:
        for name in ("offsets", "sources", "indices", "weights", "valid"):
            pair = self.busy()
            array = pair.graph.snapshot().export()[name]
            before = np.array(pair.graph.core.backend.to_host(array))
            for method, args in (UPDATES["replace"], UPDATES["delete-few"], UPDATES["insert-few"]):
                pair.update(method, *args)
            np.testing.assert_array_equal(pair.graph.core.backend.to_host(array), before, err_msg=name)

    def test_exports_that_are_gone_cost_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        never, gone = self.busy(), self.busy()
        exported = gone.graph.snapshot().export()
        assert set(exported) == {"offsets", "sources", "indices", "valid", "weights"}
        del exported
        gc.collect()
        for name in ("delete-few", "insert-few", "replace"):
            method, args = UPDATES[name]
            cost = count_bytes(monkeypatch, never, method, *args)
            assert count_bytes(monkeypatch, gone, method, *args) <= cost

    def test_exports_on_the_host_are_read_only(self) -> None:
        pair = self.busy()
        for array in pair.graph.snapshot().export().values():
            if isinstance(array, np.ndarray):
                assert not array.flags.writeable

    def test_a_compacted_copy_is_its_own(self) -> None:
        pair = self.busy()
        packed, edges = pair.graph.snapshot().compact(), live_edges(pair.graph.snapshot())
        check_csr(packed, gapped=False)
        pair.update("clear")
        pair.insert([0], [1], [5.0])
        assert live_edges(packed) == edges
        check_csr(packed, gapped=False)

    def test_memory_usage_names_its_parts(self) -> None:
        pair = self.busy(vertex_dtype="int64", weight_dtype="float64")
        for transposed in (False, True):
            csr = pair.graph.snapshot(transposed)
            usage = pair.graph.memory_usage()
            sums = ("total", "host", "device")
            assert usage["total"] == sum(size for part, size in usage.items() if part not in sums)
            assert usage.get("host", 0) + usage.get("device", usage["total"]) == usage["total"]
            assert all(type(size) is int and size >= 0 for size in usage.values())
            prefix = "in_" if transposed else ""
            for part in ("src", "dst", "weights"):
                assert usage[f"{prefix}{part}"] >= csr.num_slots * 8
            assert usage[f"{prefix}valid"] >= csr.valid.nbytes
            assert usage[f"{prefix}offsets"] >= (csr.num_vertices + 1) * 8


def _host_copies(pair: Pair, arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array(pair.graph.core.backend.to_host(array)) for name, array in arrays.items()}


def _assert_same(pair: Pair, arrays: dict[str, Any], before: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        np.testing.assert_array_equal(pair.graph.core.backend.to_host(array), before[name], strict=True, err_msg=name)
