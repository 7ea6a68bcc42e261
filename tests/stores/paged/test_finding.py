"""Which leaves of pages an update reads to find its edges."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.backend import Backend
from dynstore.batches.make import make_batch
from dynstore.graph import DynamicGraph
from dynstore.stores.paged.building import pack_rows
from dynstore.stores.paged.finding import find_batch, find_edges
from dynstore.stores.paged.layout import PagedRows
from dynstore.stores.paged.store import PagedStore
from dynstore.testing.pair import Pair
from tests.conftest import DEVICES
from tests.crossed import crossed
from tests.stores.paged.searches import count_searches, find_slots

SMALL = {"delta_edges": 2000, "delta_share": 0.2, "density": 0.9, "page_bits": 5}


def pack_one_row(backend: Backend, before: int, length: int) -> tuple[PagedRows, int]:
    """Pack a row of ``before`` edges, one of 10, 20, 30 ..., and one with small ids; return the second's first slot."""
    rows = np.arange(before), 10 * np.arange(1, length + 1), np.arange(40)
    offsets = np.cumsum([0, *map(len, rows)])
    ends = np.concatenate((offsets, np.full(10_000 - 3, offsets[-1])))
    packed = pack_rows(backend, ends, np.concatenate(rows).astype(np.int32), encode=False, page_bits=5)
    return packed, before


