"""``python -m dynstore.bench.demo``: run the story, print it, and write the page."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from dynstore.backend import get_backend
from dynstore.bench.demo.page import best_figure, render_story
from dynstore.bench.demo.story import Story, run_story
from dynstore.bench.module_command import run_as_command
from dynstore.bench.outputs import check_outputs, write_outputs
from dynstore.bench.reports.summary import format_ms, format_ratio
from dynstore.bench.schema import make_document
from dynstore.datasets.names import is_generated, resolve
from dynstore.terminal import open_console, show_progress

if TYPE_CHECKING:
    from rich.console import Console

    from dynstore.backend import Backend

__all__ = ["main"]


def _show(console: Console, story: Story) -> None:
    """Print the three figures of a story, and what the answers found."""
    title = f"{story.name}: {story.num_edges:,} edges, batches of {story.batch} events"
    table = Table("from a batch to", title=title, title_justify="left")
    for name in ("a new graph, ms", "dynstore, ms", "times as fast"):
        table.add_column(name, justify="right")
    for figure in story.figures():
        values = format_ms(figure.today_ms), format_ms(figure.dynstore_ms), format_ratio(figure.times)
        table.add_row(figure.what, *values)
    console.print(table)
    if story.findings is not None:
        console.print(story.findings.sentence(), highlight=False)


def _run(given: argparse.Namespace, backend: Backend) -> Iterator[Story]:
    """Run the story of each stream, up to the first in which the two ways disagree."""
    for name in given.streams:
        with show_progress() as (advance, _):
            advance(name, 0, given.steps)
            events = resolve(name, given.seed)
            story = run_story(events, backend, given.window, given.batch, given.steps, partial(advance, name))
        yield story
        if story.disagreement is not None:
            return


def _document(given: argparse.Namespace, command: str, stories: Sequence[Story], agree: bool) -> dict[str, Any]:
    """Return the document of the story with the best figure, or of the one that failed."""
    story, headline = stories[-1], None
    if agree:
        story, figure = best_figure(stories)
        headline = {
            "what": f"from a batch to {figure.what}", "batch": story.batch, "today_ms": figure.today_ms,
            "dynstore_ms": figure.dynstore_ms, "times": figure.times,
        }  # fmt: skip
    seed = given.seed if is_generated(story.name) else None
    dataset = {"name": story.name, "vertices": story.num_users, "edges": story.num_events, "seed": seed}
    return make_document("demo", command, dataset, story.rows(), agree, headline)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write; return 1 if the two ways disagree."""
    parser = argparse.ArgumentParser(prog="python -m dynstore.bench.demo", description=__doc__)
    parser.add_argument("streams", nargs="*", default=["rmat:18:8"], help="named or generated streams, or files")
    parser.add_argument("--batch", type=int, default=100, help="events of a batch")
    parser.add_argument("--steps", type=int, default=20, help="timed batches")
    parser.add_argument("--window", type=float, default=0.5, help="share of the events in the window")
    parser.add_argument("--seed", type=int, default=1, help="of generated streams")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--report", type=Path)
    given = parser.parse_args(arguments)
    check_outputs(given.json, given.report)
    console, stories = open_console(), []
    for story in _run(given, get_backend(given.device)):
        stories.append(story)
        if story.disagreement is None:
            _show(console, story)
        else:
            console.print(f"The two ways disagree. {story.name}: {story.disagreement}", style="red")
    agree = stories[-1].disagreement is None
    typed = sys.argv[1:] if arguments is None else arguments
    document = _document(given, f"python -m dynstore.bench.demo {shlex.join(typed)}".strip(), stories, agree)
    if given.json is not None:
        write_outputs({given.json: document})
    if given.report is not None:
        write_outputs({given.report: render_story(document, stories)})
    return 0 if agree else 1


if __name__ == "__main__":
    run_as_command(main)
