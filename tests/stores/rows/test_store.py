"""Stores of rows: which of them a packed table has to read again, however long ago one was read."""

from __future__ import annotations

from dynstore.stores import get_store
from dynstore.testing.pair import Pair


def test_rows_that_were_touched_before_there_were_more_rows_are_read_again(backend) -> None:
    """Nobody has asked for the table between the updates."""
    for store in ("adjlists", "graphvine", "slab_hash"):
        if backend.family in get_store(store).families:
            pair = Pair(device=backend.name, store=store)
            pair.insert([0, 1, 2], [1, 2, 0])
            for number in (2, 3):
                for method, batch in (
                    ("insert_edges", ([0], [number])),
                    ("delete_edges", ([1], [2])),
                    ("insert_vertices", [100 * number]),
                ):
                    for one in (pair.graph, pair.model):
                        getattr(one, method)(batch)
                pair.check()
