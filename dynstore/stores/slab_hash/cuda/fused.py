"""Speculative updates of slab hash tables on CUDA: one kernel that searches and writes, with rollback.

After its warp has read the chain, a thread enters an absent key at a free place by one compare and swap. The batch
needs no table of repeated edges: no place is freed meanwhile, and all threads try places in the order of the chain. So
a thread with an older view of the chain passes every place taken since. If another thread has entered the key, it finds
it there: no key is entered twice. An edge that gets no place takes another turn, with a new view, after all others.

``places`` records what was written. After the grid wait each block knows whether an id was invalid, a chain too long or
the pool empty. If so, everything is rolled back, and the update is planned. Repeated edges are counted only if an
insertion met keys or a deletion missed some: then all edges are claimed in a table.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS, d_sync_grid
from dynstore.cuda.mailbox import d_post_totals, d_post_when_last
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle
from dynstore.stores.slab_hash.cuda.plan import (
    FOUND,
    FOUND_LOOPS,
    KEYS,
    LOOPS,
    d_edge,
    d_end_claim,
    d_tally,
    d_try_claim,
)
from dynstore.stores.slab_hash.cuda.probe import (
    d_find_bucket,
    d_mix,
    d_probe_chains,
    d_read_head,
    d_take_slabs,
    d_touch_slab,
)
from dynstore.stores.slab_hash.cuda.write import d_add_degree, d_flush_rows, d_list_emptied
from dynstore.stores.slab_hash.slabs import BUCKETS, EMPTY, END, FIRST, FREE, HEAD_WORDS, LOCKED, TOMBSTONE, USED

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = [
    "CONTROL_WORDS",
    "REFUSED",
    "REPEATED",
    "REPEATED_LOOPS",
    "BatchEdges",
    "GivenBatch",
    "SlabArrays",
    "SlabInsertion",
    "k_delete_batch",
    "k_insert_batch",
]

# Entries of `control`, int64, all 0 at first. First the totals of a plan (see ``plan.py``): in an insertion KEYS counts
# edges that were entered or met, FOUND those that were met; in a deletion all edges, and those deleted. REPEATED must
# be subtracted: edges that repeat another one of the batch. Then slabs taken from the stack, new slabs, and whether all
# was rolled back.
declare("hash update", KEYS=KEYS, LOOPS=LOOPS, FOUND=FOUND, FOUND_LOOPS=FOUND_LOOPS)
REPEATED, REPEATED_LOOPS, POPPED, FRESH, REFUSED = declare(
    "hash update", REPEATED=5, REPEATED_LOOPS=6, POPPED=7, FRESH=8, REFUSED=9
)
COUNTS = FRESH + 1  # the entries that blocks count first
# Behind the totals: blocks that are done, slabs that were linked, then for each turn the number of edges left for the
# next one, and whether the update must be planned.
DONE, HUNG = declare("hash update", DONE=ARRIVALS + 1, HUNG=ARRIVALS + 2)
LEFT, TURNS = HUNG + 1, 16
BAD = LEFT + TURNS
CONTROL_WORDS = BAD + TURNS
# How many places a thread tries in a turn, and how many lanes of a warp try the places of one slab.
MAX_TRIES = 8
# An update is planned if a turn leaves more than MANY_LEFT edges, and has processed fewer than one in MIN_SHARE.
MANY_LEFT, MIN_SHARE = 64 if SIMULATED else 4096, 16
# The codes of edges in ``places``: -1 if nothing was written, 0 if the key was met, else WRITTEN - (4 * place + bits).
UNWRITTEN, MET, WRITTEN = -1, 0, -2
WAS_TOMBSTONE, WAS_CLEAN = 1, 2


class SlabArrays(NamedTuple):
    """The arrays of the store (``slabs.py``), and the sizes of a slab.

    Attributes
    ----------
    slabs, heads, dirty : array
    unused : array
        The stack of freed slabs.
    state : array
    words, keys : int
        Words and keys of a slab.
    """

    slabs: Array
    heads: Array
    dirty: Array
    unused: Array
    state: Array
    words: Any
    keys: Any


class BatchEdges(NamedTuple):
    """The edges of a batch, behind the columns' end mirrored (``d_edge``), and whether self-loops are counted."""

    src: Array
    dst: Array
    num_edges: Any
    counts_loops: Any


