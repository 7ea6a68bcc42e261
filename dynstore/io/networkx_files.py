"""GraphML, GML and Pajek, through NetworkX, which reads them well."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from dynstore.errors import FileFormatError, MissingDependencyError
from dynstore.io.events import EventTable
from dynstore.io.formats import Format
from dynstore.io.numbering import number_ids

__all__ = ["read_by_networkx"]

NAMES = {"graphml": "GraphML", "gml": "GML", "pajek": "Pajek"}


def read_by_networkx(where: str, data: bytes, kind: Format, weight: str | None) -> EventTable:
    """Read a graph whose vertices have names, which are numbered.

    ``weight``: the attribute of edges that is their weight; all must have it.

    Raises
    ------
    MissingDependencyError
        Without NetworkX.
    FileFormatError
        If NetworkX cannot read it.
    """
    try:
        import networkx
    except ImportError as error:
        raise MissingDependencyError(
            f"read_events: {where}: files of {NAMES[kind]} need NetworkX: pip install 'dynstore[networkx]'"
        ) from error
    try:
        graph = _read(networkx, data, kind)
    except Exception as error:  # of its parsers, each has its own
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileFormatError(f"{where}: NetworkX cannot read it as {NAMES[kind]}: {why}") from error
    # As in files of matrices, an undirected edge is there in both directions.
    edges = list(graph.to_directed().edges(data=True))
    weights = None
    if weight is not None:
        lacking = next(((u, v) for u, v, held in edges if weight not in held), None)
        if lacking is not None:
            raise FileFormatError(f"{where}: the edge {lacking} has no {weight!r}; wanted a weight for each edge")
        weights = np.array([float(held[weight]) for _, _, held in edges])
    ends = [np.array([str(edge[place]) for edge in edges], dtype=object) for place in (0, 1)]
    src, dst, ids = number_ids(*ends) if edges else (*(np.empty(0, np.int64),) * 2, np.empty(0, object))
    return EventTable(src, dst, weight=weights, name=where, ids=ids, dialect=NAMES[kind])


def _read(networkx: Any, data: bytes, kind: Format) -> Any:
    if kind == "graphml":
        return networkx.read_graphml(io.BytesIO(data))
    lines = data.decode("utf-8").splitlines()
    return networkx.parse_gml(lines) if kind == "gml" else networkx.parse_pajek(lines)
