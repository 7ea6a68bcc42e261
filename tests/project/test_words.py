"""One class name has one meaning, and what the pages call "the code's name" is a name in the code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("dynstore", "algorithms", "adapters", "benchmarks")
MOST_TWICE = 10
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
CODE = re.compile(r"\(code: ([^)]*)\)")
QUOTED = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:\([^()]*\))?")
FILE = re.compile(r".*\.(?:md|py|toml)")
# Names that stand for others, and what a program is called with.
PLACEHOLDERS = {"verb_noun", "VERSIONS"}


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


@cache
def _names() -> frozenset[str]:
    """Return all identifiers of the code, of the tests and of the tools, with the names of files and folders."""
    names = set()
    for folder in (*FOLDERS, "tests", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            names.update((path.stem, path.parent.name))
            with io.StringIO(path.read_text(encoding="utf-8")) as text:
                names.update(token.string for token in tokenize.generate_tokens(text.readline))
    return frozenset(names)


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


def test_the_glossary_names_what_is_in_the_code() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    given = [" ".join(names.split()) for names in CODE.findall(text)]
    assert len(given) > 10
    plain = [names for names in given if QUOTED.sub("", names).strip(", ")]
    assert plain == [], "a name of the code is in backticks"
    named = {name for names in given for name in QUOTED.findall(names)}
    assert named - _names() == set()


def test_pages_for_developers_name_what_is_in_the_code() -> None:
    """Any backticks around a name: of a class, a method, an option, a module or a store."""
    for page in ("CONTRIBUTING.md", "docs/glossary.md", "docs/internals/new-store.md"):
        found = [NAME.fullmatch(text) for text in QUOTED.findall((ROOT / page).read_text(encoding="utf-8"))]
        named = {match[1] for match in found if match is not None and not FILE.fullmatch(match[0])}
        quoted = {name for name in named if f'"{name}"' in _names()}  # a name of a store
        assert named - quoted - PLACEHOLDERS - _names() == set(), page


def test_every_layer_of_contributing_is_a_module() -> None:
    from tests.project.test_layers import LAYERS
    from tools.imports import list_modules

    assert [name for names in LAYERS for name in names if name not in list_modules()] == []
