"""A graph keeps to its own client where there are several; a client that ends, and what it lays with workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore.adapters import dask as on_dask
from dynstore.adapters.dask import DaskGraph
from dynstore.distributed import ShardedGraph
from dynstore.errors import InputError, InputTypeError, RankError
from tests.adapters.dask.clusters import partitions, wait_for

ENDS = ["source", "destination"]
FRAME = pd.DataFrame({"source": [0, 1, 2, 5], "destination": [1, 2, 0, 6], "weight": [1.0, 2.0, 3.0, 4.0]})
CLOSED = "^{}: this graph cannot be used any more: its client was closed$"


@pytest.fixture
def other(cluster: Any, client: Any) -> Any:
    """A newer client of the same cluster, which Dask takes where none is named."""
    from distributed import Client

    with Client(cluster.scheduler_address) as found:
        yield found


def slow(offset: float) -> Any:
    """Return a frame whose partitions take a moment; ``offset`` makes it another one."""
    frame = FRAME.assign(weight=FRAME["weight"] + offset)
    return partitions(frame, 2).map_partitions(pause, meta=FRAME.iloc[:0])


def pause(part: pd.DataFrame) -> pd.DataFrame:
    time.sleep(0.2)
    return part


def test_frames_of_another_client(client: Any, other: Any) -> None:
    from distributed import Client, LocalCluster, wait

    ready = other.persist(slow(1))
    wait(ready)
    assert other.loop is not client.loop
    with DaskGraph(client, weighted=True) as G, DaskGraph(other, weighted=True) as H:
        assert G.insert_edges(slow(0)).inserted == 4
        for given, first in ((ready, 2.0), (other.persist(slow(2)), 3.0), (ready[ready["weight"] > 0], 2.0)):
            assert G.insert_edges(given).replaced == 4
            assert G.edge_weights([(0, 1)]).tolist() == [first]
        with pytest.raises(ValueError, match="on purpose"):
            G.insert_edges(other.persist(slow(3).map_partitions(fail, meta=FRAME.iloc[:0])))
        table = G.edge_table()
        assert H.insert_edges(table).inserted == 4
        assert sorted(H.edge_table().compute()["weight"]) == [2.0, 3.0, 4.0, 5.0]
        assert len(on_dask.pagerank(G).compute()) == 7
        assert G.has_edges(H.edge_table()).compute()["has_edge"].all()
        with (
            LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as elsewhere,
            Client(elsewhere) as third,
        ):
            away = third.persist(partitions(FRAME, 1))
            with pytest.raises(InputError, match=r"^insert_edges: the frame is on the cluster of .*; wanted"):
                G.insert_edges(away)
        assert G.version == 4


def fail(part: pd.DataFrame) -> pd.DataFrame:
    raise ValueError("on purpose")


def test_a_client_that_was_closed(client: Any, other: Any) -> None:
    H = DaskGraph(other, weighted=True)
    H.insert_edges(FRAME)
    other.close()
    for name, call in {
        "insert_edges": lambda: H.insert_edges(FRAME),
        "update": lambda: H.update(partitions(FRAME, 2)),
        "number_of_edges": H.number_of_edges,
        "edge_table": H.edge_table,
        "bfs": lambda: on_dask.bfs(H, 0),
    }.items():
        with pytest.raises(RankError, match=CLOSED.format(name)):
            call()
    assert "its client was closed" in repr(H)
    H.close()
    with pytest.raises(InputError, match=r"^DaskGraph: the client is closed; wanted one that is connected"):
        DaskGraph(other)
    with DaskGraph(client) as G:
        assert G.insert_edges([(0, 1)]).inserted == 1


def test_a_graph_is_closed_when_the_call_of_another_thread_has_ended(client: Any, tmp_path: Path) -> None:
    G, answers = DaskGraph(client), []
    thread = threading.Thread(target=lambda: answers.append(G.run(meet_later, str(tmp_path / "here"))))
    thread.start()
    wait_for(str(tmp_path / "here"))
    G.close()
    thread.join(30)
    assert answers == [["met", "met"]]
    with pytest.raises(RankError, match=r"^run: this graph cannot be used any more: it was closed$"):
        G.run(meet_later, "")


def meet_later(graph: ShardedGraph, path: str) -> str:
    Path(path).touch()
    time.sleep(0.3)
    graph.comm.barrier()
    return "met"


def test_there_is_no_client() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match=r"^DaskGraph: there is no client yet; make a distributed\.Client"):
        DaskGraph()


def test_a_scheduler_that_is_lost() -> None:
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        cluster = distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", protocol="tcp")
        with distributed.Client(cluster.scheduler_address, timeout="1s") as client:
            G, H = (DaskGraph(client, device="cpu") for _ in range(2))
            cluster.close()
            with pytest.raises(RankError, match=r"^insert_edges: the scheduler cannot be reached: .*[^.]\. The graph"):
                G.insert_edges([(0, 1)])
            with pytest.raises(RankError, match=r"^number_of_edges: "):
                H.number_of_edges()
            G.close()


@pytest.mark.parametrize("noticed", [False, True])
def test_rows_of_the_client_for_a_worker_that_is_lost(client: Any, noticed: bool) -> None:
    G = DaskGraph(client)
    address = G.workers[0]
    os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)
    while noticed and address in client.nthreads():
        time.sleep(0.05)
    with pytest.raises(RankError, match=f"^insert_edges: the worker {address}, which was rank 0, is lost. The graph"):
        G.insert_edges([(0, 1)])
    G.close()
    client.wait_for_workers(2, timeout=120)


def on_last_worker(client: Any, *frames: pd.DataFrame) -> Any:
    """Return frames as the partitions of a Dask frame that all lie with the last rank."""
    from dask.dataframe import from_delayed

    futures = [client.scatter([each], workers=[list(client.nthreads())[-1]], hash=False)[0] for each in frames]
    return from_delayed(futures, meta=frames[0].iloc[:0], verify_meta=False)


@pytest.mark.parametrize("ids", [[7, 8], [2**53 + 1, 5], ["a", "b"]])
def test_answers_have_the_dtypes_of_the_edges(client: Any, ids: list[Any]) -> None:
    frame = pd.DataFrame({"destination": ids, "source": ids[::-1]})
    with DaskGraph(client, renumber=True) as G:
        given = on_last_worker(client, frame)
        G.insert_edges(given)
        # With pandas 2, Dask makes Arrow's strings of the objects that it is given; a graph's table has objects.
        for found, name, like in (
            (G.has_edges(given), "has_edge", given),
            (G.edge_weights(given), "weight", given),
            (G.edge_table(), "", frame),
        ):
            wanted = like[ENDS].dtypes.tolist()
            assert found[ENDS].dtypes.tolist() == wanted
            parts = [found.partitions[number].compute() for number in range(2)]
            assert [part[ENDS].dtypes.tolist() for part in parts] == [wanted] * 2
            assert name in ["", found.columns[-1]]


def test_partitions_without_rows_have_any_dtypes(client: Any) -> None:
    nothing = pd.DataFrame({"source": [], "destination": []})
    numbers = pd.DataFrame({"destination": np.array([4], np.int32), "source": [2**53 + 1]})
    with DaskGraph(client, renumber=True) as G:
        for parts in ((nothing, numbers), (numbers, nothing.astype(object)), (nothing, nothing)):
            G.insert_edges(on_last_worker(client, *parts))
        assert G.vertex_ids().tolist() == [4, 2**53 + 1]
        assert (G.number_of_edges(), G.version) == (1, 3)


def test_what_is_no_edges_is_not_sent(client: Any) -> None:
    with DaskGraph(client) as G:
        with pytest.raises(InputTypeError, match=r"^insert_edges: edges is a generator; wanted a pandas"):
            G.insert_edges(pair for pair in [(0, 1)])
        with pytest.raises(InputTypeError, match=r"^delete_edges: edges is a int; wanted a pandas"):
            G.delete_edges(5)
        assert G.version == 0
