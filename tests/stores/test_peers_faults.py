"""Faults that were found in other dynamic graph systems, each a test of every store on every device.

The systems are named for what was seen in their public code; what is tested is that dynstore does not
share the fault.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore.errors import LimitError, OutOfMemoryError
from dynstore.stores import STORES, stores_of
from dynstore.testing.invariants import host_arrays, live_edges
from dynstore.testing.pair import Pair


class Bench:
    """Makes pairs of one store on one device, and says how large a large batch is there."""

    def __init__(self, store: str, device: str) -> None:
        self.store, self.device = store, device
        self.large = 40 if device == "cuda-sim" else 6000

    def pair(self, **options: Any) -> Pair:
        return Pair(store=self.store, device=self.device, **options)


@pytest.fixture(params=sorted(STORES))
def at(request: pytest.FixtureRequest, backend_name: str) -> Bench:
    if backend_name != "cpu" and request.param not in stores_of("cuda"):
        pytest.skip(f"store {request.param!r} runs on the host only")
    return Bench(request.param, backend_name)


def test_hornet_accepted_count_after_removing_duplicates(at: Bench) -> None:
    """Its count of accepted rows was read one past the scanned flags: 1, whatever the batch."""
    pair = at.pair()
    report = pair.insert([1, 1, 2, 2, 2, 3], [5, 5, 6, 6, 7, 1])
    assert (report.inserted, report.duplicates) == (4, 2)
    report = pair.insert([1, 4, 4, 3], [5, 4, 4, 1])
    assert (report.inserted, report.replaced, report.duplicates) == (1, 2, 1)


def test_hornet_part_of_a_large_batch_skipped(at: Bench) -> None:
    """A grid sized for other hardware left out part of batches over 5,000 edges, without an error."""
    pair = at.pair()
    src, dst = np.divmod(np.random.default_rng(0).permutation(at.large), 97)
    assert pair.insert(src, dst).inserted == at.large
    assert pair.graph.core.backend.to_host(pair.graph.has_edges((src, dst))).all()
    assert pair.delete(src, dst).deleted == at.large


def test_hornet_vertices_without_edges(at: Bench) -> None:
    """Degree 0 went into a logarithm."""
    pair = at.pair(weighted=True, transposed=True)
    pair.update("insert_vertices", [9])
    pair.check_queries()
    pair.insert([4], [7], [2.0])
    pair.delete([4], [7])
    pair.insert([4, 9], [9, 4], [3.0, 4.0])
    pair.check_queries()


def test_hornet_csr_of_an_unweighted_graph(at: Bench) -> None:
    """Exporting the CSR compiled for weighted graphs only."""
    pair = at.pair()
    pair.insert([0, 2], [1, 0])
    assert set(pair.graph.snapshot().export()) == {"offsets", "sources", "indices", "valid"}
    assert pair.graph.snapshot().weights is None


def test_hornet_deletes_write_over_live_edges(at: Bench) -> None:
    pair = at.pair(weighted=True)
    src, dst = np.divmod(np.arange(36), 6)
    pair.insert(src, dst, np.arange(36) / 4)
    for vertex in (0, 5, 2):
        pair.delete(np.full(6, vertex), np.arange(6))
    pair.check_queries()


def test_slabhash_inserts_not_unique_after_deletes(at: Bench) -> None:
    """An insert took the first hole that a delete had left, and did not look further for the key."""
    pair = at.pair(weighted=True)
    row = np.zeros(30, dtype=int)
    pair.insert(row, np.arange(30), np.ones(30))
    pair.delete(row[:10], np.arange(10))
    report = pair.insert(row, np.arange(30), np.full(30, 2.0))
    assert (report.inserted, report.replaced) == (10, 20)
    assert pair.delete(row, np.arange(30)).deleted == 30
    assert pair.graph.number_of_edges() == 0


def test_meerkat_tombstones_pile_up_under_a_window(at: Bench) -> None:
    """Deleted places were never used again, so chains only grew."""
    pair = at.pair(weighted=True)
    batch, rounds = (10, 8) if at.device == "cuda-sim" else (100, 60)
    slots = []
    for start in range(0, batch * rounds, batch):
        fresh = np.arange(start, start + batch)
        pair.insert(fresh % 7, fresh, fresh / 2)
        if start >= 2 * batch:
            pair.delete((fresh - 2 * batch) % 7, fresh - 2 * batch)
        slots.append(pair.graph.snapshot().num_slots)
    assert max(slots[rounds // 2 :]) <= 2 * max(slots[: rounds // 2])


def test_slaballoc_waits_for_ever_when_the_pool_is_empty(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = at.pair()
    pair.insert([0, 1], [1, 2])

    def nothing_left(shape: Any, dtype: Any) -> Any:
        raise OutOfMemoryError("the pool is empty")

    src, dst = np.divmod(np.arange(200), 20)
    with monkeypatch.context() as patch:
        patch.setattr(pair.graph.core.backend, "empty", nothing_left)
        with pytest.raises(MemoryError, match="pool is empty"):
            pair.graph.insert_edges((src, dst))
    pair.check()
    pair.insert(src, dst)


def test_gpma_duplicates_inside_a_batch(at: Bench) -> None:
    """Only the tree was asked for the key, never the rest of the batch."""
    pair = at.pair(weighted=True)
    report = pair.insert(np.full(40, 3), np.arange(40) % 4, np.arange(40) / 2)
    assert (report.inserted, report.duplicates) == (4, 36)
    assert live_edges(pair.graph.snapshot()) == {(3, k): (36 + k) / 2 for k in range(4)}


def test_gpma_weight_zero_is_not_a_deletion(at: Bench) -> None:
    pair = at.pair(weighted=True)
    pair.insert([0, 0, 1], [0, 1, 1], [0.0, -0.0, 5.0])
    pair.insert([1], [1], [0.0])
    assert pair.graph.number_of_edges() == 3
    pair.check_queries()
    pair.insert([1], [1], [0.0], on_duplicate="add")
    assert pair.delete([0, 0, 1], [0, 1, 1]).deleted == 3


def test_gpma_deletes_never_shrink(at: Bench) -> None:
    pair = at.pair()
    count = 200 if at.device == "cuda-sim" else 4000
    src, dst = np.divmod(np.arange(count), 50)
    pair.insert(src, dst)
    full = pair.graph.snapshot().num_slots
    pair.delete(src[8:], dst[8:])
    pair.insert([1], [7])
    assert pair.graph.snapshot().num_slots <= full / 2


def test_gpma_the_last_write_wins_by_order(at: Bench) -> None:
    """Its last writer was whichever thread came last; here it is the last row, also of mirrored ones."""
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, 4, (2, 60))
    for directed in (True, False):
        pair = at.pair(weighted=True, directed=directed)
        pair.insert(src, dst, np.arange(60))
        pair.insert(dst, src, np.arange(60)[::-1])


def test_gpma_no_sentinel_keys_among_the_ids(at: Bench) -> None:
    """The largest key stood in the array as a wall."""
    pair = at.pair()
    pair.insert([0, 3], [2, 1])
    pair.delete([0], [2])
    host = host_arrays(pair.graph.snapshot())
    assert max(host["indices"].max(), host["sources"].max()) <= 3
    held = pair.graph.core.backend.to_host(pair.graph.has_edges(([2**31 - 2], [2**31 - 2])))
    assert held.tolist() == [False]


def test_lpma_point_deletes_and_duplicates(at: Bench) -> None:
    """Deletion and duplicate detection were commented out."""
    pair = at.pair()
    for v in (3, 1, 2, 3):
        pair.insert([0], [v])
    pair.delete([0], [1])
    pair.delete([0], [1])
    assert pair.graph.core.backend.to_host(pair.graph.neighbors(0)).tolist() == [2, 3]


def test_lpma_ids_of_more_than_22_bits(at: Bench) -> None:
    if at.device == "cuda-sim":
        pytest.skip("the simulator would make a greenlet for each of four million rows")
    pair = at.pair()
    large = (1 << 22) + 77
    pair.graph.insert_edges(([large, 1], [3, large]))
    assert pair.graph.number_of_vertices() == large + 1
    assert pair.graph.core.backend.to_host(pair.graph.neighbors(large)).tolist() == [3]
    assert live_edges(pair.graph.snapshot()) == {(large, 3): 1.0, (1, large): 1.0}


def test_lpma_a_sparse_root_is_no_failure(at: Bench) -> None:
    """A root below a density of 0.42 ended the program."""
    pair = at.pair(capacity=64 if at.device == "cuda-sim" else 10_000)
    pair.insert([0, 1], [1, 0])
    src, dst = np.divmod(np.arange(90), 10)
    pair.insert(src, dst)
    pair.delete(src[1:], dst[1:])
    pair.insert([8], [3])
    pair.check_queries()


def test_lpma_too_many_slots_are_an_error(at: Bench) -> None:
    """It printed a line and went on."""
    store = at.pair().graph.core.out
    with pytest.raises(LimitError, match='vertex_dtype="int64"'):
        store._check_num_slots(2**31)
    at.pair(vertex_dtype="int64").graph.core.out._check_num_slots(2**31)


def test_meerkat_weighted_inserts_not_unique(at: Bench) -> None:
    pair = at.pair(weighted=True)
    for weight in (1.0, 2.0, 3.0):
        pair.insert([5, 5], [6, 7], [weight, weight])
    assert pair.graph.number_of_edges() == 2


def test_meerkat_degrees_stay_zero(at: Bench) -> None:
    """The count was taken after the flag that it counted had been cleared."""
    pair = at.pair(weighted=True)
    pair.insert([5, 5, 5, 1], [6, 7, 6, 5], [1.0, 2.0, 3.0, 4.0])
    assert pair.graph.out_degree()["degree"].to_numpy().tolist() == [0, 1, 0, 0, 0, 2, 0, 0]
    pair.delete([5], [6])
    assert pair.graph.degree()["degree"].to_numpy().tolist() == [0, 1, 0, 0, 0, 2, 0, 1]


def test_gunrock_unweighted_graphs_are_stubs_that_succeed(at: Bench) -> None:
    pair = at.pair(weighted=False)
    assert pair.insert([0, 1], [1, 2]).inserted == 2
    assert pair.graph.core.backend.to_host(pair.graph.has_edges(([0, 1], [1, 2]))).all()


def test_faimgraph_pool_sized_by_the_average_degree(at: Bench) -> None:
    """Memory estimated as edges over vertices was overrun by one hub."""
    pair = at.pair(capacity=at.large, weighted=True)
    count = at.large
    pair.update("insert_vertices", [count])
    pair.insert(np.full(count, 2), np.arange(count), np.arange(count) / 4)
    pair.insert(np.arange(count), np.full(count, 2), np.arange(count) / 8)


def test_faimgraph_free_memory_is_used_again(at: Bench) -> None:
    pair = at.pair()
    src, dst = np.divmod(np.arange(at.large), 80)
    pair.insert(src, dst)
    pair.delete(src, dst)
    pair.insert(src, dst)
    usage = pair.graph.memory_usage()["total"]
    for _ in range(1 if at.device == "cuda-sim" else 3):
        pair.delete(src, dst)
        pair.insert(src, dst)
    assert pair.graph.memory_usage()["total"] <= usage
