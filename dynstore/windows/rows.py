"""The rows of a window, oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["RowQueue"]

SPARE = 1.5


class RowQueue:
    """A queue of rows: columns of equal length, of which ``size`` rows from ``head`` on are in the window.

    New rows come at the end. When the columns are full, the rows of the window move to their beginning, or to larger
    columns. A slide writes its rows to the room behind the last row; they are in the window once it is committed.

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

    def room(self, name: str, count: int) -> Array:
        """Return the room for ``count`` rows behind the last one of a column, which is reserved; a view."""
        return self.column(name, self.size, self.size + count)

    def reserve(self, more: int) -> None:
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

    def plan_order(self, count: int) -> dict[str, Array]:
        """Return what an addition of ``count`` rows, which are in the room, writes to the end to keep times in order.

        Both the rows here and the new ones ascend. If some rows here are later than the first new one, these columns
        hold such rows and the new ones, merged; else there are none.
        """
        if not ("times" in self.columns and self.size and count):
            return {}
        xp, total = self.backend.xp, self.size + count
        low = int(xp.searchsorted(self.column("times"), self.room("times", 1), side="right")[0])
        if low == self.size:
            return {}
        order = xp.argsort(self.column("times", low, total), kind="stable")  # of equal times, the new ones come last
        return {name: self.column(name, low, total)[order] for name in self.columns}

    def append(self, planned: dict[str, Array], count: int) -> None:
        """Add the ``count`` rows in the room, in the planned order."""
        self.size += count
        for name, part in planned.items():
            self.column(name, self.size - int(part.shape[0]))[:] = part

    def drop(self, count: int) -> None:
        """Forget the oldest rows."""
        self.head += count
        self.size -= count

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(int(column.nbytes) for column in self.columns.values())
