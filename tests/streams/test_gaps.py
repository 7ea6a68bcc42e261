"""A source that lacks what was not read yet: an error that says what, or a count, and the stream goes on."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

import dynstore
from dynstore import Stream
from dynstore.errors import InputError, SourceGapError
from tests.streams.scripted import Scripted, graph, pairs_of

ROWS = [(0, 1)], [(1, 2)], [(5, 6)]


def gap(count: int | None = 3) -> SourceGapError:
    return SourceGapError("Scripted: batches 3 to 5 of 'pay' are gone", 3, 5, count, 5)


def test_the_rows_before_a_gap_are_applied_and_committed() -> None:
    G, source = graph(), Scripted(*ROWS[:2], gap(), ROWS[2], ends=True)
    with pytest.raises(SourceGapError, match="batches 3 to 5 of 'pay' are gone") as caught:
        Stream(G, source).run()
    assert (caught.value.first, caught.value.last, caught.value.count, caught.value.resume) == (3, 5, 3, 5)
    assert pairs_of(G) == {(0, 1), (1, 2)}
    assert source.committed[-1] == 2
    assert source.sought == []


@pytest.mark.parametrize("count", [3, None])
def test_a_stream_goes_on_behind_a_gap_and_counts_it(count: Any, caplog: pytest.LogCaptureFixture) -> None:
    G, source = graph(), Scripted(ROWS[0], gap(count), ROWS[1], gap(4), ROWS[2], ends=True)
    with caplog.at_level(logging.WARNING, "dynstore"):
        progress = Stream(G, source, on_gap="continue").run()
    assert pairs_of(G) == {(0, 1), (1, 2), (5, 6)}
    assert (progress.gaps, progress.lost) == (2, 7 if count else 4)
    assert source.sought == [5, 5]
    assert next(text for text in caplog.messages if "goes on behind it" in text).startswith("Stream: Scripted: batches")
    assert ", 2 gaps" in str(progress)


class Trimmed(Scripted):
    """Lacks what is behind any position but the last."""

    def seek(self, position: Any) -> None:
        if position < 2:
            raise SourceGapError("Trimmed: batch 1 is gone", position, 2, 1, 2)
        super().seek(position)


def test_a_gap_may_show_when_a_stream_begins_again(tmp_path: Path) -> None:
    """Rows of the gap's other side are all new, also if some of a batch before it were applied."""
    with dynstore.open(tmp_path, device="cpu") as db:
        Stream(db.graph, Scripted(ROWS[0], ends=True)).run()
    with dynstore.open(tmp_path, device="cpu") as db, pytest.raises(SourceGapError, match="batch 1 is gone"):
        Stream(db.graph, Trimmed(ROWS[2], ends=True)).run()
    with dynstore.open(tmp_path, device="cpu") as db:
        progress = Stream(db.graph, Trimmed(ROWS[2], ends=True), on_gap="continue").run()
        assert (progress.gaps, progress.lost) == (1, 1)
        assert pairs_of(db.graph) == {(0, 1), (5, 6)}


class Behind(Scripted):
    """Begins behind batch 5: what came before is gone."""

    def seek(self, position: Any) -> None:
        if position < 5:
            raise SourceGapError("Behind: batches 1 to 5 are gone", position, 5, 5 - position, 5)
        super().seek(position)


def crash_within(tmp_path: Path, source: Scripted, batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a program read, which crashes after so many batches."""
    with dynstore.open(tmp_path, device="cpu") as db:
        stream = Stream(db.graph, source, batch_edges=1, max_delay=0.0, on_gap="continue")
        journal = stream._engine.journal
        assert journal is not None
        positions: list[bytes] = []

        def positioned(position: bytes) -> Any:
            assert len(positions) < batches, "a crash"
            positions.append(position)
            return type(journal).positioned(journal, position)

        monkeypatch.setattr(journal, "positioned", positioned)
        with pytest.raises(AssertionError, match="a crash"):
            stream.run()


class Holes(Scripted):
    """Has a gap behind a gap."""

    def seek(self, position: Any) -> None:
        if position == 5:
            raise SourceGapError("Holes: batch 6 is gone", 6, 6, 1, 7)
        super().seek(position)


def test_a_gap_behind_a_gap_is_passed_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    G, source = graph(), Holes(ROWS[0], gap(), ROWS[2], ends=True)
    progress = Stream(G, source, on_gap="continue").run()
    assert pairs_of(G) == {(0, 1), (5, 6)}
    assert (progress.gaps, progress.lost) == (2, 4)
    assert source.sought == [7]
    with pytest.raises(SourceGapError, match="batches 3 to 5"):
        Stream(graph(), Holes(ROWS[0], gap(), ROWS[2], ends=True)).run()


TOGETHER = [(5, 6), (6, 7), (7, 8)]


def test_a_batch_that_ends_within_the_rows_behind_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These rows are behind the gap, and are skipped after a restart; the gap is not seen a second time."""
    crash_within(tmp_path, Scripted(ROWS[0], gap(), TOGETHER, ends=True), 2, monkeypatch)
    with dynstore.open(tmp_path, device="cpu") as db:
        assert pairs_of(db.graph) == {(0, 1), (5, 6)}
        source = Behind(TOGETHER, ends=True)
        progress = Stream(db.graph, source, on_gap="continue").run()
        assert source.sought == [5]
        assert (progress.gaps, progress.applied) == (0, 2)
        assert pairs_of(db.graph) == {(0, 1), (5, 6), (6, 7), (7, 8)}


class Beginning(Scripted):
    """Says where it begins."""

    def start(self) -> int:
        return 3


def test_a_batch_that_ends_within_the_first_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream goes on where the source began, if the source still has that."""
    crash_within(tmp_path, Beginning(TOGETHER, ends=True), 1, monkeypatch)
    with dynstore.open(tmp_path, device="cpu") as db:
        assert pairs_of(db.graph) == {(5, 6)}
        with pytest.raises(SourceGapError, match="batches 1 to 5 are gone"):
            Stream(db.graph, Behind(TOGETHER, ends=True)).run()
        source = Beginning(TOGETHER, ends=True)
        assert Stream(db.graph, source).run().applied == 2
        assert source.sought == [3]
        assert pairs_of(db.graph) == {(5, 6), (6, 7), (7, 8)}


def test_what_another_program_has_read_is_said(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    source = Scripted(ROWS[0], ends=True)
    source.left_behind = "Scripted: the group 'g' is behind batch 4 already"
    with caplog.at_level(logging.WARNING, "dynstore"):
        Stream(graph(), source).run()
    assert "the group 'g' is behind batch 4 already. The graph is empty" in caplog.text
    caplog.clear()
    for G in (graph(), dynstore.open(tmp_path, device="cpu").graph):
        if G.version == 0:
            G.insert_edges(ROWS[1])
        again = Scripted(ROWS[0], ends=True)
        again.left_behind = source.left_behind
        with caplog.at_level(logging.WARNING, "dynstore"):
            Stream(G, again).run()
    assert "batch 4" not in caplog.text


def test_errors_of_gaps_travel() -> None:
    copied = pickle.loads(pickle.dumps(gap()))
    assert (str(copied), copied.first, copied.last, copied.count, copied.resume) == (str(gap()), 3, 5, 3, 5)
    with pytest.raises(InputError, match="unknown on_gap 'go'; known: 'continue', 'raise'"):
        Stream(graph(), [], on_gap="go")  # type: ignore[arg-type]
