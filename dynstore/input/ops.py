"""Columns of operations: which rows insert an edge, which delete it, and which give it a new weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynstore.errors import InputError, shown
from dynstore.input.converting import values_of

__all__ = ["OP_DELETE", "OP_INSERT", "OP_REWEIGHT", "OP_SYMBOLS", "read_ops"]

OP_INSERT = 0
OP_DELETE = 1
OP_REWEIGHT = 2
OP_SYMBOLS = ("+", "-", "w")  # a symbol's code is its index here
# Text, or number, -> code. 1 and -1 are those of streams of signed changes.
CODES: dict[Any, int] = {"+": OP_INSERT, "insert": OP_INSERT, "-": OP_DELETE, "delete": OP_DELETE}
NUMBERS = {1: OP_INSERT, -1: OP_DELETE}
WANTED = "wanted '+' or 'insert', '-' or 'delete', or the numbers 1 and -1"


def read_ops(caller: str, name: str, column: Any, reweights: bool = False) -> np.ndarray:
    """Return the code of each row of a column of operations.

    Parameters
    ----------
    caller, name : str
        For messages.
    column : column
        Strings, categories or integers. A row without a value inserts: in lines of JSON it may be missing in some.
    reweights : bool
        Whether "w" is one, too: a new weight.

    Returns
    -------
    numpy.ndarray, shape (B,), uint8

    Raises
    ------
    InputError
        For any other value, naming the first row.
    """
    values = values_of(column)
    if values.dtype.kind in "iu":
        known = {np.int64(number): code for number, code in NUMBERS.items()}
        codes = np.full(len(values), -1, np.int16)
        for number, code in known.items():
            codes[values == number] = code
    else:
        import pandas

        numbers, texts = pandas.factorize(values.astype(object), use_na_sentinel=True)
        table = {**CODES, **({"w": OP_REWEIGHT} if reweights else {}), **NUMBERS}
        found = [
            table.get(text, -1) if isinstance(text, str | int) and not isinstance(text, bool) else -1 for text in texts
        ]
        codes = np.append(np.array(found, np.int16), OP_INSERT)[numbers]  # of -1, for a null, the last
    bad = codes < 0
    if bad.any():
        row = int(bad.argmax())
        wanted = WANTED + (", or 'w'" if reweights else "")
        value = values[row].item() if isinstance(values[row], np.generic) else values[row]
        raise InputError(f"{caller}: `{name}` is {shown(value)} at row {row}; {wanted}")
    return codes.astype(np.uint8)
