"""Which pages are in the device's cache: the paper's, least recently used first out."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["PageCache"]


class PageCache:
    """The paper's cachedPIDMap: the slots of a cache, and the pages in them."""

    def __init__(self, num_slots: int) -> None:
        self._free = list(range(num_slots))[::-1]
        self._slots: OrderedDict[int, int] = OrderedDict()  # by page; the one that was used last comes last

    def find(self, pid: int) -> int | None:
        """Return the slot of a page, which is now the one used last; None if it is not there."""
        slot = self._slots.get(pid)
        if slot is not None:
            self._slots.move_to_end(pid)
        return slot

    def place(self, pid: int) -> int:
        """Return a slot for a page that is not there; the page that was not used for the longest time goes."""
        slot = self._free.pop() if self._free else self._slots.popitem(last=False)[1]
        self._slots[pid] = slot
        return slot
