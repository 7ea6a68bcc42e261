"""cuGraph's map between ids and the numbers that it uses inside, filled from a graph's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.adapters.libraries import require

if TYPE_CHECKING:
    from dynstore.adapters.cugraph.names import ColumnNames
    from dynstore.adapters.cugraph.shown import ShownIds

__all__ = ["make_number_map"]

CALLER = "cugraph.Graph"
# The columns of simpleGraphImpl's edge lists, by which a NumberMap recognises the end that it translates.
SOURCE, DESTINATION = "src", "dst"


def make_number_map(ids: ShownIds, columns: ColumnNames) -> Any:
    """Return a ``NumberMap`` between ids and numbers; integers, which cuGraph translates in C++, stand for themselves.

    For strings it is the one that ``cugraph.Graph`` would make. cuGraph's own map of integers has no table, so that
    ``unrenumber`` and ``lookup_internal_vertex_id`` raise a KeyError there.
    """
    cudf = require(CALLER, "cudf")
    number_map = require(CALLER, "cugraph.structure.number_map").NumberMap
    numbers, dtype, has_strings = ids.number_map, ids.number_map.dtype, ids.strings is not None
    table = cudf.DataFrame({"0": cudf.Series(ids.strings if has_strings else numbers), "id": cudf.Series(numbers)})
    made = number_map(dtype, table["0"].dtype, has_strings)
    made.input_src_col_names, made.input_dst_col_names = columns.source, columns.destination
    made.implementation = number_map.SingleGPU(table, [columns.source], [columns.destination], dtype, False)
    made.implementation.src_col_names, made.implementation.dst_col_names = SOURCE, DESTINATION
    made.df_internal_to_external = table
    return made
