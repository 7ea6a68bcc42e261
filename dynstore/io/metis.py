"""Graphs as METIS and the 10th DIMACS challenge write them: a line for each vertex, its neighbours, 1-based."""

from __future__ import annotations

import re

import numpy as np

from dynstore.errors import FileFormatError
from dynstore.io.events import EventTable
from dynstore.io.limits import whole_number

__all__ = ["read_metis"]

COMMENT = re.compile(rb"(?m)^%[^\n]*\n?")
FOREIGN = re.compile(rb"[^0-9 \t\r\n]")
# The header's third number -> numbers per neighbour in the lines
FORMATS = {"": 1, "0": 1, "00": 1, "000": 1, "1": 2, "01": 2, "001": 2}


def read_metis(where: str, data: bytes, max_id: int) -> EventTable:
    """Read a ``.graph`` file: its first line has vertices, edges and format; each edge is listed at both ends.

    Vertex numbers become ids from 0; weights of edges are read, weights of vertices refused.

    Raises
    ------
    FileFormatError
        Names the file and, if there is one, the faulty line.
    """
    comments = sum(1 for _ in COMMENT.finditer(data))
    body = COMMENT.sub(b"", data) if comments else data
    foreign = FOREIGN.search(body)
    if foreign is not None:
        line = body.count(b"\n", 0, foreign.start()) + 1
        got = body[foreign.start() : foreign.start() + 20].split()[0].decode(errors="replace")
        place = where if comments else f"{where}:{line}"
        raise FileFormatError(f"{place}: {got!r} is not a whole number")
    head, _, body = body.partition(b"\n")
    words = head.decode().split()
    if not 2 <= len(words) <= 3 or (words[2:] or [""])[0] not in FORMATS:
        raise FileFormatError(f"{where}: the header is {head.decode()[:60]!r}; wanted 'VERTICES EDGES [0 or 1]'")
    num_vertices, num_edges = map(whole_number, words[:2])
    width = FORMATS[(words[2:] or [""])[0]]
    if num_vertices - 1 > max_id:
        raise FileFormatError(f"{where}: {num_vertices} vertices; wanted at most {max_id + 1}")
    values, counts = _read_lines(where, body, num_vertices)
    if (counts % width).any() or values.shape[0] != 2 * num_edges * width:
        raise FileFormatError(
            f"{where}: {num_edges} edges are announced, {2 * num_edges * width} numbers of neighbours; "
            f"the file has {values.shape[0]}"
        )
    dst = values[::width] - 1
    if dst.shape[0] and (int(dst.min()) < 0 or int(dst.max()) >= num_vertices):
        raise FileFormatError(f"{where}: a neighbour is outside of 1 to {num_vertices}")
    src = np.repeat(np.arange(num_vertices, dtype=np.int64), counts // width)
    return EventTable(src, dst, weight=values[1::2].astype(np.float64) if width == 2 else None, name=where)


def _read_lines(where: str, body: bytes, num_vertices: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all numbers, and the count of numbers in each line."""
    letters = np.frombuffer(body, np.uint8)
    inside = letters > ord(" ")
    first = inside.copy()
    first[1:] &= ~inside[:-1]
    ends = np.flatnonzero(letters == ord("\n"))
    if num_vertices and ends.shape[0] == num_vertices - 1:  # the last line has no line end
        ends = np.append(ends, letters.shape[0])
    if ends.shape[0] < num_vertices:
        raise FileFormatError(f"{where}: {num_vertices} vertices are announced, the file has {ends.shape[0]} lines")
    values = np.fromstring(body, np.int64, sep=" ") if first.any() else np.empty(0, np.int64)
    counts = np.diff(np.searchsorted(np.flatnonzero(first), ends[:num_vertices]), prepend=0)
    return values, counts
