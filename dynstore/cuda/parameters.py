"""Records of kernels: a kernel reads neighbouring parameters as one ``NamedTuple``; launches pass them one by one.

Numba takes a record apart again, so the compiled kernel has the same parameters, in the same order, as one without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Records = Mapping[str, type[tuple[Any, ...]]]  # the class of each parameter that is a record

__all__ = ["Parameters"]


class Parameters:
    """What a kernel is launched with, and which of that it reads as records.

    Attributes
    ----------
    count : int
        Arguments of a launch: those of the records one by one.
    """

    def __init__(self, function: Callable[..., None], records: Records | None = None) -> None:
        code, records = function.__code__, records or {}
        names = code.co_varnames[: code.co_argcount]
        if not records.keys() <= set(names):
            raise TypeError(f"{function.__name__} has no parameters {sorted(records.keys() - set(names))}")
        self._name = function.__name__
        # For each parameter the class of its record, or None.
        self._classes: list[Any] = [records.get(name) for name in names]
        self.count = sum(1 if kind is None else len(kind._fields) for kind in self._classes)

    def group_values(self, flat: Sequence[Any]) -> list[Any]:
        """Return the arguments of a launch as the kernel's function takes them."""
        return self._group(flat, lambda values, kind: kind(*values))

    def group_types(self, flat: Sequence[Any]) -> tuple[Any, ...]:
        """Return the Numba types of a launch's arguments as those of the function's parameters."""
        from numba import types

        return tuple(self._group(flat, types.NamedTuple))

    def _group(self, flat: Sequence[Any], make: Callable[[tuple[Any, ...], Any], Any]) -> list[Any]:
        if len(flat) != self.count:
            raise TypeError(f"{self._name} got {len(flat)} arguments; wanted {self.count}")
        rest = iter(flat)
        return [
            next(rest) if kind is None else make(tuple(next(rest) for _ in kind._fields), kind)
            for kind in self._classes
        ]
