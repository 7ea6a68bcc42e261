"""Shortest paths after a few edges have changed, on the GPU.

Method, parameters and results are those of ``traversal/cpu/repair.py``. Here vertices lose their support, and distances
decrease, in rounds. All rounds of a step are one launch, whose blocks wait for each other; lists and their lengths stay
on the device. :func:`repair_paths` reads back once, at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.rows.cuda.row_lists import ROUND_THREADS, count_parts
from dynstore.algorithms.traversal.cuda.invalidation import k_find_suspects, k_invalidate
from dynstore.algorithms.traversal.cuda.parents import get_unreached, has_ties, k_refit
from dynstore.algorithms.traversal.cuda.relaxation import k_relax
from dynstore.algorithms.traversal.cuda.rounds import CONTROL_SIZE, SPENT, SUSPECTS, TIED, TOUCHED, VISITS
from dynstore.cuda.launch import Packed

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["find_suspects", "has_ties", "invalidate", "refit", "relax", "repair_paths"]


class _Steps:
    """The steps of a repair, one launch each, and the device memory that they share."""

    def __init__(
        self, out: GapCSR, into: GapCSR, distances: Array, predecessors: Array | None, both_ways: bool, most: int
    ) -> None:
        self.backend, self.distances, self.predecessors = out.backend, distances, predecessors
        num_vertices, dtype = out.num_vertices, out.offsets.dtype
        num_parts = count_parts(out) + (count_parts(into) if both_ways else 0)
        if into is not out:
            num_parts = max(num_parts, count_parts(into))
        arrays = out.backend.empty_arena(
            (CONTROL_SIZE, np.int64), (num_vertices, dtype), (num_vertices, np.int32), (num_vertices, np.int32),
            (2 * num_vertices, dtype), (num_vertices, dtype), (3 * num_parts, dtype), (3 * num_parts, dtype),
            (1, distances.dtype), zeroed=4,
        )  # fmt: skip
        self.control, self.best, self.queued, self.turns, self.suspects, self.touched, *parts, one = arrays
        # The edge in slot ``p`` is ``lengths[p * stride]`` long.
        in_lengths, lengths, stride = into.weights, out.weights, 1
        if distances.dtype.kind == "i":
            one.fill(1)
            in_lengths, lengths, stride = one, one, 0
        self.lengths = (lengths, stride)
        self.both_ways, self.most = int(both_ways), most
        self.graph = Packed(
            into.offsets, into.indices, into.valid, in_lengths,
            out.offsets, out.indices, out.valid, lengths, stride, self.both_ways,
        )  # fmt: skip
        self.parts = Packed(*parts, self.control)
        self.no_vertex, self.unreached = int(np.iinfo(dtype).max), get_unreached(distances)
        none = out.backend.nothing(dtype)
        self.no_change = (none, none, out.backend.nothing(np.int64))

    def find_suspects(self, delta: Delta) -> None:
        """List the suspects of the first round."""
        changes = (delta.src, delta.dst, delta.slots, delta.before)
        state = (self.distances, self.predecessors, self.queued, self.suspects, self.control)
        k_find_suspects.launch(len(delta), *changes, *self.lengths, self.both_ways, *state)

    def invalidate(self, groups: Array | None) -> None:
        """Make suspects without support unreached, and list them as touched."""
        same = (self.predecessors, 0) if groups is None else (groups, 1)
        limits = (self.no_vertex, self.unreached, self.most)
        state = (self.distances, self.predecessors, self.best, self.queued, self.suspects, self.touched)
        k_invalidate.launch_resident(ROUND_THREADS, self.graph, *same, *limits, *state, self.parts)

    def relax(self, sources: Array, delta: Delta | None, limit: Any) -> None:
        """Reach touched vertices, which are lost, and list those that come nearer."""
        changes = self.no_change if delta is None else (delta.src, delta.dst, delta.slots)
        limits = (self.unreached, self.distances.dtype.type(limit).item(), self.most)
        state = (self.distances, self.turns, self.touched, self.parts)
        k_relax.launch_resident(ROUND_THREADS, self.graph, sources, *changes, *limits, *state)

    def refit(self, delta: Delta | None) -> None:
        """Find the parents of touched vertices, and offer them as parents."""
        changes = self.no_change if delta is None else (delta.src, delta.dst, delta.slots)
        state = (self.distances, self.predecessors, self.best, self.touched, self.parts)
        k_refit.launch_resident(ROUND_THREADS, self.graph, *changes, self.no_vertex, self.unreached, *state)

    def list_touched(self, vertices: Array) -> None:
        """Begin with a list of distinct vertices whose distance has changed."""
        self.touched[: vertices.shape[0]] = vertices
        self.control[TOUCHED] = vertices.shape[0]

    def read(self, budget: Budget) -> np.ndarray:
        """Wait for the kernels, and return the words of ``control``."""
        words: np.ndarray = self.backend.to_host(self.control)
        visits = int(words[VISITS])
        budget.note(max(visits, self.most + 1) if words[SPENT] else visits, self.most)
        return words


def repair_paths(
    out: GapCSR, into: GapCSR, delta: Delta, limit: Any, distances: Array, predecessors: Array, budget: Budget
) -> bool:
    """Bring distances and predecessors up to date; return whether there are ties."""
    steps = _Steps(out, into, distances, predecessors, False, budget.most_visits())
    steps.find_suspects(delta)
    steps.invalidate(None)
    steps.relax(out.backend.nothing(predecessors.dtype), delta, limit)
    steps.refit(delta)
    return bool(steps.read(budget)[TIED])


def find_suspects(out: GapCSR, delta: Delta, distances: Array, predecessors: Array, both_ways: bool) -> Array:
    """Return the vertices whose edge from their parent was deleted or has become longer; vertex dtype."""
    steps = _Steps(out, out, distances, predecessors, both_ways, 0)
    steps.find_suspects(delta)
    return steps.suspects[: int(steps.control[SUSPECTS])]


def invalidate(
    out: GapCSR, into: GapCSR, suspects: Array, distances: Array, predecessors: Array, both_ways: bool,
    budget: Budget, groups: Array | None = None,
) -> Array:  # fmt: skip
    """Make suspects without support unreached; the others get the smallest remaining parent.

    All suspects of a round are decided together. A suspect that takes a parent which is lost in the same round becomes
    its child, and so a suspect of the next round.
    """
    steps = _Steps(out, into, distances, predecessors, both_ways, budget.most_visits())
    steps.suspects[: suspects.shape[0]] = suspects
    steps.queued[suspects] = 1
    steps.control[SUSPECTS] = suspects.shape[0]
    steps.invalidate(groups)
    return steps.touched[: steps.read(budget)[TOUCHED]]


def relax(
    out: GapCSR, into: GapCSR, lost: Array, sources: Array, delta: Delta | None, limit: Any, distances: Array,
    both_ways: bool, budget: Budget,
) -> Array:  # fmt: skip
    """Compute the distances of lost vertices, and lower those that new edges or new sources shorten.

    Each round processes all vertices whose distance decreased in the last one. Few vertices change, so ordering them
    does not pay. The result does not depend on the order, as in ``sssp``.
    """
    steps = _Steps(out, into, distances, None, both_ways, budget.most_visits())
    steps.list_touched(lost)
    steps.relax(sources, delta, limit)
    return steps.touched[: steps.read(budget)[TOUCHED]]


def refit(
    out: GapCSR, into: GapCSR, touched: Array, delta: Delta | None, distances: Array, predecessors: Array,
    both_ways: bool, budget: Budget,
) -> bool:  # fmt: skip
    """Find the smallest nearer parents again, after the distances are right; return whether there are ties."""
    steps = _Steps(out, into, distances, predecessors, both_ways, budget.most_visits())
    steps.list_touched(touched)
    steps.refit(delta)
    return bool(steps.read(budget)[TIED])
