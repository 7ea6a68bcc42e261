"""Checking the plain arguments of a call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from typing import Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, LimitError, shown, unknown_name

__all__ = ["check_count", "check_dtype", "check_flag", "check_integer", "check_name", "check_number", "listed"]


def check_flag(caller: str, name: str, value: Any) -> bool:
    """Return ``value`` as a bool; refuse any other type."""
    if not isinstance(value, bool | np.bool_):
        raise InputTypeError(f"{caller}: {name} is {shown(value)}; wanted True or False")
    return bool(value)


def check_dtype(caller: str, name: str, value: Any, known: tuple[str, ...]) -> np.dtype:
    """Return ``value`` as a dtype; refuse one that is not in ``known``."""
    try:
        dtype: np.dtype = np.dtype(value)
    except TypeError:
        raise unknown_name(caller, name, value, known) from None
    if not any(dtype == each for each in known):  # comparing names takes ten times as long
        raise unknown_name(caller, name, value, known)
    return dtype


def check_name(caller: str, what: str, value: Any, known: Collection[str]) -> None:
    """Refuse a name that is not among the known ones, and whatever is no name."""
    if not isinstance(value, str) or value not in known:
        raise unknown_name(caller, what, value, known)


def check_integer(caller: str, name: str, value: Any) -> int:
    """Return ``value`` as an int; refuse any other type."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputTypeError(f"{caller}: {name} is {shown(value)}; wanted an integer")
    return int(value)


def check_number(caller: str, name: str, value: Any, least: float | None = None) -> float:
    """Return ``value`` as a float; refuse NaN, anything that is no number, and what is below ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputTypeError(f"{caller}: {name} is {shown(value)}; wanted a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise LimitError(
            f"{caller}: {name} is an integer of {int(value).bit_length()} bits; floats go to 1.8e308"
        ) from error
    if np.isnan(number):
        raise InputError(f"{caller}: {name} is NaN; wanted a number")
    if least is not None and number < least:
        raise InputError(f"{caller}: {name} is {value}; wanted {least} or more")
    return number


def check_count(caller: str, name: str, value: Any, least: int = 0) -> int | None:
    """Return ``value`` as an int of at least ``least``; None stays None."""
    if value is None:
        return None
    if check_integer(caller, name, value) < least:
        raise InputError(f"{caller}: {name} is {value}; wanted {least} or more")
    return int(value)


def listed(values: Any) -> Any:
    """Return a set, the keys of a dictionary or an iterator as a list; return all else as it is."""
    return list(values) if isinstance(values, Set | Iterator) else values
