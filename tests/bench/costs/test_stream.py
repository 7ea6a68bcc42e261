"""The measurement of streams runs, on small sizes, and says what it promises."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.costs.stream import WARM_UP, Feed, main, measure
from benchmarks.costs.stream_stages import ALONE, IN_STREAM
from dynstore.bench.schema import check_document
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.streams import StreamMonitor


def test_a_line_a_size_and_kind_and_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    main(
        [
            "rmat:8:8",
            "--batches",
            "100,2e2",
            "--steps",
            "4",
            "--logs",
            "off,group",
            "--device",
            "cpu",
            "--json",
            str(path),
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rmat:8:8: 2,048 events; medians of 4 batches"
    assert [line.split()[:5:2] for line in lines[2:]] == [
        [size, f"{log},", kind]
        for size in ("100", "200")
        for kind in ("none", "weakly_connected_components,")
        for log in ("off", "group")
    ]
    document = json.loads(path.read_text())
    check_document(document)
    assert len(document["rows"]) == 32
    assert all(row["median_ms"] > 0 for row in document["rows"])


def test_the_window_stays_as_large_as_it_is() -> None:
    events = rmat(8, 8, 1)
    feed = Feed(events)
    assert len(feed.oldest[0]) == feed.window == 1024
    first, second = feed.batches(2, 700)
    assert first[0].tolist() == events.src[1024:1724].tolist()
    assert second[0].tolist() == [*events.src[1724:], *events.src[:376]]
    (rows,) = measure(events, [50], ["none"], 3, "cpu")
    assert [row["store"].partition(",")[0] for row in rows] == ["stream", "latency", "update", "copies"]
    assert WARM_UP > 0


def test_each_stage_has_its_times(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    given = "rmat:8:8 --batches 100 --monitors none,pagerank --logs off,os --steps 3 --stages --device cpu"
    main([*given.split(), "--folder", str(tmp_path / "a" / "b"), "--json", str(path)])
    assert list((tmp_path / "a" / "b").iterdir()) == []
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in shown if line[0] in (*ALONE, "all")].count("window") == 4
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 4 * (4 + len(ALONE) + len(IN_STREAM))
    medians = {row["store"]: row["median_ms"] for row in rows}
    for kind in ("log: off, monitors: pagerank", "log: os, monitors: pagerank"):
        assert all(medians[f"{name} alone, {kind}"] > 0 for name in ALONE)
        assert medians[f"update in the stream, {kind}"] > 0
    assert medians["monitors alone, log: off, monitors: none"] == 0


def test_what_warms_up_is_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    update, calls = StreamMonitor.after_batch, []

    def slow_at_first(self: StreamMonitor, event_time: Any, last: bool = False) -> None:
        calls.append(self)
        if calls.count(self) == 1:
            time.sleep(1.0)
        update(self, event_time, last)

    monkeypatch.setattr(StreamMonitor, "after_batch", slow_at_first)
    (rows,) = measure(rmat(8, 8, 1), [50], ["pagerank"], 3, "cpu")
    assert rows[1]["store"].startswith("latency")
    assert 0 < rows[1]["max_ms"] < 900


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match="batches of 5000 rows; rmat:8:8 has a window of 1024"):
        main(["rmat:8:8", "--batches", "5000", "--device", "cpu"])
    with pytest.raises(InputError, match=r"--monitors bfs --logs off; wanted none, weakly.*, both; off, os, group"):
        main(["rmat:8:8", "--monitors", "bfs"])
