"""Slides against two updates: both graphs hold the same, and the table says what was timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dynstore import cli
from dynstore.bench.schema import check_document
from dynstore.bench.slide_suite import KINDS, SlideJob, SlideResult, check_job, run_slides
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph


def quietly(*progress: Any) -> None:
    pass


@pytest.mark.parametrize("directed", [True, False])
def test_both_ways_hold_the_same(directed: bool) -> None:
    job = SlideJob(stores=("gpma+", "merge"), batch=20, steps=3, device="cpu", directed=directed)
    result = run_slides(rmat(7, 8, seed=1), job, quietly)
    assert result.disagreement is None
    assert set(result.changed) == {(store, kind) for store in job.stores for kind in KINDS}
    assert len(result.rows) == 2 * len(result.changed)
    for key, changed in result.changed.items():
        assert len(changed) == len(result.times[*key, "window"]) == len(result.times[*key, "two updates"]) == 3
        assert all(deleted <= 20 for deleted, _ in changed)
    assert result.times_as_fast("gpma+", "latest") > 0


def test_a_window_that_takes_twice_as_long_is_half_as_fast() -> None:
    times = {("gpma+", "latest", "window"): [2.0, 4.0, 90.0], ("gpma+", "latest", "two updates"): [1.0, 2.0, 9.0]}
    assert SlideResult("cpu", 1, times=times).times_as_fast("gpma+", "latest") == 0.5


def test_a_difference_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    delete = DynamicGraph.delete_edges
    monkeypatch.setattr(
        DynamicGraph, "delete_edges", lambda graph, edges: delete(graph, tuple(end[1:] for end in edges))
    )
    result = run_slides(rmat(6, 8, seed=1), SlideJob(batch=5, steps=2, device="cpu"), quietly)
    assert result.disagreement is not None
    assert result.disagreement.startswith("gpma+, latest, step ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps is 0; wanted at least 1"),
        ({"weighted": True}, "got --weight; --suite slides makes its own"),
        ({"kinds": ("mean",)}, "unknown kind 'mean'; known: 'count', 'latest', 'sum'"),
        ({"stores": ("gpma*",)}, "unknown store"),
    ],
)
def test_wrong_jobs_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_job(SlideJob(**{"device": "cpu", **options}))
    with pytest.raises(InputError, match="the stream has 512"):
        run_slides(rmat(6, 8), SlideJob(batch=100, device="cpu"), quietly)


def test_it_is_a_suite_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, page = tmp_path / "out.json", tmp_path / "out.html"
    arguments = ["bench", "rmat:7:8", "--suite", "slides", "--batch", "20", "--steps", "2", "--device", "cpu"]
    monkeypatch.setattr("sys.argv", ["dynstore", *arguments, "--json", str(out), "--report", str(page)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code in (0, None)
    assert "two updates" in capsys.readouterr().out
    document = json.loads(out.read_text(encoding="utf-8"))
    check_document(document)
    assert document["suite"] == "slides"
    assert "gpma+" in page.read_text(encoding="utf-8")
