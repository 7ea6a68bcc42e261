"""All kept results as pages: ``python -m benchmarks.reports.results_page FOLDER ... --out docs``."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.reports.results_tables import TABLES
from dynstore.bench.module_command import run_as_command
from dynstore.bench.reports.summary import format_ms
from dynstore.bench.schema import check_document
from dynstore.errors import InputError

__all__ = ["main", "render_results"]

MAX_ROWS = 120
MAX_WIDTH = 100
FRONT = """# Results

All kept measurements, in milliseconds. Each file under `benchmarks/results/` also holds the date,
the commit, the versions and the machine. These pages are made from them:

    python -m benchmarks.reports.results_page \\
        benchmarks/results/h200 benchmarks/results/h100 benchmarks/results/host --out docs

Commands are shown as they were typed: what was `python -m dynstore.benchmarks.X` then is
`python -m benchmarks.X` now, `dynstore.benchmarks.demo` is `dynstore.bench.demo`, a paper's suite
of `dynstore bench` is one of [`python -m benchmarks.papers`](papers.md), and `dynstore bench`
without data took `mathoverflow`.

| column | meaning |
|---|---|
| what | the store or library; if there are several kinds of batches or graphs, also the kind |
| operation | what was timed: [the operations](benchmarks.md#what-is-measured), an algorithm or a kernel |
| batch | edges in a batch; 0 if there is no batch |
| steps | how often it was timed |
| median, p90, p99, max | half of the steps took at most the median, nine in ten took at most p90, and so on |
"""
# What the suites measure; other suites are shown by their names.
SUITES = {
    "algorithms": "Algorithms beside cuGraph's, on graphs with and without gaps.",
    "dask-slides": "A search after each slide on a Dask cluster of GPUs: a new graph, and live ones.",
    "demo": "A window slides over a stream, and three answers are kept up to date, beside new graphs.",
    "drop-in": "From a batch to the result of an algorithm: a new `cugraph.Graph`, the drop-in, our own kernels.",
    "expire-costs": "Old edges expire, beside a deletion of as many.",
    "floors": "Stores on the host beside the least work that they could do.",
    "gpma": "The experiments of the GPMA paper.",
    "graphvine": "The experiments of the GraphVine paper.",
    "gts": "The experiments of the GTS paper.",
    "host-memory-costs": "A graph in GPU memory, in host memory, and in pages of host memory.",
    "id-costs": "Updates with sparse ids, strings and categories as vertices, beside the numbers 0 to V - 1.",
    "id-ratios": "Updates and a search with a map of ids, beside the same graph without one.",
    "kernel-times": "Updates on a GPU, as whole calls and kernel by kernel.",
    "lpma": "The experiments of the LPMA paper.",
    "opera-costs": "Batches of updates and queries: one call of `apply`, beside splitting the batch.",
    "out-of-core": "Algorithms on edges in host memory, which a GPU reads in several ways.",
    "pin-costs": "Updates of a graph with pinned versions, and questions to these.",
    "pinned-rows": "cuGraph's algorithms on rows in host memory, beside the same rows in GPU memory.",
    "ranks": "A graph that is spread over GPUs, beside one GPU and beside cuGraph on the same GPUs.",
    "reading-costs": "From a text file to a graph, beside polars and pyarrow.csv.",
    "slab-hash": "The experiments of the slab hash paper.",
    "slides": "What a `Window` costs, beside updates with only the edges that change.",
    "stream-costs": "Streams into a window of half of the events, with and without a log and answers.",
    "stream-soak": "Streams that get rows faster than they can apply them.",
    "tracked": "Tracked answers beside computing anew.",
    "updates": "Insertions and deletions alone, for several kinds of batches.",
    "window": "A window slides over a stream.",
}


def render_results(folders: Iterable[Path]) -> dict[str, str]:
    """Return the pages by name, in Markdown: ``results.md``, which lists all files, and a page for each folder.

    Parameters
    ----------
    folders : paths
        Each with JSON files of schema 1.

    Raises
    ------
    InputError
        For a file that is not of that schema, or a folder without files.
    """
    front, pages, names = [FRONT], {}, []
    for folder in folders:
        paths = sorted(folder.glob("*.json"))
        if not paths:
            raise InputError(f"results_page: no JSON file in '{folder}'; wanted a folder of kept results")
        names.append(folder.name)
        parts = [f"# Results: {folder.name}\n\nThe [front page](../results.md) explains the columns.\n"]
        listed = [f"## {folder.name}\n", "| file | what was measured |", "|---|---|"]
        for path in paths:
            document = json.loads(path.read_text(encoding="utf-8"))
            check_document(document)
            listed.append(f"| [{path.stem}](results/{folder.name}.md#{path.stem}) | {_about(document)} |")
            parts.append("\n".join(_section(path.stem, document)) + "\n")
        front.append("\n".join(listed) + "\n")
        pages[f"results/{folder.name}.md"] = "\n".join(parts)
    front.append("```{toctree}\n:hidden:\n\n" + "".join(f"results/{name}\n" for name in names) + "```\n")
    return {"results.md": "\n".join(front), **pages}


def _about(document: Mapping[str, Any]) -> str:
    """Return what a file's suite measures, and on which data."""
    suite = document["suite"]
    return f"{SUITES.get(suite, f'Suite `{suite}`.')} {document['dataset']['name']}"


def _section(name: str, document: Mapping[str, Any]) -> Iterator[str]:
    machine, dataset, rows = document["machine"], document["dataset"], document["rows"]
    hardware = machine.get("gpu") or f"{machine['cpu']}, {machine['cores']} cores"
    size = f"{dataset['edges']:,} edges, {dataset['vertices']:,} vertices"
    yield f"## {name}\n"
    yield _fold(f"{_about(document)}: {size}. {hardware}.") + "\n"
    yield _fold_command(document["command"])
    if document["suite"] in TABLES:
        yield ""
        yield from TABLES[document["suite"]](rows)
        return
    if len(rows) > MAX_ROWS:
        yield f"\n{len(rows)} figures: see the file."
        return
    yield "\n| what | operation | batch | steps | median | p90 | p99 | max |\n|---|---|---|---|---|---|---|---|"
    for row in rows:
        operation = row["algorithm"] or row["operation"]
        figures = " | ".join(format_ms(row[key]) for key in ("median_ms", "p90_ms", "p99_ms", "max_ms"))
        yield f"| {row['store']} | {operation} | {row['batch']:,} | {row['steps']} | {figures} |"


def _fold(text: str) -> str:
    return "\n".join(textwrap.wrap(text, MAX_WIDTH, break_on_hyphens=False))


def _fold_command(command: str) -> str:
    """Return a command as a block of code; a long one goes on after a backslash."""
    lines = textwrap.wrap(command, MAX_WIDTH - 10, break_long_words=False, break_on_hyphens=False)
    return "    " + " \\\n        ".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Write the pages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reports.results_page", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="the folder of results.md")
    given = parser.parse_args(arguments)
    for name, page in render_results(given.folders).items():
        path = given.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    run_as_command(main)
