"""The measurement of a store that grows and shrinks: every part runs, and lost edges are found out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lpma_cycle import Cycle, main
from dynstore.bench.schema import check_document
from dynstore.graph import DynamicGraph

SMALL = ["--device", "cpu", "--scale", "8", "--batches", "10"]  # here half of the edges nearly fill an array
STRATEGIES = ("lpma bottom-up", "lpma top-down", "lpma hybrid")


def test_every_part_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert main([*SMALL, "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    check_document(document)
    assert document["agree"]
    steps = {(row["store"], row["operation"]): row["steps"] for row in document["rows"]}
    for name in ("gpma+", *STRATEGIES):
        assert steps[name, "insert"] == steps[name, "delete"] == 9
    for name in ("gpma+", *STRATEGIES[:2]):
        assert steps[f"{name}, growing", "insert"] == 3
        assert steps[f"{name}, before", "insert"] > 3
        assert steps[f"{name}, after", "insert"] == 18
    for name in STRATEGIES:
        assert steps[f"{name}, cycle", "insert"] > 5
        assert steps[f"{name}, cycle", "delete"] > 1
    printed = capsys.readouterr().out
    for line in ("apart: sort", "ratio to before", "hybrid / better of the two", "'growths': 1"):
        assert line in printed
    assert "shrinking 0.000" not in printed


def test_a_batch_that_cannot_grow_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL[:-1], "50", "--part", "B"]) == 0
    assert "gpma+                  50: does not grow in the edges there are" in capsys.readouterr().out


def test_a_store_that_loses_edges_is_found_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    delete = DynamicGraph.delete_edges

    def lose(graph: DynamicGraph, edges: Any) -> Any:
        return delete(graph, (edges[0][1:], edges[1][1:]))

    monkeypatch.setattr(DynamicGraph, "delete_edges", lose)
    assert main([*SMALL, "--part", "A"]) == 1
    assert "gpma+: 9 of 10 edges done" in capsys.readouterr().out


def test_a_batch_too_large_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*SMALL[:-1], "1000"])
    assert "1000 is too many for" in capsys.readouterr().err


def test_edges_come_and_go_in_their_order() -> None:
    cycle = Cycle("cpu", 8, 16, 7)
    cycle.warm_up()
    cycle.ordinary(10)
    assert not cycle.problems
    assert {key[1:] for key in cycle.times} == {("insert", 10), ("delete", 10)}
