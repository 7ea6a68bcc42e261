"""Which rank owns a vertex, and with it its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dynstore.errors import InputError, unknown_name

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Owners", "find_owners", "hash_numbers", "sort_by_owner"]

# Gets numbers of vertices; returns ranks, uint16.
Owners: TypeAlias = "Callable[[Array], Array]"
PARTITIONS = ("hash", "range")


def find_owners(backend: Backend, partition: str, size: int, max_vertices: int | None) -> Owners:
    """Return the function that gives each vertex a rank.

    Parameters
    ----------
    partition : {"hash", "range"}
    size : int
        The number of ranks.
    max_vertices : int or None
        Ranges are equal parts of the numbers below it.
    """
    xp = backend.xp
    if partition not in PARTITIONS:
        raise unknown_name("ShardedGraph", "partition", partition, PARTITIONS)
    if partition == "hash":
        return lambda numbers: (hash_numbers(backend, numbers) % np.uint32(size)).astype(np.uint16)
    if not max_vertices:
        raise InputError(
            f"ShardedGraph: partition='range' divides the ids below max_vertices, which is {max_vertices}; "
            "wanted the number of ids"
        )
    width = -(-max_vertices // size)
    return lambda numbers: xp.minimum(numbers // width, size - 1).astype(np.uint16)


def hash_numbers(backend: Backend, numbers: Array) -> Array:
    """Return MurmurHash3 (Appleby; 32 bits, seed 0) of numbers of 4 or 8 bytes, uint32: cuGraph's owners are its rest.

    Parameters
    ----------
    numbers : array, shape (N,), int32 or int64
    """
    words = backend.xp.ascontiguousarray(numbers).view(np.uint32).reshape(numbers.shape[0], numbers.dtype.itemsize // 4)
    state = backend.zeros(numbers.shape[0], np.uint32)
    for place in range(words.shape[1]):
        word = _turned(words[:, place] * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _turned(state ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(numbers.dtype.itemsize)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def _turned(words: Array, bits: int) -> Array:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def sort_by_owner(
    backend: Backend, owners: Array, columns: Sequence[Array], size: int
) -> tuple[Array, list[Array], list[int]]:
    """Bring rows into the order of their owners, and rows of one owner in the order in which they came.

    Returns
    -------
    order : array, shape (N,), int64
        The place of each row before.
    columns : list of arrays
    counts : list of int
        How many rows each rank owns.
    """
    order = backend.xp.argsort(owners, kind="stable")
    counts = backend.to_host(backend.xp.bincount(owners, minlength=size)).tolist()
    return order, [column[order] for column in columns], counts
