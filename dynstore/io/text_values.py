"""Columns of texts as ids, numbers, times and operations. One rule a role; what does not fit is named with its line."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dynstore.errors import FileFormatError
from dynstore.io.dialects import is_number
from dynstore.io.text_rows import TextRows, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["IdKind", "TextBatch", "TextColumn", "TimeKind", "decide_ids", "decide_times"]

IdKind: TypeAlias = Literal["integer", "text"]
TimeKind: TypeAlias = Literal["integer", "float", "date"]
WHOLE = re.compile(r"[+-]?[0-9]+\Z")
# As it would be written anew: another spelling of a number may be another id.
CANONICAL = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
MAX_INT64 = 2**63 - 1
SAY_TEXT = 'ids="text" (--ids text) takes it'


def decide_ids(columns: Sequence[TextColumn]) -> IdKind:
    """Return what the ids of a source are, by its first rows: integers if all are, and none would read otherwise.

    A number that is not whole makes no texts of them: it is a fault, in its row.
    """
    for column in columns:
        for text in column.values().tolist():
            if text is not None and not CANONICAL.match(text) and not _is_fraction(text):
                return "text"
    return "integer"


def _is_fraction(text: str) -> bool:
    return is_number(text) and text.count(".") == 1 and text.strip("+-").replace(".", "").isdecimal()


def decide_times(column: TextColumn) -> TimeKind:
    """Return what the times of a source are, by its first rows: what the first of them is."""
    texts = [text for text in column.values().tolist() if text]
    if texts and not is_number(texts[0]):
        return "date"
    return "float" if any(is_number(text) and not WHOLE.match(text) for text in texts) else "integer"


class TextBatch(Mapping[str, "TextColumn"]):
    """Columns of strings by name, of a source of which more may come.

    Parameters
    ----------
    numbers : mapping
        Names of columns, and their numbers.
    read : callable
        Returns the rows, given the types of columns by number (none: all are strings), and whether integers may have no
        other spelling; see :meth:`TextReader.read`.
    first : TextBatch, optional

    Attributes
    ----------
    first : TextBatch
        The first rows of the source, which decide the types of all.
    """

    def __init__(
        self,
        numbers: Mapping[str, int],
        read: Callable[[Mapping[int, str], bool], TextRows],
        first: TextBatch | None = None,
    ) -> None:
        self._numbers, self._read, self.first = numbers, read, self if first is None else first

    @functools.cached_property
    def texts(self) -> TextRows:
        """The rows, as strings."""
        return self._read({}, False)

    def __getitem__(self, name: str) -> TextColumn:
        return TextColumn(self.texts, self._numbers[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def typed(self, kinds: Mapping[str, str], exact: bool) -> Mapping[str, Any]:
        """Return the columns, where it can be in bulk: arrays, dictionaries of pyarrow, and strings for all others.

        That takes half as long as strings that become numbers later.

        Parameters
        ----------
        kinds : mapping
            Names of columns, and "int64", "float64" or "dictionary".
        exact : bool
            Whether integers may have no other spelling.
        """
        import pyarrow

        numbers = self._numbers
        try:
            rows = self._read({numbers[name]: kind for name, kind in kinds.items()}, exact)
        except pyarrow.ArrowInvalid:
            return self
        found: dict[str, Any] = {name: TextColumn(rows, numbers[name], name) for name in numbers if name not in kinds}
        for name in kinds:
            column = found[name] = rows.typed(numbers[name])
            if column is None or (getattr(column, "dtype", None) == np.float64 and not np.isfinite(column).all()):
                return self
        return found


class TextColumn:
    """A column of strings with a role, in some rows of a piece.

    Attributes
    ----------
    role : str
        "source", "time" ..., for messages.
    """

    def __init__(self, rows: TextRows, number: int, role: str, chosen: np.ndarray | None = None) -> None:
        import pyarrow.compute

        self.role, self._rows, self._number, self._chosen = role, rows, number, chosen
        array = rows.table.column(str(number))
        if not pyarrow.types.is_string(array.type):
            array = array.cast(pyarrow.string())
        if rows.is_padded:
            array = pyarrow.compute.utf8_trim_whitespace(array)
        self.array: Any = array if chosen is None else array.take(pyarrow.array(chosen))

    def __len__(self) -> int:
        return len(self.array)

    def take(self, chosen: np.ndarray) -> TextColumn:
        """Return the column in some of its rows."""
        return TextColumn(self._rows, self._number, self.role, chosen if self._chosen is None else self._chosen[chosen])

    def tolist(self) -> list[str | None]:
        """Return the strings; None for an empty field."""
        found: list[str | None] = self.array.to_pylist()
        return found

    def values(self) -> np.ndarray:
        """Return the strings as objects; None for an empty field."""
        found: np.ndarray = self.array.to_numpy(zero_copy_only=False)
        return found

    def fault(self, row: int, problem: str) -> FileFormatError:
        """Return the error for a row, with its line."""
        return self._rows.fault(row if self._chosen is None else int(self._chosen[row]), problem)

    # ------------------------------------------------------------------ ids

    def texts(self) -> Any:
        """Return ids that are texts, as a column of pyarrow."""
        import pyarrow.compute

        empty = pyarrow.compute.or_kleene(
            self.array.is_null(), pyarrow.compute.equal(pyarrow.compute.binary_length(self.array), 0)
        ).to_numpy(zero_copy_only=False)
        if empty.any():
            raise self.fault(int(empty.argmax()), f"{self.role} is empty; wanted an id")
        return self.array

    def integers(self, wanted: str, lowest: int, highest: int, exact: bool) -> np.ndarray:
        """Return ids that are integers, int64 or uint64.

        Parameters
        ----------
        wanted : str
            Which ids there may be, for messages.
        lowest, highest : int
        exact : bool
            Refuse other spellings of a number, such as 007: they may be other ids.
        """
        import pyarrow
        import pyarrow.compute as compute

        array = self.array
        plain = array.null_count == 0 and (not len(array) or compute.all(compute.ascii_is_decimal(array)).as_py())
        zeros = (
            plain
            and exact
            and compute.any(
                compute.and_(compute.starts_with(array, "0"), compute.greater(compute.binary_length(array), 1))
            ).as_py()
        )
        if plain and not zeros:
            for kind in (pyarrow.int64(), pyarrow.uint64()):
                try:
                    found: np.ndarray = array.cast(kind).to_numpy(zero_copy_only=False)
                except pyarrow.ArrowInvalid:  # too large
                    continue
                if not len(found) or lowest <= int(found.min()) <= int(found.max()) <= highest:
                    return found
                break
        return np.array(
            [self._integer(row, text, wanted, lowest, highest, exact) for row, text in enumerate(self.values())]
        )

    def _integer(self, row: int, text: str | None, wanted: str, lowest: int, highest: int, exact: bool) -> int:
        text = text or ""
        if not WHOLE.match(text):
            if exact and _is_fraction(text):
                raise self.fault(row, f"{self.role} {shorten(text)} is a number, but not whole; {SAY_TEXT}")
            problem = f"{self.role} {shorten(text)} is not a whole number" if text else f"{self.role} is empty"
            raise self.fault(row, f"{problem}; {wanted}")
        if exact and not CANONICAL.match(text):
            raise self.fault(
                row, f'{self.role} {shorten(text)} would be the integer {int(text)}; {SAY_TEXT}, ids="integer" that'
            )
        value = int(text[:40])
        if not lowest <= value <= highest:
            what = "negative" if value < min(lowest, 0) else "too small" if value < lowest else "too large"
            raise self.fault(row, f"{self.role} {shorten(text)[1:-1]} is {what}; {wanted}")
        return value

    # ------------------------------------------------------------------ numbers, times, operations

    def numbers(self, highest: float = np.inf) -> np.ndarray:
        """Return int64 if all are whole numbers that it holds, else float64.

        ``highest``: the largest finite number.
        """
        return self._bulk(self._cast_numbers, lambda text: self._number_problem(text, highest), highest)

    def _cast_numbers(self) -> np.ndarray:
        import pyarrow
        import pyarrow.compute as compute

        if self.array.null_count:
            raise ValueError
        if compute.any(compute.match_substring_regex(self.array, "[xX_]")).as_py():  # pyarrow reads 0x1f
            raise ValueError
        try:
            whole: np.ndarray = self.array.cast(pyarrow.int64()).to_numpy(zero_copy_only=False)
            return whole
        except pyarrow.ArrowInvalid:
            found: np.ndarray = self.array.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
            return found

    def _number_problem(self, text: str | None, highest: float) -> str | None:
        if not text:
            return f"the row has no {self.role}"
        if not is_number(text) or "_" in text:
            return f"{self.role} {shorten(text)} is not a number"
        value = float(text)
        if value != value:
            return f"{self.role} {shorten(text)} is not a number (NaN); wanted a number"
        if (abs(value) > highest or abs(value) == np.inf) and "inf" not in text.lower():
            return f"{self.role} {shorten(text)} is too large; wanted at most {min(highest, np.finfo(float).max):.8g}"
        return None

    def times(self, kind: TimeKind) -> np.ndarray:
        """Return int64, float64 or datetime64[ns] (UTC)."""
        casts: dict[str, Callable[[], np.ndarray]] = {
            "integer": self._cast_whole, "float": self._cast_numbers, "date": self._cast_dates
        }  # fmt: skip
        found = self._bulk(casts[kind], lambda text: self._time_problem(text, kind), np.inf)
        return found.astype(np.float64) if kind == "float" else found

    def _cast_whole(self) -> np.ndarray:
        found = self._cast_numbers()
        if found.dtype != np.int64:
            raise ValueError
        return found

    def _cast_dates(self) -> np.ndarray:
        import pandas

        dates = pandas.to_datetime(self.values(), format="ISO8601", utc=True).as_unit("ns")
        if dates.hasnans:
            raise ValueError
        found: np.ndarray = dates.tz_localize(None).to_numpy()
        return found

    def _time_problem(self, text: str | None, kind: TimeKind) -> str | None:
        import pandas

        wanted = {
            "integer": "wanted whole numbers, as in the first rows",
            "float": "wanted numbers, as in the first rows",
            "date": "wanted ISO dates such as 2004-01, 2004-01-05 or 2004-01-05T12:30:00",
        }[kind]
        text = text or ""
        fits = bool(WHOLE.match(text)) and abs(int(text[:40])) <= MAX_INT64 if kind == "integer" else is_number(text)
        if kind == "date":
            try:
                fits = pandas.to_datetime([text], format="ISO8601", utc=True).as_unit("ns").notna().all()
            except (ValueError, OverflowError):
                fits = False
        return (
            None
            if fits and text.lower().strip("+-") != "nan"
            else f"{self.role} {shorten(text)} cannot be read; {wanted}"
        )

    def _bulk(
        self, cast: Callable[[], np.ndarray], problem: Callable[[str | None], str | None], highest: float
    ) -> np.ndarray:
        """Return what all texts become at once; look at each one only if that fails, or if one may be too large."""
        import pyarrow

        try:
            found = cast()
            if found.dtype.kind != "f" or (np.abs(found) < highest).all():  # not of NaN
                return found
        except (ValueError, OverflowError, pyarrow.ArrowInvalid):
            found = None
        for row, text in enumerate(self.values().tolist()):
            why = problem(text)
            if why is not None:
                raise self.fault(row, why)
        if found is None:
            raise self.fault(0, f"the {self.role} column cannot be read")
        return found
