"""Edge blocks in a binary tree for each vertex, on the host: one row after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.papers.graphvine.blocks import HOLE, NONE
from dynstore.stores.pma.cpu.redistribute import or_none

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.papers.graphvine.blocks import Blocks
    from dynstore.typing import Array

__all__ = [
    "Appending",
    "Removal",
    "append_keys",
    "find_keys",
    "plan_append",
    "plan_removal",
    "read_rows",
    "remove_keys",
]


@dataclass(frozen=True, slots=True)
class Appending:
    """A planned insertion; its blocks may still have to be reserved.

    Attributes
    ----------
    places : array, shape (B,), int64
        Place of each key in the pool; -1 for absent ones, which will be appended.
    num_new, num_blocks : int
        Keys to append, and blocks to take from the queue for them.
    """

    places: Array
    num_new: int
    num_blocks: int


@dataclass(frozen=True, slots=True)
class Removal:
    """A deletion ready to be written.

    Attributes
    ----------
    places : array, shape (B,), int64
        As in :class:`Appending`.
    numbers : array, shape (B,), int64
        The number of each key's entry in its row.
    num_found, num_blocks, num_entries : int
        Keys to delete, blocks to return to the queue, entries that fall out of use.
    """

    places: Array
    numbers: Array
    num_found: int
    num_blocks: int
    num_entries: int


@njit(cache=True, borrows=True)
def _walk(children, root, number):
    """Return a row's block by its number in level order; the binary digits after the first are the path, 0 is left."""
    step = 1
    while step <= number:
        step <<= 1
    step >>= 2
    block = np.int64(root)
    while step > 0:
        block = np.int64(children[2 * block + (1 if number & step else 0)])
        step >>= 1
    return block


@njit(cache=True, borrows=True)
def _end_of_run(src, first):
    end = first + 1
    while end < src.shape[0] and src[end] == src[first]:
        end += 1
    return end


