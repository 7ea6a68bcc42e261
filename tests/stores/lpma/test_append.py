"""``on_duplicate="append"``: weights add up, and an edge is there as long as its sum is above 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError, OutOfMemoryError
from dynstore.testing.invariants import check_graph, live_edges
from tests.stores.lpma.test_store import ON_GPU, make


@pytest.mark.parametrize("device", ["cpu", "cuda" if ON_GPU else "cuda-sim"])
@pytest.mark.parametrize("directed", [True, False])
def test_append_adds_up_and_what_is_not_above_zero_goes(device: str, directed: bool) -> None:
    rng = np.random.default_rng(13)
    graph = DynamicGraph(directed=directed, weighted=True, store="lpma", device=device)
    graph.snapshot(transposed=True)
    held: dict[tuple[int, int], int] = {}
    for _ in range(8):
        src, dst, weights = rng.integers(0, 6, 20), rng.integers(0, 6, 20), rng.integers(-3, 4, 20)
        report = graph.insert_edges((src, dst, weights), on_duplicate="append")
        sums: dict[tuple[int, int], int] = {}
        for u, v, w in zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True):
            key = (u, v) if directed else (min(u, v), max(u, v))
            sums[key] = sums.get(key, 0) + w
        wanted = {"inserted": 0, "replaced": 0, "deleted": 0, "absent": 0}
        for key, weight in sums.items():
            was, total = key in held, held.pop(key, 0) + weight
            if total > 0:
                held[key] = total
            wanted[("replaced" if was else "inserted") if total > 0 else ("deleted" if was else "absent")] += 1
        assert {name: getattr(report, name) for name in wanted} == wanted
        assert graph.number_of_edges() == len(held)
        shown = {edge: w for edge, w in live_edges(graph.snapshot()).items() if directed or edge[0] <= edge[1]}
        assert shown == held
        check_graph(graph, transposed=True)


def test_after_appending_all_that_follows_the_graph_is_computed_anew() -> None:
    graph = make(([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0]))
    log, parts = graph.core.follow(), graph.track("weakly_connected_components")
    parts.result()
    graph.insert_edges(([1, 4], [2, 3], [-2.0, 1.0]), on_duplicate="append")
    assert not log.complete
    labels = dict(parts.result().to_numpy().tolist())
    assert labels[0] == labels[1] != labels[2] == labels[3] == labels[4]


def test_append_is_refused_where_nothing_adds_up() -> None:
    with pytest.raises(InputError, match="the graph is unweighted in store 'lpma'; wanted a weighted graph"):
        make(([0], [1])).insert_edges(([0], [1]), on_duplicate="append")
    with pytest.raises(InputError, match="the graph is weighted in store 'merge'"):
        make(([0], [1], [1.0]), store="merge").insert_edges(([0], [1], [1.0]), on_duplicate="append")


def test_append_that_runs_out_of_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make(([0, 0, 1], [1, 2, 0], [1.0, 2.0, 3.0]))
    graph.snapshot(transposed=True)
    empty, edges = graph.core.backend.empty, live_edges(graph.snapshot())
    batch = ([0, 0, 4], [1, 2, 4], [-1.0, 1.0, 1.0])
    for n in range(1000):
        calls = iter(range(1000))

        def failing(shape: Any, dtype: Any, calls: Any = calls, n: int = n) -> Any:
            if next(calls) == n:
                raise OutOfMemoryError("nothing left")
            return empty(shape, dtype)

        with monkeypatch.context() as patch:
            patch.setattr(graph.core.backend, "empty", failing)
            try:
                report = graph.insert_edges(batch, on_duplicate="append")
            except OutOfMemoryError:
                assert live_edges(graph.snapshot()) == edges
                continue
        assert (report.inserted, report.replaced, report.deleted) == (1, 1, 1)
        break
    assert n > 5
    assert live_edges(graph.snapshot()) == {(0, 2): 3.0, (1, 0): 3.0, (4, 4): 1.0}
