"""Finding the Python of a name such as "python3.12"."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

__all__ = ["MissingPythonError", "Python", "find_python"]

ASK = "import sys; print(sys.executable, '.'.join(map(str, sys.version_info[:3])), sep='\\n')"


class MissingPythonError(Exception):
    """No Python of that name runs."""


@dataclass(frozen=True, slots=True)
class Python:
    """A Python that runs.

    Attributes
    ----------
    name : str
        What it was asked for as.
    path : str
    version : str
        Such as "3.12.1".
    """

    name: str
    path: str
    version: str


def find_python(name: str, environment: Mapping[str, str] = os.environ) -> Python:
    """Find a Python by its name or path.

    It is the one on the PATH. pyenv has a command there for each Python that it installed, and refuses to run those
    that are not chosen at the moment; then it is the newest that pyenv has.

    Parameters
    ----------
    name : str
        Such as "python3.12" or "/opt/python/bin/python3".
    environment : mapping
        The variables to look into.

    Raises
    ------
    MissingPythonError
        If there is none, or none that runs; with what was said.
    """
    problem = "not found"
    for path in _candidates(name, environment):
        try:
            done = subprocess.run(
                [path, "-c", ASK], env=dict(environment), capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = f"not found: {error}"
            continue
        if done.returncode == 0:
            return Python(name, *done.stdout.splitlines()[-2:])
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        problem = f"not found: {path}: {said[0] if said else f'exit status {done.returncode}'}"
    raise MissingPythonError(problem)


def _candidates(name: str, environment: Mapping[str, str]) -> Iterator[str]:
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is not None:
        yield found
    wanted = re.fullmatch(r"python(\d+\.\d+)", name)
    if wanted is None:
        return
    root = Path(environment.get("PYENV_ROOT") or Path(environment.get("HOME", "/")) / ".pyenv")
    installed = [folder for folder in root.glob(f"versions/{wanted[1]}.*") if re.fullmatch(r"[\d.]+", folder.name)]
    for folder in sorted(installed, key=lambda each: Version(each.name), reverse=True):
        yield str(folder / "bin" / name)
