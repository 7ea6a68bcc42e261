"""Packing rows into pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dynstore.errors import InputError
from dynstore.stores.paged.layout import LEAF, LEAF_BITS, MAX_PAGE_BITS, MIN_PAGE_BITS, START_AT, VERBATIM, PagedRows
from dynstore.stores.paged.memory import HostCopies
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Allocate", "pack_pieces", "pack_rows"]

# Allocates host memory for so many numbers of a dtype, as Backend.pinned does.
Allocate: TypeAlias = "Callable[[int, Any], tuple[Array, np.ndarray]]"

# Leaves that are measured and encoded at a time: 64 MiB of plain ids.
PIECE_LEAVES = 1 << 19
# Rows or leaves at a time where each takes 8 bytes of the device's memory beside what is kept.
SLICE = 1 << 26


def pack_rows(
    backend: Backend,
    offsets: Any,
    indices: Any,
    *,
    encode: bool = True,
    page_bits: int = MAX_PAGE_BITS,
    weights: Any = None,
) -> PagedRows:
    """Pack rows into pages in host memory.

    Parameters
    ----------
    backend : Backend
    offsets : array, shape (V + 1,)
        Where each row begins in ``indices``; the last entry is its length.
    indices : array, shape (E,), int32 or int64
        The destinations, ascending in each row, without repetition. They may be on the host or on the device. From the
        host one piece after the other is copied to the device.
    encode : bool
        If True, pages hold the gaps between neighbours, in as many bits as each leaf needs. If False, they hold ids.
    page_bits : int
        A page has ``2**page_bits`` leaves; 5 to 15.
    weights : array, shape (E,), float32 or float64, optional
        Of the edges, on the host or the device.

    Returns
    -------
    PagedRows

    Raises
    ------
    InputError
        If a row does not ascend, an id is not a vertex, there are too many vertices, or the numbers of weights and
        edges differ.
    OutOfMemoryError
        If host memory cannot be pinned, or the directory does not fit into the device's memory.
    """
    offsets = backend.asarray(offsets, np.int64)
    degrees = offsets[1:] - offsets[:-1]

    columns = (indices,) if weights is None else (indices, weights)
    if weights is not None and weights.shape != indices.shape:
        raise InputError(f"pack_rows: weights have shape {weights.shape}; wanted {indices.shape}, as indices have")

    def make_pieces() -> Iterator[tuple[Array, ...]]:
        yield degrees, *(backend.nothing(column.dtype) for column in columns)
        for begin in range(0, int(indices.shape[0]), PIECE_LEAVES * LEAF):
            yield degrees[:0], *(backend.asarray(column[begin : begin + PIECE_LEAVES * LEAF]) for column in columns)

    dtype = None if weights is None else weights.dtype
    return pack_pieces(
        backend, int(degrees.shape[0]), make_pieces, encode=encode, page_bits=page_bits, weight_dtype=dtype
    )


def pack_pieces(
    backend: Backend,
    num_vertices: int,
    make_pieces: Callable[[], Iterator[tuple[Array, ...]]],
    *,
    encode: bool = True,
    page_bits: int = MAX_PAGE_BITS,
    weight_dtype: Any = None,
    allocate: Allocate | None = None,
) -> PagedRows:
    """Pack rows that come in pieces, so that the device never has to hold all edges.

    Parameters
    ----------
    backend : Backend
    num_vertices : int
    make_pieces : callable
        Yields ``(degrees, indices)`` in the order of rows: the degrees of the next rows, and the next destinations,
        both on the device. With weights it yields ``(degrees, indices, weights)``. A piece may end inside a row. The
        degree of a row comes in the same piece as its first destination, or in an earlier one. The function is called
        twice: to measure the sizes, and to write the words.
    encode, page_bits
        As for :func:`pack_rows`.
    weight_dtype : float32 or float64, optional
        The dtype of the weights. By default there are no weights.
    allocate : callable, optional
        Allocates the memory of pages and weights; :meth:`Backend.pinned` by default.

    Returns
    -------
    PagedRows

    Raises
    ------
    InputError, OutOfMemoryError
        As by :func:`pack_rows`.
    """
    if not MIN_PAGE_BITS <= page_bits <= MAX_PAGE_BITS:
        raise InputError(f"pack_rows: page_bits is {page_bits}; wanted {MIN_PAGE_BITS} to {MAX_PAGE_BITS}")
    if num_vertices > MAX_INT32:
        raise InputError(f"pack_rows: got {num_vertices} vertices; wanted at most {MAX_INT32}")
    if weight_dtype is not None and np.dtype(weight_dtype) not in (np.float32, np.float64):
        raise InputError(f"pack_rows: weights are {np.dtype(weight_dtype)}; wanted float32 or float64")
    xp, kernels = backend.xp, backend.kernels("dynstore.stores.paged")
    allocate = allocate or backend.pinned
    reader = _PieceReader(backend, num_vertices, page_bits, 1 if weight_dtype is None else 2)
    marks, bases, widths, wrong = [], [], [], backend.zeros(1, np.int32)
    last, negative = backend.zeros(1, np.int64), backend.zeros(1, bool)
    for first, (chunk, *weights) in reader.read(make_pieces()):
        num_leaves = -(-chunk.shape[0] // LEAF)
        marks.append(backend.zeros(num_leaves, np.uint32))
        bases.append(backend.zeros(num_leaves, np.uint32))
        widths.append(backend.empty(num_leaves, np.uint8))
        kernels.mark_starts(reader.starts(first, first + int(chunk.shape[0])), marks[-1])
        kernels.measure_leaves(chunk, 0, marks[-1], num_vertices, bases[-1], widths[-1], wrong)
        if first:  # a row that goes on from the chunk before
            wrong |= ((marks[-1][:1] & np.uint32(1)) == 0) & (chunk[:1] <= last)
        last[:] = chunk[-1:]
        for each in weights:
            negative |= (each < 0).any()
    reader.check(bool(wrong[0]))
    all_marks, all_bases, all_widths = (
        xp.concatenate([*parts, backend.nothing(dtype)])
        for parts, dtype in ((marks, np.uint32), (bases, np.uint32), (widths, np.uint8))
    )
    del marks, bases, widths
    if not encode:
        all_widths.fill(LEAF)
    heads, places = _lay_out(backend, all_widths, page_bits)
    if not encode:
        heads |= np.uint32(VERBATIM)
    offsets = reader.offsets
    rows, ranks = _rank_rows(backend, offsets, int(heads.shape[0]))
    places_on_host = backend.to_host(places).copy()
    words, words_on_host = allocate(int(places_on_host[-1]), np.uint32)
    column, column_on_host = None, None
    if weight_dtype is not None:
        column, column_on_host = allocate(int(heads.shape[0]) * LEAF, weight_dtype)
    packed = PagedRows(
        backend, num_vertices, reader.num_edges, page_bits, words, words_on_host, places, places_on_host, heads,
        all_bases, all_marks, ranks, rows, offsets, encode, column,
        column_on_host, bool(negative[0]),
    )  # fmt: skip
    copies = HostCopies(backend)
    for first, (chunk, *weights) in reader.read(make_pieces()):
        _write_words(packed, first >> LEAF_BITS, chunk, kernels, copies)
        for each in weights:
            _write_weights(packed, first, each, copies)
    copies.finish()
    return packed


class _PieceReader:
    """Cuts pieces into chunks of whole pages, and adds up the degrees.

    Attributes
    ----------
    offsets : array, shape (V + 1,), int64
        Those of the rows that have come so far.
    num_edges : int
    """

    def __init__(self, backend: Backend, num_vertices: int, page_bits: int, num_columns: int) -> None:
        self._backend, self._num_columns = backend, num_columns
        self._chunk_slots = max(PIECE_LEAVES, 1 << page_bits) * LEAF
        self.offsets = backend.zeros(num_vertices + 1, np.int64)
        self._num_rows = self.num_edges = 0

    def read(self, pieces: Iterator[tuple[Array, ...]]) -> Iterator[tuple[int, list[Array]]]:
        """Yield chunks of the columns, each with the number of its first slot; only the last may be short."""
        held: list[list[Array]] = []
        size = 0
        self._num_rows = self.num_edges = first = 0
        for degrees, *columns in pieces:
            self._check_columns(columns)
            self._add_degrees(degrees)
            self.num_edges += int(columns[0].shape[0])
            while columns[0].shape[0]:
                part = [column[: self._chunk_slots - size] for column in columns]
                length = int(part[0].shape[0])
                columns = [column[length:] for column in columns]
                held.append(part)
                size += length
                if size == self._chunk_slots:
                    yield first, self._joined(held)
                    first += size
                    held, size = [], 0
        if held:
            yield first, self._joined(held)

    def _check_columns(self, columns: list[Array]) -> None:
        lengths = [int(column.shape[0]) for column in columns]
        if len(lengths) != self._num_columns or len(set(lengths)) != 1:
            wanted = "destinations" if self._num_columns == 1 else "destinations and as many weights"
            raise InputError(
                f"pack_pieces: a piece has columns of {lengths} entries beside its degrees; wanted {wanted}"
            )

    def _joined(self, parts: list[list[Array]]) -> list[Array]:
        join = self._backend.xp.concatenate
        return parts[0] if len(parts) == 1 else [join(column) for column in zip(*parts, strict=True)]

    def _add_degrees(self, degrees: Array) -> None:
        for begin in range(0, int(degrees.shape[0]), SLICE):
            part, row = degrees[begin : begin + SLICE], self._num_rows
            self._num_rows += int(part.shape[0])
            ends = self._backend.xp.cumsum(part, dtype=np.int64)
            ends += self.offsets[row]
            self.offsets[row + 1 : self._num_rows + 1] = ends

    def starts(self, begin: int, end: int) -> Array:
        """Return where rows with edges begin, of the slots from ``begin`` to ``end``, counted from ``begin``."""
        known = self.offsets[: self._num_rows]
        bounds = self._backend.xp.searchsorted(known, self._backend.asarray(np.array([begin, end])))
        low, high = self._backend.to_host(bounds).tolist()
        span = self.offsets[low : high + 1]
        return span[:-1][span[1:] > span[:-1]] - begin

    def check(self, is_wrong: bool) -> None:
        """Refuse rows that do not ascend, ids that are no vertices, and degrees that are not those of the rows."""
        num_vertices = int(self.offsets.shape[0]) - 1
        if is_wrong:
            raise InputError(
                f"pack_rows: the rows do not ascend, or ids are not below {num_vertices}; "
                f"wanted sorted rows of vertices"
            )
        if self._num_rows != num_vertices or int(self.offsets[-1]) != self.num_edges:
            raise InputError(
                f"pack_rows: the rows end at edge {int(self.offsets[self._num_rows])} of vertex {self._num_rows}; "
                f"wanted {self.num_edges} edges of {num_vertices} vertices"
            )


def _rank_rows(backend: Backend, offsets: Array, num_leaves: int) -> tuple[Array, Array]:
    """Return the rows with edges, int32, and for each leaf the place of its first slot's row among them, uint32."""
    xp, num_vertices = backend.xp, int(offsets.shape[0]) - 1
    has_edges = offsets[1:] > offsets[:-1]
    counts, ranks = xp.cumsum(has_edges, dtype=np.int32), backend.empty(num_leaves, np.uint32)
    rows = backend.empty(int(counts[-1]) if num_vertices else 0, np.int32)
    first = 0
    for begin in range(0, num_vertices, SLICE):
        some = xp.flatnonzero(has_edges[begin : begin + SLICE])
        rows[first : first + len(some)] = some + begin
        first += len(some)
    for begin in range(0, num_leaves, SLICE):
        end = min(begin + SLICE, num_leaves)
        row = xp.searchsorted(offsets, xp.arange(begin, end, dtype=np.int64) << LEAF_BITS, side="right") - 1
        ranks[begin:end] = counts[row] - 1
    return rows, ranks


