"""Runs cuGraph's own tests on the drop-in and writes what passes: ``python -m dynstore.testing.compatibility``.

The test modules are those that the cuGraph wheel ships (or those in ``--tests``); they run twice: with cuGraph as it
is, and with ``cugraph`` replaced by ``dynstore.adapters.cugraph``. What passes the first time and not the second is
listed with its reason; so is what a crash or the end of time kept from running. Tests of several GPUs are left out.
Data sets are looked for in ``RAPIDS_DATASET_ROOT_DIR``, as cuGraph does.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import dynstore
from dynstore.errors import MissingDependencyError

__all__ = ["MODULES", "find_tests", "main", "render_table", "run_tests"]

Outcomes = Mapping[str, Mapping[str, str]]

# Folder -> the modules of it; an empty tuple means all of them.
MODULES: dict[str, tuple[str, ...]] = {
    "traversal": ("test_bfs.py", "test_sssp.py"),
    "link_analysis": ("test_pagerank.py",),
    "community": ("test_triangle_count.py",),
    "components": (),
    "core": (),
    "structure": (),
}
NEEDED_BY_CONFTEST = ("certifi", "dask_cuda", "networkx", "packaging")
RUNS = ("cugraph", "drop-in")
NOT_RUN = "not run"
LINE = "pip install 'dynstore[rapids]'"


def find_tests(folder: Path | None) -> list[Path]:
    """Return the test modules, in order.

    Parameters
    ----------
    folder : Path, optional
        cuGraph's ``tests``; by default what is installed.

    Raises
    ------
    MissingDependencyError
        When there are none, with the line to type.
    """
    if folder is None:
        spec = importlib.util.find_spec("cugraph")
        if spec is None or spec.origin is None:
            raise MissingDependencyError(f"compatibility: cuGraph is not installed: {LINE}")
        folder = Path(spec.origin).parent / "tests"
    found = []
    for name, modules in MODULES.items():
        paths = sorted((folder / name).glob("test_*.py"))
        found += [path for path in paths if (not modules or path.name in modules) and not path.stem.endswith("_mg")]
    if not found:
        raise MissingDependencyError(
            f"compatibility: no tests of cuGraph in {folder}; its wheel ships them: {LINE}, or pass --tests"
        )
    return found


def run_tests(which: str, paths: list[Path], limit_s: float, jobs: int = 1, names: Collection[str] = ()) -> Outcomes:
    """Run the modules in a process of their own, or in several.

    Parameters
    ----------
    which : str
        One of :data:`RUNS`.
    paths : list of Path
        Modules in folders of one folder.
    limit_s : float
        Seconds that it may take.
    jobs : int
        Processes among which pytest-xdist shares the tests out.
    names : collection of str
        Node ids of the tests to run; by default all.

    Returns
    -------
    mapping
        Node id -> ``outcome`` ("passed", "failed", "skipped", "not run") and ``reason``.
    """
    options = [
        "-p",
        "dynstore.testing.cugraph_plugin",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "-q",
        "--tb=short",
        "--continue-on-collection-errors",
    ]
    options += [f"--rootdir={paths[0].parent.parent}", "-m", "not mg and not slow", "-W", "ignore"]
    if jobs > 1:
        if importlib.util.find_spec("xdist") is None:
            raise MissingDependencyError("compatibility: --jobs needs pytest-xdist: pip install 'dynstore[test]'")
        options += ["-n", str(jobs)]
    if any(importlib.util.find_spec(name) is None for name in NEEDED_BY_CONFTEST):
        options.append("--noconftest")
    with tempfile.TemporaryDirectory() as work:
        out = Path(work) / "outcomes"
        environment = {**os.environ, "DYNSTORE_COMPATIBILITY": which, "DYNSTORE_COMPATIBILITY_OUT": str(out)}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        root = paths[0].parent.parent
        chosen = [str(root / name) for name in names] or [str(path) for path in paths]
        command = [sys.executable, "-m", "pytest", *options, *chosen]
        try:
            done = subprocess.run(
                command, env=environment, timeout=limit_s, check=False, capture_output=True, text=True
            )
            said = (done.stdout + done.stderr).strip().splitlines()
            ended = f"the process ended with {done.returncode}: {said[-1] if said else 'no message'}"
        except subprocess.TimeoutExpired:
            ended = "no time was left"
        lines = out.read_text(encoding="utf-8").splitlines() if out.is_file() else []
    if not lines:
        raise RuntimeError(f"compatibility: the tests with {which} wrote no outcomes: {ended}")
    return {
        name: {"outcome": outcome, "reason": ended if outcome == NOT_RUN else reason}
        for name, outcome, reason in map(json.loads, lines)
    }


def render_table(theirs: Outcomes, ours: Outcomes, version: str, data: str) -> str:
    """Return the page.

    Parameters
    ----------
    theirs, ours : mapping
        Node id -> ``outcome`` and ``reason``; with cuGraph as it is, with the drop-in.
    version : str
        Of cuGraph.
    data : str
        Where the data sets were, or a word on it.
    """
    modules = sorted({_module(name) for name in (*theirs, *ours)})
    lines = [
        "# Compatibility",
        "",
        f"cuGraph {version}'s own tests, run with `cugraph` replaced by `dynstore.adapters.cugraph`; made by",
        "",
        "    python -m dynstore.testing.compatibility --out docs/compatibility.md",
        "",
        f'with dynstore {dynstore.__version__} ({data}). "With cuGraph" means the same tests with cuGraph as it is:',
        "what does not pass there misses a data set, a package or a second GPU.",
        "",
        "| module | tests | pass with cuGraph | pass with the drop-in | pass with cuGraph only |",
        "|---|---|---|---|---|",
    ]
    totals: Counter[str] = Counter()
    for module in modules:
        names = [name for name in {*theirs, *ours} if _module(name) == module]
        counts = {
            "tests": len(names),
            "cugraph": sum(_passed(theirs, name) for name in names),
            "drop-in": sum(_passed(ours, name) for name in names),
            "lost": sum(_passed(theirs, name) and not _passed(ours, name) for name in names),
        }
        totals.update(counts)
        lines.append(f"| {module} | {' | '.join(str(count) for count in counts.values())} |")
    lines.append(f"| all | {' | '.join(str(totals[key]) for key in ('tests', 'cugraph', 'drop-in', 'lost'))} |")
    lost = sorted(name for name in theirs if _passed(theirs, name) and not _passed(ours, name))
    lines += ["", "## Tests that pass with cuGraph, and not with the drop-in", ""]
    if not lost:
        lines.append("None.")
    for name in lost:
        end = ours.get(name, {"outcome": NOT_RUN, "reason": "its module was not collected"})
        lines.append(f"- `{name}`: {end['outcome']}: {end['reason']}")
    others = Counter(
        (_module(name), _short(end["reason"])) for name, end in theirs.items() if end["outcome"] != "passed"
    )
    lines += ["", "## Tests that do not pass with cuGraph as it is, by reason", ""]
    if not others:
        lines.append("None.")
    lines += [f"- {module}, {count}: {reason}" for (module, reason), count in sorted(others.items())]
    return "\n".join(lines) + "\n"


def _module(name: str) -> str:
    return "/".join(name.partition("::")[0].split("/")[-2:])


def _short(reason: str) -> str:
    return reason if len(reason) <= 160 else f"{reason[:157]}..."


def _passed(outcomes: Outcomes, name: str) -> bool:
    return outcomes.get(name, {}).get("outcome") == "passed"


def _run_both(paths: list[Path], limit_s: float, jobs: int, again: Path | None) -> list[Outcomes]:
    earlier = {which: {} for which in RUNS} if again is None else json.loads(again.read_text(encoding="utf-8"))
    both: list[Outcomes] = []
    for which in RUNS:
        names = sorted(name for name in earlier[which] if not _passed(earlier[which], name))
        done = earlier[which] and not names
        both.append(earlier[which] | ({} if done else dict(run_tests(which, paths, limit_s, jobs, names))))
    return both


def main(arguments: list[str] | None = None) -> int:
    """Run, print the numbers, and write the page; 0 where nothing is lost, 1 else."""
    parser = argparse.ArgumentParser(prog="python -m dynstore.testing.compatibility", description=__doc__)
    parser.add_argument("--tests", type=Path, help="folder with cuGraph's tests; by default the installed one")
    parser.add_argument("--out", type=Path, help="write the page here")
    parser.add_argument("--json", type=Path, help="write the outcomes here")
    parser.add_argument("--limit", type=int, default=1800, help="seconds that each of the two runs may take")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once, all on the same GPU")
    parser.add_argument("--again", type=Path, help="outcomes of an earlier run: only what did not pass runs again")
    chosen = parser.parse_args(arguments)
    paths = find_tests(chosen.tests)
    theirs, ours = _run_both(paths, chosen.limit, chosen.jobs, chosen.again)
    from dynstore.benchmarks.machine import find_versions

    root = os.environ.get("RAPIDS_DATASET_ROOT_DIR")
    data = f"{sum(1 for _ in Path(root).glob('*.csv'))} data sets were there" if root else "no data sets were there"
    page = render_table(theirs, ours, find_versions().get("cugraph", "of unknown version"), data)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(dict(zip(RUNS, (theirs, ours), strict=True)), indent=1), encoding="utf-8")
    if chosen.out is not None:
        chosen.out.write_text(page, encoding="utf-8")
    print(page)
    return int(any(_passed(theirs, name) and not _passed(ours, name) for name in theirs))


if __name__ == "__main__":
    sys.exit(main())
