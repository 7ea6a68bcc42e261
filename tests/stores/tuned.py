"""Graphs whose updates take a path of large batches, small as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dynstore.graph import DynamicGraph

__all__ = ["BY_ROWS", "BY_TILES", "PARTITIONED", "retune"]

PARTITIONED: dict[str, Any] = {"partition_rows": 1}
BY_TILES: dict[str, Any] = {
    **PARTITIONED,
    "insert_tile_slots": 1 << 40,
    "delete_tile_slots": 1 << 40,
    "tile_fill": 1e9,
}
BY_ROWS: dict[str, Any] = {**PARTITIONED, "insert_tile_slots": 0, "delete_tile_slots": 0}


def retune(graph: DynamicGraph, **sizes: Any) -> DynamicGraph:
    """Have a graph's updates choose their paths by other sizes from now on, as if made so; return the graph."""
    stores: list[Any] = [graph.core.out, graph.core.into]
    for store in stores:
        if store is not None:
            tuning = replace(store.options.tuning, **sizes)
            store.options = replace(store.options, tuning=tuning)
            store.slots.tuning = tuning
    return graph
