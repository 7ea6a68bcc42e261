"""Chains of slabs on CUDA: moving, emptying and listing them, a warp for each chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle
from dynstore.stores.slab_hash.cuda.probe import d_append_key, d_find_bucket, d_flush_chain, d_read_word
from dynstore.stores.slab_hash.slabs import BUCKETS, END, FIRST
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.slab_hash.slabs import SlabTable
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["copy_rows", "gather", "rehash"]


@device
def d_find_chain(ends, firsts, chain):
    """Return which of the listed rows a chain belongs to, and its base slab."""
    r = d_find_lower_bound(ends, np.int64(0), np.int64(ends.shape[0]), chain + 1)
    before = ends[r - 1] if r > 0 else np.int64(0)
    return r, np.int64(firsts[r]) + chain - before


@kernel
def k_move_chains(
    slabs, unused, state, words, keys, weight_words, ends, old_firsts, firsts, buckets, num_chains
):  # fmt: skip
    """A warp owns one chain of an old table; it inserts its keys one after the other into the new table (atomic)."""
    chain, lane = np.int64(cuda.grid(1)) >> 5, d_lane()
    if chain < num_chains:
        r, slab = d_find_chain(ends, old_firsts, chain)
        while slab != END:
            word = d_read_word(slabs, words, slab, lane)
            live = d_ballot(lane < keys and word >= 0)
            while live != 0:
                at = cuda.ffs(live) - 1
                live &= live - np.uint32(1)
                key = d_shuffle(word, at)
                to = np.int64(firsts[r]) + d_find_bucket(key, np.int64(buckets[r]))
                place = d_append_key(slabs, unused, state, words, keys, 0, to, key)
                if lane < weight_words:
                    into = place & (words - 1)
                    weight = slabs[slab * words + keys + at * weight_words + lane]
                    slabs[place - into + keys + into * weight_words + lane] = weight
            slab = d_shuffle(word, words - 1)


@kernel
def k_flush_chains(slabs, unused, state, words, ends, firsts, num_chains):
    """A warp owns one chain and returns all its slabs to the pool (atomic)."""
    chain = np.int64(cuda.grid(1)) >> 5
    if chain < num_chains:
        _, slab = d_find_chain(ends, firsts, chain)
        d_flush_chain(slabs, unused, state, words, slab, 0)


@kernel
def k_gather_chains(
    slabs, words, keys, weight_words, rows, ends, firsts, num_chains, cursors, src, dst, weights
):  # fmt: skip
    """A warp owns one chain; it writes the edges of a slab at the row's cursor (atomic)."""
    chain, lane = np.int64(cuda.grid(1)) >> 5, d_lane()
    if chain < num_chains:
        r, slab = d_find_chain(ends, firsts, chain)
        while slab != END:
            word = d_read_word(slabs, words, slab, lane)
            live = d_ballot(lane < keys and word >= 0)
            out = np.int64(0)
            if lane == 0:
                out = np.int64(cuda.atomic.add(cursors, r, cuda.popc(live)))
            out = d_shuffle(out, 0)
            if (live >> np.uint32(lane)) & np.uint32(1) != 0:
                out += d_count_lower(live, lane)
                src[out], dst[out] = rows[r], word
                for k in range(weight_words):
                    weights[out * weight_words + k] = slabs[slab * words + keys + lane * weight_words + k]
            slab = d_shuffle(word, words - 1)


@kernel
def k_copy_rows(dirty, old_offsets, new_offsets, old_src, old_dst, old_weights, src, dst, weights):
    """One thread owns one edge of the old table: copy it if its row is clean."""
    p = np.int64(cuda.grid(1))
    if p < old_src.shape[0]:
        row = np.int64(old_src[p])
        if dirty[row] == 0:
            q = p + np.int64(new_offsets[row]) - np.int64(old_offsets[row])
            src[q], dst[q] = old_src[p], old_dst[p]
            if weights.shape[0] > 0:
                weights[q] = old_weights[p]


def rehash(backend: Backend, table: SlabTable, rows: Array, firsts: Array, buckets: Array) -> None:
    """Move rows to new tables; see :func:`dynstore.stores.slab_hash.cpu.chains.rehash`."""
    xp = backend.xp
    old_firsts, ends = table.column(FIRST)[rows], xp.cumsum(table.column(BUCKETS)[rows], dtype=np.int64)
    num_chains = int(ends[-1])
    k_move_chains.launch_warps(
        num_chains, table.slabs, table.unused, table.state, table.words, table.keys, table.weight_words, ends,
        old_firsts, firsts, buckets, num_chains,
    )  # fmt: skip
    xp.maximum(table.state, 0, out=table.state)
    k_flush_chains.launch_warps(
        num_chains, table.slabs, table.unused, table.state, table.words, ends, old_firsts, num_chains
    )
    table.column(FIRST)[rows] = firsts
    table.column(BUCKETS)[rows] = buckets


def gather(
    backend: Backend, table: SlabTable, rows: Array, starts: Array, src: Array, dst: Array, weights: Array | None
) -> None:
    """Write the edges of row ``rows[r]`` from ``starts[r]`` on, for each r, unordered within a row."""
    if not rows.shape[0]:
        return
    ends = backend.xp.cumsum(table.column(BUCKETS)[rows], dtype=np.int64)
    num_chains = int(ends[-1])
    k_gather_chains.launch_warps(
        num_chains, table.slabs, table.words, table.keys, table.weight_words, rows, ends, table.column(FIRST)[rows],
        num_chains, starts.copy(), src, dst, table.slabs[:0] if weights is None else table.weights_as_words(weights),
    )  # fmt: skip


def copy_rows(backend: Backend, dirty: Array, old: SlotArrays, new: SlotArrays) -> None:
    """Copy the rows that are not dirty from one packed table to another, which must have room for them."""
    old_weights = old.dst[:0] if old.weights is None else old.weights
    new_weights = new.dst[:0] if new.weights is None else new.weights
    k_copy_rows.launch(
        old.src.shape[0], dirty, old.offsets, new.offsets, old.src, old.dst, old_weights, new.src, new.dst, new_weights
    )
