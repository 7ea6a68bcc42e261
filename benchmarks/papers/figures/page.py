"""The papers' experiments as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from benchmarks.papers.figures.printed import ALL_UPDATES, PAPERS
from dynstore.bench.reports.report import page_style
from dynstore.bench.reports.svg import line_chart

if TYPE_CHECKING:
    from benchmarks.papers.contest import PapersResult

__all__ = ["Table", "render_papers"]


@dataclass(frozen=True)
class Table:
    """A table as text; ``caption`` says where printed figures come from."""

    title: str
    head: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    caption: str = ""


def render_papers(document: Mapping[str, Any], result: PapersResult, tables: Sequence[Table]) -> str:
    """Return the page's HTML.

    Parameters
    ----------
    document : mapping
        The JSON document of the run.
    result : PapersResult
    tables : sequence of Table
    """
    title = escape(f"python -m benchmarks.papers --suite {document['suite']}")
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    versions = ", ".join(f"{name} {value}" for name, value in document["versions"].items())
    failed = result.disagreement
    verdict = (
        "All stores held the edges of the stream and gave the same answers."
        if failed is None
        else f'<span class="bad">The run failed: {escape(failed)}. The figures do not count.</span>'
    )
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{page_style()}</style></head>\n<body><main><h1>{title}</h1>",
        f"<p><code>{escape(document['command'])}</code></p>",
        f"<p>{escape(document['commit'])}, {escape(document['date'])}</p>",
        f'<p class="soft">{escape(machine)}; {escape(versions)}</p><p>{verdict}</p>',
        *(f'<p class="soft">{escape(note)}</p>' for note in result.notes),
        *map(_table, tables),
        *_curves(result),
        "<h2>The papers</h2><ul>",
        *(f"<li>{escape(paper.cite)}; {escape(paper.machine)}</li>" for paper in PAPERS.values()),
        "</ul></main></body></html>\n",
    ]
    return "\n".join(parts)


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(row(line, "td") for line in table.lines)
    return (
        f'<h2>{escape(table.title)}</h2><div class="scroll"><table>{row(table.head, "th")}\n{body}</table></div>'
        f'<p class="soft">{escape(table.caption)}</p>'
    )


def _curves(result: PapersResult) -> list[str]:
    """Return a chart of all times, for each data set and batch of the experiments that are about spikes."""
    charts: dict[str, dict[str, list[float]]] = {}
    about = {found.name for found in result.experiments if found.curves}
    for figure in result.figures:
        if figure.experiment in about and figure.row == ALL_UPDATES:
            name = f"{figure.experiment}, {figure.label}, batches of {figure.batch:,}"
            charts.setdefault(name, {})[figure.contestant] = figure.times
    drawn = {name: line_chart(series, name, "ms, logarithmic", "batch") for name, series in charts.items()}
    return [f"<h2>{escape(name)}: one time a batch</h2><figure>{chart}</figure>" for name, chart in drawn.items()]