class GivenBatch(NamedTuple):
    """A batch as kernels get it.

    Attributes
    ----------
    src, dst : array
    num_edges : int
        As in :class:`BatchEdges`.
    last_id : int
        No id may be above it.
    repeats : bool
        Whether repeated edges have to be counted.
    counts_loops : bool
    """

    src: Array
    dst: Array
    num_edges: Any
    last_id: Any
    repeats: Any
    counts_loops: Any


class SlabInsertion(NamedTuple):
    """What an insertion enters, and how it fills chains of slabs and makes them longer.

    Attributes
    ----------
    edges : BatchEdges
    reuse : bool
        Whether tombstones are places for keys.
    max_chain : int
        The most slabs of a chain.
    hung : array
        Where each link to a new slab was written, for the rollback.
    """

    edges: BatchEdges
    reuse: Any
    max_chain: Any
    hung: Array


@device
def d_count_lanes(board, row, counted):
    """Add the number of lanes with ``counted`` to one of the block's counts (atomic)."""
    word = d_ballot(counted)
    if d_lane() == 0 and word != 0:
        cuda.atomic.add(board, row, np.int32(cuda.popc(word)))


@device
def d_leave_counts(board, control):
    """Add the block's counts to the totals (atomic), and reset them; all threads of the block call it."""
    cuda.syncthreads()
    row = cuda.threadIdx.x
    if row < COUNTS:
        if board[row] != 0:
            cuda.atomic.add(control, row, np.int64(board[row]))
        board[row] = 0
    cuda.syncthreads()


@device
def d_find_chain(arrays, row, key):
    """Return the base slab of an edge's chain, END for none. Loads the slab, and waits for it."""
    first, buckets = d_read_head(arrays.heads, row)
    base = first + d_find_bucket(key, buckets)
    touched = d_touch_slab(arrays.slabs, arrays.words, arrays.keys, base)
    if min(min(touched[0], touched[1]), min(touched[2], touched[3])) < TOMBSTONE:  # never true for keys
        base = np.int64(END)
    return base


@device
def d_hang_slabs(arrays, row, last, wanted, control, turn, board):
    """Lanes with ``wanted`` link a new slab to the end of their chain; return it, and its number among all linked.

    The link is in the ``last`` slab, or for END in the row's head. A lane that comes late gets the slab that is there,
    or END while another thread is linking it, and the number -1.
    """
    slabs, heads, unused, words = arrays.slabs, arrays.heads, arrays.unused, arrays.words
    at, slab = HEAD_WORDS * row + FIRST if last == END else last * words + words - 1, np.int64(END)
    if wanted:
        if last == END:
            slab = np.int64(cuda.atomic.cas(heads, at, END, LOCKED))
        else:
            slab = np.int64(cuda.atomic.cas(slabs, at, END, LOCKED))
    is_new = wanted and slab == END
    taken, popped = d_take_slabs(unused, arrays.state, is_new)
    d_count_lanes(board, POPPED, popped)
    d_count_lanes(board, FRESH, is_new and not popped)
    if is_new and taken >= unused.shape[0]:
        taken, control[BAD + turn] = np.int64(END), 1
    if is_new and last == END:
        cuda.atomic.exch(heads, at, taken)
        if taken != END:
            heads[HEAD_WORDS * row + BUCKETS] = 1
    elif is_new:
        cuda.atomic.exch(slabs, at, taken)
    if is_new:
        slab = taken
        is_new = taken != END
    index = np.int64(-1)
    if is_new:
        index = np.int64(cuda.atomic.add(control, HUNG, 1))
    return max(slab, np.int64(END)), index


