"""Pages that stay on the device after a pass has copied them there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.errors import OutOfMemoryError
from dynstore.locks import Lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["AddedPages", "Resident", "ResidentPages"]


class Resident(NamedTuple):
    """Which pages are on the device, and where they are. It is never changed, so a pass can read it at any time.

    Attributes
    ----------
    is_there : numpy array, shape (P,), bool
    columns : tuple of pairs of arrays
        The words of the pages, and where each page begins in them, shape (P + 1,), int64. For pages with weights there
        is a second such pair.
    ready : event or None
        On a GPU: the event after which the pages can be read.
    """

    is_there: np.ndarray
    columns: tuple[tuple[Array, Array], ...]
    ready: Any


class AddedPages(NamedTuple):
    """Pages that were added: their numbers, and where each page begins in each column."""

    pages: np.ndarray
    places: tuple[np.ndarray, ...]


class ResidentPages:
    """Pages that stay on the device: the first ones that passes copy, until there is no more room.

    A page that passes read in place is copied, too, once they have read it for as long as a copy takes. A page that is
    there stays. If new pages replaced the oldest ones, a repeated pass over all pages would find none of them. Pages
    with weights are kept apart from pages without. Several threads may read and add pages at the same time.

    Parameters
    ----------
    limit : callable
        Returns how many bytes the pages may take. It is called when the first page is to be added: once for pages
        without weights, and once for pages with weights.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit, self._lock = limit, Lock()
        self._shelves: dict[bool, _Shelf] = {}
        self._in_place: dict[bool, np.ndarray] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of device memory that are set aside for pages."""
        return sum(int(column.nbytes) for shelf in list(self._shelves.values()) for column in shelf.columns)

    def find(self, weighted: bool) -> Resident | None:
        """Return the pages that are there, or None. Work that is launched now on the current stream can read them."""
        shelf = self._shelves.get(weighted)
        return None if shelf is None else shelf.find()

    def seconds_in_place(self, packed: PagedRows, weighted: bool) -> np.ndarray:
        """Return for how long passes have read each page in place, shape (P,), float64; passes add their time to it.

        Passes of several threads may lose some of it.
        """
        return self._in_place.setdefault(weighted, np.zeros(packed.num_pages))

    def has_room(self, packed: PagedRows, weighted: bool) -> bool:
        """Return whether all pages that were to stay could, so that there may be room for more."""
        with self._lock:
            return self._open(packed, weighted).has_room

    def _open(self, packed: PagedRows, weighted: bool) -> _Shelf:
        """Return the room for pages; it is made when this is first called."""
        if weighted not in self._shelves:
            self._shelves[weighted] = _Shelf(packed, weighted, self._limit())
        return self._shelves[weighted]

    def take(self, packed: PagedRows, pages: np.ndarray, columns: Sequence[Array]) -> list[AddedPages]:
        """Start copying neighbouring pages on the current stream: the first ones, as many as there is room for.

        Parameters
        ----------
        packed : PagedRows
        pages : numpy array
            Numbers of pages, ascending by 1.
        columns : sequence of arrays
            The words of these pages on the device, and their weights if the pass reads weights.

        Returns
        -------
        list of Taken
            For :meth:`show`; empty if there was no room.
        """
        weighted = len(columns) > 1
        with self._lock:
            shelf = self._open(packed, weighted)
            begins, ends = shelf.reserve(pages)
        return shelf.write(pages, columns, begins, ends) if ends[0].size else []

    def show(self, weighted: bool, taken: list[AddedPages]) -> None:
        """Let later passes read the pages that were added on the current stream."""
        with self._lock:
            self._shelves[weighted].show(taken)


class _Shelf:
    """Room for pages: a column of words, and perhaps a column of weights."""

    def __init__(self, packed: PagedRows, weighted: bool, limit: int) -> None:
        backend = self._backend = packed.backend
        bounds, dtypes = [packed.places_on_host], [np.dtype(np.uint32)]
        if weighted and packed.weights is not None:
            bounds.append(packed.weight_places())
            dtypes.append(np.dtype(packed.weights.dtype))
        self._sizes = [np.diff(places) for places in bounds]
        totals = [int(sizes.sum()) for sizes in self._sizes]
        total = sum(count * dtype.itemsize for count, dtype in zip(totals, dtypes, strict=True))
        limit = min(limit, total)
        try:
            self.columns = [
                backend.empty(count * limit // max(total, 1), dtype)
                for count, dtype in zip(totals, dtypes, strict=True)
            ]
        except OutOfMemoryError:  # then no page stays
            self.columns = [backend.nothing(dtype) for dtype in dtypes]
        self._filled = [0] * len(bounds)
        self.has_room: bool = self.columns[0].shape[0] > 0
        self._places = [np.zeros(packed.num_pages + 1, np.int64) for _ in bounds]
        self._is_there = np.zeros(packed.num_pages, bool)
        self._shown: Resident | None = None

    def find(self) -> Resident | None:
        shown = self._shown
        if shown is not None and shown.ready is not None:
            self._backend.xp.cuda.get_current_stream().wait_event(shown.ready)
        return shown

    def reserve(self, pages: np.ndarray) -> tuple[list[int], list[np.ndarray]]:
        """Reserve room for as many pages as possible; return for each column where they begin, and where each ends."""
        begins = self._filled
        ends = [begin + np.cumsum(sizes[pages]) for begin, sizes in zip(begins, self._sizes, strict=True)]
        count = min(
            int(np.searchsorted(end, column.shape[0], side="right"))
            for end, column in zip(ends, self.columns, strict=True)
        )
        ends = [end[:count] for end in ends]
        if count:
            self._filled = [int(end[-1]) for end in ends]
        self.has_room = self.has_room and count == pages.size
        return begins, ends

    def write(
        self, pages: np.ndarray, columns: Sequence[Array], begins: list[int], ends: list[np.ndarray]
    ) -> list[AddedPages]:
        pages = pages[: ends[0].size]
        for kept, column, begin, end in zip(self.columns, columns, begins, ends, strict=True):
            kept[begin : int(end[-1])] = column[: int(end[-1]) - begin]
        places = tuple(end - sizes[pages] for end, sizes in zip(ends, self._sizes, strict=True))
        return [AddedPages(pages, places)]

    def show(self, taken: list[AddedPages]) -> None:
        backend = self._backend
        for pages, places in taken:
            self._is_there[pages] = True
            for each, new in zip(self._places, places, strict=True):
                each[pages] = new
        pairs = tuple(
            (column, backend.asarray(places.copy())) for column, places in zip(self.columns, self._places, strict=True)
        )
        self.find()  # the new event comes after that of earlier pages
        ready = None
        if backend.on_gpu:
            ready = backend.xp.cuda.Event(disable_timing=True)
            ready.record()
        self._shown = Resident(self._is_there.copy(), pairs, ready)
