"""The command that measures edges in host memory does what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynstore.benchmarks.costs.host_memory import KINDS, main, measure
from dynstore.benchmarks.schema import check_document
from dynstore.errors import InputError


def test_each_kind_does_the_same_operations() -> None:
    found = measure(6, 16, 20, 2, "cpu", weighted=True, directed=True)
    assert list(found) == list(KINDS)
    for times in found.values():
        assert len(times["insert"]) == len(times["delete"]) == 2
        assert len(times["bfs"]) == 3
        assert all(value >= 0 for values in times.values() for value in values)
    assert found["host, pages"]["host bytes"][0] > 0


def test_it_prints_a_row_for_each_operation(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scale", "6", "--batch", "20", "--steps", "2", "--device", "cpu", "--kind", "host, in place"])
    shown = capsys.readouterr().out
    for name in ("build, a piece", "insert", "delete", "look up", "bfs", "components", "device bytes", "M rows/s"):
        assert name in shown


def test_the_document_has_a_row_for_each_time(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    main(["--scale", "6", "--batch", "20", "--steps", "2", "--device", "cpu", "--json", str(file)])
    document = json.loads(file.read_text())
    check_document(document)
    rows = {row["store"]: row for row in document["rows"]}
    assert len(rows) == 7 * len(KINDS)
    assert rows["insert, host, pages"]["bytes"] > 0


def test_too_few_events() -> None:
    with pytest.raises(InputError, match="more than 1024 events"):
        measure(6, 16, 400, 2, "cpu")
