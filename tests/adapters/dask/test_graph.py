"""A graph on a Dask cluster is like one graph; what fails on a worker changes nothing, or ends the graph."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters import dask as on_dask
from dynstore.adapters.dask import DaskGraph
from dynstore.errors import FailedToConvergeError, InputError, InputTypeError, RankError, UnweightedGraphError
from tests.adapters.dask.clusters import (
    edges_of,
    ends_a_rank,
    partitions,
    raises_on_a_rank,
    ranks_of,
    wait_for,
    waits_for,
)
from tests.distributed.processes import check_collectives

COUNTS = ("inserted", "replaced", "deleted", "absent", "duplicates")
ENDS = ["source", "destination"]


def in_order(frame: Any, by: list[str]) -> pd.DataFrame:
    return frame.compute().sort_values(by, ignore_index=True)


def same_report(found: Any, wanted: Any) -> None:
    assert {name: getattr(found, name) for name in COUNTS} == {name: getattr(wanted, name) for name in COUNTS}


@pytest.mark.parametrize("directed", [True, False])
def test_a_graph_is_like_one_graph(client: Any, rng: np.random.Generator, directed: bool) -> None:
    options: dict[str, Any] = {"directed": directed, "weighted": True, "frames": "pandas"}
    one = dynstore.DynamicGraph(device="cpu", **options)
    del options["frames"]
    first, second = edges_of(rng), edges_of(rng)
    gone = first.sample(400, random_state=1)
    with DaskGraph(client, **options) as G:
        assert (len(G.workers), G.device, G.is_directed(), G.is_weighted()) == (2, "cpu", directed, True)
        same_report(G.insert_edges(partitions(first, 5)), one.insert_edges(first))
        same_report(G.delete_edges(partitions(gone, 3)), one.delete_edges(gone))
        same_report(G.update(partitions(second, 2), gone), one.update(second, gone))
        assert (G.number_of_edges(), G.number_of_vertices(), G.version) == (one.number_of_edges(), 300, 3)

        table = in_order(G.edge_table(), ENDS)
        pd.testing.assert_frame_equal(table, one.edge_table().sort_values(ENDS, ignore_index=True))
        pd.testing.assert_frame_equal(in_order(G.degree(), ["vertex"]), one.degree())
        assert (G.out_degree(7), G.in_degree(7)) == (one.out_degree(7), one.in_degree(7))
        assert G.vertex_ids().tolist() == one.vertex_ids().tolist()
        there = in_order(G.has_edges(partitions(first, 4)), ENDS)["has_edge"]
        assert there.tolist() == one.has_edges(first.sort_values(ENDS)).tolist()
        np.testing.assert_array_equal(G.edge_weights(first), one.edge_weights(first))

        for name in ("bfs", "sssp"):
            found, wanted = in_order(getattr(on_dask, name)(G, 7), ["vertex"]), getattr(dynstore, name)(one, 7)
            assert (found.dtypes == wanted.dtypes).all()
            assert found["distance"].tolist() == wanted["distance"].tolist()
        labels = in_order(on_dask.weakly_connected_components(G), ["vertex"])
        pd.testing.assert_frame_equal(labels, dynstore.weakly_connected_components(one))
        ranks, converged = on_dask.pagerank(G, fail_on_nonconvergence=False)
        np.testing.assert_allclose(
            in_order(ranks, ["vertex"])["pagerank"], dynstore.pagerank(one)["pagerank"], atol=1e-4
        )
        assert converged
        if not directed:
            pd.testing.assert_frame_equal(in_order(on_dask.triangle_count(G), ["vertex"]), dynstore.triangle_count(one))
            chosen = in_order(on_dask.triangle_count(G, [9, 3]), ["vertex"])
            assert chosen["counts"].tolist() == dynstore.triangle_count(one, [3, 9])["counts"].tolist()
        with pytest.raises(FailedToConvergeError, match="after 1 iterations"):
            on_dask.pagerank(G, max_iter=1)
        assert on_dask.bfs(G, 7).npartitions == 2  # still usable


def test_rows_of_the_client_count_in_their_order(client: Any) -> None:
    with DaskGraph(client, weighted=True) as G:
        report = G.insert_edges([(5, 6, 1.0), (5, 6, 2.0), (1, 2, 3.0)])
        assert (report.inserted, report.duplicates) == (2, 1)
        G.insert_edges(([7], [8], [9.0]))
        G.insert_edges(pd.DataFrame({"a": [1], "b": [2], "w": [4.5]}), "a", "b", "w")
        assert G.edge_weights([(5, 6), (7, 8), (1, 2)]).tolist() == [2.0, 9.0, 4.5]
        assert G.has_edges([(5, 6), (6, 5)]).tolist() == [True, False]
        G.insert_vertices([20])
        assert G.number_of_vertices() == 21
        assert repr(G).startswith("DaskGraph(directed, 21 vertices, 3 edges, 2 workers, device='cpu', version=")


def test_ids_of_any_kind(client: Any, rng: np.random.Generator) -> None:
    numbers = edges_of(rng, 400, 60)
    frame = pd.DataFrame({end: "v" + numbers[end].astype(str) for end in ENDS})
    one = dynstore.DynamicGraph(device="cpu", directed=False, renumber=True, frames="pandas")
    with DaskGraph(client, directed=False, renumber=True) as G:
        same_report(G.insert_edges(partitions(frame, 4)), one.insert_edges(frame))
        G.insert_edges(partitions(frame.iloc[:3].assign(destination="new"), 1))  # on one worker only
        one.insert_edges(frame.iloc[:3].assign(destination="new"))
        found = in_order(on_dask.bfs(G, "new"), ["vertex"])[["vertex", "distance"]]
        wanted = dynstore.bfs(one, "new").sort_values("vertex", ignore_index=True)[["vertex", "distance"]]
        assert found.to_dict() == wanted.to_dict()


def test_a_refused_batch_changes_nothing(client: Any, rng: np.random.Generator) -> None:
    frame = edges_of(rng, 500)
    bad = frame.copy()
    bad.loc[len(bad) - 1, "destination"] = -3
    with DaskGraph(client, weighted=True) as G:
        G.insert_edges(partitions(frame, 3))
        before = G.number_of_edges(), G.version, in_order(G.edge_table(), ENDS)
        with pytest.raises(InputError, match=r"^insert_edges: rank \d refused it: `destination` has -3 at row"):
            G.insert_edges(partitions(bad, 4))
        with pytest.raises(InputError, match="insert_edges: rank 0 refused it: "):
            G.insert_edges([(1, -2, 1.0)])
        with pytest.raises(InputError, match=r"^insert_edges: columns not found: destination; the frame has"):
            G.insert_edges(partitions(frame.rename(columns={"destination": "to"}), 2))
        with pytest.raises(ValueError, match="a partition fails"):  # in Dask, before any rank sees it
            G.insert_edges(partitions(frame, 2).map_partitions(fail, meta=frame.iloc[:0]))
        assert (G.number_of_edges(), G.version) == before[:2]
        pd.testing.assert_frame_equal(in_order(G.edge_table(), ENDS), before[2])
        with (
            pytest.raises(UnweightedGraphError, match="requires the input graph to be weighted"),
            DaskGraph(client) as H,
        ):
            on_dask.sssp(H, 0)


def fail(part: pd.DataFrame) -> pd.DataFrame:
    raise ValueError("a partition fails")


@pytest.mark.parametrize("how", ["in a call", "between calls", "while partitions are computed"])
def test_a_lost_worker_ends_the_graph(client: Any, rng: np.random.Generator, how: str) -> None:
    G = DaskGraph(client, weighted=True)
    G.insert_edges(edges_of(rng, 100))
    address, began = G.workers[1], time.monotonic()
    process = client.run(os.getpid, workers=[address])[address]
    lost = rf"the worker {address}, which was rank 1, is lost. The graph cannot be used any more$"
    if how == "in a call":
        with pytest.raises(RankError, match=f"^run: {lost}"):
            G.run(ends_a_rank)
    else:
        slow = partitions(edges_of(rng, 100), 2).map_partitions(slowly, 1.0, meta=edges_of(rng, 1).iloc[:0])
        kill = threading.Timer(0.0 if how == "between calls" else 0.5, os.kill, (process, signal.SIGKILL))
        kill.start()
        if how == "between calls":
            kill.join()
        with pytest.raises(RankError, match=f"^insert_edges: {lost}"):
            G.insert_edges(slow)
    assert time.monotonic() - began < 60  # far below the time that a rank waits for another
    with pytest.raises(RankError, match=f"^bfs: this graph cannot be used any more: .*{address}"):
        on_dask.bfs(G, 0)
    assert "it cannot be used any more" in repr(G)
    G.close()
    client.wait_for_workers(2, timeout=120)
    with DaskGraph(client) as H:  # on the worker that has taken its place
        assert H.insert_edges([(0, 1)]).inserted == 1


def slowly(part: pd.DataFrame, seconds: float) -> pd.DataFrame:
    time.sleep(seconds)
    return part


def test_a_program_that_fails_on_one_rank_ends_the_graph(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynstore.adapters.dask.crew.GRACE", 0.5)
    G = DaskGraph(client)
    with pytest.raises(RankError, match=r"^run: rank 1 raised ZeroDivisionError: on purpose\. The") as caught:
        G.run(raises_on_a_rank)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "raises_on_a_rank" in caught.value.__cause__.__notes__[0]
    with pytest.raises(RankError, match="cannot be used any more"):
        G.number_of_edges()
    with DaskGraph(client) as H:
        with pytest.raises(RankError, match="rank 0 calls insert_edges, rank 1 calls delete_edges"):
            H.run(different_calls)
        with pytest.raises(RankError, match="cannot be used any more"):
            H.run(ranks_of)


def different_calls(graph: Any) -> None:
    (graph.delete_edges if graph.comm.rank else graph.insert_edges)([(0, 1)])


def all_fail(graph: Any) -> None:
    raise ZeroDivisionError("on all ranks")


class Elsewhere:
    """Something of a module that workers have not."""

    def __call__(self, graph: Any) -> None:
        """Not called."""

    def __reduce__(self) -> tuple[Any, ...]:
        return __import__, ("nowhere",)


pickled_elsewhere = Elsewhere()


def check_communicator(graph: Any) -> None:
    check_collectives(graph.comm)


def test_calls_are_no_tasks(client: Any, cluster: Any, rng: np.random.Generator) -> None:
    """Partitions that are ready are read where they are, and results are Dask's when a call ends."""
    from dask.dataframe import from_delayed
    from distributed import futures_of, wait

    frame = edges_of(rng, 400)
    ready = client.persist(partitions(frame, 4))
    wait(ready)
    one = dynstore.DynamicGraph(device="cpu", weighted=True, frames="pandas")
    with DaskGraph(client, weighted=True) as G:
        began = time.time()
        same_report(G.insert_edges(ready), one.insert_edges(frame))
        delayed = from_delayed(futures_of(ready), meta=frame.iloc[:0], verify_meta=False)
        same_report(G.insert_edges(delayed), one.insert_edges(frame))
        there, table, found = G.has_edges(ready), G.edge_table(), on_dask.bfs(G, 7)
        same_report(G.delete_edges(table), one.delete_edges(one.edge_table()))
        assert not tasks_since(cluster, began)
        assert [future.status for future in futures_of([there, table, found])] == ["finished"] * 6
        assert there.compute()["has_edge"].all()
        assert tasks_since(cluster, began)  # of compute
        pd.testing.assert_frame_equal(
            in_order(table, ENDS), frame.sort_values(ENDS, ignore_index=True), check_dtype=False
        )
        del there, table, found
        wait_for_no_results(client)
        with pytest.raises(InputError, match="rank 1 has no table"):
            G.compute_frame("table", has_a_table, 0)
        wait_for_no_results(client)  # nor does that of rank 0 stay
        assert G.number_of_edges() == 0


