"""Saved graphs: a folder of checksummed raw columns and a manifest.

The manifest, ``manifest.json``, has these entries. Numbers in columns are little-endian, without a header.

- ``kind``: "dynstore-graph"; ``format``: 1, or 2 with extra columns of edges, 3 with their times, 4 of a multigraph;
  ``written_by``: the version of dynstore.
- ``options``, ``num_vertices``, ``version``: see :class:`dynstore.graph.core.GraphState`.
- ``parts``: a list; each part has the ``name`` of its column, its ``file``, ``dtype``, ``shape``, ``bytes`` and
  ``checksum``. A column of strings has two parts: ``id.text``, all of them in UTF-8, and ``id.ends``, where each ends.
- ``checksum``: that of the manifest itself without this entry.

A checksum is CRC-32. It finds accidental damage, such as any changed byte; it is no protection against an attacker.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, SavedGraphError, shown, type_name
from dynstore.files import FILES, Files
from dynstore.graph.checking import check_state, decoded_strings
from dynstore.graph.core import EXTRA, GraphState
from dynstore.graph.options import DTYPES as EXTRA_DTYPES
from dynstore.ids.strings import encoded_strings

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ENDS",
    "FORMAT",
    "KIND",
    "MANIFEST",
    "MISREAD",
    "TEXT",
    "damaged",
    "encoded_columns",
    "folder_of",
    "read_regular",
    "read_state",
    "write_state",
]

KIND, FORMAT, MANIFEST = "dynstore-graph", 1, "manifest.json"
# Those of graphs with some options; of several, the highest.
FORMATS = {"edge_columns": 2, "timestamps": 3, "multigraph": 4}
TEXT, ENDS = ".text", ".ends"
TOKEN_BYTES = 4  # of the token in the names of files, which differs from one saving to the next
# The parts that a graph may have, and their dtypes.
DTYPES = {
    "source": ("<i4", "<i8"),
    "destination": ("<i4", "<i8"),
    "weight": ("<f4", "<f8", "<i8"),
    "id": ("<i8",),
    f"id{TEXT}": ("|u1",),
    f"id{ENDS}": ("<i8",),
    "deleted": ("|b1",),
}
EXTRA_CODES = tuple(np.dtype(name).newbyteorder("<").str for name in EXTRA_DTYPES)
# What Python raises for JSON of other forms than ours.
MISREAD = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)


def folder_of(caller: str, path: Any) -> Path:
    """Return the folder that a path names; "~" is the home folder."""
    if not isinstance(path, str | os.PathLike):
        raise InputTypeError(f"{caller}: path is a {type_name(path)}; wanted a str or a path")
    return Path(os.path.expanduser(path))


# ---------------------------------------------------------------------- writing


def write_state(state: GraphState, path: Path, overwrite: bool, files: Files = FILES) -> None:
    """Write a state on the host to a folder; see :meth:`dynstore.DynamicGraph.save`."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save: there is no folder {str(path.parent)!r}; make it first")
    replacing = _may_replace(path, overwrite)
    token = secrets.token_hex(TOKEN_BYTES)
    temporary = path.with_name(f".{path.name}.{token}.saving")
    files.make_folder(temporary)
    try:
        encoded = enumerate(encoded_columns(state.columns))
        parts = [_write_part(files, temporary, token, place, name, array) for place, (name, array) in encoded]
        _write_manifest(files, temporary, state, parts)
        if replacing:
            _replace(files, path, temporary, {part["file"] for part in parts})
        else:
            files.rename(temporary, path)
        files.sync_folder(path.parent)
    finally:
        files.remove_folder(temporary)


def _may_replace(path: Path, overwrite: bool) -> bool:
    """Return whether a saved graph will be replaced, False if nothing is there; refuse all else."""
    if not path.exists():
        return False
    try:
        _read_manifest(path)
    except SavedGraphError as error:
        raise InputError(f"save: {str(path)!r} exists and is not replaced, as it cannot be read: {error}") from None
    if not overwrite:
        raise InputError(f"save: {str(path)!r} is a saved graph already; overwrite=True replaces it")
    return True


def _replace(files: Files, path: Path, temporary: Path, names: set[str]) -> None:
    """Replace a saved graph: the exchange of the manifest, which is atomic, makes the new files the graph."""
    for name in names:
        files.rename(temporary / name, path / name)
    files.sync_folder(path)
    files.rename(temporary / MANIFEST, path / MANIFEST)
    files.sync_folder(path)
    for file in path.glob(f"*-{'?' * 2 * TOKEN_BYTES}.bin"):  # the old graph's, and what a crash has left
        if file.name not in names:
            files.remove(file)


