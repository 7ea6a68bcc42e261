"""Runs cuGraph's own tests on the drop-in and writes the results: ``python -m tests.compatibility.run``.

The test modules are those of the cuGraph wheel (or those in ``--tests``). They run twice: with the original cuGraph,
and with ``cugraph`` replaced by ``dynstore.adapters.cugraph``. Tests that pass only the first time are listed with the
reason, and so are tests that did not run because of a crash or the time limit. Tests of several GPUs are left out. Data
sets are searched in ``RAPIDS_DATASET_ROOT_DIR``, as by cuGraph; ``tests.compatibility.data`` fills that folder.

In parts: ``--limit 600 --json ends.json``, then ``--limit 600 --json ends.json --again ends.json`` as long as there are
tests that did not run. They come first; those that failed run again after them. With names of modules only these run,
in this order: name quick ones first. A page that is there keeps what it says of other modules. ``--read ends.json``
makes the page and runs nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dynstore.bench.module_command import run_as_command
from dynstore.errors import InputError, MissingDependencyError
from tests.compatibility.page import (
    NOT_RUN,
    WHILE_IT_RAN,
    Outcomes,
    count_outcomes,
    find_lost,
    make_preface,
    read_page,
    render_page,
)

__all__ = ["find_tests", "main", "run_tests"]

NEEDED_BY_CONFTEST = ("certifi", "dask_cuda", "networkx", "packaging")
RUNS = ("cugraph", "drop-in")
ABOUT = "about"  # what a file of outcomes says of its run
# What is not run again.
SETTLED = ("passed", "skipped")
LAST_WORDS = 8000  # characters: a stack of Python's calls, innermost first
RESTARTS = 16  # of crashed processes; more crashes than that are not due to one test
TEST_LIMIT_S = 120  # that one test may take: the slowest of cuGraph's takes less alone on a GPU
LINE = "pip install 'dynstore[rapids]'"


def find_tests(folder: Path | None, modules: Sequence[str] = ()) -> list[Path]:
    """Return the test modules: those in subfolders first, in order.

    Parameters
    ----------
    folder : Path, optional
        cuGraph's ``tests``; by default the installed ones.
    modules : sequence of str
        Names such as "structure/test_graph.py": only these, in this order. By default all for one GPU.

    Raises
    ------
    InputError
        If a module is not there.
    MissingDependencyError
        If there are none, with the command that installs it.
    """
    if folder is None:
        spec = importlib.util.find_spec("cugraph")
        if spec is None or spec.origin is None:
            raise MissingDependencyError(f"compatibility: cuGraph is not installed: {LINE}")
        folder = Path(spec.origin).parent / "tests"
    found = [
        path
        for pattern in ("*/test_*.py", "test_*.py")
        for path in sorted(folder.glob(pattern))
        if "mg" not in path.stem.split("_")
    ]
    if not found:
        raise MissingDependencyError(
            f"compatibility: no tests of cuGraph in {folder}; its wheel ships them: {LINE}, or pass --tests"
        )
    by_name = {path.relative_to(folder).as_posix(): path for path in found}
    unknown = [name for name in modules if name not in by_name]
    if unknown:
        raise InputError(
            f"compatibility: no test module {', '.join(unknown)} in {folder}; they are {', '.join(by_name)}"
        )
    return [by_name[name] for name in modules] or found


def run_tests(
    which: str,
    paths: list[Path],
    limit_s: float,
    jobs: int = 1,
    names: Collection[str] = (),
    test_limit_s: int = TEST_LIMIT_S,
) -> Outcomes:
    """Run the modules in separate processes of pytest-xdist, which restarts a process that a test has ended.

    Parameters
    ----------
    which : str
        One of :data:`RUNS`.
    paths : list of Path
        Modules in subfolders of one folder; the first is in one, others may be in the folder itself.
    limit_s : float
        Time limit in seconds.
    jobs : int
        Number of parallel processes; an idle one takes tests from another.
    names : collection of str
        Node ids of the tests to run; by default all.
    test_limit_s : int
        Seconds that one test may take before it fails.

    Returns
    -------
    mapping
        Node id -> ``outcome`` ("passed", "failed", "skipped", "not run") and ``reason``, in order of the ids.

    Raises
    ------
    MissingDependencyError
        Without pytest-xdist, with the command that installs it.
    RuntimeError
        If no test was collected, with the last output of the process.
    """
    if importlib.util.find_spec("xdist") is None:
        raise MissingDependencyError("compatibility: pytest-xdist is not installed: pip install 'dynstore[test]'")
    root = paths[0].parent.parent
    options = ["-p", "tests.compatibility.plugin", "-p", "no:cacheprovider", "-c", os.devnull, "-q", "--tb=short"]
    options += ["--continue-on-collection-errors", f"--rootdir={root}", "-m", "not mg and not slow", "-W", "ignore"]
    options += ["-n", str(jobs), "--dist", "load", f"--max-worker-restart={RESTARTS}"]
    options.append("--maxschedchunk=1")  # no test waits behind a slow one
    if any(importlib.util.find_spec(name) is None for name in NEEDED_BY_CONFTEST):
        options.append("--noconftest")
    chosen = [str(root / name) for name in names] or [str(path) for path in paths]
    with tempfile.TemporaryDirectory() as work:
        out, said = Path(work) / "outcomes", Path(work) / "said"
        environment = {**os.environ, "DYNSTORE_COMPATIBILITY": which, "DYNSTORE_COMPATIBILITY_OUT": str(out)}
        environment["DYNSTORE_COMPATIBILITY_TEST_LIMIT"] = str(test_limit_s)
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        ended = _run([sys.executable, "-m", "pytest", *options, *chosen], environment, said, limit_s)
        written = {name: (outcome, reason) for name, outcome, reason in _read(out)}
        last_words = said.read_text(encoding="utf-8", errors="replace")[-LAST_WORDS:]
    if not written:
        raise RuntimeError(f"compatibility: the tests with {which} wrote no outcomes; {ended}: {last_words}")
    if any(outcome == NOT_RUN for outcome, _ in written.values()):
        print(f"compatibility: with {which} not all tests ran; {ended}: {last_words}", file=sys.stderr)
    return {
        name: {"outcome": outcome, "reason": f"{ended} {reason}".strip() if outcome == NOT_RUN else reason}
        for name, (outcome, reason) in sorted(written.items())
    }


def _run(command: list[str], environment: Mapping[str, str], said: Path, limit_s: float) -> str:
    """Run a command, then end it and all its child processes; return how it ended."""
    with said.open("wb") as file:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"timed out after {limit_s:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"the process ended with {f'signal {-status}' if status < 0 else f'exit status {status}'}"


def _read(out: Path) -> Iterator[list[str]]:
    for line in out.read_text(encoding="utf-8").splitlines() if out.is_file() else []:
        with contextlib.suppress(json.JSONDecodeError):  # the last line of a process that was ended while writing
            yield json.loads(line)


def _left_in_turn(paths: list[Path], outcomes: Outcomes) -> list[str]:
    """Return the tests of some modules that failed or did not run, in the order in which they run again.

    First come those that did not begin, then those that were running when time was up, then those that failed; each
    in the order of the modules.
    """
    turns = {f"{path.parent.name}/{path.name}": turn for turn, path in enumerate(paths)}
    turns |= {path.name: turn for turn, path in enumerate(paths)}
    left = []
    for name, end in outcomes.items():
        turn = turns.get(name.partition("::")[0])
        if end["outcome"] not in SETTLED and turn is not None:
            began = end["outcome"] != NOT_RUN or end.get("reason", "").endswith(WHILE_IT_RAN)
            left.append((end["outcome"] != NOT_RUN, began, turn, name))
    return [name for *_, name in sorted(left)]


def _run_both(
    paths: list[Path], limit_s: float, jobs: int, again: Path | None, kept: Path | None, test_limit_s: int
) -> list[Outcomes]:
    """Run the tests that failed or did not run in ``again``; what the first run leaves of the time is the second's.

    ``kept`` is written after each run, in case the second fails.
    """
    both: dict[str, Any] = {} if again is None else json.loads(again.read_text(encoding="utf-8"))
    both.pop(ABOUT, None)
    end = time.monotonic() + limit_s * len(RUNS)
    for place, which in enumerate(RUNS):
        share_s = round((end - time.monotonic()) / (len(RUNS) - place))
        earlier = both.get(which, {})
        names = _left_in_turn(paths, earlier)
        if names or not earlier:
            settled = {name: end for name, end in earlier.items() if name not in names}
            both[which] = {**settled, **run_tests(which, paths, share_s, jobs, names, test_limit_s)}
        if kept is not None:
            kept.write_text(json.dumps({ABOUT: _describe_run(), **both}, indent=1), encoding="utf-8")
    return [both[which] for which in RUNS]


def main(arguments: list[str] | None = None) -> int:
    """Run, print the numbers, and write the page; return 0 if the drop-in loses no test, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility.run", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="only these, such as structure/test_graph.py")
    parser.add_argument("--tests", type=Path, help="folder with cuGraph's tests; by default the installed one")
    parser.add_argument(
        "--out", type=Path, help="write the page here; what one that is there says of other modules stays"
    )
    parser.add_argument("--json", type=Path, help="write the outcomes here, after each of the two runs")
    parser.add_argument("--limit", type=int, default=1800, help="seconds a run; what the first leaves is the second's")
    parser.add_argument("--test-limit", type=int, default=TEST_LIMIT_S, help="seconds that one test may take")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once, all on the same GPU")
    parser.add_argument("--again", type=Path, help="outcomes of an earlier run: what failed or did not run runs again")
    parser.add_argument(
        "--read", type=Path, help="run nothing: make the page of the outcomes that --json has kept here"
    )
    chosen = parser.parse_args(arguments)
    if chosen.jobs < 1:
        parser.error("--jobs: 1 or more")
    if chosen.test_limit < 1:
        parser.error("--test-limit: 1 or more")
    if chosen.read is not None:
        about, theirs, ours = _read_kept(chosen.read)
    else:
        paths = find_tests(chosen.tests, chosen.modules)
        theirs, ours = _run_both(paths, chosen.limit, chosen.jobs, chosen.again, chosen.json, chosen.test_limit)
        about = _describe_run()
    page = _make_page(about, theirs, ours, chosen.out)
    if chosen.out is not None:
        chosen.out.write_text(page, encoding="utf-8")
    print(page)
    return int(bool(find_lost(theirs, ours)))


