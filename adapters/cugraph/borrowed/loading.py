"""Decides, once a process, whether graphs are borrowed or passed to pylibcugraph's SGGraph, and why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dynstore.adapters.cugraph.borrowed.builder import FAILED, BuildError, build, library_path
from dynstore.adapters.cugraph.borrowed.self_test import COULD_NOT_RUN, open_library, problem_of
from dynstore.adapters.cugraph.borrowed.toolchain import RAPIDS_LINE, find_rapids, find_toolchain, rapids_version
from dynstore.errors import MissingDependencyError

__all__ = ["Bridge", "describe", "load_bridge"]

SWITCH = "DYNSTORE_BORROWED"  # "off": never borrow
PASSED = "passed.txt"
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
    """

    borrowed_graph: Any
    reason: str


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
    if os.environ.get(SWITCH, "").lower() == "off":
        return Bridge(None, f"{SWITCH}=off")
    try:
        library = build(site)
    except (BuildError, MissingDependencyError) as error:
        return Bridge(None, str(error))
    problem = _first_test(library, site)
    if problem is None:
        try:
            borrowed_graph = open_library(library)
            problem = problem_of(borrowed_graph)
        except Exception as error:  # whatever the error is, SGGraph still works
            problem = f"{type(error).__name__}: {error}"
    if problem is not None:
        return Bridge(None, f"the library failed its self-test: {problem}")
    return Bridge(borrowed_graph, f"built for RAPIDS {rapids_version(site)}: {library}")


def _first_test(library: Path, site: Path) -> str | None:
    """Test a library that is new to this exact RAPIDS, in a separate process, as it may crash."""
    note, version = library.with_name(PASSED), rapids_version(site)
    if note.is_file() and version in note.read_text(encoding="utf-8").split():
        return None
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
    if done.returncode != 0:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return f"{how}: {said[-1].strip() if said else 'no message'}"
    try:
        with note.open("a", encoding="utf-8") as file:
            file.write(f"{version}\n")
    except OSError:
        pass  # the cache cannot be written: test again next time
    return None


def describe() -> str | None:
    """Describe for ``dynstore info`` how graphs get to cuGraph, and why; None without pylibcugraph.

    Nothing is imported, built or tested for this.
    """
    site = find_rapids()
    if site is None:
        return None
    version = rapids_version(site)
    if os.environ.get(SWITCH, "").lower() == "off":
        return f"SGGraph, a rebuild for each version: {SWITCH}=off"
    library = library_path(site)
    if library.is_file():
        note = library.with_name(PASSED)
        passed = note.is_file() and version in note.read_text(encoding="utf-8").split()
        state = "built and tested" if passed else "built, to be tested on first use"
        return f"BorrowedGraph, no rebuild ({state} with RAPIDS {version}; {library})"
    try:
        toolchain = find_toolchain(site)
    except MissingDependencyError as error:
        return f"SGGraph, a rebuild for each version: {error}"
    failed = library.with_name(FAILED)
    if failed.is_file():
        head, _, reason = failed.read_text(encoding="utf-8", errors="replace").partition("\n\n")
        if head == toolchain.fingerprint():
            return f"SGGraph, a rebuild for each version: {reason.strip()} (to try again, delete {failed})"
    name = shutil.which(toolchain.compiler) or toolchain.compiler
    return f"BorrowedGraph, to be built with {name} on first use (RAPIDS {version}; takes half a minute)"
