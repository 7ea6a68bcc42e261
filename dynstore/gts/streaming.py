"""The page loop of Algorithm 1: copy pages and their read-only attributes to the device, then launch their kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.gts.groups import Group, list_groups
from dynstore.gts.links import make_link
from dynstore.gts.page_cache import PageCache
from dynstore.terminal import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dynstore.backend import Backend
    from dynstore.gts.topology import PagedTopology
    from dynstore.terminal import Advance
    from dynstore.typing import Array

__all__ = ["ATTRIBUTES", "TECHNIQUES", "RunReport", "Settings", "Streamer"]

EDGE, VERTEX, _HYBRID = TECHNIQUES = ("edge", "vertex", "hybrid")
STREAMED, RESIDENT = ATTRIBUTES = ("streamed", "resident")
WARP = 32


@dataclass(frozen=True, slots=True)
class Settings:
    """How pages are streamed; see :class:`dynstore.gts.GTS`."""

    streams: int
    cache_pages: int
    cache: str
    copy_bytes: int
    host_bytes: int | None
    technique: str
    attributes: str


@dataclass(slots=True)
class RunReport:
    """What a run has copied and launched.

    Attributes
    ----------
    passes : int
        Levels of a search, or iterations.
    pages : int
        Pages that kernels have read.
    hits : int
        How many of these pages were on the device already.
    page_bytes, sent_bytes, fetched_bytes : int
        Bytes of pages that were copied to the device, of attributes that were copied there, and of attributes that
        were copied back.
    launches : int
        How many kernels were launched on pages.
    by_pass : list of (int, int)
        For each pass: bytes that were copied to the device, and kernels that were launched.
    seconds : float
        The time of the whole run, by the host's clock.
    """

    passes: int = 0
    pages: int = 0
    hits: int = 0
    page_bytes: int = 0
    sent_bytes: int = 0
    fetched_bytes: int = 0
    launches: int = 0
    by_pass: list[tuple[int, int]] = field(default_factory=list, repr=False)
    seconds: float = 0.0
    _begun: float = field(default_factory=perf_counter, repr=False)

    def stop(self) -> None:
        """End the measured time here."""
        self.seconds = perf_counter() - self._begun


class Streamer:
    """Streams the pages of one topology through one device.

    Pages are in three places. With ``cache="fixed"`` the first pages are on the device. The next ones are in host
    memory, pinned if the system allows it. The rest is on disk.

    Attributes
    ----------
    report : RunReport
        Of the present run.
    advance : Advance
        Gets how many pages of a pass have been sent to the device.
    """

    def __init__(self, topology: PagedTopology, backend: Backend, settings: Settings) -> None:
        self.topology, self.backend, self.settings = topology, backend, settings
        form, num_pages = topology.format, topology.num_pages
        is_lru = settings.cache == "lru" and settings.cache_pages > 0
        self.most_pages = 1 if is_lru else max(1, min(settings.copy_bytes // form.page_bytes, num_pages))
        self.link = make_link(backend, settings.streams, self.most_pages * form.page_bytes)
        self._units = topology.units
        self._page_units = int(self._units.shape[1])
        cached = min(settings.cache_pages, num_pages)
        self._num_resident = 0 if is_lru else cached
        self._starts: list[int] = topology.starts.tolist()
        self._rvt = [backend.asarray(part) for part in (topology.starts, topology.ranges, form.layout)]
        self._buffers = [backend.empty(self.most_pages * self._page_units, form.unit) for _ in range(settings.streams)]
        self._load_pages(settings)
        # A cache in the paper's way: a place a page, and marks of the last kernels that read it.
        self._places = backend.empty((cached if is_lru else 0, self._page_units), form.unit)
        self._empty_cache()
        self._turn = 0
        self._all = np.arange(num_pages, dtype=np.int64)
        self._all_groups = list(self._list_groups(self._all))
        ends = topology.starts[np.minimum(self._all + self.most_pages, num_pages)]
        self._most_vertices = int((ends - topology.starts[:-1]).max(initial=0)) + 1  # of a group
        self.report = RunReport()
        self.advance: Advance = ignore_progress
        self._degrees: Array | None = None

    def _load_pages(self, settings: Settings) -> None:
        """Load the resident pages, and pin what of the others fits the host's buffer."""
        form, num_pages = self.topology.format, self.topology.num_pages
        first = self._num_resident
        self._resident = self.backend.empty((first, self._page_units), form.unit)
        for at in range(0, first, self.most_pages):
            count = min(self.most_pages, first - at)
            self.link.send(0, self._resident[at : at + count].reshape(-1), self._units[at : at + count], False)
        self.link.synchronize()
        if isinstance(self.topology.pages, np.memmap):
            room = num_pages if settings.host_bytes is None else settings.host_bytes // form.page_bytes
            self._num_held = min(first + room, num_pages)
            self._held = to_pin = np.array(self._units[first : self._num_held])
        else:
            self._num_held = num_pages
            self._held, to_pin = self._units[first:], self.topology.pages
        self._is_pinned = self._held.size > 0 and self.link.pin(to_pin)

    def _empty_cache(self) -> None:
        places = int(self._places.shape[0])
        self._cache = PageCache(places) if places else None
        self._readers: dict[int, Any] = {}

    def degrees(self) -> Array:
        """Return the whole degree of each vertex, on the device, where it stays if attributes are resident."""
        if self._degrees is not None:
            return self._degrees
        degrees = self.backend.asarray(self.topology.degrees)
        if self.settings.attributes == RESIDENT:
            self._degrees = degrees
        return degrees

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory in use between runs: buffers, kept pages, the RVT, and degrees if they stay."""
        degrees = () if self._degrees is None else (self._degrees,)
        return sum(int(array.nbytes) for array in (*self._buffers, self._resident, self._places, *self._rvt, *degrees))

    @property
    def all_pages(self) -> np.ndarray:
        """The paper's ALL_PAGES."""
        return self._all

    def _list_groups(self, pids: np.ndarray) -> Iterable[Group]:
        return list_groups(pids, self.topology.ranges, self.most_pages, (self._num_resident, self._num_held))

    def _last_vertex(self, group: Group) -> int:
        """Return the last vertex of a group + 1."""
        end = group.first + group.size
        return self._starts[end - 1] + 1 if group.is_large else self._starts[end]

    def make_read(self, dtype: Any) -> Array:
        """Return an array for a read-only attribute, shape (V,): pinned on the host, or on the device."""
        shape = self.topology.num_vertices
        if self.settings.attributes == RESIDENT:
            return self.backend.empty(shape, dtype)
        return self.link.empty_pinned(shape, dtype)

    def fill_read(self, read: Array, values: Array) -> None:
        """Write an array of the device to one that :meth:`make_read` has made."""
        if self.settings.attributes == RESIDENT:
            read[...] = values
        else:
            self.link.fetch(read, values)
            self.report.fetched_bytes += read.nbytes

    def stream(
        self,
        pids: np.ndarray,
        kernels: tuple[Any, Any],
        arguments: Sequence[Any],
        read: Sequence[Array] = (),
    ) -> None:
        """Copy pages to the device and launch their kernels; return when all kernels have ended.

        Parameters
        ----------
        pids : numpy.ndarray, int64
            Page ids, ascending.
        kernels : tuple
            For small and for large pages. They get the pages, then the parts of ``read``, then ``arguments``.
        arguments : sequence of arrays of the device and numbers
        read : sequence of array, shape (V,)
            Read-only attributes (RA) from :meth:`make_read`. A kernel gets those of the vertices on its pages.
        """
        link, report = self.link, self.report
        before = report.page_bytes + report.sent_bytes, report.launches
        sent_pages, name = report.pages, f"pass {report.passes + 1}"
        self.advance(name, 0, len(pids))
        self.backend.synchronize()  # what was written on the current stream, such as `arguments`
        is_sent = self.settings.attributes == STREAMED
        sizes = [(self._most_vertices if is_sent else 0, one.dtype) for one in read]
        buffers = [[self.backend.empty(*size) for size in sizes] for _ in range(self.settings.streams)]
        try:
            for group in self._all_groups if pids is self._all else self._list_groups(pids):
                turn = self._turn = (self._turn + 1) % self.settings.streams
                words, place = self._bring(group, turn)
                begin, end = self._starts[group.first], self._last_vertex(group)
                parts = buffers[turn] if is_sent else [one[begin:end] for one in read]
                if is_sent:
                    for part, one in zip(parts, read, strict=True):
                        link.send(turn, part, one[begin:end], True)
                        report.sent_bytes += (end - begin) * one.itemsize
                self._launch(group, turn, words, kernels, (*parts, *arguments))
                if place is not None:
                    self._readers[place] = link.mark(turn)
                self.advance(name, report.pages - sent_pages, len(pids))
        except BaseException:
            self._empty_cache()  # a page may have a place, and not be there
            raise
        finally:
            link.synchronize()  # also before what a pass that failed has written is freed
        report.passes += 1
        sent = report.page_bytes + report.sent_bytes - before[0]
        report.by_pass.append((sent, report.launches - before[1]))

    def _bring(self, group: Group, turn: int) -> tuple[Array, int | None]:
        """Start the copy of a group to the device, unless it is there; return its units, and its place in the cache."""
        first, count, _ = group
        self.report.pages += count
        if first < self._num_resident:
            self.report.hits += count
            return self._resident[first : first + count].reshape(-1), None
        target, place = self._buffers[turn], None
        if self._cache is not None:
            place = self._cache.find(first)
            if place is not None:
                self.report.hits += count
                return self._places[place], place
            place = self._cache.place(first)
            if place in self._readers:
                self.link.wait(turn, self._readers[place])
            target = self._places[place]
        is_held = first < self._num_held
        at = first - self._num_resident
        source = self._held[at : at + count] if is_held else self._units[first : first + count]
        self.link.send(turn, target, source, is_held and self._is_pinned)
        self.report.page_bytes += source.nbytes
        return target, place

    def _launch(
        self, group: Group, turn: int, words: Array, kernels: tuple[Any, Any], arguments: tuple[Any, ...]
    ) -> None:
        first, count, is_large = group
        lanes = self._lanes(group)
        kernel = kernels[is_large]
        values = words, first, count, lanes, *self._rvt, *arguments
        self.report.launches += 1
        if self.backend.family == "cpu":
            kernel(*values)
            return
        if is_large:
            threads = count * self.topology.format.large_capacity
        else:
            threads = (self._starts[first + count] - self._starts[first]) * lanes
        with self.link.on(turn):
            kernel.launch_strided(threads, *values)

    def _lanes(self, group: Group) -> int:
        """Return how many threads work on a vertex; the hybrid takes about as many as it has neighbours."""
        technique = self.settings.technique
        if technique == EDGE or group.is_large:
            return WARP
        if technique == VERTEX:
            return 1
        first, end = group.first, group.first + group.size
        rows = self.topology.edges_before
        mean = int(rows[end] - rows[first]) // max(self._starts[end] - self._starts[first], 1)
        return min(WARP, 1 << max(mean.bit_length() - 1, 0))
