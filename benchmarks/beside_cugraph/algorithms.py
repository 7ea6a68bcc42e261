"""Algorithms without updates, compared with cuGraph: ``python -m benchmarks.beside_cugraph.algorithms``.

An RMAT graph, directed and symmetric, with ids by falling degree or (``--ids arbitrary``) permuted. These variants
alternate in one process, each warmed up:

- ``dynstore``: the public function, from the graph to the frame
- ``kernels, gapped``, ``kernels, packed``: its kernels alone, on the snapshot's arrays and on ``snapshot().compact()``
- ``cuGraph``: its function on a ``cugraph.Graph`` of the same vertices and edges, built before in the orientation that
  it needs; skipped if cuGraph is not installed or refuses directed graphs

``bfs`` and ``sssp`` (weights 1 to 100) start at the largest out-degree, ``betweenness_centrality`` at the four largest;
``pagerank`` does ten iterations. CUDA's events are on the default stream, which waits for cuGraph's.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shlex
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dynstore
from dynstore.adapters.libraries import require
from dynstore.adapters.memory import share_pool
from dynstore.backend import get_backend
from dynstore.bench.answers import make_query
from dynstore.bench.module_command import run_as_command
from dynstore.bench.schema import make_document
from dynstore.bench.timing import percentiles, quiet, time_call
from dynstore.datasets import rmat
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["ALGORITHMS", "Case", "main", "make_edges"]

WARM_UPS, ITERATIONS, SOURCES, NO_LIMIT = 2, 10, 4, 2**31 - 1
_events = lru_cache(maxsize=1)(rmat)  # the same events for each graph


class Case:
    """One graph, a packed copy of its arrays, and the vertices to start from."""

    def __init__(self, backend: Any, edges: tuple[Array, ...], num_vertices: int, directed: bool) -> None:
        self.backend, self.directed = backend, directed
        self.G = dynstore.DynamicGraph(directed, weighted=len(edges) == 3, device=backend.name)
        self.G.insert_edges(edges)
        self.G.insert_vertices([num_vertices - 1])
        self.packed = self.G.snapshot().compact()
        degrees = backend.to_host(self.packed.offsets[1:] - self.packed.offsets[:-1])
        self.hubs = np.argsort(-degrees, kind="stable")[:SOURCES].tolist()

    def kernels(self, family: str, module: str = "") -> Any:
        """Return the kernels of a family of algorithms."""
        return self.backend.kernels(f"dynstore.algorithms.{family}", module)

    def back(self, out: Any) -> Any:
        """Return the in-edges for a search from both sides; as in the public functions, None for a directed graph."""
        return None if self.directed else out

    def of_cugraph(self, cugraph: Any, pulls: bool) -> Any:
        """Build ``cugraph.Graph`` of the same graph; for a symmetric one each pair is passed once."""
        src, dst, weights = self.packed.sources, self.packed.indices, self.packed.weights
        columns = {"src": src, "dst": dst, **({} if weights is None else {"weight": weights})}
        if not self.directed:
            columns = {name: column[src <= dst] for name, column in columns.items()}
        vertices = self.backend.xp.arange(self.packed.num_vertices, dtype=np.int32)
        graph = cugraph.Graph(directed=self.directed)
        graph.from_cudf_edgelist(
            make_frame(self.backend, columns), "src", "dst", edge_attr=None if weights is None else "weight",
            store_transposed=pulls, vertices=make_frame(self.backend, {"vertex": vertices})["vertex"],
        )  # fmt: skip
        return graph


@dataclass(frozen=True)
class _Algorithm:
    """One algorithm, as the variants call it."""

    apart: float  # allowed difference of results (L1), as a share of their sum; 0: equal
    prepare: Callable[[Case, Any, Any], Callable[[], Any]]  # from a case, out- and in-edges: the kernels' call
    arguments: Callable[[Case], dict[str, Any]] = lambda case: {}  # arguments of the public function, in both libraries
    weighted: bool = False
    pulls: bool = False
    directed: tuple[str, ...] = ("dynstore", "cugraph")  # libraries that take directed graphs


def _pagerank(case: Case, out: Any, into: Any) -> Callable[[], Any]:
    kernels, start = case.kernels("link_analysis", "ranks"), case.backend.empty(out.num_vertices, np.float32)
    start.fill(1.0 / out.num_vertices)
    return partial(kernels.pagerank, into, kernels.sum_out_weights(out), 0.85, None, start, ITERATIONS, 0.0)


ALGORITHMS = {
    "bfs": _Algorithm(
        0.0,
        lambda case, out, _: partial(
            case.kernels("traversal", "search").bfs, out, case.back(out), np.array(case.hubs[:1]), NO_LIMIT, True
        ),
        lambda case: {"start": case.hubs[0]},
    ),
    "sssp": _Algorithm(
        0.0, lambda case, out, _: partial(case.kernels("traversal", "search").sssp, out, case.hubs[0], np.inf),
        lambda case: {"source": case.hubs[0]}, weighted=True,
    ),
    "pagerank": _Algorithm(
        1e-5, _pagerank, lambda case: {"max_iter": ITERATIONS, "tol": 0.0, "fail_on_nonconvergence": False}, pulls=True
    ),
    "weakly_connected_components": _Algorithm(
        0.0,
        lambda case, out, _: partial(case.kernels("components", "labels").label_components, out, not case.directed),
        directed=("dynstore",),
    ),
    "triangle_count": _Algorithm(
        0.0, lambda case, out, _: partial(case.kernels("community", "triangles").count_triangles, out), directed=()
    ),
    "betweenness_centrality": _Algorithm(
        1e-4,
        lambda case, out, _: partial(
            case.kernels("centrality").accumulate_dependencies, out, case.back(out), np.array(case.hubs), False
        ),
        lambda case: {"k": case.hubs},
    ),
}  # fmt: skip


def make_edges(
    backend: Backend, scale: int, edge_factor: int, seed: int, by_degree: bool, weighted: bool
) -> tuple[Array, ...]:
    """Return an RMAT graph's events on the device, duplicates among them; weights are the same in both directions."""
    events, xp, num_vertices = _events(scale, edge_factor, seed), backend.xp, 1 << scale
    src, dst = (backend.asarray(column.astype(np.int32)) for column in (events.src, events.dst))
    if by_degree:
        degrees = xp.bincount(src, minlength=num_vertices) + xp.bincount(dst, minlength=num_vertices)
        names = xp.empty(num_vertices, dtype=np.int32)
        names[xp.argsort(-degrees, kind="stable")] = xp.arange(num_vertices, dtype=np.int32)
        src, dst = names[src], names[dst]
    if not weighted:
        return src, dst
    low, high = xp.minimum(src, dst).astype(np.int64), xp.maximum(src, dst).astype(np.int64)
    return src, dst, ((low * 7919 + high * 104729) % 100 + 1).astype(np.float32)


