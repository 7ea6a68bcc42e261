"""Slab hash tables on the host: finding, inserting and deleting edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.slab_hash.cpu.chains import _append, _bucket, _flush
from dynstore.stores.slab_hash.slabs import (
    BUCKETS,
    COUNTER,
    DEGREE,
    EMPTY,
    END,
    FIRST,
    FREE,
    HEAD_WORDS,
    TOMBSTONE,
    USED,
    Probe,
)

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.slab_hash.slabs import SlabTable
    from dynstore.typing import Array

__all__ = ["delete_found", "find", "insert_absent", "locate", "locate_and_count", "read_weights"]


@njit(cache=True, borrows=True)
def _find(slabs, heads, words, keys, src, dst, places):
    """Walk the chain of each edge up to its key, or to the chain's end."""
    num_rows = heads.shape[0] // HEAD_WORDS
    for t in range(src.shape[0]):
        places[t] = -1
        row, key = np.int64(src[t]), np.int64(dst[t])
        if row >= num_rows or heads[HEAD_WORDS * row + FIRST] == END:
            continue
        head = HEAD_WORDS * row
        slab = np.int64(heads[head + FIRST]) + _bucket(key, np.int64(heads[head + BUCKETS]))
        while slab != END:
            first = slab * words
            slab = np.int64(slabs[first + words - 1])
            for place in range(first, first + keys):
                if slabs[place] == key:
                    places[t], slab = place, END
                    break
                if slabs[place] == EMPTY:
                    slab = END
                    break


@njit(cache=True, borrows=True)
def _measure(slabs, words, keys, slab, reuse):
    """Return the number of slabs of a chain, and the number of keys that still fit into them."""
    length, room = np.int64(0), np.int64(0)
    while slab != END:
        length += 1
        for place in range(slab * words, slab * words + keys):
            room += slabs[place] == EMPTY or (reuse and slabs[place] == TOMBSTONE)
        slab = np.int64(slabs[slab * words + words - 1])
    return length, room


@njit(cache=True)
def _count_needed(slabs, heads, words, keys, src, dst, places, max_chain, reuse, overlong):
    """Count the absent edges of each bucket, and the slabs that they need; return these and the overlong rows.

    The counters are in the base slabs, and in the heads of rows without a table; they are -1 before and after.
    """
    for counting in (True, False):
        needed, num_overlong = np.int64(0), 0
        for t in range(src.shape[0]):
            if places[t] >= 0:
                continue
            row = np.int64(src[t])
            head = HEAD_WORDS * row
            first = np.int64(heads[head + FIRST])
            slab = first
            if first != END:
                slab = first + _bucket(np.int64(dst[t]), np.int64(heads[head + BUCKETS]))
            if counting:
                if first == END:
                    heads[head + COUNTER] += 1
                else:
                    slabs[slab * words + words - 2] += 1
                continue
            if first == END:
                count = np.int64(heads[head + COUNTER]) + 1
                heads[head + COUNTER] = -1
            else:
                count = np.int64(slabs[slab * words + words - 2]) + 1
                slabs[slab * words + words - 2] = -1
            if count > 0:
                length, room = _measure(slabs, words, keys, slab, reuse)
                more = (max(count - room, 0) + keys - 1) // keys
                needed += more
                if more > 0 and length + more > max_chain:
                    overlong[num_overlong] = row
                    num_overlong += 1
    return needed, num_overlong


@njit(cache=True)
def _insert(slabs, heads, dirty, unused, state, words, keys, reuse, src, dst, places, weight_words, weights):
    """Write the absent edges to the first free places of their chains; write the weights of all edges."""
    for t in range(src.shape[0]):
        row, place = np.int64(src[t]), places[t]
        if place < 0:
            head, key = HEAD_WORDS * row, np.int64(dst[t])
            buckets = np.int64(heads[head + BUCKETS])
            place = _append(slabs, heads, unused, state, words, keys, reuse, head, _bucket(key, max(buckets, 1)), key)
            heads[head + DEGREE] += 1
        elif weight_words == 0:
            continue
        dirty[row] = 1
        at = place % words
        for k in range(weight_words):
            slabs[place - at + keys + at * weight_words + k] = weights[t * weight_words + k]


