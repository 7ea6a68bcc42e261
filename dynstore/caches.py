"""The folder where dynstore keeps what it has built and compiled, for later processes.

What is there is run. So it is used only if no other user can have put it there: the folder, and those around it, belong
to the user or to root, and no other user may write to them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["BY_OTHERS", "cache_folder", "distrust", "find_cached", "is_trusted", "make_private", "write_cached"]

BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_log = logging.getLogger("dynstore")
_warned: set[Path] = set()  # folders that a log record has named


def cache_folder() -> Path:
    """Return the folder: ``$DYNSTORE_CACHE_DIR``, or by default the one of the XDG rules.

    Raises
    ------
    RuntimeError
        If neither these variables nor the system give the user's home.
    """
    chosen = os.environ.get("DYNSTORE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dynstore"


def find_cached(kind: str, key: str, beginning: str = "", ending: str = "") -> Path | None:
    """Return the path of a file by its key, in the folder's part for its kind; None if there is no folder to use."""
    try:
        folder = cache_folder() / kind
    except RuntimeError as error:
        _log.debug("%s are not kept: %s", kind, error)
        return None
    if not is_trusted(folder):
        return None
    return folder / f"{beginning}{hashlib.sha256(key.encode()).hexdigest()[:32]}{ending}"


def write_cached(place: Path, content: bytes) -> None:
    """Write a file of the folder, completely or not at all; if that fails, a later process writes it."""
    unfinished = place.with_name(f"write-{uuid.uuid4().hex}")
    try:
        make_private(place.parent)
        unfinished.write_bytes(content)
        unfinished.replace(place)
    except OSError as error:
        _log.debug("%s is not kept: %s", place.name, error)
        with suppress(OSError):
            unfinished.unlink()


def make_private(folder: Path) -> None:
    """Make a folder, and those around it, to which no other user may write; those that are there stay as they are.

    Raises
    ------
    OSError
    """
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def is_trusted(folder: Path) -> bool:
    """Whether what is in a folder may be run; if not, a log record says why, once."""
    problem = distrust(folder)
    if problem is not None and folder not in _warned:
        _warned.add(folder)
        _log.warning("dynstore: compiled kernels are neither kept nor read in %s: %s", folder, problem)
    return problem is None


def distrust(folder: Path) -> str | None:
    """Return why what is in a folder should not be run; None if it may, or if the folder is not there yet."""
    folder = folder.absolute()
    with suppress(OSError, RuntimeError):  # of links in a circle
        for place in dict.fromkeys((folder, *folder.parents, folder.resolve(), *folder.resolve().parents)):
            try:
                found = place.stat()
            except FileNotFoundError:
                continue
            if found.st_uid not in (0, os.getuid()):
                return (
                    f"{place} belongs to another user ({found.st_uid}); set DYNSTORE_CACHE_DIR to a folder of your own"
                )
            is_shared = place not in (folder, folder.resolve()) and found.st_mode & stat.S_ISVTX  # such as /tmp
            if not is_shared and _others_write(found):
                return f"other users may write to {place}; type: chmod go-w {place}"
    return None


def _others_write(found: os.stat_result) -> bool:
    """Whether others than the owner may write: a group that has no other user does not count."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_alone(found.st_gid)


@cache
def _is_alone(group: int) -> bool:
    """Whether a group is the user's own: many systems make one for each user."""
    import grp
    import pwd

    try:
        user, known = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:  # as in a container
        return False
    return user.pw_gid == group and known.gr_name == user.pw_name and not set(known.gr_mem) - {user.pw_name}
