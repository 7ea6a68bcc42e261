"""Rows brought into the order of their owners on the GPU: two passes, in which each warp keeps its rows in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cuda.common import RESIDENT_WARPS, d_count_bits, d_lowest_bit
from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["OwnerRule", "find_owners", "sort_rows"]

LOW_BITS = (1 << 32) - 1
MAX_COUNTS = 1 << 20  # entries of the counts of all warps and owners


class OwnerRule(NamedTuple):
    """Who owns a vertex: ``width`` numbers a rank, or the hash of a number of ``nbytes`` if ``width`` is 0."""

    width: Any
    size: Any
    nbytes: Any


@device
def d_mix(state, word):
    """Mix a word of 32 bits into the state of MurmurHash3."""
    word = (word * 0xCC9E2D51) & LOW_BITS
    word = (((word << 15) | (word >> 17)) * 0x1B873593) & LOW_BITS
    state = (state ^ word) & LOW_BITS
    state = ((state << 13) | (state >> 19)) & LOW_BITS
    return (state * 5 + 0xE6546B64) & LOW_BITS


@device
def d_find_owner(number, rule):
    """Return the rank that owns a number, as the host's ``find_owners`` does."""
    if rule.width != 0:
        return min(number // rule.width, rule.size - 1)
    state = d_mix(0, number & LOW_BITS)
    if rule.nbytes == 8:
        state = d_mix(state, (number >> 32) & LOW_BITS)
    state ^= rule.nbytes
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & LOW_BITS
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & LOW_BITS
    return (state ^ (state >> 16)) % rule.size


@device
def d_read_row(src, dst, both, item, end):
    """Return the ends of a row, and whether there is one. With ``both``, a row's other direction follows it."""
    u, v = 0, 0
    live = item < end
    if live:
        u, v = int(src[item >> both]), int(dst[item >> both])
        if item & both:
            u, v = v, u
            live = u != v  # a loop has one direction
    return u, v, live


@kernel
def k_find_owners(numbers, width, size, nbytes, owners):
    """One thread a number: write its owner."""
    i = int(cuda.grid(1))
    if i < owners.shape[0]:
        owners[i] = d_find_owner(int(numbers[i]), OwnerRule(width, size, nbytes))


@kernel
def k_count_owners(src, dst, both, width, size, nbytes, share, counts):
    """Each warp counts the owners of ``share`` neighbouring rows, in its own column of ``counts``."""
    rule, lane, warp = OwnerRule(width, size, nbytes), d_lane(), int(cuda.grid(1)) >> 5
    warps = counts.shape[0] // size
    begin = warp * share
    end = min(begin + share, src.shape[0] << both)
    if warp >= warps:  # the same in all lanes
        end = begin
    for base in range(begin, end, 32):
        u, _, live = d_read_row(src, dst, both, base + lane, end)
        owner = d_find_owner(u, rule) if live else -1
        waiting = np.int64(d_ballot(live))
        while waiting != 0:  # the same in all lanes
            chosen = d_shuffle(owner, d_lowest_bit(waiting))
            same = np.int64(d_ballot(owner == chosen))
            waiting &= ~same
            if lane == chosen & 31:  # one lane alone counts for an owner
                counts[chosen * warps + warp] += d_count_bits(same)


@kernel
def k_sort_rows(
    src, dst, values, both, width, size, nbytes, share, places, out_src, out_dst, out_values, order
):  # fmt: skip
    """Each warp writes its rows behind each other, from ``places`` on, which it advances; see ``k_count_owners``.

    ``values`` and ``order`` may have no entries; ``order`` gets each row's place before.
    """
    rule, lane, warp = OwnerRule(width, size, nbytes), d_lane(), int(cuda.grid(1)) >> 5
    warps = places.shape[0] // size
    begin = warp * share
    end = min(begin + share, src.shape[0] << both)
    if warp >= warps:  # the same in all lanes
        end = begin
    for base in range(begin, end, 32):
        item = base + lane
        u, v, live = d_read_row(src, dst, both, item, end)
        owner = d_find_owner(u, rule) if live else -1
        place = 0
        waiting = np.int64(d_ballot(live))
        while waiting != 0:  # the same in all lanes
            chosen = d_shuffle(owner, d_lowest_bit(waiting))
            same = np.int64(d_ballot(owner == chosen))
            waiting &= ~same
            start = 0
            if lane == chosen & 31:
                start = int(places[chosen * warps + warp])
                places[chosen * warps + warp] = start + d_count_bits(same)
            start = d_shuffle(start, chosen & 31)
            if owner == chosen:
                place = start + d_count_bits(same & ((1 << lane) - 1))
        if live:
            out_src[place] = u
            out_dst[place] = v
            if values.shape[0] > 0:
                out_values[place] = values[item >> both]
            if order.shape[0] > 0:
                order[place] = item >> both


def find_owners(backend: Backend, width: int, size: int, numbers: Array) -> Array:
    """Return the rank that owns each number, uint16; ``width`` and ``size`` are those of ``owners.Owners``."""
    found = backend.empty(numbers.shape[0], np.uint16)
    k_find_owners.launch(found.shape[0], numbers, width, size, numbers.itemsize, found)
    return found


def sort_rows(
    backend: Backend, width: int, size: int, columns: Sequence[Array], both: bool, want_order: bool
) -> tuple[Array | None, list[Array], list[int]]:
    """Do what ``owners.sort_by_owner`` says."""
    src, dst = columns[:2]
    values = columns[2] if len(columns) > 2 else backend.nothing(np.float32)
    num_rows = src.shape[0] << both
    if not num_rows:
        return backend.nothing(np.int64) if want_order else None, list(columns), [0] * size
    warps = max(1, min(RESIDENT_WARPS, MAX_COUNTS // size, -(-num_rows // WARP)))
    share = -(-num_rows // (warps * WARP)) * WARP
    given, rule = (src, dst), (int(both), width, size, src.itemsize, share)
    counts = backend.zeros(size * warps, np.int64)
    written = [backend.empty(num_rows, column.dtype) for column in (src, dst)]
    written.append(backend.empty(num_rows if len(columns) > 2 else 0, values.dtype))
    order = backend.empty(num_rows if want_order else 0, np.int64)
    k_count_owners.launch_warps(warps, *given, *rule, counts)
    ends = backend.xp.cumsum(counts)
    k_sort_rows.launch_warps(warps, *given, values, *rule, ends - counts, *written, order)
    totals = np.diff(backend.to_host(ends[warps - 1 :: warps]), prepend=0).tolist()
    found = [column[: sum(totals)] for column in written[: len(columns)]]
    return order if want_order else None, found, totals
