"""Validity bits: one bit a slot in uint32 words, lowest bit first, padded to 64 bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["full_words", "list_bits", "pack_bits", "set_first_bits", "unpack_bits", "words_for"]

WORDS_PER_LINE = 16


def words_for(num_slots: int) -> int:
    """Return how many uint32 words hold ``num_slots`` bits, padded to whole 64-byte lines."""
    lines = -(-num_slots // (32 * WORDS_PER_LINE))
    return max(1, lines) * WORDS_PER_LINE


def unpack_bits(backend: Backend, words: Array, num_slots: int) -> Array:
    """Return a bool array, shape (num_slots,)."""
    bits = backend.xp.unpackbits(words.view(np.uint8), bitorder="little")
    return bits[:num_slots].view(np.bool_)


def pack_bits(backend: Backend, mask: Array) -> Array:
    """Return the padded uint32 words of a bool array."""
    words = backend.zeros(words_for(mask.shape[0]), np.uint32)
    packed = backend.xp.packbits(mask, bitorder="little")
    words.view(np.uint8)[: packed.shape[0]] = packed
    return words


def full_words(backend: Backend, num_slots: int) -> Array:
    """Return the words of ``num_slots`` set bits; the bits past them are 0."""
    words = backend.zeros(words_for(num_slots), np.uint32)
    set_first_bits(words, num_slots)
    return words


def list_bits(backend: Backend, words: Array) -> Array:
    """Return the numbers of the set bits, ascending, int64; takes time for the words, and for bits of words not 0."""
    chosen: Array = backend.xp.nonzero(words)[0]
    if not chosen.shape[0]:
        return chosen
    places = backend.xp.nonzero(unpack_bits(backend, words[chosen], 32 * int(chosen.shape[0])))[0]
    bits: Array = (chosen[places >> 5] << 5) + (places & 31)
    return bits


def set_first_bits(words: Array, num_slots: int) -> None:
    """Set the first ``num_slots`` bits and clear all others, in place."""
    whole, rest = divmod(num_slots, 32)
    words[:whole] = np.uint32(0xFFFFFFFF)
    words[whole:] = 0
    if rest:
        words[whole] = np.uint32((1 << rest) - 1)
