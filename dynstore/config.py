"""Reading options: frozen dataclasses made from keyword arguments, with clear refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from dynstore.errors import InputError, InputTypeError, unknown_name

__all__ = ["check_count", "check_dtype", "check_flag", "check_share", "make_options"]

T = TypeVar("T")


def make_options(who: str, cls: type[T], given: Mapping[str, Any]) -> T:
    """Make an options dataclass, refusing names that it does not have.

    Raises
    ------
    InputError
        With the list of known options.
    """
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise unknown_name(who, "option", name, known)
    return cls(**given)


def check_share(who: str, name: str, value: Any, low: float, high: float) -> float:
    """Return ``value`` as a float, refusing what is no number or lies outside ``[low, high]``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError(f"{who}: {name} is {value!r}; wanted a number between {low} and {high}")
    if not low <= value <= high:
        raise InputError(f"{who}: {name} is {value}; wanted a number between {low} and {high}")
    return float(value)


def check_flag(who: str, name: str, value: Any) -> bool:
    """Return ``value`` as a bool, refusing what is none."""
    if not isinstance(value, bool | np.bool_):
        raise InputTypeError(f"{who}: {name} is {value!r}; wanted True or False")
    return bool(value)


def check_dtype(who: str, name: str, value: Any, known: tuple[str, ...]) -> np.dtype:
    """Return ``value`` as a dtype, refusing those that are not among the known names."""
    try:
        dtype = np.dtype(value)
    except TypeError:
        raise unknown_name(who, name, value, known) from None
    if dtype.name not in known:
        raise unknown_name(who, name, value, known)
    return dtype


def check_count(who: str, name: str, value: Any) -> int | None:
    """Return ``value`` as an int of 0 or more, or None as it is."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputTypeError(f"{who}: {name} is {value!r}; wanted an integer")
    if value < 0:
        raise InputError(f"{who}: {name} is {value}; wanted 0 or more")
    return int(value)
