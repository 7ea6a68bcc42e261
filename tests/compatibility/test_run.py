"""The script that runs cuGraph's tests on the drop-in, on tests of our own."""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dynstore.errors import InputError, MissingDependencyError
from tests.compatibility import plugin as cugraph_plugin
from tests.compatibility import run as compatibility
from tests.compatibility.page import (
    ModuleCounts,
    count_outcomes,
    find_lost,
    make_preface,
    read_page,
    render_page,
)
from tests.compatibility.run import find_tests, main, run_tests

TESTS = """
import pytest

def test_good(): pass

def test_bad():
    assert 1 == 2, "one is not two"

@pytest.mark.skip(reason="no data set")
def test_skipped(): pass

@pytest.mark.mg
def test_of_several_gpus(): assert False

@pytest.fixture
def broken(): raise RuntimeError("no fixture")

def test_of_a_broken_fixture(broken): pass

def test_measured(gpubenchmark):
    assert gpubenchmark(lambda a, b=1: a + b, 2, b=3) == 5
"""
KILLED = """
import os, signal

def test_a(): pass

def test_b(): os.kill(os.getpid(), signal.SIGKILL)

def test_c(): pass
"""
SHARER_KILLED = """
import os, pathlib, signal, time

def test_a(): pass

def test_b():
    while "passed" not in pathlib.Path(os.environ["DYNSTORE_COMPATIBILITY_OUT"]).read_text():
        time.sleep(0.01)
    os.kill(os.getppid(), signal.SIGKILL)

def test_c(): pass
"""
HANGING = """
import os, time

def test_a(): pass

def test_b():
    with open("{pid}", "w") as file:
        file.write(f"{{os.getpid()}} ")
    time.sleep(600)
"""

