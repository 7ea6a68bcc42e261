"""The vertices within some hops of others, each search at its own timestamp: on CUDA all take a hop together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.operations.history import MOST_SLOTS, pieces, search, split

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.operations.history import History
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["find_hops"]

# Keys are sorted if there are more than so many possible ones for each.
SPARSE = 8


def find_hops(
    backend: Backend,
    history: History,
    slots: SlotArrays,
    rows: Array,
    vertices: Array,
    timestamps: Array,
    limits: Array,
) -> tuple[Array, Array, Array]:
    """Search from each vertex along its out-edges.

    Parameters
    ----------
    backend, history, slots
        See :meth:`~dynstore.operations.history.History.neighbors_at`.
    rows, vertices, timestamps, limits : array, shape (Q,), int64
        The row of the batch of each search, ascending, where it begins, its timestamp, and its most hops.

    Returns
    -------
    found : array, int64
        The row of the search, for each vertex that it has found; sorted.
    numbers, distances : array, int32 or int64
        The vertex, and the hops to it; those of a search ascend by vertex. The first vertices are among them.
    """
    xp, bits = backend.xp, history.bits
    reached = [xp.arange(vertices.shape[0], dtype=np.int64) << bits | vertices]
    seen, hop = reached[0], 0  # ascending: a search has one key so far
    while True:
        hop += 1
        searches, frontier = split(reached[-1], bits)
        going = limits[searches] >= hop
        searches, frontier = searches[going], frontier[going]
        if not searches.shape[0]:
            break
        found = []
        for part in pieces(backend, slots, frontier, MOST_SLOTS):
            near = history.neighbors_at(slots, frontier[part], timestamps[searches[part]], placed=False)
            first = int(searches[part.start])
            num_flags = int(searches[part.stop - 1]) - first + 1 << bits
            keys = (searches[part] - first << bits)[near.owners] | near.numbers
            found.append(_distinct(backend, keys, num_flags) + (first << bits))
        keys = found[0] if len(found) == 1 else xp.unique(xp.concatenate(found))
        new = keys[seen[xp.minimum(search(xp, seen, keys), seen.shape[0] - 1)] != keys]
        reached.append(new)
        seen = xp.sort(xp.concatenate((seen, new)))
    keys = xp.concatenate(reached)
    distances = xp.concatenate([xp.full(part.shape[0], hop, np.int64) for hop, part in enumerate(reached)])
    order = xp.argsort(keys)
    searches, numbers = split(keys[order], bits)
    return rows[searches], numbers, distances[order]


def _distinct(backend: Backend, keys: Array, num_flags: int) -> Array:
    """Return the distinct keys, ascending; all are below ``num_flags``. Flags are faster than a sort of many keys."""
    if num_flags > SPARSE * keys.shape[0]:
        return backend.xp.unique(keys)
    flags = backend.zeros(num_flags, np.bool_)
    flags[keys] = True
    return backend.xp.nonzero(flags)[0]
