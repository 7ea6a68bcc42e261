"""Drawing the events of an R-MAT graph on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["count_ends", "draw_edges", "draw_rows"]

# Limits of 32 random bits: quadrant a, then b, then c; d is the rest. The same as on the GPU.
A, A_B, A_B_C = round(0.57 * 2**32), round(0.76 * 2**32), round(0.95 * 2**32)
LOW_BITS, STEP, MULTIPLIER = 0xFFFFFFFF, 0x1E3779B9, 0x45D9F3B


@njit
def d_mix(bits):
    """Return 32 mixed bits of a number of 32 bits, in int64."""
    bits = ((bits ^ (bits >> 16)) * MULTIPLIER) & LOW_BITS
    bits = ((bits ^ (bits >> 16)) * MULTIPLIER) & LOW_BITS
    return bits ^ (bits >> 16)


@njit
def d_draw_event(event, scale, seed):
    """Return source and destination of an event."""
    state, high = d_mix(d_mix(event & LOW_BITS) ^ d_mix(seed & LOW_BITS)), d_mix(event >> 32)
    row, column = np.int64(0), np.int64(0)
    for level in range(scale):
        bits = d_mix(((state + (level + 1) * STEP) & LOW_BITS) ^ high)
        row = 2 * row + (1 if bits >= A_B else 0)
        column = 2 * column + (1 if (bits >= A and bits < A_B) or bits >= A_B_C else 0)
    return row, column


@njit(cache=True, nogil=True)
def k_count_ends(num_events, scale, seed, sources, targets):
    """Count both ends of all events."""
    for event in range(num_events):
        row, column = d_draw_event(event, scale, seed)
        sources[row] += 1
        targets[column] += 1


@njit(cache=True, nogil=True)
def k_draw_edges(num_events, scale, seed, kind, ranks, low, high, keys):
    """List events whose rows are from ``low`` to ``high``; return their number."""
    filled = 0
    for event in range(num_events):
        row, column = d_draw_event(event, scale, seed)
        first, second = np.int64(ranks[row]), np.int64(ranks[column])
        for turn in range(2):
            if (kind >> turn) & 1 != 0 and first != second and low <= first < high:
                keys[filled] = (first << 32) | second
                filled += 1
            first, second = second, first
    return filled


@njit(cache=True, nogil=True)
def k_draw_rows(first, scale, seed, src, dst):
    """Write both ends of events from ``first`` on."""
    for i in range(src.shape[0]):
        src[i], dst[i] = d_draw_event(first + i, scale, seed)


def draw_rows(first: int, scale: int, seed: int, src: Array, dst: Array) -> None:
    """Write the ends of events from ``first`` on, with repeated ones and loops."""
    k_draw_rows(first, scale, seed, src, dst)


def count_ends(num_events: int, scale: int, seed: int, sources: Array, targets: Array) -> None:
    """Add up how often each vertex is an event's source and its destination."""
    k_count_ends(num_events, scale, seed, sources, targets)


def draw_edges(
    num_events: int,
    scale: int,
    seed: int,
    kind: int,
    ranks: Array,
    low: int,
    high: int,
    keys: Array,
    filled: Array,
) -> None:
    """List the edges of the rows from ``low`` to ``high`` as ``row << 32 | destination``, in any order.

    ``kind``: OUT and INTO, as bits. ``filled`` gets their number.
    """
    filled[0] = k_draw_edges(num_events, scale, seed, kind, ranks, low, high, keys)
