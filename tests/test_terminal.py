"""Control characters in text from elsewhere are escaped; all else is shown as it is."""

from __future__ import annotations

import io
import sys
import unicodedata
from pathlib import Path

import pytest

from dynstore.terminal import open_console, visible, visible_lines

ESCAPED = {"Cc", "Cs", "Zl", "Zp"}
DIRECTIONS = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


def test_all_characters() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        turns = unicodedata.bidirectional(character) in DIRECTIONS or character in "\u061c\u200e\u200f"
        shown = visible(character)
        if unicodedata.category(character) in ESCAPED or turns:
            assert shown.startswith("\\"), hex(number)
            assert shown.isascii()
            assert shown.isprintable()
        else:
            assert shown == character


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[/b]", "[/b]"),
        ("[bold]admin[/bold]", "[bold]admin[/bold]"),
        ("x\x1b]0;owned\x07\x1b[31my", r"x\x1b]0;owned\x07\x1b[31my"),
        ("two\nlines\tand \\", r"two\nlines\tand " + "\\"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\x9b31m", r"\x9b31m"),
        ("\udce9", r"\udce9"),
        ("👩‍💻 Zoë", "👩‍💻 Zoë"),
        (7, "7"),
    ],
)
def test_names(text: object, shown: str) -> None:
    assert visible(text) == shown


NAMES = ("[/b]", "[bold]admin[/bold]", "[link=https://x]y[/link]", ":warning:", "x\x1b]0;owned\x07\x1b[31my", "a\\")


@pytest.mark.parametrize("name", NAMES)
def test_a_console_shows_names_as_they_are(name: str) -> None:
    from rich.table import Table

    table = Table(name, title=name, caption=name)
    table.add_row(name)
    out = io.StringIO()
    console = open_console(file=out, width=70)
    console.print(table)
    console.print(name, highlight=False)
    assert out.getvalue().count(visible(name)) == 5
    assert "\x1b" not in out.getvalue()


def test_lines_stay() -> None:
    assert visible_lines("one\ntwo\r\x1b[2J") == "one\ntwo\\r\\x1b[2J"


def test_all_consoles_are_made_by_one_function() -> None:
    """Another one would obey what is in names; and what is escaped twice would show backslashes."""
    root = Path(__file__).resolve().parents[1]
    for folder in ("dynstore", "algorithms", "adapters", "benchmarks", "examples"):
        for path in (root / folder).rglob("*.py"):
            source = path.read_text()
            assert "rich.markup" not in source, path
            if path.name != "terminal.py":
                assert " Console(" not in source, path
