"""Merging the edges of pages with others, beside NumPy, and the memory of pages that is used again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore.backend import Backend, get_backend
from dynstore.bits import pack_bits
from dynstore.errors import OutOfMemoryError
from dynstore.graph import DynamicGraph
from dynstore.stores.paged import merging
from dynstore.stores.paged.building import pack_rows
from dynstore.stores.paged.memory import BufferRing, SpareMemory
from dynstore.stores.paged.merging import count_live, count_rows, read_merged, read_slots
from dynstore.testing.pair import Pair
from tests.stores.paged.test_store import SMALL, some_edges

NUM_VERTICES = 40


def make_case(backend: Backend, num_edges: int, num_added: int, weighted: bool, seed: int) -> Any:
    """Return pages, bits, other edges, and what the edges are after a merge: keys and weights."""
    rng = np.random.default_rng(seed)
    keys = np.sort(rng.choice(NUM_VERTICES**2, num_edges, replace=False))
    src, dst = keys // NUM_VERTICES, (keys % NUM_VERTICES).astype(np.int32)
    offsets = np.searchsorted(src, np.arange(NUM_VERTICES + 1)).astype(np.int64)
    weights = rng.random(num_edges) if weighted else None
    packed = pack_rows(backend, offsets, dst, page_bits=5, weights=weights)
    live = rng.random(num_edges) < 0.7
    # Some of the others have slots in pages whose bits are cleared.
    others = rng.permutation(np.setdiff1d(np.arange(NUM_VERTICES**2), keys[live]))[:num_added]
    others.sort()
    added = rng.random(len(others))
    all_keys = np.concatenate((keys[live], others))
    order = np.argsort(all_keys)
    wanted = (all_keys // NUM_VERTICES << 32 | all_keys % NUM_VERTICES)[order]
    wanted_weights = None if weights is None else np.concatenate((weights[live], added))[order]
    columns = (others // NUM_VERTICES).astype(np.int32), (others % NUM_VERTICES).astype(np.int32)
    more = *map(backend.asarray, columns), backend.asarray(added) if weighted else None
    return packed, pack_bits(backend, backend.asarray(live)), more, wanted, wanted_weights


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("num_edges", "num_added"), [(0, 5), (1, 0), (31, 90), (33, 1), (700, 300), (1100, 20)])
def test_merged_pieces_are_the_edges_in_order(
    num_edges: int, num_added: int, weighted: bool, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "PIECE_LEAVES", 1)  # a piece has 32 leaves, a page
    backend = get_backend(backend_name)
    for seed in range(3):
        packed, valid, added, wanted, weights = make_case(backend, num_edges, num_added, weighted, seed)
        pieces = list(read_merged(packed, valid, count_live(packed, valid), added))
        assert len(pieces) >= -(-num_edges // 1024)
        found = np.concatenate([backend.to_host(keys) for keys, _ in pieces])
        np.testing.assert_array_equal(found, wanted)
        if weighted:
            np.testing.assert_array_equal(np.concatenate([backend.to_host(each) for _, each in pieces]), weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_slots_from_any_to_any(weighted: bool, backend_name: str) -> None:
    backend = get_backend(backend_name)
    packed, valid, _, wanted, weights = make_case(backend, 1200, 0, weighted, 7)
    live = backend.to_host(valid).view(np.uint8)
    mask = np.unpackbits(live, bitorder="little")[:1200].astype(bool)
    ranks = np.concatenate(([0], np.cumsum(mask)))
    for first, end in ((0, 1200), (0, 1), (31, 33), (32, 64), (5, 5), (1000, 1200), (1023, 1025), (1199, 1200)):
        keys, values = read_slots(packed, valid, first, end)
        part = slice(ranks[first], ranks[end])
        np.testing.assert_array_equal(backend.to_host(keys), wanted[part])
        if weighted:
            np.testing.assert_array_equal(backend.to_host(values), weights[part])


@pytest.mark.parametrize("num_edges", [0, 1, 512, 700, 1024])
def test_edges_of_rows_are_counted_by_bits(num_edges: int, backend_name: str) -> None:
    """512 bits are all words of a line, so no word follows the last one."""
    backend = get_backend(backend_name)
    packed, valid, _, wanted, _ = make_case(backend, num_edges, 0, False, 3)
    found = count_rows(packed, valid, count_live(packed, valid))
    np.testing.assert_array_equal(backend.to_host(found), np.bincount(wanted >> 32, minlength=NUM_VERTICES))


def test_a_ring_brings_pieces_in_order_also_fewer_than_buffers(backend_name: str) -> None:
    backend = get_backend(backend_name)
    for count in (1, 2, 3, 10):
        pieces = [(np.arange(9, dtype=np.uint32) + n, np.full(3, n, np.float64)) for n in range(count)]
        ring = BufferRing.for_pieces(backend, pieces, 3)
        for _ in range(2):
            for n, (words, values) in enumerate(ring.bring(pieces)):
                np.testing.assert_array_equal(backend.to_host(words), np.arange(9) + n)
                np.testing.assert_array_equal(backend.to_host(values), [n] * 3)


# ---------------------------------------------------------------------- memory that is used again


def test_memory_is_used_again_once_no_array_of_it_is_left(backend_name: str) -> None:
    spare = SpareMemory(get_backend(backend_name))
    array, on_host = spare.take(100, np.uint32)
    address, part = on_host.ctypes.data, array[10:20]
    assert spare.nbytes == 4 * 6
    del array, on_host
    other = spare.take(100, np.uint32)[1]
    assert other.ctypes.data != address  # `part` is left
    del part
    assert spare.nbytes == 4 * (106 + 6)
    weights = spare.take(100, np.float32)[1]
    again = spare.take(90, np.uint32)[1]
    assert again.ctypes.data == address
    assert again.shape == (90,)
    del again, other, weights
    spare.take(1000, np.uint32)  # too small: all of this dtype are given back
    assert spare.nbytes == 4 * 1062 + 4 * 106
    assert spare.clear()
    assert spare.nbytes == 0
    assert not spare.clear()


def test_all_memory_that_is_kept_is_counted(backend_name: str) -> None:
    """Pages that have become smaller do not fill the memory that they use again."""
    G = DynamicGraph(store="paged", device=backend_name, weighted=True, **{**SMALL, "density": 1.0, "delta_edges": 0})
    G.insert_edges((*some_edges(400), np.ones(400)))
    for first in range(0, 300, 60):
        G.delete_edges(tuple(column[first : first + 60] for column in some_edges(400)))
        blocks = G.core.out._spare._blocks  # type: ignore[attr-defined]
        usage, held = G.memory_usage(), sum(block[2].nbytes for block in blocks)
        assert usage["pages"] + usage["page_weights"] + usage["spare_pages"] == held
        assert usage["host"] == held


def test_nothing_is_kept_for_pages_without_words(backend_name: str) -> None:
    spare = SpareMemory(get_backend(backend_name))
    assert [len(array) for array in spare.take(0, np.uint32)] == [0, 0]
    assert spare.nbytes == 0
    assert not spare.clear()


def test_merges_take_turns_between_two_blocks(backend_name: str) -> None:
    G = DynamicGraph(store="paged", device=backend_name, **SMALL)
    G.insert_edges(some_edges(100))
    addresses, merges = [], G.statistics()["merges"]
    for seed in range(2, 6):
        G.insert_edges(some_edges(30, seed))
        G.delete_edges(some_edges(30, seed))
        addresses.append(G.core.out._base.words_on_host.ctypes.data)  # type: ignore[attr-defined]
    assert G.statistics()["merges"] > merges + 1
    assert len(set(addresses)) <= 3
    assert G.memory_usage()["spare_pages"] > 0


def test_a_pinned_version_keeps_its_pages_while_others_are_merged(backend_name: str) -> None:
    G = DynamicGraph(store="paged", device=backend_name, weighted=True, **SMALL)
    G.insert_edges((*some_edges(100), np.arange(100.0)))
    before, twin = G.edge_table(), G.copy()
    with G.pin() as pinned:
        for seed in range(2, 8):
            G.insert_edges((*some_edges(40, seed), np.ones(40)))
            G.delete_edges(some_edges(40, seed))
        assert pinned.edge_table().equals(before)
    assert twin.edge_table().equals(before)


def test_spare_memory_is_freed_where_none_can_be_pinned(backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """New pages need more words than before, and memory for weights is spare."""
    pair = Pair(store="paged", device=backend_name, weighted=True, **SMALL)
    for seed in (1, 2, 3):
        pair.update("insert_edges", some_edges(100, seed))
    backend, spare = pair.graph.core.backend, pair.graph.core.out._spare  # type: ignore[attr-defined]
    assert spare.nbytes > 0
    pinned, refused = backend.pinned, []

    def full(shape: Any, dtype: Any) -> Any:
        if spare.nbytes and not refused:
            refused.append(shape)
            raise OutOfMemoryError("no memory can be pinned")
        return pinned(shape, dtype)

    monkeypatch.setattr(backend, "pinned", full)
    merges = pair.graph.statistics()["merges"]
    pair.update("insert_edges", some_edges(700, 9))
    assert pair.graph.statistics()["merges"] == merges + 1
    assert refused


class Streams:
    """A GPU whose streams only note what they wait for: which copies the current stream knows to be done."""

    on_gpu = True

    def __init__(self) -> None:
        self.copies = 0  # that were begun, all on one stream
        self.known = 0  # the current stream has waited for so many of them
        self.reads: list[int] = []  # how often each event of reads was recorded
        streams = self

        class Event:
            def __init__(self, **_: Any) -> None:
                self.copies = self.records = 0

            def record(self, stream: Any = None) -> None:
                self.copies, self.records = streams.copies, self.records + 1

        class Stream:
            ptr = 1

            def __init__(self, **_: Any) -> None: ...

            def wait_event(self, event: Event) -> None:
                if self is current:
                    streams.known = max(streams.known, event.copies)

        current = Stream()

        def copy(*_: Any) -> None:
            streams.copies += 1

        runtime = SimpleNamespace(memcpyAsync=copy)
        cuda = SimpleNamespace(Stream=Stream, Event=Event, runtime=runtime, get_current_stream=lambda: current)
        self.xp = SimpleNamespace(cuda=cuda)

    def empty(self, count: int, dtype: Any) -> Any:
        class OnDevice(np.ndarray):
            @property
            def data(self) -> Any:  # type: ignore[override]
                return SimpleNamespace(ptr=0)

        return np.zeros(count, dtype).view(OnDevice)


@pytest.mark.parametrize("taken", [1, 2, 4])
def test_memory_of_a_ring_that_is_left_early_is_free_after_all_copies(taken: int) -> None:
    """The pool gives the buffers' memory to the next work of the current stream, so that waits for the copies ahead."""
    gpu = Streams()
    pieces = [(np.zeros(8, np.uint32),)] * 9
    ring = BufferRing.for_pieces(gpu, pieces, 3)  # type: ignore[arg-type]
    brought = ring.bring(pieces)
    for _ in range(taken):
        next(brought)
    assert gpu.copies == taken + 2
    assert gpu.known == taken
    brought.close()
    assert gpu.known == gpu.copies
    assert sum(event.records for event in ring._read) == 3 + taken  # the last piece counts as read, too
