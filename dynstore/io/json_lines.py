"""Lines with one JSON object each."""

from __future__ import annotations

import json
from typing import Any

from dynstore.errors import FileFormatError
from dynstore.io.text_rows import shorten

__all__ = ["read_json_lines", "read_json_rows"]


def read_json_lines(where: str, data: bytes, first_line: int = 1) -> dict[str, list[Any]]:
    """Return the columns of lines with one JSON object each; an item that a line lacks is None.

    ``first_line``: the number of the first line, for messages.

    Raises
    ------
    FileFormatError
        For a line that is no JSON object.
    """
    rows = read_json_rows(where, data, first_line)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def read_json_rows(where: str, data: bytes, first_line: int = 1) -> list[dict[str, Any]]:
    """Return the objects of lines, as :func:`read_json_lines` does."""
    numbered = [(number, line) for number, line in enumerate(data.split(b"\n"), first_line) if line.strip()]
    lines = [line for _, line in numbered]
    try:
        rows: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        rows = [_read_object(f"{where}:{number}", line) for number, line in numbered]
    if len(rows) != len(lines) or not all(isinstance(row, dict) for row in rows):
        rows = [_read_object(f"{where}:{number}", line) for number, line in numbered]
    return rows


def _read_object(where: str, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{where}: {shorten(line.decode(errors='replace'))} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise FileFormatError(f"{where}: {shorten(line.decode(errors='replace'))} is no JSON object")
    return found
