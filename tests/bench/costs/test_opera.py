"""The measurement of mixed batches runs, on small sizes, and all ways give the same answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.costs.opera import QUERIES, WAYS, OperationBatch, draw_batches, main, measure
from dynstore.bench.schema import check_document
from dynstore.datasets import rmat
from dynstore.errors import InputError

ROOT = Path(__file__).resolve().parents[3]


def test_all_ways_give_the_same_answers(backend_name: str) -> None:
    size, steps = (200, 3) if backend_name == "cpu" else (12, 1)
    found = measure(6 if backend_name == "cpu" else 4, 40, size, 0.3, steps, backend_name, (*QUERIES, "k_hop"))
    assert [one.way for one in found] == list(WAYS)
    for one in found:
        assert len(one.times) == steps
        assert all(time_ms > 0 for time_ms in one.times)
        assert min(map(sum, one.answers)) > 0
    with pytest.raises(InputError, match=r"costs\.opera: 4 batches of 2000 rows need more than 2560 events"):
        measure(6, 40, 2000, 0.1, 3, "cpu")


def test_batches_have_their_share_of_queries() -> None:
    for batch in draw_batches(rmat(6, 40, 1), 1000, 100, 3, 0.1, QUERIES, 1):
        assert np.count_nonzero(batch.kinds >= 2) == 10
        assert batch.columns(np.asarray)["time"].tolist() == [row // 4 for row in range(100)]


def test_a_batch_is_cut_at_queries() -> None:
    batch = OperationBatch(np.array([0, 2, 3, 1, 0, 2, 0]), np.zeros(7, np.int32), np.zeros(7, np.int32))

    def cut(together: bool) -> list[tuple[list[int], list[int]]]:
        return [(writes.tolist(), queries.tolist()) for writes, queries in batch.parts(together)]

    assert cut(False) == [([0], [1]), ([], [2]), ([3, 4], [5]), ([6], [])]
    assert cut(True) == [([0], [1, 2]), ([3, 4], [5]), ([6], [])]


def test_it_prints_and_writes_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    main(
        ["--scale", "7", "--batches", "50,90", "--shares", "10", "--steps", "2", "--device", "cpu", "--json", str(out)]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rmat:7:16, cpu, median ms of 2 batches"
    assert [line.split()[:2] for line in lines[2:]] == [["50", "10%"], ["90", "10%"]]
    document = json.loads(out.read_text(encoding="utf-8"))
    check_document(document)
    assert [row["store"] for row in document["rows"]] == [f"{way}, 10% queries" for way in WAYS] * 2


def test_the_page_shows_the_kept_figures() -> None:
    """If this fails after a new run, the lines to put into the page are those that it names."""
    kept = "benchmarks/results/host/opera-costs.json"
    document = json.loads((ROOT / kept).read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "guides" / "mixed-batches.md").read_text(encoding="utf-8").splitlines()
    check_document(document)
    typed_now = document["command"].replace("dynstore.benchmarks", "benchmarks")
    assert f"    {typed_now}" in page
    rows = {(row["store"], row["batch"]): row["median_ms"] for row in document["rows"]}
    for share in ("1%", "3%", "10%", "30%"):
        cells = [f"{share} queries"]
        for batch in (10_000, 100_000):
            times = [rows[f"{way}, {share} queries", batch] for way in WAYS]
            cells += [f"{time_ms:.0f} ({time_ms / times[0]:.1f}x)" if place else f"{time_ms:.0f}"
                      for place, time_ms in enumerate(times)]  # fmt: skip
        line = f"| {' | '.join(cells)} |"
        assert line in page, line
