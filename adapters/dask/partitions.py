"""Batches of edges as partitions that lie with ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dynstore.input.forms import WEIGHT

if TYPE_CHECKING:
    from dynstore.adapters.dask.crew import Crew
    from dynstore.adapters.dask.progress import Watch

__all__ = ["is_dask_frame", "lay_batch"]


def is_dask_frame(edges: Any) -> bool:
    """Return whether edges are a dask or dask-cudf DataFrame."""
    return hasattr(edges, "__dask_graph__") and hasattr(edges, "npartitions") and hasattr(edges, "columns")


def lay_batch(caller: str, crew: Crew, watch: Watch, edges: Any, names: Sequence[str | None]) -> str | None:
    """Bring a batch to the ranks; return its name there, or None if there is none.

    Partitions of a Dask frame are computed where Dask wants to, and stay where they are: each goes to the rank on its
    worker. Rows of the client go to rank 0. Which rank reads a row does not matter: the owners of the vertices get it.

    Parameters
    ----------
    names : sequence of str or None
        The columns that are read, if the frame has the first two; None for a column of weights that is not named.
    """
    if edges is None:
        return None
    batch = f"batch-{uuid4().hex}"
    if is_dask_frame(edges):
        parts = _place_partitions(caller, crew, watch, edges, names)
    else:
        parts = {0: crew.client.scatter([edges], workers=[crew.addresses[0]], hash=False)}
    crew.lay_ready(caller, batch, parts)
    return batch


def _place_partitions(
    caller: str, crew: Crew, watch: Watch, edges: Any, names: Sequence[str | None]
) -> dict[int, list[Any]]:
    """Compute the partitions of a frame, and give each to a rank."""
    there = list(edges.columns)
    if all(name in there for name in names[:2]):  # a rank says which column is missing
        read = [*names[:2], *(name or WEIGHT for name in names[2:])]
        edges = edges[[name for name in dict.fromkeys(read) if name in there]]
    watch.partitions = futures = crew.client.compute(edges.to_delayed())
    crew.wait(caller, futures)
    holders = crew.client.who_has(futures)
    parts: dict[int, list[Any]] = {rank: [] for rank in range(len(crew.addresses))}
    for future in futures:
        on = [rank for rank, address in enumerate(crew.addresses) if address in holders[future.key]]
        parts[on[0] if on else min(parts, key=lambda rank: len(parts[rank]))].append(future)
    return {rank: given for rank, given in parts.items() if given}
