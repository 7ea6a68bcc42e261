"""Decides, once a process, whether graphs are borrowed or passed to pylibcugraph's SGGraph, and why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from dynstore.adapters.cugraph.borrowed.builder import FAILED, BuildError, build, find_library, library_path
from dynstore.adapters.cugraph.borrowed.self_test import COULD_NOT_RUN, open_library, problem_of
from dynstore.adapters.cugraph.borrowed.toolchain import RAPIDS_LINE, find_rapids, find_toolchain, rapids_version
from dynstore.caches import make_private
from dynstore.errors import MissingDependencyError

__all__ = ["TESTED", "Bridge", "describe", "load_bridge", "minor_release"]

SWITCH = "DYNSTORE_BORROWED"  # "off": never borrow
PASSED, NOT_PASSED = "passed.txt", "not-passed.txt"
# Before it, the memory of borrowed rows may be taken back too early; and the only one that dynstore was tested with.
OLDEST = TESTED = (26, 10)
TEST_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Bridge:
    """How graphs get to pylibcugraph.

    Attributes
    ----------
    borrowed_graph : type or None
        The class ``BorrowedGraph``; None if SGGraph must be used.
    reason : str
        The library's path, or why there is none.
    borrowed_mg_graph : type or None
        The class ``BorrowedMGGraph``, for several GPUs.
    """

    borrowed_graph: Any
    reason: str
    borrowed_mg_graph: Any = None


@lru_cache(maxsize=1)
def load_bridge() -> Bridge:
    """Build the library if needed, test it, and return how graphs get to pylibcugraph; once a process.

    Raises
    ------
    MissingDependencyError
        Without pylibcugraph.
    """
    site = find_rapids()
    if site is None:
        raise MissingDependencyError(f"cuGraph: pylibcugraph is not installed: {RAPIDS_LINE}")
    refusal = _refusal(site)
    if refusal is not None:
        return Bridge(None, refusal)
    try:
        library = build(site)
    except (BuildError, MissingDependencyError) as error:
        return Bridge(None, str(error))
    problem = _first_test(library, site)
    if problem is None:
        try:
            opened = open_library(library)
            # What has passed in a process of its own needs no test in each process, where it would cost the first call.
            problem = None if _has_passed(site) else problem_of(opened.BorrowedGraph)
        except Exception as error:  # whatever the error is, SGGraph still works
            problem = f"{type(error).__name__}: {error}"
    if problem is not None:
        return Bridge(None, f"the library failed its self-test: {problem}")
    reason = f"built for RAPIDS {rapids_version(site)}{_doubt(site)}: {library}"
    return Bridge(opened.BorrowedGraph, reason, opened.BorrowedMGGraph)


def _refusal(site: Path) -> str | None:
    """Return why nothing is borrowed, whatever can be built, or None."""
    if os.environ.get(SWITCH, "").lower() == "off":
        return f"{SWITCH}=off"
    minor = minor_release(site)
    if minor is not None and minor < OLDEST:
        return f"RAPIDS {rapids_version(site)} is older than {OLDEST[0]}.{OLDEST[1]:02}"
    return None


def _doubt(site: Path) -> str:
    """Return a note on a release that only the self-test has seen."""
    minor = minor_release(site)
    return "" if minor == TESTED else f" (dynstore's tests ran with {TESTED[0]}.{TESTED[1]:02} only)"


def minor_release(site: Path) -> tuple[int, int] | None:
    """Return RAPIDS' release, such as (26, 10); None if it is unknown."""
    major, _, rest = rapids_version(site).partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _first_test(library: Path, site: Path) -> str | None:
    """Test a library that is new to this exact RAPIDS, in a separate process, as it may crash; keep what comes out."""
    if _has_passed(site):
        return None
    earlier = _earlier_failure(site)
    if earlier is not None:
        return earlier
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "dynstore.adapters.cugraph.borrowed.self_test", str(library)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TEST_TIMEOUT_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    if done.returncode == COULD_NOT_RUN:  # no second process can use this GPU: test in this process
        return None
    version = rapids_version(site)
    if done.returncode == 0:
        _keep(site, PASSED, f"{version}\n", "a")
        return None
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    said = [line for line in done.stderr.splitlines() if line.strip()]
    problem = f"{how}: {said[-1].strip() if said else 'no message'}"
    _keep(site, NOT_PASSED, f"{version}\n\n{problem}\n", "w")
    return problem


def _has_passed(site: Path) -> bool:
    note = library_path(site).with_name(PASSED)
    return note.is_file() and rapids_version(site) in note.read_text(encoding="utf-8").split()


def _earlier_failure(site: Path) -> str | None:
    """Return how the library failed its test with this exact RAPIDS, or None."""
    note = library_path(site).with_name(NOT_PASSED)
    if not note.is_file():
        return None
    version, _, problem = note.read_text(encoding="utf-8", errors="replace").partition("\n\n")
    if version != rapids_version(site):
        return None
    return f"{problem.strip()} (as tested before; to test again, delete {note})"


def _keep(site: Path, name: str, text: str, mode: Literal["a", "w"]) -> None:
    """Keep a note beside the library's place in the cache, for later processes."""
    note = library_path(site).with_name(name)
    try:
        make_private(note.parent)
        with note.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError:
        pass  # the cache cannot be written: test again next time


def describe() -> str | None:
    """Describe for ``dynstore info`` how graphs get to cuGraph, and why; None without pylibcugraph.

    Nothing is imported, built or tested for this.
    """
    site = find_rapids()
    if site is None:
        return None
    version, refusal, library = rapids_version(site), _refusal(site), find_library(site)
    if refusal is not None:
        return f"SGGraph, a rebuild for each version: {refusal}"
    if library is not None:
        failure = _earlier_failure(site)
        if failure is not None:
            return f"SGGraph, a rebuild for each version: the library failed its self-test: {failure}"
        state = "built and tested" if _has_passed(site) else "built, to be tested on first use"
        return f"BorrowedGraph, no rebuild ({state} with RAPIDS {version}{_doubt(site)}; {library})"
    try:
        toolchain = find_toolchain(site)
    except MissingDependencyError as error:
        return f"SGGraph, a rebuild for each version: {error}"
    failed = library_path(site).with_name(FAILED)
    if failed.is_file():
        head, _, reason = failed.read_text(encoding="utf-8", errors="replace").partition("\n\n")
        if head == toolchain.fingerprint():
            return f"SGGraph, a rebuild for each version: {reason.strip()} (to try again, delete {failed})"
    name = shutil.which(toolchain.compiler) or toolchain.compiler
    return f"BorrowedGraph, to be built with {name} on first use (RAPIDS {version}; takes half a minute)"
