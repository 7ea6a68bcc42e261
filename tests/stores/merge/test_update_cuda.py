"""What of store merge is CUDA's own: slots that find their source among few keys, and among many."""

from __future__ import annotations

import numpy as np

from dynstore import DynamicGraph
from dynstore.testing.invariants import check_graph
from tests.crossed import crossed


@crossed(weighted=[False, True], num_edges=[1, 31, 700], share=[0.002, 0.1, 0.6, 1.0])
def test_tables_are_merged_with_few_keys_and_with_many(device, weighted, num_edges, share):
    """Spread over the table and all at one place: steps of a warp with none, with less than 32, and with more."""
    rng = np.random.default_rng(11)
    keys = np.sort(rng.choice(40 * 50, num_edges, replace=False))
    chosen = rng.random(2000) < share
    for batch in (np.flatnonzero(chosen), np.arange(int(2000 * share) + 1) + 700):
        batch = batch[batch < 2000]
        weights = rng.random(2000).astype(np.float32)
        columns = (keys // 50, keys % 50, weights[keys])[: 3 if weighted else 2]
        graph = DynamicGraph.from_edges(columns, weighted=weighted, device=device, store="merge")
        added = (batch // 50, batch % 50, weights[batch] + 1)[: 3 if weighted else 2]
        report = graph.insert_edges(added)
        there = np.union1d(keys, batch)
        assert report.inserted == there.shape[0] - keys.shape[0]
        weights[batch] += 1
        for wanted in (there, np.setdiff1d(there, batch)):
            table = graph.snapshot()
            src, dst = (
                graph.core.backend.to_host(column).astype(np.int64) for column in (table.sources, table.indices)
            )
            assert np.array_equal(50 * src + dst, wanted)
            if weighted:
                assert np.array_equal(graph.core.backend.to_host(table.weights), weights[wanted])
            check_graph(graph)
            graph.delete_edges((batch // 50, batch % 50))
