"""The example on a Dask cluster, and the benchmark beside cugraph.dask, run where there is no GPU."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from benchmarks.beside_cugraph.dask_slides import WARM_UPS, WorkersWindow, distinct_edges, measure
from dynstore.errors import InputError

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "dask_graph.py"


def test_the_example_compares_with_one_graph(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    findings = runpy.run_path(str(EXAMPLE))["watch"](client, parts=3, kept=2)
    assert findings[0].edges < findings[1].edges
    assert "the same answers on 2 workers and on one graph" in capsys.readouterr().out


def test_slides_with_and_without_a_new_graph(client: Any) -> None:
    src, dst = distinct_edges(8, 8, 1)
    window = WorkersWindow(client, src, dst, 20, WARM_UPS + 1, "cpu")
    first = window.window(1).compute()
    assert len(first) == window.size
    assert sorted(zip(first["src"], first["dst"], strict=True)) == sorted(
        zip(src[20 : 20 + window.size].tolist(), dst[20 : 20 + window.size].tolist(), strict=True)
    )
    times, problem = measure(client, window, int(src[-1]), 1, "cpu")
    assert problem == ""
    assert {name.partition(":")[0] for name in times} == {"live", "live, ids as they are", "new DaskGraph"}
    assert all(len(values) == 1 for values in times.values())
    with pytest.raises(InputError, match="9 slides of 400 edges need more than"):
        WorkersWindow(client, src, dst, 400, 9, "cpu")
