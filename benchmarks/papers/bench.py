"""What the papers' measurements work with: graphs, batches, a stopwatch, and a memory of what others answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic as read_clock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from benchmarks.papers.contest import Contestant, Experiment, Figure, make_graph, name_together
from benchmarks.papers.data import Ring, fingerprint
from dynstore.bench.timing import LapTimer

if TYPE_CHECKING:
    from benchmarks.papers.contest import PapersJob, PapersResult
    from dynstore.backend import Backend
    from dynstore.bench.answers import Query
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["Bench", "Lab"]

PATIENCE_S = 5.0  # a contestant that has used so much for one row of a table gets no further step there


class Lab(Protocol):
    """What a run of experiments has for each of them."""

    job: PapersJob
    backend: Backend
    result: PapersResult
    answers: dict[tuple[str, str, str], tuple[str, Any]]

    def backend_of(self, contestant: Contestant) -> Backend: ...


class Bench:
    """Experiments with one way to measure, one data set, one contestant: what ``measure`` works with."""

    def __init__(self, lab: Lab, experiments: Sequence[Experiment], ring: Ring, contestant: Contestant) -> None:
        self.experiments, self.contestant, self.job = experiments, contestant, lab.job
        self.name = name_together(experiments)
        self.backend = lab.backend_of(contestant)
        self.xp = self.backend.xp
        self.ring = ring.on(self.backend, lab.backend)
        self.watch = LapTimer(self.backend)
        self._lab = lab
        self._figures: dict[tuple[str, str, str, str | None, int], Figure] = {}
        self._spent_s: dict[tuple[str, int], float] = {}

    def scaled(self, size: int) -> int:
        """Return a paper's size as this run has it."""
        return max(1, size // self.job.shrink)

    def graph(self, directed: bool | None = None, **options: Any) -> DynamicGraph:
        """Return a graph without edges."""
        return make_graph(
            self.contestant,
            self.backend,
            self.experiments[0].directed if directed is None else directed,
            max_vertices=2 * self.ring.num_vertices + (1 << 24),
            **options,
        )

    def built(self, low: int = 0, high: int | None = None) -> DynamicGraph:
        """Return a graph of the ring's rows ``low`` to ``high`` (default: all)."""
        graph = self.graph()
        graph.insert_edges(self.rows(low, len(self.ring) if high is None else high))
        return graph

    def rows(self, low: int, high: int) -> tuple[Array, Array]:
        return self.ring.rows(self.xp, low, high)

    def random_ids(self, size: int, number: int) -> Array:
        """Return vertices drawn uniformly, int32; the same ones for the same number."""
        rng = np.random.default_rng([self.job.seed, size, number])
        return self.backend.asarray(rng.integers(0, self.ring.num_vertices, size, dtype=np.int32))

    def random_rows(self, size: int, number: int) -> tuple[Array, Array]:
        """Return edges between vertices that exist, drawn uniformly; some may be there twice."""
        ids = self.random_ids(2 * size, number)
        return ids[:size], ids[size:]

    def timed(self, call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
        """Return what a call returns and its ms."""
        self.watch.start()
        result = call(*arguments)
        return result, self.watch.lap()

    def steps(self, total: int, paper_batch: int = 0, row: str = "", warm_up: bool = True) -> Iterator[int]:
        """Yield -1 to warm up, then 0, 1, ... ``total - 1`` while the row has not used up its time.

        All that is done in timed steps counts, also what is not timed, such as a graph that is built for each.
        """
        if warm_up:
            yield -1
        key = row, paper_batch
        for step in range(total):
            if self.was_slow(paper_batch, row):
                batch = f", batch {self.scaled(paper_batch):,}" if paper_batch else ""
                self.remark(f"{self.contestant.label} had time for {step} of {total} steps{batch}")
                return
            began = read_clock()
            yield step
            self._spent_s[key] = self._spent_s.get(key, 0.0) + read_clock() - began

    def was_slow(self, paper_batch: int = 0, row: str = "") -> bool:
        """Whether a row has used up its time, so that a larger one need not begin."""
        return self._spent_s.get((row, paper_batch), 0.0) > PATIENCE_S

    def note(
        self,
        operation: str,
        passed_ms: float,
        batch: int,
        paper_batch: int,
        edges: int,
        row: str = "",
        algorithm: str | None = None,
        num_bytes: int | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Add one time to a row of each experiment that shows this operation."""
        for experiment in self.experiments:
            if experiment.operations and operation not in experiment.operations:
                continue
            key = (experiment.name, row, operation, algorithm, paper_batch)
            found = self._figures.get(key)
            if found is None:
                found = self._figures[key] = Figure(
                    experiment.name, self.ring.name, self.ring.label, self.contestant.label, self.backend.name,
                    row, operation, algorithm, batch, paper_batch, edges,
                )  # fmt: skip
                self._lab.result.figures.append(found)
            found.times.append(passed_ms)
            found.edges = edges
            if num_bytes is not None:
                found.num_bytes = max(num_bytes, found.num_bytes or 0)
            for name, count in (counts or {}).items():
                found.counts[name] = found.counts.get(name, 0) + count

    def remark(self, line: str) -> None:
        """Tell the reader something about this data set, once for all contestants that say the same."""
        self._lab.result.note(f"{self.name}: {line}", self.ring.name)

    def check_edges(self, graph: DynamicGraph, low: int, high: int) -> None:
        """Compare what a graph holds with the ring's rows."""
        wanted = fingerprint(self.xp, *self.rows(low, high))
        self._compare("holds", self.held(graph), wanted)

    def held(self, graph: DynamicGraph) -> tuple[int, int]:
        """Return the fingerprint of a graph's edges."""
        columns = graph.edge_columns()
        found = fingerprint(self.xp, columns["source"], columns["destination"])
        self._compare("counts", graph.number_of_edges(), found[0])
        return found

    def agree(self, what: str, value: Any, difference: Callable[[Any, Any], str | None] | None = None) -> None:
        """Compare a value with that of the contestants before, under a name that says of what it is."""
        key = (self.name, self.ring.name, what)
        if key not in self._lab.answers:
            self._lab.answers[key] = self.contestant.label, value
            return
        other, wanted = self._lab.answers[key]
        problem = difference(wanted, value) if difference else None if wanted == value else f"{wanted} against {value}"
        if problem is not None:
            self._disagree(f"{what} of {other} and of it: {problem}")

    def ask(self, graph: DynamicGraph, query: Query, what: str) -> float:
        """Run an algorithm, compare its answer, return its ms."""
        frame, passed_ms = self.timed(query.call, graph)
        self.agree(what, query.values(frame), query.difference)
        return passed_ms

    def _compare(self, what: str, got: Any, wanted: Any) -> None:
        if got != wanted:
            self._disagree(f"{what} {got}; wanted {wanted}")

    def _disagree(self, line: str) -> None:
        self._lab.result.disagree(f"{self.name}, {self.ring.name}, {self.contestant.label}: {line}")
