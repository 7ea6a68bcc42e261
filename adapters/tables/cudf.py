"""cuDF: the edge table over the store's own memory.

A column is the store's array, its null mask the store's validity bits; only the frame around them is new. cuDF writes
to a column in place unless another column shares its buffer (copy-on-write). The store counts as such a sharer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.libraries import require
from dynstore.adapters.tables.columns import gapped_columns, kept_ids
from dynstore.errors import InputError, LimitError, MissingDependencyError
from dynstore.input.forms import GAPS_MARK
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.adapters.tables.columns import GappedColumns
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["to_cudf"]

ENDS = ("source", "destination")
MAX_ROWS = int(np.iinfo(np.int32).max)


def to_cudf(G: DynamicGraph, compact: bool = False) -> Any:
    """Return the edges as a cuDF frame ``source, destination[, weight]`` and the extra columns, which are copies.

    Parameters
    ----------
    G : DynamicGraph
        On CUDA.
    compact : bool
        False shows the store's own memory, nothing is copied whatever the size, one row a slot: gaps are null rows, the
        null mask is the store's, and an undirected edge has a row for each direction. True copies the edges without
        gaps, an undirected edge once, source <= destination.

    Returns
    -------
    cudf.DataFrame
        With ``renumber=True``, the vertices of the frame with gaps are categories. Their codes are the store's numbers,
        without a copy if cuDF's codes are as wide (int32 numbers, more than 65,535 vertices; else the codes are
        converted). Only the ids, shape (V,), are copied, on the GPU.
        Without gaps the vertices are plain ids.
        With gaps, it is marked (in ``attrs``, which cuDF passes on) so that ``insert_edges`` skips the gaps, and keeps
        a pin. While it or anything that shares its columns lives, the graph's next update writes to other memory, which
        costs one copy of the graph. Writes to the frame go to copies that cuDF makes. Do not write through a raw
        pointer (a CuPy view of a column, a kernel): that changes the store.

    Raises
    ------
    MissingDependencyError
        Without cuDF.
    InputError
        For a graph on the host.
    LimitError
        For more rows than a cuDF column can have, 2**31 - 1.
    """
    cudf = require("to_cudf", "cudf")
    if not G.core.backend.on_gpu:
        raise InputError(
            f"to_cudf: the graph is on {G.device!r}; wanted 'cuda'. "
            "cudf.DataFrame.from_arrow(G.to_arrow(compact=True)) copies its edges to the GPU"
        )
    compact = compact or G.is_multigraph()  # edges of a multigraph are no slots
    rows = G.number_of_edges() if compact else G.snapshot().num_slots
    if rows > MAX_ROWS:
        hint = "" if compact else "; to_cudf(compact=True) leaves the gaps out"
        raise LimitError(f"to_cudf: {rows} rows; a cuDF column has at most {MAX_ROWS}{hint}")
    if compact or not rows:
        frame: Any = make_frame(G.core.backend, G.core.all_columns("cudf"), "cudf")
        if not compact:
            frame.attrs[GAPS_MARK] = True
        return frame
    G.core.backend.synchronize()  # cuDF works on the default stream; the last update may have used another
    frame = _over_memory(cudf, gapped_columns(G), _category(cudf, G) if G.is_renumbered() else None)
    frame.attrs[GAPS_MARK] = True
    return frame


class _Lent:
    """An exported array in the form for cuDF; cuDF's buffers keep it, and its pin, alive."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def _category(cudf: Any, G: DynamicGraph) -> Any:
    """Return the type of columns whose codes are row numbers; the frame owns its ids."""

    def make() -> Any:
        ids = G.core.ids.column(G.number_of_vertices(), "cudf")
        return cudf.Series(ids.tolist() if isinstance(ids, np.ndarray) else ids)

    return cudf.CategoricalDtype(categories=kept_ids(G, "cudf", make).copy(deep=True))


def _over_memory(cudf: Any, table: GappedColumns, category: Any) -> Any:
    """Make a frame without a copy; S is at least 1. ``category`` is the type of the vertices, None for numbers."""
    pylibcudf = require("to_cudf", "pylibcudf")
    columns = {}
    for name, array in table.columns.items():
        if category is not None and name in ENDS:
            codes = np.min_scalar_type(len(category.categories))
            array = array.view(codes) if array.dtype.itemsize == codes.itemsize else array.astype(codes)
        column = pylibcudf.Column.from_cuda_array_interface(_Lent(array))
        if table.num_gaps:
            column = column.with_mask(pylibcudf.gpumemoryview(_Lent(table.valid)), table.num_gaps)
        columns[name] = column
    frame = cudf.DataFrame.from_pylibcudf(pylibcudf.Table(list(columns.values())), {"columns": list(columns)})
    if category is not None:
        frame = _with_categories(cudf, frame, columns, category)
    if not _guard(frame):
        return frame.copy(deep=True)
    return frame


def _with_categories(cudf: Any, frame: Any, columns: dict[str, Any], category: Any) -> Any:
    """Return a frame of row numbers, made of ``columns``, as one of categories.

    Only names that cuDF keeps to itself (those of 26.10) do that without a copy. Another cuDF copies.
    """
    try:
        create = require("to_cudf", "cudf.core.column").ColumnBase.create
        named = {name: create(columns[name], category) for name in ENDS}
        kept = {name: column for name, column in zip(columns, frame._columns, strict=True) if name not in ENDS}
        return cudf.DataFrame._from_data(named | kept)
    except (AttributeError, MissingDependencyError, TypeError):
        ids = cudf.Series(category.categories)

    def convert(numbers: Any) -> Any:
        there = numbers.notna()
        found = ids.take(numbers.fillna(0).astype("int64")).reset_index(drop=True)
        return found.where(there).astype(category)

    made = {name: convert(frame[name]) if name in ENDS else frame[name] for name in columns}
    return cudf.DataFrame(made)


def _guard(frame: Any) -> bool:
    """Make cuDF copy a column before it writes to it; return False if this cuDF's buffers are not as expected.

    cuDF (26.10) keeps weak references to the users of a buffer's memory, and writes in place only for a sole user. The
    lent array is added as one more user. It lives as long as the memory is in use, and refers to no buffer, so there is
    no cycle.
    """
    try:
        for column in frame._columns:
            for buffer in (column.data, column.mask):
                if buffer is not None:
                    buffer.owner._slices.add(buffer.owner.owner.obj)
    except (AttributeError, TypeError):  # memory that cuDF has allocated itself takes no weak reference
        return False
    return True
