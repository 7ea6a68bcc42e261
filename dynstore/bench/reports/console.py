"""The result as a table in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from dynstore.bench.reports.summary import BASELINES, format_bytes, format_ms, format_ratio, headline, summarise

if TYPE_CHECKING:
    from rich.console import Console

    from dynstore.bench.suite_parts import WindowJob, WindowResult

__all__ = ["print_result"]


def print_result(console: Console, job: WindowJob, result: WindowResult) -> None:
    """Print the job, the table of medians and one sentence."""
    lines = summarise(job, result)
    if lines:
        console.print(_table(job, result))
        console.print(headline(job, result), highlight=False)
    if result.disagreement is None:
        console.print("After every step all stores held exactly the window's pairs and gave the same answers.")


def _table(job: WindowJob, result: WindowResult) -> Table:
    """Return a table with one column a contestant, which fits narrow terminals."""
    lines = summarise(job, result)
    baselines = [name for name in BASELINES if any(name in line.ratios for line in lines)]
    caption = "medians over the steps; vs: how many times as fast as that store an update is; below 1x it is slower"
    table = Table(caption=caption, caption_justify="left")
    table.add_column("ms")
    for line in lines:
        table.add_column(line.name + ("\n(convert)" if line.converts else ""), justify="right")
    table.add_row("update", *(format_ms(line.update) for line in lines))
    table.add_row("update, p90", *(format_ms(line.update_p90) for line in lines))
    for name in job.algorithms:
        table.add_row(name, *(format_ms(line.algorithms.get(name)) for line in lines))
    table.add_row("total", *(format_ms(line.total) for line in lines), end_section=True)
    for name in baselines:
        table.add_row(f"vs {name}", *(format_ratio(line.ratios.get(name)) for line in lines))
    table.add_row("memory", *(format_bytes(line.max_bytes) for line in lines))
    return table
