"""What a sharded graph should take on many ranks: ``python -m benchmarks.scaling_model``.

Collectives and one rank's own work are measured on the ranks at hand: threads, MPI or NCCL. What ranks send and work on
is counted from the edges, for any number of ranks. Both together predict a time, and say what it is made of:

- latency: calls of collectives, and messages;
- bandwidth: bytes;
- work: what the mean rank does by itself;
- skew: what the busiest rank does more.

The first table holds predictions against measurements, on 1, 2, ... ranks. One rank is where the constants of the own
work come from, so the others count. The second table has ranks that are not there, each with a device of its own, over
links of assumed constants. The graph is the same on all ranks together, with ``--weak`` the same a rank: as many times
as large as there are ranks, of the same degrees, with as many rounds. A batch has the same rows a rank.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.documents import write_document
from benchmarks.scaling_model.counts import ALGORITHMS, UPDATES, Graph, Tally
from benchmarks.scaling_model.links import ASSUMED, CollectiveCosts, assumed_link, fit_link
from benchmarks.scaling_model.runs import ENGINES, MeasuredTimes, RunPlan, ScalingCase, make_batch, make_case, run_ranks
from dynstore.bench.module_command import run_as_command
from dynstore.bench.outputs import check_outputs
from dynstore.bench.timing import percentiles
from dynstore.errors import InputError

__all__ = ["Prediction", "count", "fit_work", "main", "predict"]

CALLS = (*UPDATES, *ALGORITHMS)
TERMS = ("latency", "bandwidth", "work", "skew")
MOST_ROWS = 1 << 23  # of a batch that are counted
A_HOST = 8  # ranks that one host's links join
Work = dict[str, np.ndarray]  # call -> seconds a round, a vertex, a row


class Prediction(NamedTuple):
    """Milliseconds of one call, by what they are for."""

    latency: float
    bandwidth: float
    work: float
    skew: float

    @property
    def binds(self) -> str:
        """What takes most of the time."""
        return TERMS[int(np.argmax(self))]


def count(name: str, graph: Graph, source: int, case: ScalingCase, size: int, seed: int) -> Tally:
    """Count a call, by its name in the tables."""
    if name in ALGORITHMS:
        return ALGORITHMS[name](graph, size, source)
    factor = -(-case.batch * size // MOST_ROWS)  # a part of a larger batch stands for all of it
    part = case._replace(batch=max(1, case.batch // factor))
    return UPDATES[name](graph, size, *make_batch(graph, part, size, seed)[:2]).times(factor)


def predict(tally: Tally, link: CollectiveCosts, work: np.ndarray, slowdown: float = 1.0) -> Prediction:
    """Return what a counted call takes; ``slowdown``: how much longer work takes where ranks share a machine."""
    latency, bandwidth = link.seconds(tally)
    rows = float(tally.rows.mean())
    mean = slowdown * float(work @ (tally.rounds, tally.vertices, rows))
    skew = slowdown * float(work[2]) * (int(tally.rows.max()) - rows)
    return Prediction(1e3 * latency, 1e3 * bandwidth, 1e3 * mean, 1e3 * skew)


def fit_work(tallies: list[Tally], seconds: list[float]) -> np.ndarray:
    """Return seconds a round, a vertex and a row, none below 0, with the least sum of squared relative errors."""
    counts = np.array([(tally.rounds, tally.vertices, tally.rows.max()) for tally in tallies], np.float64)
    scaled, kept = counts / np.array(seconds)[:, None], [0, 1, 2]
    while True:
        found = np.zeros(3)
        found[kept] = np.linalg.lstsq(scaled[:, kept], np.ones(len(seconds)), rcond=None)[0]
        if (found >= 0).all():
            return found
        kept.remove(int(found.argmin()))


def _fit_all(
    calls: list[str], cases: tuple[ScalingCase, ...], seed: int, alone: MeasuredTimes, link: CollectiveCosts
) -> Work:
    """Return the constants of one rank's own work: what it takes alone, without its calls of collectives."""
    tallies: dict[str, list[Tally]] = {name: [] for name in calls}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for case in cases:
        graph, source = make_case(case, seed)
        for name in calls:
            tally, taken = count(name, graph, source, case, 1, seed), median(alone.calls[case, name]) / 1e3
            tallies[name].append(tally)
            seconds[name].append(max(taken - sum(link.seconds(tally)), taken / 10))
    return {name: fit_work(tallies[name], seconds[name]) for name in calls}


