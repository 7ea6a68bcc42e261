"""Random inputs are the same in each run unless the environment says otherwise; tests may run in any order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import FIXED_SEED, _in_order

ROOT = Path(__file__).resolve().parents[2]


def seeds_of(**environment: str) -> set[str]:
    """Return the seeds that a run prints: at its beginning, and at its end."""
    kept = {name: value for name, value in os.environ.items() if name != "DYNSTORE_TEST_SEED"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:benchmark", "--collect-only", "-m", "draws", __file__],
        cwd=ROOT, env={**kept, **environment}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"DYNSTORE_TEST_SEED=(\d+)", done.stdout))


def test_the_seed_is_fixed_given_or_drawn_and_printed() -> None:
    assert seeds_of() == {str(FIXED_SEED)}
    assert seeds_of(DYNSTORE_TEST_SEED="7") == {"7"}
    (drawn,) = seeds_of(DYNSTORE_TEST_SEED="random")
    assert int(drawn) not in (7, FIXED_SEED)


def test_tests_that_draw_are_marked(request: pytest.FixtureRequest, rng: Any) -> None:
    assert request.node.get_closest_marker("draws")


def test_orders_have_all_tests_once() -> None:
    tests: list[Any] = [SimpleNamespace(path=Path(name), number=number) for name in "abcde" for number in range(20)]
    assert _in_order(tests, "listed", 1) == tests
    assert _in_order(tests, "reversed", 1) == tests[::-1]
    shuffled = _in_order(tests, "shuffled", 1)
    assert shuffled not in (tests, _in_order(tests, "shuffled", 2))
    assert sorted(shuffled, key=tests.index) == tests
    assert sum(one.path != other.path for one, other in pairwise(shuffled)) == 4  # files stay whole
    with pytest.raises(pytest.UsageError, match="DYNSTORE_TEST_ORDER is 'any'; wanted listed, reversed or shuffled"):
        _in_order(tests, "any", 1)