SLOW = """
import signal, time

def test_a(): time.sleep(600)

def test_b():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(600)

def test_c(): pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("traversal/test_bfs.py", "core/test_any.py", "core/test_any_mg.py", "traversal/test_mg_paths.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TESTS)
    (tmp_path / "structure").mkdir()
    (tmp_path / "structure" / "test_lost.py").write_text("import no_such_module")
    return tmp_path


def test_modules_of_one_gpu_are_found(folder: Path) -> None:
    for name in ("test_version.py", "test_version_mg.py"):
        (folder / name).write_text(TESTS)
    names = [path.relative_to(folder).as_posix() for path in find_tests(folder)]
    assert names == ["core/test_any.py", "structure/test_lost.py", "traversal/test_bfs.py", "test_version.py"]
    with pytest.raises(MissingDependencyError, match="pass --tests"):
        find_tests(folder / "nowhere")


@pytest.mark.skipif(importlib.util.find_spec("cugraph") is not None, reason="cuGraph is installed here")
def test_without_cugraph_the_line_to_type_is_given() -> None:
    with pytest.raises(MissingDependencyError, match=r"pip install 'dynstore\[rapids\]'"):
        main([])


@pytest.mark.parametrize("jobs", [2, *(pytest.param(jobs, marks=pytest.mark.thorough) for jobs in (1, 3))])
def test_outcomes_come_with_reasons_and_are_the_same_in_several_processes(folder: Path, jobs: int) -> None:
    (folder / "core" / "test_any.py").write_text(KILLED)
    outcomes = run_tests("cugraph", find_tests(folder), 120, jobs=jobs)
    assert list(outcomes) == sorted(outcomes)
    ends = {name.rpartition("/")[2]: (end["outcome"], end["reason"]) for name, end in outcomes.items()}
    outcome, reason = ends.pop("test_lost.py")
    assert (outcome, "no_such_module" in reason) == ("failed", True)
    assert ends == {
        "test_any.py::test_a": ("passed", ""),
        "test_any.py::test_b": ("failed", "its process crashed"),
        "test_any.py::test_c": ("passed", ""),
        "test_bfs.py::test_bad": ("failed", "AssertionError: one is not two"),
        "test_bfs.py::test_good": ("passed", ""),
        "test_bfs.py::test_measured": ("passed", ""),
        "test_bfs.py::test_of_a_broken_fixture": ("failed", "RuntimeError: no fixture"),
        "test_bfs.py::test_skipped": ("skipped", "Skipped: no data set"),
    }


@pytest.mark.thorough
def test_a_test_that_takes_too_long_fails_alone(folder: Path) -> None:
    module, version = folder / "core" / "test_any.py", folder / "test_version.py"
    module.write_text(SLOW)
    version.write_text("def test_a(): pass\n")
    ends = run_tests("cugraph", [module, version], 120, test_limit_s=1)
    assert ends == {
        "core/test_any.py::test_a": {"outcome": "failed", "reason": "Failed: took longer than 1 s"},
        "core/test_any.py::test_b": {"outcome": "failed", "reason": "its process crashed"},
        "core/test_any.py::test_c": {"outcome": "passed", "reason": ""},
        "test_version.py::test_a": {"outcome": "passed", "reason": ""},
    }


def test_data_sets_that_are_there_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[str, str]] = []
    serve = cugraph_plugin._serve(lambda *call: loaded.append(call))
    (tmp_path / "karate.csv").write_text("1 2\n")
    serve("https://server/karate.csv", "karate.csv")
    monkeypatch.setenv("RAPIDS_DATASET_ROOT_DIR", str(tmp_path))
    serve("https://server/else.csv", "else.csv")
    assert loaded == [("https://server/karate.csv", "karate.csv"), ("https://server/else.csv", "else.csv")]
    (tmp_path / "own").mkdir()
    serve("https://server/karate.csv", str(tmp_path / "own" / "karate.csv"))
    assert (tmp_path / "own" / "karate.csv").read_text() == "1 2\n"


def test_time_that_the_first_run_leaves_is_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now, limits = [1000.0], []

    def run(which: str, paths: list[Path], limit_s: float, *others: object) -> dict[str, Any]:
        limits.append(limit_s)
        now[0] += 30
        return {}

    monkeypatch.setattr(compatibility.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(compatibility, "run_tests", run)
    compatibility._run_both([], 100, 1, None, None, 1)
    assert limits == [100, 170]


def test_what_did_not_run_comes_before_what_failed(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("slow/test_b.py", "core/test_a.py", "test_version.py")]
    ends = {
        "core/test_a.py::test_a": ("failed", "1 == 2"),
        "core/test_a.py::test_b": ("not run", "timed out after 9 s"),
        "core/test_a.py::test_c": ("passed", ""),
        "core/test_other.py::test_a": ("not run", "timed out after 9 s"),
        "slow/test_b.py::test_a": ("not run", "timed out after 9 s while it ran"),
        "slow/test_b.py::test_b": ("not run", "timed out after 9 s"),
        "test_version.py::test_a": ("not run", ""),
    }
    outcomes = {name: {"outcome": outcome, "reason": reason} for name, (outcome, reason) in ends.items()}
    assert compatibility._left_in_turn(paths, outcomes) == [
        "slow/test_b.py::test_b",
        "core/test_a.py::test_b",
        "test_version.py::test_a",
        "slow/test_b.py::test_a",
        "core/test_a.py::test_a",
    ]


def test_what_failed_or_did_not_run_is_run_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    earlier, kept = tmp_path / "earlier.json", tmp_path / "kept.json"
    paths = [folder / "core" / "test_any.py", folder / "core" / "test_late.py"]
    paths[0].write_text("".join(f"def test_{name}(): assert False\n" for name in "abd"))
    paths[1].write_text("def test_c(): pass\n")
    monkeypatch.setattr(compatibility, "RUNS", ("cugraph",))
    passed = {"outcome": "passed", "reason": ""}
    settled = {
        "core/test_any.py::test_a": passed,
        "core/test_any.py::test_d": {"outcome": "skipped", "reason": "by itself"},
    }
    ends = dict(settled)
    earlier.write_text(json.dumps({"cugraph": ends}))
    assert compatibility._run_both(paths, 120, 1, earlier, None, 120) == [ends]
    ends |= {"core/test_any.py::test_b": {"outcome": "not run"}, "core/test_late.py": {"outcome": "failed"}}
    earlier.write_text(json.dumps({"cugraph": ends}))
    (ends,) = compatibility._run_both(paths, 120, 1, earlier, kept, 120)
    assert ends.pop("core/test_any.py::test_b")["outcome"] == "failed"
    assert ends == {**settled, "core/test_late.py::test_c": passed}
    assert json.loads(kept.read_text())["cugraph"].keys() == {*ends, "core/test_any.py::test_b"}


def test_outcomes_are_kept_when_the_second_run_writes_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(which: str, *arguments: object) -> dict[str, dict[str, str]]:
        if which == "drop-in":
            raise RuntimeError("no outcomes")
        return {"test_a": {"outcome": "passed", "reason": ""}}

    monkeypatch.setattr(compatibility, "run_tests", run)
    with pytest.raises(RuntimeError, match="no outcomes"):
        compatibility._run_both(find_tests(folder), 120, 1, None, tmp_path / "kept.json", 120)
    assert list(json.loads((tmp_path / "kept.json").read_text())) == ["about", "cugraph"]


def test_what_the_end_of_time_stops_is_listed_and_ended(folder: Path) -> None:
    module, pid = folder / "core" / "test_any.py", folder / "pid"
    module.write_text(HANGING.format(pid=pid) + "\ndef test_c(): pass\n")
    for seconds in (2, 8, 30, 80):  # on a busy machine, two are not enough to begin
        with suppress(RuntimeError):
            outcomes = run_tests("cugraph", [module], seconds)
            if outcomes["core/test_any.py::test_a"]["outcome"] == "passed":
                break
    _wait_until_ended(pid)
    assert outcomes == {
        "core/test_any.py::test_a": {"outcome": "passed", "reason": ""},
        "core/test_any.py::test_b": {"outcome": "not run", "reason": f"timed out after {seconds} s while it ran"},
        "core/test_any.py::test_c": {"outcome": "not run", "reason": f"timed out after {seconds} s"},
    }


def test_what_ends_the_process_that_shares_tests_out_is_said(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    module = folder / "core" / "test_any.py"
    module.write_text(SHARER_KILLED)
    ends = run_tests("cugraph", [module], 120)
    assert [end["outcome"] for end in ends.values()] == ["passed", "not run", "not run"]
    assert ends["core/test_any.py::test_c"]["reason"] == "the process ended with signal 9"
    assert "not all tests ran; the process ended with signal 9" in capfd.readouterr().err


def test_a_run_without_outcomes_is_an_error(folder: Path) -> None:
    with pytest.raises(RuntimeError, match=r"with cugraph wrote no outcomes; timed out after 0.01 s"):
        run_tests("cugraph", find_tests(folder), 0.01)


def test_an_ended_script_ends_what_it_started(folder: Path) -> None:
    pid = folder / "pid"
    (folder / "core" / "test_any.py").write_text(HANGING.format(pid=pid))
    command = [sys.executable, "-m", "tests.compatibility.run", "--tests", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(command, env=environment) as script:
        _wait(lambda: pid.is_file() and pid.read_text().endswith(" "))
        script.terminate()
    assert script.returncode == 128 + signal.SIGTERM
    _wait_until_ended(pid)


def _wait_until_ended(pid: Path) -> None:
    """Wait until the process whose id the file has is gone; it is a zombie for a moment where nobody waits for it."""
    status = Path("/proc") / pid.read_text().strip() / "status"
    _wait(lambda: not status.is_file() or "State:\tZ" in status.read_text())


def _wait(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not done():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "outcomes").write_text('["test_a", "passed", ""]\n["test_b", "pas')
    assert list(compatibility._read(tmp_path / "outcomes")) == [["test_a", "passed", ""]]


PASSED = {"outcome": "passed", "reason": ""}


def test_the_page_lists_what_is_lost_and_why() -> None:
    theirs = {
        "core/test_any.py::test_a": PASSED,
        "core/test_any.py::test_b": PASSED,
        "core/test_any.py::test_c": {"outcome": "failed", "reason": "FileNotFoundError: x.csv"},
        "core/test_any.py::test_d": PASSED,
        "core/test_any.py::test_e": PASSED,
        "core/test_any.py::test_f": {"outcome": "failed", "reason": "a reason of many words " * 20},
    }
    ours = {
        **theirs,
        "core/test_any.py::test_b": {"outcome": "failed", "reason": "AssertionError: 1"},
        "core/test_any.py::test_e": {"outcome": "not run", "reason": "timed out after 9 s while it ran"},
    }
    del ours["core/test_any.py::test_d"]
    page = render_page(count_outcomes(theirs, ours), make_preface("26.10.0", "3 data sets were there"))
    assert "the tests of cuGraph 26.10.0, run twice" in " ".join(page.split())
    assert "| core/test_any.py | 6 | 4 | 1 | 3 | 1 |" in page
    assert "| all | 6 | 4 | 1 | 3 | 1 |" in page
    assert "- core/test_any.py, 1: `test_b`: AssertionError: 1\n" in page
    assert "- core/test_any.py, 1: its module was not collected\n" in page
    assert "- core/test_any.py, 1: no time was left\n" in page
    assert "- core/test_any.py, 1: FileNotFoundError: x.csv\n" in page
    assert max(len(line) for line in page.splitlines() if "|" not in line) <= 100
    assert find_lost(theirs, ours) == [f"core/test_any.py::test_{name}" for name in "bde"]
    modules, preface = read_page(page)
    assert render_page(modules, preface) == page
    assert modules["core/test_any.py"].counts == [6, 4, 1, 3, 1]
    assert modules["core/test_any.py"].lost.total() == 3


def test_a_page_without_losses_is_read_as_well() -> None:
    page = render_page(count_outcomes({"core/test_any.py::test_a": PASSED}, {"core/test_any.py::test_a": PASSED}), "#")
    assert page.count("None.") == 2
    assert read_page(page)[0] == {"core/test_any.py": ModuleCounts([1, 1, 1, 0, 0])}
    with pytest.raises(InputError, match="not a page of this command"):
        read_page("# Compatibility")
    with pytest.raises(InputError, match=r"a reason for lost/test_any\.py, but no row"):
        read_page(page + "- lost/test_any.py, 1: no row")
    with pytest.raises(InputError, match="is not '- module, count: reason'"):
        read_page(page + "- lost")


def test_the_page_of_the_documentation_can_be_completed() -> None:
    """A run of one module changes that module's lines and the sums, and nothing else."""
    text = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    modules, preface = read_page(text)
    assert render_page(modules, preface) == text
    assert len(modules) == 49
    name = "structure/test_graph.py"
    ends = {f"{name}::test_{number}": PASSED for number in range(133)}
    after = render_page({**modules, **count_outcomes(ends, ends)}, preface)
    assert f"| {name} | 133 | 133 | 133 | 0 | 0 |" in after
    changed = {*text.splitlines()} ^ {*after.splitlines()}
    assert any(name in line for line in changed)
    assert all(name in line or line.startswith("| all |") for line in changed), changed


