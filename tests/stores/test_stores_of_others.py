"""Stores that another package brings: by an entry point, or as a class."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import DynamicGraph, stores
from dynstore.errors import InputError, SavedGraphError
from dynstore.stores import get_store
from dynstore.stores.merge.store import MergeStore
from dynstore.testing.invariants import check_graph
from tests.stores.test_new_store import FILES

ROOT = Path(__file__).resolve().parents[2]
USE = """
import pickle, sys
import dynstore
G = dynstore.DynamicGraph(store="toy", weighted=True, device="cpu")
G.insert_edges(([0, 1, 0], [1, 2, 1], [1.0, 2.0, 3.0]))
assert type(G.core.out).__module__ == "toystore.store", type(G.core.out)
for H in (G.copy(), pickle.loads(pickle.dumps(G)), G.subgraph([0, 1, 2])):
    assert (H.store_name, H.number_of_edges()) == ("toy", 2)
G.save(sys.argv[1])
print(dynstore.load(sys.argv[1]).edge_table().to_dict("list"))
try:
    dynstore.DynamicGraph(store="toys")
except dynstore.errors.InputError as error:
    assert "Did you mean 'toy'?" in str(error), error
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages: the store of docs/internals/new-store.md as a package of its own."""
    site = tmp_path / "site"
    (site / "toystore").mkdir(parents=True)
    (site / "toystore" / "__init__.py").touch()
    for name, source in FILES.items():
        source = source.replace('"sorted_array"', '"toy"').replace("dynstore.stores.sorted_array", "toystore")
        (site / "toystore" / f"{name}.py").write_text(source, encoding="utf-8")
    info = site / "toystore-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toystore\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dynstore.stores]\ntoy = toystore.store:SortedArrayStore\n")
    return site


def test_an_installed_package_brings_a_store(site: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(site), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", USE, str(tmp_path / "graph")]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'source': [0, 1], 'destination': [1, 2], 'weight': [3.0, 2.0]}"
    with pytest.raises(SavedGraphError, match=r"graph '.*' is kept in store 'toy', which is not here.*'merge'"):
        dynstore.load(tmp_path / "graph")  # the package is not installed in this process


class MineStore(MergeStore):
    name = "mine"


@pytest.fixture(autouse=True)
def passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other test of this process knows the classes that are passed here."""
    monkeypatch.setattr(stores, "_passed", {})


def test_a_class_is_a_store(backend_name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    G = DynamicGraph(store=MineStore, directed=False, renumber=True, device=backend_name)
    G.insert_edges(tuple(rng.integers(0, 10**9, (2, 50))))
    G.save(tmp_path / "graph")
    for H in (G, copy.copy(G), pickle.loads(pickle.dumps(G)), dynstore.load(tmp_path / "graph", device=backend_name)):
        assert type(H.core.out) is MineStore
        assert (H.store_name, repr(H.store_name) in repr(H)) == ("mine", True)
        assert H.to_pandas().equals(G.to_pandas())
        check_graph(H)
    assert DynamicGraph(store="mine", device=backend_name).store_name == "mine"  # it has a name from now on
    assert DynamicGraph(store=MergeStore, device=backend_name).store_name == "merge"


def test_what_is_no_store_of_ones_own() -> None:
    class Merge(MergeStore):
        name = "merge"

    class Nameless(MergeStore):
        name = ""

    def refused(store: Any, text: str) -> None:
        with pytest.raises(InputError, match=text):
            DynamicGraph(store=store, device="cpu")

    refused(dict, r"DynamicGraph: store is .*dict.*; wanted a name, or a subclass of dynstore.stores.base.Store")
    refused(Merge, r"store is .*Merge'>, whose name 'merge' is that of .*:MergeStore; wanted a name of its own")
    refused(Nameless, r"store is .*Nameless'>, whose name is ''; wanted a name of its own")
    refused(3, r"DynamicGraph: unknown store 3; known: ")
    assert get_store("merge") is MergeStore
