"""Launches pass flat arguments; a kernel that names records gets them grouped."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import types

from dynstore.cuda.compiler import SIMULATED, Kernel, Parameters, cuda
from dynstore.cuda.launch import Packed


class Ends(NamedTuple):
    """Two numbers or arrays."""

    src: Any
    dst: Any


def k_take(first: Any, ends: Any, last: Any) -> None:
    if cuda.grid(1) == 0:
        last[0], last[1], last[2] = first, ends.src[0], ends.dst[1]


def test_values_are_grouped_in_their_order() -> None:
    parameters = Parameters(k_take, {"ends": Ends})
    assert parameters.count == 4
    assert parameters.group_values([1, 2, 3, 4]) == [1, Ends(2, 3), 4]
    assert isinstance(parameters.group_values([1, 2, 3, 4])[1], Ends)


def test_types_are_grouped_as_values_are() -> None:
    flat = (types.int64, types.int32[::1], types.int32[:], types.boolean)
    grouped = Parameters(k_take, {"ends": Ends}).group_types(flat)
    assert grouped == (flat[0], types.NamedTuple(flat[1:3], Ends), flat[3])


def test_without_records_nothing_is_grouped() -> None:
    parameters = Parameters(k_take)
    assert (parameters.count, parameters.group_values((1, 2, 3))) == (3, [1, 2, 3])
    assert parameters.group_types((types.int64,) * 3) == (types.int64,) * 3
    assert parameters.group_values((1, 2)) == [1, 2]  # the function may have defaults


@pytest.mark.parametrize("count", [3, 5])
def test_another_number_of_arguments_is_refused(count: int) -> None:
    with pytest.raises(TypeError, match=f"k_take got {count} arguments; wanted 4"):
        Parameters(k_take, {"ends": Ends}).group_values(range(count))


def test_a_record_must_be_a_parameter() -> None:
    with pytest.raises(TypeError, match="k_take has no parameters \\['edges'\\]"):
        Parameters(k_take, {"edges": Ends})


@pytest.mark.skipif(not SIMULATED, reason="NumPy arrays are for the simulator")
def test_a_launch_passes_flat_arguments() -> None:
    kernel = Kernel(k_take, records={"ends": Ends})
    ends, last = Ends(np.arange(4, 6), np.arange(7, 9)), np.zeros(3, np.int64)
    for arguments in ((3, *ends, last), (3, Packed(*ends, last)), (Packed(3, ends.src), Packed(ends.dst), last)):
        last.fill(0)
        kernel.launch(1, *arguments)
        assert last.tolist() == [3, 4, 8]
