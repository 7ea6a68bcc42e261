"""The comparison of ways out of core runs on small sizes, and writes what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dynstore.backend import get_backend
from dynstore.benchmarks.out_of_core import ALGORITHMS, WAYS, main
from dynstore.benchmarks.out_of_core_rows import make_rmat
from dynstore.errors import InputError


def test_rows_are_a_sorted_graph_by_falling_degree() -> None:
    out, into = make_rmat(get_backend("cpu"), 8, 8, 3, False)
    sources = np.repeat(np.arange(256), np.diff(out.offsets))
    keys = sources * 256 + out.indices
    assert (np.diff(keys) > 0).all()
    assert (sources != out.indices).all()
    degrees = np.diff(out.offsets) + np.diff(into.offsets)
    assert (np.diff(degrees) <= 0).all()
    assert degrees[0] > 8 * np.median(degrees)
    backwards = np.repeat(np.arange(256), np.diff(into.offsets)) + into.indices.astype(np.int64) * 256
    assert np.sort(backwards).tolist() == keys.tolist()
    again, _ = make_rmat(get_backend("cpu"), 8, 8, 3, False)
    assert again.indices.tolist() == out.indices.tolist()


def test_a_symmetric_graph_has_both_directions() -> None:
    out, into = make_rmat(get_backend("cpu"), 7, 4, 3, True)
    assert out is into
    sources = np.repeat(np.arange(128), np.diff(out.offsets))
    assert set(zip(sources.tolist(), out.indices.tolist(), strict=True)) == set(
        zip(out.indices.tolist(), sources.tolist(), strict=True)
    )


def test_each_way_and_algorithm_has_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ways.json"
    sizes = ["--scale", "9", "--edge-factor", "8", "--repeats", "2", "--iterations", "3", "--device", "cpu"]
    main([*sizes, "--resident", "0,1", "--json", str(path)])
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert rows[0]["store"] == "link"
    assert len(rows) == 1 + 2 * len(WAYS) * len(ALGORITHMS)
    for row in rows[1:]:
        assert (row["bytes"] == 0) == row["store"].endswith("resident 1")
    ranked = {row["store"]: row["bytes"] for row in rows if row["algorithm"] == "pagerank"}
    assert ranked["raw, resident 0"] == ranked["zero-copy, resident 0"] == -(-rows[1]["edges"] // 32) * 128
    assert ranked["codec, resident 0"] < 0.4 * ranked["raw, resident 0"]
    assert "bytes an edge in pages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ways", "fax"], "out_of_core: unknown way 'fax'; known: 'codec', 'hybrid', 'raw', 'zero-copy'"),
        (["--algorithms", "sort"], "out_of_core: unknown algorithm 'sort'"),
        (["--resident", "half"], "out_of_core: --resident is 'half'; wanted numbers by comma"),
        (["--scale", "31"], "out_of_core: --scale is 31; wanted 1 to 30"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        main([*arguments, "--device", "cpu"])
