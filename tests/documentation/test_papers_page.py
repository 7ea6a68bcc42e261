"""The ratios on docs/papers.md are those of the kept files."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The files have older names of the stores.
LPMA, LEVEL, SLABS = "lpma-h", "gpma+ level", "slab-hash"

# What is compared -> the file, the faster store, the slower one, the experiment, and what was timed.
COMPARED = {
    "updates: `gpma+` over `rebuild`": ("gpma", "gpma+", "rebuild", "gpma/fig7", "update"),
    "updates: `gpma+` over `merge`": ("gpma", "gpma+", "merge", "gpma/fig7", "update"),
    "updates: `gpma+` over `gpma`": ("gpma", "gpma+", "gpma", "gpma/fig7", "update"),
    "updates: `gpma_level` over `gpma`": ("gpma", LEVEL, "gpma", "gpma/fig7", "update"),
    "updates: `gpma_level` over `pma` on the host": ("gpma", LEVEL, "pma", "gpma/fig7", "update"),
    "BFS: on the gaps of `gpma_level`, over packed rows": ("gpma", LEVEL, "rebuild", "gpma/fig8, analytics", "bfs"),
    "batches: `lpma` over `gpma_level`": ("lpma", LPMA, LEVEL, "lpma/load, all batches", "insert"),
    "batches: `lpma` over `gpma+`": ("lpma", LPMA, "gpma+", "lpma/load, all batches", "insert"),
    "batches that grow the array: `lpma` bottom-up over `gpma_level`": (
        "lpma", "lpma-b", LEVEL, "lpma/load, batches that expand", "insert"
    ),
    "batches that grow the array: `lpma` bottom-up over `gpma+`": (
        "lpma", "lpma-b", "gpma+", "lpma/load, batches that expand", "insert"
    ),
    "batches: `lpma` bottom-up over top-down": ("lpma", "lpma-b", "lpma-t", "lpma/load, all batches", "insert"),
    "batches: `lpma` hybrid over bottom-up": ("lpma", "lpma-h", "lpma-b", "lpma/load, all batches", "insert"),
    "batches: `lpma` hybrid over top-down": ("lpma", "lpma-h", "lpma-t", "lpma/load, all batches", "insert"),
    "conversion to CSR: `lpma` over `slab_hash`": ("lpma", LPMA, SLABS, "lpma/csr", "convert"),
    "conversion to CSR: `lpma` over `gpma+`": ("lpma", LPMA, "gpma+", "lpma/csr", "convert"),
    "triangles: `lpma` over `slab_hash`": ("lpma", LPMA, SLABS, "lpma/fig18", "triangle_count"),
    "PageRank: `lpma` over `slab_hash`": ("lpma", LPMA, SLABS, "lpma/fig19", "pagerank"),
    "BFS: `lpma` over `slab_hash`": ("lpma", LPMA, SLABS, "lpma/fig20", "bfs"),
    "edge queries: `slab_hash` over `lpma`": ("lpma", SLABS, LPMA, "lpma/edges", "has_edges"),
    "sorted neighbours: `lpma` over `slab_hash`": ("lpma", LPMA, SLABS, "lpma/neighbours", "neighbours"),
    "insertions: `slab_hash` over `gpma+`": ("slab-hash", SLABS, "gpma+", "slab-hash/table2", "insert"),
    "deletions: `slab_hash` over `gpma+`": ("slab-hash", SLABS, "gpma+", "slab-hash/table3", "delete"),
    "bulk build: `slab_hash` over `gpma+`": ("slab-hash", SLABS, "gpma+", "slab-hash/table5", "build"),
    "sorted CSR: `slab_hash` over `gpma+`": ("slab-hash", SLABS, "gpma+", "slab-hash/table8", "convert"),
    "triangles: `slab_hash` over `gpma+`": ("slab-hash", SLABS, "gpma+", "slab-hash/table7", "triangle_count"),
    "deleted vertices: `slab_hash` over `gpma+`": ("slab-hash", SLABS, "gpma+", "slab-hash/table4", "delete"),
    "build: load factor 0.7 over 5": (
        "slab-hash", "slab-hash at 0.7", "slab-hash at 5", "slab-hash/fig2a", "build"
    ),
}  # fmt: skip


def _shown(ratio: float) -> str:
    return f"{ratio:#.2g}".removesuffix(".")


def _ratios(paper: str, fast: str, slow: str, experiment: str, timed: str) -> list[float]:
    """Return how many times as fast one store was as another, for each data set and batch."""
    path = ROOT / "benchmarks" / "results" / "h200" / f"papers-{paper}.json"
    times: dict[str, dict[tuple[str, int], float]] = {}
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        store, data, _, part = row["store"].split(", ", 3)
        if part == experiment and timed == (row["algorithm"] or row["operation"]):
            times.setdefault(store, {})[data, row["batch"]] = row["median_ms"]
    return [times[slow][place] / ms for place, ms in times[fast].items() if place in times[slow]]


@pytest.mark.parametrize("title", COMPARED)
def test_a_ratio_of_the_page_is_that_of_its_file(title: str) -> None:
    found = _ratios(*COMPARED[title])
    row = f"| {title} | {_shown(min(found))} to {_shown(max(found))} | {_shown(median(found))} |"
    assert row in (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
