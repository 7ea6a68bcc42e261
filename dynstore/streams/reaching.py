"""Where the rows of a window begin in a source: from there they are read again after a restart."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from dynstore.errors import InputError
from dynstore.streams.journal import Start, find_journal, pack, unpack
from dynstore.streams.pending import Position

if TYPE_CHECKING:
    from dynstore.streams.applying import Ready
    from dynstore.windows.window import Window

__all__ = ["Reach", "resume"]


class Reach:
    """How far back the rows of a window lie in the source: the positions before its batches.

    A window by count with a step has none: which rows it holds depends on the first row that it ever had.

    Parameters
    ----------
    window : Window
    before : Start or None
        Of the rows that the window has.
    newest : int or float, or None
        The newest time so far.
    again : int
        How many rows are read again before the window is whole.
    """

    def __init__(self, window: Window, before: Start | None, newest: int | float | None, again: int = 0) -> None:
        self._window, self._total = window, len(window)
        self._known = (window.by == "time" or window.step is None) and not (len(window) and before is None)
        self._newest, self._again = newest, again
        # The newest time, or the number of all rows; what is before; and how many rows had arrived there.
        self._batches: deque[tuple[Any, Start, int]] = deque()
        if len(window) and before is not None:
            self._batches.append((newest if window.by == "time" else self._total, before, -before.read))

    def take_in(self, ready: Ready) -> Start | None:
        """Return where the rows will begin once the window has a batch; None if that is not known."""
        if not self._known:
            return None
        # Rows before the first one do no harm: they leave again. A source with parts may give them in another order.
        taken, begins = ready.taken, ready.taken.begins
        before = Start(Position(begins.source, 0, begins.whole), self._newest)
        arrived = taken.upto - len(taken) - begins.skip
        self._newest = ready.newest
        if self._window.by == "time":
            if ready.rows and ready.entered is not None:
                self._batches.append((ready.entered, before, arrived))
            gone = None if ready.entered is None else self._window.horizon.bound(ready.entered)
        else:
            self._total += ready.rows
            self._batches.append((self._total, before, arrived))
            gone = self._total - self._window.length
        while gone is not None and self._batches and self._batches[0][0] <= gone:
            self._batches.popleft()
        if self._batches:
            _, before, arrived = self._batches[0]
        return before._replace(rows=max(taken.upto, self._again) - arrived, read=taken.upto - arrived)


def resume(G: Any, window: Window | None) -> tuple[Position, Any, Start | None, int] | None:
    """Return where a stream goes on, or None if anywhere.

    Also the newest time before, where the rows in its window begin, and how many rows of it are to be read again.

    The rows of a window that is new are read again; those of a multigraph's are the graph's edges. The graph is emptied
    for them, in the same record of the log in which the stream goes back: so a crash leaves the one or the other.

    Raises
    ------
    InputError
        If the graph has edges, and it is not known which rows they are of.
    """
    journal = find_journal(G)
    if journal is None:
        return None
    record = journal.position
    position, newest, reach = (None, None, None) if record is None else unpack(record)
    if window is None or window.rule is not None or len(window):
        return None if position is None else (position, newest, reach, 0 if reach is None else reach.rows - reach.read)
    if window.is_behind and reach is None:
        raise InputError(
            f"Stream: the graph of the database has {G.number_of_edges()} edges, but no position where the rows of a "
            "window begin; wanted a graph that a stream with a window has filled, or an empty one: see clear()"
        )
    if reach is None:
        return None if position is None else (position, newest, None, 0)
    if window.is_behind:
        with journal.positioned(pack(reach.position, reach.newest, reach._replace(read=0))):
            G.clear()
    return reach.position, reach.newest, None, reach.rows
