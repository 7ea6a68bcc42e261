"""From a text file to a graph: ``python -m benchmarks.costs.reading``.

A file of R-MAT edges is written, and read in three ways, in turn: by ``dynstore.io.read_events``, by ``pyarrow.csv``
and by polars. Each hands its columns to ``insert_edges`` of a new graph. ``Stream`` reads the file, too, in batches of
1 M rows. The kinds of files:

- "pairs": two whole numbers between blanks, as files of SNAP;
- "weights": a header, two whole numbers and an amount between commas, beside a column that is not needed;
- "texts": the same with ids such as "u17", in a graph with ids of any kind.

"read" and "insert" are seconds, "total" is both; "times" is dynstore's total beside the faster of the other two in the
same round. "peak" is by how many MB the process grew at most while the file was read and inserted, on Linux.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.documents import write_document
from dynstore.adapters.libraries import require
from dynstore.bench.module_command import run_as_command
from dynstore.bench.stream import describe_stream
from dynstore.bench.timing import percentiles, quiet
from dynstore.datasets import rmat
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph
from dynstore.io import EventTable, read_events
from dynstore.streams import FileSource, Stream

__all__ = ["KINDS", "WAYS", "ReadingRun", "main", "measure", "write_file"]

KINDS = ("pairs", "weights", "texts")
PEERS = ("pyarrow.csv", "polars")
WAYS = ("dynstore", *PEERS, "Stream")
NAMES = ["source", "destination", "weight"]
# What operations are called in files of results.
IN_FILES = {"convert": "read", "insert": "insert", "total": "total"}
EDGE_FACTOR = 15
STREAM_ROWS = 1_000_000
HIGH_WATER = re.compile(r"VmHWM:\s+(\d+) kB")


class ReadingRun(NamedTuple):
    """Seconds of one way, and by how many MB the process grew; None where that is not known."""

    read: float
    insert: float
    peak: float | None


def write_file(path: Path, kind: str, events: EventTable, seed: int) -> None:
    """Write events as a text file of a kind."""
    import pyarrow
    import pyarrow.csv

    columns: dict[str, Any] = {"source": events.src, "destination": events.dst}
    if kind != "pairs":
        random = np.random.default_rng(seed)
        columns["weight"] = random.integers(1, 100_000, len(events)) / 100
        columns["note"] = pyarrow.array(["paid", "refused", "back"]).take(
            pyarrow.array(random.integers(0, 3, len(events)))
        )
    if kind == "texts":
        for name in NAMES[:2]:
            numbers = pyarrow.array(columns[name]).cast(pyarrow.string())
            columns[name] = pyarrow.compute.binary_join_element_wise("u", numbers, "")
    blanks = kind == "pairs"
    options = pyarrow.csv.WriteOptions(
        include_header=not blanks, delimiter=" " if blanks else ",", quoting_style="none"
    )
    pyarrow.csv.write_csv(pyarrow.table(columns), path, options)


def _by_dynstore(path: Path, kind: str) -> Any:
    return read_events(path, weight=None if kind == "pairs" else "weight", renumber=kind == "texts")


def _by_pyarrow(path: Path, kind: str) -> Any:
    import pyarrow.csv

    if kind == "pairs":
        named = pyarrow.csv.ReadOptions(column_names=NAMES[:2])
        return pyarrow.csv.read_csv(path, named, pyarrow.csv.ParseOptions(delimiter=" "))
    return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(include_columns=NAMES))


def _by_polars(path: Path, kind: str) -> Any:
    polars = require("costs.reading", "polars")
    if kind == "pairs":
        return polars.read_csv(path, separator=" ", has_header=False, new_columns=NAMES[:2])
    return polars.read_csv(path, columns=NAMES)


READERS: dict[str, Callable[[Path, str], Any]] = {
    "dynstore": _by_dynstore, "pyarrow.csv": _by_pyarrow, "polars": _by_polars
}  # fmt: skip


def _new_graph(kind: str, device: Any) -> DynamicGraph:
    return DynamicGraph(weighted=kind != "pairs", renumber=kind == "texts", device=device)


def _run(way: str, path: Path, kind: str, device: Any) -> tuple[ReadingRun, int]:
    """Time one way; return the times, and the number of edges."""
    before = _peak(reset=True)
    with quiet():
        G, begun = _new_graph(kind, device), perf_counter()
        if way == "Stream":
            source = FileSource(path, follow=False)
            Stream(G, source, batch_edges=STREAM_ROWS).run()
            read = perf_counter()
        else:
            rows = READERS[way](path, kind)
            read = perf_counter()
            G.insert_edges(rows, weight=None if kind == "pairs" else "weight")
        G.core.backend.synchronize()
        ended = perf_counter()
    after = _peak()
    grown = None if before is None or after is None else (after - before) / 1e3
    return ReadingRun(read - begun, ended - read, grown), G.number_of_edges()


def _peak(reset: bool = False) -> float | None:
    """Return the most kB that the process has had since the last reset; None where that is not known."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        found = HIGH_WATER.search(Path("/proc/self/status").read_text(encoding="ascii"))
    except OSError:
        return None
    return float(found[1]) if found else None


