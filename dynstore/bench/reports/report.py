"""The result as one self-contained page with styles and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from dynstore.bench.reports.summary import (
    BASELINES,
    Line,
    format_bytes,
    format_ms,
    format_ratio,
    headline,
    summarise,
)
from dynstore.bench.reports.svg import line_chart, stacked_bars

if TYPE_CHECKING:
    from dynstore.bench.suite_parts import WindowJob, WindowResult

__all__ = ["page_style", "render_lines", "render_origin", "render_page"]

# Okabe and Ito's colours, which colour-blind readers can distinguish; lighter ones on a dark ground.
_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7a5195", "#555555")
_DARK = ("#56b4e9", "#ff8a3d", "#2fd6a3", "#f0a6cf", "#f0e442", "#8fd0ff", "#b99cd6", "#bbbbbb")
_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1d2329; --soft: #5b6670; --rule: #dfe4e8; --band: #f5f7f9;
  --bad: #b3261e; LIGHT }
@media (prefers-color-scheme: dark) { :root { --ground: #14181c; --ink: #e7ebee; --soft: #9aa6b0; --rule: #2e363d;
  --band: #1b2126; --bad: #ff8a80; DARK } }
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
main { max-width: 860px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .4rem }
p { margin: .4rem 0 .8rem }
.lead { font-size: 1.1rem }
.soft, figcaption, dt { color: var(--soft) }
.bad { color: var(--bad); font-weight: 600 }
code { font: .88em/1.5 ui-monospace, monospace; background: var(--band); padding: .1em .35em; border-radius: 4px;
  overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; margin: .6rem 0 }
dd { margin: 0; overflow-wrap: anywhere }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { padding: .4rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap }
th { font-weight: 600; color: var(--soft) }
th:first-child, td:first-child { text-align: left }
tr.first td { font-weight: 600 }
figure { margin: .6rem 0 }
figcaption { font-size: .88rem }
svg { width: 100%; height: auto; display: block }
svg text { fill: var(--soft); font-size: 12px } svg .name { fill: var(--ink); font-size: 13px }
svg .grid { stroke: var(--rule) } svg .line { fill: none; stroke-width: 2 }
"""


def render_page(document: Mapping[str, Any], job: WindowJob, result: WindowResult) -> str:
    """Return the page's HTML.

    Parameters
    ----------
    document : mapping
        The JSON document of the run: the page shows its machine, command and versions with the figures.
    job : WindowJob
    result : WindowResult
    """
    lines = summarise(job, result)
    parts = [_head(document, result), _verdict(job, result)]
    if lines:
        parts += [_figures(job, result, lines), _table(job, lines)]
    parts.append(render_origin(document, result.device))
    title = f"dynstore bench: {document['dataset']['name']}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{page_style()}</style></head>\n<body><main>\n"
        + "\n".join(parts)
        + "\n</main></body></html>\n"
    )


def page_style() -> str:
    """Return the style sheet: colours on light and dark grounds, tables, charts."""
    light, dark = (
        " ".join(f"--c{number}: {colour};" for number, colour in enumerate(colours)) for colours in (_LIGHT, _DARK)
    )
    classes = "".join(
        f"svg .line.c{n} {{ stroke: var(--c{n}) }} svg .dot.c{n}, svg .bar.c{n} {{ fill: var(--c{n}) }}\n"
        for n in range(len(_LIGHT))
    )
    return _STYLE.replace("LIGHT", light).replace("DARK", dark) + classes


def _head(document: Mapping[str, Any], result: WindowResult) -> str:
    data, machine = document["dataset"], document["machine"]
    where = machine["gpu"] if result.device == "cuda" else machine["cpu"]
    way = "first part replayed" if result.replayed else "window"
    return (
        f"<h1>A graph kept up to date: {escape(data['name'])}</h1>"
        f'<p class="soft">{data["edges"]:,} events between {data["vertices"]:,} vertices; {way} of '
        f"{result.window_events:,} events, {result.batch:,} a step; {escape('; '.join(result.notes))}. "
        f"Measured on {escape(str(where))} with <code>{escape(document['command'])}</code>.</p>"
    )


