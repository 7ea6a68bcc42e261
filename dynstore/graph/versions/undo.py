"""What the updates of a graph have overwritten since its pins were made: the undo log.

The log is a chain: each update adds a link with the state of its edges before. A pin holds the link that was the last
one when the pin was made, and with it all that follow. Links before the oldest pin belong to no one, so they are freed
without any bookkeeping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from dynstore.bits import full_words
from dynstore.graph.delta import Change, DeltaLog, Unread
from dynstore.stores.table.slots import SlotArrays

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Pinned", "UndoLink", "UndoLog", "UndoTable"]


class UndoLink:
    """A place in the chain, and the change that came after it.

    Attributes
    ----------
    change : Change or None
        None for the last link, until the next change.
    next : Link or None
    """

    __slots__ = ("change", "next")

    def __init__(self) -> None:
        self.change: Change | None = None
        self.next: UndoLink | None = None

    def changes(self) -> list[Change]:
        """Return all changes from here on, in order."""
        found, link = [], self
        while link.change is not None and link.next is not None:
            found.append(link.change)
            link = link.next
        return found


class Pinned(Protocol):
    """A version that reads undo the changes for, until it is copied.

    Attributes
    ----------
    mark : int
        The edges that the log had counted when the version was pinned.
    """

    mark: int

    def materialize(self) -> None: ...


class UndoLog(DeltaLog):
    """The log that pins follow; they keep it alive, and the graph does not.

    Attributes
    ----------
    last : Link
    versions : set of Pinned
        Those that are not copied yet.
    """

    keeps_numbers = True

    def __init__(self) -> None:
        super().__init__()
        self.last = UndoLink()
        self.versions: WeakSet[Pinned] = WeakSet()

    def wants(self, num_edges: int, most: int) -> bool:
        return True

    def add(self, change: Change | Unread | None, most: int) -> None:
        # A change of everything has made all versions copy themselves before, and so ended this log.
        if isinstance(change, Change) and change.num_edges:
            last = self.last
            last.next = self.last = UndoLink()
            last.change = change
            self.num_edges += change.num_edges

    def make_way(self, num_edges: int | None, most: int) -> None:
        """Copy the versions for which more than ``most`` edges would be kept; ``num_edges`` None: copy all."""
        for version in list(self.versions):
            if num_edges is None or self.num_edges - version.mark + num_edges > most:
                version.materialize()


class UndoTable:
    """Edges as they were in an earlier version; all others are as they are now.

    Parameters
    ----------
    backend : Backend
    change : Change
        Sorted, with at least one edge.
    """

    def __init__(self, backend: Backend, change: Change) -> None:
        self.change, self._backend, xp = change, backend, backend.xp
        num_edges, dtype = change.num_edges, change.src.dtype
        begins = backend.empty(num_edges, bool)
        begins[0] = True
        begins[1:] = change.src[1:] != change.src[:-1]
        starts = xp.nonzero(begins)[0]
        self._rows = change.src[starts]  # of the vertices that have changed edges; they are the rows of the slots
        offsets = backend.empty(starts.shape[0] + 1, dtype)
        offsets[:-1] = starts
        offsets[-1] = num_edges
        words = full_words(backend, num_edges)
        self._slots = SlotArrays(change.src, change.dst, None, words, offsets, offsets, num_edges)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.change.nbytes + int(self._rows.nbytes + self._slots.offsets.nbytes + self._slots.valid.nbytes)

    def correct(self, src: Array, dst: Array, there: Array, weights: Array | None) -> tuple[Array, Array | None]:
        """Return whether edges were there, and their weights, for what they are now."""
        backend, xp, count = self._backend, self._backend.xp, int(self._rows.shape[0])
        rows = xp.minimum(xp.searchsorted(self._rows, src), count - 1)
        rows = xp.where(self._rows[rows] == src, rows, count).astype(src.dtype)
        search = backend.kernels("dynstore.stores.table", "search")
        places = search.find_slots(backend, self._slots, rows, dst)
        known = places >= 0
        places = xp.where(known, places, 0)
        there = xp.where(known, self.change.before[places], there)
        if weights is not None and self.change.weights is not None:
            weights = xp.where(known, self.change.weights[places], weights)
        return there, weights

    def correct_row(self, number: int, row: Array) -> Array:
        """Return the destinations of a vertex's edges, ascending, for those that it has now."""
        ends = self._backend.asarray([number, number + 1], self.change.src.dtype)
        low, high = (int(end) for end in self._backend.xp.searchsorted(self.change.src, ends))
        return self._corrected(row, self.change.dst[low:high], self.change.before[low:high])

    def correct_in_row(self, number: int, row: Array) -> Array:
        """Return the sources of the edges to a vertex, ascending, for those that it has now."""
        chosen = self._backend.xp.nonzero(self.change.dst == number)[0]
        return self._corrected(row, self.change.src[chosen], self.change.before[chosen])

    def _corrected(self, row: Array, changed: Array, before: Array) -> Array:
        xp = self._backend.xp
        if not changed.shape[0]:
            return row
        return xp.sort(xp.concatenate((row[~xp.isin(row, changed)], changed[before])))