def measure(path: Path, kind: str, rounds: int, device: Any) -> Iterator[dict[str, ReadingRun]]:
    """Yield the times of all ways, round by round.

    Raises
    ------
    InputError
        If the graphs differ.
    """
    for _ in range(rounds):
        found = {way: _run(way, path, kind, device) for way in WAYS}
        if len({edges for _, edges in found.values()}) > 1:
            raise InputError(f"costs.reading: the ways differ: { ({way: edges for way, (_, edges) in found.items()}) }")
        yield {way: run for way, (run, _) in found.items()}


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON of schema 1 on request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.reading", description=__doc__)
    parser.add_argument("--scale", type=int, default=18, help="the file has 15 rows for each of 2^scale vertices")
    parser.add_argument("--kinds", default=",".join(KINDS), help="by comma")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    kinds = given.kinds.split(",")
    if not set(kinds) <= set(KINDS) or given.rounds < 1:
        raise InputError(
            f"costs.reading: --kinds {given.kinds} --rounds {given.rounds}; wanted {', '.join(KINDS)}; at least 1 round"
        )
    events = rmat(given.scale, EDGE_FACTOR, seed=given.seed)
    num_rows = len(events)
    rows: list[dict[str, Any]] = []
    print(f"{num_rows:,} rows, {given.rounds} rounds; medians, in s and MB")
    print(f"{'file':>8} {'way':>12} {'read':>8} {'insert':>8} {'total':>8} {'times':>7} {'peak':>8}")
    for kind in kinds:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "edges.txt"
            write_file(path, kind, events, given.seed)
            _run("Stream", path, kind, given.device)  # compiles the kernels
            found = list(measure(path, kind, given.rounds, given.device))
        rows += _show(kind, num_rows, given.device, found)
    if given.json is not None:
        write_document(
            given.json, "reading-costs", arguments, describe_stream(events, given.seed), rows, module="costs.reading"
        )


def _show(kind: str, num_rows: int, device: str, rounds: list[dict[str, ReadingRun]]) -> list[dict[str, Any]]:
    """Print a line for each way; return the rows of the JSON, in which ``bytes`` are those of the peak."""
    rows = []
    for way in WAYS:
        runs = [each[way] for each in rounds]
        best = [min(each[peer].read + each[peer].insert for peer in PEERS) for each in rounds]
        times = median((run.read + run.insert) / peer for run, peer in zip(runs, best, strict=True))
        peaks = [run.peak for run in runs if run.peak is not None]
        read, insert = (median(getattr(run, part) for run in runs) for part in ("read", "insert"))
        total = median(run.read + run.insert for run in runs)
        peak = f"{median(peaks):8.0f}" if peaks else f"{'-':>8}"
        print(f"{kind:>8} {way:>12} {read:8.2f} {insert:8.2f} {total:8.2f} {times:7.2f} {peak}")
        for operation, part in IN_FILES.items():
            times_ms = [1e3 * (run.read + run.insert if part == "total" else getattr(run, part)) for run in runs]
            rows.append(
                {
                    "store": f"{way}, {kind}",
                    "device": device,
                    "operation": operation,
                    "algorithm": None,
                    "batch": num_rows,
                    "edges": num_rows,
                    "steps": len(runs),
                    **percentiles(times_ms),
                    "bytes": int(1e6 * median(peaks)) if peaks else None,
                }
            )
    return rows


if __name__ == "__main__":
    run_as_command(main)
