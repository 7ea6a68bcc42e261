"""Two small charts as inline SVG, without any library; colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["COLOURS", "line_chart", "stacked_bars"]

COLOURS = 8  # classes c0 .. c7 of the page
WIDTH, HEIGHT = 760, 330
SMALLEST = 1e-6  # a logarithmic axis has no 0
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 34, 40


def line_chart(series: Mapping[str, Sequence[float]], label: str, y_label: str, x_label: str) -> str:
    """Draw values over steps 1, 2, ... on a logarithmic axis.

    Parameters
    ----------
    series : mapping
        Name -> values, one a step.
    label, y_label, x_label : str
        The chart's description, for screen readers, and the axes.

    Returns
    -------
    str
        An ``<svg>`` element.
    """
    values = [value for line in series.values() for value in line]
    low, high = _log_range(min(values), max(values))
    steps = max(len(line) for line in series.values())

    def x_of(step: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * ((step - 1) / (steps - 1) if steps > 1 else 0.5)

    def y_of(value: float) -> float:
        share = (math.log10(max(value, SMALLEST)) - low) / (high - low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [_open(label), _legend(list(series))]
    for tick in _log_ticks(low, high):
        y = y_of(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    for step in _step_ticks(steps):
        parts.append(
            f'<text class="tick" x="{x_of(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>'
        )
    for number, (name, line) in enumerate(series.items()):
        colour = f"c{number % COLOURS}"
        points = [(x_of(step), y_of(value)) for step, value in enumerate(line, start=1)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="line {colour}" points="{path}"/>')
        for step, ((x, y), value) in enumerate(zip(points, line, strict=True), start=1):
            title = f"<title>{escape(name)}, step {step}: {_number(value)} ms</title>"
            parts.append(f'<circle class="dot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="3">{title}</circle>')
    parts.append(_axis_labels(y_label, x_label))
    return "".join([*parts, "</svg>"])


def stacked_bars(bars: Mapping[str, Mapping[str, float]], label: str, x_label: str) -> str:
    """Draw one horizontal bar for each name, divided into parts, on a linear axis from 0.

    Parameters
    ----------
    bars : mapping
        Name -> (part -> value of at least 0); the parts are the same for all names.
    label, x_label : str
    """
    kinds = list(dict.fromkeys(part for parts in bars.values() for part in parts))
    row, left = 34, 130
    height = TOP + row * len(bars) + BOTTOM
    step, count = _linear_ticks(max(sum(parts.values()) for parts in bars.values()))
    scale = (WIDTH - left - RIGHT - 50) / (step * count)
    parts_out = [_open(label, height), _legend(kinds)]
    for tick in range(count + 1):
        x = left + tick * step * scale
        parts_out.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        text = _number(tick * step)
        parts_out.append(
            f'<text class="tick" x="{x:.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{text}</text>'
        )
    for number, (name, parts) in enumerate(bars.items()):
        y, x = TOP + row * number + 5, float(left)
        parts_out.append(f'<text class="name" x="{left - 8}" y="{y + 16}" text-anchor="end">{escape(name)}</text>')
        for kind, value in parts.items():
            width = value * scale
            title = f"<title>{escape(name)}, {escape(kind)}: {_number(value)} ms</title>"
            colour = f"c{kinds.index(kind) % COLOURS}"
            shape = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{row - 12}"'
            parts_out.append(f'<rect class="bar {colour}" {shape}>{title}</rect>')
            x += width
        total = _number(sum(parts.values()))
        parts_out.append(f'<text class="tick" x="{x + 6:.1f}" y="{y + 16}">{total}</text>')
    middle = (left + WIDTH - RIGHT) / 2
    parts_out.append(
        f'<text class="tick" x="{middle:.0f}" y="{height - 4}" text-anchor="middle">{escape(x_label)}</text>'
    )
    return "".join([*parts_out, "</svg>"])


def _open(label: str, height: int = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'


def _legend(names: Sequence[str]) -> str:
    parts, x = [], float(LEFT)
    for number, name in enumerate(names):
        parts.append(f'<rect class="bar c{number % COLOURS}" x="{x:.0f}" y="8" width="11" height="11" rx="2"/>')
        parts.append(f'<text class="name" x="{x + 16:.0f}" y="18">{escape(name)}</text>')
        x += 36 + 7.2 * len(name)
    return "".join(parts)


def _axis_labels(y_label: str, x_label: str) -> str:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="translate(14 {middle:.0f}) rotate(-90)"'
    below = f'x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 4}"'
    return (
        f'<text class="tick" {turned} text-anchor="middle">{escape(y_label)}</text>'
        f'<text class="tick" {below} text-anchor="middle">{escape(x_label)}</text>'
    )


def _log_range(low: float, high: float) -> tuple[float, float]:
    """Return exponents around the values, at least half a decade apart."""
    low, high = math.log10(max(low, SMALLEST)), math.log10(max(high, SMALLEST))
    margin = max(0.06 * (high - low), (0.5 - (high - low)) / 2, 0.02)
    return low - margin, high + margin


def _log_ticks(low: float, high: float) -> list[float]:
    leading = (1, 2, 5) if high - low < 3 else (1,)
    exponents = range(math.floor(low), math.ceil(high) + 1)
    ticks = [digit * 10.0**exponent for exponent in exponents for digit in leading]
    return [tick for tick in ticks if low <= math.log10(tick) <= high]


def _step_ticks(steps: int) -> list[int]:
    every = max(1, math.ceil(steps / 10))
    return [1, *(step for step in range(every, steps + 1, every) if step > 1)]


def _linear_ticks(high: float) -> tuple[float, int]:
    """Return a round distance of ticks, and how many of them cover ``high``."""
    if high <= 0:
        return 1.0, 1
    unit = 10.0 ** math.floor(math.log10(high))
    step = next(unit * digit for digit in (0.2, 0.5, 1, 2, 5) if unit * digit * 6 >= high)
    return step, math.ceil(high / step)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
