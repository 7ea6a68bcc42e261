"""Processes that update a database are killed; no update that has returned is lost, and none is there by half."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SEED

ROOT = Path(__file__).resolve().parents[2]


def _kill(folder: Path, rounds: int, kind: str) -> int:
    """Return how many updates there were."""
    program = [sys.executable, str(Path(__file__).with_name("killed.py")), str(folder), str(rounds), str(SEED), kind]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[2])


@pytest.mark.parametrize("kind", ["int32", "strings", "events"])
def test_kills(kind: str, tmp_path: Path) -> None:
    assert _kill(tmp_path / "db", 18, kind) > 10


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["int32", "int64", "sparse", "strings", "events"])
def test_a_thousand_kills(kind: str, tmp_path: Path) -> None:
    assert _kill(tmp_path / "db", 250, kind) > 250
