"""How the papers' experiments are run: contestants, one after the other, on one data set; all must agree."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from time import monotonic as read_clock
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.papers.bench import Bench
from benchmarks.papers.contest import (
    CONTESTANTS,
    Contestant,
    Experiment,
    Figure,
    PapersJob,
    PapersResult,
    make_graph,
    name_together,
)
from benchmarks.papers.data import DATA_SETS, Ring, check_data_dir, find_file, load_ring
from dynstore.backend import get_backend
from dynstore.bench.answers import make_query
from dynstore.bench.timing import quiet
from dynstore.errors import DynstoreError, InputError, LimitError, OutOfMemoryError, unknown_name
from dynstore.stores import STORES

if TYPE_CHECKING:
    from dynstore.backend import Backend

__all__ = ["check_papers", "run_experiments"]

Progress = Callable[[str, int, int], None]
Finished = Callable[[PapersResult, list[Figure]], None]
WARM_UP_ROWS, WARM_UP_VERTICES = 32768, 4096
NOT_RUN = "not run, because the time was up"


class _Lab:
    """One run of experiments."""

    def __init__(self, experiments: Sequence[Experiment], job: PapersJob) -> None:
        self.job = job
        self.backend = get_backend(job.device)
        experiments = _chosen_tables(experiments, job.tables)
        self.result = PapersResult(self.backend.name, list(experiments), job.seed, job.shrink)
        self.answers: dict[tuple[str, str, str], tuple[str, Any]] = {}
        self._warm: set[tuple[str, bool]] = set()
        self._deadline_s = np.inf if job.limit_s is None else read_clock() + job.limit_s
        self._check_options(experiments)
        self.plan = [(found, self.contestants_of(found[0])) for found in _measured_together(experiments)]
        self.names = self._chosen_names(experiments)

    def _check_options(self, experiments: Sequence[Experiment]) -> None:
        offered = [found for experiment in experiments for found in experiment.contestants]
        stores = {CONTESTANTS[found].store if isinstance(found, str) else found.store for found in offered}
        stores |= set(self.job.stores or ())
        for name in self.job.store_options:
            if name not in stores:
                listed = ", ".join(sorted(stores))
                raise InputError(f"papers: --store-option names the store {name!r}; wanted one of {listed}")

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
                raise unknown_name("papers", "data set", name, used)
        return [name for name in used if name in names]

    def run(self, progress: Progress, finished: Finished) -> PapersResult:
        parts = [
            (name, together, contestants)
            for name in self.names
            for directed in (True, False)
            for together, contestants in self.plan
            if name in together[0].data and together[0].directed == directed and contestants
        ]
        if not parts:
            raise InputError("papers: nothing to run; no store of these experiments is in this build")
        ring: Ring | None = None
        made: tuple[str, bool] | None = None
        done, total = 0, sum(len(contestants) for _, _, contestants in parts)
        try:
            for name, together, contestants in parts:
                what, directed = f"{name_together(together)} {name}", together[0].directed
                if self._is_over():
                    self.result.note(NOT_RUN, what)
                    continue
                if made != (name, directed):
                    ring = None  # its memory goes before the next one's comes
                    ring = self._ring(name, directed)
                    made = name, directed
                assert ring is not None
                before = len(self.result.figures)
                self.answers.clear()
                for contestant in contestants:
                    progress(what, done, total)
                    done += 1
                    if self._is_over():
                        self.result.note(NOT_RUN, f"{what} ({contestant.label})")
                    else:
                        self._measure(together, ring, contestant)
                figures = self.result.figures[before:]
                self.result.finish(figures)
                finished(self.result, figures)
        finally:
            gc.unfreeze()
        return self.result

    def _is_over(self) -> bool:
        return read_clock() > self._deadline_s

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

    def _measure(self, together: Sequence[Experiment], ring: Ring, contestant: Contestant) -> None:
        before, name = len(self.result.figures), name_together(together)
        try:
            self._warm_up(contestant, together[0].directed)
            with quiet():
                together[0].measure(Bench(self, together, ring, contestant))
        except (OutOfMemoryError, LimitError) as error:
            self.result.note(f"{name}: {contestant.label} does not fit", f"{ring.name} ({error})")
        except DynstoreError as error:
            del self.result.figures[before:]
            self.result.disagree(f"{name}, {ring.name}, {contestant.label}: {error}")

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
        # What was imported and compiled stays: each contestant's collection need not look at all of it again.
        gc.collect()
        gc.freeze()


def _measured_together(experiments: Sequence[Experiment]) -> list[list[Experiment]]:
    """Return experiments in groups that show different figures of one measurement."""
    groups: dict[tuple[Any, ...], list[Experiment]] = {}
    for found in experiments:
        key = (found.measure, found.data, tuple(map(str, found.contestants)), found.directed)
        groups.setdefault(key, []).append(found)
    return list(groups.values())


def _chosen_tables(experiments: Sequence[Experiment], wanted: Sequence[str] | None) -> Sequence[Experiment]:
    """Return the experiments of some names, or of what stands behind the slash of their names."""
    if wanted is None:
        return experiments
    short = {found.name: found.name.partition("/")[2] for found in experiments}
    for name in wanted:
        if name not in short and name not in short.values():
            raise unknown_name("papers", "table", name, list(short))
    return [found for found in experiments if found.name in wanted or short[found.name] in wanted]


def check_papers(experiments: Sequence[Experiment], job: PapersJob) -> None:
    """Check what can be checked without data.

    Raises
    ------
    InputError
        For a device, store, option, data set, table, folder, number of steps, shrink factor or limit that cannot be
        used.
    """
    if job.steps < 1:
        raise InputError(f"papers: --steps is {job.steps}; wanted at least 1")
    if job.shrink < 1:
        raise InputError(f"papers: --shrink is {job.shrink}; wanted at least 1")
    if job.seed < 0:
        raise InputError(f"papers: --seed is {job.seed}; wanted at least 0")
    if job.limit_s is not None and not job.limit_s > 0:
        raise InputError(f"papers: --limit-seconds is {job.limit_s:g}; wanted more than 0")
    check_data_dir(job.data_dir)
    _Lab(experiments, job)


def run_experiments(
    experiments: Sequence[Experiment], job: PapersJob, progress: Progress, finished: Finished = lambda *part: None
) -> PapersResult:
    """Run experiments, data set by data set.

    Parameters
    ----------
    experiments : sequence of Experiment
    job : PapersJob
    progress : callable
        ``progress(what, done, total)`` before each contestant.
    finished : callable
        ``finished(result, figures)`` after the last contestant of each data set in each experiment: what there is so
        far, and what has just come.

    Raises
    ------
    InputError
    """
    return _Lab(experiments, job).run(progress, finished)
