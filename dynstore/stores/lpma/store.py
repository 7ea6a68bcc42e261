"""LPMA: a packed memory array in levels; it grows by one more level, without moving edges.

L. Zou, F. Zhang, Y. Lin, Y. Yu, "An Efficient Data Structure for Dynamic Graph on GPUs", IEEE TKDE 35(11), 2023
(earlier version: WISE 2021). See ``docs/stores/lpma.md`` for the structure and the differences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import Any, ClassVar, Literal, Self

import numpy as np

from dynstore.arguments import check_name
from dynstore.backend import Backend
from dynstore.batches.sorted import Batch, EdgeBatch
from dynstore.config import check_share
from dynstore.errors import InputError
from dynstore.stores.base import Plan, StoreOptions
from dynstore.stores.derived import DerivedSlots
from dynstore.stores.lpma.levels import SEGMENT, Levels
from dynstore.stores.table.slots import OFFSET_SLACK, SlotArrays
from dynstore.typing import Array, Memory, OnDuplicate

__all__ = ["Chooser", "LPMAOptions", "LPMAStore"]

STRATEGIES = ("bottom-up", "top-down", "hybrid")


@dataclass(frozen=True)
class LPMAOptions(StoreOptions):
    """How windows are chosen, and the limits of densities (valid slots / slots), linear in the layer from leaf to root.

    Attributes
    ----------
    strategy : {"hybrid", "bottom-up", "top-down"}
        How an insertion finds its windows: from the segments up (the paper's section 4, LPMA-B), from the root down
        (LPMA-T), or by the faster one at the present density (LPMA-H).
    leaf_upper, root_upper : float
        An insertion makes no window denser than this; if the root would be, a level is appended. The paper says "the
        same as GPMA+" and gives no numbers; these are those of our ``gpma+``.
    leaf_lower, root_lower : float
        A deletion compacts a window that is sparser than this; if the root is, the array shrinks.
    build_density : float
        A bulk build and a shrinkage use the fewest levels that are not denser than this.
    threshold : float
        The density above which ``hybrid`` tries top-down in each cycle (the paper's pi, 0.6).
    """

    strategy: Literal["bottom-up", "top-down", "hybrid"] = "hybrid"
    leaf_upper: float = 0.92
    root_upper: float = 0.80
    leaf_lower: float = 0.08
    root_lower: float = 0.30
    build_density: float = 0.65
    threshold: float = 0.60

    def __post_init__(self) -> None:
        caller = "store 'lpma'"
        check_name(caller, "strategy", self.strategy, STRATEGIES)
        shares = ("leaf_upper", "root_upper", "leaf_lower", "root_lower", "build_density", "threshold")
        for name in shares:
            check_share(caller, name, getattr(self, name), 0.0, 1.0)
        order = self.leaf_lower <= self.root_lower <= self.build_density / 2 < self.build_density < self.root_upper
        if not order or self.root_upper > self.leaf_upper:
            shown = ", ".join(f"{name} {getattr(self, name)}" for name in shares[:-1])
            raise InputError(
                f"{caller}: {shown}; wanted leaf_lower <= root_lower <= build_density / 2, "
                "0 < build_density < root_upper <= leaf_upper"
            )


class Chooser:
    """Decides between bottom-up and top-down (the paper's section 4.3, LPMA-H, with medians of probes).

    Each growth ends a cycle. Up to a density of ``threshold``, bottom-up runs. Above it the two alternate until each
    has been timed ``PROBES`` times. If top-down was faster, it runs to the end of the cycle; else bottom-up runs until
    the density has risen by ``STEP``.
    """

    PROBES, STEP = 3, 0.05

    def __init__(self, strategy: str, threshold: float) -> None:
        self._strategy, self._first_threshold = strategy, threshold
        self.begin_cycle()

    def begin_cycle(self) -> None:
        """Start a new cycle: the array has grown."""
        self.threshold, self._settled = self._first_threshold, False
        self._times: dict[bool, list[float]] = {False: [], True: []}

    def choose(self, density: float) -> tuple[bool, bool]:
        """Return whether to go top-down, and whether to time the update."""
        if self._strategy != "hybrid":
            return self._strategy == "top-down", False
        if self._settled or density <= self.threshold:
            return self._settled, False
        return len(self._times[True]) < len(self._times[False]), True

    def note(self, top_down: bool, seconds: float, density: float) -> None:
        """Record the time of a batch per edge."""
        self._times[top_down].append(seconds)
        if min(map(len, self._times.values())) >= self.PROBES:
            self._settled = median(self._times[True]) < median(self._times[False])
            self.threshold = density if self._settled else density + self.STEP
            self._times = {False: [], True: []}


class LPMAStore(DerivedSlots):
    """Edges in sorted segments of 32 slots, which lie in levels of 1, 1, 2, 4, 8 ... segments.

    ``slots`` is a copy of all slots in order; only segments that have changed since the last one are copied again.
    """

    name: ClassVar[str] = "lpma"
    Options = LPMAOptions
    appends = True
    divides = ("cuda",)
    options: LPMAOptions

    _levels: Levels
    _shown_stamp: int
    _stamp: int

    def __init__(
        self,
        backend: Backend,
        vertex_dtype: np.dtype,
        weight_dtype: np.dtype | None,
        capacity: int,
        options: dict[str, Any],
        memory: Memory = "device",
    ) -> None:
        self._shown_stamp, self._stamp = 0, 0
        super().__init__(backend, vertex_dtype, weight_dtype, capacity, options, memory)
        self._shown, self._is_stale = None, True
        self._chooser = Chooser(self.options.strategy, self.options.threshold)
        self._probe: tuple[bool, Any, int] | None = None
        self._counts = dict.fromkeys(
            ("bottom_up", "top_down", "growths", "rebuilds", "windows", "segments_moved", "segments_saved",
             "segments_left_by_growth"), 0,
        )  # fmt: skip

    # ------------------------------------------------------------------ what is there

    @property
    def num_vertices(self) -> int:
        return self._levels.num_vertices

    @property
    def num_edges(self) -> int:
        return self._levels.num_edges

    def statistics(self) -> dict[str, int]:
        """Return counters of updates since the store was made.

        ``bottom_up``, ``top_down``: insertions by strategy. ``growths``: levels appended. ``rebuilds``: how often
        everything was written anew. ``windows``, ``segments_moved``: what was re-balanced. ``segments_saved``: segments
        that re-balancing layer by layer would have moved twice in a batch. ``segments_left_by_growth``: further
        segments that would have moved if growth spread the whole array.
        """
        return dict(self._counts)

    def find(self, src: Array, dst: Array) -> Array:
        positions, there, _ = self._kernels.look_up(self.backend, self._levels, src, dst)
        return self.backend.xp.where(there, positions, -1)

    def look_up(self, src: Array, dst: Array) -> tuple[Array, Array | None]:
        _, there, weights = self._kernels.look_up(self.backend, self._levels, src, dst)
        return there, weights

    def row(self, number: int) -> Array:
        row: Array = self._kernels.read_row_of(self.backend, self._levels, number)
        return row

    def memory_usage(self) -> dict[str, int]:
        """Return bytes by part; "snapshot": the table of all slots in order, if there is one."""
        shown = 0 if self._shown is None else sum(self._shown.memory_usage().values())
        return self._levels.memory_usage() | {"snapshot": shown}

    def copy(self) -> Self:
        twin = self._twin()
        twin._levels = self._levels.copy(self.backend)
        twin._counts, twin._probe = dict(self._counts), None
        twin._shown, twin._is_stale = None, True
        twin._chooser = Chooser(self.options.strategy, self.options.threshold)
        return twin

    # ------------------------------------------------------------------ updates

    def plan_insert(self, batch: Batch, num_vertices: int, on_duplicate: OnDuplicate) -> Plan:
        if on_duplicate == "append":
            return self._plan_append(batch, num_vertices)
        backend, kernels, options = self.backend, self._kernels, self.options
        old = self._levels.with_vertices(backend, num_vertices)
        if old.num_edges == 0:
            return self._plan_build(batch, old)
        top_down, timed = self._choose_strategy()
        watch = kernels.Stopwatch() if timed else None
        if watch:
            watch.start()
        limits = options.leaf_upper, options.root_upper
        most_growth = self._growth_for(old.num_edges + batch.num_rows)
        located, growth, windows = kernels.plan_insert(backend, old, batch, limits, most_growth, top_down)
        levels = old.with_depth(backend, old.depth + growth) if growth else old
        if watch:
            watch.stop()
        new = replace(levels, num_edges=old.num_edges + batch.count_edges() - located.found)
        stamp, add, num_keys = self._stamp + 1, on_duplicate == "add", batch.count_edges()
        write = backend.prepare(kernels.insert, backend, old, new, batch, located, windows, add, stamp)

        def commit() -> None:
            if watch:
                watch.start()
            write()
            if watch:
                watch.stop()
                self._probe = top_down, watch, num_keys
            self._count_windows(windows, growth)
            self._counts["top_down" if top_down else "bottom_up"] += 1
            self._put(new)
            if growth:
                self._chooser.begin_cycle()
                self._probe = None

        return Plan(located.found, located.found_loops, commit, grown=growth > 0, path="in-place")

    def plan_delete(self, batch: Batch) -> Plan:
        backend, kernels, old = self.backend, self._kernels, self._levels
        located, windows = kernels.plan_delete(backend, old, batch, (self.options.leaf_lower, self.options.root_lower))
        total, stamp = old.num_edges - located.found, self._stamp + 1
        if windows is None and self._depth_for(total) < old.depth:
            return self._plan_shrinkage(located, total)
        new = replace(old, num_edges=total)
        write = backend.prepare(kernels.delete, backend, old, batch, located, windows, stamp)

        def commit() -> None:
            write()
            if windows is not None:
                self._count_windows(windows, 0)
            self._put(new)

        return Plan(located.found, located.found_loops, commit, path="in-place")

    def plan_vertices(self, num_vertices: int) -> Plan:
        levels = self._levels.with_vertices(self.backend, num_vertices)
        return Plan(0, 0, lambda: self._put(levels), path="in-place")

    def plan_clear(self) -> Plan:
        levels = self._empty_levels(0)
        return Plan(0, 0, lambda: self._restart(levels))

    def _no_edges(self, num_vertices: int) -> SlotArrays:
        self._levels = self._empty_levels(num_vertices)
        return SlotArrays.allocate(self.backend, 0, 0, self.vertex_dtype, self.weight_dtype)

    def _plan_build(self, batch: Batch, old: Levels) -> Plan:
        """Plan to spread a batch over fresh levels; there are no other edges."""
        backend, kernels, stamp, batch = self.backend, self._kernels, self._stamp + 1, batch.materialized()
        if not len(batch):
            return Plan(0, 0, lambda: self._put(old))
        new = replace(self._fresh_levels(len(batch), old.num_vertices), num_edges=len(batch))
        write = backend.prepare(kernels.build, backend, new, kernels.plan_build(backend, batch, new), stamp)

        def commit() -> None:
            write()
            self._counts["rebuilds"] += 1
            self._restart(new)

        return Plan(0, 0, commit, grown=new.num_slots > old.num_slots)

    def _plan_append(self, batch: Batch, num_vertices: int) -> Plan:
        """Plan to add up weights; edges whose sum is above 0 stay, all others are deleted."""
        backend, kernels, edges = self.backend, self._kernels, batch.materialized()
        there, weights = self.look_up(edges.src, edges.dst)
        assert weights is not None
        stays = weights + edges.weights > 0
        goes = there & ~stays
        kept, gone = self._part_of(edges, stays), self._part_of(edges, goes)
        plan = self.plan_insert(kept, num_vertices, "add")
        # Prepared only to load its kernel: the commit deletes from the levels after the insertion.
        backend.prepare(kernels.delete_listed, backend, self._levels, gone.src, gone.dst, self._stamp)

        def commit() -> None:
            plan.commit()
            kernels.delete_listed(backend, self._levels, gone.src, gone.dst, self._stamp)
            self._levels = replace(self._levels, num_edges=self._levels.num_edges - len(gone))

        return replace(plan, commit=commit, appended=(kept, gone))

    def _part_of(self, batch: EdgeBatch, chosen: Array) -> EdgeBatch:
        weights = None if batch.weights is None else batch.weights[chosen]
        return EdgeBatch(batch.src[chosen], batch.dst[chosen], weights, self._count_loops(batch, chosen))

    def _plan_shrinkage(self, located: Any, total: int) -> Plan:
        """Plan to write the remaining edges to fewer levels."""
        backend, kernels, old, stamp = self.backend, self._kernels, self._levels, self._stamp + 1
        new = replace(self._fresh_levels(total, old.num_vertices), num_edges=total)
        if total == 0:
            kernels.begin_levels(backend, new, -1)
        write = None
        if total:
            rebuilding = kernels.plan_rebuild(backend, old, located, new)
            write = backend.prepare(kernels.rebuild, backend, old, new, rebuilding, stamp)

        def commit() -> None:
            if write is not None:
                write()
            self._counts["rebuilds"] += 1
            self._restart(new)

        return Plan(located.found, located.found_loops, commit)

    # ------------------------------------------------------------------ inside

    @property
    def _kernels(self) -> Any:
        return self.backend.kernels("dynstore.stores.lpma", "update")

    def _choose_strategy(self) -> tuple[bool, bool]:
        density = self._levels.num_edges / self._levels.num_slots
        if self._probe is not None:
            top_down, watch, size = self._probe
            self._chooser.note(top_down, watch.read() / max(size, 1), density)
            self._probe = None
        return self._chooser.choose(density)

    def _count_windows(self, windows: Any, growth: int) -> None:
        counts = self._counts
        counts["windows"] += windows.num_windows
        counts["segments_moved"] += windows.num_segments
        counts["segments_saved"] += windows.num_saved
        counts["growths"] += growth
        if growth:
            counts["segments_left_by_growth"] += (self._levels.num_segments << growth) - windows.num_segments

    def _put(self, levels: Levels) -> None:
        self._levels, self._is_stale = levels, True
        self._stamp += 1

    def _restart(self, levels: Levels) -> None:
        """Take levels that share no memory with the old ones."""
        self._put(levels)
        self._shown, self._probe = None, None
        self._chooser.begin_cycle()

    def _growth_for(self, num_edges: int) -> int:
        """Return the number of levels to append for ``num_edges`` edges."""
        growth = self._levels.growth_for(num_edges, self.options.root_upper)
        if growth:
            self._check_num_slots(self._levels.num_slots << growth)
        return growth

    def _depth_for(self, num_edges: int) -> int:
        """Return the fewest levels for ``num_edges`` edges, or for the reserved ones, at the build density."""
        wanted, depth = max(num_edges, self.capacity), 0
        while wanted > self.options.build_density * (SEGMENT << depth):
            depth += 1
        self._check_num_slots(SEGMENT << depth)
        return depth

    def _fresh_levels(self, num_edges: int, num_vertices: int) -> Levels:
        depth = self._depth_for(num_edges)
        return Levels.allocate(self.backend, depth, num_vertices, self.vertex_dtype, self.weight_dtype)

    def _empty_levels(self, num_vertices: int) -> Levels:
        levels = self._fresh_levels(0, num_vertices)
        self._kernels.begin_levels(self.backend, levels, -1)
        return levels

    def _refresh(self) -> None:
        levels, table, since = self._levels, self._shown, self._shown_stamp
        if table is None or table.num_slots != levels.num_slots or table.pins:
            since, table = -1, self._fresh_table()
        else:
            table = self._with_rows(table)
        self._kernels.refresh(self.backend, levels, since, table)
        table.num_edges = levels.num_edges
        self._shown, self._shown_stamp = table, self._stamp

    def _fresh_table(self) -> SlotArrays:
        levels = self._levels
        table = SlotArrays.allocate(self.backend, levels.num_slots, 0, self.vertex_dtype, self.weight_dtype)
        return self._with_rows(table)

    def _with_rows(self, table: SlotArrays) -> SlotArrays:
        """Return the table with room for the offsets of all rows."""
        rows, buffer = self._levels.num_vertices, table.offset_buffer
        if buffer.shape[0] <= rows:
            buffer = self.backend.empty(int((rows + 1) * OFFSET_SLACK), self.vertex_dtype)
        return replace(table, offsets=buffer[: rows + 1], offset_buffer=buffer)
