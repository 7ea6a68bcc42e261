"""What a column holds, whatever its library, and what becomes of it by its role: the one table of types.

All readers of columns pass them through :func:`dynstore.input.converting.plain` first. It leaves arrays of numbers as
they are. All else becomes a column that the reader of the role knows, or is refused with the words of :data:`READING`.
``docs/reading.md`` shows the table.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from dynstore.errors import InputTypeError, type_name

__all__ = [
    "NUMPY_KINDS",
    "READING",
    "ROLES",
    "Kind",
    "Role",
    "Rule",
    "is_of",
    "is_taken",
    "kind_of",
    "kind_of_name",
    "named_type",
    "on_device",
    "refusal",
]

Role: TypeAlias = Literal["id", "weight", "time", "column"]
ROLES: tuple[Role, ...] = ("id", "weight", "time", "column")
Kind: TypeAlias = str


class Rule(NamedTuple):
    """What becomes of a kind of columns in a role.

    Attributes
    ----------
    taken : bool
    words : str
        How it is converted; or, where it is not taken, what is wanted instead.
    """

    taken: bool
    words: str


def _yes(words: str = "taken") -> Rule:
    return Rule(True, words)


def _no(words: str) -> Rule:
    return Rule(False, words)


_ID = "vertex ids must be integers, or strings in a graph made with renumber=True"
_WEIGHT = "a weight must be a number"
_TIME = "times are integers, date-times, dates or ISO texts"
_COLUMN = "an edge column has numbers"
_VALUES = _yes("by their values; only those that occur")
_DECODED = _yes("decoded")

# By kind, then by role, in the order of ROLES.
READING: dict[Kind, tuple[Rule, Rule, Rule, Rule]] = {
    "integers": (_yes(), _yes(), _yes(), _yes()),
    "floats": (_no("vertex ids must be integers"), _yes(), _yes("by windows; not by timestamps="), _yes()),
    "decimals": (
        _yes("as integers, if all are whole"),
        _yes("as integers if all are whole, else as float64"),
        _yes("as integers if all are whole, else as float64"),
        _yes("as integers if all are whole, else as float64"),
    ),
    "booleans": (_no(_ID), _no(_WEIGHT), _no(_TIME), _yes("as 0 and 1")),
    "strings": (_yes("with renumber=True"), _no(_WEIGHT), _yes("ISO dates and date-times"), _no(_COLUMN)),
    "categories": (_VALUES, _VALUES, _VALUES, _VALUES),
    "run ends": (_DECODED, _DECODED, _DECODED, _DECODED),
    "UUIDs": (_yes("as strings, with renumber=True"), _no(_WEIGHT), _no(_TIME), _no(_COLUMN)),
    "dates": (_no(_ID), _no(_WEIGHT), _yes("as nanoseconds of midnight, UTC"), _no(_COLUMN)),
    "date-times": (_no(_ID), _no(_WEIGHT), _yes("as nanoseconds, UTC where there is a zone"), _no(_COLUMN)),
    "times of day": (_no(_ID), _no(_WEIGHT), _no(_TIME), _no(_COLUMN)),
    "lengths of time": (_no(_ID), _no(_WEIGHT), _no(_TIME), _no(_COLUMN)),
    "bytes": (_no(f"{_ID}; decode them"), _no(_WEIGHT), _no(_TIME), _no(_COLUMN)),
    "complex numbers": (_no(_ID), _no(_WEIGHT), _no(_TIME), _no(_COLUMN)),
    "nested values": (_no(_ID), _no(_WEIGHT), _no(_TIME), _no(_COLUMN)),
    "nulls": (_no("wanted none"), _no("wanted none"), _no("wanted none"), _no("wanted none")),
    "other objects": (_no(_ID), _no(_WEIGHT), _no(_TIME), _no(_COLUMN)),
}

# The first letter of a NumPy dtype's kind.
NUMPY_KINDS: dict[str, Kind] = {
    "i": "integers", "u": "integers", "f": "floats", "b": "booleans", "U": "strings", "T": "strings", "S": "bytes",
    "M": "date-times", "m": "lengths of time", "c": "complex numbers", "V": "nested values", "O": "objects",
}  # fmt: skip
# What the name of a dtype of polars or cuDF begins with; the longest that fits counts, as "struct" begins with "str".
_NAMES: tuple[tuple[str, Kind], ...] = (
    ("Int", "integers"), ("UInt", "integers"), ("int", "integers"), ("uint", "integers"),
    ("Float", "floats"), ("float", "floats"), ("Decimal", "decimals"), ("decimal", "decimals"),
    ("Bool", "booleans"), ("bool", "booleans"),
    ("String", "strings"), ("Utf8", "strings"), ("str", "strings"), ("object", "strings"),
    ("Categorical", "categories"), ("Enum", "categories"), ("category", "categories"),
    ("Datetime", "date-times"), ("datetime64", "date-times"), ("Date", "dates"),
    ("Time", "times of day"), ("Duration", "lengths of time"), ("timedelta64", "lengths of time"),
    ("Binary", "bytes"), ("List", "nested values"), ("Array", "nested values"), ("Struct", "nested values"),
    ("list", "nested values"), ("struct", "nested values"), ("interval", "nested values"), ("Null", "nulls"),
)  # fmt: skip


def is_taken(kind: Kind, role: Role) -> bool:
    """Whether a role takes a kind of columns; some of them may be refused for their values."""
    return READING[kind][ROLES.index(role)].taken


def refusal(caller: str, name: str, what: str, kind: Kind, role: Role) -> InputTypeError:
    """Return the error for a column that a role does not take; ``what``: its type, or the value and its row."""
    return InputTypeError(f"{caller}: `{name}` {what}; {READING[kind][ROLES.index(role)].words}")


def named_type(column: Any) -> str:
    """Return the type of a column for a message."""
    found = getattr(column, "type", None) or getattr(column, "dtype", None)
    return type_name(column) if found is None else str(found)


# ---------------------------------------------------------------------- what a column holds


def kind_of(column: Any) -> Kind:
    """Return the kind of a column: a key of :data:`READING`, or "objects" for Python objects of any kind."""
    if isinstance(column, list | tuple | range):
        return "objects"
    type_ = getattr(column, "type", None)
    if type_ is not None and type(type_).__module__.startswith("pyarrow"):
        return _arrow_kind(type_)
    dtype: Any = getattr(column, "dtype", None)
    if hasattr(dtype, "pyarrow_dtype"):
        return _arrow_kind(dtype.pyarrow_dtype)
    if isinstance(dtype, np.dtype):
        # Of cuDF, "object" are strings.
        return "strings" if dtype.kind == "O" and is_of(column, "cudf") else NUMPY_KINDS[dtype.kind]
    name = str(dtype)
    if hasattr(dtype, "categories") and hasattr(column, "isna"):  # pandas and cuDF
        return "categories"
    if name.startswith("datetime64"):  # with a zone
        return "date-times"
    if is_of(column, "polars") or is_of(column, "cudf"):
        if name.startswith("Object"):
            return "objects"
        return kind_of_name(name)
    if hasattr(dtype, "kind") and hasattr(column, "isna"):  # pandas: masked, sparse, strings, periods, intervals
        if name.startswith(("period", "interval")):
            return "other objects"
        return "strings" if name.startswith("str") else NUMPY_KINDS.get(dtype.kind, "other objects")
    return "objects"


def kind_of_name(name: str) -> Kind:
    """Return the kind of a dtype of polars or cuDF by its name.

    >>> kind_of_name("interval[int64, right]"), kind_of_name("int64"), kind_of_name("struct")
    ('nested values', 'integers', 'nested values')
    """
    fitting = [(len(start), kind) for start, kind in _NAMES if name.startswith(start)]
    return max(fitting)[1] if fitting else "other objects"


def is_of(column: Any, library: str) -> bool:
    """Whether a column is of a library."""
    return type(column).__module__.split(".")[0] == library


def on_device(column: Any) -> bool:
    """Whether a column lies in a GPU's memory.

    cuDF raises a TypeError where one asks for the CUDA array interface of categories, which ``hasattr`` lets through.
    """
    return is_of(column, "cudf") or hasattr(column, "__cuda_array_interface__")


def _arrow_kind(kind: Any) -> Kind:
    import pyarrow.types as types

    if getattr(kind, "extension_name", None) == "arrow.uuid":
        return "UUIDs"
    if types.is_run_end_encoded(kind):
        return "run ends"
    for test, found in (
        (types.is_integer, "integers"), (types.is_floating, "floats"), (types.is_decimal, "decimals"),
        (types.is_boolean, "booleans"), (types.is_dictionary, "categories"), (types.is_date, "dates"),
        (types.is_timestamp, "date-times"), (types.is_time, "times of day"), (types.is_duration, "lengths of time"),
        (types.is_interval, "lengths of time"), (types.is_null, "nulls"), (types.is_nested, "nested values"),
    ):  # fmt: skip
        if test(kind):
            return found
    name = str(kind)
    if name in ("string", "large_string", "string_view"):
        return "strings"
    return "bytes" if "binary" in name else "other objects"
