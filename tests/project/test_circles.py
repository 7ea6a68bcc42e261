"""Files that need each other can only be read together: there are none."""

from __future__ import annotations

import pytest

from tools.circles import circles_of, links_of
from tools.imports import list_modules


def test_there_is_no_circle() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in list_modules().items()}
    assert circles_of(links_of(sources)) == []


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
