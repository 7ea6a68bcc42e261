"""Checksums by several threads are those of zlib."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from dynstore.durable import checksums
from dynstore.durable.checksums import crc32_of


@pytest.mark.parametrize("sizes", [[], [0], [1], [0, 5, 0], [9_000_000], [5_000_000, 3, 0, 1 << 20, 2_000_001]])
def test_of_buffers_of_any_size(sizes: list[int], rng: np.random.Generator) -> None:
    parts = [rng.integers(0, 256, size, np.uint8) for size in sizes]
    assert crc32_of([part.data for part in parts]) == zlib.crc32(b"".join(part.tobytes() for part in parts))


def test_of_pieces_of_every_length(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "SHARED", 1)
    content = rng.integers(0, 256, 1000, np.uint8).tobytes()
    for piece in (1, 2, 3, 7, 64, 999, 1000, 1001):
        monkeypatch.setattr(checksums, "PIECE", piece)
        assert crc32_of([content[:100], b"", content[100:]]) == zlib.crc32(content)
