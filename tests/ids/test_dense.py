"""Ids that are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError, InputTypeError


@pytest.mark.parametrize(
    "given", [4, np.int32(4), [4, 0, 4], [], np.array([9, 2], dtype=np.uint8), np.array([3, -1])], ids=repr
)
def test_vertices_that_the_host_has_are_found_there_as_on_the_device(backend_name: str, given: Any) -> None:
    ids = DynamicGraph(device=backend_name).core.ids
    forms = [given, ids.backend.asarray(np.atleast_1d(given))] if np.size(given) else [given]
    for form in forms:
        try:
            numbers, stranger = ids.find("test", form, 6)
        except InputError as error:
            with pytest.raises(type(error), match=str(error)[:20]):
                ids.find_on_host("test", form, 6)
            continue
        on_host, same = ids.find_on_host("test", form, 6)
        assert isinstance(on_host, np.ndarray)
        np.testing.assert_array_equal(on_host, ids.backend.to_host(numbers), strict=True)
        assert stranger == same == (9 if np.size(given) and np.max(given) == 9 else None)


def test_vertices_of_other_types_are_refused_on_the_host_too(backend_name: str) -> None:
    ids = DynamicGraph(device=backend_name).core.ids
    for wrong in (1.5, "a", [True], np.array([0.5])):
        with pytest.raises((InputError, InputTypeError)):
            ids.find_on_host("test", wrong, 6)
