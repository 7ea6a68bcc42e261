"""Control characters in text from elsewhere are escaped; all else is shown as it is."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from dynstore.terminal import visible

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