def test_partitions_of_other_workers_come_in_their_order(client: Any) -> None:
    from distributed import futures_of, wait

    frame = pd.DataFrame({"source": [1] * 8, "destination": [2] * 8, "weight": np.arange(8.0)})
    ready = client.persist(partitions(frame, 8))
    wait(ready)
    assert len(set(sum(client.who_has(futures_of(ready)).values(), ()))) == 2
    with DaskGraph(client, weighted=True, workers=[next(iter(client.nthreads()))]) as G:
        for given, last in ((ready, 7.0), (ready.partitions[::-1], 0.0), (ready.partitions[[0, 5, 3]], 3.0)):
            assert G.insert_edges(given).inserted + G.number_of_edges() >= 1
            assert G.edge_weights([(1, 2)]).tolist() == [last]


def tasks_since(cluster: Any, moment: float) -> list[str]:
    """Return the tasks that workers have computed since then."""
    log = list(cluster.scheduler.transition_log)
    return [str(entry[0]) for entry in log if entry[1:3] == ("processing", "memory") and entry[-1] > moment]


def wait_for_no_results(client: Any) -> None:
    end = time.monotonic() + 30
    while any(client.run(results).values()):
        gc.collect()
        assert time.monotonic() < end, "results stay on a worker"
        time.sleep(0.05)


