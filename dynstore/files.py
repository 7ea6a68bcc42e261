"""What is written to disk so that it lasts: the one place from which writes, syncs and renames go.

Tests replace :class:`Files`: they note what a program asks for, let it fail, or rebuild what a power loss leaves.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["FILES", "Buffer", "Files"]

Buffer: TypeAlias = Any
# Not every system has the one that leaves out the time of the last change.
_sync = getattr(os, "fdatasync", os.fsync)


class Files:
    """Files and folders that last. Each method does one thing, and raises OSError."""

    def create(self, path: Path) -> int:
        """Make a file, empty also if it is there already; return its descriptor."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0), 0o666)

    def open(self, path: Path) -> int:
        """Open a file that is there, to write to it; return its descriptor."""
        return os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))

    def close(self, file: int) -> None:
        """Close a file; that syncs nothing."""
        os.close(file)

    def write(self, file: int, offset: int, buffers: Sequence[Buffer]) -> int:
        """Write buffers one after another; return where they end. If it raises, a part of them may be written."""
        left = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        while left:
            written = os.pwritev(file, left, offset)
            offset += written
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if written:
                left[0] = left[0][written:]
        return offset

    def cut(self, file: int, size: int) -> None:
        """Cut a file off."""
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """Make a file's content and size last, also if the machine stops."""
        _sync(file)

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder last: new, renamed and removed files."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def make_folder(self, path: Path) -> None:
        """Make a folder that is not there."""
        os.mkdir(path)

    def rename(self, path: Path, target: Path) -> None:
        """Give a file or a folder another name; a file of that name is replaced at once."""
        os.replace(path, target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and all that is in it, as far as possible; one that is not there is no error."""
        shutil.rmtree(path, ignore_errors=True)

    def write_new(self, path: Path, content: Buffer) -> None:
        """Write a file and sync it; its name lasts when the folder is synced."""
        file = self.create(path)
        try:
            self.write(file, 0, [content])
            self.sync(file)
        finally:
            self.close(file)


FILES = Files()
