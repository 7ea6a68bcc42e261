"""The rows of one slide: those that enter, those that leave, and room for what the kernels find out about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from dynstore.errors import InputError
from dynstore.input.columns import EdgeColumns

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array, UpdateReport

__all__ = [
    "CONTROL_WORDS",
    "Counts",
    "Ends",
    "Lists",
    "Moves",
    "SlideReport",
    "chosen_edges",
    "listed_edges",
    "refuse_infinite",
]

Lists: TypeAlias = Literal["none", "new", "all"]
# Entries of `control`, where kernels on CUDA count. The loops on the host return their counts, and leave it alone.
CONTROL_WORDS = 20


class Ends(NamedTuple):
    """The edges of some rows: numbers of vertices, shape (B,), vertex dtype."""

    src: Array
    dst: Array


class Counts(NamedTuple):
    """What the kernels count.

    Attributes
    ----------
    first : int
        Entering rows that are the only ones of their pair; of several at once, one counts.
    gone : int
        Pairs whose last row leaves.
    listed : int
        Pairs of entering rows that are listed.
    staying : int
        Pairs behind these: no row of them enters, and some leave, but not all.
    late : int
        Entering rows that are older than a row of their pair in the window. Only counted with times.
    bad : int
        Entering rows whose weight is NaN, or infinite where weights are summed.
    negative : int
        Entering rows whose weight is below 0. Only counted where weights are summed.
    large : int
        Listed pairs whose sum is more than the graph's weights hold.
    bounds : tuple of int
        The lowest and the highest source and destination of the entering rows, and 0. On the host ids are validated
        before, and the bounds are zeros.
    """

    first: int
    gone: int
    listed: int
    staying: int
    late: int
    bad: int
    negative: int
    large: int
    bounds: tuple[int, ...] = (0, 0, 0, 0)


class SlideReport(NamedTuple):
    """What one slide did.

    Attributes
    ----------
    entered : int
        Rows that came into the window.
    left : int
        Rows that left it, among them rows of the batch that the window is too short for.
    late : int
        Rows of the batch that were too old to enter; only with ``by="time"``.
    rows : int
        Rows in the window now.
    update : UpdateReport
        What the slide did to the graph.
    """

    entered: int
    left: int
    late: int
    rows: int
    update: UpdateReport


class Moves:
    """Rows that enter and leave, as arrays on the device.

    Parameters
    ----------
    backend : Backend
    ends : Ends
        The entering rows, N of them. On CUDA they need not be validated: rows that are no vertices are skipped.
    slots : array, shape (N,), int32
        Gets the slot of each entering row's pair, -1 for skipped ones.
    leaving : array, shape (M,), int32
        The slots of the leaving rows; -1 for those that count no more.
    undirected : bool
        Whether a pair and its mirror image are one.
    weights : array, shape (N,), or None
        The weights of the entering rows, to be checked.
    sums : pair of arrays, shapes (N,) and (M,), float64, or None
        If weights are summed: room for those of the entering rows, and those of the leaving ones.
    times : array, shape (N,), or None
        The times of the entering rows, where the table keeps the latest.
    lists : {"none", "new", "all"}
        Which pairs to list, each once: those without rows before; or all of rows that enter, and of rows that leave if
        others stay, with their counts or sums. The table must have marks for the latter.
    weight_dtype : numpy.dtype
        Of the listed counts or sums.

    Attributes
    ----------
    gone : array, shape (2, M), vertex dtype
        Gets the ends of pairs whose last row leaves, in any order.
    listed : array, shape (2, L), vertex dtype
        Gets the ends of listed pairs, those of entering rows first.
    listed_slots : array, shape (N,), int32
        Gets the slots of the listed pairs of entering rows, if there are weights to list.
    listed_weights : array, shape (L,)
    late : array, shape (N,), bool
        Gets whether an entering row is older than a row of its pair in the window.
    saved : array, shape (N, 1) or (N + M, 2)
        Gets the latest times or the sums of the rows' slots, to restore them.
    control : array, int64
        Zeros, for kernels that count.
    """

    def __init__(
        self, backend: Backend, ends: Ends, slots: Array, leaving: Array, undirected: bool, weights: Array | None,
        sums: tuple[Array, Array] | None, times: Array | None, lists: Lists, weight_dtype: Any,
    ) -> None:  # fmt: skip
        dtype, number, more = ends.src.dtype, int(slots.shape[0]), int(leaving.shape[0])
        self.ends, self.slots, self.leaving, self.undirected = ends, slots, leaving, undirected
        self.summed, self.lists, self.times = sums is not None, lists, times
        self.weights = backend.nothing(np.float32) if weights is None else weights
        self.kept, self.left = (backend.nothing(np.float64),) * 2 if sums is None else sums
        num_weighed = number + more if lists == "all" else 0
        num_saved = number + more if self.summed else 0 if times is None else number
        (
            self.control, self.gone, self.listed, self.listed_slots, self.listed_weights, self.saved, self.late,
        ) = backend.empty_arena(
            (CONTROL_WORDS, np.int64),
            ((2, more), dtype),
            ((2, number if lists == "new" else num_weighed), dtype),
            (number if lists == "all" else 0, np.int32),
            (num_weighed, weight_dtype),
            ((num_saved, 2 if self.summed else 1), np.float64 if times is None else times.dtype),
            (0 if times is None else number, np.bool_),
            zeroed=1,
        )  # fmt: skip


def listed_edges(ends: Array, count: int, weights: Array | None = None) -> EdgeColumns:
    """Return the first of listed edges, shape (2, B)."""
    return EdgeColumns(ends[0, :count], ends[1, :count], weights, -1)


def chosen_edges(edges: EdgeColumns, rows: Array) -> EdgeColumns:
    """Return the edges of some rows."""
    return EdgeColumns(edges.src[rows], edges.dst[rows], None if edges.weights is None else edges.weights[rows], -1)


def refuse_infinite(infinite: Array) -> None:
    """Refuse infinite weights; shape (B,), bool."""
    if bool(infinite.any()):
        row = int(infinite.argmax())
        raise InputError(f"slide: the weight of row {row} is infinite; keep='sum' wants finite weights")
