"""What ids of the user's own cost: ``python -m dynstore.benchmarks.id_costs``.

The same batches go into a graph without renumbering, whose ids are 0 .. V-1, and into graphs with ``renumber=True``
whose vertices are called by sparse int64 ids and by strings. The graphs take turns, so that what disturbs the machine
disturbs all of them. Each step inserts a batch of edges and deletes the oldest of equal size.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynstore.benchmarks.timing import Stopwatch, percentiles, quiet
from dynstore.datasets import rmat
from dynstore.graph import DynamicGraph
from dynstore.typing import Device

__all__ = ["Contestant", "main", "measure"]

WARM_UP = 2


@dataclass
class Contestant:
    """One way to call vertices, its graph, and its times in ms."""

    name: str
    names: np.ndarray
    renumber: bool
    graph: DynamicGraph | None = None
    build_ms: float = 0.0
    inserts_ms: list[float] = field(default_factory=list)
    deletes_ms: list[float] = field(default_factory=list)


def _contestants(num_vertices: int, seed: int) -> Iterator[Contestant]:
    rng = np.random.default_rng(seed)
    yield Contestant("0 .. V-1, renumber=False", np.arange(num_vertices), False)
    sparse = rng.choice(np.unique(rng.integers(0, 2**62, num_vertices + 1000)), num_vertices, replace=False)
    yield Contestant("sparse int64, renumber=True", sparse, True)
    strings = np.array([f"account-{number:019d}" for number in sparse.tolist()], dtype=object)
    yield Contestant("strings, renumber=True", strings, True)


def measure(
    scale: int, edge_factor: int, batch: int, steps: int, device: Device, directed: bool = False, seed: int = 1
) -> list[Contestant]:
    """Slide a window over an R-MAT graph under each kind of ids, and return the times."""
    events = rmat(scale, edge_factor, seed)
    num_events, steps = events.src.shape[0], steps + WARM_UP
    start = num_events - batch * steps
    if start <= batch * steps:
        raise SystemExit(f"id_costs: {steps} steps of {batch} rows need more than {num_events} events")
    contestants = list(_contestants(1 << scale, seed))
    columns = [(one.names[events.src], one.names[events.dst]) for one in contestants]

    def rows(number: int, first: int, last: int) -> tuple[Any, Any]:
        src, dst = columns[number]
        return src[first:last], dst[first:last]

    for number, one in enumerate(contestants):
        one.graph = DynamicGraph(directed=directed, device=device, renumber=one.renumber)
        watch = Stopwatch(one.graph.backend)
        watch.start()
        one.graph.insert_edges(rows(number, 0, start))
        one.build_ms = watch.lap()
    for step in range(steps):
        for number, one in enumerate(contestants):
            assert one.graph is not None
            fresh, old = start + step * batch, step * batch
            with quiet():
                watch = Stopwatch(one.graph.backend)
                watch.start()
                one.graph.insert_edges(rows(number, fresh, fresh + batch))
                insert_ms = watch.lap()
                one.graph.delete_edges(rows(number, old, old + batch))
                if step >= WARM_UP:
                    one.inserts_ms.append(insert_ms)
                    one.deletes_ms.append(watch.lap())
    edges = {one.graph.number_of_edges() for one in contestants if one.graph is not None}
    assert len(edges) == 1, f"the graphs hold {edges} edges"
    return contestants


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print medians and how they compare with the graph that is not renumbered."""
    parser = argparse.ArgumentParser(prog="python -m dynstore.benchmarks.id_costs", description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=8, help="rows of the stream for each vertex")
    parser.add_argument("--batch", type=int, default=100_000, help="rows of an update")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--directed", action="store_true")
    given = parser.parse_args(arguments)
    found = measure(given.scale, given.edge_factor, given.batch, given.steps, given.device, given.directed)
    base = found[0]
    assert base.graph is not None
    print(f"{base.graph}; {given.batch} rows an update, median of {given.steps}; ms")
    print(f"{'ids':28} {'build':>8} {'insert':>8} {'':>6} {'delete':>8} {'':>6} {'map':>8}")
    for one in found:
        assert one.graph is not None
        insert, base_insert = (percentiles(x.inserts_ms)["median_ms"] for x in (one, base))
        delete, base_delete = (percentiles(x.deletes_ms)["median_ms"] for x in (one, base))
        map_mb = one.graph.memory_usage().get("vertex_map", 0) / 1e6
        print(
            f"{one.name:28} {one.build_ms:8.0f} {insert:8.2f} {insert / base_insert - 1:+6.0%} "
            f"{delete:8.2f} {delete / base_delete - 1:+6.0%} {map_mb:5.0f} MB"
        )


if __name__ == "__main__":
    main()