@device
def d_enter_keys(arrays, insertion, row, key, wanted, control, turn, board):
    """Lanes of the warp enter their keys; return each key's code for ``places``, UNWRITTEN for one that is left."""
    slabs, words, keys = arrays.slabs, arrays.words, arrays.keys
    base, clean, code, row, key = np.int64(END), False, np.int64(UNWRITTEN), np.int64(row), np.int64(key)
    if wanted:
        clean = arrays.dirty[row] == 0
        base = d_find_chain(arrays, row, key)
    place, target, spare, _, length, last = d_probe_chains(slabs, words, keys, insertion.reuse, key, base)
    if place >= 0:
        code = np.int64(MET)
    absent = wanted and place < 0
    # Of the lanes with the first absent lane's chain, only that one links a slab, and only some try places.
    lane, word, chain = d_lane(), d_ballot(absent), np.int32(base if base != END else -1 - row)
    leader = cuda.ffs(word) - 1 if word != 0 else 0
    leading = d_shuffle(chain, leader)
    crowd = absent and chain == leading
    word = d_ballot(crowd)
    rank = np.int32(d_count_lower(word, lane) if crowd else 0)
    lacks, index = absent and spare == 0, np.int64(-1)
    if lacks and length >= insertion.max_chain:
        lacks, control[BAD + turn] = False, 1
    if d_ballot(lacks) != 0:
        slab, index = d_hang_slabs(arrays, row, last, lacks and rank == 0, control, turn, board)
        same_end = last == d_shuffle(last, leader)
        slab_there = d_shuffle(slab, leader)
        if rank > 0 and same_end:
            slab = slab_there
        if lacks and slab != END:
            target, spare = slab, np.uint32((1 << keys) - 1)
    tries = MAX_TRIES if absent and rank < MAX_TRIES else 0
    while tries > 0 and spare != 0:
        tries -= 1
        at = target * words + np.int64(cuda.ffs(spare)) - 1
        spare &= spare - np.uint32(1)
        old = np.int64(EMPTY) if index >= 0 else np.int64(slabs[at])
        seen = old
        if old < 0:
            seen = np.int64(cuda.atomic.cas(slabs, at, old, key))
        if seen == key:
            code, tries = np.int64(MET), 0
        elif seen == old and old < 0:
            code, tries = WRITTEN - (4 * at + (EMPTY - old) * WAS_TOMBSTONE), 0
    if index >= 0:  # late, so that the atomic's result has arrived
        insertion.hung[index] = -1 - row if last == END else last * words + words - 1
    entered = code <= WRITTEN
    if entered and clean:
        arrays.dirty[row] = 1
        code -= WAS_CLEAN
    d_add_degree(arrays.heads, row, 1, entered)
    done = code != UNWRITTEN
    d_tally(board, done, insertion.edges.counts_loops and done and row == key, code == MET, False)
    return code


@device
def d_claim_edges(edges, claims, board):
    """Count the edges that repeat another one of the batch: each is claimed in ``claims``, a table of zeros."""
    mask, lane, count = np.int64(claims.shape[0]) - 1, d_lane(), edges.num_edges
    for base in range(np.int64(cuda.grid(1)) - lane, count, cuda.gridsize(1)):
        row, key, there, repeated = np.int64(0), np.int64(0), base + lane < count, False
        if there:
            row, key, _ = d_edge(edges.src, edges.dst, base + lane)
        edge = (row << 32) | key
        first = d_shuffle(edge, 0)
        repeated = there and lane > 0 and edge == first
        if there and not repeated:
            slot = d_mix((d_mix(row & 0xFFFFFFFF) + key) & 0xFFFFFFFF) & mask
            repeated = not d_end_claim(claims, mask, edge, slot, d_try_claim(claims, edge, slot))
        d_count_lanes(board, REPEATED, repeated)
        d_count_lanes(board, REPEATED_LOOPS, repeated and edges.counts_loops and row == key)


