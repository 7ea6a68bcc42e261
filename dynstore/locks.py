"""The lock under which a read makes what it needs."""

from __future__ import annotations

from _thread import RLock
from typing import Any

__all__ = ["Lock"]


class Lock(RLock):  # type: ignore[misc]  # final for mypy, not for Python
    """A re-entrant lock; a copy or pickle of it is another lock, which nothing holds.

    Several threads may read a graph at once, but some of what they read is made only when something first reads it.
    The thread that makes it holds a lock; the others wait, and then find it made. Code that makes such a thing does
    three steps: look whether it is there, take the lock, look again. It stores the finished thing last, because
    threads that find it there take no lock.

    It is taken and given back by C. A signal's handler may raise within a method of Python, and the lock would stay
    held.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, ()
