"""Passes over pages: which way each page takes to the kernels, and what crosses the link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.errors import InputError, unknown_name
from dynstore.stores.paged.links import LINE, measure_links
from dynstore.stores.paged.memory import Ring, copy_to_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynstore.snapshot import GapCSR
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.stores.paged.links import Links
    from dynstore.typing import Array

__all__ = ["WAYS", "PageReader", "Piece", "Traffic"]

# A page that is not on the device is read in place, or is copied; "auto" takes what is cheaper.
WAYS = ("zero-copy", "stream", "auto")
# Bytes of a buffer, unless a page is larger, and how many there are.
BUFFER_BYTES, NUM_BUFFERS = 1 << 24, 4


@dataclass
class Traffic:
    """What passes have brought over the link.

    Attributes
    ----------
    passes : int
    copied_pages, copied_bytes : int
        Pages that were copied to the device.
    direct_requests, direct_bytes : int
        Reads of lines in host memory by kernels; bytes in sectors of 32.
    resident_pages : int
        Pages that were read on the device, where they stay.
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
    """Pages for a launch: page p begins at ``words[places[p] - shift]``.

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
        A bit a slot: whether the edge is there.
    """

    words: Array
    places: Array
    shift: int
    pages: Array
    is_direct: bool
    page_bits: int
    valid: Array

    @property
    def arguments(self) -> tuple[Array | int, ...]:
        """What kernels get behind the arrays of leaves."""
        return self.words, self.places, self.shift, self.page_bits, self.valid, self.pages


