"""A stream of edge events, as every reader and generator returns it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynstore.errors import InputError

__all__ = ["OP_DELETE", "OP_INSERT", "OP_REWEIGHT", "OP_SYMBOLS", "EventTable"]

OP_INSERT = 0
OP_DELETE = 1
OP_REWEIGHT = 2
OP_SYMBOLS = ("+", "-", "w")  # a symbol's code is its index here


@dataclass(frozen=True, eq=False)
class EventTable:
    """Edge events in their order.

    Attributes
    ----------
    src, dst : numpy.ndarray, shape (N,), int64
    time : numpy.ndarray, shape (N,), int64, float64 or datetime64[us], or None
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
    """

    src: np.ndarray
    dst: np.ndarray
    time: np.ndarray | None = None
    weight: np.ndarray | None = None
    op: np.ndarray | None = None
    name: str = "events"
    ids: np.ndarray | None = None

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
