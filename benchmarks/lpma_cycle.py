"""Store ``lpma`` compared with ``gpma+``: ``python -m benchmarks.lpma_cycle [--scale 22] [--device cuda]``.

The distinct edges of an RMAT graph are inserted and deleted in random order; each graph begins with half of them.

- A: ordinary batches in and out, of ``gpma+`` and each strategy of ``lpma``; for bottom-up also the parts of an
  insertion
- B: a batch at which the array grows, against the ordinary ones before and after it, each time in a new graph
- C: a cycle of each strategy: batches in until the array grows, five more, then batches out until it shrinks
"""

from __future__ import annotations

import argparse
import gc
import json
import shlex
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.beside_cugraph.drop_in_window import different_pairs
from dynstore.backend import get_backend
from dynstore.batches.make import make_batch
from dynstore.bench.module_command import run_as_command
from dynstore.bench.schema import make_document
from dynstore.bench.timing import percentiles, time_call
from dynstore.graph import DynamicGraph

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["Cycle", "main"]

STORES = (("gpma+", None), ("lpma", "bottom-up"), ("lpma", "top-down"), ("lpma", "hybrid"))
WARM_UPS, REPEATS, ROUNDS, MORE = 2, 9, 3, 5
DENSE = 0.80  # lpma's root_upper: here it grows


class _CycleRun:
    """One graph, and the edges to insert and delete."""

    def __init__(self, cycle: Cycle, store: str, strategy: str | None, count: int) -> None:
        gc.collect()
        self.cycle, self.name = cycle, store if strategy is None else f"{store} {strategy}"
        options: dict[str, Any] = {"strategy": strategy} if strategy else {}
        self.graph: Any = DynamicGraph(store=store, device=cycle.device, **options)
        self.first = self.last = 0
        self.insert(count)

    @property
    def num_slots(self) -> int:
        """Return the array's slots, without the table that a snapshot of ``lpma`` would make."""
        store = self.graph.core.out
        return int(store._levels.num_slots if self.graph.store_name == "lpma" else store.slots.num_slots)

    def take(self, count: int) -> tuple[Array, Array]:
        """Return the next edges."""
        self.last += count
        return self._rows(self.last, count)

    def insert(self, count: int) -> tuple[bool, float]:
        """Insert the next edges; return whether the array grew, and the ms."""
        report, passed_ms = time_call(self.cycle.backend, self.graph.insert_edges, self.take(count))
        self._check(report.inserted, count)
        return bool(report.grown), passed_ms

    def delete(self, count: int) -> float:
        """Delete the oldest edges; return the ms."""
        self.first += count
        report, passed_ms = time_call(self.cycle.backend, self.graph.delete_edges, self._rows(self.first, count))
        self._check(report.deleted, count)
        return passed_ms

    def _rows(self, end: int, count: int) -> tuple[Array, Array]:
        return self.cycle.src[end - count : end], self.cycle.dst[end - count : end]

    def _check(self, done: int, wanted: int) -> None:
        held, left = self.graph.number_of_edges(), self.last - self.first
        if (done, held) != (wanted, left):
            self.cycle.problems.append(f"{self.name}: {done} of {wanted} edges done, {held} of {left} held")


