"""The suite of tracked answers: rows are those of the schema, wrong answers are found out, bad jobs are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynstore.algorithms.tracking import TRACKED
from dynstore.bench.schema import make_document
from dynstore.bench.suites import get_suite
from dynstore.bench.tracked_suite import Series, TrackedJob, run_tracked
from dynstore.cli import app
from dynstore.datasets import load, rmat
from dynstore.errors import InputError
from tests.conftest import DEVICES

REAL_DEVICES = [name for name in DEVICES if name != "cuda-sim"]


def ignore(*progress: Any) -> None:
    pass


def test_tracking_that_takes_twice_as_long_is_half_as_fast() -> None:
    series = Series("gpma+", "bfs", "slides", 1)
    series.times["anew"] += [(1.0, 1.0), (0.5, 0.5), (2.0, 7.0)]
    series.times["tracked"] += [(1.0, 3.0), (1.0, 1.0), (80.0, 10.0)]
    assert series.times_as_fast == 0.5


@pytest.mark.parametrize("device", REAL_DEVICES)
@pytest.mark.parametrize("directed", [None, True])
def test_every_answer_kind_and_size_is_timed(device: str, directed: bool | None) -> None:
    job = TrackedJob(batch="5,2%,100000", steps=2, device=device, directed=directed)
    result = run_tracked(rmat(8, 8, seed=1), job, ignore)
    assert result.disagreement is None
    assert result.notes[0].startswith("batches of 100,000 are left out: at most ")
    names = sorted(TRACKED)
    if directed:
        assert result.notes[1] == "triangle_count is left out: it takes undirected graphs only"
        names.remove("triangle_count")
    sizes = sorted({series.batch for series in result.series})
    assert sizes[0] == 5
    seen = [(series.name, series.kind, series.batch) for series in result.series]
    assert sorted(seen) == sorted(
        (name, kind, size) for name in names for kind in ("insertions", "deletions", "slides") for size in sizes
    )
    for series in result.series:
        assert len(series.paths) == 2
        assert set(series.paths) <= {"incremental", "warm", "recomputed"}
        assert series.times_as_fast > 0
    rows = {(row["store"], row["operation"], row["algorithm"], row["batch"]): row for row in result.rows}
    assert len(rows) == len(result.rows)
    whole = rows["gpma+, slides, tracked", "algorithm", "bfs", 5]
    parts = [
        row for key, row in rows.items() if key[0].startswith("gpma+, slides, tracked, ") and key[2:] == ("bfs", 5)
    ]
    assert whole["steps"] == sum(row["steps"] for row in parts) == 2
    assert (
        rows["gpma+, slides, anew, bfs", "update", None, 5]["max_ms"]
        < rows["gpma+, slides, anew", "algorithm", "bfs", 5]["max_ms"]
    )
    make_document("tracked", "x", {"name": "x", "vertices": 1, "edges": 1, "seed": 1}, result.rows, True)


def test_both_graphs_hold_the_window_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream with time columns comes in its order, each pair once, and again from its beginning."""
    from dynstore.bench import tracked_suite

    events, backend = load("collegemsg"), tracked_suite.get_backend("cpu")
    ring = tracked_suite._Ring(events, directed=False, window=0.5, backend=backend)
    assert ring.size == 13_838
    race = tracked_suite._TrackedRace(TrackedJob(device="cpu"), backend, "gpma+", "bfs", ring, False)
    for deletes, inserts in ((False, True), (True, False), (True, True)) * 2:
        all_series = [tracked_suite.Series("gpma+", "bfs", "slides", 2000)]
        assert race.run(all_series, [(deletes, inserts)], 1) is None
        src, dst = ring.take(ring.low, ring.high - ring.low, False)
        wanted = set(zip(np.minimum(src, dst).tolist(), np.maximum(src, dst).tolist(), strict=True))
        for graph in race.graphs.values():
            columns = graph.edge_columns()
            held = zip(columns["source"].tolist(), columns["destination"].tolist(), strict=True)
            assert {(min(pair), max(pair)) for pair in held} == wanted
        if (deletes, inserts) == (False, True):
            assert ring.high - ring.low > ring.held


def test_a_wrong_answer_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from dynstore.algorithms.community.tracked import TriangleAnswer

    def forget(answer: TriangleAnswer, *_: Any) -> bool:
        answer._counts = answer._counts.copy()
        answer._counts[0] += 1
        return True

    def spoil(answer: TriangleAnswer, warm: bool = False) -> None:
        answer._counts = answer.G.core.backend.zeros(answer.G.number_of_vertices(), np.int32)

    monkeypatch.setattr(TriangleAnswer, "advance", forget)
    monkeypatch.setattr(TriangleAnswer, "recompute", spoil)
    job = TrackedJob(algorithms=("triangle_count",), batch=20, steps=1, device="cpu")
    result = run_tracked(rmat(8, 8, seed=1), job, ignore)
    assert result.disagreement is not None
    assert result.disagreement.startswith("triangle_count, insertions of 20: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"weighted": True}, "makes its own weights"),
        ({"stores": ()}, "no algorithm or no store"),
        ({"algorithms": ("betweenness_centrality",)}, "unknown tracked answer 'betweenness_centrality'"),
        ({"stores": ("no",)}, "unknown store"),
        ({"kinds": ("slide",)}, "unknown kind 'slide'"),
        ({"window": 1.0}, "--window is 1; wanted a share"),
        ({"batch": "30,none"}, "--batch is 'none'"),
        ({"batch": 10**6}, "the smallest --batch is 1000000 edges; wanted at most"),
    ],
)
def test_jobs_that_cannot_run(options: dict[str, Any], message: str) -> None:
    job = TrackedJob(**{"device": "cpu", "batch": 10, **options})
    with pytest.raises(InputError, match=message):
        run_tracked(load("collegemsg"), job, ignore)


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    arguments = ["bench", "rmat:8:8", "--suite", "tracked", "--steps", "1", "--device", "cpu", "--kind", "slides"]
    page, document = tmp_path / "out.html", tmp_path / "out.json"
    done = CliRunner().invoke(app, [*arguments, "--json", str(document), "--report", str(page)])
    assert done.exit_code == 0, done.output
    assert "batches of 100,000 are left out" in done.output
    assert "<td>weakly_connected_components</td>" in page.read_text()
    assert '"suite": "tracked"' in document.read_text()
    assert get_suite("tracked").name == "tracked"
