"""What a warp does with slabs on CUDA: lanes read a slab together, each its words.

Precondition of each function that says "the warp": all 32 lanes call it. A read may show a slab as it was earlier in
the kernel; while keys are inserted a word only goes from free to taken, and who takes one compares and swaps.
"""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import cuda, device
from dynstore._cuda.warp import d_ballot, d_lane, d_pause, d_shuffle
from dynstore.slabs import BUCKETS, EMPTY, END, FIRST, FREE, HEAD_WORDS, LOCKED, TOMBSTONE, USED

__all__ = [
    "d_add_slab",
    "d_append_key",
    "d_find_base",
    "d_find_bucket",
    "d_flush_chain",
    "d_mix",
    "d_probe_chains",
    "d_read_word",
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
def d_find_base(heads, row, key):
    """Return the base slab of a key's chain, END where the row has none, or does not exist."""
    base, buckets = np.int64(END), np.int64(0)
    if row < heads.shape[0] // HEAD_WORDS:
        base, buckets = np.int64(heads[HEAD_WORDS * row + FIRST]), np.int64(heads[HEAD_WORDS * row + BUCKETS])
    return base + d_find_bucket(key, buckets)  # rows without a table have no buckets


@device
def d_read_word(slabs, words, slab, lane):
    """Return a lane's word of a slab, EMPTY where there is none."""
    word = np.int64(EMPTY)
    if slab != END and lane < words:
        word = np.int64(slabs[slab * words + lane])
    return word


@device
def d_probe_chains(slabs, words, keys, reuse, key, base):
    """The warp walks 32 chains, each from a lane's base slab (END: none) to its key or to where the chain ends.

    Eight lanes read a slab, each up to four of its words, and each group of eight for its own lanes. Slab 0 exists.

    Returns
    -------
    place : the word of the key, -1 where it is not there
    target, spare : the first slab with free places, and which these are
    room, length : free places and slabs of the chain; where the key is there, of the chain up to it
    """
    lane = d_lane()
    part, group, byte = lane & 7, lane & 24, np.uint32(0xFF)
    shift = np.uint32(group)
    third, fourth = words & 32 and 16, words & 32 and 24  # slabs of 16 words have none: the first words again
    slab, wanted = np.int32(base), slabs.dtype.type(key)
    place, target, spare = np.int64(-1), np.int32(END), np.uint32(0)
    room, length = np.int32(0), np.int32(0)
    # Each group goes on with the first of its lanes that is not done.
    pending = d_ballot(slab != END)
    while pending != 0:
        mine = (pending >> shift) & byte
        owner = cuda.ffs(mine) - 1 if mine != 0 else 0
        read, sought = d_shuffle(slab, group + owner), d_shuffle(wanted, group + owner)
        at = np.int64(max(read, 0)) * words + part
        word_0, word_1, word_2, word_3 = slabs[at], slabs[at + 8], slabs[at + third], slabs[at + fourth]
        # Words behind the keys may look like a key: of a lane's words the first one counts.
        match = np.int32(words)
        if word_3 == sought:
            match = np.int32(part + 24)
        if word_2 == sought:
            match = np.int32(part + 16)
        if word_1 == sought:
            match = np.int32(part + 8)
        if word_0 == sought:
            match = np.int32(part)
        matches = d_ballot(match < keys)
        if matches != 0:
            mine = (matches >> shift) & byte
            match = d_shuffle(match, group + (cuda.ffs(mine) - 1 if mine != 0 else owner))
        # EMPTY is behind all else, so the last place tells whether there is any.
        last = word_3 if keys > 24 else word_1 if keys > 8 else word_0
        ends = d_shuffle(last, group + ((keys - 1) & 7)) == EMPTY
        # A TOMBSTONE is EMPTY but for its last bit.
        free_0, free_1 = d_ballot((word_0 | reuse) == EMPTY), d_ballot((word_1 | reuse) == EMPTY)
        free_2, free_3 = d_ballot((word_2 | reuse) == EMPTY), d_ballot((word_3 | reuse) == EMPTY)
        link = d_shuffle(word_3 if words == 32 else word_1, group + 7)
        if part == owner and read != END:
            free = ((free_0 >> shift) & byte) | (((free_1 >> shift) & byte) << np.uint32(8))
            free |= (((free_2 >> shift) & byte) << np.uint32(16)) | (((free_3 >> shift) & byte) << np.uint32(24))
            free &= (np.uint32(1) << np.uint32(keys)) - np.uint32(1)
            length += 1
            room += cuda.popc(free)
            if target == END and free != 0:
                target, spare = read, free
            slab = np.int32(END) if match < keys or ends else np.int32(link)
            if match < keys:
                place = np.int64(read) * words + match
        pending = d_ballot(slab != END)
    return place, np.int64(target), spare, np.int64(room), np.int64(length)


@device
def d_take_slab(unused, state):
    """Return a slab from the stack, or one that was never used; FREE is below 0 after where the stack was empty."""
    free = np.int64(cuda.atomic.add(state, FREE, -1))
    if free > 0:
        return np.int64(unused[free - 1])
    return np.int64(cuda.atomic.add(state, USED, 1))


@device
def d_add_slab(links, at, unused, state):
    """Return the slab that a link leads to; where it is the END, one is hung on. One thread of a warp calls it.

    Who locks the link takes the slab, all others wait: so no more slabs are taken than there is need for.
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
    """The warp writes an absent key at the first free place from a slab on; return the place."""
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
    """The warp empties a chain and gives its slabs back, but for the first one where it is kept."""
    lane = d_lane()
    while slab != END:
        following = d_shuffle(d_read_word(slabs, words, slab, lane), words - 1)
        if lane < words:
            slabs[slab * words + lane] = EMPTY
        if keep == 0 and lane == 0:
            unused[cuda.atomic.add(state, FREE, 1)] = slab
        keep, slab = 0, following
