"""The lock of a database's folder: one process has it, and none that it has forked.

``flock`` locks an open file, and forked processes inherit open files: a worker would keep the folder locked after its
parent has closed the database, or was killed. Locks by ``fcntl`` are not inherited. But a process loses them as soon as
it closes any descriptor of the file, as a copy of the folder would; and they do not keep the process itself from
opening the folder twice. Linux has no flag that closes a file at a fork. So it is ``flock``, and Python closes the
descriptor in each process that it forks; a fork by a C library is not noticed.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dynstore.errors import LogError
from dynstore.terminal import visible

__all__ = ["LOCK", "FolderLock", "lock_folder"]

LOCK = "LOCK"
# Whoever may read the file may lock it.
MODE = 0o600
# The descriptors of all locks that this process has.
_held: set[int] = set()


def _close_all() -> None:
    """Close the parent's locks in a forked process; the parent still has them."""
    while _held:
        with suppress(OSError):
            os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)


@dataclass
class FolderLock:
    """A lock that this process has.

    Attributes
    ----------
    file : pathlib.Path
    descriptor : int
        -1 when it was released.
    is_new : bool
        Whether the file was made for it.
    process : int
    """

    file: Path
    descriptor: int
    is_new: bool
    process: int

    def release(self) -> None:
        """Unlock the folder; in a forked process, do nothing."""
        if self.descriptor >= 0 and self.process == os.getpid():
            import fcntl

            _held.discard(self.descriptor)
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)  # a process just forked may still have the file open
            os.close(self.descriptor)
        self.descriptor = -1

    def take_back(self) -> None:
        """Unlock the folder, and leave no file that was not there."""
        if self.is_new and self.descriptor >= 0:
            with suppress(OSError):
                self.file.unlink()
        self.release()


def lock_folder(caller: str, folder: Path) -> FolderLock:
    """Lock a folder until the lock is released, or the process ends.

    Raises
    ------
    LogError
        If it is locked already, or cannot be.
    """
    import fcntl

    file = folder / LOCK
    while True:
        try:
            descriptor, is_new = _open(file)
        except OSError as error:
            problem = "it is a link" if error.errno == errno.ELOOP else error.strerror or error
            raise LogError(f"{caller}: {str(file)!r} cannot be opened: {problem}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(descriptor)
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise LogError(f"{caller}: {str(file)!r} cannot be locked: {error.strerror or error}") from error
            raise LogError(f"{caller}: {str(folder)!r} is open already, {holder}; wanted one at a time") from error
        if _is_at(file, descriptor):
            _held.add(descriptor)
            return FolderLock(file, descriptor, is_new, os.getpid())
        os.close(descriptor)  # whoever had it has removed it meanwhile


def _open(file: Path) -> tuple[int, bool]:
    """Open the file, and make it if it is not there; a link is not followed."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(file, flags | os.O_CREAT | os.O_EXCL, MODE), True
    except FileExistsError:
        pass
    descriptor = os.open(file, flags | os.O_CREAT, MODE)
    with suppress(OSError):  # an older version let others read it
        os.fchmod(descriptor, MODE)
    return descriptor, False


def _is_at(file: Path, descriptor: int) -> bool:
    """Whether an open file still has its name."""
    try:
        there, ours = os.stat(file, follow_symlinks=False), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _holder(descriptor: int) -> str:
    """Say which process has a lock, as far as the system tells."""
    try:
        inode = os.fstat(descriptor).st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()  # number, kind, "ADVISORY", "WRITE", process, device:device:inode, ...
            if len(fields) > 5 and fields[5].rpartition(":")[2] == str(inode) and int(fields[4]) > 0:
                return _named(int(fields[4]))
    except (OSError, ValueError):
        pass
    return "in this process or another one"


def _named(process: int) -> str:
    if process == os.getpid():
        return "in this process"
    try:
        return f"in process {process} ({visible(Path(f'/proc/{process}/comm').read_text().strip())})"
    except OSError:
        return f"in a process that process {process} has forked before it ended"
