"""One look at each letter finds what slow searches find."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dynstore.io.cpu import EMPTY, HEX, LONE_RETURN, PADDED, ZEROS, scan

PATTERNS = {
    EMPTY: r"(?m)(?:\A|\n)[ \t\r]",
    LONE_RETURN: r"\r[^\r\n]",
    HEX: r"0[xX]",
}


def signs_of(text: str, delimiter: str | None) -> int:
    """Return the signs by regular expressions."""
    mark = "[ \t]" if delimiter is None else re.escape(delimiter[0])
    blank = r"\t" if delimiter == " " else " " if delimiter == "\t" else r"[ \t]"
    patterns = PATTERNS | {
        PADDED: rf"(?:\A|\n|{mark}){blank}|{blank}(?:{mark}|[\r\n]|\Z)",
        ZEROS: rf'(?:\A|\n|"|[ \t]|{mark})0[0-9]',
    }
    if delimiter is None:
        patterns[PADDED] = r"\t|(?:\A|\n| ) | (?:[\r\n]|\Z)"
    return sum(sign for sign, pattern in patterns.items() if re.search(pattern, text))


@pytest.mark.parametrize("delimiter", [None, ",", "\t", "::", "|"])
def test_random_texts(rng: np.random.Generator, delimiter: str | None) -> None:
    letters = np.array(list('07xXa,|: \t\n\r".'))
    seen = 0
    for _ in range(400):
        text = "".join(rng.choice(letters, rng.integers(0, 12)))
        found, wanted = scan(text.encode(), delimiter), signs_of(text, delimiter)
        assert found | PADDED == wanted | PADDED, repr(text)
        # A blank too many costs time; one that is not seen would be read wrongly.
        assert wanted & PADDED <= found & PADDED, repr(text)
        seen |= wanted
    assert seen == EMPTY | PADDED | LONE_RETURN | ZEROS | HEX


@pytest.mark.parametrize("text", ["1 2\n3 4\n", "1 2\r\n3 4\r\n", "10 20\n30 40", "\n1 2\n"])
def test_plain_pairs_have_no_signs(text: str) -> None:
    assert scan(text.encode(), None) == 0
    assert scan(text.replace(" ", ",").encode(), ",") == 0
