"""Checksums of records: those of pieces, by several threads, are the same as by one."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dynstore.durable import records
from dynstore.durable.records import LoggedUpdate, checksum_of, decode, encode, read_head


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PIECE", 64)


def test_checksums_by_pieces(rng: np.random.Generator) -> None:
    content = rng.integers(0, 256, 1000, np.uint8)
    pieces = [zlib.crc32(content[place : place + 64].data).to_bytes(4, "little") for place in range(0, 1000, 64)]
    wanted = zlib.crc32(b"".join(pieces))
    assert checksum_of([content.data]) == wanted
    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            cuts = np.sort(rng.integers(0, 1001, 6)).tolist()
            parts = [content[first:last].data for first, last in zip([0, *cuts], [*cuts, 1000], strict=True)]
            assert checksum_of(parts, threads.map) == wanted
    for place in (0, 63, 64, 999):
        content[place] ^= 4
        assert checksum_of([content.data]) != wanted
        content[place] ^= 4


def test_a_record_of_several_pieces_comes_back(rng: np.random.Generator) -> None:
    columns = {"edges.source": rng.integers(0, 99, 777), "edges.destination": rng.integers(0, 99, 777)}
    record = encode(LoggedUpdate("insert_edges", 777, {"time": None}, columns, b"there"), 5, 4, 17)
    with ThreadPoolExecutor(3) as threads:
        written = b"".join(map(bytes, record.buffers(threads.map)))
    head = read_head(written[:64], 17)
    assert head is not None
    assert (len(written), head.version, head.durable) == (record.size, 5, 4)
    assert head.checksum == checksum_of([memoryview(written)[64:]])
    again = decode(head, np.frombuffer(written[64:], np.uint8))
    assert (again.rows, again.position) == (777, b"there")
    for name, array in columns.items():
        np.testing.assert_array_equal(again.columns[name], array)
