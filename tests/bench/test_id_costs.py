"""The measurement of what ids cost runs, on small sizes, and says what it promises."""

from __future__ import annotations

import pytest

from dynstore.benchmarks.id_costs import main, measure


def test_all_kinds_of_ids_hold_the_same_graph(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scale", "8", "--batch", "50", "--steps", "3", "--device", "cpu", "--directed"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("DynamicGraph(directed, ")
    assert [line[:15] for line in lines[2:]] == ["0 .. V-1, renum", "sparse int64, r", "strings, renumb"]
    assert "+0%" in lines[2]


def test_times_are_taken_step_by_step() -> None:
    for one in measure(8, 4, 20, 4, "cpu"):
        assert len(one.inserts_ms) == len(one.deletes_ms) == 4
        assert all(time_ms > 0 for time_ms in [one.build_ms, *one.inserts_ms, *one.deletes_ms])
    with pytest.raises(SystemExit, match="need more than 64 events"):
        measure(4, 4, 20, 4, "cpu")
