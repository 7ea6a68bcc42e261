"""What of the drop-in's benchmark can be tested without a GPU."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dynstore.benchmarks import drop_in_suite
from dynstore.benchmarks.drop_in_suite import ALGORITHMS, main, summarise_totals
from dynstore.benchmarks.drop_in_window import Window, different_pairs


def test_a_window_slides_over_all_edges() -> None:
    window = Window(np.arange(10), np.arange(10) + 100, slide=2, slides=3)
    assert window.size == 4
    held = set(window.now()[0].tolist())
    for _ in range(3):
        leaving, entering = window.advance()
        held = (held - set(leaving[0].tolist())) | set(entering[0].tolist())
        assert held == set(window.now()[0].tolist())
        np.testing.assert_array_equal(window.now()[1], window.now()[0] + 100)
    assert window.now()[0].tolist() == [6, 7, 8, 9]


def test_pairs_are_different_and_in_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for directed in (True, False):
        src, dst = different_pairs(np, 7, 8, 3, directed)
        assert src.dtype == dst.dtype == np.int32
        pairs = list(zip(src.tolist(), dst.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)
        assert pairs != sorted(pairs)
        assert directed or all(u <= v for u, v in pairs)


def test_ratios() -> None:
    times = {
        ("cugraph.Graph", "total"): [40.0, 50.0, 60.0],
        ("SGGraph", "total"): [20.0],
        ("drop-in", "total"): [5.0],
        ("own kernels", "total"): [2.0],
        ("SGGraph alone, later", "algorithm"): [3.0],
        ("BorrowedGraph alone, later", "algorithm"): [3.3],
    }
    assert summarise_totals(times) == {
        "cugraph.Graph / drop-in": 10.0,
        "SGGraph / drop-in": 4.0,
        "cugraph.Graph / own kernels": 25.0,
        "BorrowedGraph alone, later / SGGraph": pytest.approx(1.1),
    }


def test_results_are_compared_by_vertex_and_partition() -> None:
    frame = drop_in_suite._by_vertex(pd.DataFrame({"vertex": [2, 0, 1], "labels": [7, 9, 7]}))
    assert frame["labels"].tolist() == [9, 7, 7]
    np.testing.assert_array_equal(
        drop_in_suite._canonical(np.array([9, 7, 7, 9])), drop_in_suite._canonical(np.array([0, 1, 1, 0]))
    )
    assert drop_in_suite._canonical(np.array([9, 7, 7, 9])).tolist() == [0, 1, 1, 0]


def test_pulling_algorithms_and_directions() -> None:
    assert {name for name, algorithm in ALGORITHMS.items() if algorithm.pulls} == {"pagerank"}
    assert {name for name, algorithm in ALGORITHMS.items() if not algorithm.directed} == {"weakly_connected_components"}


def test_an_unknown_algorithm_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--algorithm", "pagerankk"])
    assert "invalid choice" in capsys.readouterr().err
