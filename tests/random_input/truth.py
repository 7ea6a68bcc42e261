"""Rows that are known, with one fault or none: what a reader must find in any form that they are written in."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from dynstore import DynamicGraph
from dynstore.errors import DynstoreError

__all__ = ["FAULTS", "ROLES", "Draw", "ReadingError", "Truth", "draw_truth", "pick", "read_or_refuse"]

Draw = np.random.Generator
ROLES = {"source": "id", "destination": "id", "weight": "weight", "time": "time"}
# What may be wrong in one row: the column that it is in, what stands there, and whether that is wrong where ids are
# texts, too.
FAULTS: dict[str, tuple[str, Any, bool]] = {
    "missing id": ("id", None, True),
    "negative id": ("id", -3, False),
    "id with a fraction": ("id", 2.5, False),
    "id that is a text": ("id", "ann", False),
    "missing weight": ("weight", None, True),
    "weight that is a text": ("weight", "much", True),
    "missing time": ("time", None, True),
    "time that is a text": ("time", "soon", True),
}
TEXTS = [
    *("ann", "bob", "Zoë", "x y", "a-b", "007", "7", "1e5", "true", "NA", "null", "nan", "None", "id 1", "東京"),
    *("O'Hara", "e.g.", "a/b", "2024-01-01", "0x1F", "+", "1.0", "long" * 40),
]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class ReadingError(Exception):
    """Rows that became others without a word, a fault that was taken, or right rows that were refused."""


class Truth(NamedTuple):
    """Columns as Python's values.

    Attributes
    ----------
    columns : dict of lists
        "source" and "destination"; "weight" and "time" if there are any. No pair is there twice.
    texts : bool
        Whether ids are texts; else they are integers.
    dates : bool
        Whether times are date-times; else they are integers.
    fault : str
        What is wrong in one row, of :data:`FAULTS`; empty if nothing is.
    renumber : bool
        Whether the graph takes any ids.
    """

    columns: dict[str, list[Any]]
    texts: bool
    dates: bool
    fault: str
    renumber: bool

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.columns["source"])

    def edges(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """Return pair -> weight and time, of those that there are; date-times as nanoseconds."""
        more = [
            [_as_number(each) for each in self.columns[name]] for name in ("weight", "time") if name in self.columns
        ]
        pairs = zip(self.columns["source"], self.columns["destination"], strict=True)
        return dict(zip(pairs, zip(*more, strict=True) if more else [()] * self.size, strict=True))

    def new_graph(self) -> DynamicGraph:
        """Return an empty graph for these rows."""
        return DynamicGraph(
            device="cpu",
            weighted="weight" in self.columns,
            weight_dtype="float64",
            vertex_dtype="int64",
            renumber=self.renumber,
            timestamps="int64" if "time" in self.columns else None,
        )


def _as_number(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(microseconds=1) * 1000
    return float(value) if isinstance(value, Decimal | float) else value


def pick(rng: Draw, choices: Any) -> Any:
    """Return one of some choices."""
    choices = list(choices)
    return choices[int(rng.integers(len(choices)))]


def draw_truth(rng: Draw) -> Truth:
    """Draw 1 to 40 rows. Two of five have a fault."""
    size = int(pick(rng, [1, 2, 3, 7, 40]))
    texts, dates = bool(rng.integers(2)), bool(rng.integers(2))
    renumber = texts or bool(rng.integers(2))
    if texts:
        ids: list[Any] = list(TEXTS)
    else:
        top = int(pick(rng, [10, 200, 2**15, 2**31 - 2, 2**40, 2**53 + 9] if renumber else [10, 200, 2**15]))
        ids = [int(each) for each in rng.integers(max(top - 30, 0), top + 1, 9)]
        ids = [*dict.fromkeys([*ids, *range(5)])]
    pairs = [(source, destination) for source in ids for destination in ids]
    chosen = [pairs[place] for place in rng.permutation(len(pairs))[:size]]
    size = len(chosen)
    columns: dict[str, list[Any]] = {"source": [a for a, _ in chosen], "destination": [b for _, b in chosen]}
    if rng.random() < 0.6:
        whole = bool(rng.integers(2))
        numbers = rng.integers(1, 1000, size)
        columns["weight"] = [int(each) if whole else int(each) / 64 for each in numbers]
    if rng.random() < 0.4:
        seconds = rng.integers(0, 10**9, size)
        steps = pick(rng, [10**6, 10**3, 1])  # whole seconds, milliseconds, microseconds
        columns["time"] = [
            EPOCH + datetime.timedelta(microseconds=int(each) * 10**6 + int(rng.integers(10**6)) // steps * steps)
            if dates
            else int(each)
            for each in seconds
        ]
    fault = _draw_fault(rng, columns, texts) if rng.random() < 0.4 else ""
    return Truth(columns, texts, dates and "time" in columns, fault, renumber)


def _draw_fault(rng: Draw, columns: dict[str, list[Any]], texts: bool) -> str:
    """Put a fault into a row; return which."""
    roles = {ROLES[name] for name in columns}
    fault: str = pick(
        rng, [name for name, (role, _, in_texts) in FAULTS.items() if role in roles and (in_texts or not texts)]
    )
    role, value, _ = FAULTS[fault]
    name = pick(rng, [each for each in columns if ROLES[each] == role])
    columns[name][int(rng.integers(len(columns[name])))] = value
    return fault


def read_or_refuse(truth: Truth, read: Any, in_parts: bool = False) -> bool:
    """Have rows read by ``read(graph)``. Return whether they were; False: they were refused as they have to be.

    With ``in_parts``, rows before the bad one may be in the graph.

    Raises
    ------
    ReadingError
    """
    G = truth.new_graph()
    try:
        read(G)
    except DynstoreError as error:
        if not truth.fault:
            raise ReadingError(f"right rows were refused: {error}") from error
        found = _edges_of(truth, G) if in_parts else {}
        if len(found) != G.number_of_edges() or not found.items() <= truth.edges().items():
            raise ReadingError(f"{truth.fault}: refused, but the graph has edges") from error
        return False
    if truth.fault:
        raise ReadingError(f"{truth.fault}: taken")
    _must_be_read(truth, G)
    return True


def _must_be_read(truth: Truth, G: DynamicGraph) -> None:
    """Compare a graph with the truth."""
    found, expected = _edges_of(truth, G), truth.edges()
    if found.keys() != expected.keys() or G.number_of_edges() != len(expected):
        missing, more = sorted(map(str, expected.keys() - found)), sorted(map(str, found.keys() - expected))
        raise ReadingError(f"pairs: {missing} are missing, {more} are more")
    for pair, values in expected.items():
        if values != found[pair]:
            raise ReadingError(f"{pair}: got {found[pair]}, wanted {values}")


def _edges_of(truth: Truth, G: DynamicGraph) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    table = G.to_pandas()
    rows = zip(*(table[name].tolist() for name in truth.columns), strict=True)
    return {row[:2]: row[2:] for row in rows}
