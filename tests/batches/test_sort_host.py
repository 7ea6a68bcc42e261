"""Sorting keys with their rows on the host."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.backend import get_backend


@pytest.mark.parametrize("size", [0, 1, 2, 511, 512, 513, 5000])
@pytest.mark.parametrize(
    ("low", "high", "lower"),
    [
        (0, 1, 1),
        (0, 3, 5),
        (0, 1 << 18, 1 << 18),
        (0, 2**31, 2**31),  # too many bits for one word
        (0, 1, 2**32),
        (0, 2**31, 1),
        (-3, 3, 7),
    ],
)
def test_keys_come_in_order_with_their_rows(
    size: int, low: int, high: int, lower: int, rng: np.random.Generator
) -> None:
    """Against NumPy's stable sort, for keys of few and of many bits, with repeats."""
    keys = rng.integers(low, high, size) << 32 | rng.integers(0, lower, size)
    backend = get_backend("cpu")
    expected = np.argsort(keys, kind="stable")
    found, rows = backend.kernels("dynstore.batches", "sort").sort_rows(backend, keys.copy())
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(found, keys[expected])
    assert found.dtype == rows.dtype == np.int64


def test_words_of_exactly_64_bits_and_of_one_more(rng: np.random.Generator) -> None:
    """Of 1024 rows, 10 bits: keys of 54 bits fit, those of 55 do not."""
    backend = get_backend("cpu")
    for bits in (54, 55):
        keys = rng.integers(0, 1 << bits, 1024)
        keys[7] = (1 << bits) - 1
        expected = np.argsort(keys, kind="stable")
        found, rows = backend.kernels("dynstore.batches", "sort").sort_rows(backend, keys.copy())
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(found, keys[expected])
