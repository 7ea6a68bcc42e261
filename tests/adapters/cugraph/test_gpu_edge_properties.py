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


def test_a_frame_with_ids_and_types_is_sampled_as_cugraphs_own(real: Any) -> None:
    import cudf

    from dynstore.adapters import cugraph

    rng, pairs = np.random.default_rng(6), np.random.default_rng(7).permutation(60 * 60)[:400]
    frame = cudf.DataFrame(
        {
            "a": (pairs // 60).astype(np.int32), "b": (pairs % 60).astype(np.int32),
            "w": rng.random(400, dtype=np.float32), "i": np.arange(400, dtype=np.int32),
            "t": rng.integers(0, 3, 400).astype(np.int32),
        }
    )  # fmt: skip
    graphs = [module.Graph(directed=True) for module in (cugraph, real)]
    live, own = graphs
    live.from_cudf_edgelist(frame[:300], "a", "b", edge_attr=["w", "i", "t"])
    live.insert_edges(frame[200:])
    own.from_cudf_edgelist(frame, "a", "b", edge_attr=["w", "i", "t"])
    columns = live.view_edge_list().columns
    assert list(columns) == list(own.view_edge_list().columns)
    tables = [G.view_edge_list().to_pandas().sort_values("i").to_numpy().tolist() for G in graphs]
    assert tables[0] == tables[1]
    tables = [G.decompress_to_edgelist().to_pandas().sort_values("edge_ids").reset_index(drop=True) for G in graphs]
    assert tables[0].equals(tables[1][tables[0].columns])
    start = list(range(60))
    found = [
        real.homogeneous_neighbor_sample(G, start, [0, 60], fanout_vals=[-1], with_replacement=False).to_pandas()
        for G in graphs
    ]
    names = ["majors", "minors", "edge_id", "edge_type"]
    assert [sorted(map(tuple, table[names].to_numpy().tolist())) for table in found[:1]] == [
        sorted(map(tuple, table[names].to_numpy().tolist())) for table in found[1:]
    ]
    between = [real.edge_betweenness_centrality(G).to_pandas().sort_values("edge_id") for G in graphs]
    np.testing.assert_allclose(*(table["betweenness_centrality"].to_numpy() for table in between), atol=1e-5)
    assert live.dynamic_graph.edge_dtypes == {"i": np.int32, "t": np.int32}
