"""Two checkouts side by side: the same calls are timed in both, and the interval is that of order statistics."""

from __future__ import annotations

from math import comb

import pytest

from tools import pairs


@pytest.mark.parametrize("count", [3, 6, 20, 41])
def test_the_interval_has_the_median_in_95_of_100_cases(count: int) -> None:
    """It lies outside where fewer than so many of the values are on one side of it."""
    low, high = pairs.interval_of([float(number) for number in range(count)])
    left = int(low)
    assert high == count - 1 - left

    def missed(values: int) -> float:
        return float(2 * sum(comb(count, number) for number in range(values + 1)) / 2**count)

    assert left == 0 or missed(left) <= 1 - pairs.CONFIDENCE
    assert missed(left + 1) > 1 - pairs.CONFIDENCE


def test_all_calls_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "EDGES", 300)
    monkeypatch.setattr(pairs, "READS", 4)
    monkeypatch.setattr(pairs, "BATCHES", {1: 2, 20: 2})
    monkeypatch.setattr(pairs, "TRACKED", 10)
    times = pairs.measure("cpu")
    calls = ["insert_edges 1", "delete_edges 1", "insert_edges 20", "delete_edges 20"]
    weighted = ["insert_edges 20, weighted", "insert_edges 10, weighted, and the tracked sssp", "sssp"]
    assert list(times) == [*calls, "has_edges 100", "neighbors", "bfs", *weighted]
    assert min(times.values()) > 0
