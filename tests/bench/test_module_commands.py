"""Modules that are commands say what is wrong in one line, and exit with 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dynstore.bench.module_command import run_as_command
from dynstore.errors import InputError, OutOfMemoryError

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ROOT / "benchmarks", ROOT / "dynstore/bench", ROOT / "tests/compatibility"


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        ("dynstore.bench.demo", ["rmat:4:2", "--device", "cpu"], "rmat:4:2: 32 events; wanted more for 20 batches of"),
        ("benchmarks.lpma_cycle", ["--device", "abacus"], "device: unknown device 'abacus'; known: 'auto', 'cpu'"),
        ("benchmarks.kernel_times", ["--device", "cpu"], "kernel_times: device is 'cpu', which is the host here; want"),
        ("benchmarks.costs.opera", ["--queries", "degree"], "costs.opera: --queries has degree; wanted some of has_e"),
        (
            "benchmarks.papers",
            ["--suite", "gpma", "--data-dir", "no"],
            "papers: --data-dir is 'no', which is no folder",
        ),
        ("benchmarks.reports.results_page", ["nothing"], "results_page: no JSON file in 'nothing'; wanted a folder"),
    ],
)
def test_an_error_of_the_callers_is_one_line(module: str, arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_every_command_is_run_so() -> None:
    texts = {path: path.read_text(encoding="utf-8") for folder in FOLDERS for path in folder.rglob("*.py")}
    commands = {path: text for path, text in texts.items() if 'if __name__ == "__main__":' in text}
    assert len(commands) > 15
    assert [path for path, text in commands.items() if "    run_as_command(main)\n" not in text] == []


def test_other_ends_stay_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> int:
        raise InputError("seed is -1; wanted 0 or more")

    def run_out() -> int:
        raise OutOfMemoryError("it did not fit")

    for main, code in ((lambda: None, 0), (lambda: 1, 1), (refuse, 2)):
        with pytest.raises(SystemExit) as end:
            run_as_command(main)
        assert end.value.code == code
    assert capsys.readouterr().err == "error: seed is -1; wanted 0 or more\n"
    with pytest.raises(OutOfMemoryError):
        run_as_command(run_out)
