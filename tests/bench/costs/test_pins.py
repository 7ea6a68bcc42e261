"""The measurement of what pins cost runs, on small sizes, and says what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.costs.pins import KINDS, main, measure
from dynstore.bench.schema import check_document
from dynstore.errors import InputError


def test_all_kinds_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scale", "9", "--batch", "50", "--steps", "2", "--device", "cpu", "--weighted"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("DynamicGraph(directed weighted, ")
    assert [line[:8].strip() for line in lines[2:6]] == list(KINDS)
    assert "1.00x" in lines[2]
    assert lines[-1].startswith("undo 0.0 MB, copy ")


def test_each_operation_is_timed_in_each_step() -> None:
    graph, times = measure(9, 8, 40, 3, "cpu")
    assert {kind: len(found["insert"]) for kind, found in times.items()} == dict.fromkeys(KINDS, 3)
    assert all(len(values) == 3 and min(values) > 0 for found in times.values() for values in found.values())
    assert set(times["1 pin"]) > set(times["no pin"])
    assert not graph.core.logs
    with pytest.raises(InputError, match=r"costs\.pins: 20 batches of 40 rows need more than 256 events"):
        measure(6, 4, 40, 3, "cpu")


def test_the_document_has_a_row_for_each_time(tmp_path: Path) -> None:
    main(["--scale", "9", "--batch", "50", "--steps", "2", "--device", "cpu", "--json", str(tmp_path / "pins.json")])
    document = json.loads((tmp_path / "pins.json").read_text())
    check_document(document)
    rows = {row["store"]: row for row in document["rows"]}
    assert len(rows) == 2 * len(KINDS) + 5
    assert rows["insert, 1 pin"]["bytes"] > 0
    assert rows["copy, 1 pin"]["bytes"] > 0
    assert rows["insert, no pin"]["bytes"] is None
    assert document["command"].startswith("python -m benchmarks.costs.pins --scale 9")
