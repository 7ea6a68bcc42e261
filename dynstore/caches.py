"""Where dynstore keeps what it builds and compiles, for the next process."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """Return the folder: ``$DYNSTORE_CACHE_DIR``, else as the XDG rules say.

    Raises
    ------
    RuntimeError
        Where neither these variables nor the system say what the user's home is.
    """
    chosen = os.environ.get("DYNSTORE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dynstore"
