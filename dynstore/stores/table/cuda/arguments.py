"""Arguments of update kernels, slots and scratch: packed once, so that a similar update finds them ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.launch import Packed
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["PackedSlots", "number_dtype", "pack_slots", "with_room", "with_weights"]


class PackedSlots(NamedTuple):
    """The arrays of slots: those for searches, those for writing edges, and columns with the bits.

    The last have weights of length 0 if there are none. ``located`` and ``inserted`` are ``searched`` and ``written``
    with the number of vertices, and ``inserted`` also with that of leaves.
    """

    searched: Packed
    located: Packed
    written: Packed
    inserted: Packed
    columns: Packed


def pack_slots(slots: SlotArrays) -> PackedSlots:
    """Return the arrays of some slots, packed once."""
    packed: PackedSlots | None = slots.packed
    if packed is None:
        searched = slots.offsets, slots.dst, slots.valid
        written = slots.src, slots.dst, slots.valid, slots.offsets
        packed = slots.packed = PackedSlots(
            Packed(*searched),
            Packed(*searched, slots.num_vertices),
            Packed(*written),
            Packed(*written, slots.num_vertices, slots.num_slots >> 5),
            Packed(*with_weights(slots.src, slots.dst, slots.weights), slots.valid),
        )
    return packed


def with_weights(src: Array, dst: Array, weights: Array | None) -> tuple[Array, Array, Array]:
    """Return columns for a kernel: weights of length 0 for none."""
    return src, dst, src[:0] if weights is None else weights


def number_dtype(count: int) -> type[np.signedinteger]:
    """Return int32 if that can number ``count`` items, else int64."""
    return np.int32 if count <= MAX_INT32 else np.int64


def with_room(count: int) -> int:
    """Return for how many rows to keep scratch: up to an eighth more, so that batches of about one size share it."""
    step = (1 << count.bit_length() >> 4) or 1
    return -(-count // step) * step
