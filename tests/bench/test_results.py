"""What comes out of a run: the JSON of schema 1, the table, and a page that needs nothing else."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

from dynstore.bench import machine
from dynstore.bench.reports.console import print_result
from dynstore.bench.reports.report import render_page
from dynstore.bench.reports.summary import format_bytes, format_ms, format_ratio, headline, ratio_of, summarise
from dynstore.bench.reports.svg import line_chart, stacked_bars
from dynstore.bench.schema import OPERATIONS, check_document, make_document
from dynstore.bench.suite_parts import WindowJob, WindowResult
from dynstore.bench.suites import SUITES, get_suite
from dynstore.bench.window_suite import run_window
from dynstore.datasets import load
from dynstore.errors import InputError

JOB = WindowJob(
    stores=("gpma+", "rebuild", "merge"), algorithms=("bfs", "triangle_count"), batch=100, steps=3, device="cpu"
)
COMMAND = "dynstore bench collegemsg --store 'gpma+' --steps 3 # <&>"


@pytest.fixture(scope="module")
def result() -> WindowResult:
    return run_window(load("collegemsg"), JOB)


@pytest.fixture(scope="module")
def document(result: WindowResult) -> dict[str, Any]:
    dataset = {"name": "collegemsg", "vertices": 1_899, "edges": 59_835, "seed": None}
    return make_document("window", COMMAND, dataset, result.rows, agree=True)


class Page(HTMLParser):
    """Collects tags and checks that they close."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_document_has_exactly_the_keys_that_other_tools_read(document: dict[str, Any]) -> None:
    read = json.loads(json.dumps(document))
    check_document(read)
    assert list(read) == [
        "schema", "suite", "command", "commit", "date", "machine", "versions", "dataset", "agree", "rows",
    ]  # fmt: skip
    assert (read["schema"], read["suite"], read["command"], read["agree"]) == (1, "window", COMMAND, True)
    assert list(read["dataset"]) == ["name", "vertices", "edges", "seed"]
    for row in read["rows"]:
        assert list(row) == [
            "store", "device", "operation", "algorithm", "batch", "edges", "steps",
            "median_ms", "p90_ms", "p99_ms", "max_ms", "bytes",
        ]  # fmt: skip
    assert {row["operation"] for row in read["rows"]} == set(OPERATIONS)
    assert {"cpu", "cores", "memory_bytes", "gpu"} <= set(read["machine"])
    assert {"python", "dynstore", "numpy", "numba", "pandas"} <= set(read["versions"])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("schema",), 2, "schema 2; wanted 1"),
        (("agree",), 1, "'agree' is 1, which has the wrong type"),
        (("date",), "yesterday", "is not an ISO date"),
        (("commit",), None, "'commit' is None"),
        (("dataset", "vertices"), "3", "'vertices' is '3'"),
        (("dataset", "seed"), 1.5, "'seed' is 1.5"),
        (("dataset", "more"), 1, "unknown keys ['more']"),
        (("versions", "numpy"), 2, "'numpy' is 2; wanted text"),
        (("rows",), {}, "'rows' is {}"),
        (("rows", 0), [], "rows[0]: got list; wanted an object"),
        (("rows", 0, "operation"), "sort", "operation 'sort'; wanted one of update"),
        (("rows", 0, "algorithm"), "bfs", "with algorithm 'bfs'"),
        (("rows", 0, "steps"), True, "'steps' is True"),
        (("rows", 0, "median_ms"), None, "'median_ms' is None"),
        (("rows", 0, "median_ms"), -1.0, "must be numbers of at least 0 that do not fall"),
        (("rows", 0, "p90_ms"), 1e9, "must be numbers of at least 0 that do not fall"),
        (("rows", 0, "p99_ms"), float("nan"), "must be numbers of at least 0 that do not fall"),
        (("rows", 0, "extra"), 1, "unknown keys ['extra']"),
    ],
)
def test_other_documents_are_refused(document: dict[str, Any], path: tuple, value: object, message: str) -> None:
    broken = json.loads(json.dumps(document))
    place = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(InputError) as caught:
        check_document(broken)
    assert message in str(caught.value)


def test_a_missing_key_is_named(document: dict[str, Any]) -> None:
    broken = {key: value for key, value in document.items() if key != "machine"}
    with pytest.raises(InputError, match=r"missing keys \['machine'\]"):
        check_document(broken)


def test_the_page_is_self_contained(document: dict[str, Any], result: WindowResult) -> None:
    text = render_page(document, JOB, result)
    assert not re.search(r"https?:|src=|href=|url\(|@import|<script|<link|<img", text)
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("svg") == 2
    names = {attributes["aria-label"] for tag, attributes in page.tags if tag == "svg"}
    assert names == {"Update time of each store at each step", "Update and algorithms of each store"}
    said = " ".join(page.texts)
    origin = (document["machine"]["cpu"], document["commit"], document["date"])
    for wanted in (COMMAND, *origin, "numpy-key-sort (convert)"):
        assert wanted in said
    assert headline(JOB, result) in said


