"""How far a call walks through dynstore's files: ``python -m tools.walks``; a line each for what users call most.

A walk is the order in which the functions of a thread are called, seen as the files that they are in. A move is a
change of file. A return is a move to a file where the walk has been before. So a reader who follows the call opens
``files`` files, and turns to another one ``moves`` times. Other libraries are not counted, nor are kernels: they are
compiled; in the simulator they are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dynstore
from tools.imports import LINKED, ROOT

PACKAGES = tuple(f"{ROOT / name}/" for name in ("dynstore", *LINKED))
KERNELS = ("k_", "d_")  # how their names begin
SIMULATOR = "cuda/simulator.py"


class Walk(NamedTuple):
    """The files of a call, in the order of their first visit, and the number of moves between them."""

    files: tuple[str, ...]
    moves: int

    @property
    def returns(self) -> int:
        """How many moves led to a file where the walk had been before."""
        return self.moves - len(self.files)


@cache  # a kernel that is compiled meanwhile makes millions of calls
def _file_of(name: str) -> str:
    """Return the file of dynstore that a name leads to, from the root; "" for all others."""
    path = str(Path(name).resolve()) if name.startswith(f"{ROOT}/") else ""
    return "" if not path.startswith(PACKAGES) or path.endswith(SIMULATOR) else path.removeprefix(f"{ROOT}/")


def walk_of(call: Callable[[], Any]) -> Walk:
    """Call a function, and return how its thread walked through the files of dynstore."""
    files: dict[str, None] = {}
    moves, last = 0, ""

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal moves, last
        code = frame.f_code
        if event != "call" or code.co_name.startswith(KERNELS):
            return
        path = _file_of(code.co_filename)
        if path and path != last:
            moves, last = moves + 1, path
            files[path] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return Walk(tuple(files), moves)


def list_walks() -> dict[str, Walk]:
    """Walk through what users call most, on the host, the second time: what a first call loads is not counted."""
    found = {}
    G = dynstore.DynamicGraph(device="cpu")
    G.insert_edges(tuple(np.arange(200).reshape(2, 100)))
    for number in range(2):
        edges = (np.array([number, number]), np.array([50, 60]))
        found["insert_edges"] = walk_of(partial(G.insert_edges, edges))
        found["has_edges"] = walk_of(partial(G.has_edges, edges))
        found["neighbors"] = walk_of(partial(G.neighbors, number))
        found["bfs"] = walk_of(partial(dynstore.bfs, G, number))
        found["delete_edges"] = walk_of(partial(G.delete_edges, edges))
    return found


def main() -> None:
    """Print a line for each walk."""
    print(f"{'':14s}{'files':>7s}{'moves':>7s}{'returns':>9s}")
    for name, walk in list_walks().items():
        print(f"{name:14s}{len(walk.files):7d}{walk.moves:7d}{walk.returns:9d}")


if __name__ == "__main__":
    main()
