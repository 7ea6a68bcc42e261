"""How much the log has grown: when a checkpoint is due.

What matters is how long opening the folder takes, which bytes do not tell: a gigabyte of one-row updates takes half an
hour to repeat. So the time of the updates is measured, too. It tells more than numbers of records and rows do: what an
update takes depends on its kind, on the store, on the graph's size and on the machine.
"""

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from dynstore.compilations import compilations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CHECKPOINT_SECONDS", "LogGrowth", "working_time"]

# Opening a folder is to take less than 10 s beside reading the checkpoint. On two cores of a Xeon, repeating updates
# took 0.08 to 1.38 of the time that making them had taken: one-row insertions 0.08 (they are put together), one-row
# expiries of a million edges 1.1, 100,000 rows with times 1.38. Half of the 10 s is left for what is logged while the
# checkpoint is written. In records, 5 s were 11,000 one-row insertions of new ids, in rows 3 to 40 million.
CHECKPOINT_SECONDS = 5.0
# An update that begins a checkpoint copies the graph first; all others together have to take so many times as long.
COPY_SHARE = 10


class LogGrowth:
    """The bytes and the time of the updates since the last checkpoint began.

    Parameters
    ----------
    most_bytes : int
    most_seconds : float

    Attributes
    ----------
    bytes : int
    seconds : float
        Without compiling, and without waiting for the disk.
    """

    def __init__(self, most_bytes: int, most_seconds: float) -> None:
        self.most_bytes, self.most_seconds = most_bytes, most_seconds
        self.bytes, self.seconds = 0, 0.0
        self._copying = 0.0  # how long copying the graph took last
        self._began = 0.0

    def begin(self) -> None:
        """Note that an update begins."""
        self._began = working_time()

    def leave_out(self, wait: Callable[[], None]) -> None:
        """Wait for something that is no part of the update."""
        before = working_time()
        try:
            wait()
        finally:
            self._began += working_time() - before

    def add(self, size: int) -> None:
        """Note that the update was made, and the bytes of its record."""
        self.bytes += size
        self.seconds += max(0.0, working_time() - self._began)

    def go_on(self, size: int, seconds: float) -> None:
        """Count the updates that opening the folder has made anew: the next opening would make them anew, too."""
        self.bytes, self.seconds = size, seconds

    def is_due(self) -> bool:
        """Whether a checkpoint should begin."""
        if self.bytes >= self.most_bytes:
            return True
        return self.seconds >= self.most_seconds and self.seconds >= COPY_SHARE * self._copying

    @contextmanager
    def restarted(self) -> Iterator[None]:
        """Note that a checkpoint begins; the block copies the graph."""
        self.bytes, self.seconds, before = 0, 0.0, working_time()
        yield
        self._copying = max(0.0, working_time() - before)


def working_time() -> float:
    """Return a time in seconds that stands still while kernels are compiled."""
    return perf_counter() - compilations.seconds
