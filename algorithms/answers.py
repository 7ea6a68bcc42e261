"""What all tracked answers have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.graph import DynamicGraph
    from dynstore.graph.delta import Delta
    from dynstore.typing import Array

__all__ = ["TrackedAnswer"]


class TrackedAnswer(ABC):
    """One answer's state, indexed by row number.

    Attributes
    ----------
    edge_visits : int
        Edge visits of the last call that changed the state; repeated visits count.
    """

    edge_visits = 0
    starts_warm = False  # whether :meth:`recompute` can start from the present state

    def __init__(self, G: DynamicGraph, **params: Any) -> None:
        self.G = G
        self.params = params

    @abstractmethod
    def read_params(self) -> bool:
        """Read the parameters as the function does; return False if they mean other vertices than last time."""

    @abstractmethod
    def recompute(self, warm: bool = False) -> None:
        """Compute the answer anew, as fast as the function does; ``warm``: from the present state."""

    def is_ready(self, deletes: bool) -> bool:
        """Whether :meth:`advance` has all that it needs for changes with or without deletions."""
        return True

    def inspect(self) -> None:  # noqa: B027
        """Find out about the present version what :meth:`is_ready` needs; called before updates keep their changes."""

    def release(self) -> None:  # noqa: B027
        """Drop what costs updates time and only :meth:`advance` needs; :meth:`is_ready` may be False from then on."""

    @property
    def upkeep_s(self) -> float:
        """What updates have spent so far on what only :meth:`advance` needs."""
        return 0.0

    @property
    def is_prepared(self) -> bool:
        """Whether computing anew would drop what :meth:`prepare` has made."""
        return False

    def prepare(self, budget: Budget) -> bool:
        """Compute the answer anew, and all that :meth:`advance` needs; return False if the budget is spent."""
        self.recompute()
        return True

    @abstractmethod
    def advance(self, delta: Delta, budget: Budget) -> bool:
        """Bring the state up to date; return False if it must be computed anew: a part of it may be written."""

    @abstractmethod
    def arrays(self) -> tuple[Array | None, ...]:
        """Return copies of the results at all rows, shape (V,) each, in the order in which :meth:`frame` has them."""

    @abstractmethod
    def frame(self) -> Any:
        """Return the state as the function returns it."""