def run_here(
    which: str, paths: list[Path], limit_s: float, jobs: int, names: Collection[str], test_limit_s: int
) -> dict[str, dict[str, str]]:
    """Run tests that pass or fail by an assertion in this process, which takes no time, as ``run_tests`` does."""
    outcomes = {}
    for path in paths:
        for name, test in runpy.run_path(str(path)).items():
            if name.startswith("test_"):
                end = {"outcome": "passed", "reason": ""}
                try:
                    test()
                except AssertionError:
                    end = {"outcome": "failed", "reason": "AssertionError"}
                outcomes[f"{path.parent.name}/{path.name}::{name}"] = end
    return outcomes


@pytest.mark.parametrize("run", [run_here, pytest.param(run_tests, marks=pytest.mark.thorough)])
def test_a_part_changes_its_modules_on_the_page_only(
    run: Callable[..., Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compatibility, "run_tests", lambda which, *others: run("cugraph", *others))
    (folder / "core" / "test_any.py").write_text("def test_a(): pass\n")
    (folder / "traversal" / "test_bfs.py").write_text("def test_a(): assert False\n")
    (folder / "structure" / "test_lost.py").unlink()
    out, kept = tmp_path / "page.md", tmp_path / "ends.json"
    options = ["--tests", str(folder), "--out", str(out), "--limit", "120"]
    assert main(options) == 0
    both = out.read_text()
    assert "| core/test_any.py | 1 | 1 | 1 | 0 | 0 |\n| traversal/test_bfs.py | 1 | 0 | 0 | 0 | 0 |" in both
    (folder / "traversal" / "test_bfs.py").write_text("def test_a(): pass\n\ndef test_b(): pass\n")
    assert main([*options, "traversal/test_bfs.py", "--json", str(kept)]) == 0
    part = out.read_text()
    assert "| core/test_any.py | 1 | 1 | 1 | 0 | 0 |\n| traversal/test_bfs.py | 2 | 2 | 2 | 0 | 0 |" in part
    assert "| all | 3 | 3 | 3 | 0 | 0 |" in part
    assert json.loads(kept.read_text())["about"]["data_sets"] == 0
    out.write_text(both)
    assert main(["--read", str(kept), "--out", str(out)]) == 0
    assert out.read_text() == part
    about = json.loads(kept.read_text())
    about["about"]["cugraph"] = "99.2"
    kept.write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"is not of cuGraph 99\.2; run all modules anew"):
        main(["--read", str(kept), "--out", str(out)])
    assert out.read_text() == part
    with pytest.raises(InputError, match="has no outcomes of both runs"):
        main(["--read", str(out)])
    with pytest.raises(InputError, match=r"no test module core/test_other\.py in .*; they are core/test_any\.py, tr"):
        main([*options, "core/test_other.py"])
