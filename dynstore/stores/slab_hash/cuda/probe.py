"""Operations of a warp on slabs on CUDA: lanes read a slab together, each its words.

Precondition of each function that says "the warp": all 32 lanes call it. A read may return an earlier state of a slab.
During insertions a word only changes from free to taken, and is taken by compare and swap.
"""

from __future__ import annotations

import numpy as np

from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import WARP, cuda, device
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_pause, d_shuffle
from dynstore.stores.slab_hash.slabs import BUCKETS, EMPTY, END, FIRST, FREE, HEAD_WORDS, LOCKED, TOMBSTONE, USED

__all__ = [
    "d_add_slab",
    "d_append_key",
    "d_find_bucket",
    "d_flush_chain",
    "d_mix",
    "d_probe_chains",
    "d_read_head",
    "d_read_word",
    "d_take_slabs",
    "d_touch_slab",
]


@device
def d_mix(bits):
    """Return 32 mixed bits of a number of 32 bits."""
    bits = ((bits ^ (bits >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    bits = ((bits ^ (bits >> 12)) * 0x297A2D39) & 0xFFFFFFFF
    return bits ^ (bits >> 15)


@device
def d_find_bucket(key, buckets):
    """Return a key's bucket: 32 mixed bits of it, scaled to the number of buckets."""
    bucket = np.int64(0)
    if buckets > 1:
        bucket = (d_mix((key ^ (key >> 32)) & 0xFFFFFFFF) * buckets) >> 32
    return bucket


@device
def d_read_head(heads, row):
    """Return a row's first base slab and its buckets: END if it has no table (yet), or does not exist."""
    first, buckets = np.int64(END), np.int64(0)
    if row < heads.shape[0] // HEAD_WORDS:
        first, buckets = np.int64(heads[HEAD_WORDS * row + FIRST]), np.int64(heads[HEAD_WORDS * row + BUCKETS])
    return max(first, np.int64(END)), buckets


@device
def d_read_word(slabs, words, slab, lane):
    """Return a lane's word of a slab, EMPTY if there is none."""
    word = np.int64(EMPTY)
    if slab != END and lane < words:
        word = np.int64(slabs[slab * words + lane])
    return word


@device
def d_touch_slab(slabs, words, keys, slab):
    """Return four keys of a slab, one per sector if keys fill it: a prefetch, so that later reads do not wait."""
    first = slabs.dtype.type(EMPTY)
    second, third, fourth = first, first, first
    if slab != END:
        start, step = np.uint64(np.uint32(slab)) * np.uint64(np.uint32(words)), words >> 2
        first, second = slabs[start], slabs[start + np.uint64(min(step, keys - 1))]
        third, fourth = (
            slabs[start + np.uint64(min(2 * step, keys - 1))],
            slabs[start + np.uint64(min(3 * step, keys - 1))],
        )
    return first, second, third, fourth


@device
def d_read_slabs(slabs, words, slab, turn):
    """The warp reads the slabs of four lanes, from lane ``turn`` on; return this lane's word of each."""
    part, size = np.uint64(d_lane() & (words - 1)), np.uint64(np.uint32(words))
    at_0, at_1 = np.uint32(d_shuffle(slab, turn)), np.uint32(d_shuffle(slab, turn + 1))
    at_2, at_3 = np.uint32(d_shuffle(slab, turn + 2)), np.uint32(d_shuffle(slab, turn + 3))
    word_0, word_1 = slabs[np.uint64(at_0) * size + part], slabs[np.uint64(at_1) * size + part]
    word_2, word_3 = slabs[np.uint64(at_2) * size + part], slabs[np.uint64(at_3) * size + part]
    return word_0, word_1, word_2, word_3


@device
def d_match_words(read, key, tombstone, turn, found, free):
    """The warp compares the words read from four lanes' slabs; these lanes get the bits of found keys and free places.

    A TOMBSTONE differs from EMPTY only in its last bit, which is set in ``tombstone`` if tombstones count as free.
    """
    lane = np.int32(d_lane())
    found_0, free_0 = d_ballot(read[0] == d_shuffle(key, turn)), d_ballot((read[0] | tombstone) == EMPTY)
    found_1, free_1 = d_ballot(read[1] == d_shuffle(key, turn + 1)), d_ballot((read[1] | tombstone) == EMPTY)
    found_2, free_2 = d_ballot(read[2] == d_shuffle(key, turn + 2)), d_ballot((read[2] | tombstone) == EMPTY)
    found_3, free_3 = d_ballot(read[3] == d_shuffle(key, turn + 3)), d_ballot((read[3] | tombstone) == EMPTY)
    if lane == turn:
        found, free = found_0, free_0
    if lane == turn + 1:
        found, free = found_1, free_1
    if lane == turn + 2:
        found, free = found_2, free_2
    if lane == turn + 3:
        found, free = found_3, free_3
    return found, free


@device
def d_search_slabs(slabs, words, reuse, key, slab):
    """The warp reads each lane's slab, four of them at once. Lanes without one (END) read slab 0, which exists.

    Returns the words equal to the lane's key, and the free words, as bits; of all words, also those behind the keys.
    """
    pending, named, tombstone = d_ballot(slab != END), np.int32(max(slab, 0)), slabs.dtype.type(reuse)
    found, free, turn = np.uint32(0), np.uint32(0), np.int32(0)
    while turn < WARP:
        if (pending >> np.uint32(turn)) & np.uint32(15) != 0:
            read = d_read_slabs(slabs, words, named, turn)
            found, free = d_match_words(read, key, tombstone, turn, found, free)
        turn = np.int32(turn + 4)
    return found, free


@device
def d_probe_chains(slabs, words, keys, reuse, key, base):
    """The warp walks 32 chains, each from a lane's base slab (END: none) to its key or to the chain's end.

    Returns
    -------
    place : the word of the key, -1 if absent target, spare : if absent, the first slab with free places, and these
    places room, length : free places and slabs of the chain; if the key is there, of the chain up to it last : the last
    slab of these, END if there is none
    """
    slab, last, wanted = np.int32(base), np.int32(END), slabs.dtype.type(key)
    of_keys = np.uint32((1 << keys) - 1)
    hit, target, spare = np.int32(-1), np.int32(END), np.uint32(0)
    room, length = np.int32(0), np.int32(0)
    while d_ballot(slab != END) != 0:
        link = np.int32(END)
        if slab != END:
            link = np.int32(max(slabs[np.int64(slab) * words + words - 1], END))  # LOCKED: still its end
        found, free = d_search_slabs(slabs, words, reuse, wanted, slab)
        found, free = np.uint32(found & of_keys), np.uint32(free & of_keys)
        if slab != END:
            length += np.int32(1)
            room += np.int32(cuda.popc(free))
            if found != 0 or (target == END and free != 0):
                target, spare = slab, free
            if found != 0:
                hit, link = np.int32(cuda.ffs(found) - 1), np.int32(END)
            last, slab = slab, link
    place = np.int64(target) * words + hit if hit >= 0 else np.int64(-1)
    return place, np.int64(target), spare, np.int64(room), np.int64(length), np.int64(last)


@device
def d_take_slab(unused, state):
    """Return a slab from the stack, or one that was never used; FREE may be below 0 afterwards if the stack got empty.

    The plain read saves an atomic add if the stack is empty; it may only miss that the stack has become empty.
    """
    if state[FREE] > 0:
        free = np.int64(cuda.atomic.add(state, FREE, -1))
        if free > 0:
            return np.int64(unused[free - 1])
    return np.int64(cuda.atomic.add(state, USED, 1))


@device
def d_take_slabs(unused, state, wanted):
    """Return a slab for each lane with ``wanted``, and whether it is from the stack; else it was never used.

    At most one atomic add of the warp for each word of ``state``; FREE may be below 0 afterwards. The slab may be past
    the end of the pool.
    """
    lane, word, left = d_lane(), d_ballot(wanted), np.int64(0)
    if lane == 0 and word != 0 and state[FREE] > 0:
        left = np.int64(cuda.atomic.add(state, FREE, -np.int64(cuda.popc(word))))
    left = d_shuffle(left, 0) - d_count_lower(word, lane)
    popped = wanted and left > 0
    slab = d_claim(state, USED, wanted and not popped)
    if popped:
        slab = np.int64(unused[left - 1])
    return slab, popped


@device
def d_add_slab(links, at, unused, state):
    """Return the slab of a link; at the END, link a new one. One thread of a warp calls it.

    The thread that locks the link takes the slab, all others wait: so no more slabs are taken than needed.
    """
    link = np.int64(cuda.atomic.cas(links, at, END, LOCKED))
    if link == END:
        link = d_take_slab(unused, state)
        cuda.atomic.exch(links, at, link)
    while link == LOCKED:
        d_pause()
        link = np.int64(cuda.atomic.add(links, at, 0))
    return link


@device
def d_append_key(slabs, unused, state, words, keys, reuse, slab, key):
    """The warp writes an absent key to the first free place from a slab on; return the place."""
    lane = d_lane()
    while True:
        word = d_read_word(slabs, words, slab, lane)
        free = d_ballot(lane < keys and (word == EMPTY or (reuse != 0 and word == TOMBSTONE)))
        while free != 0:
            leader = cuda.ffs(free) - 1
            won = False
            if lane == leader:
                seen = np.int64(cuda.atomic.cas(slabs, slab * words + lane, word, key))
                won = seen == word
                word = key if won else seen
            if d_ballot(won) != 0:
                return slab * words + leader
            free = d_ballot(lane < keys and (word == EMPTY or (reuse != 0 and word == TOMBSTONE)))
        following = d_shuffle(word, words - 1)
        if following < 0 and lane == 0:
            following = d_add_slab(slabs, slab * words + words - 1, unused, state)
        slab = d_shuffle(following, 0)


@device
def d_flush_chain(slabs, unused, state, words, slab, keep):
    """The warp empties a chain and returns its slabs to the pool; the first one is kept with ``keep``."""
    lane = d_lane()
    while slab != END:
        following = d_shuffle(d_read_word(slabs, words, slab, lane), words - 1)
        if lane < words:
            slabs[slab * words + lane] = EMPTY
        if keep == 0 and lane == 0:
            unused[cuda.atomic.add(state, FREE, 1)] = slab
        keep, slab = 0, following
