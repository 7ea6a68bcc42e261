"""The measurement of streamed pages runs, on a small graph, and says what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dynstore.benchmarks import streamed_pages
from dynstore.benchmarks.schema import check_document


def test_rows_have_times_and_bytes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed_pages, "LINK_BYTES", 1 << 20)
    path = tmp_path / "pages.json"
    sizes = ["--scale", "8", "--edge-factor", "8", "--page-bytes", "1024", "--steps", "2", "--device", "cpu"]
    assert streamed_pages.main([*sizes, "--json", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("PagedTopology(num_vertices=2")
    assert lines[-1] == "results as in memory"
    document = json.loads(path.read_text(encoding="utf-8"))
    check_document(document)
    rows = {(row["store"], row["algorithm"]): row for row in document["rows"]}
    assert rows["gts, all resident", "pagerank iteration"]["bytes"] == 0
    sent = rows["gts, defaults", "pagerank iteration"]["bytes"]
    assert rows["gts, half in an LRU cache", "pagerank iteration"]["bytes"] >= sent
    assert rows["gts, half resident", "pagerank iteration"]["bytes"] < 0.6 * sent
    assert rows["gts, all resident", "bfs"]["bytes"] == 0


def test_edges_are_skewed_and_the_same_for_a_seed() -> None:
    src, dst = streamed_pages.draw_edges(np, 10, 8, 3)
    again = streamed_pages.draw_edges(np, 10, 8, 3)
    np.testing.assert_array_equal((src, dst), again)
    assert src.max() < 1024
    assert abs(np.mean(src < 512) - 0.76) < 0.02
    assert abs(np.mean((src < 512) & (dst < 512)) - 0.57) < 0.02
