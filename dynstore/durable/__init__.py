"""Graphs that survive a crash: a folder with a log of their updates, and checkpoints."""

from __future__ import annotations

from dynstore.durable.database import Database, open_database

__all__ = ["Database", "open"]

open = open_database
