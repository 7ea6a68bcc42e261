"""Two checkouts side by side: ``python -m tools.pairs OLD NEW --device cpu``; a line for each small call.

Processes of both take turns, so that a busy machine slows both. Each makes the same graph, and takes the median time of
each call. A line has the medians of all processes, the median of the ratios of each pair of processes, and the interval
in which it lies in 95 of 100 cases (order statistics).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

EDGES, VERTICES = 200_000, 1 << 15
BATCHES = {1: 400, 100: 400, 10_000: 60}  # rows, and how often they are inserted and deleted
TRACKED = 1000  # rows that a tracked answer follows
READS = 200
CONFIDENCE = 0.95


def measure(device: Any) -> dict[str, float]:
    """Return the median us of each call in this process, with the dynstore that it imports."""
    import dynstore

    rng = np.random.default_rng(5)
    G = dynstore.DynamicGraph(device=device)
    on_device: Callable[[np.ndarray], Any] = np.asarray

    def wait() -> None:
        pass

    if device == "cuda":
        import cupy

        on_device, wait = cupy.asarray, cupy.cuda.Device().synchronize
    G.insert_edges(tuple(map(on_device, rng.integers(0, VERTICES, (2, EDGES), dtype=np.int32))))
    times: dict[str, list[float]] = {}

    def clock(name: str, call: Callable[..., Any], *given: Any) -> None:
        wait()
        begun = perf_counter()
        call(*given)
        wait()
        times.setdefault(name, []).append(1e6 * (perf_counter() - begun))

    gc.disable()
    try:
        for rows, repeats in BATCHES.items():
            for _ in range(repeats + 5):
                batch = tuple(map(on_device, rng.integers(0, VERTICES, (2, rows), dtype=np.int32)))
                clock(f"insert_edges {rows}", G.insert_edges, batch)
                clock(f"delete_edges {rows}", G.delete_edges, batch)
        for _ in range(READS + 5):
            batch = tuple(map(on_device, rng.integers(0, VERTICES, (2, 100), dtype=np.int32)))
            clock("has_edges 100", G.has_edges, batch)
            clock("neighbors", G.neighbors, int(rng.integers(VERTICES)))
        for _ in range(READS // 4 + 5):
            clock("bfs", dynstore.bfs, G, int(rng.integers(VERTICES)))
        lengths = rng.integers(1, 100, EDGES).astype(np.float32)
        H = dynstore.DynamicGraph(weighted=True, device=device)
        H.insert_edges((*map(on_device, rng.integers(0, VERTICES, (2, EDGES), dtype=np.int32)), on_device(lengths)))
        tracked = H.track("sssp", source=0)

        def follow(batch: tuple[Any, ...]) -> None:
            H.insert_edges(batch)
            tracked.refresh()

        for _ in range(READS // 4 + 5):
            for rows, name, update in (
                (max(BATCHES), f"insert_edges {max(BATCHES)}, weighted", H.insert_edges),
                (TRACKED, f"insert_edges {TRACKED}, weighted, and the tracked sssp", follow),
            ):
                ends = map(on_device, rng.integers(0, VERTICES, (2, rows), dtype=np.int32))
                batch = (*ends, on_device(lengths[:rows]))
                tracked.refresh()
                clock(name, update, batch)
                H.delete_edges(batch[:2])
            clock("sssp", dynstore.sssp, H, int(rng.integers(VERTICES)))
    finally:
        gc.enable()
    return {name: statistics.median(found[5:]) for name, found in times.items()}  # without what the first ones load


def _measure_in(checkout: Path, device: str) -> dict[str, float]:
    """Measure in a process of its own, with the dynstore of a checkout."""
    path = os.pathsep.join([str(checkout), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", "--device", device]
    done = subprocess.run(command, cwd=checkout, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def interval_of(ratios: list[float]) -> tuple[float, float]:
    """Return between which two of the values their median lies with :data:`CONFIDENCE`.

    >>> interval_of([float(number) for number in range(1, 21)])
    (6.0, 15.0)
    """
    ordered, count = sorted(ratios), len(ratios)
    left, outside, ways = 0, 0.0, 1.0
    while outside + 2 * ways / 2**count <= 1 - CONFIDENCE and left < count // 2:
        outside += 2 * ways / 2**count
        ways = ways * (count - left) / (left + 1)
        left += 1
    low = max(left - 1, 0)
    return ordered[low], ordered[count - 1 - low]


def compare(old: Path, new: Path, device: str, pairs: int) -> dict[str, dict[str, Any]]:
    """Return for each call the medians in us, the median ratio, and its interval."""
    _measure_in(old, device), _measure_in(new, device)  # they compile
    found: list[tuple[dict[str, float], dict[str, float]]] = []
    for number in range(pairs):
        order = (old, new) if number % 2 == 0 else (new, old)
        times = {checkout: _measure_in(checkout, device) for checkout in order}
        found.append((times[old], times[new]))
    table = {}
    for name in found[0][0]:
        ratios = [after[name] / before[name] for before, after in found]
        low, high = interval_of(ratios)
        table[name] = {
            "before_us": statistics.median(before[name] for before, _ in found),
            "after_us": statistics.median(after[name] for _, after in found),
            "ratio": statistics.median(ratios),
            "interval": [low, high],
        }
    return table


def main() -> None:
    """Print the table, and write it as JSON where that is asked for."""
    parser = argparse.ArgumentParser(description="Compare small calls of two checkouts of dynstore.")
    parser.add_argument("checkouts", nargs="*", type=Path, help="the old one and the new one")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", action="store_true", help="measure in this process, and print JSON")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.device)))
        return
    old, new = (checkout.resolve() for checkout in given.checkouts)
    table = compare(old, new, given.device, given.pairs)
    print(f"{given.pairs} pairs of processes, {given.device}\n{'':20}{'before':>10}{'after':>10}{'ratio':>8}  interval")
    for name, row in table.items():
        low, high = row["interval"]
        print(
            f"{name:20}{row['before_us']:10.1f}{row['after_us']:10.1f}{row['ratio']:8.3f}  {low:.3f} to {high:.3f}",
            flush=True,
        )
    if given.json is not None:
        given.json.write_text(json.dumps({"pairs": given.pairs, "device": given.device, "calls": table}, indent=1))


if __name__ == "__main__":
    main()
