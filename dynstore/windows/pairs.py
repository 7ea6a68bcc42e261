"""How often each pair of vertices occurs in a window: a hash table from pairs to counts."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["EMPTY", "Pairs", "Saved", "shift_of"]

EMPTY = -1  # the key of a slot without a pair
MIN_SLOTS = 64


def shift_of(keys: Array) -> int:
    """Return how far a 64-bit product is shifted right to give a slot of a table."""
    return 65 - int(keys.shape[0]).bit_length()


class Saved(NamedTuple):
    """What some slots held, to restore it."""

    slots: Array
    sums: Array | None
    latest: Array | None


@dataclass
class Pairs:
    """Linear probing over a power of two of slots.

    A pair keeps its slot when its last row leaves: its count is 0 then, and the slot is its own if it comes again.
    Pairs without rows are dropped when the table is made anew.

    Attributes
    ----------
    keys : array, shape (S,), int64
        Source and destination, 32 bits each; EMPTY in slots without a pair.
    counts : array, shape (S,), int32
        The rows of the window that name the pair.
    sums : array, shape (S,), float64, or None
        The sum of their weights.
    latest : array, shape (S,), int64 or float64, or None
        The greatest time of a row that names the pair.
    seed : int
        Changes where keys are, so that pairs cannot be chosen to collide.
    filled : int
        At most so many slots are not EMPTY.
    """

    backend: Backend
    keys: Array
    counts: Array
    sums: Array | None
    latest: Array | None
    seed: int
    filled: int = 0

    @classmethod
    def allocate(cls, backend: Backend, num_pairs: int, summed: bool, times: Any) -> Pairs:
        """Make an empty table that ``num_pairs`` pairs fill at most by half.

        ``times``: the dtype of the times that are kept, or None.
        """
        num_slots = max(MIN_SLOTS, 1 << (2 * num_pairs - 1).bit_length() if num_pairs else 0)
        keys = backend.empty(num_slots, np.int64)
        keys.fill(EMPTY)
        counts = backend.zeros(num_slots, np.int32)
        sums = backend.zeros(num_slots, np.float64) if summed else None
        latest = None
        if times is not None:
            latest = backend.empty(num_slots, times)
            latest.fill(-np.inf if latest.dtype.kind == "f" else np.iinfo(latest.dtype).min)
        return cls(backend, keys, counts, sums, latest, secrets.randbits(63))

    @property
    def num_slots(self) -> int:
        """The number of slots, a power of two."""
        return int(self.keys.shape[0])

    @property
    def kernels(self) -> Any:
        return self.backend.kernels("dynstore.windows")

    def takes(self, num_pairs: int) -> bool:
        """Return whether ``num_pairs`` can be added without filling more than 5 slots of 8."""
        return 8 * (self.filled + num_pairs) <= 5 * self.num_slots

    def enter(self, keys: Array) -> tuple[Array, Array]:
        """Count rows in.

        Parameters
        ----------
        keys : array, shape (B,), int64

        Returns
        -------
        slots : array, shape (B,), int32
            Each row's slot.
        first : array, shape (B,), bool
            Whether the row is the only one of its pair; of several at once, one is.
        """
        self.filled += int(keys.shape[0])
        slots, first = self.kernels.enter_rows(self.backend, self.keys, self.seed, self.counts, keys)
        return slots, first

    def leave(self, slots: Array) -> Array:
        """Count rows out; return whether each was the last of its pair, bool, shape (B,). Slots of -1 are skipped."""
        last: Array = self.kernels.leave_rows(self.backend, self.counts, slots)
        return last

    def readmit(self, slots: Array) -> None:
        """Take :meth:`leave` back."""
        self.backend.xp.add.at(self.counts, slots[slots >= 0], 1)

    def save(self, slots: Array) -> Saved:
        """Return what some slots hold, for :meth:`restore`; counts are not among it."""
        slots = slots[slots >= 0]
        return Saved(
            slots,
            None if self.sums is None else self.sums[slots],
            None if self.latest is None else self.latest[slots],
        )

    def restore(self, saved: Saved) -> None:
        """Write back what :meth:`save` has returned."""
        if self.sums is not None:
            self.sums[saved.slots] = saved.sums
        if self.latest is not None:
            self.latest[saved.slots] = saved.latest

    def add(self, slots: Array, weights: Array, sign: int) -> None:
        """Add the weights of rows to their pairs' sums, or subtract them; slots of -1 are skipped."""
        self.kernels.add_weights(self.backend, self.sums, slots, weights, sign)

    def drop_sums(self, slots: Array) -> None:
        """Set the sums of pairs without rows to 0, so that no rounding error stays."""
        if self.sums is not None:
            self.sums[slots] = 0.0

    def see(self, slots: Array, times: Array) -> Array:
        """Keep the latest time of each pair; return whether no earlier batch had a later row, bool, shape (B,)."""
        assert self.latest is not None
        newest: Array = times >= self.latest[slots]
        self.backend.xp.maximum.at(self.latest, slots, times)
        return newest

    def remade(self, keys: Array, more: int) -> tuple[Pairs, Array]:
        """Return a table with room for ``more`` pairs that holds those with rows, and where each slot's pair is there.

        Parameters
        ----------
        keys : array, shape (S,), int64
            The key of each slot from now on; EMPTY drops the pair.
        more : int

        Returns
        -------
        Pairs
        places : array, shape (S,), int32
            The new slot of each old one, -1 for none.
        """
        backend, xp = self.backend, self.backend.xp
        keys = xp.where(self.counts > 0, keys, EMPTY)
        held = int(xp.count_nonzero(keys >= 0))
        times = None if self.latest is None else self.latest.dtype
        twin = Pairs.allocate(backend, held + more, self.sums is not None, times)
        places = self.kernels.place_keys(backend, twin.keys, twin.seed, keys)
        old = xp.nonzero(places >= 0)[0]
        new = places[old]
        twin.counts[new] = self.counts[old]
        if self.sums is not None and twin.sums is not None:
            twin.sums[new] = self.sums[old]
        if self.latest is not None and twin.latest is not None:
            twin.latest[new] = self.latest[old]
        twin.filled = held
        return twin, places

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.keys, self.counts, self.sums, self.latest)
        return sum(int(array.nbytes) for array in arrays if array is not None)