@device
def d_end_update(edges, repeats, claims, control, mailbox, ticket, waits, board):
    """Count repeated edges if ``repeats``, and post the totals; ``waits``: the number of grid waits so far."""
    if not repeats:
        if cuda.grid(1) == 0:
            d_post_totals(control, mailbox, ticket)
        return
    for slot in range(cuda.grid(1), claims.shape[0], cuda.gridsize(1)):
        claims[slot] = 0
    d_sync_grid(control, waits + 1)
    d_claim_edges(edges, claims, board)
    d_leave_counts(board, control)
    d_post_when_last(control, mailbox, ticket, DONE)


@device
def d_refuse_update(state, control, mailbox, ticket):
    """Return slabs to the pool, and post the refusal to the host; one thread calls it."""
    state[USED] -= control[FRESH]
    state[FREE] = max(state[FREE], 0) + control[POPPED]
    control[REFUSED] = 1
    d_post_totals(control, mailbox, ticket)


@device
def d_take_back(arrays, edges, places, deleted):
    """Roll back the writes of the edges: restore the keys if they were ``deleted``, else remove them."""
    lane = d_lane()
    for base in range(np.int64(cuda.grid(1)) - lane, edges.num_edges, cuda.gridsize(1)):
        t, row, code = base + lane, np.int64(0), np.int64(UNWRITTEN)
        if t < edges.num_edges:
            code = places[t]
        written = code <= WRITTEN
        if written:
            row, key, _ = d_edge(edges.src, edges.dst, t)
            bits = WRITTEN - code
            arrays.slabs[bits >> 2] = key if deleted else EMPTY - (bits & WAS_TOMBSTONE)
            if bits & WAS_CLEAN != 0:
                arrays.dirty[row] = 0
        d_add_degree(arrays.heads, row, 1 if deleted else -1, written)


@device
def d_take_down(slabs, heads, hung, control):
    """Unlink the slabs that were linked."""
    for i in range(cuda.grid(1), control[HUNG], cuda.gridsize(1)):
        at = hung[i]
        if at >= 0:
            slabs[at] = END
        else:
            head = HEAD_WORDS * (-1 - at)
            heads[head + FIRST], heads[head + BUCKETS] = END, 0


@partial(kernel, records={"arrays": SlabArrays, "batch": GivenBatch})
def k_insert_batch(
    arrays, reuse, max_chain, batch, ticket, table, places, listed, hung, control, following, mailbox
):  # fmt: skip
    """Threads stride over the edges, then in turns over those that are left, with a grid-wide wait after each.

    Everything is rolled back if an id is above the last one or below 0, a chain would get longer than ``max_chain``,
    slabs run out, or a turn leaves too many edges. ``following`` is the next update's control, cleared here.
    """
    edges = BatchEdges(batch.src, batch.dst, batch.num_edges, batch.counts_loops)
    insertion = SlabInsertion(edges, reuse, max_chain, hung)
    board = cuda.shared.array(COUNTS, np.int32)
    lane = d_lane()
    if cuda.threadIdx.x < COUNTS:
        board[cuda.threadIdx.x] = 0
    if cuda.blockIdx.x == 0:
        for i in range(cuda.threadIdx.x, CONTROL_WORDS, cuda.blockDim.x):
            following[i] = 0
    cuda.syncthreads()
    num_left, turn, refused = np.int32(batch.num_edges), np.int32(0), False
    while num_left > 0 and not refused:
        base = np.int32(cuda.grid(1) - lane)
        while base < num_left:
            t, row, key, known = np.int32(base + lane), np.int64(0), np.int64(0), False
            is_there = t < num_left
            if is_there:
                if turn > 0:
                    t = listed[turn & 1, t]
                row, key, _ = d_edge(batch.src, batch.dst, t)
                known = min(row, key) >= 0 and max(row, key) <= batch.last_id
                if not known:
                    control[BAD + turn] = 1
            code = d_enter_keys(arrays, insertion, np.int32(row), np.int32(key), known, control, turn, board)
            if is_there:
                places[t] = code
            is_left = known and code == UNWRITTEN
            if d_ballot(is_left) != 0:
                at = d_claim(control, LEFT + turn, is_left)
                if is_left:
                    listed[(turn + 1) & 1, at] = t
            base = np.int32(base + cuda.gridsize(1))
        d_leave_counts(board, control)
        turn = np.int32(turn + 1)
        d_sync_grid(control, turn)
        left, is_bad = np.int32(control[LEFT + turn - 1]), control[BAD + turn - 1] != 0  # the same in all threads
        crowded = left > MANY_LEFT and MIN_SHARE * (num_left - left) < num_left
        refused = bool(is_bad or crowded or (turn == TURNS and left > 0))
        num_left = left
    if refused:
        d_take_back(arrays, edges, places, False)
        d_take_down(arrays.slabs, arrays.heads, hung, control)
        if cuda.grid(1) == 0:
            d_refuse_update(arrays.state, control, mailbox, ticket)
    else:
        has_met = batch.repeats and control[FOUND] > 0
        d_end_update(edges, has_met, table, control, mailbox, ticket, turn, board)


