"""The demo: both ways agree, its document and page say what was measured, and the page fits every screen."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynstore.backend import get_backend
from dynstore.bench.demo.__main__ import main
from dynstore.bench.demo.page import best_figure, format_times, render_story
from dynstore.bench.demo.story import ANSWERS, run_story
from dynstore.bench.schema import check_document
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.io import EventTable

SMALL = "rmat:8:8"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """The document and the page of a small run with two streams."""
    folder = tmp_path_factory.mktemp("demo")
    outputs = folder / "demo.json", folder / "demo.html"
    arguments = [SMALL, "collegemsg", "--steps", "3", "--batch", "20", "--device", "cpu"]
    assert main([*arguments, "--json", str(outputs[0]), "--report", str(outputs[1])]) == 0
    return json.loads(outputs[0].read_text(encoding="utf-8")), outputs[1].read_text(encoding="utf-8")


def test_the_document_has_a_headline_and_the_rows_of_both_ways(run: tuple[dict[str, Any], str]) -> None:
    document = run[0]
    check_document(document)
    assert document["agree"] is True
    headline = document["headline"]
    assert headline["batch"] == 20
    assert headline["times"] > 0
    assert re.match("from a batch to (the current graph|the triangles|triangles, components)", headline["what"])
    done = {(row["store"], row["operation"], row["algorithm"]) for row in document["rows"]}
    for store in ("gpma+", "rebuild"):
        wanted = {(store, "update", None), (store, "total", None), *((store, "algorithm", name) for name in ANSWERS)}
        assert wanted <= done
    assert ("numpy-key-sort", "convert", None) in done
    assert {row["batch"] for row in document["rows"]} == {20}
    without = {name: value for name, value in document.items() if name != "headline"}
    check_document(without)
    for wrong in ({"headline": 3}, {"headline": {**headline, "times": "x"}}, {"headline": {}}):
        with pytest.raises(InputError, match="headline"):
            check_document(document | wrong)


def test_the_page_shows_the_figures_of_the_document(run: tuple[dict[str, Any], str]) -> None:
    document, page = run
    assert format_times(document["headline"]["times"]) in page
    assert page.count('class="card"') == 6
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", page)]
    assert max(widths) == 100.0
    assert "collegemsg" in page
    assert SMALL in page
    assert document["command"].replace("'", "&#x27;") in page


def test_bars_are_as_long_as_the_numbers_beside_them() -> None:
    story = run_story(rmat(8, 8, seed=1), get_backend("cpu"), batch=10, steps=2)
    for figure in story.figures():
        longest = max(figure.today_ms, figure.dynstore_ms)
        page = render_story({"machine": _machine(), "command": "", "versions": {}, "commit": "", "date": "",
                             "dataset": {"seed": None}}, [story])  # fmt: skip
        assert f"width:{100 * figure.dynstore_ms / longest:.2f}%" in page
        assert f"width:{100 * figure.today_ms / longest:.2f}%" in page
    assert best_figure([story])[1].times == max(figure.times for figure in story.figures())


def _machine() -> dict[str, Any]:
    return {"cpu": "", "cores": 1, "memory_bytes": 0, "gpu": None, "driver": None, "os": ""}


def test_names_of_a_file_are_the_users() -> None:
    src = np.array([0, 1, 2, 0] * 60, np.int32)
    dst = np.array([1, 2, 0, 3] * 60, np.int32)
    events = EventTable(src, dst, name="log", ids=np.array(["ann", "bob", "cid", "dot"], dtype=object))
    story = run_story(events, get_backend("cpu"), batch=4, steps=2)
    assert story.disagreement is None
    assert story.findings is not None
    assert story.findings.busiest in ("ann", "bob", "cid")
    assert (story.findings.triangles, story.findings.num_users, story.findings.largest_share) == (1, 4, 1.0)


def test_a_difference_stops_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from dynstore.windows.window import Window

    slide = Window.slide

    def lose(window: Window, edges: Any, *given: Any) -> Any:
        return slide(window, edges[:-1] if len(edges) < 100 else edges, *given)

    monkeypatch.setattr(Window, "slide", lose)
    out = tmp_path / "out.json", tmp_path / "out.html"
    arguments = ["collegemsg", "--steps", "2", "--device", "cpu", "--json", str(out[0]), "--report", str(out[1])]
    assert main([*arguments, "--batch", "90"]) == 1
    document = json.loads(out[0].read_text(encoding="utf-8"))
    assert document["agree"] is False
    assert "headline" not in document
    assert "The run failed" in out[1].read_text(encoding="utf-8")


def test_too_few_events_are_refused() -> None:
    with pytest.raises(InputError, match=r"rmat:4:2: 32 events; wanted more for 20 batches of 100"):
        run_story(rmat(4, 2), get_backend("cpu"))


MEASURE = """<script>addEventListener("load", () => {
  const wide = document.documentElement.clientWidth, out = [];
  for (const e of document.querySelectorAll("h1, h2, p, table, td, th, .card, .bar, .bar b, .times, dd, code"))
    if (e.getBoundingClientRect().right > wide + 0.5) out.push(e.tagName + "." + e.className);
  for (const e of document.querySelectorAll(".scroll")) if (e.scrollWidth > e.clientWidth) out.push("scroll");
  const size = document.documentElement.scrollWidth;
  document.title = JSON.stringify({wide, size, out, count: document.querySelectorAll(".card").length});
});</script></head>"""


WIDTHS = (390, 1000, 1440)


def test_nothing_is_cut_off_in_a_browser(run: tuple[dict[str, Any], str], tmp_path: Path) -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("Chromium is not installed")
    # A window is at least 500 wide, so the page is put into frames of the wanted widths.
    page = tmp_path / "page.html"
    page.write_text(run[1].replace("</head>", MEASURE, 1), encoding="utf-8")
    outer = tmp_path / "outer.html"
    frames = (
        f'<iframe id="f{width}" src="page.html" width="{width}" height="900" style="border:0"></iframe><script>'
        f'f{width}.addEventListener("load", () => document.body.append("{width}:" + f{width}.contentDocument.title))'
        "</script>"
        for width in WIDTHS
    )
    outer.write_text("".join(frames), encoding="utf-8")
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
        f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1600,1000", "--virtual-time-budget=3000",
        "--dump-dom", outer.as_uri(),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    measured = dict(re.findall(r"(\d+):(\{.*?\})", shown))
    for width in WIDTHS:
        found = json.loads(measured[str(width)].replace("&quot;", '"'))
        assert width - 20 <= found["wide"] <= width  # without the scroll bar
        assert found["size"] <= width, f"the page scrolls sideways where it is {width} wide"
        assert found["out"] == []
        assert found["count"] == 6