@njit(cache=True)
def _delete(slabs, heads, dirty, unused, state, words, keys, src, places):
    """Write a tombstone at each place; a row that loses its last edge returns its overflow slabs to the pool."""
    for t in range(src.shape[0]):
        if places[t] >= 0:
            head = HEAD_WORDS * np.int64(src[t])
            slabs[places[t]] = TOMBSTONE
            dirty[src[t]] = 1
            heads[head + DEGREE] -= 1
            if heads[head + DEGREE] == 0:
                first = np.int64(heads[head + FIRST])
                for slab in range(first, first + heads[head + BUCKETS]):
                    _flush(slabs, unused, state, words, slab, True)


@njit(cache=True)
def _read_weights(slabs, words, keys, weight_words, places, out):
    for t in range(places.shape[0]):
        at = places[t] % words
        for k in range(weight_words):
            there = places[t] >= 0
            out[t * weight_words + k] = slabs[places[t] - at + keys + at * weight_words + k] if there else 0


def find(backend: Backend, table: SlabTable, src: Array, dst: Array) -> Array:
    """Return the word of each edge's key, -1 if absent; int64, shape (B,)."""
    places = backend.empty(src.shape[0], np.int64)
    _find(table.slabs, table.heads, table.words, table.keys, src, dst, places)
    return places


def locate(backend: Backend, table: SlabTable, batch: EdgeBatch) -> Probe:
    """Find the edges of a batch."""
    places = find(backend, table, batch.src, batch.dst)
    there = places >= 0
    loops = int(np.count_nonzero(there & (batch.src == batch.dst))) if batch.num_loops else 0
    return Probe(places, int(np.count_nonzero(there)), loops, 0, int(table.state[USED]), int(table.state[FREE]), None)


def locate_and_count(backend: Backend, table: SlabTable, batch: EdgeBatch, max_chain: int, reuse: bool) -> Probe:
    """Find the edges of a batch, and the slabs that the absent ones need; the table must have all their rows.

    Parameters
    ----------
    max_chain : int
        The most slabs of a chain.
    reuse : bool
        Whether the places of deleted keys are reused.
    """
    probe = locate(backend, table, batch)
    overlong = backend.empty(len(batch) - probe.found, np.int64)
    needed, count = _count_needed(
        table.slabs,
        table.heads,
        table.words,
        table.keys,
        batch.src,
        batch.dst,
        probe.places,
        max_chain,
        reuse,
        overlong,
    )
    return probe._replace(needed=needed, overlong=overlong[:count] if count else None)


def insert_absent(
    backend: Backend, table: SlabTable, batch: EdgeBatch, probe: Probe, reuse: bool, weights: Array | None
) -> None:
    """Insert the edges that were not found, and write the weights of all; the needed slabs must be there."""
    _insert(
        table.slabs,
        table.heads,
        table.dirty,
        table.unused,
        table.state,
        table.words,
        table.keys,
        reuse,
        batch.src,
        batch.dst,
        probe.places,
        table.weight_words,
        table.slabs[:0] if weights is None else table.weights_as_words(weights),
    )


def delete_found(backend: Backend, table: SlabTable, batch: EdgeBatch, probe: Probe) -> None:
    """Delete the found edges; rows that become empty keep their base slabs, emptied."""
    _delete(
        table.slabs,
        table.heads,
        table.dirty,
        table.unused,
        table.state,
        table.words,
        table.keys,
        batch.src,
        probe.places,
    )


def read_weights(backend: Backend, table: SlabTable, places: Array, dtype: np.dtype) -> Array:
    """Return the weight at each place, 0 for place -1."""
    weights = backend.empty(places.shape[0], dtype)
    words = table.weights_as_words(weights)
    _read_weights(table.slabs, table.words, table.keys, table.weight_words, places, words)
    return weights
