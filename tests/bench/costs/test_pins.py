"""The measurement of what pins cost runs, on small sizes, and says what it promises."""

from __future__ import annotations

import pytest

from dynstore.benchmarks.costs.pins import KINDS, main, measure
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
    assert not graph._logs
    with pytest.raises(InputError, match=r"costs\.pins: 20 batches of 40 rows need more than 256 events"):
        measure(6, 4, 40, 3, "cpu")
