"""One graph over several processes: who is central in a college's messages, after every batch.

Each rank reads a share of the messages. All insert what they have, and ask for ranks and components of the whole graph.
At the end, the answers are compared with those of one graph. The same program runs under each of

    torchrun --nproc-per-node 2 examples/sharded_graph.py         # a GPU each, connected by NCCL
    mpirun -n 2 python -m mpi4py examples/sharded_graph.py        # hosts, connected by MPI
    python examples/sharded_graph.py                              # threads of this process
"""

from __future__ import annotations

import argparse
import os
import pickle
from typing import Any, NamedTuple

import numpy as np

import dynstore
from dynstore import datasets, distributed

MPI_VARIABLES = "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"


class Finding(NamedTuple):
    """What is known after a batch."""

    edges: int
    most_central: int
    largest_component: int


def connect() -> distributed.Communicator | None:
    """Return the connection to the processes that were started with this one; None if there are none."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        import cupy
        import torch.distributed

        cupy.cuda.Device(int(os.environ["LOCAL_RANK"])).use()
        # torchrun has a store, by which rank 0 tells the others where NCCL finds it.
        store, rank, size = next(torch.distributed.rendezvous("env://"))
        if rank == 0:
            store.set("dynstore", pickle.dumps(distributed.new_identifier()))
        comm = distributed.NcclCommunicator(pickle.loads(store.get("dynstore")), rank, size)
        comm.barrier()  # rank 0 has the store: it must not end before the others have read
        return comm
    if any(name in os.environ for name in MPI_VARIABLES):
        return distributed.MpiCommunicator()
    return None


def watch(comm: distributed.Communicator, batches: int) -> list[Finding]:
    """Insert the messages in so many batches; all ranks return the same findings."""
    messages = datasets.load("collegemsg")
    G = distributed.ShardedGraph(comm, directed=False, frames="pandas")
    findings = []
    for batch in np.array_split(np.arange(len(messages.src)), batches):
        own = batch[comm.rank :: comm.size]
        G.insert_edges((messages.src[own], messages.dst[own]))
        findings.append(find(G, distributed))
        if comm.rank == 0:
            print(*findings[-1], sep="\t", flush=True)
    compare(comm, G, findings[-1])
    return findings


def find(G: Any, algorithms: Any) -> Finding:
    """Ask a graph, one or a sharded one."""
    ranks = algorithms.pagerank(G, tol=1e-7)
    labels = algorithms.weakly_connected_components(G)["labels"]
    central = int(ranks["vertex"][ranks["pagerank"].argmax()])
    return Finding(G.number_of_edges(), central, int(labels.value_counts().max()))


def compare(comm: distributed.Communicator, G: distributed.ShardedGraph, last: Finding) -> None:
    """Bring the whole graph to rank 0, and ask it there."""
    whole = G.gather(0)
    if whole is not None:
        wanted = find(whole, dynstore)
        assert last == wanted, f"{comm.size} ranks find {last}, one graph {wanted}"
        print(f"the same answers on {comm.size} ranks and on one graph", flush=True)


def main(batches: int = 6, ranks: int = 2) -> list[Finding]:
    """Run on the ranks that were started, else on so many threads."""
    comm = connect()
    if comm is None:
        return distributed.run(lambda comm: watch(comm, batches), ranks, device="cpu")[0]
    return watch(comm, batches)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument(
        "--ranks", type=int, default=2, help="threads, where neither torchrun nor mpirun has started it"
    )
    main(**vars(parser.parse_args()))