def _describe_run() -> dict[str, Any]:
    """Return the versions, the GPU and the number of data sets."""
    from dynstore.bench.machine import describe_machine, find_commit, find_versions

    root = os.environ.get("RAPIDS_DATASET_ROOT_DIR")
    return {
        "cugraph": find_versions().get("cugraph", "of unknown version"),
        "commit": find_commit(),
        "gpu": describe_machine()["gpu"] or "unknown GPU",
        "data_sets": sum(1 for _ in Path(root).glob("*.csv")) if root else 0,
    }


def _read_kept(kept: Path) -> tuple[dict[str, Any], Outcomes, Outcomes]:
    try:
        both = json.loads(kept.read_text(encoding="utf-8"))
        return both[ABOUT], both[RUNS[0]], both[RUNS[1]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"compatibility: {str(kept)!r} has no outcomes of both runs: {error!r}") from error


def _make_page(about: Mapping[str, Any], theirs: Outcomes, ours: Outcomes, earlier: Path | None) -> str:
    """Return the page of these outcomes. If an earlier page has more modules, what it says of those stays."""
    found = count_outcomes(theirs, ours)
    preface = make_preface(about["cugraph"], f"on one {about['gpu']}; {about['data_sets']} data sets were there")
    if earlier is None or not earlier.is_file():
        return render_page(found, preface)
    modules, its_preface = read_page(earlier.read_text(encoding="utf-8"))
    if modules.keys() <= found.keys():
        return render_page(found, preface)
    if f"cuGraph {about['cugraph']}," not in " ".join(its_preface.split()):
        raise InputError(f"compatibility: {str(earlier)!r} is not of cuGraph {about['cugraph']}; run all modules anew")
    return render_page({**modules, **found}, its_preface)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that child processes end, too
    run_as_command(main)
