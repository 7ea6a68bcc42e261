"""Random streams of updates, played to a graph on the device under test and to a twin on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import dynstore
from tests.algorithms.kites import host
from tests.crossed import if_thorough

__all__ = ["EXACT", "Stream", "compare"]

# Options of graphs whose answers can be compared closely. `make test` has such weights with int64 ids alone, for which
# kernels are compiled anyway.
EXACT = {"weighted": True, "weight_dtype": "float64", "vertex_dtype": [*if_thorough("int32"), "int64"][0]}


class Stream:
    """A graph that random updates change, and its twin on the host, of which answers are computed in full."""

    def __init__(
        self,
        device: str,
        rng: np.random.Generator,
        num_vertices: int = 26,
        num_edges: int = 60,
        whole_weights: bool = True,
        **options: Any,
    ) -> None:
        self.rng, self.num_vertices, self.whole_weights = rng, num_vertices, whole_weights
        self.graph = dynstore.DynamicGraph(device=device, **options)
        self.twin = dynstore.DynamicGraph(device="cpu", **options)
        self.weighted = bool(options.get("weighted"))
        self.renumbered = bool(options.get("renumber"))
        self.update("insert_edges", self.batch(num_edges))

    def update(self, method: str, *args: Any, **kwargs: Any) -> None:
        for graph in (self.graph, self.twin):
            getattr(graph, method)(*args, **kwargs)

    def batch(self, size: int, extent: int | None = None) -> tuple[np.ndarray, ...]:
        """Draw edges, low ids more often, with duplicates and self-loops."""
        extent = extent or self.num_vertices
        columns = [(extent * self.rng.random(size) ** 1.7).astype(np.int64) for _ in range(2)]
        if self.renumbered:
            columns = [column * 1000 + 7 for column in columns]
        if not self.weighted:
            return tuple(columns)
        weights = self.rng.integers(1, 9, size) / 4 if self.whole_weights else self.rng.random(size) + 0.01
        return (*columns, weights)

    def held(self, size: int) -> tuple[np.ndarray, ...]:
        """Draw some of the edges that are there, some twice, and one that is not."""
        edges = self.twin.edge_columns()
        chosen = self.rng.integers(0, max(edges["source"].shape[0], 1), size if edges["source"].shape[0] else 0)
        absent = 1_000_000_007 if self.renumbered else self.num_vertices + 50
        return tuple(np.append(edges[end][chosen], absent) for end in ("source", "destination"))

    def step(self, size: int = 6) -> str:
        """Play one random update and return what it was."""
        draw = self.rng.random()
        if draw < 0.35:
            self.update("insert_edges", self.batch(size), on_duplicate=self.rng.choice(["replace", "add"]))
            return "insert"
        if draw < 0.75:
            self.update("delete_edges", self.held(size))
            return "delete"
        if draw < 0.85:
            vertices = self.twin.vertex_ids()
            self.update("delete_vertices", self.rng.choice(vertices, min(2, len(vertices)), replace=False))
            return "delete vertices"
        if draw < 0.92:
            self.num_vertices += 2
            self.update("insert_vertices", [(self.num_vertices - 1) * (1000 if self.renumbered else 1)])
            return "insert vertices"
        self.update("insert_edges", self.batch(size, self.num_vertices + 3))
        self.num_vertices += 3
        return "insert new"


def compare(got: Any, expected: Any, what: str = "", **tolerances: float) -> None:
    """Compare two frames, exactly but for the columns named, whose L1 difference is limited."""
    got, expected = host(got), host(expected)
    for column, limit in tolerances.items():
        difference = float(np.abs(got[column].to_numpy(np.float64) - expected[column].to_numpy(np.float64)).sum())
        assert difference <= limit, (what, column, difference)
        got, expected = got.drop(columns=column), expected.drop(columns=column)
    pd.testing.assert_frame_equal(got, expected, obj=what or "frame")
