"""Who takes part in the papers' experiments, what an experiment is, and what comes out of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.bench.timing import percentiles
from dynstore.graph import DynamicGraph

if TYPE_CHECKING:
    from dynstore.backend import Backend

__all__ = [
    "CONTESTANTS",
    "Contestant",
    "Experiment",
    "Figure",
    "PapersJob",
    "PapersResult",
    "make_graph",
    "name_together",
]


@dataclass(frozen=True)
class Contestant:
    """A store and its options, under the name that the tables and the papers' ratios use.

    Attributes
    ----------
    label, store : str
    options : mapping
    on_host : bool
        A baseline that exists on the host only, and runs there beside the others on CUDA.
    """

    label: str
    store: str
    options: Mapping[str, Any] = field(default_factory=dict)
    on_host: bool = False


CONTESTANTS = {
    found.label: found
    for found in (
        Contestant("gpma+", "gpma+"),
        Contestant("gpma+ level", "gpma_level"),
        Contestant("gpma", "gpma"),
        Contestant("lpma-b", "lpma", {"strategy": "bottom-up"}),
        Contestant("lpma-t", "lpma", {"strategy": "top-down"}),
        Contestant("lpma-h", "lpma", {"strategy": "hybrid"}),
        Contestant("slab-hash", "slab_hash", {"load_factor": 0.7}),
        Contestant("graphvine", "graphvine"),
        Contestant("merge", "merge"),
        Contestant("rebuild", "rebuild"),
        Contestant("adjlists", "adjlists", on_host=True),
        Contestant("pma", "pma", on_host=True),
    )
}


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper.

    Attributes
    ----------
    name : str
        PAPER/WHAT, as in ``printed``.
    title : str
    data : tuple of str
        Names of data sets.
    contestants : tuple of str or Contestant
        Labels, or contestants that exist only here.
    measure : callable
        ``measure(bench)`` does it once, for one data set and one contestant; a
        :class:`~benchmarks.papers.bench.Bench`. Experiments on the same data and contestants that name the
        same one are measured together.
    unit : {"ms", "MEdge/s", "MVertex/s", "MB", "pages"}
        In which its table is shown.
    directed : bool
        Of the graphs.
    curves : bool
        Spikes are its subject: the table has p99 and maximum too, the page a curve of all times.
    operations : tuple of str
        Those of the measurement that it shows; empty for all.
    """

    name: str
    title: str
    data: tuple[str, ...]
    contestants: tuple[str | Contestant, ...]
    measure: Callable[[Any], None]
    unit: str = "ms"
    directed: bool = True
    curves: bool = False
    operations: tuple[str, ...] = ()


@dataclass(frozen=True)
class PapersJob:
    """What to run.

    Attributes
    ----------
    stores : sequence of str or None
        Only these; None: those of each experiment.
    store_options : mapping
        Store name -> options; they replace the contestants of that store by one.
    data : str or None
        Names of data sets by comma; None: all of each experiment.
    data_dir : Path or None
        Where files of data sets are.
    tables : sequence of str or None
        Only these experiments, by name or by what stands behind its slash; None: all.
    limit_s : float or None
        After so many seconds nothing more is begun; None: no limit.
    shrink : int
        Stand-ins and all batches are a ``shrink``-th of the papers'.
    steps : int
        Timed batches a row of a table.
    device : str
    seed : int
        Of stand-ins and of random batches.
    skip_missing : bool
        Whether a contestant that this build does not have is left out and named; else it is an error.
    """

    stores: Sequence[str] | None = None
    store_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    data: str | None = None
    data_dir: Path | None = None
    tables: Sequence[str] | None = None
    limit_s: float | None = None
    shrink: int = 64
    steps: int = 20
    device: str = "auto"
    seed: int = 0
    skip_missing: bool = False


@dataclass
class Figure:
    """One measured cell: all times of one contestant in one row of one table."""

    experiment: str
    data: str
    label: str
    contestant: str
    device: str
    row: str
    operation: str
    algorithm: str | None
    batch: int
    paper_batch: int
    edges: int
    times: list[float] = field(default_factory=list)
    num_bytes: int | None = None
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def mean_ms(self) -> float:
        return float(np.mean(self.times))

    def row_of_json(self) -> dict[str, Any]:
        """Return its row; ``store`` is contestant, data set, experiment and row of its table."""
        return {
            "store": ", ".join(filter(None, (self.contestant, self.label, self.experiment, self.row))),
            "device": self.device,
            "operation": self.operation,
            "algorithm": self.algorithm,
            "batch": self.batch,
            "edges": self.edges,
            "steps": len(self.times),
            **percentiles(self.times),
            "bytes": self.num_bytes,
        }


@dataclass
class PapersResult:
    """What came out; ``figures`` in the order measured, and ``rows``, those of the JSON, of what is finished."""

    device: str
    experiments: list[Experiment]
    seed: int
    shrink: int
    figures: list[Figure] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    sets: dict[str, tuple[str, int, int]] = field(default_factory=dict)  # name -> label, vertices, edges
    disagreement: str | None = None
    remarks: dict[str, list[str]] = field(default_factory=dict)  # what -> of which data sets or contestants

    @property
    def dataset(self) -> dict[str, Any]:
        """Return what the JSON says of all data sets together; the rows' names say which is which."""
        vertices = sum(vertices for _, vertices, _ in self.sets.values())
        edges = sum(edges for _, _, edges in self.sets.values())
        return {"name": ", ".join(self.sets), "vertices": vertices, "edges": edges, "seed": self.seed}

    def finish(self, figures: Sequence[Figure]) -> None:
        """Make rows of figures that get no further time."""
        self.rows += [found.row_of_json() for found in figures]

    @property
    def notes(self) -> list[str]:
        """Return what the reader must know, a line each."""
        return [f"{line}: {', '.join(names)}" for line, names in self.remarks.items()]

    def note(self, line: str, name: str) -> None:
        names = self.remarks.setdefault(line, [])
        if name not in names:
            names.append(name)

    def disagree(self, line: str) -> None:
        if self.disagreement is None:
            self.disagreement = line


def make_graph(contestant: Contestant, backend: Backend, directed: bool, **options: Any) -> DynamicGraph:
    """Return a graph of a contestant.

    Raises
    ------
    InputError
        For a store, an option or a device that this build does not have.
    """
    device: Any = backend.name
    return DynamicGraph(directed=directed, store=contestant.store, device=device, **contestant.options, **options)


def name_together(experiments: Sequence[Experiment]) -> str:
    """Return the name of experiments that are measured together: PAPER/WHAT+WHAT."""
    first, *others = (found.name for found in experiments)
    return "+".join((first, *(name.partition("/")[2] for name in others)))
