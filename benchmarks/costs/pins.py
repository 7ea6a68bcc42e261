"""What pins cost: ``python -m benchmarks.costs.pins``.

One R-MAT graph takes batches of edges in and deletes the oldest ones, as many. It does so without a pin, with one and
with four pins of different versions, and with an exported snapshot; these take turns, so that disturbances of the
machine affect all of them. Pins are made before the clock starts. All columns are on the graph's device then.

After the updates, three more times are taken at a pin that is one step old: of 1000 edges looked up (and of the same in
the graph), of the copy that the first algorithm would make, and of these edges looked up in the copy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.documents import write_document
from dynstore.bench.module_command import run_as_command
from dynstore.bench.timing import LapTimer, percentiles, quiet
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.typing import Device

__all__ = ["KINDS", "main", "measure"]

WARM_UP = 2
QUERIES = 1000
KINDS = {"no pin": 0, "1 pin": 1, "4 pins": 4, "export": None}


def measure(
    scale: int, edge_factor: int, batch: int, steps: int, device: Device, weighted: bool = False, seed: int = 1
) -> tuple[DynamicGraph, dict[str, dict[str, list[float]]]]:
    """Return the graph, and the times in ms by kind and operation.

    Operations are "insert" and "delete", and of the kind "1 pin" also "look up", "look up in the graph", "copy", "look
    up in the copy"; and "undo bytes" and "copy bytes", which are no times.
    """
    events, rng = rmat(scale, edge_factor, seed), np.random.default_rng(seed)
    num_events, rounds = events.src.shape[0], (steps + WARM_UP) * len(KINDS)
    start = num_events - batch * rounds
    if start <= batch * rounds:
        raise InputError(f"costs.pins: {rounds} batches of {batch} rows need more than {num_events} events")
    columns: list[Any] = [np.ascontiguousarray(column, np.int32) for column in (events.src, events.dst)]
    if weighted:
        columns.append(rng.random(num_events, np.float32))
    G = DynamicGraph(weighted=weighted, device=device)
    G.insert_edges(tuple(G.core.backend.asarray(column[:start]) for column in columns))
    times: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}
    first = 0
    for step in range(steps + WARM_UP):
        for kind, num_pins in KINDS.items():
            entering = tuple(
                G.core.backend.asarray(column[start + first : start + first + batch]) for column in columns
            )
            leaving = tuple(G.core.backend.asarray(column[first : first + batch]) for column in columns[:2])
            first += batch
            found = _step(G, num_pins, entering, leaving)
            if step >= WARM_UP:
                for name, value in found.items():
                    times[kind].setdefault(name, []).append(value)
    return G, times


def _step(G: DynamicGraph, num_pins: int | None, entering: Any, leaving: Any) -> dict[str, float]:
    """Make pins of different versions, or an export; return the times of an update in and one out, and of reads."""
    held: list[Any] = [G.snapshot().export()] if num_pins is None else []
    found: dict[str, float] = {}

    def timed(name: str, call: Callable[..., Any], *arguments: Any) -> None:
        with quiet():
            watch = LapTimer(G.core.backend)
            watch.start()
            call(*arguments)
            found[name] = watch.lap()

    for number in range(num_pins or 0):
        held.append(G.pin())
        if number + 1 < (num_pins or 0):
            G.insert_vertices([0])  # a version without changes
    timed("insert", G.insert_edges, entering)
    timed("delete", G.delete_edges, leaving)
    if num_pins == 1:
        (pin,), some = held, tuple(column[:QUERIES] for column in leaving[:2])
        found["undo bytes"] = pin.memory_usage()["undo"]
        timed("first look up", pin.has_edges, some)
        timed("look up", pin.has_edges, some)
        timed("look up in the graph", G.has_edges, some)
        timed("copy", pin.materialize)
        timed("look up in the copy", pin.has_edges, some)
        found["copy bytes"] = pin.memory_usage()["copy"]
    return found


def _show(G: DynamicGraph, times: dict[str, dict[str, list[float]]], batch: int, steps: int) -> None:
    """Print medians, and compare those of updates with the ones without a pin."""
    print(f"{G}; {batch} rows an update, median of {steps}; ms")
    medians = {
        kind: {name: percentiles(values)["median_ms"] for name, values in found.items()}
        for kind, found in times.items()
    }
    print(f"{'':8} {'insert':>9} {'':>6} {'delete':>9}")
    for kind, median in medians.items():
        ratios = [median[name] / medians["no pin"][name] for name in ("insert", "delete")]
        print(f"{kind:8} {median['insert']:9.3f} {ratios[0]:5.2f}x {median['delete']:9.3f} {ratios[1]:5.2f}x")
    pin = medians["1 pin"]
    for name in ("first look up", "look up", "look up in the graph", "copy", "look up in the copy"):
        print(f"{name:21} {pin[name]:9.3f}")
    megabytes = [pin["undo bytes"] / 1e6, pin["copy bytes"] / 1e6, G.memory_usage()["total"] / 1e6]
    print("undo {:.1f} MB, copy {:.0f} MB, graph {:.0f} MB".format(*megabytes))


def _rows(G: DynamicGraph, times: dict[str, dict[str, list[float]]], batch: int, steps: int) -> list[dict[str, Any]]:
    """Return the rows of the results; those of a pin's reads have its bytes."""
    memory = {name: round(percentiles(times["1 pin"][f"{name} bytes"])["median_ms"]) for name in ("undo", "copy")}
    held = {"insert": memory["undo"], "copy": memory["copy"]}
    return [
        {
            "store": f"{name}, {kind}", "device": G.device, "operation": "total", "algorithm": None,
            "batch": batch if name in ("insert", "delete") else QUERIES, "edges": G.number_of_edges(), "steps": steps,
            **percentiles(values), "bytes": held.get(name) if kind == "1 pin" else None,
        }
        for kind, found in times.items()
        for name, values in found.items()
        if not name.endswith("bytes")
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.pins", description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="2**scale vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="rows of the stream for each vertex")
    parser.add_argument("--batch", type=int, default=100_000, help="rows of an update")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--weighted", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    sizes = given.scale, given.edge_factor, given.batch, given.steps
    found = measure(*sizes, given.device, given.weighted, given.seed)
    _show(*found, given.batch, given.steps)
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": 1 << given.scale,
            "edges": given.edge_factor << given.scale, "seed": given.seed,
        }  # fmt: skip
        rows = _rows(*found, given.batch, given.steps)
        write_document(given.json, "pin-costs", arguments, dataset, rows, module="costs.pins")


if __name__ == "__main__":
    run_as_command(main)
