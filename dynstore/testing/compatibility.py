"""Runs cuGraph's own tests on the drop-in and writes the results: ``python -m dynstore.testing.compatibility``.

The test modules are those of the cuGraph wheel (or those in ``--tests``). They run twice: with the original cuGraph,
and with ``cugraph`` replaced by ``dynstore.adapters.cugraph``. Tests that pass only the first time are listed with the
reason, and so are tests that did not run because of a crash or the time limit. Tests of several GPUs are left out. Data
sets are searched in ``RAPIDS_DATASET_ROOT_DIR``, as by cuGraph; ``dynstore.testing.cugraph_data`` fills that folder.

In parts: ``--limit 600 --json ends.json``, then ``--limit 600 --json ends.json --again ends.json`` as long as there are
tests that did not run. They come first; those that failed run again after them.
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
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import dynstore
from dynstore.benchmarks.module_command import run_as_command
from dynstore.errors import MissingDependencyError

__all__ = ["find_tests", "main", "render_table", "run_tests"]

Outcomes = Mapping[str, Mapping[str, str]]

NEEDED_BY_CONFTEST = ("certifi", "dask_cuda", "networkx", "packaging")
RUNS = ("cugraph", "drop-in")
NOT_RUN = "not run"
# What is not run again.
SETTLED = ("passed", "skipped")
LAST_WORDS = 8000  # characters: a stack of Python's calls, innermost first
RESTARTS = 16  # of crashed processes; more crashes than that are not due to one test
TEST_LIMIT_S = 120  # that one test may take: the slowest of cuGraph's takes less alone on a GPU
LINE = "pip install 'dynstore[rapids]'"


def find_tests(folder: Path | None) -> list[Path]:
    """Return the test modules: those in subfolders first, in order.

    Parameters
    ----------
    folder : Path, optional
        cuGraph's ``tests``; by default the installed ones.

    Raises
    ------
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
    return found


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
    options = ["-p", "dynstore.testing.cugraph_plugin", "-p", "no:cacheprovider", "-c", os.devnull, "-q", "--tb=short"]
    options += ["--continue-on-collection-errors", f"--rootdir={root}", "-m", "not mg and not slow", "-W", "ignore"]
    options += ["-n", str(jobs), "--dist", "load", f"--max-worker-restart={RESTARTS}"]
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


def render_table(theirs: Outcomes, ours: Outcomes, version: str, data: str) -> str:
    """Return the page.

    Parameters
    ----------
    theirs, ours : mapping
        Node id -> ``outcome`` and ``reason``; with the original cuGraph, with the drop-in.
    version : str
        The version of cuGraph.
    data : str
        Where the data sets were, or a remark on it.
    """
    modules = sorted({_module(name) for name in (*theirs, *ours)})
    columns = ["tests", "pass with cuGraph", "pass with the drop-in", "pass with cuGraph only"]
    if any(end["outcome"] == NOT_RUN for end in (*theirs.values(), *ours.values())):
        columns.append("did not run at least once")
    lines = [
        "# Compatibility",
        "",
        f"These are cuGraph {version}'s own tests, run twice: with cuGraph as it is, and with",
        f"`dynstore.adapters.cugraph` of dynstore {dynstore.__version__} in its place ({data}).",
        "At the end it says why tests do not pass with cuGraph itself.",
        "",
        "    python -m dynstore.testing.cugraph_data DATA --from cugraph/datasets",
        "    export RAPIDS_DATASET_ROOT_DIR=$PWD/DATA",
        "    python -m dynstore.testing.compatibility --out docs/compatibility.md",
        "",
        "`cugraph/datasets` is from cuGraph's repository. The first command copies it and makes the results",
        "that traversals are compared with, by NetworkX. The data sets that are only on cuGraph's server",
        "are left out: the tests of `utils/test_dataset.py` that load them fail without a network.",
        "",
        f"| module | {' | '.join(columns)} |",
        "|---|" + "---|" * len(columns),
    ]
    totals: Counter[str] = Counter()
    for module in modules:
        names = [name for name in {*theirs, *ours} if _module(name) == module]
        counts = (
            len(names),
            sum(_passed(theirs, name) for name in names),
            sum(_passed(ours, name) for name in names),
            sum(_passed(theirs, name) and not _passed(ours, name) for name in names),
            sum(NOT_RUN in (_outcome(theirs, name), _outcome(ours, name)) for name in names),
        )
        by_column = dict(zip(columns, counts, strict=False))
        totals.update(by_column)
        lines.append(f"| {module} | {' | '.join(map(str, by_column.values()))} |")
    lines.append(f"| all | {' | '.join(str(totals[column]) for column in columns)} |")
    lost = sorted(name for name in theirs if _passed(theirs, name) and not _passed(ours, name))
    lines += ["", "## Tests that pass with cuGraph only", ""]
    if not lost:
        lines.append("None.")
    for name in lost:
        end = ours.get(name, {"outcome": NOT_RUN, "reason": "its module was not collected"})
        lines.append(f"- `{name}`: {end['outcome']}: {end['reason']}")
    others = Counter(
        (_module(name), _short(end["reason"])) for name, end in theirs.items() if end["outcome"] != "passed"
    )
    lines += ["", "## Tests that do not pass with cuGraph, by reason", ""]
    if not others:
        lines.append("None.")
    lines += [f"- {module}, {count}: {reason}" for (module, reason), count in sorted(others.items())]
    return "\n".join(lines) + "\n"


