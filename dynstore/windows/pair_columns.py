"""Extra columns where a window counts rows or sums weights: each edge has those of its pair's latest row.

A graph's own column of times is the exception: an edge has the greatest time of the rows that it came with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.graph.records import TIME

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.input.columns import EdgeColumns
    from dynstore.typing import Array
    from dynstore.windows.moves import Moves
    from dynstore.windows.pairs import Pairs

__all__ = ["Latest", "latest_rows", "read_pair_columns"]


class Latest(NamedTuple):
    """The greatest times that pairs have after a slide: their slots, and the times, shape (P,)."""

    slots: Array
    times: Array


def latest_rows(G: DynamicGraph, moves: Moves, count: int, times: Array | None) -> Array:
    """Return the latest entering row of each of the first ``count`` listed pairs, shape (count,).

    ``times``: of the entering rows, or None. Of rows of the same time, the last one is the latest.
    """
    xp = G.core.backend.xp
    if times is None:
        order = xp.argsort(moves.slots, kind="stable")
    else:
        order = xp.lexsort(xp.stack((times, moves.slots.astype(times.dtype))))
    ends = xp.searchsorted(moves.slots[order], moves.listed_slots[:count], side="right")
    rows: Array = order[ends - 1]
    return rows


def read_pair_columns(
    G: DynamicGraph,
    pairs: Pairs,
    moves: Moves,
    listed: EdgeColumns,
    count: int,
    extra: dict[str, Array],
    times: Array | None,
) -> tuple[dict[str, Array], Latest | None]:
    """Return the extra columns of listed pairs, and the latest times if the table keeps them.

    Parameters
    ----------
    G : DynamicGraph
    pairs : Pairs
    moves : Moves
    listed : EdgeColumns
        The pairs, L of them.
    count : int
        So many of them have entering rows; these come first. The others keep the columns that they have.
    extra : dict of arrays, shape (N,)
        The columns of the entering rows.
    times : array, shape (N,), or None
        Of the entering rows, if rows may come late.

    Returns
    -------
    columns : dict of arrays, shape (L,)
    latest : Latest or None
    """
    backend, xp, total = G.core.backend, G.core.backend.xp, len(listed.src)
    rows, latest = latest_rows(G, moves, count, times), None
    keeps = backend.zeros(total, np.bool_)
    keeps[count:] = True
    if times is not None and pairs.latest is not None:
        slots = moves.listed_slots[:count]
        keeps[:count] = times[rows] < pairs.latest[slots]
        latest = Latest(slots, xp.maximum(times[rows], pairs.latest[slots]))
    columns = {name: backend.zeros(total, array.dtype) for name, array in extra.items()}
    for name, array in extra.items():
        columns[name][:count] = array[rows]
    if G.timestamps is not None and times is None:  # rows need not come in order of their times
        given = extra[TIME]
        columns[TIME][:count] = given[latest_rows(G, moves, count, given)]
    kept = xp.nonzero(keeps)[0]
    if len(kept):
        there, values = G.core.columns_of_numbers(listed.src[kept], listed.dst[kept])
        for name, array in values.items():  # an edge that was deleted by hand comes back with those of its row
            columns[name][kept[there]] = array[there]
    return columns, latest
