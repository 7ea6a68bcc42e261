"""How kernels of updates are passed slots and scratch, so that an update like the last one finds all packed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dynstore._cuda.launching import Packed

if TYPE_CHECKING:
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["PackedSlots", "pack_slots", "with_room", "with_weights"]


class PackedSlots(NamedTuple):
    """The arrays of slots: those that a search reads, those that writing edges takes, and columns with the bits.

    Where there are no weights, the last have some of length 0.
    """

    searched: Packed
    written: Packed
    columns: Packed


def pack_slots(slots: SlotArrays) -> PackedSlots:
    """Return the arrays of some slots, packed once."""
    packed = slots.packed
    if packed is None:
        packed = slots.packed = PackedSlots(
            Packed(slots.offsets, slots.dst, slots.valid),
            Packed(slots.src, slots.dst, slots.valid, slots.offsets),
            Packed(*with_weights(slots.src, slots.dst, slots.weights), slots.valid),
        )
    return packed


def with_weights(src: Array, dst: Array, weights: Array | None) -> tuple[Array, Array, Array]:
    """Return columns for a kernel: weights of length 0 for none."""
    return src, dst, src[:0] if weights is None else weights


def with_room(count: int) -> int:
    """Return for how many rows scratch is kept: up to an eighth more, so that batches of about one size share it."""
    step = 1 << max(count.bit_length() - 4, 0)
    return -(-count // step) * step
