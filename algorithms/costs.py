"""What the ways to a tracked answer have cost lately, and which one to take next.

An answer is brought up to date from the changes ("incremental"), or computed anew, from the last one ("warm") or from
nothing ("recomputed"). The way is taken that is expected to take least, by what all have cost lately. A cost that was
measured long ago, or never, may be wrong, so other ways are tried at times. What a trial takes more than the fastest
way is a loss, and no other trial starts until that loss is below a small share of what the results since then have
taken. So trials slow down a long stream by that share at most.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["Budget", "Choice", "Costs", "Estimate", "Path", "Work"]

Path: TypeAlias = Literal["incremental", "warm", "recomputed"]

# Of the time of the results, how much may be lost by trials.
LOSS_SHARE = 1 / 16
# A way that is expected to take more than so many times the fastest one is not tried.
MOST_TIMES = 4.0
# The weight of the newest measurement; the means are geometric, as one slow run says little.
NEWEST = 0.3
# An attempt that was given up when it had cost as much as computing anew counts as so many times that.
GIVEN_UP = 2.0
# Why a way is taken.
NOTHING_MEASURED, FASTEST = "nothing was measured yet", "it is expected to take least"
# What a visit of an edge is taken to cost before one has been measured, and how many visits it takes to measure it.
VISIT_SECONDS, MIN_VISITS = 4e-9, 50_000


class Estimate:
    """The mean of the seconds that a unit of work takes, in which the newest measurements count most."""

    rate: float | None = None
    noted = -1  # the number of the result that it was measured with last

    def note(self, seconds: float, units: float) -> None:
        """Add a measurement."""
        newest = max(seconds, 1e-9) / max(units, 1.0)
        self.rate = newest if self.rate is None else self.rate * (newest / self.rate) ** NEWEST

    def seconds(self, units: float) -> float | None:
        """Return what so many units are expected to take; None if nothing was measured yet."""
        return None if self.rate is None else self.rate * max(units, 1.0)


class Budget:
    """How long an attempt may take, in time and in visited edges.

    Kernels on the host cannot see the time: they get a number of visits. Rounds that the host starts look at the time.

    Attributes
    ----------
    visits : int
        Edge visits so far.
    timed_visits, timed_s : int, float
        Edge visits of the kernels that got a number of visits, and their time.
    """

    def __init__(self, seconds: float = inf, visit_seconds: float = VISIT_SECONDS) -> None:
        self.visits = self.timed_visits = 0
        self.timed_s = 0.0
        self._begun = perf_counter()
        self._end, self._visit_seconds = self._begun + seconds, visit_seconds
        self._overdrawn = False

    def most_visits(self) -> int:
        """Return how many edges the kernel that starts now may visit; it stops once it has visited more."""
        self._begun = perf_counter()
        return int(min(max(self._end - self._begun, 0.0) / self._visit_seconds, 2.0**62))

    def note(self, visits: int, most: int | None = None) -> None:
        """Add the visits of a kernel; if they are more than ``most``, its work is not finished."""
        self.visits += visits
        if most is not None:
            self._overdrawn |= visits > most
            self.timed_visits += visits
            self.timed_s += perf_counter() - self._begun

    @property
    def is_spent(self) -> bool:
        """Whether the attempt has to be given up."""
        return self._overdrawn or perf_counter() > self._end


class Choice(NamedTuple):
    """A way, and why it is taken.

    Attributes
    ----------
    path : {"incremental", "warm", "recomputed"}
    why : str
    expected : dict
        Path -> what it is expected to take, in seconds; None if it was not measured yet. What was not measured for so
        many changes is guessed from the nearest number that was.
    is_trial : bool
        Whether the way is not known to be the fastest one.
    keeps : bool
        Whether this is only to measure the way: what :attr:`Work.is_prepared` speaks of must not be lost, so the
        result is made from the changes all the same.
    """

    path: Path
    why: str
    expected: dict[Path, float | None]
    is_trial: bool = False
    keeps: bool = False

    def budget(self, times: float, visit_seconds: float | None) -> Budget:
        """Return the budget of an attempt: ``times`` what computing anew is expected to take."""
        return Budget(times * self.expected_s(self.anew_path), visit_seconds or VISIT_SECONDS)

    @property
    def anew_path(self) -> Path:
        """How the answer is computed anew if the attempt is given up."""
        return min(("recomputed", "warm"), key=self.expected_s)

    def expected_s(self, path: Path) -> float:
        """Return what a way is expected to take, infinite if that is not known."""
        value = self.expected.get(path)
        return inf if value is None else value


class Work(NamedTuple):
    """What a result has to take in.

    Attributes
    ----------
    paths : tuple
        The ways that lead to it; of those that were not measured yet, the first is tried first.
    changes : int
        Changed edges.
    deletes : bool
        Whether some were deleted.
    size : int
        Edges and vertices of the graph.
    is_ready : bool
        Whether the incremental way can start without a preparation.
    is_prepared : bool
        Whether such a preparation was made, and would be lost.
    """

    paths: tuple[Path, ...]
    changes: int
    deletes: bool
    size: int
    is_ready: bool
    is_prepared: bool

    def key(self, path: Path) -> tuple[Path, bool, int]:
        """Return what this has in common with work that takes about as long."""
        return (path, False, 0) if path == "recomputed" else (path, self.deletes, self.changes.bit_length() // 2)

    def units(self, path: Path) -> int:
        """Return the units of an estimate: changed edges, or the size of the graph."""
        return self.changes if path == "incremental" else self.size


@dataclass
class Costs:
    """The costs of one answer.

    Attributes
    ----------
    ways : dict
        :meth:`Work.key` -> estimate.
    visit : Estimate
        Of a visit of an edge in an attempt.
    loss : float
        Seconds that trials have cost more than the fastest way would have, less what may be lost since then.
    measured : Counter
        Path -> how often it was measured.
    """

    ways: dict[tuple[Path, bool, int], Estimate] = field(default_factory=lambda: defaultdict(Estimate))
    visit: Estimate = field(default_factory=Estimate)
    loss: float = 0.0
    measured: Counter[Path] = field(default_factory=Counter)
    _now: int = 0

    def choose(self, work: Work) -> Choice:
        """Choose the way to the next result."""
        if len(work.paths) == 1:  # nothing to weigh: no changes were kept
            (path,) = work.paths
            seconds = self.ways[work.key(path)].seconds(work.units(path))
            return Choice(path, NOTHING_MEASURED if seconds is None else FASTEST, {path: seconds})
        estimates = {path: self.ways[work.key(path)] for path in work.paths}
        new = {path for path, estimate in estimates.items() if estimate.rate is None}
        expected = {
            path: self._nearest(work, path).seconds(work.units(path))
            if path in new
            else estimate.seconds(work.units(path))
            for path, estimate in estimates.items()
        }
        known = {path: value for path, value in expected.items() if value is not None}
        if not work.is_ready:  # a preparation never pays at once
            known.pop("incremental", None)
        if not known:
            return Choice("recomputed", NOTHING_MEASURED, expected)
        if work.is_prepared and work.is_ready and "incremental" in new:
            return Choice("incremental", "no time is known for so many changes", expected, is_trial=True)
        for path in work.paths:
            if self._has_only_begun(path) and (work.is_ready or path != "incremental"):
                keeps = work.is_ready and work.is_prepared and path != "incremental"
                return Choice(path, "its first time may not be typical", expected, is_trial=True, keeps=keeps)
        fastest = min(known, key=known.__getitem__)
        limit = MOST_TIMES * known[fastest]
        others = [path for path in work.paths if path != fastest and (path in new or (expected[path] or 0.0) <= limit)]
        if fastest in new:
            return Choice(fastest, "it is the fastest for fewer or more changes", expected, is_trial=True)
        if not others or self.loss > 0:
            return Choice(fastest, FASTEST, expected)
        oldest = min(others, key=lambda path: estimates[path].noted)
        why = "no time is known for so many changes" if oldest in new else "to measure it again"
        if oldest == "incremental" and not work.is_ready:
            why = "to make what the incremental way needs"
        keeps = work.is_ready and work.is_prepared and oldest != "incremental"
        return Choice(oldest, why, expected, is_trial=True, keeps=keeps)

    def _has_only_begun(self, path: Path) -> bool:
        """Whether a way other than "recomputed", by which all begins, was measured once."""
        return path != "recomputed" and self.measured[path] == 1

    def _nearest(self, work: Work, path: Path) -> Estimate:
        """Return the estimate of a way for the most similar changes; an empty one if there is none."""
        _, deletes, size = work.key(path)
        near = [
            (abs(other - size), kind is not deletes, other)
            for (name, kind, other), estimate in self.ways.items()
            if name == path and estimate.rate is not None
        ]
        if not near:
            return Estimate()
        _, differs, size = min(near)
        return self.ways[path, deletes is not differs, size]

    def note(self, work: Work, path: Path, seconds: float) -> None:
        """Record what a way has taken."""
        self.measured[path] += 1
        if path != "recomputed" and self.measured[path] == 2:  # the first time, memory and caches were cold
            for other in [key for key in self.ways if key[0] == path]:
                del self.ways[other]
        estimate = self.ways[work.key(path)]
        estimate.note(seconds, work.units(path))
        estimate.noted = self._now

    def note_attempt(self, work: Work, choice: Choice, seconds: float, budget: Budget, done: bool) -> None:
        """Record an incremental attempt; ``done``: it was not given up."""
        if budget.timed_visits >= MIN_VISITS:
            self.visit.note(budget.timed_s, budget.timed_visits)
        anew = choice.expected_s(choice.anew_path)
        self.note(work, "incremental", seconds if done or anew == inf else max(seconds, GIVEN_UP * anew))

    def note_result(self, choice: Choice, seconds: float, as_chosen: bool) -> None:
        """Record what a result took in all; ``as_chosen``: the chosen way was finished, without a preparation."""
        self._now += 1
        if self._has_only_begun(choice.path):  # it may have compiled kernels, which no later trial does
            return
        if choice.is_trial or not as_chosen:
            least = min(map(choice.expected_s, choice.expected), default=seconds)
            self.loss += max(seconds - least, 0.0)
        else:
            self.loss = max(self.loss - LOSS_SHARE * seconds, 0.0)
