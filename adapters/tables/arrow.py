"""Arrow: a pyarrow table over the store's own memory, and frames made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.adapters.libraries import require
from dynstore.adapters.tables.columns import describe_origin, gapped_columns, kept_ids, to_host
from dynstore.input.forms import GAPS_MARK
from dynstore.input.origin import MARK

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph

__all__ = ["to_arrow", "to_polars"]


def to_arrow(G: DynamicGraph, compact: bool = False) -> Any:
    """Return the edges as a pyarrow table ``source, destination[, weight]`` and the extra columns, which are copies.

    Parameters
    ----------
    G : DynamicGraph
    compact : bool
        False shows the store's own memory, one row a slot: gaps are null rows, the validity bits are the store's, and
        an undirected edge has a row for each direction. Nothing is copied on the host; from CUDA all slots are copied.
        True copies the edges without gaps, an undirected edge once, source <= destination.

    Returns
    -------
    pyarrow.Table
        With ``renumber=True``, the vertices of the table with gaps are dictionaries. Their indices are the store's
        numbers, still without a copy. Only the ids, shape (V,), are copied, once for all calls until there are new ids.
        Without gaps the vertices are plain ids.
        With gaps, it has one chunk a column, is marked so that ``insert_edges`` skips the gaps, and keeps a pin. While
        it or anything made from it without a copy lives, the graph's next update writes to other memory, which costs
        one copy of the graph. The table never changes. Its metadata say how the graph was made, so that ``from_edges``
        of the table makes an equal graph (:mod:`dynstore.input.origin`).

    Raises
    ------
    MissingDependencyError
        Without pyarrow.
    """
    pyarrow = require("to_arrow", "pyarrow")
    if compact or G.is_multigraph():  # edges of a multigraph are no slots
        packed = {name: pyarrow.array(to_host(G, array)) for name, array in G.edge_columns().items()}
        return pyarrow.table(packed, metadata={MARK: describe_origin(G)})
    columns, valid, num_gaps = gapped_columns(G)
    bits = pyarrow.py_buffer(to_host(G, valid)) if num_gaps else None
    arrays = {}
    for name, column in columns.items():
        array = to_host(G, column)
        kind = pyarrow.from_numpy_dtype(array.dtype)
        arrays[name] = pyarrow.Array.from_buffers(kind, array.shape[0], [bits, pyarrow.py_buffer(array)], num_gaps)
    if G.is_renumbered():
        names = kept_ids(G, "pyarrow", lambda: pyarrow.array(to_host(G, G.vertex_ids())))
        for name in ("source", "destination"):
            arrays[name] = pyarrow.DictionaryArray.from_arrays(arrays[name], names, safe=False)
    return pyarrow.table(arrays, metadata={GAPS_MARK: "1", MARK: describe_origin(G)})


def to_polars(G: DynamicGraph) -> Any:
    """Return a new polars frame ``source, destination[, weight]``: no gaps, an undirected edge once.

    Raises
    ------
    MissingDependencyError
        Without polars or pyarrow.
    """
    polars = require("to_polars", "polars")
    return polars.from_arrow(to_arrow(G, compact=True))
