"""What is in a log, for people to read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dynstore.durable.folder import read_manifest
from dynstore.durable.reading import LogEntry, LogReader, list_segments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Listing", "list_log"]


class Listing:
    """The records of a log, counted as they are read.

    Attributes
    ----------
    checkpoints : tuple of int
        Their versions.
    version : int
        That of the last record, or of the last checkpoint.
    records, rows, bytes, cut : int
        ``cut``: bytes behind the last record.
    kinds : Counter
        Records by the kind of their update.
    """

    def __init__(self, checkpoints: tuple[int, ...], reader: LogReader) -> None:
        self.checkpoints, self.version = checkpoints, checkpoints[-1]
        self.records = self.rows = self.bytes = self.cut = 0
        self.kinds: Counter[str] = Counter()
        self._reader = reader

    def entries(self) -> Iterator[LogEntry]:
        """Read all records, the oldest one first."""
        for entry in self._reader:
            self.records += 1
            self.rows += entry.head.rows
            self.bytes += entry.end - entry.start
            self.kinds[entry.head.kind] += 1
            self.version = max(self.version, entry.head.version)
            yield entry
        self.cut = self._reader.cut


def list_log(caller: str, folder: Path) -> Listing:
    """Open the log of a folder to list it; files stay as they are, and another process may be writing them.

    Raises
    ------
    SavedGraphError
        If the folder is no database, or is damaged.
    """
    manifest = read_manifest(caller, folder)
    segments = list_segments(folder)
    first = segments[0].first - 1 if segments else manifest.checkpoints[0].version
    versions = tuple(each.version for each in manifest.checkpoints)
    return Listing(versions, LogReader(caller, folder, manifest.token, first))
