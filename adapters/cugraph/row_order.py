"""The order of rows by degree, and the segments that it gives cuGraph's kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["LongRows", "hubs_astray", "measure_rows", "order_by_degree", "rows_of_edges", "segment_end", "segments_of"]

# The degrees at which cuGraph's kernels change from a block per vertex to a warp, and from a warp to a thread.
WIDE, MEDIUM = 1024, 32
# A segment is longer than its number of rows by this slack, so that few are left out after the order has drifted ...
SLACK_SHARE, SLACK_ROWS = 8, 8
# ... and if it holds less than this share of them, rows count as unordered.
ORDERED_SHARE = 0.5
# Rows are sorted anew if rows for a block that are behind their segment hold more than this share of all edges.
STRAY_SHARE = 1 / 64


class LongRows(NamedTuple):
    """Counts of rows for a block (1024 edges and more) and for a warp (32 and more, including those for a block).

    Attributes
    ----------
    wide, medium : int
        Their numbers.
    held_wide, held_medium : int
        Those before the end of their segment.
    wide_edges, stray_edges : int
        Edges of rows for a block: of all, and of those behind the end of the segment.
    """

    wide: int
    medium: int
    held_wide: int
    held_medium: int
    wide_edges: int
    stray_edges: int


def measure_rows(offsets: np.ndarray) -> LongRows:
    """Measure packed rows on the host; on the GPU, the squeezing kernel does it.

    Parameters
    ----------
    offsets : array, shape (V + 1,)
    """
    degrees = np.diff(offsets)
    wide, medium = degrees >= WIDE, degrees >= MEDIUM
    counts = int(wide.sum()), int(medium.sum())
    ends = [segment_end(count, degrees.shape[0]) for count in counts]
    return LongRows(
        *counts,
        int(wide[: ends[0]].sum()),
        int(medium[: ends[1]].sum()),
        int(degrees[wide].sum()),
        int(degrees[ends[0] :][wide[ends[0] :]].sum()),
    )


def segment_end(count: int, num_rows: int) -> int:
    """Return the end of a segment for ``count`` rows."""
    return min(count + count // SLACK_SHARE + SLACK_ROWS, num_rows) if count else 0


def segments_of(rows: LongRows, num_rows: int) -> tuple[int, int] | None:
    """Return the ends of the segments of rows with at least 1024 and 32 edges, if rows are ordered by falling degree.

    The order need not be perfect: cuGraph's kernels loop over a row's actual degree. A row in the wrong segment gets
    too many or too few threads, but the same result.

    Returns
    -------
    (wide, medium) or None
        None if less than half of the long rows come before an end, or no row has 32 edges.
    """
    if rows.medium == 0 or rows.held_wide < ORDERED_SHARE * rows.wide or rows.held_medium < ORDERED_SHARE * rows.medium:
        return None
    return segment_end(rows.wide, num_rows), segment_end(rows.medium, num_rows)


def hubs_astray(rows: LongRows, segments: tuple[int, int] | None, num_edges: int) -> bool:
    """Return whether rows of 1024 edges and more behind the widest segment hold too many edges.

    cuGraph gives such a row one thread. That is slow, and sums so many float32 one after the other that PageRank may
    never reach its tolerance.
    """
    return (rows.wide_edges if segments is None else rows.stray_edges) > STRAY_SHARE * num_edges


def order_by_degree(
    xp: Any, offsets: Array, indices: Array, weights: Array | None
) -> tuple[Array, Array, Array | None, Array]:
    """Return the rows in order of falling degree, numbered anew, neighbours ascending; and the old number of each."""
    degrees = offsets[1:] - offsets[:-1]
    order = xp.argsort(-degrees, kind="stable")
    ranks = xp.empty_like(order)
    ranks[order] = xp.arange(order.shape[0], dtype=order.dtype)
    keys = ranks[rows_of_edges(xp, offsets, indices.shape[0])] * order.shape[0] + ranks[indices]
    places = xp.argsort(keys)
    ordered = xp.zeros_like(offsets)
    xp.cumsum(degrees[order], out=ordered[1:])
    columns = ranks[indices[places]].astype(indices.dtype)
    return ordered, columns, None if weights is None else weights[places], order


def rows_of_edges(xp: Any, offsets: Array, num_edges: int) -> Array:
    """Return the row of each edge, shape (E,)."""
    numbers = xp.arange(num_edges, dtype=offsets.dtype)
    return (xp.searchsorted(offsets, numbers, side="right") - 1).astype(offsets.dtype)
