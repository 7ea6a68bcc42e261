"""Rows cut for warps, on a GPU or in our simulator."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.backend import cuda_problem, get_backend
from dynstore.snapshot import GapCSR

BACKEND = get_backend("cuda" if cuda_problem() is None else "cuda-sim")
ROWS, CUT_ROWS = (BACKEND.kernels("dynstore.algorithms.rows", name) for name in ("rows", "cut_rows"))
PIECE_SLOTS, SHORT_SLOTS = ROWS.PIECE_SLOTS, ROWS.SHORT_SLOTS


# Around what is short, and what a piece holds where a row begins in the middle of 32 slots.
EDGES_OF_LENGTHS = [0, 1, SHORT_SLOTS, SHORT_SLOTS + 1, *(PIECE_SLOTS + step for step in (-32, -31, 0, 1))]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("lengths", [EDGES_OF_LENGTHS, [SHORT_SLOTS + 1], [3 * PIECE_SLOTS + 5, 1], [1]], ids=str)
@pytest.mark.parametrize("num_rows", [1, 31, 32, 33, 500])
def test_pieces_are_listed_in_the_order_of_the_rows(num_rows: int, lengths: list[int], dtype: type) -> None:
    rng = np.random.default_rng(num_rows)
    lengths = rng.choice(lengths, num_rows)
    lengths[[0, -1]] = 40 * PIECE_SLOTS, 35 * PIECE_SLOTS  # more pieces than lanes
    offsets = np.append(0, np.cumsum(lengths)).astype(dtype)
    num_slots = int(offsets[-1])
    indices, valid = np.zeros(num_slots, dtype), np.zeros(-(-num_slots // 32), np.uint32)
    csr = GapCSR(BACKEND, *(BACKEND.asarray(array) for array in (offsets, indices, indices, valid)), None, 0)

    expected, expected_split = [], []
    for row, (begin, end) in enumerate(zip(offsets.tolist(), offsets[1:].tolist(), strict=False)):
        if end - begin > SHORT_SLOTS:
            bases = range(begin & -32, end, PIECE_SLOTS)
            expected_split += [row] * (len(bases) > 1)
            expected += [
                (row, base, max(begin - base, 0) + 32 * (min(end - base, PIECE_SLOTS) - 1), len(bases) > 1)
                for base in bases
            ]

    cut = CUT_ROWS.CutRows(csr)
    rows, begins, totals = (BACKEND.to_host(array) for array in cut.pieces)
    pieces, split = int(totals[0]) >> 32, int(totals[0]) & ROWS.LOW_BITS
    assert pieces == len(expected)
    spans = BACKEND.to_host(cut.spans)[:pieces].tolist()
    got = zip(rows[:pieces].tolist(), begins[:pieces].tolist(), spans, strict=True)
    assert list(got) == [(row, base, span + ROWS.SPLIT_SPAN * several) for row, base, span, several in expected]
    assert BACKEND.to_host(cut.split)[:split].tolist() == expected_split
    assert split <= cut.max_split
