"""A graph on a Dask cluster: the newest messages of a college, and who is central among them.

The messages come in parts, each a Dask frame. When a part comes into the graph, the edges of the oldest one leave it.
Ranks and components come back as Dask frames. At the end, they are compared with those of one graph.

    python examples/dask_graph.py              # a LocalCUDACluster where there are GPUs, else a LocalCluster
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dynstore
from dynstore import datasets
from dynstore.adapters.dask import DaskGraph, pagerank, weakly_connected_components

ENDS = ["source", "destination"]


class Finding(NamedTuple):
    """What is known after a step."""

    edges: int
    most_central: int
    largest_component: int


def start_cluster(workers: int) -> Any:
    """Return a cluster with so many workers on this host."""
    try:
        from dask_cuda import LocalCUDACluster
    except ImportError:
        from distributed import LocalCluster

        return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
    return LocalCUDACluster(n_workers=workers, dashboard_address=":0")


def read_messages(parts: int) -> list[pd.DataFrame]:
    """Return the messages in parts by time: pairs of students, lower number first, each pair once a part."""
    messages = datasets.load("collegemsg")
    pairs = np.array_split(np.sort(np.stack((messages.src, messages.dst), axis=1)), parts)
    return [pd.DataFrame(part, columns=ENDS).drop_duplicates(ignore_index=True) for part in pairs]


def as_dask_frame(frame: pd.DataFrame, client: Any, on_gpu: bool) -> Any:
    """Return a frame as two partitions on the cluster."""
    import dask.dataframe

    found = dask.dataframe.from_pandas(frame, npartitions=2)
    return client.persist(found.to_backend("cudf") if on_gpu else found)


def find(ranks: Any, labels: Any, edges: int) -> Finding:
    """Read the answers, which are frames of the client."""
    central = ranks.sort_values(["pagerank", "vertex"])["vertex"].iloc[-1]
    return Finding(edges, int(central), int(labels["labels"].value_counts().max()))


def watch(client: Any, parts: int, kept: int) -> list[Finding]:
    """Let the newest parts through the graph; return what was found after each."""
    messages, findings = read_messages(parts), []
    with DaskGraph(client, directed=False) as G:
        for step, part in enumerate(messages):
            there = pd.concat(messages[max(0, step - kept + 1) : step + 1]).drop_duplicates(ignore_index=True)
            oldest = messages[step - kept] if step >= kept else part.iloc[:0]
            gone = oldest.merge(there, how="left", indicator=True).query("_merge == 'left_only'")
            G.update(insert=as_dask_frame(part, client, G.device == "cuda"), delete=gone[ENDS])
            ranks, labels = (function(G).compute() for function in (pagerank, weakly_connected_components))
            findings.append(find(ranks, labels, G.number_of_edges()))
            print(*findings[-1], sep="\t", flush=True)
        one = dynstore.DynamicGraph.from_edges(there, directed=False, device="cpu", frames="pandas")
        one.insert_vertices(ranks["vertex"].max())
        wanted = find(dynstore.pagerank(one), dynstore.weakly_connected_components(one), one.number_of_edges())
        assert findings[-1] == wanted, f"the cluster has {findings[-1]}, one graph {wanted}"
        print(f"the same answers on {len(G.workers)} workers and on one graph", flush=True)
    return findings


def main(workers: int = 2, parts: int = 6, kept: int = 3) -> list[Finding]:
    """Start a cluster, and watch the messages there."""
    from distributed import Client

    with ExitStack() as stack:
        cluster = stack.enter_context(start_cluster(workers))
        return watch(stack.enter_context(Client(cluster)), parts, kept)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--parts", type=int, default=6)
    parser.add_argument("--kept", type=int, default=3, help="parts that are in the graph at a time")
    main(**vars(parser.parse_args()))
