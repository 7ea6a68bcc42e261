"""All kept results as a page: ``python -m dynstore.benchmarks.results_page FOLDER ... > docs/results.md``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dynstore.benchmarks.module_command import run_as_command
from dynstore.benchmarks.schema import check_document
from dynstore.benchmarks.summary import format_ms
from dynstore.errors import InputError

__all__ = ["main", "render_results"]

MAX_ROWS = 120
HEAD = """# Results

Made from the files under `benchmarks/results/` by

    python -m dynstore.benchmarks.results_page benchmarks/results/h200 benchmarks/results/host > docs/results.md

[benchmarks.md](benchmarks.md) says what the operations are and how they are measured. Milliseconds.
"""


def render_results(folders: Iterable[Path]) -> str:
    """Return the page, in Markdown: a section a file, in order of folder and name.

    Parameters
    ----------
    folders : paths
        Each with JSON files of schema 1.

    Raises
    ------
    InputError
        For a file that is not of that schema, or a folder without files.
    """
    parts = [HEAD]
    for folder in folders:
        paths = sorted(folder.glob("*.json"))
        if not paths:
            raise InputError(f"results_page: no JSON file in '{folder}'; wanted a folder of kept results")
        for path in paths:
            document = json.loads(path.read_text(encoding="utf-8"))
            check_document(document)
            parts.append("\n".join(_section(f"{folder.name}/{path.name}", document)) + "\n")
    return "\n".join(parts)


def _section(name: str, document: Mapping[str, Any]) -> Iterator[str]:
    machine, dataset = document["machine"], document["dataset"]
    yield f"## {name}\n"
    yield f"    {document['command']}\n"
    hardware = machine.get("gpu") or f"{machine['cpu']}, {machine['cores']} cores"
    size = f"{dataset['edges']:,} edges, {dataset['vertices']:,} vertices"
    yield f"Commit {document['commit']}; {hardware}; {dataset['name']}: {size}."
    rows = document["rows"]
    if len(rows) > MAX_ROWS:
        yield f"{len(rows)} figures: see the file."
        return
    yield "\n| what | operation | batch | steps | median | p90 | p99 | max |\n|---|---|---|---|---|---|---|---|"
    for row in rows:
        operation = row["algorithm"] or row["operation"]
        figures = " | ".join(format_ms(row[key]) for key in ("median_ms", "p90_ms", "p99_ms", "max_ms"))
        yield f"| {row['store']} | {operation} | {row['batch']:,} | {row['steps']} | {figures} |"


def main(arguments: list[str] | None = None) -> int:
    """Print the page."""
    parser = argparse.ArgumentParser(prog="python -m dynstore.benchmarks.results_page", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    sys.stdout.write(render_results(parser.parse_args(arguments).folders))
    return 0


if __name__ == "__main__":
    run_as_command(main)
