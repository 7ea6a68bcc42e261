"""Slab hash tables on CUDA: finding edges, and inserting and deleting them after that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import cuda, kernel
from dynstore.stores.slab_hash.cuda.plan import plan_update
from dynstore.stores.slab_hash.cuda.probe import d_find_bucket, d_probe_chains, d_read_head
from dynstore.stores.slab_hash.cuda.write import write_deletion, write_insertion
from dynstore.stores.slab_hash.slabs import END

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.slab_hash.slabs import Probe, SlabTable
    from dynstore.typing import Array

__all__ = ["delete_found", "find", "insert_absent", "locate", "locate_and_count", "read_weights"]


@kernel
def k_find_edges(slabs, heads, words, keys, src, dst, places):
    """A warp walks the chains of its 32 edges; each thread writes the place of one."""
    t = np.int64(cuda.grid(1))
    key, base = np.int64(0), np.int64(END)
    if t < src.shape[0]:
        row, key = np.int64(src[t]), np.int64(dst[t])
        first, buckets = d_read_head(heads, row)
        base = first + d_find_bucket(key, buckets)
    place, _, _, _, _, _ = d_probe_chains(slabs, words, keys, 0, key, base)
    if t < src.shape[0]:
        places[t] = place


@kernel
def k_read_weights(slabs, words, keys, weight_words, places, out):
    """One thread owns one place: read its weight."""
    t = np.int64(cuda.grid(1))
    if t < places.shape[0]:
        place = places[t]
        at = place & (words - 1)
        for k in range(weight_words):
            out[t * weight_words + k] = slabs[place - at + keys + at * weight_words + k] if place >= 0 else 0


def find(backend: Backend, table: SlabTable, src: Array, dst: Array) -> Array:
    """Return the word of each edge's key, -1 if absent; int64, shape (B,)."""
    places = backend.empty(src.shape[0], np.int64)
    k_find_edges.launch(src.shape[0], table.slabs, table.heads, table.words, table.keys, src, dst, places)
    return places


def locate(backend: Backend, table: SlabTable, batch: EdgeBatch) -> Probe:
    """Find the edges of a batch."""
    return plan_update(backend, table, batch, 0, False)


def locate_and_count(backend: Backend, table: SlabTable, batch: EdgeBatch, max_chain: int, reuse: bool) -> Probe:
    """Find a batch's edges, and the slabs that the absent ones need; see ``slab_hash/cpu/update.py``."""
    return plan_update(backend, table, batch, max_chain, reuse)


def insert_absent(
    backend: Backend, table: SlabTable, batch: EdgeBatch, probe: Probe, reuse: bool, weights: Array | None
) -> None:
    """Insert the edges that were not found, and write the weights of all; the needed slabs must be there."""
    words = backend.nothing(table.slabs.dtype) if weights is None else table.weights_as_words(weights)
    write_insertion(table, probe.tasks, probe.places, reuse, words)


def delete_found(backend: Backend, table: SlabTable, batch: EdgeBatch, probe: Probe) -> None:
    """Delete the found edges; rows that become empty keep their base slabs, emptied."""
    if probe.found:
        write_deletion(table, probe.tasks)


def read_weights(backend: Backend, table: SlabTable, places: Array, dtype: np.dtype) -> Array:
    """Return the weight at each place, 0 for negative places."""
    weights = backend.empty(places.shape[0], dtype)
    words = table.weights_as_words(weights)
    k_read_weights.launch(places.shape[0], table.slabs, table.words, table.keys, table.weight_words, places, words)
    return weights
