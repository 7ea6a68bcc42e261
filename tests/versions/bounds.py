"""What pyproject.toml says of versions: the Pythons, and the lowest version of each library."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

__all__ = ["find_lowest", "list_pythons", "list_requirements", "read_project"]

ROOT = Path(__file__).resolve().parents[2]
TESTED = ("test",)  # the extras that the tests are run with
LOWER = (">=", "==", "~=")
PYTHON = re.compile(r"Programming Language :: Python :: (\d+\.\d+)")


def read_project(folder: Path = ROOT) -> dict[str, Any]:
    """Return the table ``project`` of a folder's pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def list_pythons(project: dict[str, Any]) -> list[str]:
    """Return the commands of the Pythons that are supported, such as "python3.11", lowest first."""
    found = filter(None, map(PYTHON.fullmatch, project["classifiers"]))
    return [f"python{version}" for version in sorted((match[1] for match in found), key=Version)]


def list_requirements(project: dict[str, Any], extras: Iterable[str] = TESTED) -> Iterator[Requirement]:
    """Yield what the base and some extras require. An extra that names others of the project stands for theirs.

    Parameters
    ----------
    project : dict
        From :func:`read_project`.
    extras : iterable of str
        Names of ``project.optional-dependencies``.
    """
    lines = [*project["dependencies"]]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    for line in lines:
        requirement = Requirement(line)
        if requirement.name == project["name"]:
            yield from list_requirements({**project, "dependencies": []}, sorted(requirement.extras))
        else:
            yield requirement


def find_lowest(requirements: Iterable[Requirement]) -> dict[str, str]:
    """Return the lowest version of each library that all its bounds allow, by name and in order.

    Raises
    ------
    ValueError
        For a library without a lower bound.
    """
    lowest: dict[str, list[str]] = {}
    for requirement in requirements:
        bounds = [bound.version for bound in requirement.specifier if bound.operator in LOWER]
        lowest.setdefault(canonicalize_name(requirement.name), []).extend(bounds)
    for name, bounds in lowest.items():
        if not bounds:
            raise ValueError(f"pyproject.toml: `{name}` has no lower bound; wanted one that is tested")
    return {name: max(bounds, key=Version) for name, bounds in sorted(lowest.items())}
