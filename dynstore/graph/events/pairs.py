"""The pairs of vertices that have events: a record each, and a hash table of the records' numbers.

The store of the graph has the number of its record beside each pair. So an event of a known pair writes to its record
alone.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import LimitError
from dynstore.graph.events.layout import COUNT, EMPTY, KEY, STATE, FreeRecords, RecordArrays
from dynstore.ids.hash_table import is_crowded, pair_keys, shift_of, slots_for
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["PairRecords"]

MIN_RECORDS = 32
GROWTH = 1.25


@dataclass
class PairRecords:
    """The pairs with events.

    Attributes
    ----------
    records, cells
        See :class:`~dynstore.graph.events.layout.RecordArrays`.
    free : array, int32
        Records that no pair has: the first ``num_free`` of them.
    used : int
        So many of the first records have, or had, a pair.
    filled : int
        At most so many cells are not EMPTY.
    waiting : list of arrays, int32
        Records of pairs that have no events, and that a pin may show.
    """

    backend: Backend
    records: Array
    cells: Array
    free: Array
    seed: int
    num_free: int = 0
    used: int = 0
    filled: int = 0
    waiting: list[Array] = field(default_factory=list)

    @classmethod
    def allocate(cls, backend: Backend, width: int, num_pairs: int = 0) -> PairRecords:
        """Make an empty table with room for ``num_pairs``; ``width``: the columns of a record."""
        records = backend.empty((max(num_pairs, MIN_RECORDS), width), np.int64)
        return cls(backend, records, _cells(backend, num_pairs), backend.empty(0, np.int32), secrets.randbits(63))

    @property
    def num_pairs(self) -> int:
        """How many pairs there are."""
        return self.used - self.num_free - sum(int(numbers.shape[0]) for numbers in self.waiting)

    @property
    def arrays(self) -> RecordArrays:
        """What kernels take."""
        shift, sums = shift_of(self.cells.shape[0]), self.records.view(np.float64)
        return RecordArrays(self.cells, shift, self.seed, self.records, sums)

    @property
    def fresh(self) -> FreeRecords:
        """What new pairs get."""
        return FreeRecords(self.free, self.num_free, self.used)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return int(self.records.nbytes + self.cells.nbytes + self.free.nbytes)

    def reserve(self, more: int) -> None:
        """Have room for ``more`` pairs.

        Raises
        ------
        OutOfMemoryError, LimitError
            The table is as it was.
        """
        wanted = self.used + max(more - self.num_free, 0)
        if wanted > MAX_INT32:
            raise LimitError(f"multigraph: {wanted} pairs of vertices; a graph has at most {MAX_INT32}")
        if wanted > self.records.shape[0]:
            size = min(max(wanted, int(GROWTH * self.used)), MAX_INT32)
            grown = self.backend.empty((size, self.records.shape[1]), np.int64)
            grown[: self.used] = self.records[: self.used]
            self.records = grown
        if is_crowded(self.cells.shape[0], self.filled + more):
            cells = _cells(self.backend, self.num_pairs + more)
            self.cells, self.filled = cells, self.num_pairs
            self.kernels.place_records(self.arrays, self.held())

    def held(self) -> Array:
        """Return the numbers of the records that have a pair, int32, ascending."""
        xp = self.backend.xp
        if not self.num_free and not self.waiting:
            return xp.arange(self.used, dtype=np.int32)
        is_free = self.backend.zeros(self.used, np.bool_)
        for numbers in (self.free[: self.num_free], *self.waiting):
            is_free[numbers] = True
        return xp.nonzero(~is_free)[0].astype(np.int32)

    def take(self, count: int) -> None:
        """Note that ``count`` pairs got records: first those that were free, from the last one down."""
        of_free = min(count, self.num_free)
        self.num_free -= of_free
        self.used += count - of_free
        self.filled += count

    def plan_release(self, numbers: Array, is_shown: bool) -> Callable[[], None]:
        """Plan to take pairs without events out of the table; return the commit.

        Their records are free then. If a pin may show them (``is_shown``), they wait until :meth:`free_waiting`.
        """
        remove = self.backend.prepare(self.kernels.remove_records, self.arrays, numbers)
        count = int(numbers.shape[0])
        if not is_shown:
            self._make_room(count)

        def commit() -> None:
            remove()
            if is_shown:
                self.waiting.append(numbers)
            else:
                self._free(numbers)

        return commit

    def free_waiting(self) -> None:
        """Free the records that wait for that."""
        self._make_room(sum(int(numbers.shape[0]) for numbers in self.waiting))
        while self.waiting:
            self._free(self.waiting.pop())

    def _make_room(self, more: int) -> None:
        wanted = self.num_free + more
        if wanted > self.free.shape[0]:
            free = self.backend.empty(int(GROWTH * wanted) + 1, np.int32)
            free[: self.num_free] = self.free[: self.num_free]
            self.free = free

    def _free(self, numbers: Array) -> None:
        count = int(numbers.shape[0])
        self.free[self.num_free : self.num_free + count] = numbers
        self.num_free += count

    def counts(self, numbers: Array) -> Array:
        """Return how many events pairs have, int64."""
        return self.records[numbers, STATE] & COUNT

    def ends(self, numbers: Array) -> tuple[Array, Array]:
        """Return the pairs of records: source and destination, int32; of an undirected pair, the lower number first."""
        ends: tuple[Array, Array] = self.kernels.read_ends(self.backend, self.arrays, numbers)
        return ends

    def renumbered(self, ranks: Array, directed: bool, fresh: Array) -> PairRecords:
        """Return a table of the same records for other numbers of vertices; ``fresh``: some that are not taken yet."""
        xp, records = self.backend.xp, self.records.copy()
        numbers = xp.concatenate((self.held(), fresh))
        src, dst = (ranks[end] for end in self.ends(numbers))
        records[numbers, KEY] = pair_keys(xp, src, dst, directed)
        cells, filled = _cells(self.backend, int(numbers.shape[0])), self.num_pairs
        state = self.seed, self.num_free, self.used, filled, list(self.waiting)
        twin = PairRecords(self.backend, records, cells, self.free.copy(), *state)
        self.kernels.place_records(twin.arrays, numbers)
        return twin

    def copy(self) -> PairRecords:
        """Return an independent copy."""
        arrays = self.records.copy(), self.cells.copy(), self.free.copy()
        return PairRecords(self.backend, *arrays, self.seed, self.num_free, self.used, self.filled, list(self.waiting))

    @property
    def kernels(self) -> Any:
        """Those of pairs."""
        return self.backend.kernels("dynstore.graph.events", "pairs")


def _cells(backend: Backend, num_pairs: int) -> Array:
    """Return cells that so many pairs fill at most by half."""
    return backend.full(slots_for(num_pairs), EMPTY, np.int32)