def _module(name: str) -> str:
    return "/".join(name.partition("::")[0].split("/")[-2:])


def _short(reason: str) -> str:
    return reason if len(reason) <= 160 else f"{reason[:157]}..."


def _outcome(outcomes: Outcomes, name: str) -> str:
    return outcomes.get(name, {}).get("outcome", "")


def _passed(outcomes: Outcomes, name: str) -> bool:
    return _outcome(outcomes, name) == "passed"


def _is_left(outcomes: Outcomes, name: str) -> bool:
    return _outcome(outcomes, name) == NOT_RUN


def _run_both(
    paths: list[Path], limit_s: float, jobs: int, again: Path | None, kept: Path | None, test_limit_s: int
) -> list[Outcomes]:
    """Run the tests that failed or did not run in ``again``; what the first run leaves of the time is the second's.

    ``kept`` is written after each run, in case the second fails.
    """
    both: dict[str, Outcomes] = {} if again is None else json.loads(again.read_text(encoding="utf-8"))
    end = time.monotonic() + limit_s * len(RUNS)
    for place, which in enumerate(RUNS):
        share_s = round((end - time.monotonic()) / (len(RUNS) - place))
        earlier = both.get(which, {})
        settled = {name: end for name, end in earlier.items() if end["outcome"] in SETTLED}
        if not earlier or len(settled) < len(earlier):
            names = sorted(earlier.keys() - settled.keys(), key=lambda name: (not _is_left(earlier, name), name))
            both[which] = {**settled, **run_tests(which, paths, share_s, jobs, names, test_limit_s)}
        if kept is not None:
            kept.write_text(json.dumps(both, indent=1), encoding="utf-8")
    return [both[which] for which in RUNS]


def main(arguments: list[str] | None = None) -> int:
    """Run, print the numbers, and write the page; return 0 if the drop-in loses no test, else 1."""
    parser = argparse.ArgumentParser(prog="python -m dynstore.testing.compatibility", description=__doc__)
    parser.add_argument("--tests", type=Path, help="folder with cuGraph's tests; by default the installed one")
    parser.add_argument("--out", type=Path, help="write the page here")
    parser.add_argument("--json", type=Path, help="write the outcomes here, after each of the two runs")
    parser.add_argument("--limit", type=int, default=1800, help="seconds a run; what the first leaves is the second's")
    parser.add_argument("--test-limit", type=int, default=TEST_LIMIT_S, help="seconds that one test may take")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once, all on the same GPU")
    parser.add_argument("--again", type=Path, help="outcomes of an earlier run: what failed or did not run runs again")
    chosen = parser.parse_args(arguments)
    if chosen.jobs < 1:
        parser.error("--jobs: 1 or more")
    if chosen.test_limit < 1:
        parser.error("--test-limit: 1 or more")
    paths = find_tests(chosen.tests)
    theirs, ours = _run_both(paths, chosen.limit, chosen.jobs, chosen.again, chosen.json, chosen.test_limit)
    from dynstore.benchmarks.machine import find_versions

    root = os.environ.get("RAPIDS_DATASET_ROOT_DIR")
    data = f"{sum(1 for _ in Path(root).glob('*.csv'))} data sets were there" if root else "no data sets were there"
    page = render_table(theirs, ours, find_versions().get("cugraph", "of unknown version"), data)
    if chosen.out is not None:
        chosen.out.write_text(page, encoding="utf-8")
    print(page)
    return int(any(_passed(theirs, name) and not _passed(ours, name) for name in theirs))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that child processes end, too
    run_as_command(main)
