"""Products of parameters: each two values meet in ``make test``; all combinations are for ``make test-thorough``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, cycle, product
from typing import Any

import pytest

from tests.conftest import DEVICES, PROFILE

__all__ = ["crossed", "if_thorough", "in_turn", "pair_up", "thorough"]

Choice = tuple[int, ...]  # of an axis each, the number of the value


def crossed(**axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Decorate a test with all combinations of parameters; without a GPU most of them are ``thorough``.

    Most faults need one value, or two that meet. For five parameters of three values that takes 15 of 243 tests.
    """
    return _marked(axes, set(_choose(list(axes.values()))))


def in_turn(**axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Decorate a test with all combinations; ``make test`` has each value of the first axis, once.

    It gets the combinations of the others in turn. For what hardly depends on several values that meet.
    """
    first, *others = (range(len(values)) for values in axes.values())
    quick = {(number, *rest) for number, rest in zip(first, cycle(product(*others)), strict=False)}
    return _marked(axes, quick)


def _marked(axes: dict[str, Sequence[Any]], quick: set[Choice]) -> pytest.MarkDecorator:
    found = []
    for choice in product(*(range(len(values)) for values in axes.values())):
        values = _values(list(axes.values()), choice)
        marks = () if choice in quick or "cuda" in DEVICES else pytest.mark.thorough
        found.append(pytest.param(*values, id="-".join(map(_name, values)), marks=marks))
    return pytest.mark.parametrize(tuple(axes), found)


def thorough(*values: Any) -> Any:
    """Return one case of ``pytest.mark.parametrize`` that is left out of ``make test``, unless there is a GPU."""
    return pytest.param(*values, marks=() if "cuda" in DEVICES else pytest.mark.thorough)


def if_thorough(*values: Any) -> list[Any]:
    """Return values of an axis that ``make test`` has not at all: so kernels need not be compiled for them."""
    return list(values) if PROFILE == "thorough" or "cuda" in DEVICES else []


def pair_up(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return combinations in which each two values of different axes meet."""
    return [_values(axes, choice) for choice in _choose(axes)]


def _choose(axes: Sequence[Sequence[Any]]) -> list[Choice]:
    """Take the combination with the most pairs that are missing, and again, until none is."""
    everything = list(product(*(range(len(values)) for values in axes)))
    missing = set().union(*map(_pairs, everything))
    chosen = []
    while missing:
        chosen.append(max(everything, key=lambda choice: len(missing & _pairs(choice))))
        missing -= _pairs(chosen[-1])
    return chosen


def _pairs(choice: Choice) -> set[tuple[tuple[int, int], ...]]:
    return set(combinations(enumerate(choice), 2))


def _values(axes: Sequence[Sequence[Any]], choice: Choice) -> tuple[Any, ...]:
    return tuple(values[number] for values, number in zip(axes, choice, strict=True))


def _name(value: Any) -> str:
    return "-".join(map(_name, value)) if isinstance(value, tuple) else getattr(value, "__name__", str(value))
