"""A stream of events cut into slides: the edges that leave and enter the graph, step by step.

The sliding window follows GPMA's experiments (Sha, Li, He, Tan: Accelerating Dynamic Graph Analytics on GPUs, PVLDB
2017, section 6.1): a window of a fixed number of events moves over the stream by a batch at a time. It counts
multiplicity: a pair leaves the graph with its last occurrence in the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dynstore.bench.outputs import printable
from dynstore.errors import InputError
from dynstore.io import OP_DELETE, EventTable

__all__ = [
    "Edges",
    "Slide",
    "SlidingStream",
    "cut_stream",
    "describe_stream",
    "edge_keys",
    "parse_batch",
    "sorted_unique",
]


@dataclass(frozen=True, eq=False)
class Edges:
    """Rows of edges; ids int32, weights float32 or None."""

    src: np.ndarray
    dst: np.ndarray
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.src.shape[0])


@dataclass(frozen=True, eq=False)
class Slide:
    """One step.

    Attributes
    ----------
    low, high : int
        After the step the graph shows the events ``low`` to ``high`` (exclusive) of the stream.
    leaving : Edges
        Distinct pairs, to be deleted first.
    entering : Edges
        Event rows, to be inserted next; a pair may occur several times, the last weight counts.
    """

    low: int
    high: int
    leaving: Edges
    entering: Edges


class SlidingStream:
    """Events cut into slides.

    Attributes
    ----------
    first : Slide
        The graph to start from: nothing leaves, the first window enters.
    slides : list of Slide
    replayed : bool
        Whether explicit changes are replayed; else a window slides.
    batch : int
        Events a slide.
    num_vertices : int
        One more than the highest id of all events.
    directed : bool
    """

    def __init__(
        self, events: EventTable, window: int, batch: int, num_slides: int, directed: bool, weighted: bool
    ) -> None:
        self.directed = directed
        self.batch = batch
        self.replayed = events.op is not None
        self.num_vertices = events.num_vertices
        self._src, self._dst = events.src.astype(np.int32), events.dst.astype(np.int32)
        self._op = events.op
        self._weight = None
        if weighted and events.weight is not None:
            self._weight = events.weight.astype(np.float32)
        self._keys = edge_keys(self._src, self._dst, directed)
        cut = self._replay if self.replayed else self._slide
        self.first = Slide(0, window, self._edges(np.empty(0, np.int64)), self._edges(self._building_rows(window)))
        self.slides = cut(window, batch, num_slides)

    def rows(self, low: int, high: int) -> Edges:
        """Return the raw event rows ``low`` to ``high`` (exclusive), without a copy."""
        weight = None if self._weight is None else self._weight[low:high]
        return Edges(self._src[low:high], self._dst[low:high], weight)

    def expected(self, slide: Slide) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the pairs that the graph must hold after a step, from the raw events alone.

        Returns
        -------
        keys : numpy.ndarray, int64, sorted
            As from :func:`edge_keys`.
        weights : numpy.ndarray, float32, or None
            The weight of each pair's last event.
        """
        keys = self._keys[slide.low : slide.high]
        if self._op is None and self._weight is None:
            return sorted_unique(keys), None
        last = _last_of_each(keys)
        if self._op is not None:
            last = last[self._op[slide.low : slide.high][last] != OP_DELETE]
        weights = None if self._weight is None else self._weight[slide.low : slide.high][last]
        return keys[last], weights

    def _edges(self, rows: np.ndarray | slice) -> Edges:
        weight = None if self._weight is None else self._weight[rows]
        return Edges(self._src[rows], self._dst[rows], weight)

    def _building_rows(self, window: int) -> np.ndarray | slice:
        if self._op is None:
            return slice(0, window)
        last = _last_of_each(self._keys[:window])
        kept: np.ndarray = last[self._op[last] != OP_DELETE]
        return kept

    def _slide(self, window: int, batch: int, num_slides: int) -> list[Slide]:
        upcoming = _next_occurrence(self._keys[: window + batch * num_slides])
        slides = []
        for step in range(num_slides):
            low, high = step * batch, window + step * batch
            # The last occurrence in the window: the pair's next one, if any, is in the entering batch or later.
            leaving = low + np.flatnonzero(upcoming[low : low + batch] >= high)
            slides.append(
                Slide(low + batch, high + batch, self._edges(leaving), self._edges(slice(high, high + batch)))
            )
        return slides

    def _replay(self, window: int, batch: int, num_slides: int) -> list[Slide]:
        """Reduce each batch to its net changes: a pair whose last change is a deletion leaves, all others enter."""
        assert self._op is not None
        slides = []
        for step in range(num_slides):
            low = window + step * batch
            rows = np.arange(low, low + batch)
            keys, ops = self._keys[rows], self._op[rows]
            last = _last_of_each(keys)
            gone = ops[last] == OP_DELETE
            stays = ~gone[np.searchsorted(keys[last], keys)] & (ops != OP_DELETE)
            slides.append(Slide(0, low + batch, self._edges(rows[last[gone]]), self._edges(rows[stays])))
        return slides


