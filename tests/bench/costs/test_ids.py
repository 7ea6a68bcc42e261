"""The measurement of what ids cost runs, on small sizes, and says what it promises."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.costs.ids import IdContestant, main, measure
from dynstore.bench.schema import check_document
from dynstore.datasets import rmat
from dynstore.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
KINDS = ["0 .. V-1, renumber=False", "sparse int64", "strings", "categories of strings"]


def test_all_kinds_of_ids_hold_the_same_graph(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scale", "8", "--batch", "50", "--steps", "3", "--device", "cpu", "--directed"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("DynamicGraph(directed, ")
    assert [line[:28].strip() for line in lines[2:]] == KINDS
    assert "+0%" in lines[2]


def test_times_are_taken_step_by_step() -> None:
    for one in measure(8, 4, 20, 4, "cpu"):
        assert {operation: len(times) for operation, times in one.times.items()} == {
            "build": 1, "insert": 4, "delete": 4, "update": 4,
        }  # fmt: skip
        assert all(time_ms > 0 for times in one.times.values() for time_ms in times)
    with pytest.raises(InputError, match="need more than 64 events"):
        measure(4, 4, 20, 4, "cpu")


def test_integers_are_where_the_graph_is_before_the_clock_starts() -> None:
    """And strings where users have them."""
    backend = SimpleNamespace(asarray=lambda column: ("brought", column.tolist()))
    graph: Any = SimpleNamespace(core=SimpleNamespace(backend=backend))
    numbers = np.array([2, 0])
    assert IdContestant("integers", np.array([5, 6, 7]), graph).column(numbers) == ("brought", [7, 5])
    strings = np.array(["a", "b", "c"], dtype=object)
    assert IdContestant("strings", strings, graph).column(numbers).tolist() == ["c", "a"]
    assert IdContestant("categories", strings, graph, categories=True).column(numbers).tolist() == ["c", "a"]


def test_the_results_file_has_both_ways_and_all_ids(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    main(["--scale", "7", "--batch", "9", "--steps", "2", "--device", "cpu", "--json", str(out)])
    document = json.loads(out.read_text(encoding="utf-8"))
    check_document(document)
    assert document["command"] == (
        f"python -m benchmarks.costs.ids --scale 7 --batch 9 --steps 2 --device cpu --json {out}"
    )
    events = rmat(7, 8, 1)
    num_ids = np.union1d(events.src, events.dst).shape[0]
    assert document["dataset"] == {"name": "rmat:7:8", "vertices": num_ids, "edges": 1024, "seed": 1}
    updates = {row["store"]: row for row in document["rows"] if row["operation"] == "update"}
    assert list(updates) == [f"{way}, {kind}" for way in ("undirected", "directed") for kind in KINDS]
    assert updates["directed, strings"]["bytes"] > updates["directed, sparse int64"]["bytes"] > 0
    assert {(row["operation"], row["batch"], row["steps"]) for row in document["rows"]} == {
        ("build", 1024 - 9 * 4, 1), ("insert", 9, 2), ("delete", 9, 2), ("update", 9, 2),
    }  # fmt: skip


def test_the_page_about_ids_shows_the_kept_figures() -> None:
    """If this fails after a new run, the lines to put into the page are those that it names."""
    kept = "benchmarks/results/host/id-costs.json"
    document = json.loads((ROOT / kept).read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "vertex-ids.md").read_text(encoding="utf-8")
    check_document(document)
    assert document["command"] == f"python -m dynstore.benchmarks.costs.ids --json {kept}"  # as it was called then
    assert f"\n    python -m benchmarks.costs.ids --json {kept}\n" in page
    assert f"{document['dataset']['vertices']:,} ids" in page
    rows = {(row["store"], row["operation"]): row for row in document["rows"]}
    for kind in KINDS:
        cells = [kind]
        for way in ("undirected", "directed"):
            for operation in ("build", "insert", "delete"):
                passed, base = (rows[f"{way}, {name}", operation]["median_ms"] for name in (kind, KINDS[0]))
                more = "" if kind == KINDS[0] else f" ({passed / base - 1:+.0%})"
                cells.append(f"{passed:.{0 if operation == 'build' else 1}f}{more}")
            cells.append(f"{rows[f'{way}, {kind}', 'update']['bytes'] / 1e6:.0f} MB")
        line = f"| {' | '.join(cells)} |"
        assert line in page.splitlines(), line
