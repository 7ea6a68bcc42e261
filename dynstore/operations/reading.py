"""A batch of operations as its user gave it: a frame or a dict of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.ids.choices import read_choices
from dynstore.input.arrow_memory import check_memory
from dynstore.input.columns import read_integers, read_numbers
from dynstore.input.converting import as_signed
from dynstore.input.forms import check_labels, column_names, is_frame, length_of, on_gpu, open_edges, take_rows
from dynstore.input.times import read_times
from dynstore.operations.results import Operation

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["OperationTable"]

NAMES = {operation.name.lower(): int(operation) for operation in Operation}
# Integers up to here are exact as float64.
LARGEST_EXACT = 2**53


class OperationTable:
    """The columns of a batch, read when they are needed, and only in the rows that need them.

    Parameters
    ----------
    caller : str
        For messages.
    backend : Backend
        Arrays are returned on its device.
    ops : frame or mapping
    op, time : str
        Names of columns; ``time`` may be None.

    Attributes
    ----------
    kinds : array, shape (B,)
        A number of :class:`~dynstore.operations.results.Operation` a row.
    timestamps : array, shape (B,), int64
        The place of each row in order of time; equal times in order of rows.

    Raises
    ------
    InputError
        For what is no batch of operations.
    """

    def __init__(self, caller: str, backend: Backend, ops: Any, op: str, time: str | None) -> None:
        self._caller, self._backend, self._ops = caller, backend, self._opened(caller, backend, ops)
        column = self._column("op", op)
        self._count = length_of(caller, op, column)
        self.kinds: Array = read_choices(caller, backend, op, column, NAMES, "dynstore.Operation")
        xp = backend.xp
        self.timestamps: Array = xp.arange(self._count, dtype=np.int64)
        if time is not None:
            times, _ = read_times(caller, backend, time, on_gpu(backend, self._sized("time", time)))
            self.timestamps[xp.argsort(times, kind="stable")] = xp.arange(self._count, dtype=np.int64)

    @staticmethod
    def _opened(caller: str, backend: Backend, ops: Any) -> Any:
        if isinstance(ops, Mapping):
            return ops
        opened = open_edges(caller, on_gpu(backend, ops)) if not isinstance(ops, list | tuple) else None
        if not is_frame(opened):
            raise InputTypeError(
                f"{caller}: ops is a {type_name(ops)}; wanted a pandas, pyarrow, polars or cuDF frame, or a dict of "
                "columns"
            )
        return opened

    @property
    def names(self) -> list[Any]:
        """The names of all columns."""
        return list(self._ops) if isinstance(self._ops, Mapping) else column_names(self._ops)

    def rows_of(self, *kinds: Operation) -> Array:
        """Return the rows with some operations, int64, ascending."""
        chosen = self.kinds == int(kinds[0])  # CuPy compares with no enum
        for kind in kinds[1:]:
            chosen |= self.kinds == int(kind)
        return self._backend.xp.nonzero(chosen)[0]

    def values(self, argument: str, name: str, rows: Array) -> Any:
        """Return some rows of a column, in the caller's own form."""
        column = self._sized(argument, name)
        if int(rows.shape[0]) == self._count:
            return column
        try:
            return take_rows((column,), rows)[0]
        except MemoryError:
            raise
        except Exception as error:  # each library has its own
            raise InputTypeError(f"{self._caller}: rows of `{name}`, a {type_name(column)}, cannot be read") from error

    def integers(self, argument: str, name: str, rows: Array) -> Any:
        """Return some rows of a column of ids or integers; other rows may be null, which makes floats in pandas."""
        values = self.values(argument, name, rows)
        if int(rows.shape[0]) == self._count or getattr(getattr(values, "dtype", None), "kind", "") != "f":
            return values
        xp, array = self._backend.xp, read_numbers(self._caller, self._backend, name, values).astype(np.float64)
        bad = ~((array == xp.floor(array)) & (abs(array) < LARGEST_EXACT))
        if bool(bad.any()):
            place = int(bad.argmax())
            raise InputError(
                f"{self._caller}: `{name}` is {float(array[place])} at row {int(rows[place])}; wanted an integer"
            )
        return array.astype(np.int64)

    def counts(self, argument: str, name: str, rows: Array) -> Array:
        """Return some rows of a column of integers of 0 and more, int64."""
        values = self.integers(argument, name, rows)
        try:
            counts = read_integers(self._caller, self._backend, name, values)
        except InputTypeError as error:
            raise InputTypeError(
                f"{self._caller}: `{name}` has other values than integers; wanted integers in the rows that need it"
            ) from error
        if bool((counts < 0).any()):
            place = int((counts < 0).argmax())
            raise InputError(
                f"{self._caller}: `{name}` is {int(counts[place])} at row {int(rows[place])}; wanted 0 or more"
            )
        counts = as_signed(self._backend, counts).astype(np.int64)
        return self._backend.xp.minimum(counts, np.iinfo(np.int32).max)

    def _column(self, argument: str, name: str) -> Any:
        if not isinstance(name, str):
            raise InputTypeError(f"{self._caller}: {argument} is {name!r}; wanted the name of a column, a string")
        is_extra = argument == "edge_columns"  # its name is that in the graph
        check_labels(self._caller, self.names, [name], "" if is_extra else f". Name it: {argument}=...")
        column = self._ops[name]
        check_memory(self._caller, name, column)
        return column

    def _sized(self, argument: str, name: str) -> Any:
        column = self._column(argument, name)
        count = length_of(self._caller, name, column)
        if count != self._count:
            raise InputError(
                f"{self._caller}: `{name}` has {count} items, the column of operations has {self._count}; "
                "they must be equal"
            )
        return column
