"""The folder where dynstore keeps what it has built and compiled, for later processes."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


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
