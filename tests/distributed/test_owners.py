"""Owners of vertices: the hash is that of cuGraph, ranges are even, rows keep their order."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.distributed.owners import find_owners, hash_numbers, sort_by_owner
from dynstore.errors import InputError

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
    found = backend.to_host(hash_numbers(backend, backend.asarray(numbers)))
    assert found.tolist() == [murmur(number.tobytes()) for number in numbers]
    assert hash_numbers(backend, backend.asarray(numbers[::2])).shape == (5,)


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
    assert backend.to_host(hash_numbers(backend, numbers)).tolist() == CUGRAPHS_HASHES[dtype]


@pytest.mark.parametrize("size", CUGRAPHS_OWNERS)
def test_owners_are_cugraphs(backend, size: int) -> None:
    owners = find_owners(backend, "hash", size, None)(backend.xp.arange(16, dtype=np.int32))
    assert backend.to_host(owners).tolist() == CUGRAPHS_OWNERS[size]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 16])
def test_owners_by_hash_are_even(backend, size: int) -> None:
    numbers = backend.xp.arange(20000, dtype=np.int32)
    owners = backend.to_host(find_owners(backend, "hash", size, None)(numbers))
    assert owners.tolist()[:50] == [murmur(np.int32(number).tobytes()) % size for number in range(50)]
    counts = np.bincount(owners, minlength=size)
    assert counts.shape == (size,)
    assert abs(counts - 20000 / size).max() < 500


def test_owners_by_range(backend) -> None:
    numbers = backend.xp.arange(12, dtype=np.int64)
    owners = find_owners(backend, "range", 3, 10)(numbers)
    assert backend.to_host(owners).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_wrong_partitions(backend) -> None:
    with pytest.raises(InputError, match=r"partition='range' divides the ids below max_vertices, which is None"):
        find_owners(backend, "range", 2, None)
    with pytest.raises(InputError, match="unknown partition 'ranges'; known: 'hash', 'range'"):
        find_owners(backend, "ranges", 2, None)


def test_rows_keep_their_order(backend) -> None:
    owners = backend.asarray(np.array([2, 0, 2, 0, 3], dtype=np.uint16))
    rows = backend.asarray(np.array([10, 11, 12, 13, 14]))
    order, (column,), counts = sort_by_owner(backend, owners, [rows], 5)
    assert backend.to_host(column).tolist() == [11, 13, 10, 12, 14]
    assert backend.to_host(order).tolist() == [1, 3, 0, 2, 4]
    assert counts == [2, 0, 2, 1, 0]
