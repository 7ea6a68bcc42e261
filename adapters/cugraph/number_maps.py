"""cuGraph's map between strings and numbers, filled from a graph's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.adapters.libraries import require

if TYPE_CHECKING:
    from dynstore.adapters.cugraph.names import Columns
    from dynstore.adapters.cugraph.shown import ShownIds

__all__ = ["make_number_map"]

CALLER = "cugraph.Graph"
# The columns of simpleGraphImpl's edge lists, by which a NumberMap recognises the end that it translates.
SOURCE, DESTINATION = "src", "dst"


def make_number_map(ids: ShownIds, columns: Columns) -> Any:
    """Return the ``NumberMap`` that ``cugraph.Graph`` would make from a column of strings."""
    cudf = require(CALLER, "cudf")
    number_map = require(CALLER, "cugraph.structure.number_map").NumberMap
    table = cudf.DataFrame({"0": cudf.Series(ids.strings), "id": cudf.Series(ids.number_map)})
    made = number_map(ids.number_map.dtype, table["0"].dtype, True)
    made.input_src_col_names, made.input_dst_col_names = columns.source, columns.destination
    made.implementation = number_map.SingleGPU(
        table, [columns.source], [columns.destination], ids.number_map.dtype, False
    )
    made.implementation.src_col_names, made.implementation.dst_col_names = SOURCE, DESTINATION
    made.df_internal_to_external = table
    return made
