"""Devices, seeds and Hypothesis profiles of the whole suite.

``DYNSTORE_TEST_DEVICES``  devices to test on, by comma. Default ``cpu,cuda-sim``: the CUDA kernels run in
                           our simulator. ``cuda`` means ``cpu,cuda``: for real.
``DYNSTORE_TEST_SEED``     every random input follows from it. Default: always the same inputs; ``random`` draws a
                           seed, which the run prints.
``DYNSTORE_TEST_ORDER``    ``listed`` (default), ``reversed`` or ``shuffled`` (by the seed): no test may depend on
                           those before it.
``DYNSTORE_TEST_PROFILE``  ``quick`` (default) or ``thorough``: tests marked ``thorough`` run, too, and Hypothesis tries
                           forty times as many examples.
"""

from __future__ import annotations

import gc
import os
import random
import secrets
import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEVICES = [name for name in os.environ.get("DYNSTORE_TEST_DEVICES", "").replace(" ", "").split(",") if name]
if DEVICES == ["cuda"]:
    DEVICES = ["cpu", "cuda"]
DEVICES = DEVICES or ["cpu", "cuda-sim"]
if "cuda" not in DEVICES:
    # Read once, when Numba is imported, so it must come first.
    assert "numba" not in sys.modules, "Numba was imported before tests/conftest.py"
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Scripts of shells start programs in the background with Ctrl-C ignored. Those that tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A newcomer's first run must not depend on luck. `make test-random` draws.
FIXED_SEED = 20261121
if os.environ.get("DYNSTORE_TEST_SEED") == "random":
    os.environ["DYNSTORE_TEST_SEED"] = str(secrets.randbelow(2**32))  # so that the workers of pytest-xdist inherit it
SEED = int(os.environ.get("DYNSTORE_TEST_SEED") or FIXED_SEED)
ORDER = os.environ.get("DYNSTORE_TEST_ORDER", "listed")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

COMMON = {
    "deadline": None,
    "database": None,  # a run depends on its seed alone
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("quick", max_examples=25, stateful_step_count=30, **COMMON)
settings.register_profile("thorough", max_examples=1000, stateful_step_count=60, **COMMON)
PROFILE = os.environ.get("DYNSTORE_TEST_PROFILE", "quick")
_file: Path | None = None  # whose tests run
settings.load_profile(PROFILE)
# A module that has one of these names draws.
DRAWING = {"SEED", "given", "rule", "run_state_machine_as_test"}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-seed", None) is None:
        config.option.hypothesis_seed = str(SEED)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that draw: by the fixture below, by Hypothesis, or by the seed itself."""
    names = vars(getattr(item, "module", None) or object)
    if "rng" in getattr(item, "fixturenames", ()) or DRAWING & names.keys():
        item.add_marker("draws")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = _in_order(items, ORDER, SEED)
    if PROFILE == "thorough" or config.option.markexpr:
        return
    left_out = {item for item in items if item.get_closest_marker("thorough")}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _in_order(items: list[pytest.Item], order: str, seed: int) -> list[pytest.Item]:
    """Return the tests as listed, from the last to the first, or with files and the tests of each shuffled."""
    if order == "listed":
        return items
    if order == "reversed":
        return items[::-1]
    if order != "shuffled":
        raise pytest.UsageError(f"DYNSTORE_TEST_ORDER is {order!r}; wanted listed, reversed or shuffled")
    draw = random.Random(seed)
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    shuffled = draw.sample(list(files.values()), len(files))
    return [item for tests in shuffled for item in draw.sample(tests, len(tests))]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Spare each file's tests the collections of what the files before it have imported and compiled.

    The benchmarks collect garbage before each timing, and tests of memory that comes back do so, too.
    """
    global _file
    if item.path != _file:
        _file = item.path
        gc.collect()
        gc.freeze()


def pytest_report_header() -> str:
    return f"dynstore: devices {', '.join(DEVICES)}; order {ORDER}; DYNSTORE_TEST_SEED={SEED}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(
        f"devices {', '.join(DEVICES)}; order {ORDER}; to replay the random inputs: DYNSTORE_TEST_SEED={SEED}"
    )


@pytest.fixture(scope="module", autouse=True)
def quick_sorting() -> Iterator[None]:
    """Have simulated kernels sort in one step. Tests of sorting, and ``make test-thorough``, have the real ones."""
    if "cuda-sim" not in DEVICES or PROFILE == "thorough":
        yield
        return
    from tests import quick_sorting

    with pytest.MonkeyPatch.context() as patch:
        quick_sorting.install(patch)
        yield


@pytest.fixture(params=DEVICES, scope="session")
def backend_name(request: pytest.FixtureRequest) -> str:
    """Every device under test in turn."""
    return request.param


@pytest.fixture
def backend(backend_name: str):
    from dynstore.backend import get_backend

    return get_backend(backend_name)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers of this test alone, replayable through DYNSTORE_TEST_SEED."""
    return np.random.default_rng([SEED, zlib.crc32(request.node.nodeid.encode())])


@pytest.fixture
def take_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tracked answer is brought up to date from the changes where it can be, whatever that costs."""

    from dynstore.algorithms.costs import Choice, Costs, Work

    def choose(costs: Costs, work: Work) -> Choice:
        path: Any = "incremental" if "incremental" in work.paths else "recomputed"
        return Choice(path, "a test wants it", dict.fromkeys(work.paths))

    monkeypatch.setattr(Costs, "choose", choose)
