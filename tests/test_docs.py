"""The pages tell the truth: links lead somewhere, code runs, and figures are those of the files that they name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
NX_BACKEND = str(ROOT / "tests" / "adapters" / "networkx")
NEEDS_GPU = ("dynstore.adapters import cugraph", "as_cugraph", "share_pool")


def _text(page: Path | str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_and_files_are_there(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", BLOCK.sub("", _text(page))):
        if not link.startswith("https://"):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            if anchor:
                titles = re.findall(r"^#+ (.*)$", _text(target), flags=re.MULTILINE)
                assert anchor in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles], link
    for name in re.findall(r"`(benchmarks/results/[\w./-]+)`", _text(page)):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_runs_and_prints_what_is_shown(page: Path) -> None:
    blocks = BLOCK.findall(_text(page))
    programs = [body for language, body in blocks if language == "python" and not any(w in body for w in NEEDS_GPU)]
    if not programs:
        return
    if page.name == "networkx.md":  # where dynstore is not installed, NetworkX does not know its backend
        programs.insert(0, f"import sys; sys.path.insert(0, {NX_BACKEND!r}); import nx_backend; nx_backend.register()")
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(programs)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for language, body in blocks:
        if language == "text" and not body.startswith(">>>"):
            assert done.stdout == body


@cache
def _medians(name: str) -> dict[tuple[str, str, int], float]:
    """Return medians by store, algorithm or else operation, and batch."""
    rows = json.loads((RESULTS / name).read_text(encoding="utf-8"))["rows"]
    return {(row["store"], row["algorithm"] or row["operation"], row["batch"]): row["median_ms"] for row in rows}


def _median(name: str, store: str, operation: str) -> float:
    (value,) = [ms for key, ms in _medians(name).items() if key[:2] == (store, operation)]
    return value


def _total(name: str, store: str) -> float:
    rows = json.loads((RESULTS / name).read_text(encoding="utf-8"))["rows"]
    (value,) = [row["median_ms"] for row in rows if (row["store"], row["operation"]) == (store, "total")]
    return float(value)


def _short(ms: float) -> str:
    return f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 100 else f"{ms:.0f}"


def _rows(page: str, header: str) -> dict[str, list[str]]:
    """Return the cells of the table with this header by their row's first cell."""
    lines = iter(_text(page).splitlines())
    assert any(line == header for line in lines), header
    next(lines)
    table = {}
    for line in lines:
        if not line.startswith("|"):
            break
        first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        table[first] = cells
    return table


def test_the_readmes_host_table() -> None:
    table = _rows("README.md", "| stream | gpma+ | merge | rebuild | NumPy key sort of the window |")
    names = ["mathoverflow-directed", "mathoverflow", "rmat20-directed"]
    assert len(table) == len(names)
    for cells, name in zip(table.values(), names, strict=True):
        kept = [_median(f"host/{name}.json", store, "update") for store in ("gpma+", "merge", "rebuild")]
        kept.append(_median(f"host/{name}.json", "numpy-key-sort", "convert"))
        assert cells == [_short(ms) for ms in kept]


def test_the_drop_ins_times() -> None:
    name = "h200/drop-in-rmat22.json"
    readme = _rows("README.md", "| | from a batch to the result | of that the update |")
    page = _rows(
        "docs/cugraph.md",
        "| | new `cugraph.Graph` | `SGGraph` | drop-in | times | update + squeeze + algorithm | own kernel |",
    )
    algorithms = {"bfs": "bfs", "pagerank to 1e-6": "pagerank", "components": "weakly_connected_components"}
    for title, algorithm in algorithms.items():
        new, plc, ours, own = (
            _total(name, f"{way}, {algorithm}") for way in ("cugraph.Graph", "SGGraph", "drop-in", "own kernels")
        )
        parts = [_median(name, f"drop-in, {algorithm}", part) for part in ("update", "convert", algorithm)]
        update = _median(name, f"own kernels, {algorithm}", "update")
        times = f"{new / ours:.1f}"
        assert page[title] == [
            f"{new:.1f}", f"{plc:.1f}", f"{ours:.1f}", times, " + ".join(f"{ms:.1f}" for ms in parts), f"{own:.1f}"
        ]  # fmt: skip
        assert readme[f"{title}, a new `cugraph.Graph` a batch"][0] == (f"{new:.1f}" if new < 100 else f"{new:.0f}")
        assert readme[f"{title}, the drop-in / our own kernel"] == [
            f"{ours:.1f} / {own:.1f}", f"{parts[0]:.1f} / {update:.1f}"
        ]  # fmt: skip
        assert re.search(rf"{times} times", _text("README.md").split("```python")[0])


def test_the_algorithms_times() -> None:
    name = "h200/algorithms-rmat22.json"
    table = _rows("docs/algorithms.md", "| | gapped | packed | gaps cost | call | cuGraph's call |")
    assert len(table) == 11
    for title, (gapped, packed, cost, call, cugraph) in table.items():
        algorithm, kind = re.findall(r"^`(\w+)`.*, (directed|symmetric)$", title)[0]
        ours = [
            _median(name, f"{way}, {kind}", algorithm) for way in ("kernels, gapped", "kernels, packed", "dynstore")
        ]
        for shown, ms in zip((gapped, packed, call), ours, strict=True):
            assert shown == _short(ms), title
        assert cost == f"{100 * (ours[0] / ours[1] - 1):.0f} %", title
        assert cugraph == (_short(_median(name, f"cuGraph, {kind}", algorithm)) if cugraph else "")


def test_the_stores_times() -> None:
    kept, batches = _medians("h200/stores-rmat22.json"), (10_000, 100_000, 1_000_000)
    table = _rows(
        "docs/choosing-a-store.md", "| store | insert 1e4, 1e5, 1e6 | delete 1e4, 1e5, 1e6 | table 1e4, 1e5, 1e6 |"
    )
    assert {name.strip("`") for name in table} == {store for store, *_ in kept}
    for title, (insert, delete, snapshot) in table.items():
        store = title.strip("`")
        assert insert == ", ".join(f"{kept[store, 'insert', batch]:.2f}" for batch in batches)
        assert delete == ", ".join(f"{kept[store, 'delete', batch]:.2f}" for batch in batches)
        tables = [kept[store, "snapshot", batch] for batch in batches]
        shown = ", ".join(f"{ms:#.2g}" for ms in tables)
        assert snapshot == (shown if max(tables) >= 0.01 else "0")


def test_what_ids_cost() -> None:
    header = "| ids | undirected: build | insert | delete | size | directed: build | insert | delete | size |"
    for title, cells in _rows("docs/vertex-ids.md", header).items():
        for half, kind in enumerate(("undirected", "directed")):
            for cell, operation in zip(cells[4 * half :], ("build", "insert", "delete"), strict=False):
                kept = _median("host/id-costs.json", f"{kind}, {title}", operation)
                base = _median("host/id-costs.json", f"{kind}, 0 .. V-1, renumber=False", operation)
                more = "" if kept == base else f" (+{100 * (kept / base - 1):.0f}%)"
                assert cell == (f"{kept:.0f}" if operation == "build" else f"{kept:.1f}") + more