def _verdict(job: WindowJob, result: WindowResult) -> str:
    if result.disagreement is not None:
        return f'<p class="bad">The run failed: {escape(result.disagreement)}. The figures below do not count.</p>'
    return (
        f'<p class="lead">{escape(headline(job, result))}</p><p>After every step all stores held exactly the pairs of '
        "the raw events and gave the same answers.</p>"
    )


def _figures(job: WindowJob, result: WindowResult, lines: Sequence[Line]) -> str:
    series = {}
    for line in lines:
        operation = "convert" if line.converts else "update"
        series[line.name] = result.times[line.name, operation, None]
    stores = [line for line in lines if not line.converts]
    bars = {line.name: {"update": line.update or 0.0, **line.algorithms} for line in stores}
    updates = line_chart(series, "Update time of each store at each step", "ms, logarithmic", "step")
    shares = stacked_bars(bars, "Update and algorithms of each store", "ms a step")
    return (
        f"<h2>Update time, step by step</h2><figure>{updates}<figcaption>Delete what leaves, insert what enters, show "
        "the snapshot; for conversions: the whole window anew. Lower is better.</figcaption></figure>"
        f"<h2>Where a step's time goes</h2><figure>{shares}<figcaption>Medians; the number behind a bar is the sum of "
        "its parts.</figcaption></figure>"
    )


def _table(job: WindowJob, lines: Sequence[Line]) -> str:
    baselines = [name for name in BASELINES if any(name in line.ratios for line in lines)]
    head = ["store", "update", "p90", *job.algorithms, "total", *(f"vs {name}" for name in baselines), "memory"]
    body = []
    for line in lines:
        cells = [
            line.name + (" (convert)" if line.converts else ""),
            format_ms(line.update),
            format_ms(line.update_p90),
            *(format_ms(line.algorithms.get(name)) for name in job.algorithms),
            format_ms(line.total),
            *(format_ratio(line.ratios.get(name)) for name in baselines),
            format_bytes(line.max_bytes),
        ]
        first = ' class="first"' if line is lines[0] else ""
        body.append(f"<tr{first}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return (
        '<h2>Medians</h2><div class="scroll"><table><thead><tr>'
        + "".join(f"<th>{escape(name)}</th>" for name in head)
        + f"</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        '<p class="soft">Times in ms. "vs" is how many times as fast as that store an update is, the median of the '
        "ratios step by step; below 1x it is slower. Memory is the most the store held after an update.</p>"
    )


def render_origin(document: Mapping[str, Any], device: str) -> str:
    """Return the part of a page that says where its figures come from."""
    machine = document["machine"]
    gpu = f"{machine['gpu']}, driver {machine['driver']}" if machine["gpu"] else "none"
    facts = {
        "Device": device,
        "CPU": f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB",
        "GPU": gpu,
        "System": machine["os"],
        "Versions": ", ".join(f"{name} {version}" for name, version in document["versions"].items()),
        "Commit": document["commit"],
        "Date": document["date"],
        "Seed": "none" if document["dataset"]["seed"] is None else str(document["dataset"]["seed"]),
    }
    rows = "".join(f"<dt>{name}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items())
    command = f"<dt>Command</dt><dd><code>{escape(document['command'])}</code></dd>"
    return f"<h2>Where the figures come from</h2><dl>{rows}{command}</dl>"


def render_lines(document: Mapping[str, Any], head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a plain page: what was run, and one table."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    name = escape(f"dynstore bench --suite {document['suite']}: {document['dataset']['name']}")
    machine = ", ".join(str(value) for value in document["machine"].values())
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title></head><body>'
        f"<h1>{name}</h1><p>{escape(document['command'])}; {escape(document['commit'])}; {escape(machine)}</p><table>"
        + row(head, "th")
        + "".join(row(line, "td") for line in lines)
        + "</table></body></html>\n"
    )