def encoded_columns(columns: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the parts to write; a column of strings becomes two."""
    for name, array in columns.items():
        if array.dtype != object:
            yield name, array
            continue
        ends, text = encoded_strings(array)
        yield name + TEXT, np.frombuffer(text, np.uint8)
        yield name + ENDS, ends


def _write_part(files: Files, folder: Path, token: str, place: int, name: str, array: np.ndarray) -> dict[str, Any]:
    dtype = array.dtype.newbyteorder("<")
    array = np.ascontiguousarray(array, dtype)
    stem = f"{EXTRA}{place}" if name.startswith(EXTRA) else name  # users may have chosen any name
    file = f"{stem}-{token}.bin"
    files.write_new(folder / file, array.view(np.uint8).data)
    return {
        "name": name,
        "file": file,
        "dtype": dtype.str,
        "shape": list(array.shape),
        "bytes": array.nbytes,
        "checksum": _checksum(array),
    }


def _write_manifest(files: Files, folder: Path, state: GraphState, parts: list[dict[str, Any]]) -> None:
    from dynstore import __version__

    manifest = {
        "kind": KIND,
        "format": max([FORMAT, *(number for option, number in FORMATS.items() if state.options.get(option))]),
        "written_by": f"dynstore {__version__}",
        "options": state.options,
        "num_vertices": state.num_vertices,
        "version": state.version,
        "parts": parts,
    }
    manifest["checksum"] = _checksum(_dump(manifest))
    files.write_new(folder / MANIFEST, _dump(manifest))
    files.sync_folder(folder)


def _dump(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=2, default=lambda number: number.item()) + "\n").encode()


def _checksum(content: Any) -> str:
    return f"crc32:{zlib.crc32(content):08x}"


# ---------------------------------------------------------------------- reading


def read_state(path: Path) -> GraphState:
    """Read a state to the host; see :meth:`dynstore.DynamicGraph.load`."""
    manifest = _read_manifest(path)
    try:
        columns = _read_parts(path, manifest["parts"])
        if f"id{TEXT}" in columns:
            columns["id"] = decoded_strings("id", columns.pop(f"id{TEXT}"), columns.pop(f"id{ENDS}"))
        state = GraphState(manifest["options"], manifest["num_vertices"], manifest["version"], columns)
        check_state(state)
    except KeyError as error:
        raise damaged(path, f"there is no {error}") from error
    except MISREAD as error:
        raise damaged(path, str(error)) from error
    return state


def read_regular(file: Path) -> bytes:
    """Read a file; a pipe would be waited for, and a device never ends.

    Raises
    ------
    OSError
    """
    if file.exists() and not file.is_file():
        raise OSError(0, "it is no file")
    return file.read_bytes()


def _read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a saved graph; refuse one that is damaged, foreign or newer."""
    file = path / MANIFEST
    try:
        content = read_regular(file)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_file() and (path.parent / MANIFEST).is_file():
            folder = str(path.parent)
            raise SavedGraphError(
                f"load: {str(path)!r} is a file of a saved graph; load its folder, {folder!r}"
            ) from None
        wanted = "wanted a folder that DynamicGraph.save has written"
        raise SavedGraphError(f"load: no file {str(file)!r}; {wanted}") from None
    except OSError as error:
        raise SavedGraphError(f"load: cannot read {str(file)!r}: {error.strerror or error}") from error
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):
        raise damaged(path, f"{MANIFEST} is no JSON") from None
    if not isinstance(manifest, dict) or "kind" not in manifest or type(manifest.get("format")) is not int:
        raise SavedGraphError(f"load: {str(file)!r} has no kind and format; wanted the manifest of a saved graph")
    if manifest["kind"] != KIND:
        raise SavedGraphError(f"load: {str(path)!r} has kind {manifest['kind']!r}; this dynstore reads {KIND!r}")
    if not FORMAT <= manifest["format"] <= max(FORMATS.values()):
        raise SavedGraphError(
            f"load: {str(path)!r} has format {manifest['format']}, written by {manifest.get('written_by')}; "
            f"this dynstore reads formats {FORMAT} to {max(FORMATS.values())}"
        )
    rest = {name: value for name, value in manifest.items() if name != "checksum"}
    try:
        is_whole = manifest.get("checksum") == _checksum(_dump(rest)) and _dump(manifest) == content
    except MISREAD:  # nested too deeply to be written
        is_whole = False
    if not is_whole:
        raise damaged(path, f"{MANIFEST} does not match its checksum")
    return manifest


def _read_parts(path: Path, parts: Any) -> dict[str, np.ndarray]:
    """Read the columns that a manifest lists, by name."""
    if not isinstance(parts, list):
        raise ValueError(f"the parts are a {type_name(parts)}; wanted a list")
    columns: dict[str, np.ndarray] = {}
    for part in parts:
        if not _is_known(part):
            raise ValueError(f"unknown part {shown(part)}")
        if part["name"] in columns:
            raise ValueError(f"the column {part['name']!r} is there twice")
        columns[part["name"]] = _read_part(path, part)
    return columns


def _is_known(part: Any) -> bool:
    """Whether an entry of a manifest describes a column, in a file beside it."""
    if not isinstance(part, dict) or not isinstance(part.get("name"), str):
        return False
    codes = EXTRA_CODES if part["name"].startswith(EXTRA) else DTYPES.get(part["name"], ())
    file, dtype, shape, size = (part.get(entry) for entry in ("file", "dtype", "shape", "bytes"))
    if not isinstance(file, str) or file in ("", ".", "..") or Path(file).name != file or "\0" in file:
        return False
    if not isinstance(shape, list) or [*map(type, shape)] != [int] or type(size) is not int:
        return False
    return isinstance(dtype, str) and dtype in codes


def _read_part(path: Path, part: dict[str, Any]) -> np.ndarray:
    """Read a column, and compare it with what the manifest says of it."""
    name, file = part["file"], path / part["file"]
    try:
        if file.exists() and not file.is_file():
            raise ValueError(f"{name} is no file")
        size = file.stat().st_size
        if size != part["bytes"]:
            raise ValueError(f"{name} has {size} bytes; wanted {part['bytes']}")
        array = np.fromfile(file, part["dtype"])
    except OSError as error:
        raise ValueError(f"cannot read {name}: {error.strerror or error}") from error
    if array.nbytes != size or list(array.shape) != part["shape"] or _checksum(array) != part["checksum"]:
        raise ValueError(f"{name} does not match its checksum")
    return array


def damaged(path: Path, problem: str) -> SavedGraphError:
    """Return the error for a folder that holds no whole graph."""
    return SavedGraphError(f"load: the saved graph {str(path)!r} is damaged: {problem}")
