"""``store="auto"`` follows docs/choosing-a-store.md."""

from __future__ import annotations

import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError
from dynstore.stores import choose_store, get_store


def test_the_graph_says_which_store_it_took():
    assert choose_store("rebuild") is get_store("rebuild")
    graph = DynamicGraph(store="auto", device="cpu", capacity=1000)
    graph.insert_edges(([0, 1], [1, 2]))
    assert "store='gpma+'" in repr(graph)
    assert graph.copy().store_name == "gpma+"


def test_an_unknown_store_is_refused_with_all_names():
    with pytest.raises(InputError, match=r"unknown store 'aut'; known: .*'auto'.*'slab_hash'. Did you mean 'auto'"):
        DynamicGraph(store="aut", device="cpu")
