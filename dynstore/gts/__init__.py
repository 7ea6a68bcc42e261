"""Graphs larger than the GPU's memory, streamed through it page by page, as in GTS (Kim et al., SIGMOD 2016)."""

from __future__ import annotations

from dynstore.gts.building import build, build_from_rows
from dynstore.gts.engine import GTS
from dynstore.gts.formats import PageFormat
from dynstore.gts.strategies import MultiGTS, ShardedGTS
from dynstore.gts.streaming import RunReport
from dynstore.gts.topology import PagedTopology, open_topology

__all__ = [
    "GTS",
    "MultiGTS",
    "PageFormat",
    "PagedTopology",
    "RunReport",
    "ShardedGTS",
    "build",
    "build_from_rows",
    "open_topology",
]
