"""Changes of one field, word or byte of what was written, as a stranger makes them: with checksums that are right."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dynstore.durable.records import KINDS
from tests.durable.crafting import Raw

__all__ = ["change_document", "change_record", "change_records", "change_words"]

VALUES: list[Any] = [
    *(None, True, False, "", "x", "int64", "float32", "|O", "../x", "\ud800", [], {}, [[]], {"x": 1}),
    *(0.5, float("nan"), -(2**70), -(2**63), -1, 0, 1, 2, 3, 7, 200, 2**70),
]  # fmt: skip
WORDS = [-1, 0, 1, 2, 5, 100, -(2**31), 2**31 - 1, -(2**63), 2**63 - 1]
# What a graph makes room for by itself: large values are refused only where memory ends.
ROOM = ("capacity", "max_vertices", "num_vertices")
LARGEST_ROOM = 10_000
Draw = np.random.Generator


def _places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values of a JSON document."""
    if path:
        yield path
    if isinstance(document, dict | list):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield from _places(document[key], (*path, key))


def change_document(rng: Draw, document: Any) -> Any:
    """Return a JSON document with one value that is another one, is gone, is there twice, or has another name."""
    document = copy.deepcopy(document)
    places = list(_places(document))
    *path, last = places[rng.integers(len(places))]
    parent = document
    for key in path:
        parent = parent[key]
    choice = rng.integers(8)
    if choice == 0:
        del parent[last]
    elif choice == 1 and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[last]))
    elif choice == 1:
        parent[f"{last}x"] = parent.pop(last)
    elif choice == 2 and type(parent[last]) is int:
        parent[last] += int(rng.choice([-1, 1]))
    elif choice == 2 and isinstance(parent, list):
        other = int(rng.integers(len(parent)))
        parent[last], parent[other] = parent[other], parent[last]
    elif choice == 3 and isinstance(parent[last], str) and parent[last]:
        text, place = parent[last], int(rng.integers(len(parent[last])))
        parent[last] = text[:place] + chr(int(rng.integers(32, 300))) + text[place + 1 :]
    else:
        parent[last] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
    if last in ROOM and type(parent.get(last)) is int and LARGEST_ROOM < parent[last] < 2**63:
        parent[last] = LARGEST_ROOM
    return document


def change_words(rng: Draw, content: bytes) -> bytes:
    """Return bytes of which one, or an aligned word, is another one."""
    if not content:
        return content
    changed = bytearray(content)
    size = int(rng.choice([1, 4, 8]))
    if size > len(content):
        size = 1
    place = int(rng.integers(len(content) // size)) * size
    value = int(rng.integers(256)) if size == 1 else int(WORDS[rng.integers(len(WORDS))])
    changed[place : place + size] = (value % 256**size).to_bytes(size, "little")
    if not rng.integers(8):
        changed[place : place + size] = np.array(rng.choice([np.nan, np.inf]), f"f{max(size, 4)}").tobytes()[:size]
    return bytes(changed)


def change_record(rng: Draw, raw: Raw) -> None:
    """Change one thing of a record."""
    choice = rng.integers(10)
    if choice < 4:
        raw.meta = change_document(rng, raw.meta)
    elif choice < 8:
        raw.columns = change_words(rng, raw.columns)
    elif choice == 8:
        name = ("kind", "version", "durable", "rows", "meta", "position")[rng.integers(6)]
        if name == "kind":
            raw.head = raw.head._replace(kind=KINDS[rng.integers(len(KINDS))])
        else:
            now = getattr(raw.head, name)
            raw.changed[name] = int(rng.choice([0, 1, now + 1, max(now - 1, 0), 1000, 2**31, 2**32 - 1]))
    else:
        raw.columns = raw.columns[: -8 * int(rng.integers(1, 3))] if rng.integers(2) else raw.columns + bytes(8)


def change_records(rng: Draw, records: list[Raw]) -> list[Raw]:
    """Return the records of a log with one that was changed, is gone, is there twice, or has changed places."""
    records = copy.deepcopy(records)
    place = int(rng.integers(len(records)))
    moves: list[Callable[[], None]] = [
        lambda: records.insert(place, copy.deepcopy(records[place])),
        lambda: records.append(records.pop(place)),
        lambda: operator.delitem(records, place),
    ]
    choice = rng.integers(40)
    if choice < len(moves):
        moves[choice]()
    else:
        change_record(rng, records[place])
    return records
