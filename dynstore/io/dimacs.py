"""Graphs of the DIMACS challenges: shortest paths (.gr: lines "a u v weight") and colouring (.col: lines "e u v")."""

from __future__ import annotations

import re

from dynstore.errors import FileFormatError
from dynstore.io.columns import FileColumns
from dynstore.io.dialects import Dialect
from dynstore.io.events import EventTable
from dynstore.io.limits import Limits, whole_number
from dynstore.io.text import Read, read_rows

__all__ = ["read_dimacs"]

PROBLEM = re.compile(rb"(?m)^p[ \t]+(\w+)[ \t]+([0-9]+)[ \t]+([0-9]+)[ \t]*\r?$")
# Problem -> the number of fields of a row: a letter, two vertices, perhaps a weight.
WIDTHS = {"sp": 4, "edge": 3, "col": 3}


def read_dimacs(where: str, head: bytes, read: Read, weighted: bool, limits: Limits) -> EventTable:
    """Read a graph; ids are those of the file, from 1.

    ``weighted``: read the weights, of a .gr file.

    Raises
    ------
    FileFormatError
        Naming the file and the line.
    """
    found = PROBLEM.search(head)
    line = head.count(b"\n", 0, found.start()) + 1 if found else 1
    kind = found[1].decode() if found else ""
    if found is None or kind not in WIDTHS:
        raise FileFormatError(f"{where}:{line}: wanted 'p sp VERTICES EDGES' or 'p edge VERTICES EDGES'")
    width, size, entries = WIDTHS[kind], whole_number(found[2].decode()), whole_number(found[3].decode())
    if weighted and width < 4:
        raise FileFormatError(f"{where}:{line}: a graph of the problem {kind!r} has no weights")
    begin = head.find(b"\n", found.start()) + 1 or len(head)
    dialect = Dialect(None, False, ("c",), None, width, begin, line + 1)
    columns = FileColumns(1, 2, weight=3 if weighted else None)
    table = read_rows(
        where, head, read, dialect, columns, Limits(min(size, limits.max_id), limits.max_weight, min_id=1)
    )
    if len(table) != entries:
        raise FileFormatError(f"{where}:{line}: {entries} edges are announced, the file has {len(table)}")
    return table
