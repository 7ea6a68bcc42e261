"""One class name has one meaning."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("dynstore", "algorithms", "adapters", "benchmarks")
MOST_TWICE = 66
BY_DEVICE = "the host's and CUDA's, which callers take by one name"
TWICE = {
    "Appending": BY_DEVICE,
    "Pages": BY_DEVICE,
    "Part": BY_DEVICE,
    "Paths": BY_DEVICE,
    "Progress": "of a stream, and of a call on a Dask cluster; users write both",
    "Ranking": BY_DEVICE,
    "Removal": BY_DEVICE,
    "Rounds": BY_DEVICE,
    "Search": BY_DEVICE,
    "Stopwatch": BY_DEVICE,
}


@cache
def _trees() -> dict[Path, ast.Module]:
    """Return all files of the library; what a link leads to counts in its own place."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths if path.resolve() == path}


def _classes(tree: ast.Module) -> list[str]:
    """Return the classes of a module, also those under a condition."""
    found, waiting = [], list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return found


@cache
def _twice() -> dict[str, list[str]]:
    """Return the class names that several files have, with these files."""
    files = defaultdict(set)
    for path, tree in _trees().items():
        for name in _classes(tree):
            files[name].add(path.relative_to(ROOT).as_posix())
    return {name: sorted(where) for name, where in files.items() if len(where) > 1}


def test_a_class_name_has_one_meaning() -> None:
    """The count may get smaller, not larger: a new class gets a name of its own, and says what it is."""
    listed = "\n".join(f"{name}: {', '.join(files)}" for name, files in sorted(_twice().items()))
    assert len(_twice()) <= MOST_TWICE, listed


def test_names_that_may_stand_twice_do() -> None:
    assert set(TWICE) <= set(_twice())


def test_classes_of_both_devices_are_in_the_same_package() -> None:
    for name in [name for name, reason in TWICE.items() if reason == BY_DEVICE]:
        packages = [re.split(r"/(?=c(?:pu|uda)[/.])", path) for path in _twice()[name]]
        sides = Counter(parts[0] for parts in packages if len(parts) > 1)
        assert max(sides.values()) == 2, name