class PageReader:
    """Brings the pages of some rows to kernels.

    Parameters
    ----------
    packed : PagedRows
    way : {"auto", "zero-copy", "stream"}
        How pages come that are not resident. "auto" chooses for each page and pass: it is read in place if the requests
        take less time than copying the page.
    resident : float
        The share of the pages that is copied to the device now, and stays: the first ones, until
        :meth:`keep_most_used` chooses others.
    links : Links, optional
        The link's limits; measured by default.
    valid : array of uint32 words, optional
        A bit a slot: whether the edge is there. By default all are.
    extra : GapCSR, optional
        Edges that are there, too, on the device.

    Attributes
    ----------
    packed : PagedRows
    traffic : Traffic
    extra : GapCSR or None
    """

    def __init__(
        self,
        packed: PagedRows,
        way: str = "auto",
        resident: float = 0.0,
        links: Links | None = None,
        valid: Array | None = None,
        extra: GapCSR | None = None,
    ) -> None:
        if way not in WAYS:
            raise unknown_name("PageReader", "way", way, WAYS)
        if not 0 <= resident <= 1:
            raise InputError(f"PageReader: resident is {resident}; wanted a share of the pages, 0 to 1")
        self.packed, self.traffic, self._way = packed, Traffic(), way
        self._sizes = packed.page_bytes()
        self._lines = -(-self._sizes // LINE)
        self._use = np.zeros(packed.num_pages, np.int64)  # lines that passes have needed
        self.extra, self._valid = extra, packed.all_valid() if valid is None else valid
        self._links = links
        self._ring: Ring | None = None
        self._num_resident = int(resident * packed.num_pages)
        self._keep(np.arange(self._num_resident))

    @property
    def resident_bytes(self) -> int:
        """Bytes of the pages that stay on the device."""
        return int(self._resident.nbytes)

    def keep_most_used(self) -> None:
        """Keep as many pages on the device as now, but those that the passes so far have needed most often."""
        often = self._use / np.maximum(self._lines, 1)
        self._keep(np.sort(np.argsort(-often, kind="stable")[: self._num_resident]))

    def _keep(self, pages: np.ndarray) -> None:
        """Copy pages to the device, instead of those that were there."""
        packed, places = self.packed, np.zeros(self.packed.num_pages + 1, np.int64)
        ends = np.cumsum(self._sizes[pages] // 4)
        places[pages] = ends - self._sizes[pages] // 4
        self._resident = packed.backend.empty(0, np.uint32)  # the old ones make room first
        self._resident = packed.backend.empty(int(ends[-1]) if pages.size else 0, np.uint32)
        for begin, end in self._group(pages, int(self._sizes.sum())):
            first, last = int(places[pages[begin]]), int(ends[end - 1])
            start = int(packed.places_on_host[pages[begin]])
            words = packed.words_on_host[start : start + last - first]
            copy_to_device(packed.backend, words, self._resident[first:last])
        self._resident_places = packed.backend.asarray(places)
        self._is_resident = np.zeros(packed.num_pages, bool)
        self._is_resident[pages] = True

    def visit(self, launch: Callable[[Piece], None], wanted: np.ndarray | None = None) -> None:
        """Call ``launch`` for pieces of all pages; it puts kernels on the current stream.

        ``wanted``, shape (P,): how many lines the kernels would read of each page in place. Pages with 0 are left out.
        """
        self.traffic.passes += 1
        self._use += self._lines if wanted is None else wanted
        for piece in self._pieces(wanted):
            launch(piece)

    def note_direct(self, requests: int, sectors: int) -> None:
        """Count what a pass over some pages has read in place, which its kernels have counted."""
        self.traffic.direct_requests += requests
        self.traffic.direct_bytes += 32 * sectors

    def _pieces(self, wanted: np.ndarray | None) -> Iterator[Piece]:
        pages = np.arange(self.packed.num_pages) if wanted is None else np.flatnonzero(wanted)
        held, others = pages[self._is_resident[pages]], pages[~self._is_resident[pages]]
        in_place = self._is_cheaper_in_place(others, wanted)
        direct, copied = others[in_place], others[~in_place]
        order = np.concatenate([held, direct, copied])
        on_device = self.packed.backend.asarray(order.astype(np.int32))
        places, about = self.packed.places, (self.packed.page_bits, self._valid)
        if held.size:
            self.traffic.resident_pages += int(held.size)
            yield Piece(self._resident, self._resident_places, 0, on_device[: held.size], False, *about)
        if direct.size:
            if wanted is None:  # else the kernels count what they read
                self.note_direct(int(self._lines[direct].sum()), int(-(-self._sizes[direct] // 32).sum()))
            chosen = on_device[held.size : held.size + direct.size]
            yield Piece(self.packed.words, places, 0, chosen, True, *about)
        if copied.size:
            yield from self._copied(copied, on_device[held.size + direct.size :])

    def _is_cheaper_in_place(self, pages: np.ndarray, wanted: np.ndarray | None) -> np.ndarray:
        if self._way != "auto" or wanted is None:
            return np.full(pages.shape, self._way == "zero-copy")
        if self._links is None:
            self._links = measure_links(self.packed.backend)
        direct_seconds = wanted[pages] / self._links.requests_a_second
        found: np.ndarray = direct_seconds < self._sizes[pages] / self._links.bytes_a_second
        return found

    def _copied(self, pages: np.ndarray, on_device: Array) -> Iterator[Piece]:
        """Yield pages through the buffers; neighbours share a copy."""
        if self._ring is None:
            buffer_bytes = max(min(BUFFER_BYTES, int(self._sizes.sum())), int(self._sizes.max()))
            self._ring = Ring(self.packed.backend, buffer_bytes // 4, NUM_BUFFERS)
        groups = self._group(pages, 4 * self._ring.num_words)
        places = self.packed.places_on_host
        spans = [(int(places[pages[begin]]), int(places[pages[end - 1] + 1])) for begin, end in groups]
        self.traffic.copied_pages += int(pages.size)
        self.traffic.copied_bytes += 4 * sum(end - first for first, end in spans)
        buffers = self._ring.bring(self.packed.words_on_host, spans)
        for (begin, end), (shift, _), buffer in zip(groups, spans, buffers, strict=True):
            chosen = on_device[begin:end]
            yield Piece(buffer, self.packed.places, shift, chosen, False, self.packed.page_bits, self._valid)

    def _group(self, pages: np.ndarray, limit: int) -> list[tuple[int, int]]:
        """Return runs of neighbouring pages of at most ``limit`` bytes, as ranges of ``pages``."""
        groups: list[list[int]] = []
        size = 0
        for i, page in enumerate(pages.tolist()):
            size += int(self._sizes[page])
            if groups and page == pages[i - 1] + 1 and size <= limit:
                groups[-1][1] = i + 1
            else:
                groups.append([i, i + 1])
                size = int(self._sizes[page])
        return [(begin, end) for begin, end in groups]
