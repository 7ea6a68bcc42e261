"""The examples run, and find what they are made to find."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEVICES = ["cpu", "cuda"] if "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "").split(",") else ["cpu"]


@pytest.fixture(scope="module")
def fraud_stream() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "fraud_stream.py"))


def test_there_is_a_test_for_each_example() -> None:
    assert [path.name for path in sorted(EXAMPLES.iterdir()) if path.name != "__pycache__"] == [
        "dask_graph.py",  # adapters/dask/test_example.py
        "fraud_stream.py",
        "payments",  # test_payments_example.py
        "sharded_graph.py",  # distributed/test_processes.py
        "streamed_kernels.py",  # gts/test_streamed_kernels.py
    ]


@pytest.mark.parametrize("device", DEVICES)
def test_fraud_stream_finds_the_ring(
    fraud_stream: dict[str, Any], device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = fraud_stream["main"](batches=22, payments=60, seed=3, device=device)
    assert sorted(findings.top) == sorted(fraud_stream["RING"])
    assert 1 < findings.components < 600
    assert findings.largest > 100
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 22 + 1
    assert lines[-1].startswith("the same answers; dynstore ")


def test_fraud_stream_notices_when_the_two_ways_disagree(fraud_stream: dict[str, Any]) -> None:
    check, ranks, labels = fraud_stream["check_same"], pd.Series([0.5, 0.5], ["a", "b"]), pd.Series([1, 1], ["a", "b"])
    check(ranks, labels, ranks, labels + 4)
    with pytest.raises(AssertionError, match="the ranks differ"):
        check(ranks, labels, ranks + 0.001, labels)
    with pytest.raises(AssertionError, match="the ranks differ"):
        check(ranks, labels, pd.Series([0.5, 0.5], ["a", "c"]), labels)
    for one, other in (([1, 1], [1, 2]), ([1, 2], [1, 1])):
        with pytest.raises(AssertionError, match="the components differ"):
            check(ranks, pd.Series(one, ["a", "b"]), ranks, pd.Series(other, ["a", "b"]))


def test_fraud_stream_is_a_program() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    environment["PYTHONPATH"] = str(EXAMPLES.parent)
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "fraud_stream.py"), "--batches", "2", "--payments", "20", "--device", "cpu"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4


def test_the_rebuild_beside_it_takes_ten_lines() -> None:
    source = (EXAMPLES / "fraud_stream.py").read_text(encoding="utf-8")
    body = source.partition("\ndef rebuild(")[2].partition("\n\n\n")[0].partition('"""\n')[2]
    assert 0 < len(body.splitlines()) <= 10
