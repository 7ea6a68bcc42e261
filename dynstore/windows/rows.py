"""The rows of a window, oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Rows"]

SPARE = 1.5


class Rows:
    """A queue of rows: columns of equal length, of which ``size`` rows from ``head`` on are in the window.

    New rows come at the end. When the columns are full, the rows of the window move to their beginning, or to larger
    columns.

    Parameters
    ----------
    backend : Backend
    dtypes : dict
        Name and dtype of each column: "slots", int32; "times" and "weights" where the window needs them.
    """

    def __init__(self, backend: Backend, dtypes: dict[str, Any]) -> None:
        self.backend = backend
        self.columns = {name: backend.empty(0, dtype) for name, dtype in dtypes.items()}
        self.head = self.size = 0

    def column(self, name: str, low: int = 0, high: int | None = None) -> Array:
        """Return rows ``low`` to ``high`` (exclusive) of a column, counted from the oldest; a view."""
        high = self.size if high is None else high
        return self.columns[name][self.head + low : self.head + high]

    def _reserve(self, more: int) -> None:
        """Make room for ``more`` rows at the end."""
        capacity = int(self.columns["slots"].shape[0])
        if self.head + self.size + more <= capacity:
            return
        if capacity < SPARE * (self.size + more):
            capacity = int(SPARE * SPARE * (self.size + more)) + 1
        fresh = {name: self.backend.empty(capacity, column.dtype) for name, column in self.columns.items()}
        for name in fresh:
            fresh[name][: self.size] = self.column(name)
        self.columns, self.head = fresh, 0

    def plan_append(self, new: dict[str, Array]) -> dict[str, Array]:
        """Return the columns of the rows that an addition writes to the end, and make room for them.

        With times, both the rows here and the new ones must ascend. These are then the new rows, merged with the rows
        here that are later than the first of them.
        """
        self._reserve(int(new["slots"].shape[0]))
        if not ("times" in new and self.size and new["slots"].shape[0]):
            return new
        xp, times = self.backend.xp, self.column("times")
        low = int(xp.searchsorted(times, new["times"][:1], side="right")[0])
        if low == self.size:
            return new
        parts = {name: xp.concatenate((self.column(name, low), new[name])) for name in new}
        order = xp.argsort(parts["times"], kind="stable")  # of equal times, the new ones come last
        return {name: part[order] for name, part in parts.items()}

    def append(self, planned: dict[str, Array], count: int) -> None:
        """Add ``count`` rows, as :meth:`plan_append` has planned."""
        self.size += count
        low = self.size - int(planned["slots"].shape[0])
        for name, part in planned.items():
            self.column(name, low)[:] = part

    def drop(self, count: int) -> None:
        """Forget the oldest rows."""
        self.head += count
        self.size -= count

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(int(column.nbytes) for column in self.columns.values())