def _measure(case: Case, name: str, cugraph: Any, repeats: int) -> tuple[dict[str, list[float]], str | None]:
    """Return the ms of each variant, and a line that names differing results, or None."""
    G, packed, algorithm = case.G, case.packed, ALGORITHMS[name]
    out = G.snapshot()
    into = G.snapshot(transposed=True) if algorithm.pulls else out
    packed_in = into.compact() if algorithm.pulls and case.directed else packed
    arguments = algorithm.arguments(case)
    calls: dict[str, Callable[[], Any]] = {
        "dynstore": partial(getattr(dynstore, name), G, **arguments),
        "kernels, gapped": algorithm.prepare(case, out, into),
        "kernels, packed": algorithm.prepare(case, packed, packed_in),
    }
    if cugraph is not None and ("cugraph" in algorithm.directed or not case.directed):
        calls["cuGraph"] = partial(getattr(cugraph, name), case.of_cugraph(cugraph, algorithm.pulls), **arguments)
    times: dict[str, list[float]] = {way: [] for way in calls}
    results = {}
    with quiet():
        for number, (way, call) in product(range(WARM_UPS + repeats), calls.items()):
            results[way], passed_ms = time_call(case.backend, call)
            if number >= WARM_UPS:
                times[way].append(passed_ms)
    values = {way: _values(case, name, result) for way, result in results.items()}
    for way, other in (("kernels, packed", "kernels, gapped"), ("cuGraph", "dynstore")):
        if way in values and not _are_near(values[way], values[other], algorithm.apart):
            return times, f"results of {way} are not those of {other}"
    return times, None


