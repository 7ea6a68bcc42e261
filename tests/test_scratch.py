"""Memory that updates work in: what is kept from one to the next, and what is made anew."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import scratch
from dynstore.backend import get_backend
from dynstore.scratch import ScratchCache

CPU = get_backend("cpu")


@pytest.mark.parametrize(
    ("most_bytes", "num_bytes", "size", "is_kept"),
    [
        (0, 1024, 4096, True),  # a quarter of what it is for
        (0, 1024, 4088, False),
        (1024, 1024, 0, True),  # so many for whatever it is for
        (1023, 1024, 0, False),
        (1023, 1024, 4096, True),
    ],
)
def test_small_scratch_is_kept_and_large_beside_what_is_large(
    most_bytes: int, num_bytes: int, size: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "MAX_BYTES", most_bytes)
    kept = ScratchCache()

    def take() -> np.ndarray:
        array: np.ndarray = kept.take(CPU, "kind", size, lambda _, array: array, ((num_bytes, np.uint8),), zeroed=1)
        assert not array.any()
        array[:] = 1
        return array

    first = take()
    assert kept.nbytes == (num_bytes if is_kept else 0)
    assert (take() is first) == is_kept
    assert not is_kept or take() is first


def test_an_insertion_of_a_hundredth_keeps_its_scratch() -> None:
    """1e5 of 5 million edges: 10 MB of scratch, beside 65 MB of ids: less than what is kept in any case."""
    kept = ScratchCache()
    kept.take(CPU, "insertion", 65_000_000, lambda _, array: array, ((10_100_000, np.uint8),))
    assert kept.nbytes > 0
