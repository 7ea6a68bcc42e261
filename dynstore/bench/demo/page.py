"""The story as one page that explains itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.bench.reports.report import page_style, render_origin
from dynstore.bench.reports.summary import format_ms

if TYPE_CHECKING:
    from dynstore.bench.demo.story import Story, StoryFigure

__all__ = ["best_figure", "format_times", "render_story"]

TITLE = "dynstore: a graph and its answers, kept up to date"
_STYLE = """
.story { display: grid; gap: 1rem; margin: 1.2rem 0 }
.card { border: 1px solid var(--rule); border-radius: 8px; padding: .9rem 1.1rem }
.card h3 { margin: 0 0 .5rem; font-size: 1rem; font-weight: 600 }
.card .times { float: right; font-size: 1.5rem; line-height: 1; font-weight: 700; color: var(--c2); margin-left: 1rem }
.bar { display: grid; grid-template-columns: 5.5rem 1fr 5.5rem; gap: .6rem; align-items: center; font-size: .92rem }
.bar + .bar { margin-top: .3rem }
.bar div { background: var(--band); border-radius: 3px }
.bar i { display: block; height: .95rem; min-width: 2px; border-radius: 3px }
.bar.today i { background: var(--c1) } .bar.ours i { background: var(--c2) }
.bar b { text-align: right; font-weight: 600; font-variant-numeric: tabular-nums }
@media (max-width: 480px) { .bar { grid-template-columns: 4.6rem 1fr 4.8rem } th, td { padding: .35rem .3rem } }
"""
_PARTS = {
    "graph": "the graph",
    "triangle_count": "triangles",
    "weakly_connected_components": "components",
    "pagerank": "PageRank",
}


def format_times(times: float) -> str:
    """Return "12 times", with one digit after the point below 10."""
    return f"{times:.1f} times" if times < 10 else f"{times:,.0f} times"


def best_figure(stories: Sequence[Story]) -> tuple[Story, StoryFigure]:
    """Return the figure in which dynstore is fastest beside today's way, and its story."""
    found = [(story, figure) for story in stories for figure in story.figures()]
    return max(found, key=lambda pair: pair[1].times)


def render_story(document: Mapping[str, Any], stories: Sequence[Story]) -> str:
    """Return the page's HTML.

    Parameters
    ----------
    document : mapping
        The JSON document of the run.
    stories : sequence of Story
    """
    wrong = [story for story in stories if story.disagreement is not None]
    if wrong:
        line = f"{wrong[0].name}: {wrong[0].disagreement}"
        body = f'<h1>The run failed</h1><p class="bad">{escape(line)}</p>'
    else:
        body = _head(stories) + "".join(_section(story) for story in stories) + _method(stories[0])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{TITLE}</title><style>{page_style()}{_STYLE}</style></head>\n"
        f"<body><main>\n{body}{render_origin(document, stories[0].device)}\n</main></body></html>\n"
    )


def _head(stories: Sequence[Story]) -> str:
    story, figure = best_figure(stories)
    return (
        f"<h1>From a batch of {story.batch} events to {escape(figure.what)}, {format_times(figure.times)} as fast</h1>"
        f'<p class="lead">A service watches a stream of events between users. After every batch of {story.batch} '
        "events it asks: which users form triangles, which are connected, which rank highest? Today it makes a new "
        "graph of the window for each batch, and computes all answers anew. dynstore keeps the graph and its answers "
        "up to date.</p>"
    )


def _section(story: Story) -> str:
    assert story.findings is not None
    cards = "".join(_card(figure) for figure in story.figures())
    return (
        f"<h2>{escape(story.name)}</h2>"
        f"<p>{story.num_events:,} events between {story.num_users:,} users, a window of {story.window:,} events "
        f"({story.num_edges:,} edges).</p>"
        f'<div class="story">{cards}</div><p>{escape(story.findings.sentence())}</p>{_table(story)}'
    )


def _card(figure: StoryFigure) -> str:
    longest = max(figure.today_ms, figure.dynstore_ms)
    bars = "".join(
        f'<div class="bar {kind}"><span>{name}</span><div><i style="width:{100 * value / longest:.2f}%"></i></div>'
        f"<b>{format_ms(value)} ms</b></div>"
        for kind, name, value in (("today", "new graph", figure.today_ms), ("ours", "dynstore", figure.dynstore_ms))
    )
    return (
        f'<div class="card"><h3><span class="times">{format_times(figure.times)} as fast</span>From a batch to '
        f"{escape(figure.what)}</h3>{bars}</div>"
    )


def _table(story: Story) -> str:
    rows = []
    for name, what in _PARTS.items():
        theirs = story.times[story.today if name == "graph" else "rebuild"][name]
        values = [format_ms(float(np.median(times))) for times in (theirs, story.times["dynstore"][name])]
        rows.append(f"<tr><td>{what}</td><td>{values[0]}</td><td>{values[1]}</td></tr>")
    return (
        "<table><thead><tr><th>of that, ms</th><th>a new graph</th><th>dynstore</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _method(story: Story) -> str:
    others = ", ".join(escape(way) for way in story.times if way != "dynstore")
    steps = len(story.times["dynstore"]["graph"])
    return (
        "<h2>What is compared</h2>"
        f"<p>Both ways hold the same edges and gave the same answers after every one of {steps} timed batches; the run "
        "stops otherwise. dynstore gets a batch under the users' names. Today's way gets it as numbers, without the "
        f"cost of the names. It makes its graph in the fastest of several ways ({others}), and its answers are "
        "computed by the same kernels. Times are medians. How many times as fast is the median of the ratios batch by "
        "batch.</p>"
    )
