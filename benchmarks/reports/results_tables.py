"""Tables of kept results whose suites have a form of their own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from dynstore.bench.reports.summary import format_ms

__all__ = ["TABLES"]

MAX_WIDTH = 100
Row = Mapping[str, Any]


def _stream_costs(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each size of batch, log and monitors."""
    yield "M events/s is the rate at which rows go from the source to the answers. Updates and copies are"
    yield "alone. The last two columns have the ms from an event's arrival to the answers, when half as many"
    yield "come.\n"
    yield "| batch | log | monitors | M events/s | ms a batch | p99 | update | copies | event p50 | event p99 |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for (size, kind), some in groupby(rows, lambda row: (row["batch"], row["store"].partition(", ")[2])):
        found = {row["store"].partition(", ")[0]: row for row in some}
        log, _, monitors = kind.rpartition("monitors: ")
        log = log.removeprefix("log: ").removesuffix(", ") or "off"
        stream, latency = found["stream"], found["latency"]
        figures = [stream["median_ms"], stream["p99_ms"], found["update"]["median_ms"], found["copies"]["median_ms"]]
        figures += [latency["median_ms"], latency["p99_ms"]]
        rate = size / stream["median_ms"] / 1e3
        yield f"| {size:,} | {log} | {monitors} | {rate:.3g} | {' | '.join(map(format_ms, figures))} |"


def _stream_soak(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what each policy has counted, and a line for each tenth of its time."""
    for row in rows:
        if ":" in row["store"]:
            yield textwrap.fill(f"- {row['store']}", MAX_WIDTH, subsequent_indent="  ")
    yield "\n| policy | batches | median | p99 | max | MB |\n|---|---|---|---|---|---|"
    for row in rows:
        if ":" not in row["store"]:
            figures = " | ".join(format_ms(row[key]) for key in ("median_ms", "p99_ms", "max_ms"))
            yield f"| {row['store']} | {row['steps']:,} | {figures} | {row['bytes'] / 1e6:,.0f} |"


def _out_of_core(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each algorithm and way to read the pages."""
    link = next(row for row in rows if row["store"] == "link")
    speed = link["bytes"] / link["median_ms"]  # bytes a ms
    yield textwrap.fill(
        f'The link moves {speed / 1e6:.1f} GB/s. "Bound" is the time that the moved bytes take at this speed, divided '
        "by the median. PageRank's figures are for one iteration.",
        MAX_WIDTH,
    )
    yield "\n| algorithm | way | of the pages on the GPU | median | p90 | MB over the link | bound |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        if row is not link:
            way, _, resident = row["store"].partition(", resident ")
            algorithm = row["algorithm"] or row["operation"]
            moved = f"{row['bytes'] / 1e6:,.0f} | {row['bytes'] / speed / row['median_ms']:.0%}"
            figures = " | ".join(format_ms(row[key]) for key in ("median_ms", "p90_ms"))
            yield f"| {algorithm} | {way} | {float(resident or 0):.0%} | {figures} | {moved} |"


# The lines of a suite's rows, in Markdown.
TABLES = {"out-of-core": _out_of_core, "stream-costs": _stream_costs, "stream-soak": _stream_soak}
