"""What is in the wheel: ``python -m tools.wheels`` builds it, and prints its files, its lines of Python and its size.

``python -m tools.wheels FILE.whl`` prints the same of one that is there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from tools.imports import LINKED, ROOT

__all__ = ["Contents", "build", "copy_source", "read_wheel"]

NEEDED = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")


class Contents(NamedTuple):
    """The files of a wheel but for its metadata, and its size in bytes; ``lines``: of each file of Python."""

    files: frozenset[str]
    lines: dict[str, int]
    size: int


def copy_source(into: Path) -> Path:
    """Copy what a wheel is built of, links as links, so that building leaves nothing in the checkout."""
    ignore = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    for name in ("dynstore", *LINKED):
        shutil.copytree(ROOT / name, into / name, symlinks=True, ignore=ignore)
    for name in NEEDED:
        shutil.copy(ROOT / name, into / name)
    return into


def build(source: Path, hook: str, into: Path) -> Path:
    """Run one hook of the build backend in this environment, without a network; return the file that it makes.

    Raises
    ------
    RuntimeError
        If it fails, with its last words.
    """
    code = f"from setuptools import build_meta; print(build_meta.{hook}({str(into)!r}))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=source, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{hook} failed: {done.stderr[-2000:]}")
    return into / done.stdout.splitlines()[-1]


def read_wheel(wheel: Path) -> Contents:
    """Return what a wheel holds."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")]
        lines = {name: archive.read(name).count(b"\n") for name in names if name.endswith(".py")}
    return Contents(frozenset(names), lines, wheel.stat().st_size)


def main() -> None:
    """Print one line."""
    with tempfile.TemporaryDirectory() as work:
        if len(sys.argv) > 1:
            wheel = Path(sys.argv[1])
        else:
            wheel = build(copy_source(Path(work) / "source"), "build_wheel", Path(work))
        found = read_wheel(wheel)
    print(f"{len(found.lines)} files, {sum(found.lines.values()):,} lines of Python, {found.size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
