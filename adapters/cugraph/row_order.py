"""The order of rows by degree, and the segments that it gives cuGraph's kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["LongRows", "hubs_out_of_place", "measure_rows", "order_by_degree", "rows_of_edges", "segments_of"]

# The degrees at which cuGraph's kernels change from a block per vertex to a warp, and from a warp to a thread.
WIDE, MEDIUM = 1024, 32
# A segment may be this many times as long as its number of rows, and this many rows longer: beyond that, rows count as
# unordered.
MAX_STRETCH, SLACK_ROWS = 4, 64
# Unordered rows are sorted anew if rows for a block hold more than this share of all edges. Rows that are only out of
# order, with segments, are not: that costs more than it saves (docs/notes/drop-in.md).
WIDE_SHARE = 1 / 64
LOW = 0xFFFFFFFF


class LongRows(NamedTuple):
    """Counts of rows for a block (1024 edges and more) and for a warp (32 and more, including those for a block).

    Attributes
    ----------
    wide, medium : int
        Their numbers.
    wide_end, medium_end : int
        The place behind the last of them; 0 if there is none.
    wide_edges : int
        Edges of rows for a block.
    """

    wide: int
    medium: int
    wide_end: int
    medium_end: int
    wide_edges: int


def measure_rows(offsets: np.ndarray) -> LongRows:
    """Measure packed rows on the host; on the GPU, the squeezing kernel does it.

    Parameters
    ----------
    offsets : array, shape (V + 1,)
    """
    degrees = np.diff(offsets)
    wide, medium = np.flatnonzero(degrees >= WIDE), np.flatnonzero(degrees >= MEDIUM)
    ends = [int(rows[-1]) + 1 if rows.shape[0] else 0 for rows in (wide, medium)]
    return LongRows(wide.shape[0], medium.shape[0], ends[0], ends[1], int(degrees[wide].sum()))


def segments_of(rows: LongRows) -> tuple[int, int] | None:
    """Return the ends of the segments of rows with at least 1024 and 32 edges, if rows are about in order of degree.

    A segment ends behind the last row that is at its threshold: cuGraph relies on all rows behind it to be below the
    threshold. It may hold shorter rows: they get too many threads, but the same result.

    Returns
    -------
    (wide, medium) or None
        None if a segment would be much longer than its number of long rows, or no row has 32 edges.
    """
    if rows.medium == 0:
        return None
    pairs = (rows.wide_end, rows.wide), (rows.medium_end, rows.medium)
    if any(end > MAX_STRETCH * count + SLACK_ROWS for end, count in pairs):
        return None
    return rows.wide_end, rows.medium_end


def hubs_out_of_place(rows: LongRows, segments: tuple[int, int] | None, num_edges: int) -> bool:
    """Return whether the rows have to be sorted by degree before cuGraph gets them.

    That is so if they have no segments, and rows of 1024 edges and more hold many of the edges: without segments,
    cuGraph gives each row one thread. That is slow, and one thread adds up so many float32 one after the other that
    PageRank may never reach its tolerance.
    """
    return segments is None and rows.wide_edges > WIDE_SHARE * num_edges


def order_by_degree(
    xp: Any, offsets: Array, indices: Array, weights: Array | None
) -> tuple[Array, Array, Array | None, Array]:
    """Return the rows in order of falling degree, numbered anew, neighbours ascending; and the old number of each.

    Edges are sorted by one key each: the number of the row, then that of the neighbour, which both are below 2**31.
    """
    degrees = offsets[1:] - offsets[:-1]
    order = xp.argsort(-degrees, kind="stable")
    ranks = xp.empty_like(order)
    ranks[order] = xp.arange(order.shape[0], dtype=order.dtype)
    filled = xp.nonzero(degrees)[0]
    steps, first, own = xp.zeros_like(indices, dtype=np.int64), offsets[filled], ranks[filled]
    steps[first[:1]], steps[first[1:]] = own[:1], own[1:] - own[:-1]
    keys = xp.cumsum(steps) << 32 | ranks[indices]  # summed up, the steps are the number of each edge's row
    ordered = xp.zeros_like(offsets)
    xp.cumsum(degrees[order], out=ordered[1:])
    if weights is None:
        keys.sort()
    else:
        places = xp.argsort(keys)
        keys, weights = keys[places], weights[places]
    return ordered, (keys & LOW).astype(indices.dtype), weights, order


def rows_of_edges(xp: Any, offsets: Array, num_edges: int) -> Array:
    """Return the row of each edge, shape (E,)."""
    numbers = xp.arange(num_edges, dtype=offsets.dtype)
    return (xp.searchsorted(offsets, numbers, side="right") - 1).astype(offsets.dtype)
