"""Graphs that stand in for the papers' data sets: the same number of vertices and edges, the same shape of degrees."""

from __future__ import annotations

import numpy as np

from dynstore.datasets import rmat, uniform

__all__ = ["SHAPES", "make_edges", "mesh"]

Columns = tuple[np.ndarray, np.ndarray]

# shape -> what it is, for the reader of a table
SHAPES = {
    "rmat": "RMAT",
    "uniform": "uniform",
    "mesh": "grid",
    "scattered": "random grid",
}
SCATTER = 0.25  # share of a scattered grid's places that hold an edge
OVERDRAW = 1.15  # RMAT and uniform events a wanted edge: some pairs come twice


def make_edges(shape: str, num_vertices: int, num_edges: int, mirrored: bool, seed: int) -> Columns:
    """Make edges of a shape; some of "rmat" and "uniform" may be there twice.

    Parameters
    ----------
    shape : {"rmat", "uniform", "mesh", "scattered"}
        Social networks and web graphs; random ones; roads, meshes and matrices; random geometric graphs.
    num_vertices, num_edges : int
        ``num_edges`` counts both directions of mirrored edges.
    mirrored : bool
        Whether each edge is there in both directions; meshes always are.
    seed : int

    Returns
    -------
    src, dst : numpy.ndarray, int64
    """
    if shape in ("mesh", "scattered"):
        return mesh(num_vertices, num_edges, 1.0 if shape == "mesh" else SCATTER, seed)
    wanted = int(num_edges * OVERDRAW) // (2 if mirrored else 1) + 1
    if shape == "rmat":
        scale = max(1, (num_vertices - 1).bit_length())
        events = rmat(scale, -(-wanted // (1 << scale)), seed)
    else:
        events = uniform(num_vertices, wanted, seed)
    src, dst = events.src, events.dst
    return (np.concatenate((src, dst)), np.concatenate((dst, src))) if mirrored else (src, dst)


def mesh(num_vertices: int, num_edges: int, keep: float, seed: int) -> Columns:
    """Join the points of a square grid to those around them, the nearest first, in both directions.

    With 2.4 edges a vertex that is a road network: rows of streets and some ways between them; with 6 a triangulation.

    Parameters
    ----------
    num_vertices, num_edges : int
    keep : float
        The share of the places near a point that hold an edge: below 1 degrees are binomial.
    seed : int

    Returns
    -------
    src, dst : numpy.ndarray, int64
        Different pairs without loops; about ``num_edges``, less what the grid's border lacks.
    """
    rng = np.random.default_rng(seed)
    side = max(2, int(np.sqrt(num_vertices)))
    per_point = num_edges / (2 * num_vertices * keep)  # steps that each point tries
    steps = _steps(int(per_point) + 1)
    points = np.arange(num_vertices, dtype=np.int64)
    starts, ends = [], []
    for number, (across, down) in enumerate(steps):
        share = keep * min(1.0, per_point - number)
        column = points % side + across
        other = points + across + down * side
        fits = (column >= 0) & (column < side) & (other < num_vertices)
        if share < 1.0:
            fits &= rng.random(num_vertices) < share
        starts.append(points[fits])
        ends.append(other[fits])
    src, dst = np.concatenate(starts), np.concatenate(ends)
    return np.concatenate((src, dst)), np.concatenate((dst, src))


def _steps(count: int) -> list[tuple[int, int]]:
    """Return the nearest steps (columns, rows) of a half plane: (1, 0), (0, 1), (1, 1), (-1, 1), (2, 0) ..."""
    reach = int(np.sqrt(count)) + 2
    found = [
        (across, down) for down in range(reach + 1) for across in range(-reach, reach + 1) if (down, across) > (0, 0)
    ]
    return sorted(found, key=lambda step: (step[0] ** 2 + step[1] ** 2, step[1], -step[0]))[:count]
