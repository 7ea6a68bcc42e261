"""Random calls on graphs of events, compared with a dict from id to row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import DynamicGraph
from tests.conftest import PROFILE, SEED
from tests.crossed import pair_up, thorough
from tests.graph.events.driver import DEVICES, run

WEIGHTS = [(None, "cents"), ("float64", "cents"), ("float64", "signed"), ("float32", "signed"), ("int64", "whole")]
VERTICES: list[tuple[str | None, bool]] = [(None, False), ("strings", False), ("integers", True)]
COLUMNS = [None, {"kind": "int8", "share": "float64"}]
KINDS = pair_up([True, False], WEIGHTS, [None, "int64", "int32"], VERTICES, COLUMNS, ["counted", "random", "mixed"])
FAST = [thorough(device) if device == "cuda-sim" else device for device in DEVICES]  # the simulator takes minutes
TRACKED: list[tuple[str, str, dict[str, Any]]] = [
    ("pagerank", "sum", {}),
    ("sssp", "min", {"source": 0}),
    ("sssp", "mean", {"source": 0}),
    ("bfs", "last", {"start": 0}),
    ("weakly_connected_components", "count", {}),
]


def options_of(kind: tuple[Any, ...]) -> dict[str, Any]:
    """Return a combination as options of the driver."""
    directed, (dtype, weights), timestamps, (renumber, reuse_ids), columns, ids = kind
    found = {"directed": directed, "weight_dtype": dtype, "weights": weights, "timestamps": timestamps, "ids": ids}
    return {**found, "renumber": renumber, "reuse_ids": reuse_ids, "edge_columns": columns}


def name_of(kind: tuple[Any, ...]) -> str:
    """Return a combination as the name of a test."""
    return "-".join(str(value) for value in options_of(kind).values() if not isinstance(value, dict))


@pytest.mark.parametrize(
    ("kind", "device"),
    [
        # Without a GPU each kind runs on one device, in turn.
        pytest.param(kind, device, id=f"{name_of(kind)}-{device}", marks=thorough(kind).marks * ((number + place) % 2))
        for number, kind in enumerate(KINDS)
        for place, device in enumerate(DEVICES)
    ],
)
def test_random_calls(kind: tuple[Any, ...], device: str) -> None:
    """Every two options meet; few vertices, so that pairs have many events."""
    calls = 1000 if PROFILE == "thorough" else 60 if device != "cuda-sim" else 25
    run(device, SEED + KINDS.index(kind), calls, 10 * calls, **options_of(kind))


@pytest.mark.parametrize("device", FAST)
@pytest.mark.parametrize("ids", ["counted", "ascending", "random"])
@pytest.mark.parametrize("directed", [True, False])
def test_columns_are_used_again_and_grow(directed: bool, ids: str, device: str) -> None:
    """Far more events come than there are rows: they go round, are compacted, and grow."""
    most = 5000 if directed else 1500
    driver = run(device, SEED, 60, 16_000, directed=directed, weight_dtype="float64", timestamps="int64", ids=ids,
                 vertices=40, most=most)  # fmt: skip
    assert driver.rows > 8192


@pytest.mark.thorough
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options",
    [
        {"weight_dtype": "float64", "timestamps": "int64", "weights": "signed", "vertices": 2000},
        {"directed": False, "weight_dtype": "int64", "renumber": "integers", "ids": "mixed", "vertices": 50},
    ],
    ids=["timed", "undirected"],
)
def test_a_long_run(options: dict[str, Any], device: str) -> None:
    """A million rows in 2,500 calls."""
    driver = run(device, SEED, 2500, 1_000_000, most=30_000, **options)
    assert driver.rows >= 1_000_000


@pytest.mark.parametrize("device", FAST)
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("name", "aggregate", "params"), TRACKED, ids=[f"{row[0]}-{row[1]}" for row in TRACKED])
def test_tracked_answers_are_those_of_the_pairs(
    name: str, aggregate: str, params: dict[str, Any], directed: bool, device: str, rng: np.random.Generator
) -> None:
    """An answer of a graph of pairs stays right as events come, leave and expire."""
    size = 30
    G = DynamicGraph(directed, weighted=True, multigraph=True, timestamps="int64", device=device)
    G.insert_edges((np.arange(size), np.roll(np.arange(size), 1), np.ones(size), np.full(size, 5)))
    S = G.simple(aggregate)
    monitor = S.track(name, **params)
    for now in range(40):
        count = int(rng.integers(1, 6))
        pairs = rng.integers(0, size, (2, count))
        rows = (*pairs, rng.integers(1, 100, count) / 10, rng.integers(now, now + 5, count))
        which = str(rng.choice(["all", "oldest", "newest"]))
        call = int(rng.integers(0, 4))
        if call == 0:
            G.insert_edges(rows)
        elif call == 1:
            G.update(rows, tuple(pairs[:, :1]), now - 10, which=which)
        elif call == 2:
            G.delete_edges(tuple(pairs), which=which)
        else:
            G.update(rows, edge_ids=rng.integers(0, 100, 4))
        if rng.random() < 0.5:
            continue
        twin = DynamicGraph(directed, weighted=True, weight_dtype="float64", device=device)
        twin.insert_vertices([size - 1])
        twin.insert_edges(S.edge_table())
        ask = getattr(dynstore, name)
        answers = [
            found.to_numpy(np.float64)[:, :2] for found in (monitor.result(), ask(S, **params), ask(twin, **params))
        ]
        np.testing.assert_allclose(answers[0], answers[2], atol=1e-4)
        np.testing.assert_allclose(answers[1], answers[2], atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_algorithms_add_parallel_weights_or_take_the_lightest(device: str) -> None:
    """PageRank adds the weights of parallel edges, SSSP takes the lightest, BFS ignores them; on views, too."""
    G = DynamicGraph(weighted=True, multigraph=True, timestamps="int64", device=device)
    G.insert_edges(([0, 0, 0, 1, 2, 0], [1, 1, 2, 2, 0, 1], [1.0, 3.0, 2.0, 5.0, 1.0, 99.0], [1, 2, 3, 4, 5, 9]))
    for view in (G.window(None, 9), G.pin().window(1, 9), G.where(edge_id=[0, 1, 2, 3, 4])):
        twin = DynamicGraph(weighted=True, device=device, weight_dtype="float64")
        twin.insert_edges(([0, 0, 1, 2], [1, 2, 2, 0], [4.0, 2.0, 5.0, 1.0]))
        ranks = [dynstore.pagerank(graph).pagerank.to_numpy() for graph in (view, view.simple("sum"), twin)]
        np.testing.assert_allclose(ranks, [ranks[-1]] * 3, rtol=1e-6)
        assert dynstore.sssp(view, 0).distance.to_numpy().tolist() == [0, 1, 2]
        assert dynstore.bfs(view, 0).distance.to_numpy().tolist() == [0, 1, 1]