@pytest.mark.parametrize("before", [0, 7, 32])
@pytest.mark.parametrize("length", [1, 20, 32, 33, 64, 65, 110])
def test_the_last_leaf_is_found_from_the_one_before(backend: Backend, before: int, length: int) -> None:
    packed, first = pack_one_row(backend, before, length)
    wanted = np.arange(0, 10 * length + 20, 5)
    slots = find_slots(packed, np.ones(len(wanted), np.int64), wanted)
    there = (wanted % 10 == 0) & (wanted > 0) & (wanted <= 10 * length)
    assert slots == np.where(there, first + wanted // 10 - 1, -1).tolist()


def test_the_last_leaf_is_not_read_for_edges_that_lie_before_it(backend: Backend) -> None:
    """Its words are overwritten by an id that is looked for, which a read of it would find."""
    packed, _ = pack_one_row(backend, 0, 110)  # leaves begin at 10, 330, 650 and 970
    for wanted, slot in ((15, -1), (645, -1), (655, 96)):
        packed.words[96] = wanted
        assert find_slots(packed, np.array([1]), np.array([wanted])) == [slot]


def some_pairs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw pairs; some are repeated, in both directions, and some are self-loops."""
    src, dst = (np.random.default_rng(seed).random((2, count)) ** 2 * 40).astype(np.int64)
    return src, dst


def has_bit(words: np.ndarray, slots: np.ndarray) -> np.ndarray:
    bits: np.ndarray = words[slots >> 5] >> (slots & 31).astype(np.uint32) & 1
    return bits == 1


@crossed(vertex_dtype=["int32", "int64"], weighted=[False, True], every_slot=[False, True], backend_name=DEVICES)
def test_a_mirrored_batch_is_found_as_its_edges_are(
    vertex_dtype: str, weighted: bool, every_slot: bool, backend_name: str
) -> None:
    """With live edges, edges without bits, edges of the delta, new ones, and self-loops."""
    size = 400 if backend_name == "cpu" else 120
    G = DynamicGraph(
        store="paged", directed=False, weighted=weighted, vertex_dtype=vertex_dtype, device=backend_name,
        **{**SMALL, "delta_edges": 30},
    )  # fmt: skip
    values = [np.ones(size)] if weighted else []
    G.insert_edges((*some_pairs(size, 1), *values))
    G.delete_edges(tuple(column[: size // 20] for column in some_pairs(size, 1)))
    store, backend = G.core.out, G.core.backend
    assert isinstance(store, PagedStore)
    ends = tuple(backend.asarray(column.astype(vertex_dtype)) for column in some_pairs(size, 1))
    others = tuple(backend.asarray(column.astype(vertex_dtype)) for column in some_pairs(size, 2))
    src, dst = (backend.xp.concatenate(pair) for pair in zip(ends, others, strict=True))
    weights = backend.xp.ones(2 * size, np.float32) if weighted else None
    batch = make_batch(backend, src, dst, weights, False, max_id=40).materialized()
    assert batch.mirrored
    where = store._base, store._valid, store._filter
    found = find_batch(*where, batch, every_slot)
    slots, live = map(backend.to_host, found[:2])
    exact = np.array(find_slots(store._base, batch.src, batch.dst))
    wanted = (exact >= 0) & has_bit(backend.to_host(store._valid), exact)
    assert live.tolist() == wanted.tolist()
    assert ((slots >= 0) == (exact >= 0)).all()
    chosen = slice(None) if every_slot else ~live
    assert slots[chosen].tolist() == exact[chosen].tolist()
    assert 0 < live.sum() < (slots >= 0).sum() < len(batch)
    loops = backend.to_host(batch.src == batch.dst)
    dead = (exact >= 0) & ~live
    assert (found.num_live, found.live_loops, found.num_dead) == (live.sum(), (live & loops).sum(), dead.sum())
    again = find_edges(*where, batch.src, batch.dst)
    assert backend.to_host(again.slots).tolist() == exact.tolist()
    assert backend.to_host(again.live).tolist() == wanted.tolist()


def test_only_mirrored_batches_are_marked(backend: Backend) -> None:
    src, dst = backend.asarray(np.array([3, 1, 1], np.int32)), backend.asarray(np.array([1, 3, 1], np.int32))
    for weights in (None, backend.xp.ones(3, np.float32)):
        for dtype in (np.int32, np.int64):
            for directed in (False, True):
                batch = make_batch(backend, src.astype(dtype), dst.astype(dtype), weights, directed, max_id=3)
                edges = batch.materialized()
                assert edges.mirrored == edges.transposed(backend).mirrored == (not directed)
                assert len(edges) == 3


def test_an_undirected_edge_is_searched_for_once_if_it_is_live(
    backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    G = DynamicGraph(store="paged", directed=False, device=backend_name, **SMALL)
    src, dst = np.divmod(np.arange(1600), 40)
    G.insert_edges((src, dst + 40))
    assert G.statistics()["merges"] == 1
    G.delete_edges((src[:50], dst[:50] + 40))
    searched = count_searches(monkeypatch)
    report = G.insert_edges((src[:100], dst[:100] + 40))
    assert (report.inserted, sum(searched)) == (50, 100 + 50)  # the twins of 50 that come back
    assert G.statistics()["dead_slots"] == 0
    searched.clear()
    G.delete_edges((src[:60], dst[:60] + 40))
    assert sum(searched) == 120
    assert not G.has_edges((dst[:60] + 40, src[:60])).any()
    searched.clear()
    assert G.insert_edges((src[:400], dst[:400] + 80)).inserted == 400
    assert sum(searched) < 10  # both directions would have to pass the filter


@pytest.mark.parametrize("weighted", [False, True])
def test_undirected_edges_come_and_go(weighted: bool, backend_name: str) -> None:
    small = {**SMALL, "delta_edges": 60}
    pair = Pair(store="paged", directed=False, weighted=weighted, device=backend_name, **small)
    size = 200 if backend_name == "cpu" else 60
    for step in range(4):
        src, dst = some_pairs(size, 1)
        src, dst = src[20 * step :], dst[20 * step :]
        pair.insert(src, dst, *([np.full(len(src), step + 1.0)] if weighted else []))
        pair.delete(dst[:15], src[:15])
        pair.insert(*some_pairs(10, 5 + step), *([np.full(10, step + 1.0)] if weighted else []))
    assert pair.graph.statistics()["merges"]
    pair.check_queries()


def test_a_deletion_may_name_vertices_that_are_no_rows(backend_name: str) -> None:
    """Keys of large ids do not ascend with the edges: (1, 2**33 + 7) has the key of (3, 7)."""
    G = DynamicGraph(store="paged", directed=False, vertex_dtype="int64", device=backend_name, **SMALL)
    src, dst = np.divmod(np.arange(3000), 60)
    G.insert_edges((src, dst))
    before = G.number_of_edges()
    for first in (100, 2**33, 2**40):
        strange = np.arange(first, first + 40)
        report = G.delete_edges((np.r_[[1] * 40, strange, 1], np.r_[strange, strange, 2]))
        assert (report.deleted, report.absent) == (1, 80)
        assert G.number_of_edges() == before - 1
        assert not G.has_edges([(1, 2), (2, 1)]).any()
        assert G.insert_edges([(2, 1)]).inserted == 1
        assert G.statistics()["dead_slots"] == 0
