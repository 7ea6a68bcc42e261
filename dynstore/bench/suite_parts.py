"""What suites are made of: a job, what is done with it, and the result of the main one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["StreamJob", "Suite", "Times", "WindowJob", "WindowResult"]

Times = dict[tuple[str, str, str | None], list[float]]  # (contestant, operation, algorithm) -> ms of each step


@dataclass(frozen=True)
class StreamJob:
    """What a suite is to do with a stream of edges.

    Attributes
    ----------
    stores, algorithms : sequence of str
    window : float
        Share of the stream that the graphs hold.
    batch : str or int
        Edges a step, or a share of the stream such as "1%".
    steps : int
        Timed steps.
    device : {"auto", "cpu", "cuda"}
    directed : bool or None
        None: the suite decides.
    weighted : bool
    warm_start : bool
        Whether ``pagerank`` starts from the ranks of the step before.
    store_options : mapping
        Store name -> its options.
    """

    stores: Sequence[str] = ("gpma+", "merge")
    algorithms: Sequence[str] = ()
    window: float = 0.5
    batch: str | int = "1%"
    steps: int = 20
    device: str = "auto"
    directed: bool | None = None
    weighted: bool = False
    warm_start: bool = False
    store_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """How one suite is run.

    Attributes
    ----------
    name : str
    make_job : callable
        From the command line's options (keyword arguments) to a job.
    check : callable
        ``check(job)``: raises InputError for a faulty job before any data is read.
    run : callable
        ``run(events, job, progress)``: the result; it has ``rows``, ``disagreement`` (a line or None) and ``notes``.
    show : callable
        ``show(console, job, result)``: prints the result.
    render : callable
        ``render(document, job, result)``: the page.
    defaults : mapping
        The command line's options that have another default for this suite.
    """

    name: str
    make_job: Callable[..., Any]
    check: Callable[[Any], Any]
    run: Callable[..., Any]
    show: Callable[..., None]
    render: Callable[..., str]
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WindowJob(StreamJob):
    """The job; an undirected graph is made if an algorithm needs it and ``directed`` is None."""

    stores: Sequence[str] = ("gpma+", "rebuild", "merge")
    algorithms: Sequence[str] = ("bfs", "pagerank", "triangle_count")


@dataclass
class WindowResult:
    """The result.

    Attributes
    ----------
    rows : list of dict
        As the JSON's ``rows``.
    times : dict
        (contestant, operation, algorithm) -> ms of each step.
    disagreement : str or None
        The first error; the run stops there.
    notes : list of str
        Remarks that the reader must know.
    device : str
    directed : bool
    batch, window_events : int
    replayed : bool
        Whether explicit changes were replayed; if so, ``window_events`` of them built the graph.
    """

    device: str
    directed: bool
    batch: int
    window_events: int
    replayed: bool
    rows: list[dict[str, Any]] = field(default_factory=list)
    times: Times = field(default_factory=dict)
    disagreement: str | None = None
    notes: list[str] = field(default_factory=list)
