"""Records of a kernel's arrays, as the kernels and device functions of packed memory arrays take them.

A record costs nothing: the compiler takes it apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = [
    "BatchRows",
    "DensityLimits",
    "Edge",
    "EdgeArrays",
    "EdgeEnds",
    "Items",
    "KeyLists",
    "Located",
    "NewKeys",
    "ScratchWindows",
    "SearchedSlots",
    "Slots",
    "WindowArrays",
]


class Slots(NamedTuple):
    """The slots of a graph, and what is written with them.

    Attributes
    ----------
    src, dst, weights : array
        ``weights`` is any array unless the graph ``is_weighted``.
    is_weighted : bool
    valid : array
        Validity bits, a word a leaf.
    offsets : array
        Where the rows begin.
    far_rows : array
        Long ranges of rows whose offsets are written later (``row_offsets.py``).
    """

    src: Array
    dst: Array
    weights: Array
    is_weighted: Any
    valid: Array
    offsets: Array
    far_rows: Array


class SearchedSlots(NamedTuple):
    """What a search for edges reads: the rows' offsets, destinations, validity bits; and the number of rows."""

    offsets: Array
    dst: Array
    valid: Array
    num_vertices: Any


class EdgeArrays(NamedTuple):
    """Edges: sources, destinations and weights, without entries if there are none."""

    src: Array
    dst: Array
    weights: Array


class EdgeEnds(NamedTuple):
    """Edges without weights: sources and destinations."""

    src: Array
    dst: Array


class Edge(NamedTuple):
    """An edge, or a key; ``weight`` is any number unless the graph is weighted."""

    src: Any
    dst: Any
    weight: Any


class BatchRows(NamedTuple):
    """The edges of an unsorted batch; ``mirrored``: in both directions."""

    src: Array
    dst: Array
    mirrored: Any


class NewKeys(NamedTuple):
    """The pending keys of an insertion.

    Attributes
    ----------
    places : array
        The slots that keys go before.
    numbers : array
        If ``by_number``, for each place the key's number in the columns; else that is the place's own number.
    by_number : bool
    src, dst, weights : array
        The columns; ``weights`` is any array for an unweighted graph.
    """

    places: Array
    numbers: Array
    by_number: Any
    src: Array
    dst: Array
    weights: Array


class Located(NamedTuple):
    """Where each key of a batch is, or belongs, and its state there (``slots.SearchResult``)."""

    positions: Array
    states: Array


class KeyLists(NamedTuple):
    """Lists of a batch's keys that change a leaf: indexes, places and leaves; and the leaves of tombstones."""

    keys: Array
    places: Array
    leaves: Array
    tombstone_leaves: Array


class Items(NamedTuple):
    """What changes leaves.

    Attributes
    ----------
    leaves : array
        The leaf of each item, ascending.
    num_items : int
    tombstone_leaves : array
        The leaf of each tombstone that is restored, ascending.
    num_tombstones : int
    change : int
        The change of a leaf's count by each item, 1, -1, or 0 if the deleted edges have lost their bits already.
    """

    leaves: Array
    num_items: Any
    tombstone_leaves: Array
    num_tombstones: Any
    change: Any


class DensityLimits(NamedTuple):
    """Limits of a window's density: linear from ``low`` at a leaf to ``high`` at the root, whose height is ``top``."""

    low: Any
    high: Any
    top: Any


class WindowArrays(NamedTuple):
    """The arrays of ``windows.Windows``; ``counts``: its ``count``."""

    first: Array
    end: Array
    low: Array
    high: Array
    start: Array
    counts: Array


class ScratchWindows(NamedTuple):
    """Windows whose edges and keys go to scratch; arrays as in ``windows.Windows``."""

    first: Array
    end: Array
    low: Array
    start: Array
    num_windows: Any
