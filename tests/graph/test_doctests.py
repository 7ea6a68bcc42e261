"""The examples in the docstrings of the graph's methods are true."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["local", "readable", "updates", "dynamic"])
def test_the_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"dynstore.graph.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
