"""From one string to a stream: the name of a data set, a generator with its sizes, or a file."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dynstore.datasets.generators import rmat, uniform
from dynstore.datasets.shipped import SHIPPED, load
from dynstore.errors import InputError
from dynstore.io import EventTable, read_events
from dynstore.io.limits import whole_number

__all__ = ["is_generated", "resolve"]

GENERATORS = {"rmat": (rmat, "rmat:SCALE:EDGEFACTOR"), "uniform": (uniform, "uniform:VERTICES:EDGES")}


def is_generated(data: str) -> bool:
    """Whether the string names a generator, so that a seed matters."""
    return data.split(":", 1)[0] in GENERATORS and ":" in data


def resolve(data: str, seed: int = 0, **columns: Any) -> EventTable:
    """Load the data set that a string names.

    Parameters
    ----------
    data : str
        "collegemsg" or "mathoverflow"; "rmat:SCALE:EDGEFACTOR" or "uniform:VERTICES:EDGES"; else a file's path.
    seed : int
        Seed of the generators.
    **columns
        Columns, delimiter and header, as :func:`dynstore.io.read_events` takes them, for files only. A file's ids may
        be any, as its ``renumber=True`` says; weights must fit float32.

    Returns
    -------
    EventTable
        The events.

    Raises
    ------
    InputError
        If the name is unknown (the message lists those that exist), or a file is missing or cannot be read.
    """
    given = {name: value for name, value in columns.items() if value is not None}
    if is_generated(data):
        _refuse_columns(data, given)
        return _generate(data, seed)
    if data in SHIPPED:
        _refuse_columns(data, given)
        return load(data)
    if Path(data).exists() or "/" in data or "\\" in data or Path(data).suffix:
        return read_events(data, weight_dtype="float32", renumber=True, **given)
    shapes = [shape for _, shape in GENERATORS.values()]
    guess = get_close_matches(data, [*SHIPPED, *GENERATORS], n=1, cutoff=0.5)
    hint = f". Did you mean {guess[0]!r}?" if guess else ""
    raise InputError(
        f"unknown data {data!r}; known: {', '.join(sorted(SHIPPED))}; generated: {', '.join(shapes)}; "
        f"or a file's path (no such file here){hint}"
    )


def _refuse_columns(data: str, given: dict[str, Any]) -> None:
    if given:
        raise InputError(
            f"{data}: got {', '.join(sorted(given))}; only the columns of files can be chosen. Leave it out"
        )


def _generate(data: str, seed: int) -> EventTable:
    kind, *sizes = data.split(":")
    make, shape = GENERATORS[kind]
    if len(sizes) != 2 or not all(size.isascii() and size.isdecimal() for size in sizes):
        raise InputError(f"unknown data {data!r}; wanted {shape} with two whole numbers")
    return make(whole_number(sizes[0]), whole_number(sizes[1]), seed)
