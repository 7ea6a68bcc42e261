"""The pages tell the truth: links lead somewhere, code runs, and figures are those of the files that they name."""

from __future__ import annotations

import doctest
import inspect
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import dynstore
from dynstore.bench.reports.summary import format_ms
from dynstore.bench.suites import SUITES
from dynstore.input.kinds import READING
from tests.documentation.programs import Programs

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
# Laboratory notes and internals are for developers; all other pages are for users.
FOR_DEVELOPERS = [ROOT / "docs" / "notes", ROOT / "docs" / "internals"]
USER_PAGES = [
    page for page in (ROOT / "docs").rglob("*.md") if not any(folder in page.parents for folder in FOR_DEVELOPERS)
]
USER_NAMES = [str(page.relative_to(ROOT)) for page in USER_PAGES]
MAX_WIDTH = 100
# Digits alone may be a commit, too, but neither those of a DOI nor round numbers or sizes in a command.
COMMIT = re.compile(r"(?<![\w.])(?<!--piece )(?!\d+000\b)[0-9a-f]{7,40}\b")
BLOCK = re.compile(r"^```(?:\{code-cell\} )?(\w+)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
NX_BACKEND = str(ROOT / "tests" / "adapters" / "networkx")
# libraries of pages that cannot run without them
NEEDS = {"torch_geometric": "pip install '.[pyg]'", "dask": "pip install '.[dask]'", "polars": "pip install polars"}
NEEDS_GPU = (
    "dynstore.adapters import cugraph",
    "dynstore.adapters.cugraph import mg",
    "import pylibcugraph",
    "as_cugraph",
    "as_nx_cugraph",
    "share_pool",
)


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


def test_commands_name_what_is_there() -> None:
    """Programs of ours and suites. In results and in notes they are called as they were then."""
    wrong, found = [], set()
    for name in NAMES:
        if not name.startswith(("docs/results/", "docs/notes/")):
            text = _text(name)
            modules = set(re.findall(r"python3? -m\s+((?:benchmarks|dynstore|tests|tools)\b[\w.]*\b)", text))
            suites = set(re.findall(r"dynstore bench [^`\n]*--suite (\S*\w)", text))
            there = {module for module in modules if module.endswith(".X") or find_spec(module) is not None}
            wrong += [(name, each) for each in (modules - there) | (suites - SUITES.keys())]
            found |= modules | suites
    assert wrong == []
    assert found >= {"benchmarks.papers", "benchmarks.ranks", "dynstore.bench.demo", "updates"}


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    started = Programs(ROOT, {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"})
    yield started
    started.end()


def test_programs_do_not_see_each_other(programs: Programs) -> None:
    assert programs.run("import sys; print(__name__, 'dynstore' in sys.modules); here = 1") == (
        0,
        "__main__ False\n",
        "",
    )
    failed = programs.run("print('at first'); here")
    assert failed[:2] == (1, "at first\n")
    assert failed.stderr.endswith("NameError: name 'here' is not defined\n")
    assert programs.run("import sys; sys.exit(3)") == (3, "", "")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_runs_and_prints_what_is_shown(page: Path, programs: Programs) -> None:
    blocks = BLOCK.findall(_text(page))
    parts = [body for language, body in blocks if language == "python" and not any(w in body for w in NEEDS_GPU)]
    if not parts:
        return
    for library, line in NEEDS.items():
        if any(library in part for part in parts) and find_spec(library) is None:
            pytest.skip(f"needs {library}: {line}")
    if page.name in ("networkx.md", "README.md"):  # where dynstore is not installed, NetworkX does not know its backend
        parts.insert(0, f"import sys; sys.path.insert(0, {NX_BACKEND!r}); import nx_backend; nx_backend.register()")
    done = programs.run("\n".join(parts))
    assert done.returncode == 0, done.stderr
    shown = [body for language, body in blocks if language == "text" and not body.startswith(">>>")]
    if shown:
        assert done.stdout == "".join(shown)


def _public() -> Iterator[Any]:
    """Yield the functions and classes with examples, base classes included."""
    for module in (
        dynstore,
        dynstore.algorithms,
        dynstore.distributed,
        dynstore.errors,
        dynstore.gts,
        dynstore.streams,
    ):
        for value in (getattr(module, name) for name in module.__all__):
            if isinstance(value, type):
                yield from (base for base in value.__mro__ if base is not object)
            elif inspect.isfunction(value):
                yield value


def test_the_examples_of_docstrings_print_what_they_show() -> None:
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    found = [example for value in _public() for example in finder.find(value)]
    examples = {(example.filename, example.name): example for example in found}
    for example in examples.values():
        runner.run(example)
    assert runner.summarize().failed == 0
    assert {"bfs", "pagerank", "sssp", "track", "triangle_count"} <= {
        example.name for example in found if example.examples
    }


def _slips(text: str) -> list[str]:
    """Return what a page for users should not have."""
    slips = [f"commit {commit}" for commit in COMMIT.findall(text)]
    slips += re.findall(r"\bwanted\b", text, flags=re.IGNORECASE)
    lines = [re.sub(r"\]\([^)]*\)", "]", line) for line in text.splitlines() if not line.startswith("|")]
    return slips + [f"{len(line)} characters: {line}" for line in lines if len(line) > MAX_WIDTH]


@pytest.mark.parametrize("page", USER_PAGES, ids=USER_NAMES)
def test_pages_for_users_read_well(page: Path) -> None:
    """They have no commits and no targets, which are for notes, and their lines fit on a screen."""
    assert _slips(_text(page)) == []


def test_slips_are_found() -> None:
    assert _slips("since 8401671 it takes 3 ms") == ["commit 8401671"]
    assert _slips("Wanted was 3 ms, at 9b2a6e4") == ["commit 9b2a6e4", "Wanted"]
    assert len(_slips("long " * 30)) == 1
    clean = "DOI 10.1109/TKDE.2023.3235941, 1,048,576 edges, --batch 1000000, [a page](" + "x" * 99 + ")"
    assert _slips(f"{clean}\n| " + "long " * 30) == []


def test_the_reference_names_every_method_of_the_graph() -> None:
    page = _text("docs/reference/graph.md")
    named = re.findall(r"^   DynamicGraph\.(\w+)$", page, flags=re.MULTILINE)
    assert sorted(named) == [name for name in dir(dynstore.DynamicGraph) if not name.startswith("_")]


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


def test_the_readmes_table() -> None:
    """Each row: what a step is, the usual way, dynstore, and how many times as fast."""
    table = _rows("README.md", "| one step | the usual way, ms | dynstore, ms | times as fast |")
    wanted = {}
    for title, name in (
        ("host: a window over mathoverflow slides by 1 % of the stream", "mathoverflow-directed"),
        ("host: a window of 4.2 M R-MAT events slides by 0.1 % of the stream", "rmat20-directed"),
    ):
        usual = {
            "SciPy": _median(f"host/{name}.json", "scipy", "convert"),
            "NumPy's sort": _median(f"host/{name}.json", "numpy-key-sort", "convert"),
            "`rebuild`": _median(f"host/{name}.json", "rebuild", "update"),
        }
        ours = _median(f"host/{name}.json", "gpma+", "update")
        ways = ", ".join(f"{way} {_short(ms)}" for way, ms in usual.items())
        wanted[title] = [ways, _short(ours), _short(min(usual.values()) / ours)]
    demo = json.loads((RESULTS / "host/demo.json").read_text(encoding="utf-8"))
    headline = demo["headline"]
    what, stream = headline["what"].removeprefix("from a batch to "), demo["dataset"]["name"]
    title = f"host: {headline['batch']} events enter, {what} ({stream})"
    usual_ms, ours_ms = headline["today_ms"], headline["dynstore_ms"]
    wanted[title] = [f"a new graph {_short(usual_ms)}", _short(ours_ms), _short(headline["times"])]
    shown = {
        "BFS": "bfs", "PageRank": "pagerank", "components": "weakly_connected_components",
        "triangles": "triangle_count",
    }  # fmt: skip
    for title, algorithm in shown.items():
        new, ours = (_total("h200/drop-in-rmat22.json", f"{way}, {algorithm}") for way in ("cugraph.Graph", "drop-in"))
        step = f"H200: 65,000 of 63 M edges leave and enter, then {title}"
        wanted[step] = [f"a new `cugraph.Graph` {_short(new)}", _short(ours), _short(new / ours)]
    new, ours = (_total("h100/dask-slides-rmat20.json", way) for way in ("cugraph.dask", "live"))
    step = "two H100, Dask: 16,000 of 16 M edges leave and enter, then BFS"
    wanted[step] = [f"`cugraph.dask`, a new graph {_short(new)}", _short(ours), _short(new / ours)]
    assert table == wanted


def test_what_becomes_of_each_kind_of_columns() -> None:
    table = _rows("docs/reading.md", "| a column of | as ids | as weights | as times | as an edge column |")
    found = {
        kind: [rule.words.replace("timestamps=", "`timestamps=`") if rule.taken else "refused" for rule in rules]
        for kind, rules in READING.items()
    }
    assert table == found


def test_from_which_size_it_pays() -> None:
    head = "| edges in the window | events a batch | a new graph | `gpma+` | times as fast | `merge` |"
    rows = {}
    for name in ("collegemsg", "rmat14", "rmat14-hundreds", "rmat16"):
        path = f"host/small-{name}.json"
        document = json.loads((RESULTS / path).read_text(encoding="utf-8"))
        (update,) = [row for row in document["rows"] if (row["store"], row["operation"]) == ("gpma+", "update")]
        merge = _median(path, "merge", "update")
        new = min(
            *(_median(path, way, "convert") for way in ("numpy-key-sort", "scipy")), _median(path, "rebuild", "update")
        )
        times = [format_ms(ms) for ms in (new, update["median_ms"], merge)]
        times.insert(2, f"{new / update['median_ms']:.2f}")
        rows[f"{update['edges']:,} (`{document['dataset']['name']}`)"] = [f"{update['batch']:,}", *times]
    assert _rows("docs/limits.md", head) == rows


def test_what_tracked_answers_take() -> None:
    rows = {}
    files = {"mathoverflow": "tracked", "higgs-activity_time": "tracked-higgs", "cnr-2000": "tracked-cnr-2000"}
    for data, name in {**files, "rmat:20:8": "tracked-rmat20"}.items():
        document = json.loads((RESULTS / f"host/{name}.json").read_text(encoding="utf-8"))
        times = {
            (*row["store"].split(", "), row["algorithm"], row["batch"]): row["median_ms"]
            for row in document["rows"]
            if row["operation"] == "algorithm"
        }
        shares = [
            ms / times[store, kind, "anew", *what]
            for (store, kind, way, *what), ms in _by_way(times)
            if way == "tracked"
        ]
        title = f"`{data}`"
        rows[title] = [f"{document['rows'][0]['edges']:,}", f"{min(shares):.2g}", f"{max(shares):.3g}"]
    assert _rows("docs/tracking.md", "| data | edges in the graph | at best | at worst |") == rows


def test_what_tracked_answers_take_on_a_gpu() -> None:
    document = json.loads((RESULTS / "h200/tracked-cnr-2000.json").read_text(encoding="utf-8"))
    times = {
        (row["store"], row["algorithm"]): f"{row['median_ms']:.2f}"
        for row in document["rows"]
        if row["operation"] == "algorithm"
    }
    head = "| | insertions: anew | tracked | deletions: anew | tracked | slides: anew | tracked |"
    for title, cells in _rows("docs/tracking.md", head).items():
        name = "weakly_connected_components" if title == "components" else title.strip("`")
        kinds = ("insertions", "deletions", "slides")
        assert cells == [times[f"gpma+, {kind}, {way}", name] for kind in kinds for way in ("anew", "tracked")]


def _by_way(times: dict[tuple, float]) -> list[tuple[tuple, float]]:
    """Leave out the rows of single paths, such as "tracked, warm"."""
    return [(key, ms) for key, ms in times.items() if len(key) == 5]


def test_the_drop_ins_times() -> None:
    name = "h200/drop-in-rmat22.json"
    page = _rows(
        "docs/cugraph.md",
        "| | new `cugraph.Graph` | `SGGraph` | borrowed rows | drop-in | times | update + algorithm |",
    )
    algorithms = {
        "bfs": "bfs", "pagerank to 1e-6": "pagerank", "components": "weakly_connected_components",
        "triangles": "triangle_count",
    }  # fmt: skip
    assert list(page) == list(algorithms)
    for title, algorithm in algorithms.items():
        new, plc, borrowed, ours = (
            _total(name, f"{way}, {algorithm}") for way in ("cugraph.Graph", "SGGraph", "borrowed rows", "drop-in")
        )
        parts = [_median(name, f"drop-in, {algorithm}", part) for part in ("update", algorithm)]
        totals = [f"{ms:.1f}" for ms in (new, plc, borrowed, ours)]
        assert page[title] == [*totals, f"{new / ours:.1f}", " + ".join(f"{ms:.1f}" for ms in parts)]
    header = "| | new `cugraph.Graph` | drop-in | algorithm, new graph | algorithm, borrowed rows |"
    for algorithm, cells in _rows("docs/cugraph.md", header).items():
        ways = [f"{way}, {algorithm}" for way in ("cugraph.Graph", "drop-in")]
        times = [*(_total(name, way) for way in ways), *(_median(name, way, algorithm) for way in ways)]
        assert cells == [f"{ms:.0f}" for ms in times]


def test_how_many_of_cugraphs_tests_pass() -> None:
    head = "| module | tests | pass with cuGraph | pass with the drop-in | pass with cuGraph only | not run |"
    tests, cugraph, drop_in, cugraph_only, _ = (int(cell) for cell in _rows("docs/compatibility.md", head)["all"])
    page = " ".join(_text("docs/cugraph.md").split())
    assert f"cuGraph has {tests:,} tests for one GPU. On an H200 {cugraph:,} of them pass with cuGraph" in page
    assert f"and {drop_in:,} with the drop-in. {cugraph_only or 'None'} passes with cuGraph only." in page


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


def test_the_other_figures_of_the_stores() -> None:
    page = " ".join(_text("docs/choosing-a-store.md").split())
    growing, ordinary = (
        _median("h200/inserts-rmat22.json", store, "insert") for store in ("gpma+, inserts, growing", "gpma+, inserts")
    )
    assert f"takes {growing:.2f} ms, ten times" in page
    assert round(growing / ordinary) == 10
    hubs = _medians("h200/updates-rmat22.json")
    times = [hubs[f"{store}, hub", "insert", 1_000_000] for store in ("gpma+", "merge")]
    assert "takes {:.2f} ms with `gpma+` and {:.2f} ms with `merge`".format(*times) in page
    alone, turns = _medians("h200/kernel-times-rmat22.json"), _medians("h200/stores-rmat22.json")
    inserts, deletes = (
        [alone["gpma+", operation, batch] for batch in (10_000, 100_000, 1_000_000)]
        for operation in ("insert", "delete")
    )
    assert "takes {:.3f}, {:.2f} and {:.2f} ms to insert".format(*inserts) in page
    assert "and {:.3f}, {:.3f} and {:.3f} ms to delete".format(*deletes) in page
    shares = {
        operation: [
            100 * (turns["slab_hash", operation, batch] / turns["gpma+", operation, batch] - 1)
            for batch in (10_000, 100_000, 1_000_000)
        ]
        for operation in ("insert", "delete")
    }
    faster, slower = [-share for share in shares["insert"]], shares["delete"]
    assert f"insertions are {min(faster):.0f} to {max(faster):.0f} % faster than in `gpma+`" in page
    assert f"deletions {min(slower):.0f} to {max(slower):.0f} % slower" in page
    at_4m = [_median("host/rmat20-directed.json", store, "update") for store in ("gpma+", "merge")]
    assert f"it takes {at_4m[0] / at_4m[1]:.2f} times the time of `merge`" in page


def test_why_it_is_fast() -> None:
    table = _rows("docs/why-fast.md", "| stream | edges | batch | `gpma+` | SciPy | NumPy key sort | `merge` |")
    names = ["mathoverflow-directed", "mathoverflow", "rmat20-directed"]
    ways = [("gpma+", "update"), ("scipy", "convert"), ("numpy-key-sort", "convert"), ("merge", "update")]
    for cells, name in zip(table.values(), names, strict=True):
        rows = json.loads((RESULTS / f"host/{name}.json").read_text(encoding="utf-8"))["rows"]
        (update,) = [row for row in rows if (row["store"], row["operation"]) == ("gpma+", "update")]
        sizes = [f"{update[key]:,}" for key in ("edges", "batch")]
        assert cells == sizes + [_short(_median(f"host/{name}.json", *way)) for way in ways]
    header = (
        "| from a batch to the result | a new `cugraph.Graph` | cuGraph on borrowed rows | drop-in, our own kernel |"
    )
    ways = ("cugraph.Graph", "borrowed rows", "drop-in")
    totals = [_total("h200/drop-in-rmat22.json", f"{way}, bfs") for way in ways]
    assert _rows("docs/why-fast.md", header)["bfs"] == [f"{ms:.1f}" for ms in totals]


def test_what_ids_cost() -> None:
    header = "| ids | undirected: build | insert | delete | size | directed: build | insert | delete | size |"
    for title, cells in _rows("docs/vertex-ids.md", header).items():
        for half, kind in enumerate(("undirected", "directed")):
            for cell, operation in zip(cells[4 * half :], ("build", "insert", "delete"), strict=False):
                kept = _median("host/id-costs.json", f"{kind}, {title}", operation)
                base = _median("host/id-costs.json", f"{kind}, 0 .. V-1, renumber=False", operation)
                more = "" if kept == base else f" (+{100 * (kept / base - 1):.0f}%)"
                assert cell == (f"{kept:.0f}" if operation == "build" else f"{kept:.1f}") + more