def results(dask_worker: Any) -> list[str]:
    return [str(key) for key in dask_worker.data if "result-" in str(key)]


def has_a_table(graph: Any, rank: int) -> pd.DataFrame:
    if graph.comm.rank != rank:
        raise InputError(f"rank {graph.comm.rank} has no table")
    return pd.DataFrame({"rank": [rank]})


def test_programs_of_all_ranks(client: Any) -> None:
    with DaskGraph(client) as G:
        G.run(check_communicator)
        assert G.run(ranks_of) == [0, 1]
        with pytest.raises(ZeroDivisionError, match="on all ranks"):
            G.run(all_fail)
        with pytest.raises(InputError, match=r"the worker tcp.* cannot read the call: .*No module named 'nowhere'"):
            G.run(pickled_elsewhere)
        with pytest.raises(AttributeError, match="iloc"):
            G.compute_frame("table", ranks_of)  # no frame
        frame, more = G.compute_frame("table", tables, 5)
        assert more == "rank 0"
        assert sorted(frame.compute()["rank"]) == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
        assert G.run(ranks_of) == [0, 1]  # it can still be used


def tables(graph: Any, rows: int) -> tuple[pd.DataFrame, str]:
    return pd.DataFrame({"rank": [graph.comm.rank] * rows}), f"rank {graph.comm.rank}"


