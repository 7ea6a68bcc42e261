"""PTX without names and without the order in which the compiler happens to write functions.

What is reached from the kernel is written in the order in which it is reached, and what has a name of its own is called
by the number of its first appearance. So two texts are equal if and only if the instructions are.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["normalise"]

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
FILE_AND_LINE = re.compile(r"^\s*\.(?:file|loc)\b[^\n]*$", re.MULTILINE)
HEADER = re.compile(r"\.(?:version|target|address_size)\b[^\n]*")
WORD = re.compile(r"[A-Za-z_$%][\w$]*")
LABEL = re.compile(r"[\w$]+:(?!:)\s*")
# Numbered by the compiler over the whole text: labels, a function's stack, prototypes of calls.
OF_ONE_FUNCTION = re.compile(r"\$L\w+|\$\w+|__local_depot\d+|prototype_\d+")
# What a declaration may say before the name that it declares.
KEYWORDS = re.compile(r"\.\w+|\d+|\([^)]*\)|\s+")


class Item(NamedTuple):
    """A function, or a variable outside all functions."""

    name: str
    text: str
    body: str  # of a function; else empty

    @property
    def is_extern(self) -> bool:
        return ".extern" in self.text.split(self.name)[0]


def normalise(text: str) -> tuple[str, int]:
    """Return the PTX of one kernel without names, and how many instructions it has with all functions that it calls."""
    text = FILE_AND_LINE.sub("", COMMENT.sub("", text))
    header = HEADER.findall(text)
    items: dict[str, Item] = {}
    for item in _split(HEADER.sub("", text)):
        if item.body or item.name not in items:  # a function may be declared before it is written
            items[item.name] = item
    reached = [name for name, item in items.items() if ".entry" in item.text.split(item.name)[0]]
    if len(reached) != 1:
        raise ValueError(f"normalise: got PTX with {len(reached)} kernels; wanted 1")
    numbers = {reached[0]: 0}
    lines, instructions = header, 0
    for name in reached:  # grows
        lines.append(_rename(items[name], items, numbers, reached))
        instructions += _count_instructions(items[name].body)
    return "\n".join(lines), instructions


def _split(text: str) -> list[Item]:
    """Split into what stands side by side: each ends with its ``;``, or its body."""
    items: list[Item] = []
    depth = start = opened = 0
    for match in re.finditer(r"[{};]", text):
        sign, end = match.group(), match.end()
        if sign == "{":
            opened = match.start() if depth == 0 else opened
            depth += 1
            continue
        depth -= sign == "}"
        is_list = sign == "}" and "=" in text[start:opened]  # a variable's values, whose `;` comes
        if depth == 0 and not is_list:
            part = " ".join(text[start:end].split())
            body = text[opened + 1 : end - 1] if sign == "}" else ""
            items.append(Item(_find_name(part), part, body))
            start = end
    if text[start:].strip():
        raise ValueError("normalise: PTX ends within a function")
    return items


def _find_name(part: str) -> str:
    """Return what a declaration declares: the first word that is no directive, size or result."""
    place = 0
    while keyword := KEYWORDS.match(part, place):
        place = keyword.end()
    word = WORD.match(part, place)
    if word is None:
        raise ValueError(f"normalise: cannot read {part[:80]!r}")
    return word.group()


def _rename(item: Item, items: dict[str, Item], numbers: dict[str, int], reached: list[str]) -> str:
    """Return an item's text without names; what it names first is numbered and reached next."""
    own: dict[str, int] = {}
    parameter = f"{item.name}_param_"

    def rename(match: re.Match[str]) -> str:
        word = match.group()
        if word in items:
            if items[word].is_extern and not items[word].body:
                return word  # from outside: its name is what it is
            if word not in numbers:
                numbers[word] = len(numbers)
                reached.append(word)
            return f"@{numbers[word]}"
        if word.startswith(parameter):
            return f"parameter_{word.removeprefix(parameter)}"
        if OF_ONE_FUNCTION.fullmatch(word):
            return f"own_{own.setdefault(word, len(own))}"
        return word

    return WORD.sub(rename, item.text)


def _count_instructions(body: str) -> int:
    statements = (LABEL.sub("", statement).strip(" {}\t\n") for statement in body.split(";"))
    return sum(1 for statement in statements if statement and not statement.startswith("."))
