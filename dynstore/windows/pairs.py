"""How often each pair of vertices occurs in a window: a hash table from pairs to counts."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.ids.hash_table import is_crowded, slots_for
from dynstore.typing import MAX_INT32
from dynstore.windows.pair_table import EMPTY, PairTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.typing import Array
    from dynstore.windows.moves import Counts, Moves

__all__ = ["EMPTY", "Pairs"]


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
    sums : array, shape (S, 2), float64, or None
        The sum of their weights: what float64 holds of it, and what is left over.
    latest : array, shape (S,), int64 or float64, or None
        The greatest time of a row that names the pair.
    marks : array, shape (S,), int32, or None
        The last slide that has listed the pair; with counts or sums as weights.
    seed : int
        Changes where keys are, so that pairs cannot be chosen to collide.
    filled : int
        At most so many slots are not EMPTY.
    slides : int
        The number of the last slide, for marks.
    signed : bool
        Whether a weight was negative. Else no sum is, so one that a rounding error makes negative is 0.
    """

    backend: Backend
    keys: Array
    counts: Array
    sums: Array | None
    latest: Array | None
    marks: Array | None
    seed: int
    filled: int = 0
    slides: int = 0
    signed: bool = False

    @classmethod
    def allocate(cls, backend: Backend, num_pairs: int, summed: bool, times: Any, marked: bool) -> Pairs:
        """Make an empty table that ``num_pairs`` pairs fill at most by half.

        ``times``: the dtype of the times that are kept, or None; ``marked``: whether there are marks.
        """
        num_slots = slots_for(num_pairs)
        keys = backend.empty(num_slots, np.int64)
        keys.fill(EMPTY)
        counts = backend.zeros(num_slots, np.int32)
        sums = backend.zeros((num_slots, 2), np.float64) if summed else None
        latest = None
        if times is not None:
            latest = backend.empty(num_slots, times)
            latest.fill(-np.inf if latest.dtype.kind == "f" else np.iinfo(latest.dtype).min)
        marks = backend.zeros(num_slots, np.int32) if marked else None
        return cls(backend, keys, counts, sums, latest, marks, secrets.randbits(63))

    @property
    def num_slots(self) -> int:
        """The number of slots, a power of two."""
        return int(self.keys.shape[0])

    @property
    def table(self) -> PairTable:
        """The table as the kernels of a slide take it."""
        nothing = self.backend.nothing(np.float64)
        sums = nothing.reshape(0, 2) if self.sums is None else self.sums
        latest = nothing if self.latest is None else self.latest
        marks = self.backend.nothing(np.int32) if self.marks is None else self.marks
        held = latest.reshape(-1, 1) if self.sums is None else sums
        return PairTable(self.keys, self.counts, held, sums, latest, marks, self.signed, self.seed, self.slides)

    @property
    def kernels(self) -> Any:
        return self.backend.kernels("dynstore.windows")

    def takes(self, num_pairs: int) -> bool:
        """Return whether ``num_pairs`` can be added without crowding the table."""
        return not is_crowded(self.num_slots, self.filled + num_pairs)

    def start(self, moves: Moves) -> tuple[Callable[[], Counts], Callable[[], None]]:
        """Start to count the rows of a slide in and out; return functions that read the counts, and take all back."""
        if self.slides == MAX_INT32 and self.marks is not None:
            self.marks.fill(0)
        self.slides = self.slides % MAX_INT32 + 1
        read, take_back = self.kernels.start_moves(self.backend, self.table, moves)
        number = int(moves.slots.shape[0])
        self.filled += number

        def read_found() -> Counts:
            found: Counts = read()
            self.filled += found.first - number  # the pairs of all other rows were there
            return found

        return read_found, take_back

    def later(self, slots: Array, times: Array) -> Pairs:
        """Return the table with other latest times in some slots; all other arrays are its own."""
        assert self.latest is not None
        latest = self.latest.copy()
        latest[slots] = times
        return replace(self, latest=latest)

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
        twin = Pairs.allocate(backend, held + more, self.sums is not None, times, self.marks is not None)
        places = self.kernels.place_keys(backend, twin.keys, twin.seed, keys)
        old = xp.nonzero(places >= 0)[0]
        new = places[old]
        twin.counts[new] = self.counts[old]
        if self.sums is not None and twin.sums is not None:
            twin.sums[new] = self.sums[old]
        if self.latest is not None and twin.latest is not None:
            twin.latest[new] = self.latest[old]
        twin.filled, twin.signed = held, self.signed
        return twin, places

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.keys, self.counts, self.sums, self.latest, self.marks)
        return sum(int(array.nbytes) for array in arrays if array is not None)
