"""Tracked PageRank: changed edges leave a residual, which is pushed on where it is large.

The ranks are kept as y = (I - alpha P)^-1 t. P distributes each vertex's rank along its edges; t is 1 for every vertex,
or the personalization. Divided by its sum, y is PageRank: the rank that vertices without edges would pass to t only
makes the sum larger (Langville, Meyer, "Deeper Inside PageRank", Internet Mathematics 1(3), 2004, section 3). Nothing
in y depends on V, so a new vertex changes nothing elsewhere.

Computed anew, the ranks are those of the function, started from the last ranks. Their residual is made when it is
needed (:meth:`PagerankAnswer.prepare`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.answers import TrackedAnswer
from dynstore.algorithms.costs import Budget
from dynstore.algorithms.inputs import has_negative_weights
from dynstore.algorithms.link_analysis.by_row import iterate, pagerank_frame, read_numbers, read_personalization
from dynstore.algorithms.traversal.tracked import grow
from dynstore.errors import FailedToConvergeError, InputError, type_name

if TYPE_CHECKING:
    from dynstore.graph.delta import Delta
    from dynstore.typing import Array

__all__ = ["PagerankAnswer"]

# Parameters of the function that an answer does not use, and their defaults.
UNUSED = {
    "precomputed_vertex_out_weight": None,
    "nstart": None,
    "dangling": None,
    "fail_on_nonconvergence": True,
    "warm_start": False,
}
# A round moves vertices with at least this share of the residual, those with the fewest edges for it first.
MOVED_SHARE = 0.5
# Rounds whose steps are combined with the next one's.
KEPT_ROUNDS = 3
# A lengthened step that leaves less than this share of the residual is taken even if the round alone leaves less.
ENOUGH_LESS = 0.75
# Times that ranks are passed on to find where residual collects; all other parts fall by half or more each time.
MODE_STEPS = 3


class PagerankAnswer(TrackedAnswer):
    """Ranks, in any scale, and the residual of each: the difference from what its neighbours pass to it."""

    _ranks: Any = None
    _epoch = 0  # of the rows that the ranks are of
    _residuals: Any = None
    _sums: Array  # sums of out-weights
    _mode: Array  # the shape of a residual that is pushed for long: passed on, it shrinks but keeps its shape
    _mode_change: Array  # the change of the residuals if it is added to the ranks
    _targets: Array | None = None

    def __init__(self, G: Any, **params: Any) -> None:
        for name, default in UNUSED.items():
            value = params.get(name, default)
            if value is not default:
                got = repr(value) if np.isscalar(value) else f"a {type_name(value)}"
                raise InputError(
                    f"track: pagerank: {name} is {got}; wanted {default}, because a tracked answer does not use it"
                )
        super().__init__(G, **params)
        numbers = {name: params[name] for name in ("alpha", "tol", "max_iter") if name in params}
        self._alpha, self._tol, self._max_rounds = read_numbers(**numbers)
        if self._alpha == 1:
            raise InputError("track: pagerank: alpha is 1; wanted less than 1")

    @property
    def _kernels(self) -> Any:
        return self.G.core.backend.kernels("dynstore.algorithms.link_analysis", "changes")

    def read_params(self) -> bool:
        before, personalization = self._targets, self.params.get("personalization")
        if personalization is None:
            return True
        self._targets = read_personalization(self.G, personalization, np.dtype(np.float64))
        size = 0 if before is None else before.shape[0]
        if before is None or size > self._targets.shape[0]:
            return False
        same = (self._targets[:size] == before).all() & (self._targets[size:] == 0).all()
        return bool(same)

    @property
    def starts_warm(self) -> bool:  # type: ignore[override]
        return self._last_ranks() is not None

    def is_ready(self, deletes: bool) -> bool:
        return self.is_prepared

    @property
    def is_prepared(self) -> bool:
        return self._residuals is not None

    def recompute(self, warm: bool = False) -> None:
        start = (self._first_ranks() if warm else self._equal_ranks()).astype(self._dtype, copy=False)
        targets = None if self._targets is None else self._targets.astype(self._dtype)
        ranks, rounds, error = iterate(self.G, None, self._alpha, targets, start, self._max_rounds, self._tol)
        if np.isfinite(error):  # infinite weights make the ranks NaN
            self._ranks, self._residuals, self._epoch = ranks, None, self.G.core.ids.epoch
        self.edge_visits = rounds * self.G.snapshot().num_edges
        if not error < self._tol and ranks.shape[0] and not self.prepare(Budget()):  # float64 may get nearer
            raise self._no_convergence(error)

    def prepare(self, budget: Budget) -> bool:
        backend, out = self.G.core.backend, self.G.snapshot()
        if has_negative_weights(out):
            raise InputError("pagerank: the graph has negative weights; wanted weights of at least 0")
        rows = backend.xp.arange(out.num_vertices, dtype=np.int64)
        self._sums, visits = self._kernels.sum_rows(out, rows)
        budget.note(visits)
        if not bool(backend.xp.isfinite(self._sums).all()):  # the function scales such weights
            return False
        inverse, ranks = self._invert(self._sums), self._first_ranks().astype(np.float64)
        # In exact ranks, each vertex has alpha times what it is passed, and its share of this rest.
        rest = self._alpha * float(ranks[self._sums == 0].sum()) + 1.0 - self._alpha
        spread = self._spread()
        self._ranks = ranks * (float(spread.sum()) / rest)
        self._residuals = spread - self._ranks
        budget.note(self._kernels.hand_on(out, self._ranks * inverse * self._alpha, self._residuals))
        self._epoch = self.G.core.ids.epoch
        self._mode = self._mode_change = self._ranks[:0]
        done = self._settle(budget)
        if done:
            self._find_mode(budget)
        self.edge_visits = budget.visits
        return done

    def advance(self, delta: Delta, budget: Budget) -> bool:
        backend, xp, out = self.G.core.backend, self.G.core.backend.xp, self.G.snapshot()
        there = delta.slots >= 0
        changed = delta.before != there
        if out.weights is not None:
            changed |= there
            if bool((out.weights[delta.slots[there]] < 0).any()):
                return False
        # A new vertex has the rank of a vertex without edges, its entry of t, and no residual.
        size = out.num_vertices
        ranks = grow(backend, self._ranks, size, 0.0 if self._targets is not None else 1.0)
        residuals, all_sums, mode, mode_change = (
            grow(backend, array, size, 0.0) for array in (self._residuals, self._sums, self._mode, self._mode_change)
        )
        tails = delta.src[changed].astype(np.int64)
        rows = xp.unique(tails)
        if not rows.shape[0]:
            sums, visits = all_sums[rows], 0
        elif out.weights is None:  # whole numbers: sums are exact
            gained = there[changed] * 2.0 - 1.0
            sums, visits = all_sums[rows] + xp.bincount(xp.searchsorted(rows, tails), gained, rows.shape[0]), 0
        else:
            sums, visits = self._kernels.sum_rows(out, rows)
            if not bool(xp.isfinite(sums).all()):
                return False
        values, handed = xp.stack((ranks, mode)) * self._alpha, xp.stack((residuals, mode_change))
        visits += self._kernels.replace_rows(out, delta, rows, self._invert(all_sums), sums, values, handed)
        all_sums[rows] = sums
        self._ranks, self._sums, self._mode = ranks, all_sums, mode
        self._residuals, self._mode_change = handed[0], handed[1]
        budget.note(visits)
        done = self._settle(budget)
        self.edge_visits = budget.visits
        return done

    def arrays(self) -> tuple[Array]:
        return (self._ranks.copy() if self._are_divided else self._divided(self._ranks).astype(self._dtype),)

    def frame(self) -> Any:
        return pagerank_frame(self.G, *self.arrays())

    @property
    def _dtype(self) -> np.dtype:
        """The dtype of the function's ranks."""
        return np.dtype(self.G.weight_dtype if self.G.is_weighted() else np.float32)

    def _last_ranks(self) -> Array | None:
        """Return the last ranks if they are of the present rows, the first of them."""
        ranks = self._ranks
        same = ranks is not None and self._epoch == self.G.core.ids.epoch
        return ranks if same and 0 < ranks.shape[0] <= self.G.number_of_vertices() else None

    @property
    def _are_divided(self) -> bool:
        """Whether the ranks sum to 1, as the function has computed them; a sum would wait for the device."""
        return self._residuals is None

    def _first_ranks(self) -> Array:
        """Return the last ranks with those of new vertices, or equal ones, summing to 1; not to be written."""
        last, num_vertices = self._last_ranks(), self.G.number_of_vertices()
        if last is None:
            return self._equal_ranks()
        ranks, num_new = last if self._are_divided else self._divided(last), num_vertices - last.shape[0]
        if num_new:
            ranks = grow(self.G.core.backend, ranks, num_vertices, 1.0 / num_vertices)
            ranks /= 1.0 + num_new / num_vertices
        return ranks

    def _equal_ranks(self) -> Array:
        num_vertices = self.G.number_of_vertices()
        return self.G.core.backend.xp.full(num_vertices, 1.0 / max(num_vertices, 1), self._dtype)

    def _divided(self, ranks: Array) -> Array:
        """Return ranks that sum to 1; a residual that was pushed too far may have left some just below 0."""
        ranks = self.G.core.backend.xp.maximum(ranks, 0.0)
        return ranks / max(float(ranks.sum(dtype=np.float64)), np.finfo(np.float64).tiny)

    def _spread(self) -> Array:
        """Return t."""
        if self._targets is not None:
            return self._targets.copy()
        ones = self.G.core.backend.empty(self.G.number_of_vertices(), np.float64)
        ones.fill(1.0)
        return ones

    def _invert(self, sums: Array) -> Array:
        xp = self.G.core.backend.xp
        return xp.where(sums > 0, 1.0 / xp.where(sums > 0, sums, 1.0), 0.0)

    def _settle(self, budget: Budget) -> bool:
        """Push until the ranks are as accurate as those of ``pagerank``, which stops at an L1 change of ``tol``.

        Return False if the budget is spent before.

        Each round is one pass over the vertices whose residual is large enough. Its step is then combined with those of
        the rounds before and with the kept mode, so that the residual is smallest (Anderson, "Iterative Procedures for
        Nonlinear Integral Equations", JACM 12(4), 1965). Without that, residual that has spread over all vertices falls
        by no more than alpha a round.
        """
        G, xp = self.G, self.G.core.backend.xp
        out, ranks, residuals = G.snapshot(), self._ranks, self._residuals
        if not out.num_vertices:
            return True
        spread, inverse = self._spread(), self._invert(self._sums)
        total = float(spread.sum())
        threshold = MOVED_SHARE / (out.num_slots + out.num_vertices)
        mode = [] if self._mode.shape[0] != out.num_vertices else [(self._mode, self._mode_change)]
        steps: list[tuple[Array, Array]] = []  # changes of the ranks and of the residuals
        for _ in range(self._max_rounds + 1):
            # Residual in the shape of t only scales y, which the division by its sum removes.
            error = float(xp.abs(residuals - spread * (residuals.sum() / total)).sum())
            if error <= self._alpha * self._tol * float(ranks.sum()):
                self._ranks, self._residuals = ranks, residuals
                return True
            if budget.is_spent:
                return False
            if not np.isfinite(error):  # infinite weights make the ranks NaN
                break
            norm = float(xp.abs(residuals).sum())
            new_ranks, new_residuals = ranks.copy(), residuals.copy()
            budget.note(
                self._kernels.push_residuals(out, inverse, self._alpha, threshold * norm, new_ranks, new_residuals)
            )
            steps = [*steps[1 - KEPT_ROUNDS :], (new_ranks - ranks, new_residuals - residuals)]
            tried = [*mode, *steps]
            weights = 1.0 / (xp.abs(new_ranks) + float(xp.abs(new_ranks).mean()))
            factors = self._lengthen([step for _, step in tried], new_residuals, weights)
            ranks, residuals = new_ranks, new_residuals
            farther = residuals + sum(factor * step for factor, (_, step) in zip(factors, tried, strict=True))
            # The least-squares step may undo a push; in L1, every push reduces the residual.
            if float(xp.abs(farther).sum()) < max(float(xp.abs(residuals).sum()), ENOUGH_LESS * norm):
                ranks = ranks + sum(factor * step for factor, (step, _) in zip(factors, tried, strict=True))
                residuals = farther
        raise self._no_convergence(error / float(ranks.sum()))

    def _no_convergence(self, change: float) -> FailedToConvergeError:
        return FailedToConvergeError(
            f"track: pagerank: after {self._max_rounds} rounds the ranks still change by {change:.3g}; "
            f"wanted less than tol={self._tol:g}. Raise max_iter or tol"
        )

    def _find_mode(self, budget: Budget) -> None:
        """Pass the ranks on a few times; their shape then is the one that pushed residual approaches."""
        out, inverse = self.G.snapshot(), self._invert(self._sums)
        mode = self._ranks
        for _ in range(MODE_STEPS + 1):
            mode, before = self.G.core.backend.zeros(out.num_vertices, np.float64), mode
            budget.note(self._kernels.hand_on(out, before * inverse * self._alpha, mode))
        self._mode, self._mode_change = before, mode - before

    def _lengthen(self, steps: list[Array], residuals: Array, weights: Array) -> list[float]:
        """Return the factor of each step that minimizes the weighted squares of the residuals."""
        vectors = self.G.core.backend.xp.stack((*steps, residuals))
        table = self.G.core.backend.to_host((vectors[:-1] * weights) @ vectors.T)
        scale = 1.0 / np.sqrt(np.maximum(np.diag(table), np.finfo(np.float64).tiny))
        system, right = table[:, :-1] * scale[:, None] * scale, -table[:, -1] * scale
        factors: list[float] = (np.linalg.lstsq(system, right, rcond=1e-10)[0] * scale).tolist()
        return factors