def _lay_out(backend: Backend, widths: Array, page_bits: int) -> tuple[Array, Array]:
    """Return the heads of all leaves, and where each page begins; a leaf has as many words as its width."""
    xp, num_leaves = backend.xp, int(widths.shape[0])
    ends = xp.cumsum(widths, dtype=np.int64)
    num_pages = -(-num_leaves >> page_bits)
    places = backend.zeros(num_pages + 1, np.int64)
    if num_pages:
        places[1:-1] = ends[(1 << page_bits) - 1 :: 1 << page_bits][: num_pages - 1]
        places[-1] = ends[-1]
    before = ends - widths
    before -= places[:-1][xp.arange(num_leaves) >> page_bits]
    return ((before << START_AT) | widths).astype(np.uint32), places


def _write_words(packed: PagedRows, first: int, chunk: Array, kernels: Any, copies: HostCopies) -> None:
    """Encode a chunk of whole pages, from leaf ``first`` on, on the device, and copy its words to their place."""
    backend, places = packed.backend, packed.places_on_host
    page = first >> packed.page_bits
    begin = int(places[page])
    end = int(places[page + (-(-int(chunk.shape[0]) // LEAF) - 1 >> packed.page_bits) + 1])
    words = backend.zeros(end - begin, np.uint32)
    kernels.encode_leaves(chunk, first, packed.leaves, packed.places, begin, packed.page_bits, words)
    copies.begin(words, packed.words_on_host[begin:end])


def _write_weights(packed: PagedRows, first: int, weights: Array, copies: HostCopies) -> None:
    """Copy weights to their place, from slot ``first`` on; those behind the last edge become 0."""
    target = packed.weights_on_host
    end = first + int(weights.shape[0])
    column = packed.backend.xp.ascontiguousarray(weights.astype(target.dtype, copy=False))
    copies.begin(column, target[first:end])
    if end == packed.num_edges:
        target[end:] = 0
