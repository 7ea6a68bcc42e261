"""The same rows as messages: Arrow, JSON of several shapes, and fields of texts; some hold many rows, some none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from dynstore import Stream
from dynstore.streams import encode
from dynstore.streams.messages import Message, Messages
from tests.random_input.files import json_rows, said_ids
from tests.random_input.frames import draw_arrow
from tests.random_input.truth import Draw, Truth, pick
from tests.streams.scripted import Scripted

__all__ = ["draw_messages"]

EMPTY: list[Any] = [None, b"", b"\n", b"[]", b"{}", {}]


def draw_messages(rng: Draw, truth: Truth) -> tuple[str, Callable[[Any], None]]:
    """Return what the messages hold, and a function that sends them to a graph."""
    values: list[Any] = []
    for some in _parts(rng, truth):
        values.append(
            pick(rng, [_as_arrow, _as_lines, _as_array, _as_columns, *([_as_fields] if _is_flat(some) else [])])(
                rng, some
            )
        )
        if rng.random() < 0.1:
            values.append(pick(rng, EMPTY))
    ids = said_ids(rng, truth, first=1)
    cut = int(rng.integers(len(values) + 1))
    size = int(pick(rng, [1, 3, 1000]))

    def send(G: Any) -> None:
        parts = [_units(part) for part in (values[:cut], values[cut:]) if part]
        Stream(G, Scripted(*parts, ends=True), batch_edges=size, ids=ids).run()

    return f"{values[:4]} ids {ids}, batches of {size}, cut {cut}", send


def _units(values: list[Any]) -> Messages:
    return Messages([Message(value, f"message {number}", number + 1) for number, value in enumerate(values)])


def _parts(rng: Draw, truth: Truth) -> Iterator[Truth]:
    """Yield the rows of a message each."""
    first = 0
    while first < truth.size:
        last = first + int(pick(rng, [1, 1, 2, 5]))
        yield truth._replace(columns={name: values[first:last] for name, values in truth.columns.items()})
        first = last


def _is_flat(truth: Truth) -> bool:
    return truth.size == 1 and all(values != [None] for values in truth.columns.values())


def _as_arrow(rng: Draw, truth: Truth) -> bytes:
    try:
        return encode(draw_arrow(rng, truth)[1])
    except Exception:  # pyarrow cannot hold it, or not write it
        return _as_lines(rng, truth)


def _as_lines(rng: Draw, truth: Truth) -> bytes:
    return "\n".join(map(json.dumps, json_rows(rng, truth))).encode()


def _as_array(rng: Draw, truth: Truth) -> bytes:
    return json.dumps(json_rows(rng, truth)).encode()


def _as_columns(rng: Draw, truth: Truth) -> bytes:
    rows = json_rows(rng, truth)
    return json.dumps({name: [row.get(name) for row in rows] for name in truth.columns}).encode()


def _as_fields(rng: Draw, truth: Truth) -> dict[str, str]:
    """Return one row as fields of texts."""
    (row,) = json_rows(rng, truth)
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in row.items()}
