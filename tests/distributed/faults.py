"""Allocations that fail on one rank alone, where ranks are threads."""

from __future__ import annotations

from threading import current_thread
from typing import Any

from dynstore.backend import Backend
from dynstore.testing.faults import FailingEmpty, FailingModule

__all__ = ["fault_of_one_rank"]


def fault_of_one_rank(backend: Backend, kind: str, rank: int = 1) -> Any:
    """Return what takes the place of ``backend.empty`` or ``backend.xp``; it does nothing until it is ``armed``."""
    made = EmptyOfOneRank(backend.empty, 0) if kind == "empty" else ModuleOfOneRank(backend.xp, 0)
    made.name = f"rank {rank}"
    return made


class OneRank:
    """Counts, and fails, only what one rank's thread does while it is armed."""

    armed = False
    name = ""

    def is_here(self) -> bool:
        return self.armed and current_thread().name == self.name


class EmptyOfOneRank(OneRank, FailingEmpty):
    def __call__(self, shape: Any, dtype: Any) -> Any:
        return super().__call__(shape, dtype) if self.is_here() else self.empty(shape, dtype)


class ModuleOfOneRank(OneRank, FailingModule):
    def _is_new(self, result: Any, args: tuple[Any, ...]) -> bool:
        return self.is_here() and super()._is_new(result, args)
