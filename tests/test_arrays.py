"""Batches come in: what is brought to the GPU before anything is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from dynstore.arrays import bring_columns


def test_integer_columns_of_the_host_are_brought_once() -> None:
    """Of tuples; what is no column of ids stays, for who reads it to take or refuse."""
    gpu: Any = SimpleNamespace(on_gpu=True, asarray=lambda column: ("brought", column.tolist()))
    host: Any = SimpleNamespace(on_gpu=False)
    ids, weights = np.array([3, 4], np.uint8), np.array([1, 2])
    assert bring_columns(gpu, (ids, ids, weights)) == (("brought", [3, 4]), ("brought", [3, 4]), weights)
    frame = pd.DataFrame({"source": [1], "destination": [2]})
    others = ids[:0], ids.reshape(1, 2), weights / 2, weights > 1, np.array(["a"], object), [3, 4], frame["source"]
    for column in others:
        brought = bring_columns(gpu, (column, ids))
        assert brought[0] is column
        assert brought[1] == ("brought", [3, 4])
    assert bring_columns(gpu, frame) is frame
    assert bring_columns(gpu, ()) == ()
    edges = (ids, ids)
    assert bring_columns(host, edges) is edges
