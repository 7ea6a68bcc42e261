"""A window of a multigraph: its rows are the graph's own edges, so it keeps nothing beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dynstore.arguments import check_name
from dynstore.errors import InputError
from dynstore.graph.events.layout import ID
from dynstore.graph.events.reading import open_rows
from dynstore.input.forms import is_frame, take_rows
from dynstore.interrupts import MemoryChecked
from dynstore.typing import UpdateReport
from dynstore.windows.horizon import BY, make_horizon
from dynstore.windows.moves import SlideReport

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph
    from dynstore.graph.events.core import EventCore
    from dynstore.typing import Frame

__all__ = ["EventRule"]

CALLER = "Window"
LEAST = -(1 << 63)


class EventRule:
    """Which rows of a multigraph stay, and the slides that keep it so; see :class:`dynstore.Window`.

    Attributes
    ----------
    horizon : Horizon
    drop_vertices : bool
    """

    def __init__(self, G: DynamicGraph, length: Any, by: str, keep: str, step: Any, drop_vertices: bool | None) -> None:
        check_name(CALLER, "by", by, BY)
        if keep != "latest":
            raise InputError(
                f"{CALLER}: keep is {keep!r}, but in a multigraph each row is an edge; leave it out, and ask "
                "G.simple('sum') or G.simple('count')"
            )
        if by == "time" and G.timestamps is None:
            raise InputError(f"{CALLER}: by is 'time', but the graph keeps no times; make it with timestamps='int64'")
        may_drop = G.core.ids.reuse_ids
        if drop_vertices and not may_drop:
            raise InputError(
                f"{CALLER}: drop_vertices is True, but rows of the graph keep their ids; make it with renumber=True "
                "and reuse_ids=True"
            )
        self.drop_vertices = may_drop if drop_vertices is None else drop_vertices
        self.graph, self.by, self.horizon = G, by, make_horizon(by, length, step)

    @property
    def newest(self) -> int | None:
        """The newest time so far."""
        core: Any = self.graph.core
        return None if core.time_unit is None else core.time_unit.newest

    def slide(self, edges: Any, time: Any, edge_id: Any, named: dict[str, Any]) -> SlideReport:
        """Bring rows in, and take out those that have become too old; ``named``: other arguments of an update."""
        core: Any = self.graph.core
        named = {**named, "drop_vertices": self.drop_vertices}
        with MemoryChecked("slide"), core.lock:
            if self.by == "time":
                return self._slide_by_time(edges, time, {**named, "edge_id": edge_id})
            return self._slide_by_count(open_rows(core, "slide", edges, time), time, edge_id, named)

    def events(self) -> Frame:
        """Return the rows."""
        core: Any = self.graph.core
        return self.graph._made(core.in_order(core.event_rows()))

    def _slide_by_time(self, edges: Any, time: Any, named: dict[str, Any]) -> SlideReport:
        G, core = self.graph, self.graph.core
        edges, given, own = self.horizon.share_times(edges, time, G.timestamps, list(G.edge_dtypes))
        count = _count(edges)
        times = self.horizon.read_times(core.backend, edges, own, count, None)
        newest = self.newest
        if count:
            last = times.max().item()
            newest = last if newest is None else max(last, newest)
        bound: Any = None
        if newest is not None:
            bound = max(int(self.horizon.bound(newest)) + 1, LEAST)
            bound = np.datetime64(bound, "ns") if self.horizon.dated else bound
        report = G.update(edges, expire_before=bound, time=given, **named)
        return SlideReport(report.inserted, report.expired, report.late, len(self), report)

    def _slide_by_count(self, edges: Any, time: Any, edge_id: Any, named: dict[str, Any]) -> SlideReport:
        G, core = self.graph, cast("EventCore", self.graph.core)
        count, held, ids = _count(edges), len(self), None
        surplus = self.horizon.surplus(held + count)
        skipped = max(surplus - held, 0)
        is_counted, first = edge_id is None, core.events.ids.highest + 1
        if skipped:  # rows that leave at once
            rows = np.arange(skipped, count)
            edges = _last_rows(edges, rows)
            time, edge_id = (take_rows((given,), rows)[0] if _is_column(given) else given for given in (time, edge_id))
            if is_counted:  # all rows are, as they would be one by one
                edge_id = first + rows
        if surplus > skipped:
            ids = core.columns[ID][core.events.log.oldest(surplus - skipped)]
        report: UpdateReport = G.update(edges, edge_ids=ids, time=time, edge_id=edge_id, **named)
        report = report._replace(first_id=first) if is_counted and skipped else report
        return SlideReport(report.inserted, report.deleted + skipped, 0, len(self), report)

    def __len__(self) -> int:
        count: int = self.graph.number_of_edges()
        return count


def _count(edges: Any) -> int:
    """Return the rows of edges; 0 for what is none, which the update refuses."""
    if isinstance(edges, tuple):
        return len(edges[0]) if edges and hasattr(edges[0], "__len__") else 0
    return len(edges) if is_frame(edges) else 0


def _last_rows(edges: Any, rows: np.ndarray) -> Any:
    if isinstance(edges, tuple):
        return take_rows(edges, rows)
    return edges.iloc[int(rows[0]) :] if hasattr(edges, "iloc") else edges.slice(int(rows[0]))


def _is_column(given: Any) -> bool:
    return given is not None and not isinstance(given, str)
