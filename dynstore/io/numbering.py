"""Any ids as the numbers 0, 1, 2, ... in the order of their first occurrence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynstore.io.events import EventTable

__all__ = ["MAX_ANY_ID", "number_ids", "number_texts", "renumbered"]

MAX_ANY_ID = 2**64 - 1
# Ids are far apart if the highest is above both of these: a graph has memory for each number up to its highest id.
FAR_ID, FAR_FROM_ROWS = 2**20, 16


def number_ids(src: Any, dst: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number the ids of two columns in the order of their first occurrence: row by row, sources before destinations.

    Parameters
    ----------
    src, dst : pandas.Series or numpy.ndarray, shape (N,)
        Both of one dtype.

    Returns
    -------
    src, dst : numpy.ndarray, shape (N,), int64
    ids : numpy.ndarray, shape (V,)
        The id that each number stands for.
    """
    import pandas

    by_column, ids = pandas.factorize(pandas.concat((pandas.Series(src), pandas.Series(dst)), ignore_index=True))
    by_row, order = pandas.factorize(by_column.reshape(2, -1).ravel(order="F"))
    numbers = by_row.astype(np.int64, copy=False).reshape(-1, 2)
    return numbers[:, 0].copy(), numbers[:, 1].copy(), np.asarray(ids)[order]


def number_texts(src: Sequence[Any], dst: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number the ids of two columns as :func:`number_ids` does.

    Parameters
    ----------
    src, dst : sequence of pyarrow.ChunkedArray
        The parts of both columns, dictionaries of strings.

    Returns
    -------
    src, dst : numpy.ndarray, shape (N,), int64
    ids : numpy.ndarray of str, shape (V,)
    """
    import pyarrow

    whole = pyarrow.chunked_array([chunk for part in (*src, *dst) for chunk in part.chunks]).unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in whole.chunks]).reshape(2, -1)
    by_src, by_dst, order = number_ids(codes[0], codes[1])
    return by_src, by_dst, whole.chunk(0).dictionary.take(pyarrow.array(order)).to_numpy(zero_copy_only=False)


def renumbered(table: EventTable, max_id: int) -> EventTable:
    """Number the ids of a table that are above ``max_id`` or far apart; others stay as they are.

    They are far apart if the highest is above 2^20 and above 16 times the number of rows.
    """
    if table.ids is not None or not len(table):
        return table
    highest = int(max(table.src.max(), table.dst.max()))
    if highest <= max_id and highest <= max(FAR_ID, FAR_FROM_ROWS * len(table)):
        return table
    dtype = np.uint64 if highest > np.iinfo(np.int64).max else np.int64
    src, dst, ids = number_ids(table.src.astype(dtype), table.dst.astype(dtype))
    return replace(table, src=src, dst=dst, ids=ids)
