"""Batches come in: what is brought to the GPU before anything is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore.backend import Backend
from dynstore.errors import InputError, InputTypeError
from dynstore.input.columns import read_edges
from dynstore.input.forms import bring_columns


def test_integer_columns_of_the_host_are_brought_once() -> None:
    """Of tuples; what is no column of ids stays, for who reads it to take or refuse."""
    gpu: Any = SimpleNamespace(on_gpu=True, asarray=lambda column: ("brought", column.tolist()))
    host: Any = SimpleNamespace(on_gpu=False)
    ids, weights = np.array([3, 4], np.uint8), np.array([1, 2])
    assert bring_columns("test", gpu, (ids, ids, weights)) == (("brought", [3, 4]), ("brought", [3, 4]), weights)
    frame = pd.DataFrame({"source": [1], "destination": [2]})
    others = ids[:0], ids.reshape(1, 2), weights / 2, weights > 1, np.array(["a"], object), [3, 4], frame["source"]
    for column in others:
        brought = bring_columns("test", gpu, (column, ids))
        assert brought[0] is column
        assert brought[1] == ("brought", [3, 4])
    assert bring_columns("test", gpu, frame) is frame
    assert bring_columns("test", gpu, ()) == ()
    edges = (ids, ids)
    assert bring_columns("test", host, edges) is edges


@pytest.fixture
def device() -> Backend:
    """A device whose kernels look at ids."""
    return Backend("cuda-sim", np, "cuda")


def read(device: Backend, *edges: Any) -> Any:
    names = "source", "destination", None
    return read_edges("test", device, edges, names, np.dtype(np.int32), None, validate=False)


def test_columns_that_kernels_take_are_taken_as_they_are(device: Backend) -> None:
    src, dst = np.array([3, 4], np.int32), np.array([5, -6], np.int32)
    columns = read(device, src, dst)
    assert columns.src is src
    assert columns.dst is dst
    assert columns.weights is None
    assert columns.max_id is None
    assert read(device, src, dst, np.ones(2)).src.tolist() == [3, 4]  # weights that are not wanted


def test_columns_with_gaps_are_copied(device: Backend) -> None:
    table = np.arange(8, dtype=np.int32).reshape(4, 2)
    for edges in ((table[:, 0], table[:, 1]), (table[:, 0], table[0].repeat(2))):
        columns = read(device, *edges)
        for got, given in zip((columns.src, columns.dst), edges, strict=True):
            assert got.flags.c_contiguous
            assert got.tolist() == given.tolist()


@pytest.mark.parametrize("empty", [np.empty(0, np.int32), []])
def test_no_edges_have_no_highest_id(device: Backend, empty: Any) -> None:
    columns = read(device, empty, empty)
    assert columns.src.shape == columns.dst.shape == (0,)
    assert columns.src.dtype == np.int32


@pytest.mark.parametrize(
    ("edges", "error", "message"),
    [
        ((np.zeros(3, np.int32), np.zeros(4, np.int32)), InputError, "`dst` has 4 items, `src` has 3"),
        ((np.zeros((2, 2), np.int32),) * 2, InputError, "`src` has 2 dimensions"),
        ((np.zeros(2, np.int32), np.zeros(2, np.float32)), InputTypeError, "`dst` is float32"),
        ((np.zeros(2, np.int32),), InputError, "1 items"),
    ],
)
def test_columns_that_are_none_are_refused(device: Backend, edges: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        read(device, *edges)
