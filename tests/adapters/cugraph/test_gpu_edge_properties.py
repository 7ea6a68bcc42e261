"""On a GPU: cuGraph's samplers return the ids and types of a live graph's edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.adapters.cugraph.graph import as_cugraph
from tests.adapters.cugraph.pairs import real

__all__ = ["real"]  # a fixture


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("vertices", "ids"), [("int32", "int32"), ("int64", "int64"), ("int32", "int64")])
def test_a_sampler_returns_ids_and_types(real: Any, directed: bool, vertices: Any, ids: str) -> None:
    rng, rows = np.random.default_rng(5), 400
    columns = {"edge_id": ids, "edge_type": "int32"}
    G = dynstore.DynamicGraph(directed, True, device="cuda", vertex_dtype=vertices, edge_columns=columns)
    src, dst = rng.integers(0, 60, (2, rows))
    base = 2**40 if ids == "int64" else 0
    G.insert_edges((src, dst, rng.random(rows), base + np.arange(rows), rng.integers(0, 3, rows)))
    live = as_cugraph(G)
    for _ in range(2):
        wanted = {row[:2]: row[2:] for row in G.to_pandas().drop(columns="weight").itertuples(index=False, name=None)}
        start = np.arange(G.number_of_vertices(), dtype=G.vertex_dtype)
        found = real.homogeneous_neighbor_sample(
            live, start.tolist(), [0, start.shape[0]], fanout_vals=[-1], with_replacement=False
        )
        table = found.to_pandas()
        names = ["majors", "minors", "edge_id", "edge_type"]
        sampled = {tuple(row[:2]): tuple(row[2:]) for row in table[names].to_numpy().tolist()}
        if not directed:
            wanted |= {(v, u): row for (u, v), row in wanted.items()}
        assert sampled == wanted
        G.update(insert=([1, 2], [2, 3], [1.0, 2.0], [base + 9000, base + 9001], [7, 8]), delete=(src[:50], dst[:50]))
