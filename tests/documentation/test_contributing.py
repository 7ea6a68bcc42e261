"""What CONTRIBUTING and `make help` say of the habits of the house is so."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def _make(*arguments: str) -> str:
    if shutil.which("make") is None:
        pytest.skip("make is not installed here")
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_hook_is_make_lint_and_nothing_else() -> None:
    config = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"^ +- repo: (.*)$", config, flags=re.MULTILINE) == ["local"]
    assert re.findall(r"^ +entry: (.*)$", config, flags=re.MULTILINE) == ["make lint"]
    assert re.findall(r"^ +language: (.*)$", config, flags=re.MULTILINE) == ["system"]
    assert "pre-commit install" in CONTRIBUTING


def test_make_lint_runs_all_that_checks_with_the_python_of_the_venv() -> None:
    lines = [line.partition(" -m ") for line in _make("--dry-run", "lint").splitlines()]
    checks = [(python, what) for python, _, what in lines if what.startswith(("ruff", "mypy"))]
    assert len({python for python, _ in checks}) == 1
    assert all(python.endswith("/bin/python") for python, _ in checks)
    assert [re.match(r"ruff (check|format --check)|mypy", what)[0] for _, what in checks] == [  # type: ignore[index]
        "ruff check", "ruff format --check", "mypy"
    ]  # fmt: skip


def test_make_help_has_one_line_for_each_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    shown = re.findall(r"^  make ([a-z-]+) +(\S.*)$", _make("help"), flags=re.MULTILINE)
    assert [name for name, _ in shown] == phony.split()
    assert all(len(line) <= 100 for _, line in shown)
    assert {name for name, _ in shown} == set(re.findall(r"^    make ([a-z-]+)", CONTRIBUTING, flags=re.MULTILINE))
