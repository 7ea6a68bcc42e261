"""What is public stands in the reference, and what the records of algorithms say stands in the pages."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from tools import pages

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
# Packages whose ``__all__`` is for users. In ``dynstore.errors`` only classes are: functions there write messages.
PUBLIC = (
    "dynstore",
    "dynstore.adapters.cugraph",
    "dynstore.adapters.cugraph.dask",
    "dynstore.adapters.cugraph.mg",
    "dynstore.adapters.dask",
    "dynstore.adapters.memory",
    "dynstore.adapters.networkx",
    "dynstore.adapters.nx_cugraph",
    "dynstore.adapters.pyg",
    "dynstore.algorithms",
    "dynstore.datasets",
    "dynstore.distributed",
    "dynstore.errors",
    "dynstore.gts",
    "dynstore.streams",
)
# NetworkX calls these; users do not.
CALLED_BY_NETWORKX = {"dynstore.adapters.networkx.BackendInterface", "dynstore.adapters.networkx.backend"}


def listed_in(text: str) -> set[str]:
    """Return the full names of what a page of the reference describes by itself, or as all members of a module."""
    found, module = set(), ""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        directive = re.match(r"\s*\.\. ([\w:]+?)::\s*(\S*)", line)
        if directive is None:
            continue
        kind, name = directive.groups()
        if kind in ("currentmodule", "automodule"):
            module = name
            if kind == "automodule" and any(":members:" in each for each in lines[at + 1 : at + 4]):
                found |= {f"{module}.{each}" for each in getattr(importlib.import_module(module), "__all__", ())}
        elif kind in ("autofunction", "autoclass", "autoexception", "autodata", "py:data", "py:class"):
            found.add(name if name.startswith("dynstore.") else f"{module}.{name}")
    return found


def test_every_public_name_stands_in_the_reference() -> None:
    listed = {name for page in REFERENCE.glob("*.md") for name in listed_in(page.read_text(encoding="utf-8"))}
    missing = []
    for name in PUBLIC:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # a library that is not installed here
        for each in module.__all__:
            value = getattr(module, each)
            if not (inspect.isfunction(value) or inspect.isclass(value)):
                continue
            if name == "dynstore.errors" and not inspect.isclass(value):
                continue
            homes = {f"{name}.{each}", f"{value.__module__}.{each}"}
            if name in ("dynstore.algorithms", "dynstore.streams"):  # the same as at the top
                homes.add(f"dynstore.{each}")
            if not homes & (listed | CALLED_BY_NETWORKX):
                missing.append(f"{name}.{each}")
    assert missing == []


def test_a_name_that_is_missing_is_found() -> None:
    text = (REFERENCE / "algorithms.md").read_text(encoding="utf-8")
    assert "dynstore.bfs" in listed_in(text)
    assert "dynstore.bfs" not in listed_in(text.replace(".. autofunction:: bfs\n", ""))


@pytest.mark.parametrize("page", pages.PARTS)
def test_the_pages_say_what_the_records_say(page: str) -> None:
    assert pages.rendered(page) == (ROOT / page).read_text(encoding="utf-8"), "run: python -m tools.pages"


def test_a_page_without_a_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pages.PARTS, "docs/tracking.md", {"answers": lambda: ""})
    with pytest.raises(ValueError, match=r"docs/tracking.md: the part 'answers' has 0 places; wanted one"):
        pages.rendered("docs/tracking.md")
