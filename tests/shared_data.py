"""Where the real graphs lie that are too large for this repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["shared_data"]


def shared_data(name: str) -> Path:
    """Return the path of a file in the shared data folder, or skip the test where it is absent.

    The folder is ``$DYNSTORE_SHARED_DATA``, by default ``../shared/data`` beside the repository.
    """
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    path = Path(os.environ.get("DYNSTORE_SHARED_DATA", beside)) / name
    if not path.exists():
        pytest.skip(f"the real graph {name} is not at {path}; set DYNSTORE_SHARED_DATA to the folder that has it")
    return path
