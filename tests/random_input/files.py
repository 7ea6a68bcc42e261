"""The same rows as files: text in any dialect, packed or not, lines of JSON, Parquet and Arrow."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet

from dynstore import DynamicGraph, Stream
from dynstore.io import read_events
from dynstore.streams import FileSource
from tests.random_input.frames import draw_arrow
from tests.random_input.truth import ROLES, Draw, Truth, pick

__all__ = ["File", "draw_file", "json_rows", "said_ids"]


class File(NamedTuple):
    """A file that was written.

    Attributes
    ----------
    said : str
        How it was written.
    read : callable
        Reads it into a graph.
    in_parts : bool
        Whether the rows before a bad one are applied.
    """

    said: str
    read: Callable[[DynamicGraph], None]
    in_parts: bool


def _zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.csv", data)
    return file.getvalue()


PACKING: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    ".zip": _zipped,
}
USUAL = [("source", "destination"), ("src", "dst"), ("from", "to"), ("Source", "Target"), ("u", "v")]
DELIMITERS = [",", ";", "\t", "|", "::", " "]


def _as_text(rng: Draw, value: Any, between: str, zone: str) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return pick(rng, [repr(value), f"{value:.17e}", f"{value:.6f}", f"{value:.20f}"])
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(between)
        return text + zone
    return str(value)


def _columns_as_texts(rng: Draw, truth: Truth, delimiter: str) -> dict[str, list[str]]:
    between = "T" if delimiter == " " else pick(rng, ["T", " "])
    zone = pick(rng, ["", "Z", "+00:00"])
    return {name: [_as_text(rng, each, between, zone) for each in values] for name, values in truth.columns.items()}


def _quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"'


def draw_file(rng: Draw, truth: Truth, folder: Path) -> File:
    """Write a file of rows."""
    makers = [_draw_text] * 5 + [_draw_json, _draw_table]
    made: File = pick(rng, makers)(rng, truth, folder)
    return made


def _can_stand(truth: Truth, delimiter: str) -> bool:
    """Whether texts can stand between delimiters: with quotes, or because none has one; and a gap shows."""
    texts = [each for name in truth.columns for each in truth.columns[name] if isinstance(each, str)]
    missing = any(each is None for values in truth.columns.values() for each in values)
    return delimiter in ",;" or not (any(delimiter in each for each in texts) or (delimiter == " " and missing))


def said_ids(rng: Draw, truth: Truth, first: int = 1000) -> str | None:
    """Return what ids are said to be, where the first rows do not show it, or where what is wrong would be a text."""
    if truth.texts:
        ids = [each for name in ("source", "destination") for each in truth.columns[name][:first] if each]
        shown = any(each.startswith("0") or not each.replace(".", "").isdecimal() for each in ids)
        return pick(rng, ["text", None]) if shown else "text"
    return "integer" if truth.renumber and truth.fault else pick(rng, ["integer", None])


def _draw_text(rng: Draw, truth: Truth, folder: Path) -> File:
    delimiter = pick(rng, [each for each in DELIMITERS if _can_stand(truth, each)])
    columns = _columns_as_texts(rng, truth, delimiter)
    order = [*columns]
    if rng.integers(2):  # a column that nobody asks for
        columns["note"] = [pick(rng, ["paid", "back", "1"]) for _ in range(truth.size)]
        order.insert(int(rng.integers(2, len(order) + 1)), "note")
    header = bool(rng.integers(2))
    if header:
        order = [order[place] for place in rng.permutation(len(order))]
    names = dict(zip(ROLES, (*pick(rng, USUAL), "amount", "at"), strict=True))
    data, said = _write_text(rng, columns, order, delimiter, names if header else {})
    if header:
        asked: dict[str, Any] = {role: names[role] for role in truth.columns}
        if rng.integers(2):  # usual names are found
            del asked["source"], asked["destination"]
    else:
        asked = {role: order.index(role) for role in truth.columns if role in ("weight", "time") or rng.integers(2)}
        if len(asked.keys() & {"source", "destination"}) == 1:
            asked |= {"source": 0, "destination": 1}
    options: dict[str, Any] = {"header": header} if rng.integers(2) or not header else {}
    if rng.random() < 0.3:
        options["delimiter"] = delimiter
    ids = said_ids(rng, truth)
    said += f" {asked} {options} ids {ids}"
    if rng.random() < 0.3:
        (folder / "rows.csv").write_bytes(data)
        if header:
            asked = {role: names[role] for role in truth.columns}
        else:
            asked = {role: str(order.index(role)) for role in truth.columns if role in ("weight", "time")}
        return File(f"stream of {said}", _by_stream(folder / "rows.csv", asked, options, ids), True)
    packing = pick(rng, [*PACKING])
    path = folder / f"rows.csv{packing}"
    path.write_bytes(PACKING[packing](data))
    return File(f"{packing} {said}", _by_events(path, asked, options | {"ids": ids}, truth), False)


def _write_text(
    rng: Draw, columns: dict[str, list[str]], order: list[str], delimiter: str, names: dict[str, str]
) -> tuple[bytes, str]:
    """Return the bytes of a file, and how it is written."""
    quotes = pick(rng, ["", "all", "some"]) if delimiter in ",;" else ""
    blank = " " if delimiter in ",;|" and rng.random() < 0.2 else ""
    end = pick(rng, ["\n", "\r\n"])
    lines = []
    for row in range(len(columns["source"])):
        fields = [columns[name][row] for name in order]
        if quotes == "all" or any(delimiter in each for each in fields):
            fields = [_quoted(each) for each in fields]
        elif quotes:
            fields = [_quoted(each) if each and rng.integers(2) else each for each in fields]
        lines.append(f"{delimiter}{blank}".join(fields))
    if names:
        lines.insert(0, delimiter.join(names.get(name, name) for name in order))
    comment = pick(rng, ["", "", "#", "%"])
    if comment:
        lines.insert(0, f"{comment} rows of a test")
        if rng.integers(2):
            lines.insert(int(rng.integers(1, len(lines) + 1)), f"{comment} a remark")
    mark = "\ufeff" if rng.random() < 0.1 else ""
    text = mark + end.join(lines) + (end if rng.integers(4) else "")
    return text.encode(), repr(text[:200])


def _by_events(path: Path, asked: dict[str, Any], options: dict[str, Any], truth: Truth) -> Callable[[Any], None]:
    def read(G: DynamicGraph) -> None:
        dtype = {"vertex_dtype": "int64", "weight_dtype": "float64"}
        events = read_events(path, **asked, **options, **dtype, renumber=truth.renumber)
        if "time" in truth.columns:
            Stream(G, events).run()
        else:
            G.insert_edges(events)

    return read


def _by_stream(path: Path, columns: dict[str, Any], options: dict[str, Any], ids: Any) -> Callable[[Any], None]:
    def read(G: DynamicGraph) -> None:
        Stream(G, FileSource(path, follow=False, **options), columns=columns or None, ids=ids).run()

    return read


def _draw_json(rng: Draw, truth: Truth, folder: Path) -> File:
    rows = json_rows(rng, truth)
    path = folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=bool(rng.integers(2))) for row in rows), encoding="utf-8")
    asked = {role: role for role in truth.columns if role in ("weight", "time")}
    ids, said = said_ids(rng, truth), f"JSON {rows[:3]}"
    if rng.integers(2):
        return File(f"stream of {said}", _by_stream(path, {}, {}, ids), True)
    return File(said, _by_events(path, asked, {"ids": ids}, truth), False)


def json_rows(rng: Draw, truth: Truth) -> list[dict[str, Any]]:
    """Return rows as objects of JSON; a null may be left out, and there may be more names."""
    rows = []
    for row in range(truth.size):
        values = {name: truth.columns[name][row] for name in truth.columns}
        held = {name: _as_json(value) for name, value in values.items() if value is not None or rng.integers(2)}
        if rng.integers(2):
            held["note"] = pick(rng, [1, "x", None, [1, {"a": 2}], {"source": "no"}])
        rows.append({name: held[name] for name in [[*held][place] for place in rng.permutation(len(held))]})
    return rows


def _as_json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def _draw_table(rng: Draw, truth: Truth, folder: Path) -> File:
    if truth.fault.endswith(("text", "fraction")):  # pyarrow cannot hold these
        return _draw_json(rng, truth, folder)
    said, table = draw_arrow(rng, truth)
    if rng.integers(2):
        path = folder / "rows.parquet"
        try:
            pyarrow.parquet.write_table(table, path, row_group_size=int(rng.integers(1, truth.size + 1)))
        except pa.ArrowNotImplementedError:  # run ends, some dictionaries
            return _draw_json(rng, truth, folder)
    else:
        path = folder / "rows.arrow"
        try:
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
        except pa.ArrowInvalid:  # a file has one dictionary a column
            return _draw_json(rng, truth, folder)
    asked = {role: role for role in truth.columns if role in ("weight", "time")}
    return File(f"{path.name} {said}", _by_events(path, asked, {}, truth), False)
