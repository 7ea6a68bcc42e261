"""The two ways: one graph that dynstore keeps up to date, and a new graph for each batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import dynstore
from dynstore.bench.answers import PAGERANK_TOL, make_query
from dynstore.bench.contestants import Conversion, conversions
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.windows.window import Window

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.io import EventTable

__all__ = ["ANSWERS", "FIGURES", "Findings", "Story", "StoryFigure", "run_story"]

ANSWERS = ("triangle_count", "weakly_connected_components", "pagerank")
# What is measured: from a batch to the current graph, to its triangles, to all answers.
FIGURES = {
    "graph": "the current graph",
    "triangles": "the triangles of each user",
    "answers": "triangles, components and PageRank",
}
WARM_UP = 5
Times = dict[str, list[float]]  # what was timed -> ms of each step


@dataclass(frozen=True)
class StoryFigure:
    """One figure of the story.

    Attributes
    ----------
    what : str
    today_ms, dynstore_ms : float
        Medians over the steps.
    times : float
        How many times faster: the median of the ratios step by step.
    """

    what: str
    today_ms: float
    dynstore_ms: float
    times: float


@dataclass(frozen=True)
class Findings:
    """What the answers say after the last batch."""

    busiest: str
    most_triangles: str
    triangles: int
    largest_share: float
    num_users: int

    def sentence(self) -> str:
        """Return the findings as one sentence."""
        return (
            f"Of {self.num_users:,} users, {self.busiest} has the highest rank, {self.most_triangles} is in the most "
            f"triangles ({self.triangles:,}), and {self.largest_share:.0%} hang together in one component."
        )


@dataclass
class Story:
    """What a run has shown.

    Attributes
    ----------
    name : str
        The stream.
    num_events, num_users, window, batch : int
    device : str
    num_edges : int
        Edges of the last window.
    times : dict
        Way -> times: "dynstore" and "rebuild" have "graph" and the answers; each conversion has "graph".
    today : str
        The fastest way to make a new graph.
    bytes_held : dict
        Way -> bytes of its graph.
    findings : Findings or None
    disagreement : str or None
        The first difference between the two ways; the run stops there.
    """

    name: str
    num_events: int
    num_users: int
    window: int
    batch: int
    device: str
    num_edges: int = 0
    times: dict[str, Times] = field(default_factory=dict)
    today: str = ""
    bytes_held: dict[str, int] = field(default_factory=dict)
    findings: Findings | None = None
    disagreement: str | None = None

    def figures(self) -> list[StoryFigure]:
        """Return the three figures; today's way makes its graph in the fastest way there is."""
        parts: dict[str, tuple[str, ...]] = {
            "graph": (), "triangles": ("triangle_count",), "answers": ANSWERS,
        }  # fmt: skip
        figures = []
        for name, answers in parts.items():
            ours = np.array(self.times["dynstore"]["graph"])
            theirs = np.array(self.times[self.today]["graph"])
            for answer in answers:
                ours = ours + self.times["dynstore"][answer]
                theirs = theirs + self.times["rebuild"][answer]
            medians = float(np.median(theirs)), float(np.median(ours))
            figures.append(StoryFigure(FIGURES[name], *medians, float(np.median(theirs / ours))))
        return figures

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of schema 1: the stores "gpma+" (dynstore's way) and "rebuild", and the conversions."""
        rows = []
        for way, times in self.times.items():
            store = "gpma+" if way == "dynstore" else way
            total = np.sum([times[name] for name in ("graph", *ANSWERS) if name in times], axis=0)
            operations: list[tuple[str, str | None, Any]]
            if "triangle_count" in times:
                operations = [("update", None, times["graph"]), *(("algorithm", name, times[name]) for name in ANSWERS)]
                operations.append(("total", None, total.tolist()))
            else:
                operations = [("convert", None, times["graph"])]
            rows += [
                {
                    "store": store, "device": self.device, "operation": operation, "algorithm": algorithm,
                    "batch": self.batch, "edges": self.num_edges, "steps": len(values), **percentiles(values),
                    "bytes": self.bytes_held.get(way) if operation == "update" else None,
                }
                for operation, algorithm, values in operations
            ]  # fmt: skip
        return rows


class _StoryStream:
    """The events under the users' names, and under numbers in the order in which users first occur."""

    def __init__(self, events: EventTable) -> None:
        import pandas

        ends = np.stack((np.asarray(events.src), np.asarray(events.dst)), axis=1)
        codes, ids = pandas.factorize(ends.ravel())
        self.src, self.dst = (np.ascontiguousarray(column, np.int32) for column in codes.reshape(-1, 2).T)
        names = [f"user{number}" for number in ids.tolist()] if events.ids is None else events.ids[ids]
        self.names = np.array(names, dtype=object)
        self.seen = np.maximum.accumulate(np.maximum(self.src, self.dst)) + 1
        self.frame = pandas.DataFrame({"source": self.names[self.src], "destination": self.names[self.dst]})


class _Dynstore:
    """One graph, a window over the stream, and answers that follow it."""

    def __init__(self, stream: _StoryStream, window: int, backend: Backend) -> None:
        device: Any = backend.name
        self.stream = stream
        self.graph = DynamicGraph(directed=False, renumber=True, device=device)
        self.window = Window(self.graph, window)
        self.window.slide(stream.frame[:window])
        self.monitors = {name: self.graph.track(name, **_arguments(name)) for name in ANSWERS}
        self.watch = LapTimer(backend)

    def step(self, low: int, high: int) -> tuple[dict[str, float], dict[str, Any]]:
        """Take a batch in; return the ms of the graph and of each answer, and the answers."""
        self.watch.start()
        self.window.slide(self.stream.frame[low:high])
        times, answers = {"graph": self.watch.lap()}, {}
        for name, monitor in self.monitors.items():
            answers[name] = monitor.result()
            times[name] = self.watch.lap()
        return times, answers

    def numbered(self, frame: Any) -> Any:
        """Return an answer on the host under the users' numbers, in their order."""
        import pandas

        frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
        numbers = pandas.Index(self.stream.names).get_indexer(frame["vertex"].to_numpy())
        return frame.assign(vertex=numbers).sort_values("vertex", ignore_index=True)


class _Today:
    """A new graph of the window's events for each batch, made in several ways; answers are computed anew on one."""

    def __init__(self, stream: _StoryStream, window: int, backend: Backend) -> None:
        self.stream, self.length, self.backend = stream, window, backend
        self.conversions: list[Conversion] = conversions(backend)[0]
        self.graph: DynamicGraph | None = None
        self.watch = LapTimer(backend)

    def rows(self, high: int) -> tuple[Any, Any]:
        low = high - self.length
        return self.backend.asarray(self.stream.src[low:high]), self.backend.asarray(self.stream.dst[low:high])

    def step(self, high: int) -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
        """Make the graph of the window that ends at an event; return the ms by way, and the answers."""
        src, dst = self.rows(high)
        num_users = int(self.stream.seen[high - 1])
        times = {}
        for conversion in self.conversions:
            times[conversion.name] = {"graph": conversion.run(src, dst, num_users, False)}
        device: Any = self.backend.name
        self.watch.start()
        self.graph = DynamicGraph(directed=False, store="rebuild", device=device)
        self.graph.insert_edges((src, dst))
        self.graph.insert_vertices([num_users - 1])
        self.graph.snapshot()
        times["rebuild"] = {"graph": self.watch.lap()}
        answers = {}
        for name in ANSWERS:
            answers[name] = getattr(dynstore, name)(self.graph, **_arguments(name))
            times["rebuild"][name] = self.watch.lap()
        return times, answers


def _arguments(name: str) -> dict[str, Any]:
    return {"tol": PAGERANK_TOL} if name == "pagerank" else {}


def run_story(
    events: EventTable,
    backend: Backend,
    window: float = 0.5,
    batch: int = 100,
    steps: int = 20,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Story:
    """Slide a window over a stream in both ways, and compare all answers after each batch.

    Parameters
    ----------
    events : EventTable
    backend : Backend
    window : float
        Share of the events in the window.
    batch : int
        Events of a batch.
    steps : int
        Timed steps; a few more warm up.
    progress : callable, optional
        Called with the finished steps and all steps.

    Raises
    ------
    InputError
        For too few events.
    """
    length = int(window * len(events))
    if len(events) < length + (WARM_UP + steps) * batch or length < 1:
        raise InputError(f"{events.name}: {len(events)} events; wanted more for {steps} batches of {batch}")
    stream = _StoryStream(events)
    story = Story(events.name, len(events), int(stream.names.shape[0]), length, batch, backend.name)
    ours, today = _Dynstore(stream, length, backend), _Today(stream, length, backend)
    for step in range(WARM_UP + steps):
        low = length + step * batch
        with quiet():
            if step % 2:
                their_times, their_answers = today.step(low + batch)
            our_times, our_answers = ours.step(low, low + batch)
            if not step % 2:
                their_times, their_answers = today.step(low + batch)
        story.disagreement = _compare(ours, today, our_answers, their_answers)
        if story.disagreement is not None:
            story.disagreement = f"step {step}: {story.disagreement}"
            break
        if step >= WARM_UP:
            for way, times in {"dynstore": our_times, **their_times}.items():
                for name, passed in times.items():
                    story.times.setdefault(way, {}).setdefault(name, []).append(passed)
        progress(step + 1, WARM_UP + steps)
    assert today.graph is not None
    story.num_edges = today.graph.number_of_edges()
    story.bytes_held = {
        "dynstore": ours.graph.memory_usage()["total"] + ours.window.memory_usage()["total"],
        "rebuild": today.graph.memory_usage()["total"],
    }
    if story.disagreement is None:
        ways = [way for way in story.times if way != "dynstore"]
        story.today = min(ways, key=lambda way: float(np.median(story.times[way]["graph"])))
        story.findings = _find(ours, our_answers)
    return story


def _compare(ours: _Dynstore, today: _Today, mine: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """Return how the two ways differ after a batch, or None."""
    assert today.graph is not None
    if ours.graph.number_of_edges() != today.graph.number_of_edges():
        return f"{ours.graph.number_of_edges()} edges; a new graph has {today.graph.number_of_edges()}"
    if not ours.graph.has_edges(tuple(ours.stream.names[today.backend.to_host(end)] for end in _edges(today))).all():
        return "an edge of the window is missing"
    for name in ANSWERS:
        query = make_query(name, 0, 0)
        problem = query.difference(query.values(ours.numbered(mine[name])), query.values(theirs[name]))
        if problem is not None:
            return f"{name}: {problem}"
    return None


def _edges(today: _Today) -> tuple[Any, Any]:
    assert today.graph is not None
    columns = today.graph.edge_columns()
    return columns["source"], columns["destination"]


def _find(ours: _Dynstore, answers: dict[str, Any]) -> Findings:
    """Return what the answers say."""
    ranks, triangles, components = (
        answers[name].to_pandas() if hasattr(answers[name], "to_pandas") else answers[name]
        for name in ("pagerank", "triangle_count", "weakly_connected_components")
    )
    labels = components["labels"]
    most = triangles.loc[triangles["counts"].idxmax()]
    return Findings(
        busiest=str(ranks.loc[ranks["pagerank"].idxmax(), "vertex"]),
        most_triangles=str(most["vertex"]),
        triangles=int(most["counts"]),
        largest_share=float(labels.value_counts(normalize=True).iloc[0]),
        num_users=len(labels),
    )