def test_the_page_of_a_failed_run_says_so_first(document: dict[str, Any], result: WindowResult) -> None:
    failed = replace(result, disagreement="step 1: store 'merge' <lost> an edge")
    page = Page(render_page({**document, "agree": False}, JOB, failed))
    said = " ".join(page.texts)
    assert "The run failed: step 1: store 'merge' <lost> an edge" in said
    assert headline(JOB, result) not in said
    nothing = WindowResult("cpu", True, 1, 1, False, disagreement="after the build: lost")
    assert "svg" not in [tag for tag, _ in Page(render_page(document, JOB, nothing)).tags]


def test_the_table_fits_a_terminal(result: WindowResult) -> None:
    out = io.StringIO()
    print_result(Console(file=out, width=80), JOB, result)
    text = out.getvalue()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    for word in ("gpma+", "rebuild", "merge", "scipy", "numpy-key-sort", "triangle_count", "memory", "vs rebuild"):
        assert word in text
    assert "…" not in text


def test_ratios_are_medians_of_the_ratios_step_by_step(result: WindowResult) -> None:
    assert ratio_of([10, 20, 90], [1, 10, 10]) == 9
    lines = {line.name: line for line in summarise(JOB, result)}
    assert lines["rebuild"].ratios["rebuild"] == 1
    assert lines["scipy"].converts
    assert lines["scipy"].total is None
    updates = {name: result.times[name, "update", None] for name in JOB.stores}
    assert lines["gpma+"].ratios["merge"] == ratio_of(updates["merge"], updates["gpma+"])


def test_the_headline_does_not_flatter() -> None:
    times = {("gpma+", "update", None): [2.0], ("merge", "update", None): [1.0], ("gpma+", "total", None): [2.0]}
    job = replace(JOB, stores=("gpma+", "merge"), algorithms=())
    said = headline(job, WindowResult("cpu", True, 7, 70, False, times=times))
    first = "gpma+ updates the graph in 2.00 ms a step of 7 events"
    assert said == f"{first}: 2 times slower than merge (medians of 1 steps)."


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (format_ms(None), "–"),
        (format_ms(0.01234), "0.012"),
        (format_ms(1.234), "1.23"),
        (format_ms(12.34), "12.3"),
        (format_ms(1234.5), "1,234"),
        (format_ratio(4.567), "4.57x"),
        (format_ratio(1234.5), "1,234x"),
        (format_bytes(2_947_060), "2.95 MB"),
        (format_bytes(55_800_000_000), "55.8 GB"),
    ],
)
def test_figures_have_three_digits(made: str, text: str) -> None:
    assert made == text


@pytest.mark.parametrize(
    "series", [{"a": [1.0]}, {"a": [1.0, 1.0], "b<": [1e-3, 1e5]}, {"a": [0.5] * 1000}, {"a": [0.0, 1.0]}]
)
def test_charts_draw_any_positive_values(series: dict[str, list[float]]) -> None:
    text = line_chart(series, "label", "y", "x")
    page = Page(text)
    dots = [attributes for tag, attributes in page.tags if tag == "circle"]
    assert len(dots) == sum(map(len, series.values()))
    for dot in dots:
        assert 0 <= float(dot["cx"] or "nan") <= 760
        assert 0 <= float(dot["cy"] or "nan") <= 330
    assert "<b<" not in text


def test_bars_stay_inside_and_are_in_proportion() -> None:
    page = Page(stacked_bars({"one": {"u": 1.0, "v": 3.0}, "two": {"u": 0.0, "v": 0.0}}, "label", "x"))
    bars = [attributes for tag, attributes in page.tags if tag == "rect" and attributes.get("rx") is None]
    widths = [float(bar["width"] or "nan") for bar in bars]
    assert widths[1] == pytest.approx(3 * widths[0], abs=0.5)
    assert widths[2:] == [0.0, 0.0]
    assert max(float(bar["x"] or "nan") + float(bar["width"] or "nan") for bar in bars) <= 760


def test_suites_are_found_by_name() -> None:
    for name in SUITES:
        assert get_suite(name).name == name
    with pytest.raises(InputError, match=r"unknown suite 'windows'; known: .*'window'\. Did you mean 'window'\?"):
        get_suite("windows")


def test_the_commit_is_unknown_outside_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("DYNSTORE_COMMIT", raising=False)
    monkeypatch.setattr("dynstore.__file__", str(tmp_path / "site-packages" / "dynstore" / "__init__.py"))
    assert machine.find_commit() == "unknown"


def test_what_is_missing_has_a_remedy() -> None:
    for finding in machine.look_around():
        assert finding.found or finding.remedy, finding
    by_name = {finding.name: finding for finding in machine.look_around()}
    assert by_name["NumPy"].found == machine.find_versions()["numpy"]
    assert by_name["device 'auto'"].found is not None
