"""The lock under which a read makes what it needs."""

from __future__ import annotations

from threading import RLock
from typing import Any

__all__ = ["Lock"]


class Lock:
    """A re-entrant lock; a copy or pickle of it is another lock, which nothing holds.

    Several threads may read a graph at once, but some of what they read is made only when something first reads it.
    The thread that makes it holds a lock; the others wait, and then find it made. Code that makes such a thing does
    three steps: look whether it is there, take the lock, look again. It stores the finished thing last, because
    threads that find it there take no lock.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, ()