def cut_stream(
    events: EventTable, window: float, batch: int, num_slides: int, directed: bool = True, weighted: bool = False
) -> SlidingStream:
    """Cut a stream into a first window and ``num_slides`` slides.

    Parameters
    ----------
    events : EventTable
        In their order; with explicit changes (``op``) these are replayed.
    window : float
        Share of the events in the window, or replayed before the first step; above 0 and below 1.
    batch : int
        Events a slide.
    num_slides : int
    directed : bool
        If not, (u, v) and (v, u) are one pair.
    weighted : bool
        Whether edges take the events' weights.

    Raises
    ------
    InputError
        If the stream is too short.
    """
    size = len(events)
    if not 0 < window < 1:
        raise InputError(f"--window is {window:g}; wanted a share of the stream between 0 and 1")
    if num_slides < 1:
        raise InputError(f"--steps is {num_slides}; wanted at least 1")
    length = round(window * size)
    if length < 1:
        raise InputError(f"--window {window:g} of {size} events has no event; wanted a longer stream or window")
    if batch > length and events.op is None:
        raise InputError(f"--batch has {batch} events, the window {length}; wanted a smaller batch")
    fitting = (size - length) // batch
    if num_slides > fitting:
        raise InputError(
            f"--steps: {num_slides - 1} steps and one to warm up need {num_slides * batch} events behind a window of "
            f"{length}; the stream has {size} events, enough for {max(fitting - 1, 0)}"
        )
    return SlidingStream(events, length, batch, num_slides, directed, weighted)


def parse_batch(text: str | int, num_events: int) -> int:
    """Turn "500" or "1%" (of the whole dataset's events) into a number of events, at least 1.

    Raises
    ------
    InputError
    """
    shown = str(text).strip()
    share = shown.endswith("%")
    try:
        number = float(shown[:-1]) if share else int(shown)
    except ValueError:
        number = -1.0
    if share and 0 < number <= 100:
        return max(1, round(number / 100 * num_events))
    if not share and number >= 1:
        return int(number)
    raise InputError(f"--batch is {shown!r}; wanted a count such as 500, or a share of all events such as 1%")


def edge_keys(src: np.ndarray, dst: np.ndarray, directed: bool) -> np.ndarray:
    """Pack ids below 2^31 into one int64 key each; undirected pairs as (smaller, larger)."""
    if not directed:
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
    keys: np.ndarray = (src.astype(np.int64) << 32) | dst
    return keys


def sorted_unique(keys: np.ndarray) -> np.ndarray:
    """Sort and drop duplicates (numpy.unique hashes first, which is many times slower on 64-bit keys)."""
    keys = np.sort(keys)
    fresh = np.ones(keys.shape[0], np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return keys[fresh]


def _last_of_each(keys: np.ndarray) -> np.ndarray:
    """Return the place of each key's last occurrence, in ascending order of the keys."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    last = np.ones(keys.shape[0], np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=last[:-1])
    return order[last]


def _next_occurrence(keys: np.ndarray) -> np.ndarray:
    """Return for each place the next one with the same key, or the number of places if there is none."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    upcoming = np.full(keys.shape[0], keys.shape[0], np.int64)
    upcoming[order[again]] = order[again + 1]
    return upcoming


def describe_stream(events: EventTable, seed: int | None) -> dict[str, Any]:
    """Return a stream's description for the JSON; its vertices are its distinct ids."""
    seen = np.zeros(events.num_vertices, np.bool_)
    seen[events.src] = True
    seen[events.dst] = True
    return {"name": printable(events.name), "vertices": int(np.count_nonzero(seen)), "edges": len(events), "seed": seed}
