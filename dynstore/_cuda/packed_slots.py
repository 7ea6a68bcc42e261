"""How kernels of updates are passed slots and scratch, so that an update like the last one finds all packed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dynstore._cuda.launching import Packed

if TYPE_CHECKING:
    from dynstore.slots import SlotArrays

__all__ = ["PackedSlots", "pack_slots", "with_room"]


class PackedSlots(NamedTuple):
    """The arrays of slots without weights: those that a search reads, and those that writing edges takes."""

    searched: Packed
    written: Packed


def pack_slots(slots: SlotArrays) -> PackedSlots:
    """Return the arrays of some slots, packed once."""
    packed = slots.packed
    if packed is None:
        packed = slots.packed = PackedSlots(
            Packed(slots.offsets, slots.dst, slots.valid), Packed(slots.src, slots.dst, slots.valid, slots.offsets)
        )
    return packed


def with_room(count: int) -> int:
    """Return for how many rows scratch is kept: up to an eighth more, so that batches of about one size share it."""
    step = 1 << max(count.bit_length() - 4, 0)
    return -(-count // step) * step
