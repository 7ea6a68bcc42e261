"""Sampling neighbours on a GPU, by array operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dynstore.algorithms.sampling.fanouts import Fanout, Ranks
    from dynstore.backend import Backend
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["number_nodes", "sample_rows"]


def sample_rows(csr: GapCSR, rows: Array, fanout: Fanout, seed: int, ranks: Ranks | None = None) -> tuple[Array, Array]:
    """Choose neighbours of each row, as on the host; all slots of the rows are read."""
    xp = csr.backend.xp
    places, slots = _edges_of(csr, rows)
    if fanout.most >= 0:
        degrees = xp.bincount(places, minlength=rows.shape[0])
        ends = xp.cumsum(degrees)
        if fanout.replace:
            held = xp.flatnonzero(degrees)
            places = held[xp.arange(held.shape[0] * fanout.most) // max(fanout.most, 1)]
            ranks = (_random_numbers(xp, seed, places.shape[0]) * degrees[places]).astype(np.int64)
            slots = slots[(ends - degrees)[places] + ranks]
        else:
            keys = _random_numbers(xp, seed, slots.shape[0])
            if fanout.largest:
                assert ranks is not None
                keys = ranks.values[ranks.records[slots] if ranks.records.shape[0] else slots]
                keys = ~keys.astype(np.int64) if keys.dtype.kind == "i" else -keys.astype(np.float64)
            order = xp.lexsort(xp.stack((keys, places.astype(keys.dtype))))
            order = xp.sort(order[xp.arange(order.shape[0]) - (ends - degrees)[places] < fanout.most])
            places, slots = places[order], slots[order]
    return places, csr.indices[slots].astype(np.int64)


def _edges_of(csr: GapCSR, rows: Array) -> tuple[Array, Array]:
    """Return all edges of some rows: their rows' places, ascending, and their slots."""
    xp = csr.backend.xp
    begins = csr.offsets[rows].astype(np.int64)
    lengths = csr.offsets[rows + 1].astype(np.int64) - begins
    ends = xp.cumsum(lengths)
    entries = xp.arange(int(ends[-1]) if rows.shape[0] else 0)
    places = xp.searchsorted(ends, entries, side="right")
    slots = begins[places] + entries - (ends - lengths)[places]
    there = (csr.valid[slots >> 5] >> (slots & 31).astype(np.uint32)) & np.uint32(1) != 0
    return places[there], slots[there]


def _random_numbers(xp: Any, seed: int, count: int) -> Array:
    """Return numbers from 0 to below 1, shape (``count``,), float64: SplitMix64's, see the host's kernels."""
    states = xp.arange(1, count + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((states ^ (states >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def number_nodes(backend: Backend, nodes: Array, keys: Array) -> tuple[Array, Array]:
    """Give each key its place in a list of nodes, to which unknown keys are appended, as on the host."""
    xp, num_nodes = backend.xp, nodes.shape[0]
    _, firsts, inverse = xp.unique(xp.concatenate((nodes, keys)), return_index=True, return_inverse=True)
    numbers = firsts.astype(np.int64)
    is_new = firsts >= num_nodes
    new = xp.sort(firsts[is_new])
    numbers[is_new] = num_nodes + xp.searchsorted(new, firsts[is_new])
    return numbers[inverse[num_nodes:]], new - num_nodes
