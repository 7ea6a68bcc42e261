"""cuGraph's map between ids and numbers for integers, which cuGraph translates in C++: each stands for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.adapters.libraries import require

if TYPE_CHECKING:
    from dynstore.adapters.cugraph.names import Columns
    from dynstore.adapters.cugraph.shown import ShownIds

__all__ = ["map_to_themselves"]

CALLER = "cugraph.Graph"


def map_to_themselves(ids: ShownIds, columns: Columns) -> Any:
    """Return a ``NumberMap`` whose methods return ids as they are.

    cuGraph's own map of integers has no table: ``unrenumber`` and ``lookup_internal_vertex_id`` raise a KeyError there.
    """
    cudf = require(CALLER, "cudf")
    number_map = require(CALLER, "cugraph.structure.number_map").NumberMap
    dtype = ids.number_map.dtype
    table = cudf.DataFrame({"0": cudf.Series(ids.number_map), "id": cudf.Series(ids.number_map)})
    made = number_map(dtype, dtype, False)
    made.input_src_col_names, made.input_dst_col_names = columns.source, columns.destination
    made.implementation = number_map.SingleGPU(table, [columns.source], [columns.destination], dtype, False)
    made.implementation.src_col_names, made.implementation.dst_col_names = "src", "dst"
    made.df_internal_to_external = table
    return made
