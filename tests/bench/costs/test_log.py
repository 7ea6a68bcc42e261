"""The measurement of what the log costs runs, on small sizes, and says what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.costs.log import main, measure
from dynstore.bench.schema import check_document
from dynstore.errors import InputError


def test_every_kind_of_log_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--scale", "8", "--batch", "20", "50", "--steps", "3", "--device", "cpu"]
    main([*sizes, "--folder", str(tmp_path), "--json", str(tmp_path / "log.json")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["off", "os", "group", "commit"]
    assert "1.00x" in lines[2]
    assert len(lines) == 12
    document = json.loads((tmp_path / "log.json").read_text())
    check_document(document)
    assert [path.name for path in tmp_path.iterdir()] == ["log.json"]


def test_each_operation_is_timed_in_each_step(tmp_path: Path) -> None:
    for one in measure(8, 4, 20, 4, "cpu", tmp_path):
        counts = {operation: len(times) for operation, times in one.times.items()}
        assert counts == {"build": 1, "insert": 4, "delete": 4, **({} if one.sync == "off" else {"open": 1})}
        assert (one.num_bytes > 0) == (one.sync != "off")
    with pytest.raises(InputError, match=r"costs\.log: 6 steps of 20 rows need more than 64 events"):
        measure(4, 4, 20, 4, "cpu", tmp_path)
