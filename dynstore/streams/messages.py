"""What messages hold: many rows each, as Arrow's stream format, or as lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from dynstore.adapters.libraries import require
from dynstore.arguments import check_name
from dynstore.errors import FileFormatError, InputError
from dynstore.input.forms import column_names, is_frame, open_edges
from dynstore.io.json_lines import read_json_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["decode", "decode_all", "encode"]

ARROW_START = b"\xff\xff\xff\xff"
FORMATS = ("arrow", "json")
NAMES = ("source", "destination", "weight")


def encode(edges: Any, format: Literal["arrow", "json"] = "arrow") -> bytes:  # noqa: A002
    """Return rows as the bytes of one message.

    Parameters
    ----------
    edges : frame, dict, tuple or list
        A frame or a dict of columns, with any names; or edges in another form that
        :meth:`dynstore.DynamicGraph.insert_edges` takes, whose columns get the names "source", "destination" and
        "weight".
    format : {"arrow", "json"}
        Arrow's stream format, or a JSON object a line.

    Returns
    -------
    bytes
        What :func:`decode` reads.

    Raises
    ------
    InputError
        For another format, and for what is neither a frame, a dict of columns nor edges.
    MissingDependencyError
        Without pyarrow.

    Examples
    --------
    >>> from dynstore.streams import decode, encode
    >>> encode([(0, 1)], "json")
    b'{"source": 0, "destination": 1}\\n'
    >>> decode(encode([(0, 1), (1, 2)]))["destination"].to_pylist()
    [1, 2]
    """
    check_name("encode", "format", format, FORMATS)
    pyarrow = require("encode", "pyarrow")
    table = _as_table(pyarrow, edges)
    if format == "json":
        import json

        return b"".join(json.dumps(row, default=str).encode() + b"\n" for row in table.to_pylist())
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _as_table(pyarrow: Any, edges: Any) -> Any:
    if isinstance(edges, Mapping):
        return pyarrow.table({name: pyarrow.array(column) for name, column in edges.items()})
    edges = open_edges("encode", edges)
    if isinstance(edges, tuple):
        if len(edges) not in (2, 3):
            raise InputError(f"encode: got a tuple of {len(edges)} columns; wanted (src, dst[, weights])")
        return pyarrow.table(dict(zip(NAMES, map(pyarrow.array, edges), strict=False)))
    if hasattr(edges, "column_names"):
        return edges
    if hasattr(edges, "to_arrow"):  # polars, cuDF
        return edges.to_arrow()
    if is_frame(edges):
        return pyarrow.table({name: pyarrow.array(edges[name]) for name in column_names(edges)})
    raise InputError(f"encode: got a {type(edges).__name__}; wanted a frame, a dict of columns or edges")


def decode(message: bytes) -> Any:
    """Return the rows of a message.

    Parameters
    ----------
    message : bytes
        What :func:`encode` makes, in any language: a stream of Arrow, or lines of JSON objects.

    Returns
    -------
    pyarrow.Table or dict
        A dict of columns for JSON.

    Raises
    ------
    FileFormatError
        If it is neither.
    MissingDependencyError
        Without pyarrow, for a message in Arrow's format.
    """
    if not message.startswith(ARROW_START):
        return read_json_lines("decode", message)
    pyarrow = require("decode", "pyarrow")
    try:
        return pyarrow.ipc.open_stream(message).read_all()
    except pyarrow.ArrowInvalid as error:
        raise FileFormatError(f"decode: a message of {len(message)} bytes is no Arrow stream: {error}") from error


def decode_all(messages: Sequence[bytes]) -> Any:
    """Return the rows of several messages; a column that a message lacks has nulls there."""
    if not any(message.startswith(ARROW_START) for message in messages):
        return decode(b"\n".join(messages))
    tables = [decode(message) for message in messages]
    if len(tables) == 1:
        return tables[0]
    pyarrow = require("decode", "pyarrow")
    return pyarrow.concat_tables([_as_table(pyarrow, table) for table in tables], promote_options="permissive")
