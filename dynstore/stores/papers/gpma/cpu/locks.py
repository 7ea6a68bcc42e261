"""GPMA on the host: the rounds and heights of the GPU one after the other, with the same winners and slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.pma.cpu.redistribute import count_bits, or_none, set_located
from dynstore.stores.pma.cpu.single_key import find_place, respread
from dynstore.stores.pma.cpu.windows import locate_batch
from dynstore.stores.table.slots import ABSENT, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.table.slots import SlotArrays

__all__ = ["Rounds", "insert_in_rounds", "locate_batch", "plan_rounds"]


@dataclass(frozen=True, slots=True)
class Rounds:
    """The keys to insert, rows of the batch in ascending order, and the memory that inserting them takes.

    ``climbing``: indices into ``keys``; ``leaves``, ``placed``: for each key, its leaf and whether it has been placed.
    """

    keys: np.ndarray
    climbing: np.ndarray
    leaves: np.ndarray
    placed: np.ndarray


def plan_rounds(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray
) -> tuple[SearchResult, Rounds | None]:
    """Find the keys of a batch and reserve what inserting the absent ones takes.

    ``limits``: the highest density of each height. No rounds if the root would be denser.
    """
    located = locate_batch(backend, slots, batch)
    if len(batch) - located.found > slots.room_at(limits[-1]):
        return located, None
    keys = np.flatnonzero(located.states == ABSENT)
    climbing, leaves = (backend.empty(keys.shape[0], np.int64) for _ in range(2))
    return located, Rounds(keys, climbing, leaves, backend.empty(keys.shape[0], np.bool_))


@njit(cache=True)
def _insert_rounds(
    src, dst, weights, valid, offsets, limits, new_src, new_dst, new_weights, keys, climbing, leaves, placed
):
    """Insert keys; the first key that claims a segment in a round gets it. Returns the number of rounds."""
    num_leaves, num_keys, rounds = src.shape[0] >> 5, keys.shape[0], 0
    weighted, zero = weights.shape[0] > 0, weights.dtype.type(0)
    while num_keys > 0:
        for k in range(num_keys):
            place = find_place(offsets, dst, np.int64(new_src[keys[k]]), new_dst[keys[k]])
            leaves[k], placed[k], climbing[k] = max(place - 1, 0) >> 5, False, k
        num_climbing, height = num_keys, 0
        while num_climbing > 0:
            still, segment = 0, np.int64(-1)
            for c in range(num_climbing):
                k = climbing[c]
                if leaves[k] >> height == segment:  # an earlier key has the lock
                    continue
                segment = leaves[k] >> height
                first = segment << height
                end = min(first + (np.int64(1) << height), num_leaves)
                count = 0
                for leaf in range(first, end):
                    count += count_bits(valid[leaf])
                if count + 1 <= limits[height] * ((end - first) * 32):
                    i = keys[k]
                    weight = new_weights[i] if weighted else zero
                    row = np.int64(new_src[i])
                    respread(src, dst, weights, valid, offsets, first * 32, end * 32, True, row, new_dst[i], weight)
                    placed[k] = True
                else:
                    climbing[still] = k
                    still += 1
            num_climbing, height = still, height + 1
        waiting = 0
        for k in range(num_keys):
            if not placed[k]:
                keys[waiting] = keys[k]
                waiting += 1
        num_keys, rounds = waiting, rounds + 1
    return rounds


def insert_in_rounds(
    backend: Backend,
    slots: SlotArrays,
    batch: EdgeBatch,
    located: SearchResult,
    rounds: Rounds,
    limits: np.ndarray,
    add: bool,
) -> None:
    """Write an insertion into the slots. Allocates nothing."""
    weights, new_weights = or_none(slots.weights), or_none(batch.weights)
    set_located(weights, slots.valid, located.positions, located.states, new_weights, add)
    _insert_rounds(
        slots.src, slots.dst, weights, slots.valid, slots.offsets, limits, batch.src, batch.dst, new_weights,
        rounds.keys, rounds.climbing, rounds.leaves, rounds.placed,
    )  # fmt: skip
