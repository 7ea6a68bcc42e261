"""The command that measures edges in host memory does what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.costs.host_memory import KINDS, RmatRows, Sizes, main, measure
from dynstore.backend import get_backend
from dynstore.bench.schema import check_document
from dynstore.errors import InputError


@pytest.fixture(autouse=True)
def small_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small graphs have pages."""
    for kind in ("host, pages", "host, pages, none kept"):
        monkeypatch.setitem(KINDS, kind, {**KINDS[kind], "delta_edges": 50, "delta_share": 0.1})


def test_each_kind_does_the_same_operations() -> None:
    found = measure(Sizes(6, 16, 20, 2, 3), "cpu", weighted=True, directed=True)
    assert list(found) == list(KINDS)
    for times in found.values():
        assert len(times["insert"]) == len(times["delete"]) == 2
        assert len(times["bfs"]) == len(times["insert, in a row"]) == 3
        assert all(value >= 0 for values in times.values() for value in values)
    assert found["host, pages"]["host bytes"][0] > 0
    assert found["host, pages"]["merges in a row"][0] == 1


def test_it_prints_a_row_for_each_operation(capsys: pytest.CaptureFixture[str]) -> None:
    main(
        [
            "--scale",
            "6",
            "--batch",
            "20",
            "--steps",
            "2",
            "--inserts",
            "3",
            "--device",
            "cpu",
            "--kind",
            "host, in place",
        ]
    )
    shown = capsys.readouterr().out
    for name in (
        "build, a piece",
        "insert",
        "delete",
        "look up",
        "bfs",
        "components",
        "device bytes",
        "in a row",
        "M rows/s",
    ):
        assert name in shown


def test_the_document_has_a_row_for_each_time(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    main(["--scale", "6", "--batch", "20", "--steps", "2", "--inserts", "3", "--device", "cpu", "--json", str(file)])
    document = json.loads(file.read_text())
    check_document(document)
    rows = {row["store"]: row for row in document["rows"]}
    assert len(rows) == 10 * len(KINDS)
    several = next(row for name, row in rows.items() if name.startswith("insert, in a row: all"))
    assert several["steps"] == 1
    assert several["median_ms"] > rows["insert, in a row, device"]["median_ms"]
    assert rows["insert, host, pages"]["bytes"] > 0


def test_rows_do_not_depend_on_where_they_are_drawn_from(backend_name: str) -> None:
    backend = get_backend(backend_name)
    rows = RmatRows(backend, 8, 3, True)
    whole, parts = rows.draw(0, 100), (rows.draw(0, 40), rows.draw(40, 100))
    for column, *others in zip(whole, *parts, strict=True):
        found = np.concatenate([backend.to_host(other) for other in others])
        np.testing.assert_array_equal(backend.to_host(column), found)
    assert len(np.unique(backend.to_host(whole[0]))) > 20


def test_too_few_rows() -> None:
    with pytest.raises(InputError, match="more than 1024 rows"):
        measure(Sizes(6, 16, 400, 2), "cpu")


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [("--scale", "0", "1 or more"), ("--batch", "0", "1 or more"), ("--inserts", "-1", "0 or more"),
     ("--json", "nowhere/at/all.json", "nowhere")],
)  # fmt: skip
def test_wrong_arguments_are_refused_at_once(option: str, value: str, text: str) -> None:
    with pytest.raises(InputError, match=text):
        main(["--device", "cpu", option, value])
