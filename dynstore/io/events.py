"""A stream of edge events, as every reader and generator returns it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynstore.errors import InputError
from dynstore.input.ops import OP_DELETE, OP_INSERT, OP_REWEIGHT, OP_SYMBOLS

__all__ = ["OP_DELETE", "OP_INSERT", "OP_REWEIGHT", "OP_SYMBOLS", "EventTable"]


@dataclass(frozen=True, eq=False)
class EventTable:
    """Edge events in their order.

    Attributes
    ----------
    src, dst : numpy.ndarray, shape (N,), int64
    time : numpy.ndarray, shape (N,), int64, float64 or datetime64[ns] (UTC), or None
        Never decreases, if there is one.
    weight : numpy.ndarray, shape (N,), float64, or None
        NaN only on deletions, which carry no weight.
    op : numpy.ndarray, shape (N,), uint8, or None
        ``OP_INSERT`` (``+``), ``OP_DELETE`` (``-``) or ``OP_REWEIGHT`` (``w``); None: every event inserts.
    name : str
        The origin of the events.
    ids : numpy.ndarray, shape (V,), or None
        What the numbers in ``src`` and ``dst`` stand for: ``ids[k]`` is the file's id of vertex k. None: the numbers
        are the ids.
    dialect : str
        How the file is written, in words; empty if it is no text file.
    first_right : int or None
        Of a bipartite graph: the lowest number of the second side, whose vertices the file numbers apart.
    """

    src: np.ndarray
    dst: np.ndarray
    time: np.ndarray | None = None
    weight: np.ndarray | None = None
    op: np.ndarray | None = None
    name: str = "events"
    ids: np.ndarray | None = None
    dialect: str = ""
    first_right: int | None = None

    def __post_init__(self) -> None:
        for label in ("dst", "time", "weight", "op"):
            column = getattr(self, label)
            if column is not None and column.shape != self.src.shape:
                raise InputError(
                    f"EventTable: `{label}` has shape {column.shape}, `src` has {self.src.shape}; they must be equal"
                )

    def __len__(self) -> int:
        return int(self.src.shape[0])

    @property
    def num_vertices(self) -> int:
        """One more than the highest id, 0 for no events."""
        return int(max(self.src.max(), self.dst.max())) + 1 if len(self) else 0

    def columns(self) -> dict[str, Any]:
        """Return the columns that there are, by role, with the file's own ids.

        Operations are 1 for rows that insert or give a new weight, and -1 for those that delete.
        """
        src, dst = (ends if self.ids is None else self.ids[ends] for ends in (self.src, self.dst))
        op = None if self.op is None else np.where(self.op == OP_DELETE, -1, 1)
        found = {"source": src, "destination": dst, "weight": self.weight, "time": self.time, "op": op}
        return {name: column for name, column in found.items() if column is not None}

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return the events as an Arrow stream, so that :meth:`dynstore.DynamicGraph.insert_edges` takes them.

        Raises
        ------
        InputError
            For events of which some delete: a stream applies these in order.
        """
        import pyarrow

        if self.op is not None and (self.op != OP_INSERT).any():
            raise InputError(
                "EventTable: some events delete or give new weights; dynstore.Stream applies them in order"
            )
        columns: dict[str, Any] = {"source": self.src, "destination": self.dst}
        if self.ids is not None:
            values = pyarrow.array(self.ids)
            columns = {name: pyarrow.DictionaryArray.from_arrays(ends, values) for name, ends in columns.items()}
        others = {"weight": self.weight, "time": self.time}
        columns |= {name: column for name, column in others.items() if column is not None}
        return pyarrow.table(columns).__arrow_c_stream__(requested_schema)

    def sorted_by_time(self) -> EventTable:
        """Return the events by time; events of one time keep their order.

        Returns
        -------
        EventTable
            The same object if the order is right already.
        """
        if self.time is None or len(self) < 2 or bool((self.time[1:] >= self.time[:-1]).all()):
            return self
        order = np.argsort(self.time, kind="stable")
        return replace(
            self,
            src=self.src[order],
            dst=self.dst[order],
            time=self.time[order],
            weight=None if self.weight is None else self.weight[order],
            op=None if self.op is None else self.op[order],
        )
