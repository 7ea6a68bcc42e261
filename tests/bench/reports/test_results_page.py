"""The page of kept results: made from the files, and up to date."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.reports.results_page import MAX_ROWS, main, render_results
from dynstore.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
KEPT = [ROOT / "benchmarks" / "results" / name for name in ("h200", "h100", "host")]


def test_the_pages_are_what_the_files_say(tmp_path: Path) -> None:
    assert main([*(str(folder) for folder in KEPT), "--out", str(tmp_path)]) == 0
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.md")}
    docs = ROOT / "docs"
    assert written == {path.relative_to(docs) for path in (docs / "results.md", *(docs / "results").iterdir())}
    for name in written:
        assert (tmp_path / name).read_text(encoding="utf-8") == (docs / name).read_text(encoding="utf-8")


def test_the_front_page_leads_to_each_file(tmp_path: Path) -> None:
    pages = render_results(KEPT)
    links = re.findall(r"\]\((results/\w+\.md)#([\w.-]+)\)", pages["results.md"])
    assert len(links) == sum(len(list(folder.glob("*.json"))) for folder in KEPT)
    for page, anchor in links:
        assert f"\n## {anchor}\n" in pages[page]


def test_each_file_has_its_command_and_a_long_one_no_table(tmp_path: Path) -> None:
    document = json.loads((KEPT[-1] / "mathoverflow.json").read_text(encoding="utf-8"))
    (tmp_path / "short.json").write_text(json.dumps(document), encoding="utf-8")
    document["rows"] = document["rows"][:1] * (MAX_ROWS + 1)
    (tmp_path / "long.json").write_text(json.dumps(document), encoding="utf-8")
    page = render_results([tmp_path])[f"results/{tmp_path.name}.md"]
    assert page.count(document["command"]) == 2
    assert f"{MAX_ROWS + 1} figures: see the file." in page
    assert page.index("## long") < page.index("## short")


def test_streams_have_tables_of_their_own(tmp_path: Path) -> None:
    document = json.loads((KEPT[-1] / "mathoverflow.json").read_text(encoding="utf-8"))
    row = {
        **document["rows"][0],
        "operation": "total",
        "algorithm": None,
        "batch": 2000,
        "steps": 3,
        "bytes": 5_000_000,
    }
    times = dict.fromkeys(("median_ms", "p90_ms", "p99_ms", "max_ms"), 4.0)
    names = "stream", "latency", "update", "copies", "window alone"
    costs = [{**row, **times, "store": f"{name}, log: os, monitors: none"} for name in names]
    counted = "block: 10.0 times overload; 7 rows offered"
    soaked = [{**row, **times, "store": name} for name in (counted, "block, tenth 1")]
    for suite, rows in (("stream-costs", costs), ("stream-soak", soaked)):
        text = json.dumps({**document, "suite": suite, "rows": rows})
        (tmp_path / f"{suite}.json").write_text(text, encoding="utf-8")
    page = render_results([tmp_path])[f"results/{tmp_path.name}.md"]
    assert "| 2,000 | os | none | 0.5 | 4.00 | 4.00 | 4.00 | 4.00 | 4.00 | 4.00 |\n" in page
    assert f"- {counted}\n" in page
    assert "| block, tenth 1 | 3 | 4.00 | 4.00 | 4.00 | 5 |\n" in page
    assert "window alone" not in page


def test_graphs_in_host_memory_have_the_share_of_the_bound(tmp_path: Path) -> None:
    document = json.loads((KEPT[0] / "out-of-core-rmat22.json").read_text(encoding="utf-8"))
    link, first = document["rows"][:2]
    rows = [
        {**row, **dict.fromkeys(("median_ms", "p90_ms", "p99_ms", "max_ms"), ms), "bytes": moved}
        for row, ms, moved in ((link, 2.0, 100_000_000), (first, 8.0, 200_000_000))
    ]
    (tmp_path / "pages.json").write_text(json.dumps({**document, "rows": rows}), encoding="utf-8")
    page = render_results([tmp_path])[f"results/{tmp_path.name}.md"]
    assert "The link moves 50.0 GB/s." in page
    assert "| pagerank | zero-copy | 0% | 8.00 | 8.00 | 200 | 50% |\n" in page


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError):
        render_results([tmp_path])
