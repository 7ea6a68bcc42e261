"""A pytest plugin for NetworkX's own suite: writes what the dynstore backend ran and what it refused.

Loaded with ``-p networkx_calls`` in the subprocess that ``test_networkx_suite.py`` starts; the file named by
``DYNSTORE_NETWORKX_CALLS`` gets a JSON object.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

outcomes: Counter[str] = Counter()
refused: Counter[tuple[str, str]] = Counter()
raised: Counter[tuple[str, str]] = Counter()
failed: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    from dynstore.adapters import networkx as adapter
    from dynstore.adapters.networkx.offers import OFFERS

    ask = adapter.BackendInterface.can_run

    def can_run(self: object, name: str, args: tuple, kwargs: dict) -> bool | str:
        answer = ask(self, name, args, kwargs)
        if answer is not True:
            refused[name, str(answer)] += 1
        return answer

    adapter.BackendInterface.can_run = can_run
    for name, offer in OFFERS.items():
        object.__setattr__(offer, "function", _watched(name, offer.function))


def _watched(name: str, function):
    def run(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except NotImplementedError as error:
            raised[name, str(error)] += 1
            raise

    return run


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        outcomes[outcome] += 1
        if outcome == "failed":
            failed.append(report.nodeid)


def pytest_sessionfinish() -> None:
    from dynstore.adapters.networkx import calls

    report = {
        "outcomes": outcomes,
        "calls": calls,
        "refused": sorted([*key, count] for key, count in refused.items()),
        "raised": sorted([*key, count] for key, count in raised.items()),
        "failed": failed,
    }
    Path(os.environ["DYNSTORE_NETWORKX_CALLS"]).write_text(json.dumps(report), encoding="utf-8")