# ---------------------------------------------------------------------- tables


HEAD = f"{'call':28} {'ranks':>5}  {'link':20} {'measured':>9} {'predicted':>9} {'':>6}"


def _show_head(title: str) -> None:
    print(f"\n{title}; ms")
    print(HEAD, *(f"{term:>9}" for term in TERMS), " binds")


def _show(name: str, size: int, link: CollectiveCosts, found: Prediction, measured: float | None) -> None:
    total = sum(found)
    shown = (
        f"{'':9} {total:9.3f} {'':>6}" if measured is None else f"{measured:9.3f} {total:9.3f} {total / measured:5.2f}x"
    )
    print(
        f"{name:28} {size:5}  {link.name:20} {shown}",
        *(f"{part:9.3f}" for part in found),
        f" {found.binds}",
        flush=True,
    )


def _show_link(link: CollectiveCosts) -> None:
    for name, base in link.base.items():
        rate = link.bytes_per_s[name] / 1e9
        print(f"  {name:12} {1e6 * base:9.1f} us a call, {1e6 * link.hop[name]:9.1f} us a doubling, {rate:9.3g} GB/s")
    print(f"  {'message':12} {1e6 * link.message:9.1f} us")


def _row(
    name: str, store: str, device: str, case: ScalingCase, graph: Graph, times: list[float], nbytes: int | None
) -> dict[str, Any]:
    """Return a row of schema 1; its bytes are what the busiest rank sends."""
    algorithm = name if name in ALGORITHMS else None
    return {
        "store": store, "device": device, "operation": "algorithm" if algorithm else name, "algorithm": algorithm,
        "batch": case.batch, "edges": len(graph.src), "steps": len(times), **percentiles(times), "bytes": nbytes,
    }  # fmt: skip


def _sent(tally: Tally) -> int:
    return int(sum(tally.nbytes.values()).max())  # type: ignore[union-attr]


