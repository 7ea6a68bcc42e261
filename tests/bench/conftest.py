"""What the tests of benchmarks have in common."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def few_objects_to_look_through(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Freeze again what a benchmark has unfrozen at its end, which is all that the tests before have left.

    Else each collection before a timing would look through that, and take several times as long as what is timed. To
    ask how much is frozen would take as long.
    """
    unfreeze, calls = gc.unfreeze, 0

    def note() -> None:
        nonlocal calls
        calls += 1
        unfreeze()

    monkeypatch.setattr(gc, "unfreeze", note)
    yield
    if calls:
        gc.freeze()
