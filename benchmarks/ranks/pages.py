"""GTS's Strategy-P and Strategy-S: pages streamed to all ranks' devices, beside one device."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.ranks.bench import RankBench
from benchmarks.rmat_pieces import make_rows
from dynstore import gts
from dynstore.backend import get_backend

__all__ = ["measure_pages"]


def measure_pages(bench: RankBench) -> None:
    """Search and rank streamed pages by both strategies; answers are compared with those of one device."""
    comm, sizes = bench.comm, bench.sizes
    src, dst = make_rows(get_backend("cpu"), sizes.page_scale, sizes.edge_factor << sizes.page_scale, 1)
    topology = gts.build((src, dst))
    stored, start = len(src), int(np.bincount(src).argmax())
    calls: dict[str, Any] = {
        "bfs": lambda engine: engine.bfs(start),
        "pagerank": _rank,
    }
    alone = gts.GTS(topology, device=comm.device)  # type: ignore[arg-type]
    expected = {name: _values(bench, call(alone)) for name, call in calls.items()}
    engines = {f"Strategy-{name}, {comm.size} ranks": gts.ShardedGTS(comm, topology, name) for name in "PS"}
    for store, engine in {**engines, "GTS, 1 rank": alone}.items():
        for name, call in calls.items():
            bench.note(store, name, bench.time(partial(call, engine), steps=3), stored)
            difference = np.abs(_values(bench, call(engine)).astype(np.float64) - expected[name]).max()
            bench.check(f"{name}: {store} as on one device", difference <= (1e-6 if name == "pagerank" else 0))


def _rank(engine: Any) -> Any:
    """Do ten iterations; they need not converge."""
    options: dict[str, Any] = {"max_iter": 10, "tol": 0.0}
    if isinstance(engine, gts.GTS):
        return engine.pagerank(**options, fail_on_nonconvergence=False)[0]
    return engine.pagerank(**options)


def _values(bench: RankBench, frame: Any) -> np.ndarray:
    found: np.ndarray = bench.backend.to_host(frame[frame.columns[1]].values)
    return found
