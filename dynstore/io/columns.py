"""Which column of a file is which: by name, by number, or by the usual names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches

from dynstore.errors import InputError
from dynstore.io.limits import whole_number

__all__ = ["USUAL_NAMES", "ColumnChoice", "FileColumns", "find_columns"]

# Names in lower case, of sources and of destinations, that are taken where none is chosen.
USUAL_NAMES = (
    ("source", "src", "from", "u", "start", "source_id", "fromnodeid", "from_node_id", ":start_id"),
    ("destination", "dst", "target", "to", "v", "end", "target_id", "tonodeid", "to_node_id", ":end_id"),
)
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
class FileColumns:
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

    def said(self, names: Sequence[str] | None) -> str:
        """Return which columns are taken, in words; ``names``: those of all columns, if they have some."""
        roles = {role: getattr(self, role) for role in ("source", "destination", "weight", "time", "op")}
        taken = {role: number for role, number in roles.items() if number is not None}
        return ", ".join(f"{role} is {repr(names[n]) if names else f'column {n}'}" for role, n in taken.items())

    def role(self, number: int) -> str:
        """Return the role of a column."""
        for role in ("source", "destination", "weight", "time", "op"):
            if getattr(self, role) == number:
                return role
        return f"column {number}"


def find_columns(where: str, choice: ColumnChoice, header: Sequence[str] | None, width: int) -> FileColumns:
    """Turn names into numbers; take source and destination by the usual names, or the first free columns.

    The first free columns are taken without names; or if there are no others, and the caller has named the rest.

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
        For a name or number that the file does not have, a column that is chosen twice, and names that are not usual.
    """
    numbers: dict[str, int] = {}
    for role in ("source", "destination", "weight", "time", "op"):
        asked = getattr(choice, role)
        if asked is not None:
            ragged = role == "weight" and choice.op is not None and header is None
            numbers[role] = _number(where, role, asked, header, MAX_COLUMNS if ragged else width, width)
    usually = False
    for role, usual in zip(("source", "destination"), USUAL_NAMES, strict=True):
        if role not in numbers:
            found = _usual(usual, header, set(numbers.values()))
            if found is not None:
                numbers[role], usually = found, True
    free = [number for number in range(width) if number not in numbers.values()]
    missing = [role for role in ("source", "destination") if role not in numbers]
    if len(missing) > len(free):
        raise InputError(
            f"{where}: no column is left for the {missing[-1]}; the file has {width} column{'s' * (width != 1)}"
        )
    if header is not None and missing and (usually or len(missing) < len(free)):
        raise InputError(
            f"{where}: which column is the {' and '.join(missing)}? The file has {', '.join(map(repr, header))}. "
            f"Name it: {', '.join(f'{role}=...' for role in missing)}"
        )
    numbers |= dict(zip(missing, free, strict=False))
    roles_of: dict[int, str] = {}
    for role, number in numbers.items():
        if number in roles_of:
            raise InputError(
                f"{where}: column {number} is named as {roles_of[number]} and as {role}; wanted two columns"
            )
        roles_of[number] = role
    return FileColumns(**numbers)


def _number(where: str, role: str, asked: str | int, header: Sequence[str] | None, limit: int, width: int) -> int:
    if isinstance(asked, str) and header is not None and asked in header:
        names = list(header)
        if names.count(asked) > 1:
            raise InputError(f"{where}: {names.count(asked)} columns are called {asked!r}; wanted one, or its number")
        return names.index(asked)
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


def _usual(usual: Sequence[str], header: Sequence[str] | None, taken: set[int]) -> int | None:
    """Return the number of the first column with a usual name that has no other role; None if there is none."""
    lowered = [name.strip().lower() for name in header or ()]
    found = (lowered.index(name) for name in usual if name in lowered)
    return next((number for number in found if number not in taken), None)
