"""Mixed batches on a multigraph: the answers and the edges are those of the rows one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.errors import InputError
from tests.conftest import DEVICES, SEED
from tests.crossed import pair_up

KINDS = ["insert", "insert", "insert", "delete", "has_edge", "successors", "predecessors", "k_hop"]
COLUMN = {"kind": "int8"}
CASES = pair_up([True, False], [True, False], [True, False], [None, "int64"], [None, COLUMN])


def operations(G: DynamicGraph, rng: np.random.Generator, now: int) -> dict[str, Any]:
    """Return random operations with all columns that the graph's edges have."""
    size = int(rng.integers(1, 40))
    scale = 7 if G.is_renumbered() else 1
    ops: dict[str, Any] = {"op": rng.choice(KINDS, size), "time": rng.permutation(size) + now}
    ops |= {name: scale * rng.integers(0, 6, size) for name in ("source", "destination")}
    ops["k"] = rng.integers(0, 3, size)
    if G.is_weighted():
        ops["weight"] = rng.integers(1, 9, size) / 2
    if "kind" in G.edge_dtypes:
        ops["kind"] = rng.integers(0, 9, size)
    return ops


def one_by_one(G: DynamicGraph, ops: dict[str, Any]) -> dict[str, dict[int, Any]]:
    """Run the rows in order of time, each by a call of its own; return the answers by row."""
    to_list = G.core.backend.to_host
    found: dict[str, dict[int, Any]] = {name: {} for name in KINDS[4:]}
    columns = ["source", "destination", *(["weight"] if G.is_weighted() else []), *G.edge_dtypes]
    for row in np.argsort(ops["time"]).tolist():
        kind, source, destination = str(ops["op"][row]), int(ops["source"][row]), int(ops["destination"][row])
        if kind == "insert":
            G.insert_edges(tuple(ops[name][row : row + 1] for name in columns))
        elif kind == "delete":
            G.delete_edges([(source, destination)])
        elif kind == "has_edge":
            found[kind][row] = bool(G.has_edges([(source, destination)])[0])
        elif source not in G:
            found[kind][row] = []
        elif kind == "k_hop":
            near = G.k_hop(source, int(ops["k"][row]))
            found[kind][row] = sorted(zip(near["vertex"].to_numpy(), near["distance"].to_numpy(), strict=True))
        else:
            found[kind][row] = sorted(to_list(getattr(G, kind)(source)).tolist())
    return found


def answers_of(results: Any, wanted: dict[str, dict[int, Any]]) -> dict[str, dict[int, Any]]:
    """Return the answers of a batch in the same form."""
    asked = results.has_edge["query"].to_numpy().tolist()
    found: dict[str, dict[int, Any]] = {
        "has_edge": dict(zip(asked, results.has_edge["exists"].to_numpy(), strict=True))
    }
    for name in ("successors", "predecessors", "k_hop"):
        frame = getattr(results, name)
        lists: dict[int, list[Any]] = {row: [] for row in wanted[name]}
        for row, *values in zip(*(frame[column].to_numpy().tolist() for column in frame.columns), strict=True):
            lists[row].append(tuple(values) if len(values) > 1 else values[0])
        found[name] = {row: sorted(values) for row, values in lists.items()}
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_batch_is_its_rows_one_by_one(case: tuple[Any, ...], device: str) -> None:
    directed, weighted, renumber, timestamps, columns = case
    G = DynamicGraph(
        directed, weighted, multigraph=True, renumber=renumber, timestamps=timestamps, edge_columns=columns,
        device=device,
    )  # fmt: skip
    twin, rng = G.copy(), np.random.default_rng(SEED + CASES.index(case))
    for now in range(0, 400 if device != "cuda-sim" else 200, 100):
        ops, before = operations(G, rng, now), G.number_of_edges()
        results = G.apply(ops)
        wanted = one_by_one(twin, ops)
        assert answers_of(results, wanted) == wanted
        tables = [graph.edge_columns() for graph in (G, twin)]
        rows = [sorted(zip(*(G.core.backend.to_host(c).tolist() for c in t.values()), strict=True)) for t in tables]
        assert rows[0] == rows[1]
        report, inserts = results.report, int((ops["op"] == "insert").sum())
        assert before + report.inserted - report.deleted == G.number_of_edges()
        assert report.inserted + report.duplicates <= inserts + int((ops["op"] == "delete").sum())
        assert (report.first_id is None) == (inserts == 0)


def test_a_batch_is_one_version_and_waits_for_nothing_else(tmp_path: Path) -> None:
    G = DynamicGraph(multigraph=True, device="cpu")
    G.apply({"op": ["insert", "insert", "delete"], "time": [1, 3, 2], "source": [0, 0, 0], "destination": [1, 1, 1]})
    assert (G.version, G.edge_columns()["edge_id"].tolist()) == (1, [1])
    G.apply({"op": ["has_edge"], "time": [1], "source": [0], "destination": [1]})
    assert G.version == 1
    with dynstore.open(tmp_path / "db", multigraph=True, device="cpu") as db:
        with pytest.raises(InputError, match="apply: a database does not log it for a multigraph yet"):
            db.graph.apply({"op": ["insert"], "time": [1], "source": [0], "destination": [1]})
        assert db.graph.version == 0
