"""Files that need each other can only be read together. The circles that are left may shrink; none may come."""

from __future__ import annotations

import pytest

from tools.circles import circles_of, links_of
from tools.imports import list_modules

# A file of each circle that is left, and how many files it has at most.
LEFT = {
}


def test_no_circle_comes_or_grows() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in list_modules().items()}
    circles = circles_of(links_of(sources))
    found = {next((name for name in LEFT if name in circle), circle[0]): len(circle) for circle in circles}
    assert found.keys() <= LEFT.keys(), circles
    assert {name: size for name, size in found.items() if size > LEFT[name]} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import dynstore.b",
        "from dynstore import b",
        "from dynstore.b import C",
        "def f():\n    from dynstore.b import C",
        "if TYPE_CHECKING:\n    from dynstore.b import C",
        "importlib.import_module('dynstore.b')",
        "TABLE = {'b': 'dynstore.b'}",
    ],
)
def test_all_kinds_of_imports_count(source: str) -> None:
    assert links_of({"a": source, "b": "import dynstore.a"}) == {"a": {"b"}, "b": {"a"}}
    assert circles_of({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == [["a", "b"]]


def test_kernels_count_as_the_files_that_have_them() -> None:
    sources = {"a": "backend.kernels('dynstore.a', 'x')", "a.cpu.x": "", "a.cuda.x": "import dynstore.a", "a.cuda": ""}
    assert links_of(sources)["a"] == {"a.cpu.x", "a.cuda.x"}
    assert circles_of(links_of(sources)) == [["a", "a.cuda.x"]]
