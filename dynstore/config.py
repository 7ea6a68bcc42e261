"""Options: frozen dataclasses made from keyword arguments, with clear error messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import numpy as np

from dynstore.errors import InputError, InputTypeError, unknown_name

__all__ = ["check_share", "make_options"]

T = TypeVar("T")


def make_options(caller: str, cls: type[T], given: Mapping[str, Any]) -> T:
    """Make an options dataclass; refuse names that it does not have.

    Raises
    ------
    InputError
        With the list of known options.
    """
    if not given:
        defaults: T = _default_options(cls)  # type: ignore[arg-type]
        return defaults
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise unknown_name(caller, "option", name, known)
    # In narrow integers of NumPy's, what is reckoned with options would not fit.
    return cls(**{name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()})


@cache
def _default_options(cls: type[T]) -> T:
    """Return the one object with all defaults; it is frozen."""
    return cls()


def check_share(caller: str, name: str, value: Any, low: float, high: float) -> float:
    """Return ``value`` as a float; refuse anything that is no number in ``[low, high]``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError(f"{caller}: {name} is {value!r}; wanted a number between {low} and {high}")
    if not low <= value <= high:
        raise InputError(f"{caller}: {name} is {value}; wanted a number between {low} and {high}")
    return float(value)