def _are_near(one: np.ndarray, wanted: np.ndarray, apart: float) -> bool:
    return one.shape == wanted.shape and bool(np.abs(one - wanted).sum() <= apart * np.abs(wanted).sum())


def _values(case: Case, name: str, result: Any) -> np.ndarray:
    """Return a frame's or the kernels' result by vertex."""
    result = result[0] if isinstance(result, tuple) else result
    if hasattr(result, "columns"):
        result = make_query(name, case.hubs[0], SOURCES).values(result)
    values: np.ndarray = case.backend.to_host(result).astype(np.float64)
    return values


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the JSON of schema 1 on request; return 1 if results differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside_cugraph.algorithms", description=__doc__)
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--edge-factor", type=int, default=16)
    parser.add_argument("--ids", choices=("degree", "arbitrary"), default="degree")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--algorithm", action="append", choices=sorted(ALGORITHMS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--pool", type=int, default=24 << 30, help="bytes that RMM's pool begins with")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    backend, cugraph = get_backend(chosen.device), None
    if backend.on_gpu and importlib.util.find_spec("cugraph") is not None:
        print(share_pool(initial_bytes=chosen.pool))
        cugraph = require("beside_cugraph.algorithms", "cugraph")
    rows, problems = [], []
    for directed, weighted in product((True, False), (False, True)):
        kind = "directed" if directed else "symmetric"
        names = [name for name in chosen.algorithm or ALGORITHMS if ALGORITHMS[name].weighted == weighted]
        names = [name for name in names if not directed or "dynstore" in ALGORITHMS[name].directed]
        if not names:
            continue
        edges = make_edges(backend, chosen.scale, chosen.edge_factor, chosen.seed, chosen.ids == "degree", weighted)
        case = Case(backend, edges, 1 << chosen.scale, directed)
        print(f"\n{kind}, ids {chosen.ids}: {case.G}", flush=True)
        for name in names:
            times, problem = _measure(case, name, cugraph, chosen.repeats)
            problems.append(problem)
            shown = "  ".join(f"{way} {percentiles(values)['median_ms']:.3f}" for way, values in times.items())
            print(f"  {name:28}{shown} ms  {problem or ''}".rstrip(), flush=True)
            rows += [
                {
                    "store": f"{way}, {kind}", "device": backend.name, "operation": "algorithm", "algorithm": name,
                    "batch": 0, "edges": case.G.number_of_edges(), "steps": len(values), **percentiles(values),
                    "bytes": None,
                }
                for way, values in times.items()
            ]  # fmt: skip
        del case, edges
    if chosen.json is not None:
        dataset = {
            "name": f"rmat:{chosen.scale}:{chosen.edge_factor}, ids {chosen.ids}", "seed": chosen.seed,
            "vertices": 1 << chosen.scale, "edges": chosen.edge_factor << chosen.scale,
        }  # fmt: skip
        typed = sys.argv[1:] if arguments is None else arguments
        command = shlex.join(["python", "-m", "benchmarks.beside_cugraph.algorithms", *typed])
        document = make_document("algorithms", command, dataset, rows, not any(problems))
        chosen.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(any(problems))


if __name__ == "__main__":
    run_as_command(main)
