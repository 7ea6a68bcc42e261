"""The program behind `make test-versions`, without its environments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.versions import run as program
from tests.versions.pythons import MissingPythonError, Python, find_python
from tests.versions.tables import Run, show_runs


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Variables of a machine whose PATH has no Python, and where pyenv has none."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyenv" / "versions").mkdir(parents=True)
    return {"PATH": str(tmp_path / "bin"), "PYENV_ROOT": str(tmp_path / "pyenv")}


def command(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def says(version: str) -> str:
    return f"echo /somewhere/{version}/python; echo {version}"


# ------------------------------------------------------------------ finding Pythons


def test_a_python_is_found_by_name_and_by_path(machine: dict[str, str]) -> None:
    command(Path(machine["PATH"], "python9.1"), says("9.1.4"))
    assert find_python("python9.1", machine) == Python("python9.1", "/somewhere/9.1.4/python", "9.1.4")
    own = find_python(sys.executable, dict(os.environ))
    assert own.version == ".".join(map(str, sys.version_info[:3]))


def test_what_pyenv_has_is_found_where_its_command_refuses(machine: dict[str, str]) -> None:
    command(Path(machine["PATH"], "python9.1"), "echo 'pyenv: python9.1: command not found' >&2", "exit 127")
    for version in ("9.1.9", "9.1.10", "9.1-dev", "9.10.11"):
        command(Path(machine["PYENV_ROOT"], "versions", version, "bin", "python9.1"), says(version))
    assert find_python("python9.1", machine).version == "9.1.10"


@pytest.mark.parametrize("name", ["python9.1", "python", "/no/such/python"])
def test_a_python_that_is_missing_is_named(machine: dict[str, str], name: str) -> None:
    with pytest.raises(MissingPythonError, match=r"^not found$"):
        find_python(name, machine)


def test_why_a_python_does_not_run_is_said(machine: dict[str, str]) -> None:
    path = Path(machine["PATH"], "python9.1")
    command(path, "echo 'pyenv: python9.1: command not found' >&2", "exit 127")
    with pytest.raises(MissingPythonError, match=rf"^not found: {path}: pyenv: python9.1: command not found$"):
        find_python("python9.1", machine)
    path.write_text("no program")
    with pytest.raises(MissingPythonError, match=r"^not found: .*Exec format error"):
        find_python("python9.1", machine)


# ------------------------------------------------------------------ what is run


@pytest.fixture
def two_pythons(monkeypatch: pytest.MonkeyPatch, machine: dict[str, str]) -> dict[str, str]:
    """Of the Pythons 9.1 to 9.3 that are supported, those that are there."""
    monkeypatch.setattr(program, "list_pythons", lambda project: ["python9.1", "python9.2", "python9.3"])
    for minor in (1, 3):
        command(Path(machine["PATH"], f"python9.{minor}"), says(f"9.{minor}.0"))
    return machine


@pytest.mark.parametrize(
    ("named", "libraries", "runs", "missing", "failed"),
    [
        ([], "both", ["9.1.0 newest", "9.3.0 newest", "9.1.0 oldest"], ["python9.2"], False),
        (["python9.3", "python9.3"], "both", ["9.3.0 newest", "9.1.0 oldest"], [], False),
        (["python9.3", "python9.2"], "newest", ["9.3.0 newest"], ["python9.2"], True),
        (["python9.2"], "oldest", ["9.1.0 oldest"], [], False),
        (["python9.4"], "newest", [], ["python9.4"], True),
    ],
)
def test_the_plan(
    two_pythons: dict[str, str], named: list[str], libraries: str, runs: list[str], missing: list[str], failed: bool
) -> None:
    plan = program.make_plan(named, libraries, two_pythons)
    assert [f"{python.version} {which}" for python, which in plan.runs] == runs
    assert list(plan.missing) == missing
    assert plan.failed is failed


def test_no_python_at_all_is_a_failure(monkeypatch: pytest.MonkeyPatch, machine: dict[str, str]) -> None:
    monkeypatch.setattr(program, "list_pythons", lambda project: ["python9.1", "python9.2"])
    plan = program.make_plan([], "both", machine)
    assert (plan.runs, list(plan.missing), plan.failed) == ([], ["python9.1", "python9.2"], True)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, two_pythons: dict[str, str]) -> list[list[str]]:
    """The commands that the program would call; pytest writes results, in Python 9.3 with a failure."""
    commands: list[list[str]] = []

    def call(command: list[str], folder: Path) -> int:
        commands.append(command)
        if "pytest" not in command:
            return int("9.2" in command[0] or ("mypy" in command and "9.3" in command[0]))
        folder.mkdir(parents=True)
        failures = int("9.3" in folder.name)
        counts = f'tests="9" failures="{failures}" errors="0" skipped="2"'
        (folder / "results.xml").write_text(f"<testsuites><testsuite {counts}/></testsuites>")
        return failures

    class Listed:
        stdout = '{"NumPy": "2.9"}'

    monkeypatch.setattr(program, "FOLDER", tmp_path / "environments")
    monkeypatch.setattr(program, "_call", call)
    monkeypatch.setattr(program, "find_python", lambda name, environment: find_python(name, two_pythons))
    real = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda words, **given: Listed() if program.LIST in words else real(words, **given)
    )
    return commands


def test_environments_are_made_and_tested(called: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["python9.1", "--libraries", "both", "--pytest-args", "-k", "a or b", "--lf"]
    assert program.main(arguments) == 0
    newest, checked, oldest = called[:3], called[3], called[4:]
    assert checked[1:] == ["-m", "mypy"]
    for which, commands in (("newest", newest), ("oldest", oldest)):
        made, installed, tested = commands
        assert made[:4] == ["/somewhere/9.1.0/python", "-m", "venv", "--clear"]
        assert made[4].endswith(f"python9.1-{which}")
        assert installed[0] == tested[0] == f"{made[4]}/bin/python"
        assert ".[test]" in installed
        assert tested[-3:] == ["-k", "a or b", "--lf"]
    assert newest[1][-3:] == ["--upgrade", "--upgrade-strategy", "eager"]
    pins = Path(oldest[1][oldest[1].index("--constraint") + 1]).read_text()
    assert "numpy==" in pins
    assert pins.count("==") == pins.count("\n") > 15
    assert "python9.1-oldest: pip install, the oldest libraries" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["python9.3", "--libraries", "newest"],
            "6       1       2        0        pytest: exit status 1, mypy: exit status 1",
        ),
        (["python9.1", "python9.2", "--libraries", "newest"], "python9.2: not found"),
    ],
)
def test_a_failure_is_the_exit_status(
    called: list[list[str]], capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert program.main(arguments) == 1
    assert said in capsys.readouterr().out


def test_what_cannot_be_installed_ends_its_run_only(
    called: list[list[str]], two_pythons: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    command(Path(two_pythons["PATH"], "python9.2"), says("9.2.0"))
    assert program.main(["--libraries", "newest"]) == 1
    lines = capsys.readouterr().out.splitlines()
    (problem,) = [line for line in lines if line.startswith("9.2.0")]
    assert problem.endswith("python -m venv, with /somewhere/9.2.0/python: failed")
    assert [line.split()[0] for line in lines if " newest " in line and " all passed" in line] == ["9.1.0"]


def test_the_help_says_what_a_missing_python_means(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["--help"])
    assert "is not found is named" in " ".join(capsys.readouterr().out.split())


# ------------------------------------------------------------------ tables


def test_the_tables() -> None:
    def run(python: str, libraries: str, **found: Any) -> Run:
        return Run(python, libraries).ended(**found)

    counts = {"passed": 5600, "failed": 0, "skipped": 31}
    shown = show_runs(
        [
            run("3.12.1", "newest", seconds=61.6, counts=counts, versions={"NumPy": "2.5.5", "A_B": "2"}),
            run("3.13.0", "newest", seconds=2, problem="pip install: failed"),
            run("3.11.7", "oldest", seconds=9, counts=counts | {"failed": 1}, versions={"numpy": "2.1"}, problem="1"),
        ],
        {"python3.14": "not found"},
        ["a-b", "numpy"],
    )
    assert shown.splitlines() == [
        "",
        "Python  libraries  passed  failed  skipped  seconds",
        "3.12.1  newest     5600    0       31       62       all passed",
        "3.13.0  newest     -       -       -        2        pip install: failed",
        "3.11.7  oldest     5600    1       31       9        1",
        "python3.14: not found",
        "",
        "library  3.12.1 newest  3.11.7 oldest",
        "a-b      2              -",
        "numpy    2.5.5          2.1",
    ]


def test_counts_of_results(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    assert program.read_counts(results) == {}
    results.write_text('<testsuites><testsuite tests="10" failures="1" errors="2" skipped="3"/></testsuites>')
    assert program.read_counts(results) == {"passed": 4, "failed": 3, "skipped": 3}
