"""Readers of edge lists and edge streams: text, CSV, TSV, Matrix Market, METIS, Parquet, plain or compressed."""

from __future__ import annotations

from dynstore.io.events import OP_DELETE, OP_INSERT, OP_REWEIGHT, EventTable
from dynstore.io.reader import read_events

__all__ = ["OP_DELETE", "OP_INSERT", "OP_REWEIGHT", "EventTable", "read_events"]
