"""Which column of a file is which: by name, by number, or by the usual names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches

from dynstore.errors import InputError
from dynstore.io.limits import whole_number

__all__ = ["ColumnChoice", "Columns", "find_columns"]

SOURCE_NAMES = ("source", "src", "from", "u")
DESTINATION_NAMES = ("destination", "dst", "target", "to", "v")
MAX_COLUMNS = 10_000


@dataclass(frozen=True)
class ColumnChoice:
    """The columns that the caller chose: names, 0-based numbers (also as text), or None."""

    source: str | int | None = None
    destination: str | int | None = None
    weight: str | int | None = None
    time: str | int | None = None
    op: str | int | None = None

    def has_names(self) -> bool:
        """Whether any column is chosen by name, so that the file must have a header."""
        asked = (self.source, self.destination, self.weight, self.time, self.op)
        return any(isinstance(column, str) and not column.isdecimal() for column in asked)

    def named(self) -> str:
        """Return the names of the roles for which a column was chosen."""
        return ", ".join(field.name for field in fields(self) if getattr(self, field.name) is not None)


@dataclass(frozen=True)
class Columns:
    """Numbers of the columns in use."""

    source: int
    destination: int
    weight: int | None = None
    time: int | None = None
    op: int | None = None

    def used(self) -> list[int]:
        """Return the numbers in ascending order."""
        asked = (self.source, self.destination, self.weight, self.time, self.op)
        return sorted({column for column in asked if column is not None})

    def role(self, number: int) -> str:
        """Return the role of a column."""
        for role in ("source", "destination", "weight", "time", "op"):
            if getattr(self, role) == number:
                return role
        return f"column {number}"


def find_columns(where: str, choice: ColumnChoice, header: Sequence[str] | None, width: int) -> Columns:
    """Turn names into numbers; take source and destination from the usual names or the first free columns.

    Parameters
    ----------
    where : str
        The file, for messages.
    choice : ColumnChoice
    header : sequence of str, or None
        The file's column names, if it has them.
    width : int
        Number of columns of the first row. Larger numbers are refused, except for the weight, which deletions may omit
        (with an op column): up to 10,000.

    Raises
    ------
    InputError
        For a name or number that the file does not have, or a column that is chosen twice.
    """
    numbers: dict[str, int] = {}
    for role in ("source", "destination", "weight", "time", "op"):
        asked = getattr(choice, role)
        if asked is not None:
            ragged = role == "weight" and choice.op is not None and header is None
            numbers[role] = _number(where, role, asked, header, MAX_COLUMNS if ragged else width, width)
    for role, usual in (("source", SOURCE_NAMES), ("destination", DESTINATION_NAMES)):
        if role not in numbers:
            numbers[role] = _usual(where, role, usual, header, width, set(numbers.values()))
    roles_of: dict[int, str] = {}
    for role, number in numbers.items():
        if number in roles_of:
            raise InputError(
                f"{where}: column {number} is named as {roles_of[number]} and as {role}; wanted two columns"
            )
        roles_of[number] = role
    return Columns(**numbers)


def _number(where: str, role: str, asked: str | int, header: Sequence[str] | None, limit: int, width: int) -> int:
    if isinstance(asked, str) and header is not None and asked in header:
        return list(header).index(asked)
    if isinstance(asked, str) and not asked.isdecimal():
        if header is None:
            raise InputError(f"{where}: {role} column {asked!r} is a name, but the file has no header; give a number")
        guess = get_close_matches(asked, header, n=1, cutoff=0.5)
        hint = f". Did you mean {guess[0]!r}?" if guess else ""
        raise InputError(f"{where}: no {role} column {asked!r}; the file has {', '.join(map(repr, header))}{hint}")
    number = whole_number(asked) if isinstance(asked, str) else int(asked)
    if not 0 <= number < limit:
        raise InputError(f"{where}: no {role} column {number}; the file has columns 0 to {width - 1}")
    return number


def _usual(
    where: str, role: str, usual: Sequence[str], header: Sequence[str] | None, width: int, taken: set[int]
) -> int:
    lowered = [name.strip().lower() for name in header or ()]
    for name in usual:
        if name in lowered and lowered.index(name) not in taken:
            return lowered.index(name)
    for number in range(width):
        if number not in taken:
            return number
    raise InputError(f"{where}: no column is left for the {role}; the file has {width} column{'s' * (width != 1)}")