@njit(cache=True, borrows=True)
def _find(src, dst, num_rows, size, written, roots, children, pool, places, numbers):
    """Compare each entry of the affected rows with the row's sorted keys."""
    places[:] = -1
    first = 0
    while first < src.shape[0]:
        end, row = _end_of_run(src, first), src[first]
        length = np.int64(written[row]) if row < num_rows else np.int64(0)
        lowest, highest = dst[first], dst[end - 1]
        for start in range(0, length, size):
            base = _walk(children, roots[row], start // size + 1) * size
            for offset in range(min(size, length - start)):
                key = pool[base + offset]
                if key < lowest or key > highest:
                    continue
                low, high = first, end
                while low < high:
                    middle = (low + high) >> 1
                    if dst[middle] < key:
                        low = middle + 1
                    else:
                        high = middle
                if dst[low] == key:
                    places[low], numbers[low] = base + offset, start + offset
        first = end


@njit(cache=True, borrows=True)
def _blocks_for(entries, size):
    return (entries + size - 1) // size


@njit(cache=True)
def _count_appended(src, places, num_rows, size, written):
    """Count the absent keys, and the blocks that they need."""
    num_new, num_blocks, first = np.int64(0), np.int64(0), 0
    while first < src.shape[0]:
        end, row = _end_of_run(src, first), src[first]
        new = np.count_nonzero(places[first:end] < 0)
        length = np.int64(written[row]) if row < num_rows else np.int64(0)
        num_new += new
        num_blocks += _blocks_for(length + new, size) - _blocks_for(length, size)
        first = end
    return num_new, num_blocks


@njit(cache=True, borrows=True)
def _append(
    src, dst, new_weights, places, add, size, degrees, written, roots, lasts, children, pool, weights, queue, front
):
    taken, first = np.int64(0), 0
    while first < src.shape[0]:
        end, row = _end_of_run(src, first), src[first]
        length, block = np.int64(written[row]), np.int64(lasts[row])
        degrees[row] -= length
        for i in range(first, end):
            place = places[i]
            if place >= 0:
                if weights.shape[0]:
                    weights[place] = weights[place] + new_weights[i] if add else new_weights[i]
                continue
            if length % size == 0:
                block = np.int64(queue[(front + taken) % queue.shape[0]])
                taken += 1
                number = length // size + 1
                if number == 1:
                    roots[row] = block
                else:
                    children[2 * _walk(children, roots[row], number >> 1) + (number & 1)] = block
            place = block * size + length % size
            pool[place] = dst[i]
            if weights.shape[0]:
                weights[place] = new_weights[i]
            length += 1
        written[row], lasts[row] = length, block
        degrees[row] += length
        first = end


@njit(cache=True, borrows=True)
def _kept_entries(length, degree, found, compacting):
    """Return the number of entries that a row uses after a deletion."""
    if compacting:
        return length - found
    return length if degree > found else np.int64(0)


@njit(cache=True)
def _count_removed(src, places, compacting, size, degrees, written, num_rows):
    num_found, num_blocks, num_entries, first = np.int64(0), np.int64(0), np.int64(0), 0
    while first < src.shape[0]:
        end, row = _end_of_run(src, first), src[first]
        found = np.count_nonzero(places[first:end] >= 0)
        if found > 0:
            length = np.int64(written[row])
            kept = _kept_entries(length, degrees[row], found, compacting)
            num_found += found
            num_entries += length - kept
            num_blocks += _blocks_for(length, size) - _blocks_for(kept, size)
        first = end
    return num_found, num_blocks, num_entries


@njit(cache=True)
def _remove(
    src, places, numbers, compacting, size, degrees, written, roots, lasts, children, pool, weights, queue, back
):
    """Fill the holes of each row with its last entries, or mark them; then return empty blocks to the queue."""
    first = 0
    while first < src.shape[0]:
        end, row = _end_of_run(src, first), src[first]
        found = np.count_nonzero(places[first:end] >= 0)
        if found > 0:
            length, root = np.int64(written[row]), roots[row]
            kept = _kept_entries(length, degrees[row], found, compacting)
            for i in range(first, end):
                if places[i] >= 0:
                    pool[places[i]] = HOLE
            tail = kept
            if compacting:
                for i in range(first, end):
                    if places[i] >= 0 and numbers[i] < kept:
                        while True:
                            place = _walk(children, root, tail // size + 1) * size + tail % size
                            tail += 1
                            if pool[place] != HOLE:
                                break
                        pool[places[i]] = pool[place]
                        if weights.shape[0]:
                            weights[places[i]] = weights[place]
            blocks, num_kept = _blocks_for(length, size), _blocks_for(kept, size)
            for number in range(blocks, num_kept, -1):
                block = _walk(children, root, number)
                queue[(back + number - num_kept - 1) % queue.shape[0]] = block
                if number > 1:
                    children[2 * _walk(children, root, number >> 1) + (number & 1)] = NONE
            back += blocks - num_kept
            if blocks > num_kept:
                lasts[row] = _walk(children, root, num_kept) if num_kept else NONE
            if num_kept == 0:
                roots[row] = NONE
            degrees[row] -= found
            written[row] = kept
        first = end


@njit(cache=True)
def _read(rows, size, written, roots, children, pool, weights, src, dst, read_weights):
    place = np.int64(0)
    for i in range(rows.shape[0]):
        row = rows[i]
        for start in range(0, written[row], size):
            base = _walk(children, roots[row], start // size + 1) * size
            for entry in range(base, base + min(size, written[row] - start)):
                if pool[entry] != HOLE:
                    src[place], dst[place] = row, pool[entry]
                    if weights.shape[0]:
                        read_weights[place] = weights[entry]
                    place += 1


def _sentinels(blocks: Blocks) -> tuple[Array, ...]:
    """Return the arrays that an update writes, in the order of the loops' arguments."""
    return (
        blocks.size, blocks.degrees, blocks.written, blocks.roots, blocks.lasts, blocks.children, blocks.pool,
        or_none(blocks.weights), blocks.queue,
    )  # fmt: skip


def find_keys(backend: Backend, blocks: Blocks, num_rows: int, src: Array, dst: Array) -> tuple[Array, Array]:
    """Find sorted and distinct keys.

    Returns
    -------
    places : array, shape (B,), int64
        Place in the pool; -1 for absent keys.
    numbers : array, shape (B,), int64
        The number of each present key's entry in its row.
    """
    places, numbers = backend.empty(src.shape[0], np.int64), backend.empty(src.shape[0], np.int64)
    _find(
        src, dst, num_rows, blocks.size, blocks.written, blocks.roots, blocks.children, blocks.pool, places, numbers
    )  # fmt: skip
    return places, numbers


def plan_append(backend: Backend, blocks: Blocks, num_rows: int, batch: EdgeBatch) -> Appending:
    """Find the keys of a batch, and count the blocks that the absent ones need."""
    places, _ = find_keys(backend, blocks, num_rows, batch.src, batch.dst)
    num_new, num_blocks = _count_appended(batch.src, places, num_rows, blocks.size, blocks.written)
    return Appending(places, int(num_new), int(num_blocks))


def append_keys(blocks: Blocks, batch: EdgeBatch, appending: Appending, add: bool) -> None:
    """Write an insertion; the queue must have the blocks. Allocates nothing."""
    weights = or_none(batch.weights)
    _append(batch.src, batch.dst, weights, appending.places, add, *_sentinels(blocks), blocks.front)


def plan_removal(backend: Backend, blocks: Blocks, num_rows: int, batch: EdgeBatch, compacting: bool) -> Removal:
    """Find the keys of a batch, and count the blocks and entries that their deletion frees.

    ``compacting``: a row's last entries fill the holes. Otherwise the holes stay until the row has no edge left.
    """
    places, numbers = find_keys(backend, blocks, num_rows, batch.src, batch.dst)
    counts = _count_removed(batch.src, places, compacting, blocks.size, blocks.degrees, blocks.written, num_rows)
    return Removal(places, numbers, *(int(count) for count in counts))


def remove_keys(blocks: Blocks, batch: EdgeBatch, removal: Removal, compacting: bool) -> None:
    """Write a deletion. Allocates nothing."""
    back = blocks.front + blocks.num_free
    _remove(batch.src, removal.places, removal.numbers, compacting, *_sentinels(blocks), back)


def read_rows(backend: Backend, blocks: Blocks, rows: Array) -> tuple[Array, Array, Array | None]:
    """Return the edges of some rows, unordered within a row."""
    total = int(blocks.degrees[rows].sum())
    src, dst = backend.empty(total, blocks.pool.dtype), backend.empty(total, blocks.pool.dtype)
    weights = None if blocks.weights is None else backend.empty(total, blocks.weights.dtype)
    _read(
        rows, blocks.size, blocks.written, blocks.roots, blocks.children, blocks.pool, or_none(blocks.weights),
        src, dst, or_none(weights),
    )  # fmt: skip
    return src, dst, weights
