"""What graphs over several ranks take: ``python -m benchmarks.ranks --engine nccl --ranks 2``.

Parts, each on processes of its own with NCCL, so that one that fails does not end the others:

- weak: new rows inserted and deleted, on one rank and on all, as many a rank; beside a plain DynamicGraph
- own: bfs, pagerank, components, sssp and triangles of a sharded graph, beside those of one graph
- cugraph: cuGraph's own graph of several GPUs, and lending to it; needs RAPIDS
- slides: GPMA+'s Fig. 12: 1 % of the rows of large graphs slides, on one rank and on all
- pages: GTS's Strategy-P and Strategy-S
- largest: packed in-edges that stay in device memory, of the largest R-MAT that fits: an iteration of PageRank, slides

Each part compares its answers with those of one graph, or of one rank, and ends with an error if they differ. A time is
that of the slowest rank. All columns are on the device. With MPI, ``mpirun`` starts the processes.

A part that takes longer than ``--seconds`` is ended; shortly before, each process prints where it is. Rows are appended
to ``JSON.rows`` as they come. This file is removed when the JSON is written, also after SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from benchmarks.documents import write_document
from benchmarks.ranks.bench import RankSizes
from benchmarks.ranks.engines import ENGINES, run_ranks
from benchmarks.ranks.parts import PARTS, run_part
from benchmarks.rmat_pieces import MAX_SCALE
from dynstore.bench.module_command import run_as_command
from dynstore.bench.outputs import check_outputs
from dynstore.errors import InputError

__all__ = ["main"]


def _build_bridge() -> None:
    """Build the library that lends, before ranks wait for each other."""
    from dynstore.adapters.cugraph.borrowed.loading import load_bridge

    print("the library that lends:", load_bridge().reason or "ready", flush=True)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ranks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="by default all but cugraph")
    parser.add_argument("--engine", choices=ENGINES, default="threads")
    parser.add_argument("--device", default="cpu", help="of threads")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--scale", type=int, default=12, help="2^SCALE vertices in weak, own and cugraph")
    parser.add_argument("--edge-factor", type=int, default=16)
    parser.add_argument("--batches", type=int, nargs="+", default=[1_000], help="rows a rank, in weak")
    parser.add_argument("--edges", type=int, nargs="+", default=[50_000, 100_000, 150_000], help="stored, in slides")
    parser.add_argument("--slide-scale", type=int, default=12)
    parser.add_argument("--page-scale", type=int, default=12)
    parser.add_argument("--largest-scale", type=int, default=12, help="the most in largest")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=120.0, help="the most for a part")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    given.parts = given.parts or [name for name in PARTS if name != "cugraph"]
    unknown = [name for name in given.parts if name not in PARTS]
    if unknown:
        raise InputError(f"ranks: unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
    for name in ("ranks", "scale", "steps", "batches"):
        if np.min(getattr(given, name)) < 1:
            raise InputError(f"ranks: --{name} is {getattr(given, name)}; wanted 1 or more")
    if not 1 <= given.largest_scale <= MAX_SCALE:
        raise InputError(f"ranks: --largest-scale is {given.largest_scale}; wanted 1 to {MAX_SCALE}")
    check_outputs(given.json)
    return given


def main(arguments: list[str] | None = None) -> int:
    """Measure the parts, print, and write the JSON of schema 1 after each; return 1 if one has failed."""
    given = _parse(arguments)
    sizes = RankSizes(
        given.scale, given.edge_factor, tuple(given.batches), tuple(given.edges), given.slide_scale, given.page_scale,
        given.largest_scale, given.steps, given.seconds,
    )  # fmt: skip
    failed: list[str] = []
    rows: list[dict[str, Any]] = []
    scale = max(_scale_of(given, part) for part in given.parts)
    dataset = {
        "name": f"rmat:{scale}:{given.edge_factor}", "vertices": 1 << scale,
        "edges": given.edge_factor << scale, "seed": 0,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for part in given.parts:
            print(f"{part}: {given.ranks} ranks ({given.engine})", flush=True)
            begun, failure = monotonic(), f"{part}: ended from outside"
            path = Path(folder) / "rows" if given.json is None else given.json.with_name(f"{given.json.name}.rows")
            path.unlink(missing_ok=True)
            try:
                if part == "cugraph":
                    _build_bridge()
                arguments_of_part = run_part, part, sizes, str(path)
                run_ranks(given.engine, given.device, given.ranks, *arguments_of_part, limit=given.seconds)
                failure = ""
            except Exception as error:  # the next part may do
                traceback.print_exc(limit=1)
                failure = f"{part}: {type(error).__name__}: {error}"
            finally:
                failed += [failure] if failure else []
                found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
                rows += [{**row, "store": f"{part}: {row['store']}"} for row in found]
                print(f"{part}: {len(found)} rows in {monotonic() - begun:.1f} s", flush=True)
                if given.json is not None and rows:
                    write_document(given.json, "ranks", arguments, dataset, rows, agree=not failed)
                path.unlink(missing_ok=True)
    _summarize(rows)
    for line in failed:
        print("FAILED", line, file=sys.stderr, flush=True)
    return int(bool(failed))


def _scale_of(given: argparse.Namespace, part: str) -> int:
    """Return the scale of the graph that a part measures."""
    scales = {"slides": given.slide_scale, "pages": given.page_scale, "largest": given.largest_scale}
    scale: int = scales.get(part, given.scale)
    return scale


def _summarize(rows: list[dict[str, Any]]) -> None:
    """Print each operation's medians side by side."""
    lines: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        part, _, store = row["store"].partition(": ")
        size = row["edges"] // 100_000_000 if part == "slides" else 0
        key = part, row["algorithm"] or row["operation"], str(row["batch"]), str(size)
        lines.setdefault(key, {})[store] = row["median_ms"]
    for (part, name, batch, _), medians in lines.items():
        shown = "   ".join(f"{store} {median:.3f}" for store, median in medians.items())
        print(f"{part:8} {name:28} {batch:>9}   {shown}", flush=True)


def _end(number: int, _: Any) -> None:
    """End as after Ctrl-C: processes of the ranks end, too, and what has been measured is written."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    run_as_command(main)
