"""Readers of edge lists and edge streams, in many formats, plain or packed."""

from __future__ import annotations

from dynstore.io.events import OP_DELETE, OP_INSERT, OP_REWEIGHT, EventTable
from dynstore.io.reader import read_events

__all__ = ["OP_DELETE", "OP_INSERT", "OP_REWEIGHT", "EventTable", "read_events"]
