"""Batches of edges as partitions that lie with ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynstore.adapters.dask.crew import Crew, WorkerRows
from dynstore.adapters.libraries import require
from dynstore.errors import InputError
from dynstore.input.forms import WEIGHT, check_form, open_edges

if TYPE_CHECKING:
    from dynstore.adapters.dask.progress import Watch

__all__ = ["is_dask_frame", "lay_batch", "ready_partitions"]


def is_dask_frame(edges: Any) -> bool:
    """Return whether edges are a dask or dask-cudf DataFrame."""
    return hasattr(edges, "__dask_graph__") and hasattr(edges, "npartitions") and hasattr(edges, "columns")


def lay_batch(caller: str, crew: Crew, watch: Watch, edges: Any, names: Sequence[str | None]) -> WorkerRows | None:
    """Find or bring a batch to workers; return what each rank reads of it, or None if there is none.

    Partitions of a Dask frame stay where they are: each goes to the rank on its worker. Those that are not ready are
    computed where Dask wants to. Rows of the client go to rank 0. Which rank reads a row does not matter: the owners of
    the vertices get it.

    Parameters
    ----------
    names : sequence of str or None
        The columns that are read, if the frame has the first two; None for a column of weights that is not named.
    """
    if edges is None:
        return None
    if is_dask_frame(edges):
        return _place_partitions(caller, crew, watch, edges, names)
    edges = open_edges(caller, edges)
    check_form(caller, edges)
    future = crew.bring(caller, edges)
    return WorkerRows([future], [[future.key], *([] for _ in crew.addresses[1:])])


def _place_partitions(caller: str, crew: Crew, watch: Watch, edges: Any, names: Sequence[str | None]) -> WorkerRows:
    """Give each partition of a frame to a rank, once it is computed."""
    futures = ready_partitions(caller, crew.client, edges)
    if futures is None:
        there = list(edges.columns)
        if all(name in there for name in names[:2]):  # a rank says which column is missing
            read = [*names[:2], *(name or WEIGHT for name in names[2:])]
            edges = edges[[name for name in dict.fromkeys(read) if name in there]]
        futures = crew.client.compute(edges.to_delayed())
    watch.partitions = futures
    crew.wait(caller, futures)
    holders = crew.client.who_has(futures)
    keys: list[list[Any]] = [[] for _ in crew.addresses]
    for future in futures:
        on = [rank for rank, address in enumerate(crew.addresses) if address in holders[future.key]]
        (keys[on[0]] if on else min(keys, key=len)).append(future.key)
    return WorkerRows(futures, keys)


def _check_cluster(caller: str, client: Any, future: Any) -> None:
    """Refuse a partition of another cluster; one of another client of the same cluster will do."""
    if future.client is client:
        return
    there, here = (each.scheduler.address for each in (future.client, client))
    if there != here:
        raise InputError(f"{caller}: the frame is on the cluster of {there}; wanted the graph's cluster, {here}")


def ready_partitions(caller: str, client: Any, edges: Any) -> list[Any] | None:
    """Return the futures that the partitions of a frame are, or None if Dask still has to compute some of them."""
    alias = require(caller, "dask._task_spec").Alias  # a second name of a task
    future = require(caller, "distributed").Future
    graph, found = edges.__dask_graph__(), []
    for key in edges.__dask_keys__():
        while isinstance(graph.get(key), alias):
            key = graph[key].target
        if isinstance(graph.get(key), future):
            _check_cluster(caller, client, graph[key])
            found.append(graph[key])
        elif key not in graph and key in client.futures:
            found.append(future(key, client))
        else:
            return None
    return found
