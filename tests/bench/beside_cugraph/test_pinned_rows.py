"""cuGraph's times on pinned rows and on device rows, with a stand-in for cuGraph."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.beside_cugraph import pinned_rows
from dynstore.errors import InputError, MissingDependencyError


class Rows:
    """What the stand-in borrows."""

    def __init__(self, offsets: Any, indices: Any, weights: Any, ids: Any, **options: Any) -> None:
        assert weights is None
        assert options["symmetric"]
        assert offsets[-1] == indices.shape[0]
        self.degrees, self.indices, self.options = np.diff(offsets), indices, options


def make_library(off_by: int) -> SimpleNamespace:
    """Return functions whose answers depend on the rows; every second core number is wrong by ``off_by``."""
    calls = []

    def core_number(handle: Any, rows: Rows, kind: str, checks: bool) -> tuple[Any, Any]:
        calls.append(rows)
        return None, rows.degrees + rows.indices.sum() + off_by * (len(calls) % 2)

    def components(handle: Any, rows: Rows, *rest: Any) -> tuple[Any, Any]:
        calls.append(rows)
        return None, (rows.degrees > 0) * 10 + len(calls)  # other labels each time, the same parts

    def pagerank(handle: Any, rows: Rows, *rest: Any, **options: Any) -> tuple[Any, Any, bool]:
        assert rows.options["transposed"]
        return None, rows.degrees / rows.indices.shape[0], True

    return SimpleNamespace(
        ResourceHandle=lambda: None, core_number=core_number, weakly_connected_components=components,
        pagerank=pagerank, bfs=lambda handle, rows, *rest: (rows.degrees, None, None),
        louvain=lambda handle, rows, *rest: (None, None, 0.5),
    )  # fmt: skip


SIZES = ["--scale", "7", "--edge-factor", "4", "--repeats", "2", "--device", "cpu"]


def lend(monkeypatch: pytest.MonkeyPatch, off_by: int = 0) -> None:
    monkeypatch.setitem(sys.modules, "pylibcugraph", make_library(off_by))
    monkeypatch.setattr(pinned_rows, "load_bridge", lambda: SimpleNamespace(borrowed_graph=Rows, reason=""))


def test_each_algorithm_has_both_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lend(monkeypatch)
    path = tmp_path / "pinned.json"
    assert pinned_rows.main([*SIZES, "--json", str(path)]) == 0
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [(row["store"], row["algorithm"], row["steps"]) for row in rows] == [
        (f"cuGraph, {place} rows", name, 2) for name in pinned_rows.ALGORITHMS for place in ("device", "pinned")
    ]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(pinned_rows.ALGORITHMS)
    assert [line.split()[0] for line in lines[2:]] == list(pinned_rows.ALGORITHMS)


def test_another_answer_is_found_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lend(monkeypatch, 1)
    assert pinned_rows.main([*SIZES, "--algorithms", "core_number,louvain"]) == 1
    assert "DISAGREEMENT: core_number has another answer on pinned rows" in capsys.readouterr().out


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="pinned_rows: unknown algorithm 'leiden'"):
        pinned_rows.main([*SIZES, "--algorithms", "leiden"])
    lend(monkeypatch)
    bridge = SimpleNamespace(borrowed_graph=None, reason="no compiler")
    monkeypatch.setattr(pinned_rows, "load_bridge", lambda: bridge)
    with pytest.raises(MissingDependencyError, match="pinned_rows: cuGraph cannot borrow rows here: no compiler"):
        pinned_rows.main(SIZES)
