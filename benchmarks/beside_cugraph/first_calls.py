"""The first calls on a live graph in a fresh process: ``python -m benchmarks.beside_cugraph.first_calls``.

Needs RAPIDS. For each function of cuGraph and each way (the drop-in, and ``cugraph.Graph``) a process of its own makes
a graph with hubs, waits for the GPU, and calls the function four times. It says how long each call took and, for the
first one, what was compiled: dynstore's kernels, CuPy's kernels by NVRTC, CuPy's kernels that were read from disk.
What remains is imports, and code that CUDA loads on first use.

Run ``python -m dynstore warmup`` before: it leaves nothing to compile. ``--profile`` prints where the first call spends
its time.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import pstats
import shlex
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.libraries import require
from dynstore.bench.module_command import run_as_command
from dynstore.bench.schema import make_document
from dynstore.bench.timing import percentiles
from dynstore.compilations import compilations
from dynstore.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CALLS", "WAYS", "main"]

CALLER = "beside_cugraph.first_calls"
MODULE = "benchmarks.beside_cugraph.first_calls"
CALLS: dict[str, Callable[[Any, Any, int], Any]] = {
    "bfs": lambda cugraph, G, start: cugraph.bfs(G, start),
    "sssp": lambda cugraph, G, start: cugraph.sssp(G, start),
    "pagerank": lambda cugraph, G, start: cugraph.pagerank(G),
    "weakly_connected_components": lambda cugraph, G, start: cugraph.weakly_connected_components(G),
    "louvain": lambda cugraph, G, start: cugraph.louvain(G),
    "triangle_count": lambda cugraph, G, start: cugraph.triangle_count(G),
    "degree": lambda cugraph, G, start: G.degree(),
    "view_edge_list": lambda cugraph, G, start: G.view_edge_list(),
}
WAYS = {"drop-in": "dynstore.adapters.cugraph", "cugraph.Graph": "cugraph"}
RUNS = 4
LIMIT_S = 300
# Functions of CuPy that compile, or read what was compiled; by what they count as.
HOOKS = {"by NVRTC": "compile_using_nvrtc", "by CuPy, kept on disk or compiled": "_compile_module_with_cache"}


@contextmanager
def _counted() -> Iterator[dict[str, list[float]]]:
    """Count the calls of CuPy's compiler and their seconds, while the body runs."""
    compiler = require(CALLER, "cupy.cuda.compiler")
    counts: dict[str, list[float]] = {what: [0, 0.0] for what in HOOKS}
    real = {what: getattr(compiler, name) for what, name in HOOKS.items() if hasattr(compiler, name)}
    for what, function in real.items():

        def counting(*args: Any, what: str = what, function: Any = function, **options: Any) -> Any:
            since = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                counts[what][0] += 1
                counts[what][1] += time.perf_counter() - since

        setattr(compiler, HOOKS[what], counting)
    try:
        yield counts
    finally:
        for what, function in real.items():
            setattr(compiler, HOOKS[what], function)


def _measure(way: str, name: str, scale: int, profile: bool) -> dict[str, Any]:
    """Call a function on a new graph, in this process; return milliseconds, and what the first call compiled."""
    warnings.simplefilter("ignore")
    cugraph, cudf, cupy = (require(CALLER, module) for module in (WAYS[way], "cudf", "cupy"))
    rng, num_edges = np.random.default_rng(1), 16 << scale
    # Cubes of random numbers, so that some vertices have many edges.
    ends = (rng.random((2, num_edges)) ** 3 * (1 << scale)).astype(np.int32)
    frame = cudf.DataFrame({"source": ends[0], "destination": ends[1], "weight": rng.random(num_edges, np.float32)})
    G = cugraph.Graph()
    G.from_cudf_edgelist(frame, edge_attr="weight")
    start, times, profiler = int(ends[0, 0]), [], cProfile.Profile()
    cupy.cuda.Device().synchronize()
    before, modules = compilations.count, set(sys.modules)
    with _counted() as counts:
        for run in range(RUNS):
            if run == 0 and profile:
                profiler.enable()
            since = time.perf_counter()
            CALLS[name](cugraph, G, start)
            cupy.cuda.Device().synchronize()
            times.append(1000 * (time.perf_counter() - since))
            profiler.disable()
            if run == 0:
                first = {what: [int(count), 1000 * seconds] for what, (count, seconds) in counts.items()}
                first["by dynstore"] = [compilations.count - before, 0.0]
                imported = len(set(sys.modules) - modules)
    text = io.StringIO()
    if profile:
        pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(25)
    return {"ms": times, "compiled": first, "imported": imported, "edges": num_edges, "profile": text.getvalue()}


def _in_a_process(way: str, name: str, scale: int, profile: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", MODULE, "--one", way, "--call", name, "--scale", str(scale)]
    done = subprocess.run(
        [*command, *(["--profile"] if profile else [])], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise InputError(f"{CALLER}: {name} by {way} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the document."""
    parser = argparse.ArgumentParser(prog=CALLER, description=str(__doc__).partition("\n")[0])
    parser.add_argument("--call", action="append", choices=CALLS, help="by default all")
    parser.add_argument("--scale", type=int, default=18, help="the logarithm of the number of vertices")
    parser.add_argument("--profile", action="store_true", help="print where the first call spends its time")
    parser.add_argument("--one", choices=WAYS, help="measure one call this way, in this process, and print JSON")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    names = chosen.call or list(CALLS)
    if chosen.one is not None:
        print(json.dumps(_measure(chosen.one, names[0], chosen.scale, chosen.profile)))
        return 0
    rows, edges = [], 0
    for name in names:
        for way in WAYS:
            found = _in_a_process(way, name, chosen.scale, chosen.profile)
            first, *later = found["ms"]
            edges = found["edges"]
            made = ", ".join(f"{count} {what} ({ms:.0f} ms)" for what, (count, ms) in found["compiled"].items())
            print(f"{name:28} {way:14} first {first:8.1f} ms, then {min(later):7.1f} ms; compiled: {made};", end=" ")
            print(f"{found['imported']} modules imported", flush=True)
            print(found["profile"], end="")
            for what, values in (("first", [first]), ("later", later)):
                rows.append(
                    {
                        "store": f"{way}, {what} call", "device": "cuda", "operation": "algorithm", "algorithm": name,
                        "batch": 0, "edges": edges, "steps": len(values), **percentiles(values), "bytes": None,
                    }
                )  # fmt: skip
    if chosen.json is not None:
        typed = sys.argv[1:] if arguments is None else arguments
        dataset = {"name": f"powers:{chosen.scale}:16", "vertices": 1 << chosen.scale, "edges": edges, "seed": 1}
        document = make_document("first-calls", f"python -m {MODULE} {shlex.join(typed)}".strip(), dataset, rows, True)
        chosen.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    run_as_command(main)
