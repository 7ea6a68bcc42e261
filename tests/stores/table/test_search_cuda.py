"""Searches of CUDA kernels: by one thread for two edges, and by several lanes for one."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.cuda.compiler import WARP, cuda, kernel
from dynstore.stores.pma.cuda.redistribute import d_count_before_lanes, d_find_place_by_warp
from dynstore.stores.table.cuda.search import (
    FOUND_EACH,
    SEARCHERS,
    d_find_edge_together,
    d_find_edges,
    d_find_two_edges,
)
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE
from dynstore.testing.invariants import check_graph

LENGTHS = [0, 1, 2, 7, 8, 9, 10, 31, 80, 81, 82, 0, 700, 3]


@kernel
def k_find_both_ways(offsets, dst, valid, rows, keys, positions, states):
    """Neighbouring lanes find an edge together, then the first of them alone, with the first of the batch."""
    i = min(cuda.grid(1) // SEARCHERS, rows.shape[0] - 1)
    position, state = d_find_edge_together(offsets, dst, valid, rows[i], keys[i])
    positions[0, i], states[0, i] = position, state
    if cuda.grid(1) % SEARCHERS == 0:
        first, first_state, position, state = d_find_two_edges(offsets, dst, valid, rows[0], keys[0], rows[i], keys[i])
        positions[1, i], states[1, i] = position, state
        positions[2, i], states[2, i] = first, first_state


@kernel
def k_find_several(offsets, dst, valid, rows, keys, positions, states):
    """Threads find FOUND_EACH neighbouring edges at once, those behind the last one as if they were that."""
    own_rows, own_positions = cuda.local.array(FOUND_EACH, np.uint32), cuda.local.array(FOUND_EACH, np.uint32)
    ends, own_keys = cuda.local.array(FOUND_EACH, np.uint32), cuda.local.array(FOUND_EACH, np.int32)
    first = cuda.grid(1) * FOUND_EACH
    for k in range(FOUND_EACH):
        i = min(first + k, rows.shape[0] - 1)
        own_rows[k], own_keys[k] = rows[i], keys[i]
    d_find_edges(offsets, dst, valid, own_rows, own_keys, own_positions, ends)
    for k in range(FOUND_EACH):
        if first + k < rows.shape[0]:
            positions[3, first + k], states[3, first + k] = own_positions[k], own_rows[k]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_all_searches_find_the_same(device, dtype):
    rng = np.random.default_rng(5)
    graph = DynamicGraph(device=device)
    xp = graph.core.backend.xp
    offsets = np.r_[0, np.cumsum(LENGTHS)].astype(dtype)
    dst = np.concatenate([np.sort(rng.choice(3 * length + 1, length, replace=False)) for length in LENGTHS])
    bits = rng.random(-(-len(dst) // WARP) * WARP) < 0.7
    words = np.packbits(bits, bitorder="little").view(np.uint32)
    rows = rng.integers(0, len(LENGTHS) + 1, 40)  # the last row has no edges: there is none
    ends = np.r_[offsets[1:], offsets[-1]][rows]
    starts = offsets[rows]
    hits = np.minimum(starts + rng.integers(0, 900, 40) % np.maximum(ends - starts, 1), len(dst) - 1)
    keys = np.where(rng.random(40) < 0.6, dst[hits], rng.integers(-1, 2200, 40))
    wanted = np.array(
        [start + np.searchsorted(dst[start:end], key) for start, end, key in zip(starts, ends, keys, strict=True)]
    )
    at = np.minimum(wanted, len(dst) - 1)
    is_there = (wanted < ends) & (dst[at] == keys)
    wanted_states = np.where(is_there, np.where(bits[at], PRESENT, TOMBSTONE), ABSENT)
    assert len(set(wanted_states.tolist())) == 3
    positions, states = xp.empty((4, 40), np.int64), xp.empty((4, 40), np.uint8)
    given = tuple(xp.asarray(column) for column in (offsets, dst.astype(dtype), words, rows, keys))
    k_find_both_ways.launch(40 * SEARCHERS, *given, positions, states)
    k_find_several.launch(-(-40 // FOUND_EACH), *given, positions, states)
    for found, expected in ((positions, wanted), (states, wanted_states)):
        found = graph.core.backend.to_host(found)
        assert (found[[0, 1, 3]] == expected).all()
        assert (found[2] == expected[0]).all()


@kernel
def k_count_places(places, low, high, slots, lower, counts):
    """A warp has 32 neighbouring slots, and a part of the places."""
    i = cuda.grid(1)
    warp = min(i // WARP, low.shape[0] - 1)
    slot = slots[warp * WARP + i % WARP]
    below = d_find_place_by_warp(places, low[warp], high[warp], slots[warp * WARP])
    count = d_count_before_lanes(places, low[warp], high[warp], slot)
    if i < slots.shape[0]:
        lower[i], counts[i] = below, count


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_places_are_counted_by_a_warp(device, dtype):
    """Of places that several keys have, none or all of a leaf's, and of parts of any length."""
    rng = np.random.default_rng(7)
    places = np.sort(
        np.r_[rng.integers(0, 400, 300), np.full(200, 64), np.full(40, 333), rng.integers(0, 40_000, 3000)]
    )
    lengths = np.r_[
        0, 1, 2, 31, 32, 33, 34, 63, 64, 65, 1023, 1024, 1025, len(places), rng.integers(0, len(places), 10)
    ]
    low = rng.integers(0, len(places) - lengths + 1)
    high, leaves = low + lengths, rng.integers(0, 14, len(lengths))
    leaves[::5] = rng.integers(0, 1300, len(leaves[::5]))
    slots = (leaves[:, None] * WARP + np.arange(WARP)).ravel()
    parts = [places[begin:end] for begin, end in zip(np.repeat(low, WARP), np.repeat(high, WARP), strict=True)]
    first_slots = slots // WARP * WARP
    wanted = np.repeat(low, WARP) + [np.searchsorted(p, slot, "right") for p, slot in zip(parts, slots, strict=True)]
    firsts = np.repeat(low, WARP) + [np.searchsorted(p, slot) for p, slot in zip(parts, first_slots, strict=True)]
    backend = DynamicGraph(device=device).core.backend
    given = (backend.asarray(column) for column in (places.astype(dtype), low, high, slots))
    lower, counts = (backend.empty(len(slots), np.int64) for _ in range(2))
    k_count_places.launch(len(slots), *given, lower, counts)
    assert (backend.to_host(counts) == wanted).all()
    assert (backend.to_host(lower) == firsts).all()


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("few", [0, 1 << 14])
def test_few_edges_are_deleted_as_many_are(device, directed, few):
    """Some twice, a self-loop, with edges that are not there and without, from a hub and from short rows."""

    pairs = {(0, column) for column in range(0, 1600, 2)} | {(row, row + 7) for row in range(40, 80)} | {(9, 9)}
    src, dst = (np.array(column, np.int32) for column in zip(*sorted(pairs), strict=True))
    tuning = {"shared_search_rows": few}
    graph = DynamicGraph.from_edges((src, dst), device=device, directed=directed, tuning=tuning)
    for batch, absent in (
        ([(0, 800), (9, 9), (44, 51)], 0),
        ([(0, 1598), (0, 2), (0, 1598), (79, 86)], 0),
        ([(0, 3), (0, 1598), (45, 52), (1700, 0), (3, 1700)], 4),
        ([(0, column) for column in range(4, 40, 2)], 0),
    ):
        report = graph.delete_edges(tuple(np.array(column, np.int32) for column in zip(*batch, strict=True)))
        assert (report.deleted, report.absent) == (len(set(batch)) - absent, absent)
        check_graph(graph)