@partial(kernel, records={"arrays": SlabArrays, "batch": GivenBatch})
def k_delete_batch(arrays, batch, ticket, table, places, emptied, control, following, mailbox):
    """Threads stride over the edges: the thread that swaps a key for a tombstone has deleted it.

    Everything is rolled back if an id is above the last one or below 0. Otherwise rows that have lost their last edge,
    listed for ``d_flush_rows``, are emptied. ``following`` as in :func:`k_insert_batch`.
    """
    edges = BatchEdges(batch.src, batch.dst, batch.num_edges, batch.counts_loops)
    board = cuda.shared.array(COUNTS, np.int32)
    lane = d_lane()
    if cuda.threadIdx.x < COUNTS:
        board[cuda.threadIdx.x] = 0
    if cuda.blockIdx.x == 0:
        for i in range(cuda.threadIdx.x, CONTROL_WORDS, cuda.blockDim.x):
            following[i] = 0
    if cuda.grid(1) == 0 and arrays.state[FREE] < 0:
        arrays.state[FREE] = 0
    cuda.syncthreads()
    base = np.int32(cuda.grid(1) - lane)
    while base < batch.num_edges:
        t, row, key, known, chain, clean = np.int32(base + lane), np.int64(0), np.int64(0), False, np.int64(END), False
        if t < batch.num_edges:
            row, key, _ = d_edge(batch.src, batch.dst, t)
            known = min(row, key) >= 0 and max(row, key) <= batch.last_id
            if not known:
                control[BAD] = 1
        if known:
            clean = row < arrays.dirty.shape[0] and arrays.dirty[row] == 0
            chain = d_find_chain(arrays, row, key)
        place, _, _, _, _, _ = d_probe_chains(arrays.slabs, arrays.words, arrays.keys, 0, key, chain)
        code = np.int64(UNWRITTEN)
        if place >= 0 and np.int64(cuda.atomic.cas(arrays.slabs, place, key, TOMBSTONE)) == key:
            code = WRITTEN - 4 * place
        deleted = code <= WRITTEN
        if deleted and clean:
            arrays.dirty[row] = 1
            code -= WAS_CLEAN
        if t < batch.num_edges:
            places[t] = code
        before, gone = d_add_degree(arrays.heads, row, -1, deleted)
        d_list_emptied(arrays.heads, row, gone > 0 and before == gone, emptied, control)
        base = np.int32(base + cuda.gridsize(1))
        d_tally(board, known, batch.counts_loops and known and row == key, deleted, False)
    d_leave_counts(board, control)
    d_sync_grid(control, 1)
    if control[BAD] != 0:  # the same in all threads, like all conditions from here on
        d_take_back(arrays, edges, places, True)
        if cuda.grid(1) == 0:
            d_refuse_update(arrays.state, control, mailbox, ticket)
    else:
        has_missed = batch.repeats and control[FOUND] < control[KEYS]
        d_end_update(edges, has_missed, table, control, mailbox, ticket, 1, board)
        d_flush_rows(arrays.slabs, arrays.heads, arrays.unused, arrays.state, arrays.words, emptied, control)
