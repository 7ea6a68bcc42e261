"""Products of parameters are covered by pairs."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.conftest import DEVICES
from tests.crossed import crossed, in_turn, pair_up

AXES = {"size": [1, 2, 3], "kind": ["a", "b"], "weighted": [True, False], "store": ["x", "y", "z"]}


def test_each_two_values_meet() -> None:
    found = pair_up(*AXES.values())
    wanted = {
        (i, v, j, w)
        for i, j in combinations(range(4), 2)
        for v, w in product(*(list(AXES.values())[n] for n in (i, j)))
    }
    assert {(i, one[i], j, one[j]) for one in found for i, j in combinations(range(4), 2)} == wanted
    assert 9 <= len(found) <= 12


@pytest.mark.skipif("cuda" in DEVICES, reason="on a GPU all are tried")
def test_all_others_are_thorough() -> None:
    names, params = crossed(**AXES).args
    assert names == tuple(AXES)
    assert [param.values for param in params] == list(product(*AXES.values()))
    assert {param.values for param in params if not param.marks} == set(pair_up(*AXES.values()))
    assert {mark.name for param in params for mark in param.marks} == {"thorough"}
    assert params[0].id == "1-a-True-x"


@pytest.mark.skipif("cuda" in DEVICES, reason="on a GPU all are tried")
def test_the_values_of_one_axis_meet_those_of_others_in_turn() -> None:
    names, params = in_turn(size=range(5), kind=["a", "b"], weighted=[True, False]).args
    assert (names, len(params)) == (("size", "kind", "weighted"), 20)
    quick = [param.values for param in params if not param.marks]
    assert quick == [(0, "a", True), (1, "a", False), (2, "b", True), (3, "b", False), (4, "a", True)]
