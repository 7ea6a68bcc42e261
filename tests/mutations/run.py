"""Do the tests notice bugs? Each of ``places.py`` is put into a copy of the tree, where its tests run.

From the root of the repository: ``python -m tests.mutations.run [--jobs N] [NAME ...]``. Exits with 1 where one
survives, with 2 where the list is out of date. Not part of the suite: all take nine minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.places import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]
# A run that says nothing for so many seconds hangs: no test takes that long.
PATIENCE = 120
SURVIVED, STOPPED = "SURVIVED", "stopped"


class OutOfDateError(Exception):
    """The list does not fit the code."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutation: the test that killed it, or SURVIVED; and how many seconds that took."""

    mutation: Mutation
    fate: str
    seconds: float


def read_place(mutation: Mutation, root: Path) -> str:
    """Return the text of the file that a mutation changes.

    Raises
    ------
    OutOfDateError
        If it has what is to be changed not exactly once.
    """
    place = root / mutation.file
    text = place.read_text(encoding="utf-8") if place.is_file() else ""
    if text.count(mutation.old) != 1:
        count = f"has {text.count(mutation.old)} times" if text else "is not there, nor"
        raise OutOfDateError(f"{mutation.name}: {mutation.file} {count} {mutation.old!r}; wanted once")
    return text


def mutate(mutation: Mutation, root: Path) -> None:
    """Change a tree."""
    text = read_place(mutation, root).replace(mutation.old, mutation.new)
    (root / mutation.file).write_text(text, encoding="utf-8")


def check_places(mutations: list[Mutation]) -> None:
    """Raise OutOfDateError if a text does not occur once, or tests do not exist."""
    for mutation in mutations:
        read_place(mutation, ROOT)
        for test in mutation.tests:
            if not (ROOT / test.partition("::")[0]).is_file():
                raise OutOfDateError(f"{mutation.name}: there is no {test}")


def copy_tree(to: Path, compiled: bool) -> None:
    """Copy what git knows or would add; with ``compiled`` also what Numba has compiled for the host.

    Numba looks at the time and the size of a kernel's own file only, not of those that it takes functions from.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    files = [ROOT / name for name in listed if name]
    if compiled:
        folders = {file.parent / "__pycache__" for file in files if file.suffix == ".py"}
        files += [kept for folder in sorted(folders) for kept in folder.glob("*.nb[ic]")]
    for file in files:
        if file.is_symlink() or file.is_file():  # else it was deleted
            place = to / file.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, place, follow_symlinks=False)


def environment(root: Path) -> dict[str, str]:
    """Return the variables that the tests run with: the inputs are those of ``make test``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DYNSTORE_")}
    return {
        **kept,
        "DYNSTORE_CACHE_DIR": str(root / ".cache"),
        "PYTHONPATH": str(root),  # before an editable install
        "PYTHONUNBUFFERED": "1",
    }


