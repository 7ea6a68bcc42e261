"""Passes over pages: how each page gets to the kernels, and how many bytes cross the link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.algorithms.inputs import has_negative_weights
from dynstore.bits import unpack_bits
from dynstore.errors import InputError, unknown_name
from dynstore.stores.paged.layout import LEAF, LINE
from dynstore.stores.paged.links import find_links
from dynstore.stores.paged.memory import PADDING, BufferRing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynstore.snapshot import GapCSR
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.stores.paged.links import Links
    from dynstore.stores.paged.resident import AddedPages, Resident, ResidentPages
    from dynstore.typing import Array

__all__ = ["WAYS", "LinkTraffic", "PageReader", "Piece"]

# A page that is not on the device is read in place, or is copied; "auto" takes what is cheaper.
WAYS = ("zero-copy", "stream", "auto")
# Bytes of a buffer, unless a page is larger, and how many there are.
BUFFER_BYTES, NUM_BUFFERS = 1 << 24, 4
# Weights that are looked at at a time.
CHECKED_SLOTS = 1 << 24


@dataclass
class LinkTraffic:
    """What passes have read over the link.

    Attributes
    ----------
    passes : int
    copied_pages, copied_bytes : int
        Pages that were copied to the device.
    direct_requests, direct_bytes : int
        How many lines kernels have read in host memory, and their bytes, counted in sectors of 32 bytes.
    resident_pages : int
        Pages that were on the device already.
    """

    passes: int = 0
    copied_pages: int = 0
    copied_bytes: int = 0
    direct_requests: int = 0
    direct_bytes: int = 0
    resident_pages: int = 0

    @property
    def link_bytes(self) -> int:
        """All bytes over the link."""
        return self.copied_bytes + self.direct_bytes


class Piece(NamedTuple):
    """Pages that one launch reads: page p begins at ``words[places[p] - shift]``.

    Attributes
    ----------
    words : array, uint32
    places : array, int64
    shift : int
    pages : array, int32
        Numbers of pages, ascending.
    is_direct : bool
        Whether the kernel reads host memory.
    page_bits : int
    valid : array of uint32 words
        A bit for each slot: whether the edge is in the graph.
    weights : array, optional
        In a pass that reads weights: those of page p begin at ``weights[weight_places[p] - weight_shift]``.
    weight_places : array, int64, optional
    weight_shift : int
    """

    words: Array
    places: Array
    shift: int
    pages: Array
    is_direct: bool
    page_bits: int
    valid: Array
    weights: Array | None = None
    weight_places: Array | None = None
    weight_shift: int = 0

    @property
    def arguments(self) -> tuple[Array | int, ...]:
        """The arguments of kernels after the arrays of leaves."""
        return self.words, self.places, self.shift, self.page_bits, self.valid, self.pages

    @property
    def weighted_arguments(self) -> tuple[Array | int | None, ...]:
        """The same for kernels that read weights."""
        return *self.arguments, self.weights, self.weight_places, self.weight_shift


class _Demand:
    """How much a pass reads of each page.

    Attributes
    ----------
    sizes, lines : numpy array, shape (P,), int64
        Bytes and lines of each page.
    weighted : bool
    """

    def __init__(self, packed: PagedRows, weighted: bool) -> None:
        self.weighted, words, weights = weighted, packed.page_bytes(), packed.weight_bytes()
        self.sizes = words + weights if weighted else words
        self.lines = -(-words // LINE) + (weights // LINE if weighted else 0)


class PageReader:
    """Brings the pages of some rows to kernels.

    Parameters
    ----------
    packed : PagedRows
    way : {"auto", "zero-copy", "stream"}
        How the pages are read that are not resident. "zero-copy": kernels read them in host memory. "stream": they are
        copied to buffers. "auto": for each page and pass, the way that takes less time.
    resident : ResidentPages, optional
        Pages that stay on the device between passes. Readers of the same rows can share them. By default no page stays.
    links : Links, optional
        The rates of the link. By default they are measured when they are first needed.
    valid : array of uint32 words, optional
        A bit for each slot: whether the edge is in the graph. By default all edges are.
    extra : GapCSR, optional
        Edges that are not in pages, on the device; with weights if the pages have weights.

    Attributes
    ----------
    packed : PagedRows
    traffic : Traffic
    extra : GapCSR or None
    valid : array of uint32 words
    """

    def __init__(
        self,
        packed: PagedRows,
        way: str = "auto",
        resident: ResidentPages | None = None,
        links: Links | None = None,
        valid: Array | None = None,
        extra: GapCSR | None = None,
    ) -> None:
        if way not in WAYS:
            raise unknown_name("PageReader", "way", way, WAYS)
        self.packed, self.traffic, self._way = packed, LinkTraffic(), way
        self._demands = [_Demand(packed, weighted) for weighted in (False, True)]
        self.extra, self.valid = extra, packed.all_valid() if valid is None else valid
        self._links, self._resident = links, resident
        self._weight_places = packed.backend.asarray(packed.weight_places())
        self._ring: BufferRing | None = None

    def visit(
        self,
        launch: Callable[[Piece], None],
        wanted: np.ndarray | None = None,
        weighted: bool = False,
        pages: np.ndarray | None = None,
    ) -> None:
        """Call ``launch`` for one piece of the pages after the other; it launches kernels on the current stream.

        Parameters
        ----------
        launch : callable
        wanted : numpy array, shape (P,), optional
            How many lines kernels would read of each page in host memory. Pages with 0 are left out. By default kernels
            read all of each page.
        weighted : bool
            Whether kernels read weights; then ``wanted`` counts their lines, too.
        pages : numpy array, optional
            Without ``wanted``: which pages are read. By default all.
        """
        if weighted and self.packed.weights is None:
            raise InputError("PageReader: a pass wants weights; wanted pages with weights")
        demand = self._demands[weighted]
        self.traffic.passes += 1
        if wanted is not None:
            pages = np.flatnonzero(wanted)
        elif pages is None:
            pages = np.arange(self.packed.num_pages)
        taken: list[AddedPages] = []
        for piece in self._pieces(pages, wanted, demand, taken):
            launch(piece)
        if self._resident is not None and taken:
            self._resident.show(weighted, taken)

    def has_negative_weights(self) -> bool:
        """Return whether an edge of the graph has a weight below 0."""
        packed = self.packed
        if self.extra is not None and has_negative_weights(self.extra):
            return True
        if not packed.has_negative_weights:
            return False
        for first in range(0, packed.num_edges, CHECKED_SLOTS):
            weights = packed.read_weights(first, min(first + CHECKED_SLOTS, packed.num_edges))
            is_valid = unpack_bits(packed.backend, self.valid[first // LEAF :], int(weights.shape[0]))
            if bool((is_valid & (weights < 0)).any()):
                return True
        return False

    def note_direct(self, requests: int, sectors: int) -> None:
        """Add what kernels have read in host memory, as they have counted it."""
        self.traffic.direct_requests += requests
        self.traffic.direct_bytes += 32 * sectors

    def _pieces(
        self, pages: np.ndarray, wanted: np.ndarray | None, demand: _Demand, taken: list[AddedPages]
    ) -> Iterator[Piece]:
        resident: Resident | None = None if self._resident is None else self._resident.find(demand.weighted)
        is_held = np.zeros(pages.shape, bool) if resident is None else resident.is_there[pages]
        held, others = pages[is_held], pages[~is_held]
        in_place = self._is_cheaper_in_place(others, wanted, demand)
        direct, copied = others[in_place], others[~in_place]
        order = np.concatenate([held, direct, copied])
        on_device = self.packed.backend.asarray(order.astype(np.int32))
        about = self.packed.page_bits, self.valid
        if resident is not None and held.size:
            self.traffic.resident_pages += int(held.size)
            (words, places), *weights = resident.columns
            yield Piece(words, places, 0, on_device[: held.size], False, *about, *(weights[0] if weights else ()))
        if direct.size:
            if wanted is None:  # else the kernels count what they read
                self.note_direct(int(demand.lines[direct].sum()), int(-(-demand.sizes[direct] // 32).sum()))
            chosen = on_device[held.size : held.size + direct.size]
            column = (self.packed.weights, self._weight_places) if demand.weighted else ()
            yield Piece(self.packed.words, self.packed.places, 0, chosen, True, *about, *column)
        if copied.size:
            yield from self._copied(copied, on_device[held.size + direct.size :], demand, taken)

    def _is_cheaper_in_place(self, pages: np.ndarray, wanted: np.ndarray | None, demand: _Demand) -> np.ndarray:
        if self._way != "auto" or wanted is None:
            return np.full(pages.shape, self._way == "zero-copy")
        if self._links is None:
            self._links = find_links(self.packed.backend, self.packed.words, self.packed.words_on_host)
        seconds = wanted[pages] / self._links.requests_a_second
        seconds_of_copy = demand.sizes[pages] / self._links.bytes_a_second
        in_place: np.ndarray = seconds < seconds_of_copy
        if self._resident is not None:  # pages that passes have read in place for long are copied, if they can stay
            spent = self._resident.seconds_in_place(self.packed, demand.weighted)
            is_read_often = in_place & (spent[pages] >= seconds_of_copy)
            if is_read_often.any() and self._resident.has_room(self.packed, demand.weighted):
                in_place &= ~is_read_often
            spent[pages[in_place]] += seconds[in_place]
        return in_place

    def _copied(self, pages: np.ndarray, on_device: Array, demand: _Demand, taken: list[AddedPages]) -> Iterator[Piece]:
        """Copy pages to the buffers, neighbours together, and yield them. Append those that stay to ``taken``."""
        packed, most = self.packed, self._demands[self.packed.weights is not None].sizes
        if self._ring is None:
            self._buffer_bytes = max(min(BUFFER_BYTES, int(most.sum())), int(most.max()))
            self._ring = BufferRing(packed.backend, self._buffer_bytes // 4 + PADDING, NUM_BUFFERS)
        groups = _group(pages, demand.sizes, self._buffer_bytes)
        bounds, slots = packed.places_on_host, packed.weight_places()
        parts: list[tuple[np.ndarray, ...]] = []
        shifts = []
        for begin, end in groups:
            first, last = int(pages[begin]), int(pages[end - 1]) + 1
            part = packed.words_on_host[bounds[first] : bounds[last]]
            shifts.append((int(bounds[first]), int(slots[first])))
            parts.append((part, packed.weights_on_host[slots[first] : slots[last]]) if demand.weighted else (part,))
        self.traffic.copied_pages += int(pages.size)
        self.traffic.copied_bytes += int(demand.sizes[pages].sum())
        for (begin, end), (shift, slot), (words, *weights) in zip(groups, shifts, self._ring.bring(parts), strict=True):
            about = on_device[begin:end], False, packed.page_bits, self.valid
            more = (weights[0], self._weight_places, slot) if weights else ()
            yield Piece(words, packed.places, shift, *about, *more)
            if self._resident is not None:
                taken += self._resident.take(packed, pages[begin:end], (words, *weights))


def _group(pages: np.ndarray, sizes: np.ndarray, limit: int) -> list[tuple[int, int]]:
    """Return runs of neighbouring pages of at most ``limit`` bytes, as ranges of ``pages``."""
    groups: list[list[int]] = []
    size = 0
    for i, page in enumerate(pages.tolist()):
        size += int(sizes[page])
        if groups and page == pages[i - 1] + 1 and size <= limit:
            groups[-1][1] = i + 1
        else:
            groups.append([i, i + 1])
            size = int(sizes[page])
    return [(begin, end) for begin, end in groups]
