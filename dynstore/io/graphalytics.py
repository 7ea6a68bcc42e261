"""Data sets of LDBC Graphalytics: NAME.properties says which files have the vertices and edges, and what they hold."""

from __future__ import annotations

import re
from pathlib import Path

from dynstore.errors import FileFormatError

__all__ = ["Graphalytics", "is_graphalytics", "read_graphalytics"]

EDGES = re.compile(r"(?m)^graph\.(?P<name>[^\s=]+)\.edge-file\s*=\s*(?P<file>.+?)\s*$")


class Graphalytics:
    """What a file of properties says.

    Attributes
    ----------
    edges : Path
        The file of edges: source, destination, and a weight where ``weighted``.
    weighted : bool
    """

    def __init__(self, edges: Path, weighted: bool) -> None:
        self.edges, self.weighted = edges, weighted


def is_graphalytics(where: str) -> bool:
    """Whether a file is one of properties, by its name."""
    return where.lower().endswith(".properties")


def read_graphalytics(where: str) -> Graphalytics:
    """Read a file of properties.

    Raises
    ------
    FileFormatError
        If it names no file of edges, or one that is not there.
    """
    text = Path(where).read_text(encoding="utf-8", errors="replace")
    found = EDGES.search(text)
    if found is None:
        raise FileFormatError(f"{where}: no line 'graph.NAME.edge-file = FILE'; wanted properties of LDBC Graphalytics")
    edges = Path(where).with_name(Path(found["file"]).name)
    if not edges.exists():
        raise FileFormatError(f"{where}: the file of edges {edges.name!r} is not beside it")
    weighted = re.search(rf"(?m)^graph\.{re.escape(found['name'])}\.edge-properties\.names\s*=\s*\S", text) is not None
    return Graphalytics(edges, weighted)