def _compare(
    found: Mapping[int, MeasuredTimes], case: ScalingCase, link: CollectiveCosts, work: Work, given: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Print predictions beside what the ranks at hand take, and yield the rows."""
    graph, source = make_case(case, given.seed)
    for name in given.calls:
        for size, measured in found.items():
            times = measured.calls[case, name]
            tally = count(name, graph, source, case, size, given.seed)
            made = predict(tally, link, work[name], measured.slowdown)
            _show(name, size, link, made, median(times))
            yield _row(name, f"{size} ranks, {link.name}: measured", given.device, case, graph, times, _sent(tally))
            store = f"{size} ranks, {link.name}: predicted, {made.binds} binds"
            yield _row(name, store, given.device, case, graph, [sum(made)], _sent(tally))


def _extrapolate(
    case: ScalingCase, alone: CollectiveCosts, work: Work, given: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Print predictions for ranks that are not there, and yield the rows."""
    graph, source = make_case(case, given.seed)
    rate = None if given.gb_per_s is None else 1e9 * given.gb_per_s
    step = None if given.latency_us is None else given.latency_us / 1e6
    for name in given.calls:
        for size in given.predict:
            joined = "nvlink" if size <= A_HOST else "infiniband"
            link = alone if given.link == "measured" else assumed_link(given.link or joined, alone, step, rate)
            tally = count(name, graph, source, case, size, given.seed)
            if given.weak and name in ALGORITHMS:
                tally = tally.grown()
            elif given.weak:  # its rows a rank are the same in any case
                tally.vertices *= size
            made = predict(tally, link, work[name])
            _show(name, size, link, made, None)
            store = f"{size} ranks, {link.name}{', weak' if given.weak else ''}: predicted, {made.binds} binds"
            yield _row(name, store, given.device, case, graph, [sum(made)], _sent(tally))


def _cases(given: argparse.Namespace) -> tuple[ScalingCase, ...]:
    """Return the graph of the tables, and smaller ones that show what a round, a vertex and an edge take."""
    scale, factor, batch = given.scale, given.edge_factor, given.batch
    smaller = max(2, factor // 4)
    return (
        ScalingCase(scale, factor, batch),
        ScalingCase(scale, smaller, max(1, batch // 4)),
        ScalingCase(scale - 2, factor, max(1, batch // 4)),
        ScalingCase(scale - 4, smaller, max(1, batch // 16)),
    )


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling_model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--engine", choices=ENGINES, default="threads")
    parser.add_argument("--calls", nargs="+", choices=CALLS, default=list(CALLS), help="by default all")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="ranks to measure; 1 is one of them")
    parser.add_argument("--predict", type=int, nargs="+", default=[8, 64, 1024], help="ranks to predict")
    parser.add_argument("--device", default="cpu", help="of threads")
    parser.add_argument("--scale", type=int, default=14, help="2^SCALE vertices of the measured graph")
    parser.add_argument("--predict-scale", type=int, help="of the graph in predictions; by default the same")
    parser.add_argument("--edge-factor", type=int, default=16)
    parser.add_argument("--batch", type=int, default=10_000, help="rows a rank")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--link", choices=["measured", *ASSUMED], help=f"by default NVLink to {A_HOST} ranks, InfiniBand to more"
    )
    parser.add_argument("--latency-us", type=float, help="a step of a collective, in place of what is assumed")
    parser.add_argument("--gb-per-s", type=float, help="a rank's bandwidth, in place of what is assumed")
    parser.add_argument("--weak", action="store_true", help="predict for as large a graph a rank")
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


def _check(given: argparse.Namespace) -> None:
    if 1 not in given.ranks or min(given.ranks) < 1:
        raise InputError(f"scaling_model: --ranks is {given.ranks}; wanted 1 and other numbers above it")
    if min(given.predict) < 1:
        raise InputError(f"scaling_model: --predict is {given.predict}; wanted numbers of 1 or more")
    least = {"scale": 6, "predict_scale": 1, "edge_factor": 1, "batch": 1, "steps": 1}
    for name, lowest in least.items():
        value = getattr(given, name)
        if value is not None and value < lowest:
            raise InputError(f"scaling_model: --{name.replace('_', '-')} is {value}; wanted {lowest} or more")
    for name in ("latency_us", "gb_per_s"):
        value = getattr(given, name)
        if value is not None and not 0 < value < float("inf"):
            raise InputError(f"scaling_model: --{name.replace('_', '-')} is {value:g}; wanted a number above 0")
    check_outputs(given.json)


def main(arguments: list[str] | None = None) -> None:
    """Measure, predict, print, and write the JSON of schema 1 on request."""
    given = _parse(arguments)
    _check(given)
    cases, found = _cases(given), {}
    for size in sorted(set(given.ranks)):
        plan = RunPlan(cases if size == 1 else cases[:1], tuple(given.calls), given.steps, given.seed)
        measured = run_ranks(given.engine, given.device, size, plan)
        if measured is not None:
            found[size] = measured
    if not found:  # a process of MPI other than the first
        return
    given.device = "cuda" if given.engine == "nccl" else given.device
    link = fit_link(given.engine, {size: each.transfers for size, each in found.items()})
    print(f"{link.name}, constants:")
    _show_link(link)
    for size, each in found.items():
        print(f"  {size} ranks at work: each takes {each.slowdown:.2f}x as long")
    work = _fit_all(given.calls, cases, given.seed, found[1], link)
    _show_head(f"R-MAT {given.scale}, {given.batch} rows a rank")
    rows = list(_compare(found, cases[0], link, work, given))
    if given.link != "measured":
        print("\nassumed:")
        for name, known in ASSUMED.items():
            rate = known.bytes_per_s / 1e9
            print(f"  {name}: {1e6 * known.latency:g} us a step, {rate:g} GB/s a rank ({known.source})")
    larger = cases[0]._replace(scale=given.predict_scale or given.scale)
    shared = " a rank" if given.weak else ""
    _show_head(f"R-MAT {larger.scale}{shared}, {given.batch} rows a rank, each rank on a device of its own")
    rows += _extrapolate(larger, link, work, given)
    if given.json is not None:
        dataset = {
            "name": f"rmat:{given.scale}:{given.edge_factor}", "vertices": 1 << given.scale,
            "edges": given.edge_factor << given.scale, "seed": given.seed,
        }  # fmt: skip
        write_document(given.json, "scaling-model", arguments, dataset, rows)


if __name__ == "__main__":
    run_as_command(main)
