"""The arrays of packed rows in pages; ``docs/internals/paged.md`` draws a leaf and a page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.bits import full_words
from dynstore.errors import InputError
from dynstore.stores.paged.memory import copy_to_device

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
    "FILTER_BITS",
    "FILTER_WORDS",
    "LEAF",
    "LEAF_BITS",
    "LINE",
    "MAX_PAGE_BITS",
    "MIN_PAGE_BITS",
    "START_AT",
    "VERBATIM",
    "WIDTH_MASK",
    "Leaves",
    "PagedRows",
    "PagedWeights",
    "Stored",
]

# Slots of a leaf.
LEAF_BITS = 5
LEAF = 1 << LEAF_BITS
# Bytes of a request, which is a cache line.
LINE = 128
# A leaf's head: its width in bits 0 to 5, whether its slots are plain ids, from bit 7 on its first word in the page.
WIDTH_MASK, VERBATIM, START_AT = 63, 64, 7
# Leaves of a page, as a power of two. A word of a bitmap of leaves belongs to one page; a page of plain ids has at most
# 4 MiB.
MIN_PAGE_BITS, MAX_PAGE_BITS = 5, 15
# In a filter 16 edges have so many words of 64 bits: 12 bits an edge. Of edges that are not there, about one in 100
# passes.
FILTER_WORDS = 3
# Bits of an edge in a filter; their places are six bits each of a hash of 32.
FILTER_BITS = 5


class Leaves(NamedTuple):
    """What kernels know of each leaf; see :class:`PagedRows`."""

    heads: Array
    bases: Array
    marks: Array
    ranks: Array
    rows: Array


class Stored(NamedTuple):
    """Where kernels find pages: page p begins at ``words[places[p] - shift]``."""

    words: Array
    places: Array
    shift: int
    page_bits: int


class PagedWeights(NamedTuple):
    """Where kernels find weights: those of page p begin at ``weights[places[p] - shift]``."""

    weights: Array
    places: Array
    shift: int


@dataclass(frozen=True)
class PagedRows:
    """The rows of a graph, packed into pages, which are never changed.

    A slot holds an edge, a leaf has 32 slots, and a page has ``2**page_bits`` leaves.

    Attributes
    ----------
    backend : Backend
    num_vertices, num_edges : int
        Fewer than 2^31 vertices; any number of edges.
    page_bits : int
    words : array, shape (W,), uint32
        All pages, one after the other, in host memory. On CUDA this is pinned, so that kernels can read it.
    words_on_host : numpy array
        The same memory, as the host reads it; empty if the pages were moved to device memory.
    places : array, shape (P + 1,), int64
        The first word of each page in ``words``. This array and the next ones are on the device.
    heads : array, shape (L,), uint32
        For each leaf: its width, whether its slots are plain ids, and its first word in its page.
    bases : array, shape (L,), uint32
        The smallest destination of each leaf.
    marks : array, shape (L,), uint32
        A bit for each slot: whether a row begins there.
    ranks : array, shape (L,), uint32
        For each leaf: the index in ``rows`` of the row of its first slot.
    rows : array, int32
        The vertices with edges, ascending.
    offsets : array, shape (V + 1,), int64
        The first slot of each row.
    weights : array, shape (32 L,), float32 or float64, or None
        A weight for each slot, 0 after the last edge, in host memory like ``words``. The weights of page p begin at
        slot ``32 * p << page_bits``.
    weights_on_host : numpy array or None
        The same memory, as the host reads it.
    has_negative_weights : bool
    """

    backend: Backend
    num_vertices: int
    num_edges: int
    page_bits: int
    words: Array
    words_on_host: np.ndarray
    places: Array
    places_on_host: np.ndarray
    heads: Array
    bases: Array
    marks: Array
    ranks: Array
    rows: Array
    offsets: Array
    is_encoded: bool
    weights: Array | None = None
    weights_on_host: Any = None
    has_negative_weights: bool = False

    @property
    def num_leaves(self) -> int:
        return int(self.heads.shape[0])

    @property
    def num_pages(self) -> int:
        return int(self.places_on_host.shape[0]) - 1

    def all_valid(self) -> Array:
        """Return uint32 words with a set bit for each edge; the bits after the last edge are 0."""
        return full_words(self.backend, self.num_edges)

    @property
    def leaves(self) -> Leaves:
        """The arrays of leaves as kernels take them."""
        return Leaves(self.heads, self.bases, self.marks, self.ranks, self.rows)

    def with_vertices(self, num_vertices: int) -> PagedRows:
        """Return the same rows, with empty rows after them."""
        old = self.num_vertices
        if num_vertices <= old:
            return self
        offsets = self.backend.empty(num_vertices + 1, np.int64)
        offsets[: old + 1] = self.offsets
        offsets[old + 1 :] = self.num_edges
        return replace(self, num_vertices=num_vertices, offsets=offsets)

    def page_bytes(self) -> np.ndarray:
        """Return the bytes of each page without weights, shape (P,), int64."""
        sizes: np.ndarray = 4 * np.diff(self.places_on_host)
        return sizes

    def weight_bytes(self) -> np.ndarray:
        """Return the bytes of each page's weights, shape (P,), int64."""
        sizes: np.ndarray = np.diff(self.weight_places()) * (0 if self.weights is None else self.weights.dtype.itemsize)
        return sizes

    @property
    def lines_of_weights(self) -> int:
        """How many lines the weights of a leaf are."""
        return 0 if self.weights is None else LEAF * self.weights.dtype.itemsize // LINE

    def weight_places(self) -> np.ndarray:
        """Return the slot where each page's weights begin, and where the last page's end, shape (P + 1,), int64."""
        places: np.ndarray = np.minimum(np.arange(self.num_pages + 1) << self.page_bits, self.num_leaves) * LEAF
        return places

    def stored_pages(self, low: int, high: int) -> tuple[np.ndarray, ...]:
        """Return what the host holds of pages ``low`` to below ``high``: their words, and their weights if any."""
        places = self.places_on_host
        words = self.words_on_host[places[low] : places[high]]
        if self.weights_on_host is None:
            return (words,)
        slots = self.weight_places()
        return words, self.weights_on_host[slots[low] : slots[high]]

    def read_weights(self, first: int = 0, end: int | None = None) -> Array:
        """Return a copy on the device of the weights of some slots, by default of all edges."""
        if self.weights_on_host is None:
            raise InputError("paged rows: read_weights: they have no weights")
        chosen = self.weights_on_host[first : self.num_edges if end is None else end]
        copy = self.backend.empty(chosen.shape[0], chosen.dtype)
        copy_to_device(self.backend, chosen, copy)
        return copy

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part: ``pages`` and ``weights`` lie in host memory, all others on the device."""
        on_device = ("places", "heads", "bases", "marks", "ranks", "rows", "offsets")
        return {
            "pages": int(self.words.nbytes),
            "weights": 0 if self.weights is None else int(self.weights.nbytes),
            **{name: int(getattr(self, name).nbytes) for name in on_device},
        }

    def bytes_an_edge(self) -> dict[str, float]:
        """Return how many bytes an edge takes, without weights.

        ``pages``: in pages, which cross the link. ``leaves``: the same with the heads and bases of leaves.
        """
        count = max(self.num_edges, 1)
        usage = self.memory_usage()
        return {
            "pages": usage["pages"] / count,
            "leaves": (usage["pages"] + usage["heads"] + usage["bases"]) / count,
        }
