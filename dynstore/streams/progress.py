"""What a stream says of itself: counts, rates, delays."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter
from typing import Any, Literal, TypeAlias

import numpy as np

from dynstore.errors import without_secrets

__all__ = ["STAGES", "Meter", "Progress", "State", "shown_ms", "shown_time"]

State: TypeAlias = Literal["ready", "running", "ended", "failed"]
STAGES = ("read", "copy", "wait", "update", "monitors", "questions")
# Figures are of the last so many batches, and errors the last so many.
RECENT = 512
MAX_ERRORS = 20


def shown_time(value: Any, dated: bool | None) -> Any:
    """Return a time as users see it: nanoseconds of date-times as ``numpy.datetime64``; None before the first rows."""
    if value is None or dated is None:  # a time of the log that is older than all rows: its kind is not known yet
        return None
    return np.datetime64(value, "ns") if dated else value


def shown_ms(ms: float) -> str:
    """Return milliseconds to three digits, without an exponent.

    >>> shown_ms(0.12345), shown_ms(1806.2)
    ('0.123', '1,806')
    """
    return f"{ms:.3g}" if ms < 100 else f"{ms:,.0f}"


@dataclass(frozen=True, slots=True)
class Progress:
    """A stream at one moment. Rates, milliseconds and delays are those of the last 512 batches.

    Attributes
    ----------
    state : {"ready", "running", "ended", "failed"}
        "ready": not started yet. "failed": ended by an error.
    version : int
        The version of the graph.
    batches : int
        Batches that were applied. A batch counts, and so do its rows, when its answers are there. Until then
        ``version`` and ``event_time`` are those after it already.
    arrived, applied, pending : int
        Rows that have come from the source; of these, rows that are applied (late ones included), and rows that still
        wait.
    late : int
        Rows that were ignored because they came too late for ``lateness`` or the window.
    dropped : int
        Rows that ``overflow="drop-oldest"`` has dropped.
    left_out : int
        Messages and lines that could not be read, and that ``on_error`` has left out.
    gaps : int
        How often the source lacked what was not read yet; with ``on_gap="continue"``.
    lost : int
        How much these gaps lacked, as far as the source can count it: messages, of a file bytes.
    edges_per_s : float
        Rows applied in a second.
    event_time : int, float or numpy.datetime64, or None
        The newest time that is applied; None before this stream has read a row with a time.
    event_lag : int, float or numpy.timedelta64, or None
        The difference between the newest time that has arrived and ``event_time``.
    arrival_lag_s : float
        The seconds that the oldest waiting row has waited.
    p50_ms, p99_ms : float
        Milliseconds from the arrival of a row to the answers that include it; without monitors, to the update of the
        graph. A GPU may still be writing at this moment; the next read of the graph waits for that.
    ms : dict
        The mean milliseconds that a batch takes in each stage: "read" (the source), "copy" (to the GPU), "wait",
        "update" (of the graph), "monitors" (the answers), "questions". A batch is copied while the one before it is
        applied; "wait" is how long the graph waits for the copy, and for other ranks.
    skipped_ticks : int
        Ticks that a slow callback did not get, because a newer tick came.
    logged_bytes : int
        Bytes in the log of the graph's database; 0 without one.
    errors : tuple of str
        The last errors of callbacks and monitors, or the one that has ended the stream.
    applied_by_all : int
        For a graph on several ranks, the ``applied`` rows of all ranks together; for any other graph, ``applied``.
    """

    state: State
    version: int
    batches: int
    arrived: int
    applied: int
    pending: int
    late: int
    dropped: int
    left_out: int
    gaps: int
    lost: int
    edges_per_s: float
    event_time: object
    event_lag: object
    arrival_lag_s: float
    p50_ms: float
    p99_ms: float
    ms: dict[str, float]
    skipped_ticks: int
    logged_bytes: int
    errors: tuple[str, ...]
    applied_by_all: int

    def __str__(self) -> str:
        said = (
            f"version {self.version:,}: {self.applied:,} rows, {self.edges_per_s:,.0f} /s, {self.pending:,} pending, "
            f"p50 {shown_ms(self.p50_ms)} ms, p99 {shown_ms(self.p99_ms)} ms"
        )
        counts = {"late": self.late, "dropped": self.dropped, "messages left out": self.left_out}
        counts |= {"gaps": self.gaps, "lost": self.lost}
        counts["ticks skipped"] = self.skipped_ticks
        said += "".join(f", {count:,} {name}" for name, count in counts.items() if count)
        return said + (f"; last error: {self.errors[-1]}" if self.errors else "")


@dataclass(slots=True)
class Meter:
    """Counts and times of a stream; several threads add to it.

    ``done`` has the moments at which batches were through, and how many rows were applied then.
    """

    batches: int = 0
    left_out: int = 0
    gaps: int = 0
    lost: int = 0
    applied: int = 0
    late: int = 0
    skipped_ticks: int = 0
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_ERRORS))
    _stages: dict[str, deque[float]] = field(default_factory=lambda: {name: deque(maxlen=RECENT) for name in STAGES})
    _delays: deque[list[tuple[float, int]]] = field(default_factory=lambda: deque(maxlen=RECENT))
    done: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RECENT))
    _lock: Lock = field(default_factory=Lock)

    def begin(self) -> None:
        """Start the clock."""
        with self._lock:
            self.done.append((perf_counter(), self.applied))

    def stage(self, name: str, begun: float) -> float:
        """Note a stage that has begun then and ends now; return the present time."""
        now = perf_counter()
        with self._lock:
            self._stages[name].append(now - begun)
        return now

    def batch(self, arrivals: list[tuple[float, int]], late: int) -> None:
        """Note a batch whose answers are there now."""
        now, rows = perf_counter(), sum(count for _, count in arrivals)
        with self._lock:
            self.batches += 1
            self.applied += rows
            self.late += late
            self.done.append((now, self.applied))
            step = -(-len(arrivals) // 64) or 1  # at most 64 of a batch are kept
            self._delays.append([(now - arrived, count) for arrived, count in arrivals[::step]])

    def error(self, text: str) -> None:
        """Note an error, without secrets; one that comes again and again is kept once."""
        text = without_secrets(text)
        with self._lock:
            if not self.errors or self.errors[-1] != text:
                self.errors.append(text)

    def note_gap(self, count: int | None) -> None:
        """Count a gap of the source, and what it lacks if that is known."""
        with self._lock:
            self.gaps += 1
            self.lost += count or 0

    def skip_tick(self) -> None:
        """Count a tick that was dropped."""
        with self._lock:
            self.skipped_ticks += 1

    def rate(self) -> float:
        """Return rows a second."""
        with self._lock:
            if len(self.done) < 2:
                return 0.0
            (first, before), (last, after) = self.done[0], self.done[-1]
        return (after - before) / max(last - first, 1e-9)

    def delays_ms(self, *shares: float) -> list[float]:
        """Return percentiles of the rows' delays; each share is one of 0 to 1."""
        with self._lock:
            delays = sorted(delay for batch in self._delays for delay in batch)
        total = sum(count for _, count in delays)
        passed, reached = 0, []
        for delay, count in delays:
            passed += count
            reached.append((passed, 1e3 * delay))
        return [next((ms for passed, ms in reached if passed >= share * total), 0.0) for share in shares]

    def stage_ms(self) -> dict[str, float]:
        """Return the mean milliseconds of each stage."""
        with self._lock:
            return {name: 1e3 * sum(times) / len(times) if times else 0.0 for name, times in self._stages.items()}
