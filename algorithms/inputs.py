"""Shared by the public functions: reading vertices and values, and making columns of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.input.frames import frame_library

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = [
    "all_vertices",
    "has_negative_weights",
    "one_of",
    "read_values",
    "read_vertices",
    "refuse_arguments",
    "to_ids",
    "vertices_and",
]


def all_vertices(G: AnyGraph) -> Any:
    """Return the ids of all vertices, shape (V,): the ``vertex`` column of every result, for ``make_frame``.

    Each result has its own: some writes of cuDF to a column do not see that another frame shares its memory.
    """
    return G.core.ids.column(G.number_of_vertices(), frame_library(G.core.backend, G.core.frames))


def to_ids(G: AnyGraph, numbers: Array) -> Any:
    """Return the ids of vertices given as row numbers, for ``make_frame``; -1 stays -1, or is null among strings."""
    return G.core.ids.column(G.number_of_vertices(), frame_library(G.core.backend, G.core.frames), numbers)


def vertices_and(G: AnyGraph, numbers: Array) -> tuple[Any, Any]:
    """Return :func:`all_vertices`, and :func:`to_ids` of row numbers."""
    num_vertices, library = G.number_of_vertices(), frame_library(G.core.backend, G.core.frames)
    return G.core.ids.column(num_vertices, library), G.core.ids.column(num_vertices, library, numbers)


def read_vertices(G: AnyGraph, caller: str, what: str, vertices: Any) -> np.ndarray:
    """Read vertices of the graph: one id, a list, an array, a series, or a frame with one column.

    Returns
    -------
    numpy.ndarray, int64: their rows, in the order given

    Raises
    ------
    InputError
        For an id that is not a vertex, a frame with more columns, or no vertex at all.
    """
    columns = getattr(vertices, "columns", None)
    if columns is not None:
        if len(columns) != 1:
            raise InputError(f"{caller}: {what} is a frame of {len(columns)} columns; wanted one column of vertices")
        names = getattr(vertices, "column_names", columns)
        vertices = vertices[names[0]]
    if isinstance(vertices, bool | float | str):
        vertices = [vertices]  # so that it is refused below for its type, not for its shape
    num_vertices = G.number_of_vertices()
    try:
        numbers, stranger = G.core.ids.find_on_host(what, vertices, num_vertices)
    except InputTypeError as error:
        raise InputTypeError(f"{caller}: {error}") from error
    except InputError as error:
        raise InputError(f"{caller}: Found invalid vertex in {error}") from error
    if numbers.shape[0] == 0:
        raise InputError(f"{caller}: no vertex is given as {what}; wanted at least one")
    if stranger is not None:
        raise InputError(f"{caller}: Found invalid vertex in {what}: got {stranger!r}; the graph has {_vertices_of(G)}")
    return numbers


def read_values(
    G: AnyGraph, caller: str, what: str, frame: Any, column: str, dtype: np.dtype, *, any_sum: bool = False
) -> Array:
    """Scatter a frame of columns ``vertex`` and ``column`` over all vertices.

    Parameters
    ----------
    any_sum : bool
        Accept values that are all 0.

    Returns
    -------
    array, shape (V,), ``dtype``; 0 for vertices that are not in the frame

    Raises
    ------
    InputError
        For a missing column, an id that is not a vertex, a repeated vertex, a negative value, or values whose sum is
        not a number above 0.
    """
    label = f"{caller}: {what}"
    if isinstance(frame, tuple) or not hasattr(frame, "columns"):
        raise InputTypeError(f"{label} is a {type_name(frame)}; wanted a frame with columns 'vertex' and '{column}'")
    # A table of vertices and values is read as a table of edges from each vertex to itself.
    names = ("vertex", "vertex", column)
    xp, num_vertices = G.core.backend.xp, G.number_of_vertices()
    table = G.core.ids.find_edges(label, frame, names, np.dtype(dtype), num_vertices)
    ids: Array = table.src
    values: Array = table.weights
    if bool((ids >= num_vertices).any()):
        _, stranger = G.core.ids.find(label, frame["vertex"], num_vertices)
        raise InputError(f"{label} names vertex {stranger!r}; the graph has {_vertices_of(G)}")
    if xp.unique(ids).shape[0] != ids.shape[0]:
        raise InputError(f"{label} names a vertex twice; wanted each once")
    lowest = float(values.min()) if values.shape[0] else 0.0
    if lowest < 0:
        raise InputError(f"{label} has the value {lowest}; wanted none below 0")
    total = float(values.sum(dtype=np.float64))
    if not any_sum and not 0 < total < np.inf:
        raise InputError(f"{label} has values that sum to {total}; wanted a finite sum above 0")
    spread = G.core.backend.zeros(num_vertices, dtype)
    spread[ids] = values
    return spread


def _vertices_of(G: AnyGraph) -> str:
    return f"{G.number_of_vertices()} vertices" + ("" if G.is_renumbered() else ", ids from 0")


def has_negative_weights(csr: GapCSR) -> bool:
    """Whether an edge has a weight below 0; weights in gaps do not count."""
    if csr.weights is None:
        return False
    negative = csr.weights < 0
    return bool(negative.any()) and bool((negative & csr.mask()).any())


def one_of(caller: str, name: str, value: Any, alias: str, other: Any) -> Any:
    """Return the one of two parameters that is given: they name the same vertices."""
    if (value is None) == (other is None):
        if value is None:
            raise InputTypeError(f"{caller}: {name!r} is missing; wanted the vertices to start from")
        raise InputTypeError(f"{caller}: got both {name!r} and {alias!r}; wanted one of them")
    return other if value is None else value


def refuse_arguments(caller: str, **arguments: Any) -> None:
    """Raise for parameters that cuGraph accepts only for matrices; it also refuses them for graphs."""
    for name, value in arguments.items():
        if value is not None:
            raise InputTypeError(f"{caller}: {name!r} cannot be specified for a graph; got {value!r}, wanted None")
