"""Owners of vertices: the hash is that of cuGraph, ranges are even, rows keep their order."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.distributed.owners import Owners, sort_by_owner
from dynstore.errors import InputError
from tests.conftest import SEED

LOW = 0xFFFFFFFF


def murmur(data: bytes) -> int:
    """MurmurHash3, 32 bits, seed 0, of whole words; as its author describes it, in plain integers."""

    def turned(word: int, bits: int) -> int:
        return (word << bits | word >> (32 - bits)) & LOW

    state = 0
    for place in range(0, len(data), 4):
        word = int.from_bytes(data[place : place + 4], "little")
        word = turned(word * 0xCC9E2D51 & LOW, 15) * 0x1B873593 & LOW
        state = (turned(state ^ word, 13) * 5 + 0xE6546B64) & LOW
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & LOW
    state = (state ^ state >> 13) * 0xC2B2AE35 & LOW
    return state ^ state >> 16


def test_the_reference_knows_published_values() -> None:
    assert murmur(b"") == 0
    assert murmur(b"\0\0\0\0") == 0x2362F9DE
    assert murmur(b"test") == 0xBA6BD213


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_hash(backend, dtype: str) -> None:
    most = np.iinfo(dtype).max
    numbers = np.array([0, 1, 2, 3, 255, 256, 12345678, most - 1, most], dtype=dtype)
    for size in (1 << 16, (1 << 16) - 15, 7):
        found = Owners(backend, "hash", size, None)(backend.asarray(numbers))
        assert backend.to_host(found).tolist() == [murmur(number.tobytes()) % size for number in numbers]


# Of cuco::murmurhash3_32, with which cuGraph looks for a vertex, compiled for the host.
CUGRAPHS_HASHES = {
    "int32": [593689054, 4226891818, 1085422463, 847579505, 1409940790, 2285288298, 1247003650],
    "int64": [1669671676, 1392991556, 3323962100, 2738575283, 2997559978, 2829881385, 2217873668],
}
CUGRAPHS_OWNERS = {
    1: [0] * 16,
    2: [0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0],
    3: [1, 1, 2, 2, 1, 0, 1, 2, 2, 2, 2, 1, 0, 0, 2, 0],
    4: [2, 2, 3, 1, 3, 2, 2, 1, 1, 3, 1, 2, 2, 1, 3, 2],
    8: [6, 2, 7, 1, 7, 6, 6, 1, 1, 3, 5, 2, 2, 1, 3, 6],
}


@pytest.mark.parametrize("dtype", CUGRAPHS_HASHES)
def test_the_hash_is_cugraphs(backend, dtype: str) -> None:
    numbers = backend.asarray(np.array([0, 1, 2, 3, 256, 12345678, 2**31 - 2], dtype=dtype))
    for size in (1 << 16, (1 << 16) - 15):
        found = backend.to_host(Owners(backend, "hash", size, None)(numbers))
        assert found.tolist() == [number % size for number in CUGRAPHS_HASHES[dtype]]


@pytest.mark.parametrize("size", CUGRAPHS_OWNERS)
def test_owners_are_cugraphs(backend, size: int) -> None:
    owners = Owners(backend, "hash", size, None)(backend.xp.arange(16, dtype=np.int32))
    assert backend.to_host(owners).tolist() == CUGRAPHS_OWNERS[size]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 16])
def test_owners_by_hash_are_even(backend, size: int) -> None:
    numbers = backend.xp.arange(3000, dtype=np.int32)
    owners = backend.to_host(Owners(backend, "hash", size, None)(numbers))
    assert owners.tolist()[:50] == [murmur(np.int32(number).tobytes()) % size for number in range(50)]
    counts = np.bincount(owners, minlength=size)
    assert counts.shape == (size,)
    assert abs(counts - 3000 / size).max() < 200


def test_owners_by_range(backend) -> None:
    numbers = backend.xp.arange(12, dtype=np.int64)
    owners = Owners(backend, "range", 3, 10)(numbers)
    assert backend.to_host(owners).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_wrong_partitions(backend) -> None:
    with pytest.raises(InputError, match=r"partition='range' divides the ids below max_vertices, which is None"):
        Owners(backend, "range", 2, None)
    with pytest.raises(InputError, match="unknown partition 'ranges'; known: 'hash', 'range'"):
        Owners(backend, "ranges", 2, None)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("partition", ["hash", "range"])
@pytest.mark.parametrize("num_columns", [2, 3])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("num_rows", [0, 1, 200])
def test_rows_keep_their_order(backend, size: int, partition: str, num_columns: int, both: bool, num_rows: int) -> None:
    random = np.random.default_rng(SEED)
    dtype = [np.int32, np.int64][num_rows % 2]
    rows = [random.integers(0, 40, num_rows).astype(dtype) for _ in range(2)] + [random.random(num_rows)]
    owners = Owners(backend, partition, size, 40)
    given = tuple(backend.asarray(column) for column in rows[:num_columns])
    order, columns, counts = sort_by_owner(backend, owners, given, both, want_order=not both)
    expected = list(zip(*rows[:num_columns], range(num_rows), strict=True))
    if both:
        pairs = [[row, (row[1], row[0], *row[2:])] for row in expected]
        expected = [row for pair in pairs for row in (pair if pair[0][0] != pair[0][1] else pair[:1])]
    owner = {vertex: int(rank) for vertex, rank in enumerate(owners(backend.xp.arange(40, dtype=dtype)))}
    expected.sort(key=lambda row: owner[int(row[0])])
    assert [column.dtype for column in columns] == [column.dtype for column in given]
    found = list(zip(*(backend.to_host(column).tolist() for column in columns), strict=True))
    assert found == [tuple(row[:-1]) for row in expected]
    assert counts == [sum(owner[int(row[0])] == rank for row in expected) for rank in range(size)]
    if not both:
        assert backend.to_host(order).tolist() == [row[-1] for row in expected]
