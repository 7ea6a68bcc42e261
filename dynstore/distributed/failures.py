"""Errors that a rank keeps in loops without agreements, until all ranks can learn of them."""

from __future__ import annotations

from types import TracebackType

__all__ = ["FAILED", "Failure"]

# Added to counts of all ranks, it makes each of them negative.
FAILED = -(1 << 56)


class Failure:
    """A ``with`` block whose error is kept, not raised; true once there is one."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def __bool__(self) -> bool:
        return self._error is not None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, Exception):
            self._error = self._error or error
            return True
        return False

    def check(self) -> None:
        """Raise what has failed."""
        if self._error is not None:
            raise self._error
