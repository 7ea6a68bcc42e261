"""What of the drop-in's benchmark can be tested without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.beside_cugraph import drop_in
from benchmarks.beside_cugraph.drop_in import ALGORITHMS, COMPARED, main, summarise_totals
from benchmarks.beside_cugraph.drop_in_window import DropInWindow, different_pairs


def test_a_window_slides_over_all_edges() -> None:
    window = DropInWindow(np.arange(10), np.arange(10) + 100, slide=2, slides=3)
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
        ("borrowed rows", "total"): [10.0],
        ("drop-in", "algorithm"): [3.0],
        ("cugraph.Graph", "algorithm"): [6.0],
        ("SGGraph alone, later", "algorithm"): [3.0],
        ("BorrowedGraph alone, later", "algorithm"): [3.3],
    }
    assert summarise_totals(times) == {
        "cugraph.Graph / drop-in": 10.0,
        "SGGraph / drop-in": 4.0,
        "borrowed rows / drop-in": 2.0,
        "algorithm: drop-in / cugraph.Graph": 0.5,
        "BorrowedGraph alone, later / SGGraph": pytest.approx(1.1),
    }


def test_results_are_compared_by_vertex_and_partition() -> None:
    frame = drop_in._by_vertex(pd.DataFrame({"vertex": [2, 0, 1], "labels": [7, 9, 7]}))
    assert frame["labels"].tolist() == [9, 7, 7]
    np.testing.assert_array_equal(
        drop_in._canonical(np.array([9, 7, 7, 9])), drop_in._canonical(np.array([0, 1, 1, 0]))
    )
    assert drop_in._canonical(np.array([9, 7, 7, 9])).tolist() == [0, 1, 1, 0]


def test_pulling_algorithms_and_directions() -> None:
    assert {name for name, algorithm in ALGORITHMS.items() if algorithm.pulls} == {"pagerank"}
    assert {name for name, algorithm in ALGORITHMS.items() if algorithm.directed} == {"bfs", "pagerank"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_results_that_differ_are_found(name: str) -> None:
    def result(values: list[float]) -> Any:
        if name == "louvain":
            return None, values[0]
        columns = {"first": [4, 4, 3], "second": [5, 4, 6]} if name == "jaccard" else {"vertex": [2, 0, 1]}
        column = {"pagerank": "pagerank", "weakly_connected_components": "labels"}.get(name) or COMPARED[name]
        return pd.DataFrame({**columns, column: values})

    assert drop_in._differs(name, result([0.5, 0.5, 0.25]), result([0.5, 0.5, 0.25])) is None
    assert drop_in._differs(name, result([0.75, 0.25, 0.25]), result([0.5, 0.5, 0.25])) is not None


def test_an_unknown_algorithm_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--algorithm", "pagerankk"])
    assert "invalid choice" in capsys.readouterr().err
