"""Bars: who asks for one sees how far the work is; who does not, or has no terminal, sees nothing."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.out_of_core import main as compare_ways
from dynstore import gts
from dynstore.errors import InputTypeError
from dynstore.terminal import show_progress
from tests.project.test_imports import loaded_by

EDGES = [0, 1, 2, 2, 3], [1, 2, 3, 0, 4]


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True

    def take(self) -> str:
        """Return what was written since the last time."""
        written = self.getvalue()
        self.seek(0)
        self.truncate()
        return written


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Let stderr be a terminal for the rest of a test."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return found


def test_a_bar_shows_what_is_done_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with show_progress() as (advance, aside):
        advance("reading [a]", 3, 8)
        with aside():
            assert "reading [a]" in terminal.getvalue()
            assert "3/8" in terminal.take()
            assert terminal.take() == ""  # nothing moves here
        advance("reading [b]", 8, 8)
    assert "8/8" in terminal.getvalue()
    assert terminal.take().endswith("\x1b[2K")  # the line is erased


def test_without_a_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as (advance, aside):
        advance("reading", 1, 2)
        with aside():
            pass
    assert capsys.readouterr() == ("", "")


def test_what_is_printed_beside_a_bar_stays_on_stdout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results may go to a file while a bar, perhaps of another thread, is on the terminal."""
    terminal = open_terminal(monkeypatch)
    with show_progress() as (advance, _):
        advance("reading", 1, 2)
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in terminal.take()


def test_a_terminal_that_cannot_move_its_cursor_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with show_progress() as (advance, aside):
        advance("reading", 1, 2)
        with aside():
            pass
    assert terminal.take() == ""


def test_builds_and_runs_show_bars_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    topology = gts.build(EDGES, page_bytes=64, p=2, q=2, progress=True)
    shown = terminal.take()
    assert "writing pages" in shown
    assert f"{topology.num_pages}/{topology.num_pages}" in shown
    engine = gts.GTS(topology, device="cpu", frames="pandas", progress=True)
    assert engine.bfs(0)["distance"].tolist() == [0, 1, 2, 3, 4]
    shown = terminal.take()
    assert f"bfs, pass {engine.last_run.passes}" in shown
    assert "1/1" in shown
    engine.pagerank(max_iter=7, tol=0, fail_on_nonconvergence=False)
    shown = terminal.take()
    assert "pagerank, pass 7" in shown
    assert f"{topology.num_pages}/{topology.num_pages}" in shown
    engine.betweenness_centrality(k=2)
    assert "betweenness_centrality, pass" in terminal.take()

    def count(words, first, count, lanes, starts, ranges, layout, degrees):  # type: ignore[no-untyped-def]
        degrees[0] += count

    (total,) = engine.run(count, count, "pagerank", written=[np.zeros(1, np.int32)])
    assert total[0] == topology.num_pages
    assert "run, pass 1" in terminal.take()


def test_by_default_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    gts.GTS(gts.build(EDGES, page_bytes=64), device="cpu").bfs(0)
    assert terminal.take() == ""
    assert "rich" not in loaded_by("from dynstore import gts; gts.GTS(gts.build(([0], [1])), device='cpu').bfs(0)")


def test_a_bar_ends_with_a_run_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    engine = gts.GTS(gts.build(EDGES, page_bytes=64), device="cpu", progress=True)

    def fail(*given: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine.run(fail, fail, "bfs", written=[], start=0)
    assert terminal.take().endswith("\x1b[2K")
    assert engine.bfs(0)["distance"].tolist() == [0, 1, 2, 3, 4]


def test_progress_is_a_flag() -> None:
    with pytest.raises(InputTypeError, match="build: progress is 'yes'"):
        gts.build(EDGES, progress="yes")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="GTS: progress is 'yes'"):
        gts.GTS(gts.build(EDGES), device="cpu", progress="yes")  # type: ignore[arg-type]


def test_a_comparison_shows_what_it_builds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terminal = open_terminal(monkeypatch)
    sizes = ["--scale", "8", "--edge-factor", "8", "--repeats", "1", "--iterations", "1", "--device", "cpu"]
    chosen = ["--ways", "raw,codec,gts", "--algorithms", "pagerank,bfs", "--json", str(tmp_path / "ways.json")]
    assert compare_ways([*sizes, *chosen]) == 0
    shown = terminal.take()
    for what in ("drawing out-edges", "packing in-edges, plain", "packing out-edges, encoded"):
        assert f"{what} \x1b" in shown  # a bar comes after it
    assert "256/256" in shown
    assert "writing pages" in shown
    assert "1 of 6: pagerank by raw, resident 0" in shown
    assert "6 of 6: bfs by gts, resident 0" in shown
    printed = capsys.readouterr().out
    assert len(json.loads((tmp_path / "ways.json").read_text(encoding="utf-8"))["rows"]) == 1 + 6
    assert "packing" not in printed
    assert "bytes an edge in pages" in printed
