"""A stream that gets too much loses nothing but what it drops and counts; and what is lost is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.costs import overload
from benchmarks.costs.overload import PARTS, Outcome, Tenth, main, soak
from dynstore.bench.schema import check_document
from dynstore.errors import InputError
from dynstore.streams.pending import OVERFLOW, Pending, Taken

SMALL: dict[str, Any] = {"overload": 10.0, "batch": 500, "window": 5000, "scale": 8, "device": "cpu"}


def test_each_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    given = "--minutes 0.01 --overload 10 --batch 500 --window 5000 --scale 8 --device cpu"
    code = main([*given.split(), "--json", str(path)])
    said = capsys.readouterr().out
    assert "FAULT" not in said
    assert code == 0
    document = json.loads(path.read_text())
    check_document(document)
    assert document["agree"]
    rows = document["rows"]
    assert [row["store"].partition(":")[0] for row in rows[:: PARTS + 1]] == list(OVERFLOW)
    assert all(row["bytes"] > 1 << 20 for row in rows[:: PARTS + 1])
    assert all(row["edges"] > 100 for row in rows)


def soak_until(overflows: Callable[[Outcome], bool], policy: str) -> Outcome:
    """Run until rows have found no room: how soon that is depends on the machine."""
    for seconds in (0.5, 2.0, 8.0, 32.0):
        found = soak(policy, seconds, **SMALL)
        if overflows(found):
            break
    return found


def test_rows_are_dropped_and_counted() -> None:
    found = soak_until(lambda found: found.dropped > 0, "drop-oldest")
    assert found.faults == []
    assert found.dropped > 0
    assert found.offered == found.applied + found.dropped
    assert found.applied > found.expired > 0


def test_a_stream_that_overflows_goes_on_where_it_was() -> None:
    found = soak_until(lambda found: found.streams > 1, "error")
    assert found.faults == []
    assert found.streams > 1
    assert found.dropped == 0
    assert found.offered == found.applied > 0


def test_rows_that_are_lost_or_come_twice_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Pending.take

    def loses(self: Pending, *limits: Any) -> Taken:
        taken = take(self, *limits)
        taken.parts[-1] = taken.parts[-1][1:]
        return taken

    monkeypatch.setattr(Pending, "take", loses)
    assert any("are missing" in fault for fault in soak("block", 0.5, **SMALL).faults)

    def doubles(self: Pending, *limits: Any) -> Taken:
        taken = take(self, *limits)
        taken.parts.append(taken.parts[-1])
        return taken

    monkeypatch.setattr(Pending, "take", doubles)
    with pytest.raises(RuntimeError, match="came after"):
        soak("block", 0.5, **SMALL)


def test_an_edge_too_many_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = overload.Witness.faults

    def spoils(self: Any) -> Any:
        graph = self.window.graph
        graph.insert_edges(([np.int32(3)], [np.int32(255)]))
        graph.insert_edges(([np.int32(255)], [np.int32(3)]))
        graph.insert_edges(([np.int32(255)], [np.int32(255)]))
        return faults(self)

    monkeypatch.setattr(overload.Witness, "faults", spoils)
    found = soak("block", 0.3, **{**SMALL, "window": 50})
    assert any("edges that are not those of the rows" in fault for fault in found.faults)


def test_memory_that_grows_is_noticed() -> None:
    steady = [Tenth([1.0], 500 << 20, 1 << 30)] * PARTS
    assert list(overload._growth(steady)) == []
    grown = [*steady[:-1], Tenth([1.0], 500 << 20, 3 << 30)]
    assert list(overload._growth(grown)) == ["the memory of the GPU has grown from 1074 to 3221 MB"]


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match="--overflow drop; wanted some of block, drop-oldest, error"):
        main(["--overflow", "drop"])
    with pytest.raises(InputError, match=r"--minutes 0\.0 --overload"):
        main(["--minutes", "0"])
