"""How the papers' experiments are run: contestants, one after the other, on one data set; all must agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.backend import get_backend
from dynstore.benchmarks.answers import make_query
from dynstore.benchmarks.papers_contest import (
    CONTESTANTS,
    Contestant,
    Experiment,
    Figure,
    PapersJob,
    PapersResult,
    make_graph,
)
from dynstore.benchmarks.papers_data import DATA_SETS, Ring, check_data_dir, find_file, fingerprint, load_ring
from dynstore.benchmarks.timing import Stopwatch, quiet
from dynstore.errors import DynstoreError, InputError, LimitError, OutOfMemoryError, unknown_name
from dynstore.stores import STORES

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.benchmarks.answers import Query
    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = ["Bench", "check_papers", "run_experiments"]

Progress = Callable[[str, int, int], None]
WARM_UP_ROWS, WARM_UP_VERTICES = 32768, 4096
PATIENCE_S = 5.0  # a contestant that has used so much for one row of a table gets no further step there


class Bench:
    """One experiment, one data set, one contestant: what ``measure`` works with."""

    def __init__(self, lab: _Lab, experiment: Experiment, ring: Ring, contestant: Contestant) -> None:
        self.experiment, self.contestant, self.job = experiment, contestant, lab.job
        self.backend = lab.backend_of(contestant)
        self.xp = self.backend.xp
        self.ring = ring.on(self.backend, lab.backend)
        self.watch = Stopwatch(self.backend)
        self._lab = lab
        self._figures: dict[tuple[str, str, str | None, int], Figure] = {}
        self._spent_ms: dict[tuple[str, int], float] = {}

    def scaled(self, size: int) -> int:
        """Return a paper's size as this run has it."""
        return max(1, size // self.job.shrink)

    def graph(self, directed: bool | None = None, **options: Any) -> DynamicGraph:
        """Return a graph without edges."""
        return make_graph(
            self.contestant,
            self.backend,
            self.experiment.directed if directed is None else directed,
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
        """Yield -1 to warm up, then 0, 1, ... ``total - 1`` while the row has not used up its time."""
        if warm_up:
            yield -1
        for step in range(total):
            if self.was_slow(paper_batch, row):
                batch = f", batch {self.scaled(paper_batch):,}" if paper_batch else ""
                self.remark(f"{self.contestant.label} had time for {step} of {total} steps{batch}")
                return
            yield step

    def was_slow(self, paper_batch: int = 0, row: str = "") -> bool:
        """Whether a row has used up its time, so that a larger one need not begin."""
        return self._spent_ms.get((row, paper_batch), 0.0) > PATIENCE_S * 1e3

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
        """Add one time to a row."""
        key = (row, operation, algorithm, paper_batch)
        found = self._figures.get(key)
        if found is None:
            found = self._figures[key] = Figure(
                self.experiment.name, self.ring.name, self.ring.label, self.contestant.label, self.backend.name,
                row, operation, algorithm, batch, paper_batch, edges,
            )  # fmt: skip
            self._lab.result.figures.append(found)
        found.times.append(passed_ms)
        found.edges = edges
        self._spent_ms[row, paper_batch] = self._spent_ms.get((row, paper_batch), 0.0) + passed_ms
        if num_bytes is not None:
            found.num_bytes = max(num_bytes, found.num_bytes or 0)
        for name, count in (counts or {}).items():
            found.counts[name] = found.counts.get(name, 0) + count

    def remark(self, line: str) -> None:
        """Tell the reader something about this data set, once for all contestants that say the same."""
        self._lab.result.note(f"{self.experiment.name}: {line}", self.ring.name)

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
        key = (self.experiment.name, self.ring.name, what)
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
        self._lab.result.disagree(f"{self.experiment.name}, {self.ring.name}, {self.contestant.label}: {line}")


class _Lab:
    """One run of experiments."""

    def __init__(self, experiments: Sequence[Experiment], job: PapersJob, progress: Progress) -> None:
        self.job, self.progress = job, progress
        self.backend = get_backend(job.device)
        self.result = PapersResult(self.backend.name, list(experiments), job.seed, job.shrink)
        self.answers: dict[tuple[str, str, str], tuple[str, Any]] = {}
        self._warm: set[tuple[str, bool]] = set()
        self._check_options(experiments)
        self.plan = [(found, self.contestants_of(found)) for found in experiments]
        self.names = self._chosen_names(experiments)

    def _check_options(self, experiments: Sequence[Experiment]) -> None:
        offered = [found for experiment in experiments for found in experiment.contestants]
        stores = {CONTESTANTS[found].store if isinstance(found, str) else found.store for found in offered}
        stores |= set(self.job.stores or ())
        for name in self.job.store_options:
            if name not in stores:
                listed = ", ".join(sorted(stores))
                raise InputError(f"an option for store {name!r}, which is not among the stores: {listed}")

    def backend_of(self, contestant: Contestant) -> Backend:
        return get_backend("cpu") if contestant.on_host else self.backend

    def contestants_of(self, experiment: Experiment) -> list[Contestant]:
        """Return those of an experiment that this run wants and this build has."""
        offered = [CONTESTANTS[found] if isinstance(found, str) else found for found in experiment.contestants]
        wanted = self.job.stores
        if wanted is not None:
            here = [found.store for found in offered]
            offered = [found for found in offered if found.store in wanted]
            if all(isinstance(found, str) for found in experiment.contestants):
                for name in wanted:
                    offered += [] if name in here else self._all_of(name)
        chosen: dict[str, Contestant] = {}
        for found in offered:
            options = self.job.store_options.get(found.store)
            made = found if options is None else Contestant(found.store, found.store, options, found.on_host)
            if made.label not in chosen and self._is_there(made, options is None):
                chosen[made.label] = made
        return list(chosen.values())

    @staticmethod
    def _all_of(store: str) -> list[Contestant]:
        return [found for found in CONTESTANTS.values() if found.store == store] or [Contestant(store, store)]

    def _is_there(self, contestant: Contestant, of_the_suite: bool) -> bool:
        """Whether this build has it; what the user asked for by name must be there."""
        may_lack = self.job.skip_missing and self.job.stores is None
        try:
            make_graph(contestant, self.backend_of(contestant), True)
        except InputError as error:
            if not of_the_suite or not (may_lack or contestant.store in STORES):
                raise
            reason = str(error).partition(";")[0]
            self.result.note("left out, because this build does not have it", f"{contestant.label} ({reason})")
            return False
        return True

    def _chosen_names(self, experiments: Sequence[Experiment]) -> list[str]:
        used = list(dict.fromkeys(name for found in experiments for name in found.data))
        if self.job.data is None:
            return used
        names = [name.strip() for name in self.job.data.split(",")]
        for name in names:
            if name not in used:
                raise unknown_name("bench", "data set", name, used)
        return [name for name in used if name in names]

    def run(self) -> PapersResult:
        cells = [
            (name, experiment, contestant)
            for name in self.names
            for directed in (True, False)
            for experiment, contestants in self.plan
            if name in experiment.data and experiment.directed == directed
            for contestant in contestants
        ]
        if not cells:
            raise InputError("bench: nothing to run; no store of these experiments is in this build")
        ring: Ring | None = None
        made: tuple[str, bool] | None = None
        for number, (name, experiment, contestant) in enumerate(cells):
            self.progress(f"{experiment.name} {name}", number, len(cells))
            if number and cells[number - 1][:2] != (name, experiment):
                self.answers.clear()
            if made != (name, experiment.directed):
                ring = None  # its memory goes before the next one's comes
                ring = self._ring(name, experiment.directed)
                made = name, experiment.directed
            assert ring is not None
            self._measure(experiment, ring, contestant)
        return self.result

    def _ring(self, name: str, directed: bool) -> Ring:
        job = self.job
        ring = load_ring(self.backend, name, directed, job.data_dir, job.shrink, job.seed)
        if not len(ring):
            raise InputError(f"{ring.label}: no edges")
        if job.shrink > 1 and find_file(DATA_SETS[name], job.data_dir) is not None:
            self.result.note(f"read whole, though batches are {job.shrink} times smaller; see --shrink", name)
        if directed or name not in self.result.sets:
            self.result.sets[name] = ring.label, ring.num_vertices, len(ring)
        return ring

    def _measure(self, experiment: Experiment, ring: Ring, contestant: Contestant) -> None:
        before = len(self.result.figures)
        try:
            self._warm_up(contestant, experiment.directed)
            with quiet():
                experiment.measure(Bench(self, experiment, ring, contestant))
        except (OutOfMemoryError, LimitError) as error:
            self.result.note(f"{experiment.name}: {contestant.label} does not fit", f"{ring.name} ({error})")
        except DynstoreError as error:
            del self.result.figures[before:]
            self.result.disagree(f"{experiment.name}, {ring.name}, {contestant.label}: {error}")

    def _warm_up(self, contestant: Contestant, directed: bool) -> None:
        """Compile on a throw-away graph what updates and algorithms need."""
        key = (f"{contestant.label} {contestant.options}", directed)
        if key in self._warm:
            return
        self._warm.add(key)
        rng, backend = np.random.default_rng(0), self.backend_of(contestant)
        graph = make_graph(contestant, backend, directed)
        ids = rng.integers(0, WARM_UP_VERTICES, (2, WARM_UP_ROWS), dtype=np.int32)
        src, dst = backend.asarray(ids[0]), backend.asarray(ids[1])
        for low, high in ((0, WARM_UP_ROWS // 2), (WARM_UP_ROWS // 2, WARM_UP_ROWS), (0, 4)):
            graph.insert_edges((src[low:high], dst[low:high]))
            graph.snapshot().compact()
        for size in (4, WARM_UP_ROWS // 4):
            graph.delete_edges((src[:size], dst[:size]))
            graph.snapshot()
        graph.has_edges((src, dst))
        graph.delete_vertices(src[:4])
        names = ("bfs", "pagerank") if directed else ("weakly_connected_components", "triangle_count")
        for name in names:
            query = make_query(name, 0, WARM_UP_VERTICES)
            query.values(query.call(graph))


def check_papers(experiments: Sequence[Experiment], job: PapersJob) -> None:
    """Check what can be checked without data.

    Raises
    ------
    InputError
        For a device, store, option, data set, folder, number of steps or shrink factor that cannot be used.
    """
    if job.steps < 1:
        raise InputError(f"steps: got {job.steps}; wanted at least 1")
    if job.shrink < 1:
        raise InputError(f"shrink: got {job.shrink}; wanted at least 1")
    if job.seed < 0:
        raise InputError(f"seed: got {job.seed}; wanted at least 0")
    check_data_dir(job.data_dir)
    _Lab(experiments, job, lambda what, done, total: None)


def run_experiments(experiments: Sequence[Experiment], job: PapersJob, progress: Progress) -> PapersResult:
    """Run experiments, data set by data set.

    Raises
    ------
    InputError
    """
    return _Lab(experiments, job, progress).run()
