"""The main figures: one line a contestant, and one sentence; for the console and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dynstore.bench.suite_parts import WindowJob, WindowResult

__all__ = ["BASELINES", "Line", "format_bytes", "format_ms", "format_ratio", "headline", "ratio_of", "summarise"]

BASELINES = ("rebuild", "merge")


@dataclass(frozen=True)
class Line:
    """Medians of one contestant in ms; None for an operation that it does not do.

    Attributes
    ----------
    name : str
    converts : bool
        A conversion of the whole window, not a store: ``update`` is its time.
    update, update_p90, total : float or None
    algorithms : dict
        Name -> ms.
    ratios : dict
        Baseline -> median over the steps of (baseline's update / this update).
    max_bytes : int or None
    """

    name: str
    converts: bool
    update: float | None
    update_p90: float | None
    total: float | None
    algorithms: dict[str, float]
    ratios: dict[str, float]
    max_bytes: int | None


def summarise(job: WindowJob, result: WindowResult) -> list[Line]:
    """Return a line for each store, in the given order, then for each conversion."""
    updates = {name: times for (name, operation, _), times in result.times.items() if operation == "update"}
    converted = {name: times for (name, operation, _), times in result.times.items() if operation == "convert"}
    max_bytes = {row["store"]: row["bytes"] for row in result.rows if row["operation"] == "update"}
    lines = []
    for name, times in {**{name: updates[name] for name in job.stores if name in updates}, **converted}.items():
        total = result.times.get((name, "total", None))
        lines.append(
            Line(
                name=name,
                converts=name in converted,
                update=_median(times),
                update_p90=float(np.percentile(times, 90)),
                total=None if total is None else _median(total),
                algorithms={
                    algorithm: _median(result.times[name, "algorithm", algorithm])
                    for algorithm in job.algorithms
                    if (name, "algorithm", algorithm) in result.times
                },
                ratios={baseline: ratio_of(updates[baseline], times) for baseline in BASELINES if baseline in updates},
                max_bytes=max_bytes.get(name),
            )
        )
    return lines


def ratio_of(baseline: Sequence[float] | np.ndarray, times: Sequence[float] | np.ndarray) -> float:
    """Return how many times as fast as the baseline: the median of the ratios step by step."""
    return float(np.median(np.asarray(baseline) / np.asarray(times)))


def headline(job: WindowJob, result: WindowResult) -> str:
    """Return a sentence that compares the first store with the others."""
    lines = {line.name: line for line in summarise(job, result)}
    first = lines.get(job.stores[0])
    if first is None or first.update is None:
        return "No step was completed."
    steps = len(result.times[first.name, "update", None])
    text = f"{first.name} updates the graph in {format_ms(first.update)} ms a step of {result.batch:,} events"
    others = [name for name in first.ratios if name != first.name]
    if others:
        text += ": " + " and ".join(f"{_times(first.ratios[name])} than {name}" for name in others)
    text += f" (medians of {steps} steps)."
    if first.total is not None and first.algorithms:
        parts = [f"{name} {format_ms(lines[name].total)}" for name in (first.name, *others)]
        text += f" With {', '.join(job.algorithms)} a step takes, in ms: {', '.join(parts)}."
    return text


def format_ms(value: float | None) -> str:
    """Three significant digits, a dash for nothing."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def format_ratio(value: float | None) -> str:
    """Return "4.9x", a dash for nothing."""
    return "–" if value is None else f"{value:.3g}x" if value < 100 else f"{value:,.0f}x"


def format_bytes(value: int | None) -> str:
    """Return MB with three significant digits, a dash for nothing."""
    return "–" if value is None else f"{value / 1e6:,.3g} MB" if value < 1e9 else f"{value / 1e9:,.3g} GB"


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times faster" if ratio >= 1 else f"{1 / ratio:.3g} times slower"


def _median(times: Sequence[float]) -> float:
    return float(np.median(np.asarray(times)))
