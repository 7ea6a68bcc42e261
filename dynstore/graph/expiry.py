"""Edges that are too old: which they are, and their deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dynstore.bits import list_bits
from dynstore.errors import InputError
from dynstore.graph.updates import Deletion, Plans, Updates
from dynstore.input.columns import EdgeColumns
from dynstore.input.times import read_time
from dynstore.interrupts import Uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.ids.base import IdPlan
    from dynstore.typing import UpdateReport

__all__ = ["Expiry", "Follow"]

# Plans what else an update does, and returns its commit.
Follow: TypeAlias = "Callable[[IdPlan], Callable[[], None]]"


class Expiry(Updates):
    """The part of :class:`dynstore.DynamicGraph` that finds and deletes edges with old times."""

    def _read_bound(self, caller: str, name: str, value: Any) -> int:
        if self.timestamps is None:
            raise InputError(f"{caller}: the graph keeps no times; make it with timestamps='int64'")
        return read_time(caller, name, value)

    def _expired(self, bound: int) -> EdgeColumns:
        """Return the edges whose last time is below a bound, as numbers in ascending order, undirected ones once."""
        records, slots = self._records, self._out.slots
        assert records is not None
        kernels = self.backend.kernels("dynstore.stores.pma", "recorded")
        places = list_bits(self.backend, kernels.mark_below(self.backend, slots, records.aged, bound))
        src, dst = slots.src[places], slots.dst[places]
        if not self._directed:
            once = src <= dst
            src, dst = src[once], dst[once]
        return EdgeColumns(src, dst, None, -1)

    def _raising(self, bound: int) -> Follow:
        """Return what else an update does that leaves no edge with a time below a bound."""
        records = self._records
        assert records is not None
        return lambda _: records.plan_raise(bound)

    def _try_expire(self, bound: int) -> UpdateReport | None:
        """Delete the edges with times below a bound without listing them; None if that is refused.

        No log may follow the graph, as it would want the list.
        """
        records = self._records
        assert records is not None
        if not self._supports_speculation or self._logs:
            return None
        commit, into = records.plan_raise(bound), None
        with Uninterrupted():
            if self._in is not None:
                with self._timing_in_edges():
                    into = self._in.try_delete_below(records.aged, bound)
                if into is None:
                    return None
            try:
                out = self._out.try_delete_below(records.aged, bound)
                if out is None:
                    if into is None:
                        return None
                    out = Deletion().plan(self._out, self._batch(self._expired(bound), "replace"))
            except BaseException:
                if into is not None:
                    self._forget_in_edges()
                raise
            report = self._finish_deletion(Plans(out, into, None), 0, 0, commit)
        return report._replace(deleted=0, absent=0, expired=report.deleted)
