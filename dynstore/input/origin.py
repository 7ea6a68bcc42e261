"""The mark of tables that a graph has made: what a new graph needs to equal that graph, beyond the edges.

pandas frames carry it in ``attrs``, Arrow tables in the metadata of their schema; other frames have no place for it.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

__all__ = ["MARK", "OPTIONS", "Origin", "read_origin"]

MARK = "dynstore.origin"
OPTIONS = ("directed", "renumber", "vertex_dtype", "weight_dtype", "edge_columns", "timestamps", "multigraph")


class Origin(NamedTuple):
    """What a table says of the graph that made it.

    Attributes
    ----------
    options : dict
        Options of :class:`dynstore.DynamicGraph`.
    num_vertices : int
        V, isolated vertices included; 0 where the ids of isolated vertices are not known.
    """

    options: dict[str, Any]
    num_vertices: int


def read_origin(edges: Any) -> Origin:
    """Return what a table says of the graph that made it; nothing if it has no mark, or a damaged one."""
    schema = getattr(edges, "schema", None)
    mark = (getattr(schema, "metadata", None) or {}).get(MARK.encode()) or getattr(edges, "attrs", {}).get(MARK)
    try:
        found = json.loads(mark) if mark else {}
        return Origin({name: found[name] for name in OPTIONS if name in found}, int(found.get("num_vertices", 0)))
    except (TypeError, ValueError, AttributeError):
        return Origin({}, 0)
