"""The log: files to which records are appended, one after another.

A segment, ``log-<first>.wal``, begins with a head: magic, format, the version of its first record, the log's token, and
a CRC-32. A new one is begun, and its folder synced, when the last one is full; the last one is synced before. So only
the end of the last segment can be torn.

One thread makes updates. The log has threads of its own to append large records, which the first one waits for; with
``sync="group"`` another one syncs what was appended.
"""

from __future__ import annotations

import os
import struct
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Condition, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeAlias

from dynstore.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dynstore.durable.records import Record
    from dynstore.files import Files

__all__ = ["SEGMENT_HEAD", "SYNC", "Log", "Sync", "read_segment_head", "seed_of", "segment_name"]

Sync: TypeAlias = Literal["commit", "group", "os"]
SYNC = ("commit", "group", "os")
SEGMENT_BYTES = 1 << 28
# With sync="group": the longest time and the most bytes that are not synced. At more bytes an update waits.
GROUP_SECONDS = 0.01
GROUP_BYTES = 1 << 26
# Records of so many bytes are given to threads, for the checksum, too: handing one over takes as long as 0.1 MB do.
LARGE_BYTES = 1 << 18
# How many threads share a record's checksum.
CHECKSUM_THREADS = min(8, os.cpu_count() or 1)

SEGMENT_MAGIC, SEGMENT_FORMAT = b"dynsLOG1", 1
_HEAD = struct.Struct("<8sIIQ32sI")
SEGMENT_HEAD = 64


def segment_name(first: int) -> str:
    """Return the name of the segment whose first record makes a version."""
    return f"log-{first:016d}.wal"


def seed_of(token: str) -> int:
    """Return what the checksums of a log's heads begin with."""
    return zlib.crc32(token.encode())


def read_segment_head(content: bytes, token: str) -> int | None:
    """Return the version of a segment's first record; None if this is no head of this log's segments."""
    if len(content) < SEGMENT_HEAD or content[:SEGMENT_HEAD] != _segment_head(_HEAD.unpack_from(content)[3], token):
        return None
    return int(_HEAD.unpack_from(content)[3])


def _segment_head(first: int, token: str) -> bytes:
    head = _HEAD.pack(SEGMENT_MAGIC, SEGMENT_FORMAT, 0, first, token.encode(), 0)[:-4]
    return (head + zlib.crc32(head).to_bytes(4, "little")).ljust(SEGMENT_HEAD, b"\0")


