"""The measurement of what extra columns cost runs, on small sizes, and says what it promises."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.costs.edge_columns import main, measure
from dynstore.errors import InputError

KINDS = ["no weight", "weight", "no weight, id, type", "weight, id, type"]


def test_all_kinds_hold_the_same_edges(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scale", "8", "--batch", "50", "--steps", "3", "--device", "cpu", "--no-directed"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("DynamicGraph(undirected, ")
    assert [line[:24].strip() for line in lines[2:]] == KINDS
    assert "+0%" in lines[3]


def test_each_operation_is_timed_in_each_step() -> None:
    contestants = measure(8, 4, 20, 4, "cpu")
    for one in contestants:
        counts = {operation: len(times) for operation, times in one.times.items()}
        assert counts == {"build": 1, "insert": 4, "delete": 4, "read": 4}
        assert all(time_ms > 0 for times in one.times.values() for time_ms in times)
    columns = [one.graph.edge_columns() for one in contestants]
    assert [list(each)[2:] for each in columns] == [[], ["weight"], ["id", "type"], ["weight", "id", "type"]]
    for name in ("id", "type"):
        np.testing.assert_array_equal(columns[2][name], columns[3][name])
    with pytest.raises(InputError, match=r"costs\.edge_columns: 6 steps of 20 rows need more than 64 events"):
        measure(4, 4, 20, 4, "cpu")
