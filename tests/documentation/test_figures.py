"""The tables of measured figures show what the files of results hold: a cell is a median, rounded."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
LARGER, MANY = "docs/guides/larger-than-memory.md", "docs/guides/many-gpus.md"


class Source(NamedTuple):
    """Where a cell comes from: a file, the row's ``store``, and if these are several, what else tells them apart."""

    file: str
    store: str
    algorithm: str | None = None
    operation: str | None = None
    batch: int | None = None


def _costs(name: str) -> dict[int, Source]:
    file = "h100/host-memory-rmat24"
    return {
        1: Source(file, f"{name}, device"),
        2: Source(file, f"{name}, host, in place"),
        3: Source(file, f"{name}, host, pages"),
        4: Source(file, f"{name}, host, pages, none kept"),
    }


def _own(algorithm: str) -> dict[int, Source]:
    file = "h100/ranks-own-weak-rmat22"
    found = {
        1: Source(file, "own: ShardedGraph, 2 ranks", algorithm),
        2: Source(file, "own: DynamicGraph", algorithm),
    }
    if algorithm not in ("sssp", "triangle_count"):
        found[3] = Source("h100/ranks-cugraph-rmat22", "cugraph: MGGraph, 2 ranks", algorithm)
    return found


def _slides(edges: int) -> dict[int, Source]:
    """Of the columns of two and three GPUs; a hundredth of the edges slides, which tells the rows of a file apart."""
    batch = edges // 100
    two, three = "h200/ranks-slides-rmat24", "h200/ranks-slides-3-ranks-rmat24"
    return {
        3: Source(two, "slides: 2 ranks", None, "update", batch),
        4: Source(three, "slides: 3 ranks", None, "update", batch),
        6: Source(two, "slides: 2 ranks", "pagerank", None, batch),
        7: Source(three, "slides: 3 ranks", "pagerank", None, batch),
    }


def _total(file: str, usual: str, ours: str) -> dict[int, Source]:
    return {1: Source(file, usual, None, "total"), 2: Source(file, ours, None, "total")}


# Page, how a row of a table begins, and the sources of its cells by column.
ROWS: list[tuple[str, str, dict[int, Source]]] = [
    *((LARGER, name, _costs(name)) for name in ("insert", "delete", "look up older ones", "bfs", "components")),
    (LARGER, "look up |", _costs("look up")),
    (LARGER, "pagerank, 10 iterations", _costs("pagerank, 10 iterations")),
    (LARGER, "pagerank, an iteration", {
        1: Source("h100/out-of-core-rmat28", "hybrid, resident 0", "pagerank"),
        2: Source("h100/out-of-core-rmat28", "raw, resident 0", "pagerank"),
    }),
    (LARGER, "shortest paths, scale 27, weights", {
        1: Source("h100/out-of-core-rmat27-sssp", "hybrid, resident 0", "sssp"),
        2: Source("h100/out-of-core-rmat27-sssp", "zero-copy, resident 0", "sssp"),
    }),
    (MANY, "make the graph anew", {3: Source("h100/ranks-cugraph-rmat22", "cugraph: MGGraph, 2 ranks", None, "build")}),
    (MANY, "bfs", _own("bfs")),
    (MANY, "pagerank, 10 iterations", _own("pagerank")),
    (MANY, "weakly connected components", _own("weakly_connected_components")),
    (MANY, "sssp", _own("sssp")),
    (MANY, "triangles, a graph", _own("triangle_count")),
    (MANY, "579 M", _slides(600_000_000)),
    (MANY, "1,135 M", _slides(1_200_000_000)),
    (MANY, "1,677 M", _slides(1_800_000_000)),
    *((
        "README.md", f"H200: 65,000 of 63 M edges leave and enter, then {shown}",
        _total("h200/drop-in-rmat22", f"cugraph.Graph, {name}", f"drop-in, {name}"),
    ) for shown, name in (("BFS", "bfs"), ("PageRank", "pagerank"), ("components", "weakly_connected_components"))),
    ("README.md", "two H100, Dask", _total("h100/dask-slides-rmat20", "cugraph.dask", "live")),
]  # fmt: skip


@cache
def read_rows(file: str) -> list[dict[str, object]]:
    document = json.loads((ROOT / "benchmarks/results" / f"{file}.json").read_text(encoding="utf-8"))
    rows: list[dict[str, object]] = []
    batch = 0  # an algorithm that follows an update has that one's batch
    for row in document["rows"]:
        batch = row["batch"] or batch
        rows.append({**row, "batch": batch})
    return rows


def find_median(source: Source) -> float:
    found = [
        row
        for row in read_rows(source.file)
        if row["store"] == source.store
        and source.algorithm in (None, row["algorithm"])
        and source.operation in (None, row["operation"])
        and source.batch in (None, row["batch"])
    ]
    assert len(found) == 1, f"{source}: {len(found)} rows"
    return float(str(found[0]["median_ms"]))


def read_cells(page: str, beginning: str, columns: int) -> list[list[str]]:
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith(f"| {beginning}")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) > columns]


@pytest.mark.parametrize(("page", "beginning", "sources"), ROWS, ids=lambda value: str(value)[:40])
def test_a_cell_is_a_median_of_its_file(page: str, beginning: str, sources: dict[int, Source]) -> None:
    rows = read_cells(page, beginning, max(sources))
    assert rows, f"{page} has no row {beginning!r}"
    cells = rows[0]
    for column, source in sources.items():
        shown = cells[column].split()[-1].replace(",", "")
        assert re.fullmatch(r"\d+(\.\d+)?", shown), cells[column]
        half = 0.5 * 10.0 ** -len(shown.partition(".")[2])
        assert abs(float(shown) - find_median(source)) <= half * 1.001, (cells[column], find_median(source))
