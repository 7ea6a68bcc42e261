"""A multigraph in a database: its edges have the same ids again, and logs of before there were any still open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.errors import InputError
from tests.durable.crafting import read_raw

OPTIONS: dict[str, dict[str, Any]] = {
    "directed": {"weighted": True, "timestamps": "int64", "edge_columns": {"kind": "int8"}},
    "undirected": {"directed": False, "renumber": True, "weighted": True, "weight_dtype": "int64"},
    "plain": {},
}


def rows(rng: np.random.Generator, size: int, now: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of some rows."""
    columns = {"source": rng.integers(0, 9, size), "destination": rng.integers(0, 9, size)}
    if options.get("weighted"):
        columns["weight"] = rng.integers(1, 9, size)
    if "edge_columns" in options:
        columns["kind"] = rng.integers(0, 5, size)
    if "timestamps" in options:
        columns["time"] = np.arange(size) + now
    return columns


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_multigraph_comes_back(kind: str, tmp_path: Path) -> None:
    """Given ids and counted ones, each way to delete; versions of the past; what is inserted next."""
    options, rng = OPTIONS[kind], np.random.default_rng(3)
    twin = DynamicGraph(multigraph=True, device="cpu", **options)
    with dynstore.open(tmp_path / "db", multigraph=True, device="cpu", **options) as db:
        graphs = db.graph, twin
        for turn in range(12):
            columns, ids = rows(rng, 30, 30 * turn, options), rng.permutation(30) + 1000 * turn
            calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
                [
                    ("insert_edges", (pd.DataFrame({**columns, "own": ids}),), {"edge_id": "own"}),
                    ("insert_edges", (tuple(columns.values()),), {}),
                    ("update", (pd.DataFrame(columns),), {"edge_ids": ids[:4] - 1000, "edge_id": ids + 10**6}),
                ][turn % 3],
                ("delete_edges", ([(1, 2), (1, 2), (3, 4)],), {"which": "oldest"}),
                ("delete_edges", ([(5, 6)],), {}),
                ("delete_edges", (), {"edge_ids": ids[::7]}),
            ]
            calls += [("expire", (12 * turn,), {})] if "timestamps" in options else []
            calls += [("delete_vertices", ([7],), {})] if turn == 7 else []
            for name, given, named in calls:
                assert getattr(db.graph, name)(*given, **named) == getattr(twin, name)(*given, **named)
            if turn == 5:
                db.checkpoint()
            there = db.graph.edge_columns()["edge_id"][:1]
            with pytest.raises(InputError, match="which is there already"):
                db.graph.insert_edges(tuple(column[:1] for column in columns.values()), edge_id=there)
        assert graphs[0].version == twin.version
    for _ in range(2):
        with dynstore.open(tmp_path / "db", multigraph=True, device="cpu", **options) as db:
            pd.testing.assert_frame_equal(db.graph.edge_table(), twin.edge_table())
            assert db.graph.version == twin.version
            before = twin.copy()
            assert db.graph.insert_edges(tuple(columns.values())) == twin.insert_edges(tuple(columns.values()))
            pd.testing.assert_frame_equal(db.at(before.version).edge_table(), before.edge_table())


def test_a_log_of_before_there_were_multigraphs_opens(tmp_path: Path) -> None:
    """What a record of an update has is what it had: nothing of ids is written for other graphs."""
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        db.graph.insert_edges([(0, 1), (1, 2)])
        db.graph.delete_edges([(0, 1)])
        db.graph.update(insert=[(5, 6)], delete=[(1, 2)])
    for raw in read_raw(tmp_path / "db"):
        arguments, columns = raw.meta
        assert not {"edge_id", "edge_ids", "which"} & {*arguments, *(column[0] for column in columns)}
