"""A Dask cluster of two worker processes on the host, and functions that its ranks run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore.distributed import ShardedGraph

__all__ = [
    "client",
    "cluster",
    "edges_of",
    "ends_a_rank",
    "partitions",
    "raises_on_a_rank",
    "ranks_of",
    "wait_for",
    "waits_for",
]

NO_DASK = "needs Dask: pip install '.[dask]'"


@pytest.fixture(scope="package")
def cluster() -> Iterator[Any]:
    """Two workers that see no GPU: on a machine with one, both would want it. Tests may kill them; others come then."""
    distributed = pytest.importorskip("distributed", reason=NO_DASK)
    pytest.importorskip("dask.dataframe", reason=NO_DASK)
    # A busy machine may take longer than Dask's 15 s to start a worker in the place of one that was killed.
    with (
        pytest.importorskip("dask").config.set({"distributed.deploy.lost-worker-timeout": "120s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", env={"CUDA_VISIBLE_DEVICES": ""}
        ) as found,
    ):
        yield found


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    from distributed import Client

    with Client(cluster) as found:
        found.wait_for_workers(2, timeout=120)
        yield found


def partitions(frame: pd.DataFrame, count: int) -> Any:
    """Return a frame as a Dask frame of so many partitions."""
    import dask.dataframe

    return dask.dataframe.from_pandas(frame, npartitions=count, sort=False)


def edges_of(rng: np.random.Generator, count: int = 3000, vertices: int = 300) -> pd.DataFrame:
    """Return distinct undirected edges with weights that add up without rounding."""
    src, dst = rng.integers(0, vertices, (2, count))
    frame = pd.DataFrame({"source": np.minimum(src, dst), "destination": np.maximum(src, dst)})
    frame = frame.drop_duplicates(ignore_index=True)
    return frame.assign(weight=rng.integers(1, 64, len(frame)) / 8)


def ends_a_rank(graph: ShardedGraph) -> None:
    """End the process of rank 1 while rank 0 waits for it."""
    if graph.comm.rank == 1:
        os._exit(1)
    graph.comm.barrier()


def raises_on_a_rank(graph: ShardedGraph) -> None:
    """Raise on rank 1 while rank 0 waits for it."""
    if graph.comm.rank == 1:
        raise ZeroDivisionError("on purpose")
    graph.comm.barrier()


def ranks_of(graph: ShardedGraph) -> int:
    return graph.comm.rank


def waits_for(graph: ShardedGraph, path: str) -> None:
    """Work until a file is there."""
    wait_for(path)


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.02)
