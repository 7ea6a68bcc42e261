"""Runs the tests in fresh virtual environments: with the newest libraries that pip finds, and with the oldest.

``make test-versions``, or from the root of the repository ``python -m tests.versions.run``. The newest libraries are
tried with each Python, and mypy, too. The oldest are tried with the lowest Python that pyproject.toml allows: they are
the lower bounds there, for the base and for the extra ``test``; what these need in turn is as new as pip finds it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.versions.bounds import ROOT, find_lowest, list_pythons, list_requirements, read_project
from tests.versions.pythons import MissingPythonError, Python, find_python
from tests.versions.tables import Run, show_runs

FOLDER = ROOT / "build" / "versions"
NEWEST, OLDEST = "newest", "oldest"
CHOICES = {"both": (NEWEST, OLDEST), NEWEST: (NEWEST,), OLDEST: (OLDEST,)}
ABOUT_MISSING = (
    "A Python that is not found is named. It is a failure if PYTHONS names it, as you asked for it; if nobody names "
    "it, the others do. If none is found at all, that is a failure, too."
)
LIST = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
# What would lead the tests of one environment into another, or keep them from keeping compiled modules.
LEFT_OUT = ("PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Attributes
    ----------
    runs : list of (Python, str)
        Each with "newest" or "oldest".
    missing : dict
        Name of a Python -> why there is none.
    failed : bool
        Whether those that are missing are a failure.
    """

    runs: list[tuple[Python, str]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    failed: bool = False


def make_plan(named: Sequence[str], libraries: str, environment: Mapping[str, str] = os.environ) -> Plan:
    """Find the Pythons.

    Parameters
    ----------
    named : sequence of str
        Those that the user names for the newest libraries; if there are none, all that pyproject.toml allows.
    libraries : str
        A key of ``CHOICES``.
    environment : mapping
        The variables to look for Pythons in.
    """
    supported = list_pythons(read_project())
    wanted = {NEWEST: list(dict.fromkeys(named)) or supported, OLDEST: supported[:1]}
    runs, missing = [], {}
    for which in CHOICES[libraries]:
        for name in wanted[which]:
            try:
                runs.append((find_python(name, environment), which))
            except MissingPythonError as error:
                missing[name] = str(error)
    return Plan(runs, missing, not runs or bool(set(named) & set(missing)))


def run_tests(python: Python, which: str, arguments: Sequence[str]) -> Run:
    """Make an environment and run the tests in it. What they say is shown as they say it."""
    folder = FOLDER / f"{re.sub(r'[^A-Za-z0-9.]+', '-', python.name).strip('-')}-{which}"
    began = time.monotonic()
    run = Run(python.version, which)
    for step, command in _preparations(python, which, folder).items():
        print(f"{folder.name}: {step}", flush=True)
        if _call(command, folder):
            return run.ended(time.monotonic() - began, problem=f"{step}: failed")
    listed = subprocess.run([_inside(folder), "-c", LIST], capture_output=True, text=True, check=True)
    results = folder / "results.xml"
    command = [_inside(folder), "-m", "pytest", "-n", "auto", "--dist", "worksteal", f"--junitxml={results}"]
    print(f"{folder.name}: pytest {' '.join(arguments)}", flush=True)
    ended = {"pytest": _call([*command, *arguments], folder)}
    if which == NEWEST:  # NumPy's types of its oldest release are not those that mypy wants
        print(f"{folder.name}: mypy", flush=True)
        ended["mypy"] = _call([_inside(folder), "-m", "mypy"], folder)
    return run.ended(
        time.monotonic() - began,
        versions=json.loads(listed.stdout),
        counts=read_counts(results),
        problem=", ".join(f"{name}: exit status {status}" for name, status in ended.items() if status),
    )


def _inside(folder: Path) -> str:
    return str(folder / "bin" / "python")


def _preparations(python: Python, which: str, folder: Path) -> dict[str, list[str]]:
    """Return the commands that make an environment, by what they do."""
    install = [_inside(folder), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", ".[test]"]
    if which == NEWEST:
        install += ["--upgrade", "--upgrade-strategy", "eager"]
    else:
        FOLDER.mkdir(parents=True, exist_ok=True)
        pins = FOLDER / "oldest.txt"
        pins.write_text(make_pins(find_lowest(list_requirements(read_project()))), encoding="utf-8")
        install += ["--constraint", str(pins)]
    return {
        f"python -m venv, with {python.path}": [python.path, "-m", "venv", "--clear", str(folder)],
        f"pip install, the {which} libraries": install,
    }


def make_pins(lowest: Mapping[str, str]) -> str:
    """Return the lines of a file of constraints for pip."""
    return "".join(f"{name}=={version}\n" for name, version in lowest.items())


def _call(command: Sequence[str], folder: Path) -> int:
    """Run a command in the root of the repository; return its exit status."""
    variables = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    # Another Numba throws away what was compiled before: the kernels beside the code are those of daily work.
    variables["NUMBA_CACHE_DIR"] = str(folder / "kernels")
    return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode


def read_counts(results: Path) -> dict[str, int]:
    """Return how many tests passed, failed and were skipped; {} if pytest wrote no results."""
    if not results.is_file():
        return {}
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ElementTree.parse(results).iter("testsuite"):
        for name in counts:
            counts[name] += int(suite.get(name, 0))
    failed = counts["failures"] + counts["errors"]
    return {"passed": counts["tests"] - failed - counts["skipped"], "failed": failed, "skipped": counts["skipped"]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says; return 1 if anything failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.versions.run", description=__doc__.partition("\n")[0], epilog=ABOUT_MISSING
    )
    parser.add_argument("pythons", nargs="*", metavar="PYTHONS", help="such as python3.12; default: all supported")
    parser.add_argument("--libraries", choices=CHOICES, default="both", help="default: both")
    parser.add_argument("--pytest-args", nargs=argparse.REMAINDER, default=[], help="the rest is for pytest")
    chosen = parser.parse_args(arguments)
    plan = make_plan(chosen.pythons, chosen.libraries)
    runs = [run_tests(python, which, chosen.pytest_args) for python, which in plan.runs]
    names = list(find_lowest(list_requirements(read_project())))
    print(show_runs(runs, plan.missing, names))
    return int(plan.failed or any(run.problem for run in runs))


if __name__ == "__main__":
    sys.exit(main())