def test_workers_stay_free_while_ranks_work(client: Any, rng: np.random.Generator, tmp_path: Path) -> None:
    with DaskGraph(client) as G:
        frame = edges_of(rng, 100)
        slow = partitions(frame, 2).map_partitions(slowly, 0.3, meta=frame.iloc[:0])
        states = watched(G, lambda: G.insert_edges(slow))
        assert ("insert_edges", "partitions") in {state[:2] for state in states}
        assert max(state.partitions for state in states) == 2
        with pytest.raises(AssertionError, match="not seen"):
            watched(G, lambda: None, 1)
        thread = threading.Thread(target=G.run, args=(waits_for, str(tmp_path / "ranks")))
        thread.start()
        while G.progress()[:2] != ("run", "ranks"):
            time.sleep(0.01)
        assert client.submit(pow, 2, 10, pure=False).result() == 1024  # tasks
        assert len(client.run(os.getpid)) == 2  # event loops
        assert thread.is_alive()
        (tmp_path / "ranks").touch()
        thread.join()
        # Nor does work of the workers hold up a graph's calls, which are no tasks.
        tasks = client.map(wait_for, [str(tmp_path / "tasks")] * 2, pure=False)
        assert G.run(ranks_of) == [0, 1]
        assert [task.status for task in tasks] == ["pending"] * 2
        (tmp_path / "tasks").touch()
        assert G.progress() == (None, "idle", 0, 0, 0.0, 3)
        client.gather(tasks)


def watched(G: DaskGraph, call: Any, least: int = 2) -> list[Any]:
    """Return the states that another thread sees during a call."""
    thread, states = threading.Thread(target=call), []
    thread.start()
    while thread.is_alive():
        states.append(G.progress())
        time.sleep(0.02)
    busy = [state for state in states if state.call is not None]
    assert len(busy) >= least, "not seen"
    return busy


def test_two_graphs_at_once(client: Any, rng: np.random.Generator) -> None:
    graphs = [DaskGraph(client, weighted=True) for _ in range(2)]
    batches = [[edges_of(rng, 200) for _ in range(4)] for _ in graphs]
    failures: list[BaseException] = []

    def fill(G: DaskGraph, frames: list[pd.DataFrame]) -> None:
        try:
            for frame in frames:
                G.insert_edges(partitions(frame, 2))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=fill, args=pair) for pair in zip(graphs, batches, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    for G, frames in zip(graphs, batches, strict=True):
        assert G.number_of_edges() == len(pd.concat(frames).drop_duplicates(ENDS))
        G.close()
        with pytest.raises(RankError, match="cannot be used any more: it was closed"):
            G.number_of_edges()


def test_what_is_refused(client: Any) -> None:
    for given, error, message in (
        ({"client": "x"}, InputTypeError, "client is a str; wanted a distributed.Client"),
        ({"workers": ["tcp://nowhere:1"]}, InputError, "got workers=.*nowhere.*; wanted distinct addresses of"),
        ({"workers": []}, InputError, "wanted distinct addresses"),
        ({"frames": "polars"}, InputError, "frames cannot be chosen"),
        ({"timeout": 0}, InputError, "timeout is 0; wanted more than 0 seconds"),
        ({"device": "cuda"}, InputError, "device 'cuda' cannot be used"),
        ({"store": "nonsense"}, InputError, "unknown store 'nonsense'"),
    ):
        with pytest.raises(error, match=message):
            DaskGraph(**{"client": client, **given})
    with DaskGraph(client, workers=[next(iter(client.nthreads()))]) as G:
        assert G.insert_edges([(0, 1)]).inserted == 1  # one rank
        with pytest.raises(InputError, match=r"^insert_edges: `src` has -1"):
            G.insert_edges([(-1, 1)])
        with pytest.raises(InputTypeError, match="cannot be pickled"):
            pickle.dumps(G)
    with pytest.raises(InputTypeError, match="bfs: G is a int; wanted a DaskGraph"):
        on_dask.bfs(5, 0)  # type: ignore[arg-type]
