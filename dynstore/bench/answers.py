"""How the benchmark calls each algorithm, and when two stores' answers count as equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.registry import find_algorithm

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph

__all__ = ["PAGERANK_TOL", "Query", "make_query"]

PAGERANK_TOL = 1e-6
PAGERANK_L1 = 1e-5
RELATIVE = 1e-5  # tolerance of path lengths and centralities, which are sums of floats in any order
CENTRALITY_SOURCES = 16


@dataclass(frozen=True)
class Query:
    """One algorithm with fixed arguments.

    Attributes
    ----------
    name : str
    call : callable
        ``call(G)`` returns the algorithm's frame.
    values : callable
        From the frame to a NumPy array by vertex.
    difference : callable
        Takes two such arrays; returns what differs, in words, or None.
    """

    name: str
    call: Callable[[DynamicGraph], Any]
    values: Callable[[Any], np.ndarray]
    difference: Callable[[np.ndarray, np.ndarray], str | None]


def make_query(name: str, start: int, num_vertices: int, warm_start: bool = False) -> Query:
    """Fix the arguments of an algorithm.

    Parameters
    ----------
    name : str
    start : int
        Where bfs and sssp start.
    num_vertices : int
        Number of vertices of the first window; centrality samples at most that many sources.
    warm_start : bool
        Whether pagerank continues from the ranks of the step before.

    Raises
    ------
    InputError
        For an unknown algorithm.
    """
    run = find_algorithm(name).function
    if name == "bfs":
        return Query(name, lambda G: run(G, start), _column("distance"), _unequal("distances"))
    if name == "sssp":
        return Query(name, lambda G: run(G, source=start), _column("distance"), _far("distances"))
    if name == "pagerank":
        call = lambda G: run(G, tol=PAGERANK_TOL, warm_start=warm_start)  # noqa: E731
        return Query(name, call, _column("pagerank"), _l1)
    if name == "triangle_count":
        return Query(name, run, _column("counts"), _unequal("counts"))
    if name == "weakly_connected_components":
        return Query(name, run, lambda frame: _canonical(_column("labels")(frame)), _unequal("components"))
    if name == "betweenness_centrality":
        k = min(CENTRALITY_SOURCES, num_vertices)
        return Query(name, lambda G: run(G, k=k, seed=0), _column(name), _far("centralities"))
    return Query(name, run, _any_column, _far("values"))


def _column(name: str) -> Callable[[Any], np.ndarray]:
    def values(frame: Any) -> np.ndarray:
        vertex: np.ndarray = frame["vertex"].to_numpy()
        column: np.ndarray = frame[name].to_numpy()
        if bool((vertex[1:] > vertex[:-1]).all()):
            return column
        return column[np.argsort(vertex, kind="stable")]

    return values


def _any_column(frame: Any) -> np.ndarray:
    """Return the only column beside ``vertex``, for an algorithm that is not known here."""
    (name,) = [str(column) for column in frame.columns if column != "vertex"]
    return _column(name)(frame)


def _canonical(labels: np.ndarray) -> np.ndarray:
    """Rename each component by its first vertex, so that equal partitions are equal arrays."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return first[inverse]


def _shapes(one: np.ndarray, other: np.ndarray) -> str | None:
    return None if one.shape == other.shape else f"{one.shape[0]} vertices against {other.shape[0]}"


def _unequal(what: str) -> Callable[[np.ndarray, np.ndarray], str | None]:
    def difference(one: np.ndarray, other: np.ndarray) -> str | None:
        if one.shape != other.shape:
            return _shapes(one, other)
        unequal = one != other
        if not unequal.any():
            return None
        at = int(np.argmax(unequal))
        return f"{int(unequal.sum())} {what} differ, the first at vertex {at}: {one[at]} against {other[at]}"

    return difference


def _l1(one: np.ndarray, other: np.ndarray) -> str | None:
    if one.shape != other.shape:
        return _shapes(one, other)
    distance = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).sum())
    return (
        None if distance <= PAGERANK_L1 else f"ranks differ by {distance:.3g} (L1); at most {PAGERANK_L1:g} is allowed"
    )


def _far(what: str) -> Callable[[np.ndarray, np.ndarray], str | None]:
    def difference(one: np.ndarray, other: np.ndarray) -> str | None:
        if one.shape != other.shape:
            return _shapes(one, other)
        unequal = ~np.isclose(one, other, rtol=RELATIVE, atol=1e-9, equal_nan=True)
        if not unequal.any():
            return None
        at = int(np.argmax(unequal))
        return f"{int(unequal.sum())} {what} differ, the first at vertex {at}: {one[at]} against {other[at]}"

    return difference
