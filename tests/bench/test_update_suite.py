"""The suite of updates alone: counts are checked, rows are those of the schema, bad jobs are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dynstore.bench.schema import make_document
from dynstore.bench.suites import get_suite
from dynstore.bench.update_suite import KINDS, UpdateJob, run_updates
from dynstore.cli import app
from dynstore.datasets import load, rmat
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from tests.conftest import DEVICES

REAL_DEVICES = [name for name in DEVICES if name != "cuda-sim"]


def ignore(*progress: Any) -> None:
    pass


@pytest.mark.parametrize("device", REAL_DEVICES)
@pytest.mark.parametrize("directed", [None, False])
def test_every_kind_and_size_is_timed(device: str, directed: bool | None) -> None:
    job = UpdateJob(stores=("gpma+", "merge"), batch="30,2%", steps=2, device=device, directed=directed)
    result = run_updates(rmat(9, 8, seed=1), job, ignore)
    assert result.disagreement is None
    rows = {(row["store"], row["operation"], row["batch"]): row for row in result.rows}
    assert len(rows) == len(result.rows)
    for store in job.stores:
        for kind in KINDS:
            name = store if kind == "stream" else f"{store}, {kind}"
            growing = rows.get((f"{name}, growing", "insert", 30), {"steps": 0})["steps"]
            inserted = rows.get((name, "insert", 30), {"steps": 0})["steps"]
            assert inserted + growing == 2
            assert kind == "inserts" or rows[name, "delete", 30]["steps"] == 2
            assert kind in ("rows", "hub", "gaps", "inserts") or rows[name, "build", result.num_edges]["steps"] in (
                1,
                3,
            )
    make_document("updates", "x", {"name": "x", "vertices": 1, "edges": 1, "seed": 1}, result.rows, True)


def test_a_store_that_loses_edges_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    delete = DynamicGraph.delete_edges

    def lose(graph: DynamicGraph, edges: Any) -> Any:
        return delete(graph, (edges[0][1:], edges[1][1:]))

    monkeypatch.setattr(DynamicGraph, "delete_edges", lose)
    result = run_updates(rmat(8, 8, seed=1), UpdateJob(stores=("gpma+",), batch=20, steps=1, device="cpu"), ignore)
    assert result.disagreement == "gpma+, stream: 19 of 20 edges deleted"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"weighted": True}, "does not use the weights"),
        ({"stores": ()}, "--store is missing"),
        ({"stores": ("merge", "merge")}, "each once"),
        ({"stores": ("no",)}, "unknown store"),
        ({"kinds": ("stream", "hubs")}, "unknown kind 'hubs'"),
        ({"batch": "30,none"}, "--batch is 'none'"),
        ({"batch": 10**6}, "need 22000000 edges"),
    ],
)
def test_jobs_that_cannot_run(options: dict[str, Any], message: str) -> None:
    job = UpdateJob(**{"device": "cpu", "batch": 10, **options})
    with pytest.raises(InputError, match=message):
        run_updates(load("collegemsg"), job, ignore)


def test_only_some_kinds() -> None:
    job = UpdateJob(stores=("merge",), batch=20, steps=1, device="cpu", kinds=("int64", "inserts"))
    stores = {row["store"] for row in run_updates(rmat(8, 8, seed=1), job, ignore).rows}
    assert {name.removesuffix(", growing") for name in stores} == {"merge, int64", "merge, inserts"}


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    arguments = ["bench", "rmat:8:8", "--suite", "updates", "--batch", "10,20", "--steps", "1", "--device", "cpu"]
    page, document = tmp_path / "out.html", tmp_path / "out.json"
    done = CliRunner().invoke(app, [*arguments, "--json", str(document), "--report", str(page)])
    assert done.exit_code == 0, done.output
    assert "gaps" in done.output
    assert "<td>hub</td>" in page.read_text()
    assert '"suite": "updates"' in document.read_text()
    assert get_suite("updates").name == "updates"
