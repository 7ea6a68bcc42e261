"""Stores whose structure is not a table."""

from __future__ import annotations

from abc import abstractmethod

from dynstore.errors import OutOfMemoryError
from dynstore.stores.base import Store
from dynstore.stores.table.slots import SlotArrays

__all__ = ["DerivedSlots"]


class DerivedSlots(Store):
    """A store whose structure is not a table: the table of its edges is made when something reads it.

    Updates set ``_is_stale``. Threads that only read may do so at once: one of them makes the table.
    """

    _shown: SlotArrays | None  # a stale one is for the next refresh alone
    _is_stale: bool

    @property
    def slots(self) -> SlotArrays:
        """All edges as a sorted table; the first read after an update brings it up to date.

        Raises
        ------
        OutOfMemoryError
            If the table does not fit; the graph and its last table are unchanged.
        """
        if self._is_stale:
            with self.lock:
                if self._is_stale:
                    self._refresh_or_raise()
        assert self._shown is not None
        return self._shown

    @slots.setter
    def slots(self, slots: SlotArrays) -> None:
        self._shown, self._is_stale = slots, False

    def _refresh_or_raise(self) -> None:
        try:
            self._refresh()
        except MemoryError as error:
            raise OutOfMemoryError(
                f"store {self.name!r}: memory ran out for a table of {self.num_edges} edges ({error}); "
                "the graph is as it was"
            ) from error
        self._is_stale = False

    @abstractmethod
    def _refresh(self) -> None:
        """Set ``_shown`` to a table of the present edges.

        An error at any point, also one that a signal's handler raises, must leave enough to begin again.
        """
