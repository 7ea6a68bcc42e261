"""Forks processes that update a database, and kills them: ``python killed.py FOLDER ROUNDS SEED KIND``.

Each process goes on where the one before it was killed, also while it recovers. What it acknowledges goes through a
pipe. After each kill the graph must be what the same updates make of another graph, at an acknowledged version or the
next one.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from dynstore import Database, DynamicGraph
from dynstore.durable import log
from tests.durable.scenes import FAST, KINDS, content, named, opened


def update(graph: DynamicGraph, kind: str, seed: int) -> None:
    """Make the update that comes after a version."""
    rng, options = np.random.default_rng([seed, graph.version]), KINDS[kind]
    count = int(rng.integers(1, 60))
    ends = tuple(named(kind, rng.integers(0, 40, count)) for _ in range(2))
    weights = (rng.integers(0, 9, count) / 4,) if options.get("weighted") else ()
    extra = tuple(rng.integers(0, 99, count) for _ in options.get("edge_columns", ()))
    if options.get("timestamps"):
        extra += (rng.integers(0, 99, count),)
    choice = graph.version % 4
    if graph.is_multigraph() and choice < 2:
        fresh = np.unique(rng.integers(0, 10**6, count)) + 10**6 * graph.version
        rows = tuple(column[: len(fresh)] for column in (*ends, *weights, *extra))
        graph.update(insert=rows, edge_id=fresh, delete=ends, which=("oldest", "all")[choice])
    elif choice == 0:
        graph.delete_edges(ends)
    elif choice == 1:
        graph.update(insert=(*ends, *weights, *extra), delete=ends)
    else:
        graph.insert_edges((*ends, *weights, *extra))


def child(folder: Path, kind: str, seed: int, acknowledge: int, ready: int) -> None:
    """Update a database until the end; checkpoints are written in the background all the time."""
    os.write(ready, b"!")
    db = Database(folder, "commit", 3000, 2, {"device": "cpu", **KINDS[kind]})
    while True:
        version = db.graph.version
        with db.positioned(b"%d" % (version + 1)):
            update(db.graph, kind, seed)
        os.write(acknowledge, (version + 1).to_bytes(8, "little"))


def main(folder: Path, rounds: int, seed: int, kind: str) -> None:
    log.SEGMENT_BYTES = 4000
    if kind != "strings":
        log.LARGE_BYTES = 0  # a thread appends each record
    rng, twin = np.random.default_rng(seed), DynamicGraph(device="cpu", **KINDS[kind])
    warm = twin.copy()  # the kernels are loaded once, before the processes are forked
    for _ in range(5):
        update(warm, kind, seed)
    acknowledged = 0
    for _ in range(rounds):
        (read, acknowledge), (wait, ready) = os.pipe(), os.pipe()
        process = os.fork()
        if not process:
            try:
                child(folder, kind, seed, acknowledge, ready)
            finally:
                os._exit(1)
        os.close(acknowledge)
        os.close(ready)
        os.read(wait, 1)
        updates = int(rng.integers(0, 5))  # it is killed after so many, or while it recovers
        for _ in range(updates):
            acknowledged = int.from_bytes(os.read(read, 8), "little")
        time.sleep(float(rng.exponential(0.004 if updates else 0.03)))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        assert os.WIFSIGNALED(status), "the process has ended by itself"
        while got := os.read(read, 8):
            acknowledged = int.from_bytes(got, "little")
        os.close(read)
        os.close(wait)
        with opened(folder, FAST, **KINDS[kind]) as db:
            version = db.graph.version
            assert acknowledged <= version <= acknowledged + 1, (acknowledged, version)
            assert db.position == (b"%d" % version if version else None)
            while twin.version < version:
                update(twin, kind, seed)
            assert content(db.graph) == content(twin), version
        acknowledged = version
    print(rounds, "kills,", acknowledged, "updates")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