class Cycle:
    """The edges and the results: ``times``, (store, operation, batch) -> ms; ``problems``, a list of failures."""

    def __init__(self, device: Any, scale: int, edge_factor: int, seed: int) -> None:
        self.device, self.backend = device, get_backend(device)
        self.src, self.dst = different_pairs(self.backend.xp, scale, edge_factor, seed, True)
        self.num_edges, self.half = int(self.src.shape[0]), int(self.src.shape[0]) // 2
        self.times: dict[tuple[str, str, int], list[float]] = {}
        self.problems: list[str] = []

    def note(self, store: str, operation: str, batch: int, values: list[float]) -> None:
        self.times.setdefault((store, operation, batch), []).extend(values)

    def warm_up(self) -> None:
        """Compile, and let the pool grow, with large batches; arrays grow and shrink."""
        for store, strategy in STORES:
            run = _CycleRun(self, store, strategy, self.half // 8)
            for share in (16, 16, 16, 2):
                run.insert(self.half // share)
                run.delete(self.half // share)

    def ordinary(self, size: int) -> None:
        """A. Ordinary batches: median (max)."""
        for store, strategy in STORES:
            run = _CycleRun(self, store, strategy, self.half)
            pairs, shown = [(run.insert(size)[1], run.delete(size)) for _ in range(WARM_UPS + REPEATS)], []
            for operation, values in zip(("insert", "delete"), zip(*pairs[WARM_UPS:], strict=True), strict=True):
                self.note(run.name, operation, size, list(values))
                shown.append(f"{operation} {median(values):.3f} ({max(values):.3f})")
            print(f"{run.name:<16} {size:>8}: {', '.join(shown)}")
            if strategy is not None:
                print(" " * 16, "counts:", run.graph.statistics())
            if strategy == "bottom-up":
                self._split(run, size)

    def _split(self, run: _CycleRun, size: int) -> None:
        """Show the times of sorting, planning and committing."""
        graph, rows = run.graph, []
        for _ in range(WARM_UPS + MORE):
            edges = run.take(size)
            batch, sort = time_call(self.backend, make_batch, self.backend, *edges, None, True)
            planned, plan = time_call(
                self.backend, graph.core.out.plan_insert, batch, graph.number_of_vertices(), "replace"
            )
            rows.append((sort, plan, time_call(self.backend, planned.commit)[1]))
            graph.delete_edges(edges)
        print(" " * 16, "apart: sort {:.3f} plan {:.3f} commit {:.3f}".format(*np.median(rows[WARM_UPS:], axis=0)))

    def growing(self, size: int) -> None:
        """B. A batch that grows the array, those before and those after it; each row is a new graph."""
        for store, strategy in STORES[:3]:
            for number in range(ROUNDS):
                run = _CycleRun(self, store, strategy, self.half)
                bulk = int(DENSE * run.num_slots) - self.half - 7 * size - size // 2
                phases: dict[str, list[float]] = {"before": [], "growing": [], "after": []}
                if 0 < bulk < self.num_edges - run.last:
                    run.insert(bulk)
                    run.insert(size)
                    while run.last + size <= self.num_edges and len(phases["after"]) <= MORE:
                        grew, passed_ms = run.insert(size)
                        phases["after" if phases["growing"] else "growing" if grew else "before"].append(passed_ms)
                if not all(phases.values()):
                    print(f"{run.name:<16} {size:>8}: does not grow in the edges there are")
                    break
                for phase, values in phases.items():
                    self.note(f"{run.name}, {phase}", "insert", size, values)
                before, grown, after = map(median, phases.values())
                print(
                    f"{run.name:<16} {size:>8} #{number}: growing {grown:.3f}, before {before:.3f}, after {after:.3f}; "
                    f"ratio to before {grown / before:.2f}, to after {grown / after:.2f}"
                )
                del run  # the next one needs its memory

    def cycle(self, size: int) -> None:
        """C. Batches in until the array grows, 5 more, then batches out until it shrinks."""
        totals = {}
        for store, strategy in STORES[1:]:
            run = _CycleRun(self, store, strategy, self.half)
            run.insert(size)
            times: dict[str, list[float]] = {"insert": [], "delete": []}
            more, grown, shrunk = MORE, 0.0, 0.0
            while run.last + size <= self.num_edges and more:
                grew, passed_ms = run.insert(size)
                times["insert"].append(passed_ms)
                grown = passed_ms if grew else grown
                more -= grown > 0
            slots = run.num_slots
            while not shrunk and run.first + size <= run.last:
                times["delete"].append(run.delete(size))
                shrunk = times["delete"][-1] if run.num_slots < slots else 0.0
            print(f"{size:>8} {strategy}: growing {grown:.3f}, shrinking {shrunk:.3f}")
            for operation, values in times.items():
                self.note(f"{run.name}, cycle", operation, size, values)
                found = "  ".join(f"{what} {one:.3f}" for what, one in percentiles(values).items())
                print(f"{operation:>20}: {len(values)} batches, sum {sum(values):.1f}  {found}")
            print(" " * 20, "counts:", run.graph.statistics())
            totals[strategy] = sum(times["insert"])
            del run  # likewise
        ratio = totals["hybrid"] / min(totals["bottom-up"], totals["top-down"])
        print(f"{size:>8} hybrid / better of the two = {ratio:.3f} (wanted <= 1.10)")


PARTS = {"A": Cycle.ordinary, "B": Cycle.growing, "C": Cycle.cycle}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the JSON of schema 1 on request; return 1 if a store lost edges."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lpma_cycle", description=__doc__)
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--edge-factor", type=int, default=16)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--part", action="append", choices=sorted(PARTS))
    parser.add_argument("--batches", default="10000,100000,1000000")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    sizes = [int(size) for size in chosen.batches.split(",")]
    cycle = Cycle(chosen.device, chosen.scale, chosen.edge_factor, chosen.seed)
    if (2 * WARM_UPS + REPEATS + MORE) * max(sizes) > cycle.half:
        parser.error(f"--batches: {max(sizes)} is too many for {cycle.num_edges} edges")
    print(f"{cycle.num_edges} different edges, {cycle.half} of them at the start")
    cycle.warm_up()
    for part in chosen.part or PARTS:
        print(f"\n{PARTS[part].__doc__}", flush=True)
        for size in sizes:
            PARTS[part](cycle, size)
    print(*cycle.problems, sep="\n")
    if chosen.json is not None:
        rows = [
            {
                "store": store, "device": cycle.backend.name, "operation": operation, "algorithm": None, "batch": batch,
                "edges": cycle.half, "steps": len(values), **percentiles(values), "bytes": None,
            }
            for (store, operation, batch), values in cycle.times.items()
        ]  # fmt: skip
        dataset = {
            "name": f"rmat:{chosen.scale}:{chosen.edge_factor}", "seed": chosen.seed,
            "vertices": 1 << chosen.scale, "edges": chosen.edge_factor << chosen.scale,
        }  # fmt: skip
        typed = sys.argv[1:] if arguments is None else arguments
        command = shlex.join(["python", "-m", "benchmarks.lpma_cycle", *typed])
        document = make_document("lpma-cycle", command, dataset, rows, not cycle.problems)
        chosen.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(bool(cycle.problems))


if __name__ == "__main__":
    run_as_command(main)
