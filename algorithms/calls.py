"""The last call on a graph and the path that it took, for ``dynstore.explain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

__all__ = ["Call", "CallPath", "last_call", "note_call"]

CallPath: TypeAlias = Literal["own kernel", "borrowed", "rebuilt"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes
    ----------
    name : str
        The called function, such as "bfs".
    path : {"own kernel", "borrowed", "rebuilt"}
        dynstore's kernels; cuGraph's kernels over dynstore's rows; cuGraph's kernels on a graph that it built from
        them.
    version : int or None
        The graph's version that it ran on; None for a graph of cuGraph's own.
    copied : str
        What the call copied.
    copied_bytes : int
    reason : str
        Why it took this path.
    """

    name: str
    path: CallPath
    version: int | None
    copied: str
    copied_bytes: int = 0
    reason: str = ""

    def __str__(self) -> str:
        where = "" if self.version is None else f" on version {self.version}"
        size = f" ({self.copied_bytes / 1e6:.1f} MB)" if self.copied_bytes else ""
        why = f"; {self.reason}" if self.reason else ""
        return f"{self.name}{where}: {self.path}; copied: {self.copied}{size}{why}"


_calls: WeakKeyDictionary[Any, Call] = WeakKeyDictionary()


def note_call(G: Any, call: Call) -> None:
    """Record ``call`` as the last one on ``G``, as long as ``G`` lives."""
    _calls[G] = call


def last_call(G: Any) -> Call | None:
    """Return the last call on ``G``, or None."""
    return _calls.get(G)
