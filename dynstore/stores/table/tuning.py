"""Sizes from which on updates of packed memory arrays take another path: options of the store, all in one place.

What kernels are compiled with, such as the height of a window that a warp merges, stays beside these kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from dynstore.arguments import check_integer
from dynstore.config import check_share, make_options
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.typing import MAX_INT32

__all__ = ["DEFAULT_TUNING", "Tuning", "make_tuning"]


@dataclass(frozen=True)
class Tuning:
    """Where one path on CUDA ends and another one begins. The defaults are measured on an H200.

    Attributes
    ----------
    partition_rows : int
        Batches of so many rows are partitioned into the order of the slots, and have a kernel for each phase. Smaller
        insertions are one kernel. Partitioning made no difference at 1e5 rows; one kernel took as long as several at
        2.6e5.
    insert_tile_slots, delete_tile_slots : int
        Partitioned batches with a row in at most so many slots are searched by tiles. That was faster from a row in 186
        slots on for insertions (0.20 ms instead of 0.24), and from one in 91 on for deletions, which do less for each
        row (0.148 instead of 0.151).
    tile_fill : float
        They are so only up to this share of the new keys that a tile has room for, on average: some tiles have more
        rows than others.
    shared_search_rows : int
        The most rows of a deletion for which several lanes search each row together.
    scratch_slots_a_row, min_scratch_leaves : int
        Before the host knows how much scratch the windows of several leaves take, a sorted insertion or a compaction
        has some for so many slots a row, and for at least so many leaves.
    max_overflows : int
        After so many bucket overflows in a row, one insertion in 2**(max_overflows - 1) is tried unsorted.
    max_bucket_rows : int
        The most rows of an unsorted insertion: keys have up to one and a half places a row, numbered by int32.
    max_numbered : int
        The most slots and vertices for kernels that number them by int32.
    """

    partition_rows: int = 1 << 18
    insert_tile_slots: int = 180
    delete_tile_slots: int = 90
    tile_fill: float = 0.75
    shared_search_rows: int = 1 << 14
    scratch_slots_a_row: int = 8
    min_scratch_leaves: int = 1024
    max_overflows: int = 5
    max_bucket_rows: int = 1 << 30
    max_numbered: int = MAX_INT32


DEFAULT_TUNING = Tuning()
# The lowest and the highest of some: what kernels number, and an exponent of two.
BOUNDS = {"max_bucket_rows": (0, 1 << 30), "max_numbered": (0, MAX_INT32), "max_overflows": (1, 62)}


def make_tuning(caller: str, given: Any) -> Tuning:
    """Return the tuning of a store; ``given``: such an object, or a dict of those that differ from the defaults."""
    if isinstance(given, Tuning):
        return given
    caller = f"{caller}: tuning"
    if not isinstance(given, Mapping):
        raise InputTypeError(f"{caller} is a {type_name(given)}; wanted a dict of names and numbers")
    tuning = make_options(caller, Tuning, given)
    check_share(caller, "tile_fill", tuning.tile_fill, 0.0, 1e9)
    for name in (field.name for field in fields(Tuning) if field.name != "tile_fill"):
        value, (low, high) = check_integer(caller, name, getattr(tuning, name)), BOUNDS.get(name, (0, 1 << 40))
        if not low <= value <= high:
            raise InputError(f"{caller}: {name} is {value}; wanted an integer between {low} and {high}")
    return tuning
