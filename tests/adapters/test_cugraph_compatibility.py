"""The script that runs cuGraph's tests on the drop-in, on tests of our own."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from dynstore.errors import MissingDependencyError
from dynstore.testing import compatibility
from dynstore.testing.compatibility import find_tests, main, render_table, run_tests

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("traversal/test_bfs.py", "core/test_any.py", "core/test_any_mg.py", "traversal/test_paths.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TESTS)
    (tmp_path / "structure").mkdir()
    (tmp_path / "structure" / "test_lost.py").write_text("import no_such_module")
    return tmp_path


def test_modules_of_one_gpu_are_found(folder: Path) -> None:
    names = [path.relative_to(folder).as_posix() for path in find_tests(folder)]
    assert names == ["traversal/test_bfs.py", "core/test_any.py", "structure/test_lost.py"]
    with pytest.raises(MissingDependencyError, match="pass --tests"):
        find_tests(folder / "nowhere")


@pytest.mark.skipif(importlib.util.find_spec("cugraph") is not None, reason="cuGraph is installed here")
def test_without_cugraph_the_line_to_type_is_given() -> None:
    with pytest.raises(MissingDependencyError, match=r"pip install 'dynstore\[rapids\]'"):
        main([])


def test_outcomes_come_with_reasons(folder: Path) -> None:
    outcomes = run_tests("cugraph", find_tests(folder)[::2], 120)
    ends = {name.rpartition("/")[2]: (end["outcome"], end["reason"]) for name, end in outcomes.items()}
    assert ends["test_bfs.py::test_good"] == ("passed", "")
    assert ends["test_bfs.py::test_measured"] == ("passed", "")
    assert ends["test_bfs.py::test_bad"] == ("failed", "AssertionError: one is not two")
    assert ends["test_bfs.py::test_skipped"] == ("skipped", "Skipped: no data set")
    assert ends["test_bfs.py::test_of_a_broken_fixture"] == ("failed", "RuntimeError: no fixture")
    assert "test_bfs.py::test_of_several_gpus" not in ends
    outcome, reason = ends["test_lost.py"]
    assert (outcome, "no_such_module" in reason) == ("failed", True)


def test_several_processes_say_the_same(folder: Path) -> None:
    paths = find_tests(folder)
    assert run_tests("cugraph", paths, 120, jobs=2) == run_tests("cugraph", paths, 120)


def test_what_did_not_pass_is_run_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, earlier = folder / "core" / "test_any.py", tmp_path / "earlier.json"
    module.write_text("def test_a(): assert False\n\ndef test_b(): assert False\n")
    name = "core/test_any.py::"
    monkeypatch.setattr(compatibility, "RUNS", ("cugraph",))
    passed = {"outcome": "passed", "reason": ""}
    earlier.write_text(json.dumps({"cugraph": {name + "test_a": passed, name + "test_b": {"outcome": "not run"}}}))
    (ends,) = compatibility._run_both([module], 120, 1, earlier)
    assert ends[name + "test_a"] == passed
    assert ends[name + "test_b"]["outcome"] == "failed"
    earlier.write_text(json.dumps({"cugraph": {name + "test_a": passed}}))
    assert compatibility._run_both([module], 120, 1, earlier) == [{name + "test_a": passed}]


def test_what_a_crash_or_the_end_of_time_stops_is_listed(folder: Path) -> None:
    module = folder / "core" / "test_any.py"
    module.write_text("import os\n\ndef test_a(): pass\n\ndef test_b(): os._exit(7)\n\ndef test_c(): pass\n")
    ends = run_tests("cugraph", [module], 120)
    assert ends["core/test_any.py::test_a"]["outcome"] == "passed"
    for name in ("test_b", "test_c"):
        end = ends[f"core/test_any.py::{name}"]
        assert (end["outcome"], end["reason"].partition(":")[0]) == ("not run", "the process ended with 7")
    module.write_text("import time\n\ndef test_a(): pass\n\ndef test_b(): time.sleep(60)\n")
    ends = run_tests("cugraph", [module], 10)
    assert ends["core/test_any.py::test_a"]["outcome"] == "passed"
    assert ends["core/test_any.py::test_b"] == {"outcome": "not run", "reason": "no time was left"}


def test_the_page_lists_what_is_lost_and_why() -> None:
    theirs = {
        "core/test_any.py::test_a": {"outcome": "passed", "reason": ""},
        "core/test_any.py::test_b": {"outcome": "passed", "reason": ""},
        "core/test_any.py::test_c": {"outcome": "failed", "reason": "FileNotFoundError: x.csv"},
        "core/test_any.py::test_d": {"outcome": "passed", "reason": ""},
    }
    ours = {**theirs, "core/test_any.py::test_b": {"outcome": "failed", "reason": "AssertionError: 1"}}
    del ours["core/test_any.py::test_d"]
    page = render_table(theirs, ours, "26.10.0", "3 data sets were there")
    assert "| core/test_any.py | 4 | 3 | 1 | 2 |" in page
    assert "| all | 4 | 3 | 1 | 2 |" in page
    assert "- `core/test_any.py::test_b`: failed: AssertionError: 1\n" in page
    assert "- `core/test_any.py::test_d`: not run: its module was not collected\n" in page
    assert "- core/test_any.py, 1: FileNotFoundError: x.csv\n" in page
    assert "\nNone.\n" in render_table(theirs, theirs, "26.10.0", "")
