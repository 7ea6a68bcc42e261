"""The entries of `control` are declared once a kind of update, and the page on CUDA shows all of them."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

import dynstore
from dynstore.cuda.control import MAPS, declare
from dynstore.cuda.grid import SUMS, TOTALS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "cuda.md"


@pytest.fixture(scope="module", autouse=True)
def _every_declaration() -> None:
    pytest.importorskip("greenlet")  # for the simulator
    for found in pkgutil.walk_packages(dynstore.__path__, "dynstore."):
        if "cuda" in found.name.split("."):
            importlib.import_module(found.name)


def test_the_page_shows_the_map() -> None:
    """If this fails after a change, the lines to put into the page are those that it names."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for kind, entries in MAPS.items():
        if kind != "test":
            for part, numbers in (("totals", range(TOTALS)), ("others", range(TOTALS, SUMS))):
                shown = ", ".join(f"{entry} `{entries[entry]}`" for entry in numbers if entry in entries)
                line = f"| {kind}, {part} | {shown} |"
                assert line in lines, line


def test_entries_are_where_no_block_leaves_its_sum() -> None:
    assert all(0 <= entry < SUMS for entries in MAPS.values() for entry in entries)


def test_an_entry_has_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAPS, "test", {})
    assert declare("test", A=1, B=2) == (1, 2)
    assert declare("test", A=1) == (1,)
    with pytest.raises(ValueError, match="control of test: entry 2 is B; wanted another one for C"):
        declare("test", C=2)