class Log:
    """The end of a log.

    Parameters
    ----------
    files : Files
    folder : Path
    token : str
        32 characters that no other log has.
    sync : {"commit", "group", "os"}

    Attributes
    ----------
    version : int
        That of the last record.
    durable : int
        The newest version that is known to last.
    appended : int
        Bytes appended since the log was opened.
    """

    def __init__(self, files: Files, folder: Path, token: str, sync: Sync) -> None:
        self.files, self.folder, self.token, self.sync = files, folder, token, sync
        self.version = self.durable = self.appended = 0
        self.seed = seed_of(token)
        self._file = -1
        self._end = self._before = 0  # of the file: its end, and that before the last record
        self._dead: str | None = None
        self._turn = Lock()  # held by who syncs, and by who begins a segment
        self._waiting = Condition()  # guards all that follows
        self._unsynced, self._since, self._closing = 0, 0.0, False
        self._syncer: Thread | None = None
        self._checksums = ThreadPoolExecutor(CHECKSUM_THREADS, "dynstore-checksum")
        self._appended: Future[None] = Future()  # the last append
        self._appended.set_result(None)

    def begin(self, version: int) -> None:
        """Begin with an empty segment, after a version that lasts."""
        self.version = self.durable = version
        self._file, self._end = self._begin_segment(), SEGMENT_HEAD
        self._start()

    def go_on(self, first: int, proven: int, end: int, version: int) -> None:
        """Go on behind the records of a segment; what follows them is cut off.

        What is not proven to last is written once more. A sync may have failed: then the system still shows what was
        written, but takes it to be on the disk, and never writes it.
        """
        path = self.folder / segment_name(first)
        self.version = version
        self._file, self._end = self.files.open(path), end
        self.files.cut(self._file, end)
        with path.open("rb") as file:
            file.seek(proven)
            self.files.write(self._file, proven, [file.read()])
        self.files.sync(self._file)
        self.durable = version
        self._start()

    def _start(self) -> None:
        if self.sync == "group":
            self._syncer = Thread(target=self._sync_often, name="dynstore-log", daemon=True)
            self._syncer.start()

    # ------------------------------------------------------------------ writing

    def check(self, caller: str) -> None:
        """Refuse an update if nothing can be appended any more.

        Raises
        ------
        LogError
        """
        if self._dead is not None:
            raise LogError(f"{caller}: {self._dead}; open the folder again")

    @property
    def is_dead(self) -> bool:
        """Whether nothing can be appended any more."""
        return self._dead is not None

    def kill(self, reason: str) -> None:
        """Refuse all updates from now on."""
        self._dead = self._dead or reason

    def start(self, record: Record) -> None:
        """Start to append the record of the next version; a small one is appended at once.

        Until :meth:`wait` returns or raises, nothing else may be appended, and the record's arrays stay as they are.
        """
        done: Future[None] = Future()
        self._appended = done

        def append() -> None:
            try:
                self._append(record)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        if record.size < LARGE_BYTES:
            append()
        else:
            try:
                Thread(target=append, name="dynstore-append", daemon=True).start()
            except BaseException as error:
                done.set_exception(error)
                raise

    def wait(self) -> None:
        """Return when the last record is appended; with ``sync="commit"`` it lasts then.

        Raises
        ------
        LogError
            If it cannot be written. The log is as it was; or it is dead, and nothing is ever appended again.
        """
        self._appended.result()

    def was_appended(self) -> bool:
        """Wait for the last record, and return whether it was appended."""
        return self._appended.exception() is None

    def _append(self, record: Record) -> None:
        caller = record.head.kind
        self.check(caller)
        if self._end + record.size > SEGMENT_BYTES and self._end > SEGMENT_HEAD:
            self._roll(caller)
        buffers = record.buffers(map if record.size < LARGE_BYTES else self._checksums.map)
        self._before = self._end
        try:
            self._end = self.files.write(self._file, self._end, buffers)
        except OSError as error:
            self._cut(self._before)
            raise LogError(f"{caller}: the log cannot be written ({error}); the update is not made") from error
        self.version += 1
        self.appended += record.size
        if self.sync == "commit":
            self._sync_now(caller)
        elif self.sync == "group":
            self._leave_to_syncer(record.size)

    def take_back(self) -> None:
        """Cut off the last record, whose update was not made; that lasts, too."""
        with self._turn:
            self.version -= 1
            self.durable = min(self.durable, self.version)
            self._cut(self._before)
            if self.sync != "os" and self._dead is None:
                with suppress(LogError):  # the log is dead then; the update's own error is raised
                    self._sync_now("update")

    def _cut(self, end: int) -> None:
        try:
            self.files.cut(self._file, end)
            self._end = end
        except OSError as error:
            self.kill(f"the log could not be cut back ({error})")

    def _roll(self, caller: str) -> None:
        """Sync the segment, and begin the next one."""
        with self._turn:
            self._sync_now(caller)
            try:
                fresh = self._begin_segment()
            except OSError as error:
                raise LogError(f"{caller}: no new file of the log ({error}); the update is not made") from error
            self.files.close(self._file)
            self._file, self._end = fresh, SEGMENT_HEAD

    def _begin_segment(self) -> int:
        path = self.folder / segment_name(self.version + 1)
        file = self.files.create(path)
        try:
            self.files.write(file, 0, [_segment_head(self.version + 1, self.token)])
            self._or_dead(lambda: self.files.sync(file))
            self._or_dead(lambda: self.files.sync_folder(self.folder))
        except BaseException:
            self.files.close(file)
            with suppress(OSError):
                self.files.remove(path)
            raise
        return file

    def _or_dead(self, sync: Callable[[], None]) -> None:
        """Sync; if that fails, the log is dead: what was written may be lost, and a second try would not say so."""
        try:
            sync()
        except OSError as error:
            self.kill(f"the log could not be synced ({error})")
            raise

    # ------------------------------------------------------------------ syncing

    def flush(self, caller: str) -> None:
        """Return when all records last.

        Raises
        ------
        LogError
        """
        with self._turn:
            self.check(caller)
            if self.durable < self.version:
                self._sync_now(caller)

    def close(self) -> None:
        """End the threads and close the file; that syncs nothing. An append by another thread is waited for."""
        self.kill("the database is closed")  # no other append begins
        with self._waiting:
            self._closing = True
            self._waiting.notify_all()
        self._appended.exception()
        if self._syncer is not None:
            self._syncer.join()
        self._checksums.shutdown()
        if self._file >= 0:
            self.files.close(self._file)
            self._file = -1

    def _sync_now(self, caller: str) -> None:
        """Sync what is appended; who calls this holds the turn, or there is one thread."""
        with self._waiting:
            version, size = self.version, self._unsynced
        try:
            self._or_dead(lambda: self.files.sync(self._file))
        except OSError as error:
            raise LogError(f"{caller}: {self._dead}; the last updates may be lost in a power failure") from error
        self.durable = version
        with self._waiting:
            self._unsynced -= size
            self._since = monotonic()
            self._waiting.notify_all()

    def _leave_to_syncer(self, size: int) -> None:
        with self._waiting:
            if not self._unsynced:
                self._since = monotonic()
            was, self._unsynced = self._unsynced, self._unsynced + size
            if not was or self._unsynced > GROUP_BYTES:  # else the thread wakes up by itself
                self._waiting.notify_all()
            while self._unsynced > GROUP_BYTES and self._dead is None:
                self._waiting.wait()

    def _sync_often(self) -> None:
        while self._has_waited():
            with self._turn, suppress(LogError):  # the next update is refused
                self._sync_now("update")

    def _has_waited(self) -> bool:
        """Wait until it is time to sync; return False at the end."""
        with self._waiting:
            while not self._closing and self._dead is None:
                left = self._since + GROUP_SECONDS - monotonic() if self._unsynced else None
                if left is not None and (left <= 0 or self._unsynced > GROUP_BYTES):
                    return True
                self._waiting.wait(left)
        return False
