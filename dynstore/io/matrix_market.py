"""Matrix Market coordinate files: adjacency matrices, 1-based."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynstore.errors import FileFormatError, InputError
from dynstore.io.columns import FileColumns
from dynstore.io.dialects import Dialect
from dynstore.io.events import EventTable
from dynstore.io.limits import Limits, whole_number
from dynstore.io.text import Read, read_rows
from dynstore.io.text_rows import shorten

__all__ = ["read_matrix_market"]

BANNER = "%%matrixmarket"
FIELDS = {"pattern": 2, "real": 3, "integer": 3, "unsigned-integer": 3, "double": 3}
SYMMETRIES = ("general", "symmetric", "skew-symmetric")


def read_matrix_market(where: str, head: bytes, read: Read, weighted: bool, limits: Limits) -> EventTable:
    """Read a ``matrix coordinate`` file; symmetric ones give each entry off the diagonal in both directions.

    Row and column numbers become ids from 0; values become weights, whether ``weighted`` or not, which asks for them.

    Raises
    ------
    FileFormatError
        Naming the file and the line.
    InputError
        If weights are asked for, and a pattern has none.
    """
    end = head.find(b"\n")
    banner = head[: end if end >= 0 else len(head)].decode("ascii", errors="replace").lower().split()
    if len(banner) != 5 or banner[0] != BANNER or banner[1:3] != ["matrix", "coordinate"]:
        dense = ". A dense matrix is read by scipy.io.mmread" if banner[1:3] == ["matrix", "array"] else ""
        raise FileFormatError(
            f"{where}:1: wanted '%%MatrixMarket matrix coordinate FIELD SYMMETRY', got {' '.join(banner)[:60]!r}{dense}"
        )
    field, symmetry = banner[3:]
    if field not in FIELDS:
        raise FileFormatError(f"{where}:1: field {field!r} is not read; wanted {', '.join(FIELDS)}")
    if symmetry not in SYMMETRIES:
        raise FileFormatError(f"{where}:1: symmetry {symmetry!r} is not read; wanted general or symmetric")
    width = FIELDS[field]
    if weighted and width < 3:
        raise InputError(f"{where}: got weight='weight'; a matrix of the field 'pattern' has no values. Leave it out")
    skip, line_number, size, entries = _size_line(where, head)
    if size - 1 > limits.max_id:
        raise FileFormatError(f"{where}:{line_number}: {size} vertices; wanted at most {limits.max_id + 1}")
    columns = FileColumns(0, 1, weight=2 if width == 3 else None)
    dialect = Dialect(None, False, ("%",), None, width, skip, line_number + 1)
    table = read_rows(where, head, read, dialect, columns, Limits(size, limits.max_weight, min_id=1))
    if len(table) != entries:
        raise FileFormatError(f"{where}:{line_number}: {entries} entries are announced, the file has {len(table)}")
    table = replace(table, src=table.src - 1, dst=table.dst - 1, dialect=f"Matrix Market, {field}, {symmetry}")
    return table if symmetry == "general" else _mirrored(table, -1.0 if symmetry == "skew-symmetric" else 1.0)


def _size_line(where: str, data: bytes) -> tuple[int, int, int, int]:
    """Return the start of the entries, the size line's number, the size and the number of entries."""
    start, number = 0, 1
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line = data[start:end].strip()
        if line and not line.startswith(b"%"):
            words = line.split()
            if len(words) != 3 or not all(word.isdigit() for word in words):
                got = shorten(line.decode(errors="replace"), 60)
                raise FileFormatError(f"{where}:{number}: wanted 'ROWS COLUMNS ENTRIES', got {got}")
            rows, cols, entries = (whole_number(word.decode()) for word in words)
            if rows != cols:
                raise FileFormatError(f"{where}:{number}: the matrix is {rows} x {cols}; an adjacency matrix is square")
            return min(end + 1, len(data)), number, rows, entries
        start, number = end + 1, number + 1
    raise FileFormatError(f"{where}:{number}: the file ends before the line 'ROWS COLUMNS ENTRIES'")


def _mirrored(table: EventTable, sign: float) -> EventTable:
    """Insert the mirror image of each off-diagonal entry behind it."""
    copies = np.where(table.src == table.dst, 1, 2)
    src, dst = np.repeat(table.src, copies), np.repeat(table.dst, copies)
    second = np.cumsum(copies)[copies == 2] - 1
    src[second], dst[second] = dst[second], src[second]
    weight = None
    if table.weight is not None:
        weight = np.repeat(table.weight, copies)
        weight[second] *= sign
    return replace(table, src=src, dst=dst, weight=weight)
