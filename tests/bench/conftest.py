"""What the tests of benchmarks have in common."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def few_objects_to_look_through() -> None:
    """Freeze again what a benchmark has unfrozen at its end, which is all that the tests before have left.

    Else each collection before a timing would look through that, and take several times as long as what is timed.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
