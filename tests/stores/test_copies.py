"""A copy of a graph and the graph itself share nothing that either writes."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.stores import STORES
from dynstore.testing.pair import Pair


@pytest.mark.parametrize("store", sorted(STORES))
def test_a_graph_and_its_copy_go_their_own_ways(store: str) -> None:
    """Both give the memory of rows back, each of other rows, and take it again."""
    rows, columns = (end.ravel() for end in np.mgrid[:3, :20])
    graph = Pair(device="cpu", store=store)
    for first in range(0, 24, 3):
        graph.insert(rows + first, columns)
    twin = graph.copy()
    for step in range(8):
        for pair, order in ((graph, range(8)), (twin, (6, 1, 4, 7, 2, 5, 0, 3))):
            pair.delete(rows + 3 * order[step], columns)
        for pair in (graph, twin):
            pair.insert(rows + 24 + 3 * step, columns + 1)
    for pair in (graph, twin):
        pair.check_queries()
