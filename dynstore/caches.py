"""The folder where dynstore keeps what it has built and compiled, for later processes."""

from __future__ import annotations

import hashlib
import logging
import os
import uuid
from contextlib import suppress
from pathlib import Path

__all__ = ["cache_folder", "find_cached", "write_cached"]

_log = logging.getLogger("dynstore")


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
    """Return the path of a file by its key, in the folder's part for its kind; None if there is no folder."""
    try:
        folder = cache_folder() / kind
    except RuntimeError as error:
        _log.debug("%s are not kept: %s", kind, error)
        return None
    return folder / f"{beginning}{hashlib.sha256(key.encode()).hexdigest()[:32]}{ending}"


def write_cached(place: Path, content: bytes) -> None:
    """Write a file of the folder, completely or not at all; if that fails, a later process writes it."""
    unfinished = place.with_name(f"write-{uuid.uuid4().hex}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(place)
    except OSError as error:
        _log.debug("%s is not kept: %s", place.name, error)
        with suppress(OSError):
            unfinished.unlink()
