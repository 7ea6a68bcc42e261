"""Building the library and keeping it: ``CACHE/borrowed/rapids-26.10-cu13-abi3-x86_64-DIGEST/borrowed_graph.abi3.so``.

The package ``dynstore-borrowed`` brings the library built, in a folder of the same name (:mod:`.wheel`).

Processes that build at the same time use separate folders; each moves its result into place when it is done.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from dynstore.adapters.cugraph.borrowed.toolchain import (
    Toolchain,
    cuda_major,
    find_toolchain,
    rapids_version,
    search_places,
)
from dynstore.caches import cache_folder, distrust, make_private
from dynstore.errors import DynstoreError

__all__ = ["BuildError", "build", "build_commands", "cache_key", "compile_library", "find_library", "library_path"]

SOURCES = ("borrowed_graph.pyx", "borrowed_graph.cpp", "borrowed_graph.hpp")
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-DPy_LIMITED_API=0x030b0000", "-DCYTHON_LIMITED_API=1")
CYTHON_FLAGS = ("--cplus", "-3", "--module-name", "borrowed_graph")
LIBRARY = "borrowed_graph.abi3.so"
FAILED = "failed.txt"
PACKAGE = "dynstore_borrowed"  # that brings libraries, each in a folder called by its key
TIMEOUT_S = 600
SHOWN_LINES = 3
_HERE = Path(__file__).resolve().parent


class BuildError(DynstoreError):
    """The library could not be built; the message says why."""


def cache_key(version: str, cuda: str = "") -> str:
    """Return the name of the folder of a library, such as "rapids-26.10-cu13-abi3-x86_64-1a2b3c4d5e6f".

    It changes with everything that the library depends on: the minor release (part of C++ names), the major version of
    CUDA, Python's ABI, the processor, our sources and flags.
    """
    minor = ".".join(version.split(".")[:2])
    # The stable ABI works for every Python from 3.11 on, except builds without the interpreter lock.
    abi = f"cp{sys.version_info[0]}{sys.version_info[1]}t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "abi3"
    digest = hashlib.sha256("\0".join((*CYTHON_FLAGS, *FLAGS)).encode())
    for name in SOURCES:
        digest.update((_HERE / name).read_bytes())
    return f"rapids-{minor}-cu{cuda}-{abi}-{platform.machine()}-{digest.hexdigest()[:12]}"


def library_path(site: Path) -> Path:
    """Return the path in the cache of the library for the RAPIDS in ``site``, whether it is built or not."""
    return cache_folder() / "borrowed" / cache_key(rapids_version(site), cuda_major(site)) / LIBRARY


def find_library(site: Path) -> Path | None:
    """Return the library for the RAPIDS in ``site``, from the cache or from an installed package; None without one."""
    own = library_path(site)
    installed = [place / PACKAGE / own.parent.name / LIBRARY for place in search_places(site)]
    kept = [own] if distrust(own.parent) is None else []  # it is loaded into the process
    return next((path for path in (*kept, *installed) if path.is_file()), None)


def build_commands(toolchain: Toolchain, work: Path) -> list[list[str]]:
    """Return the commands that build the library in the folder ``work``: Cython, then the compiler."""
    generated = work / "borrowed_graph_py.cpp"
    cython = [sys.executable, "-m", "cython", *CYTHON_FLAGS, "-I", str(toolchain.cython_dir)]
    compiler = [toolchain.compiler, *FLAGS, "-I", str(_HERE), "-I", str(toolchain.python_include)]
    for folder in toolchain.include_dirs:
        compiler += ["-isystem", str(folder)]
    compiler += [str(_HERE / "borrowed_graph.cpp"), str(generated), "-o", str(work / LIBRARY)]
    compiler += [str(library) for library in toolchain.libraries]
    return [[*cython, "-o", str(generated), str(_HERE / "borrowed_graph.pyx")], compiler]


def build(site: Path) -> Path:
    """Return the library for the RAPIDS in ``site``, built if there is none yet (half a minute).

    Raises
    ------
    MissingDependencyError
        For a missing compiler, package or header, with the command that installs it.
    BuildError
        If building fails; it is tried again only after the compiler or the headers' folders change.
    """
    library, target = find_library(site), library_path(site)
    if library is not None:
        return library
    problem = distrust(target.parent)
    if problem is not None:
        raise BuildError(f"the library is neither kept nor read in {target.parent}: {problem}")
    toolchain = find_toolchain(site)
    note = target.with_name(FAILED)
    earlier = note.read_text(encoding="utf-8", errors="replace") if note.is_file() else ""
    head, _, reason = earlier.partition("\n\n")
    if earlier and head == toolchain.fingerprint():
        raise BuildError(f"{reason.strip()} (as tried before; to try again, delete {note})")
    try:
        make_private(target.parent)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
            compile_library(toolchain, Path(folder), note).replace(target)
    except OSError as error:
        raise BuildError(f"the library cannot be written to {target.parent}: {error}") from error
    note.unlink(missing_ok=True)
    return target


def compile_library(toolchain: Toolchain, work: Path, note: Path) -> Path:
    """Build the library in the folder ``work``, and return its path; if that fails, write why to ``note``.

    Raises
    ------
    BuildError
    """
    for command in build_commands(toolchain, work):
        _run(command, toolchain, note)
    return work / LIBRARY


def _run(command: list[str], toolchain: Toolchain, note: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{command[0]} took more than {TIMEOUT_S} s") from error
    if done.returncode == 0:
        return
    output = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    errors = [line for line in output if "error" in line.lower()] or output
    program = "Cython" if "cython" in command else Path(command[0]).name
    reason = f"{program} failed with exit code {done.returncode}: {' | '.join(errors[:SHOWN_LINES])}"
    note.write_text(f"{toolchain.fingerprint()}\n\n{reason}\n", encoding="utf-8")
    raise BuildError(reason)