class Runner:
    """Runs mutations, each in a process of its own."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, mutation: Mutation) -> Outcome:
        """Run a mutation's tests in a copy of the tree, to the first that fails."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            root = Path(folder).resolve()
            copy_tree(root, compiled="import njit" not in read_place(mutation, ROOT))
            mutate(mutation, root)
            said, status = self._test(root, ["-x", *mutation.tests])
        fate = STOPPED if self._stopped else _tell_fate(mutation, said, status)
        return Outcome(mutation, fate, time.monotonic() - began)

    def check_killers(self, outcomes: list[Outcome]) -> None:
        """Run the tests that failed in a copy without any mutation.

        Raises
        ------
        OutOfDateError
            If one fails there, too: it has not noticed anything.
        """
        killers = sorted({outcome.fate for outcome in outcomes if outcome.fate.startswith("tests/")})
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            root = Path(folder).resolve()
            copy_tree(root, compiled=True)
            said, status = self._test(root, killers) if killers else ("", 0)
        if status:
            raise OutOfDateError(f"tests fail without a mutation, too\n{said[-4000:]}")

    def _test(self, root: Path, arguments: list[str]) -> tuple[str, int]:
        """Run tests in a tree; return what that says, and how it ends."""
        command = [sys.executable, "-m", "pytest", "-v", "-n", "0", "-p", "no:cacheprovider", *arguments]
        if self._stopped:
            return "", 1
        process = subprocess.Popen(
            command, cwd=root, env=environment(root), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._processes.add(process)
        try:
            said = _listen(process)
        finally:
            self._kill(process)
            self._processes.discard(process)
        return said, process.wait()

    def stop(self) -> None:
        """End all that runs."""
        self._stopped = True
        for process in list(self._processes):
            self._kill(process)

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        """End a process that has not ended, with all that it started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _listen(process: subprocess.Popen[bytes]) -> str:
    """Return what a process says until it ends, or hangs: then that ends with the line ``timed out``."""
    assert process.stdout is not None
    said, stream = b"", process.stdout.fileno()
    while select.select([stream], [], [], PATIENCE)[0]:
        more = os.read(stream, 1 << 16)
        if not more:
            process.wait()
            return said.decode(errors="replace")
        said += more
    return said.decode(errors="replace") + "\ntimed out"


def _tell_fate(mutation: Mutation, said: str, status: int) -> str:
    """Return the test that failed, that hung, or that the process died in; else SURVIVED.

    Raises
    ------
    OutOfDateError
        Where no test ran: the mutation breaks more than it is meant to, or its tests are not there.
    """
    started = re.findall(r"^(tests/\S+::.*?)(?: (?:PASSED|FAILED|SKIPPED|XFAIL|ERROR).*)?$", said, flags=re.MULTILINE)
    running = started[-1].strip() if started else "no test yet"
    if said.endswith("\ntimed out"):
        return f"timed out in {running}"
    failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+::.*?)(?: - .*)?$", said, flags=re.MULTILINE)
    if status == 1 and failed is not None:
        return failed[1]
    if status == 0:
        return SURVIVED
    if status < 0:
        return f"{signal.Signals(-status).name} in {running}"
    raise OutOfDateError(f"{mutation.name}: pytest ended with {status}\n{said[-4000:]}")


def show(outcomes: list[Outcome], seconds: float) -> None:
    """Print the table."""
    width = max(len(outcome.mutation.name) for outcome in outcomes)
    print(f"\n{'mutation':{width}}  seconds  killed by")
    for outcome in outcomes:
        print(f"{outcome.mutation.name:{width}}  {outcome.seconds:7.0f}  {outcome.fate}")
    killed = sum(outcome.fate != SURVIVED for outcome in outcomes)
    print(f"\n{killed} of {len(outcomes)} killed, in {seconds:.0f} seconds")


def choose(names: list[str]) -> list[Mutation]:
    """Return the mutations of these names, or all."""
    known = {mutation.name: mutation for mutation in MUTATIONS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise OutOfDateError(f"got {', '.join(unknown)}; wanted some of:\n  " + "\n  ".join(known))
    return [known[name] for name in names] or MUTATIONS


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutations to run; by default all")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="how many run at once; 2 by default")
    options = parser.parse_args()
    runner, began, outcomes = Runner(), time.monotonic(), []
    try:
        mutations = choose(options.names)
        check_places(mutations)
        with ThreadPoolExecutor(max(options.jobs, 1)) as pool:
            try:
                for outcome in pool.map(runner.run, mutations):
                    print(f"{outcome.seconds:5.0f} s  {outcome.mutation.name}: {outcome.fate}", flush=True)
                    outcomes.append(outcome)
                runner.check_killers(outcomes)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                runner.stop()
                raise
    except OutOfDateError as error:
        print(f"mutations: {error}", file=sys.stderr)
        return 2
    show(outcomes, time.monotonic() - began)
    return int(any(outcome.fate == SURVIVED for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
