"""Finds the caller that requests a live graph's C++ graph: ``Graph.__getattr__`` passes no hint, so use the stack."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["PULLING", "Caller"]

# cuGraph's modules whose algorithms pull over in-edges; all others need out-edges. If the wrong rows are lent, the C
# API transposes them in its copy: that costs time, but does not change results.
PULLING = ("pagerank", "hits", "katz_centrality", "eigenvector_centrality")
STRUCTURE = "cugraph.structure."
OURS = "dynstore.adapters."


@dataclass(frozen=True, slots=True)
class Caller:
    """The nearest caller outside dynstore's adapters, seen through cuGraph's graph classes.

    Attributes
    ----------
    name : str
        Such as "bfs".
    pulls : bool
        Whether it needs in-edges.
    passing : tuple or None
        The frame of ``Graph.__getattr__`` and the place in it, if the request came through it: it calls ``hasattr``,
        then ``getattr``.
    """

    name: str
    pulls: bool
    passing: tuple[int, int] | None

    @classmethod
    def find(cls, frame: FrameType | None = None) -> Caller:
        """Search the stack upwards, by default from the caller on."""
        frame = frame or sys._getframe(1)
        name, passing = "a call", None
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            function = frame.f_code.co_name
            if module.startswith(STRUCTURE):
                if function == "__getattr__":
                    passing = passing or (id(frame), frame.f_lasti)
                else:
                    name = function
            elif not module.startswith(OURS):
                package, _, last = module.rpartition(".")
                if package.split(".")[0] != "cugraph":
                    return cls(name, False, passing)
                # The names of helpers begin with an underscore; the module's name is clearer.
                return cls(last if function.startswith("_") else function, last in PULLING, passing)
            frame = frame.f_back
        return cls(name, False, passing)

    @property
    def asks_twice(self) -> bool:
        """Whether the same request will follow at once."""
        return self.passing is not None

    def follows(self, first: Caller) -> bool:
        """Whether this is the second half of ``first``'s request."""
        if self.passing is None or first.passing is None:
            return False
        return self.passing[0] == first.passing[0] and self.passing[1] > first.passing[1]
