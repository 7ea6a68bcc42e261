"""The store that ``docs/internals/new-store.md`` shows in full keeps the contract and the rules of the house."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dynstore.stores
from dynstore.stores import STORES, get_store
from dynstore.testing.contract import CoreContract, StoreContract
from dynstore.testing.faults import for_every_kernel
from dynstore.testing.pair import Pair
from tests.project.test_layers import MAX_LINES, problems

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "internals" / "new-store.md").read_text(encoding="utf-8")
ON_GPU = "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "")
NAME = "sorted_array"
PACKAGE = f"dynstore.stores.{NAME}"
BLOCK = re.compile(rf"^```py\n# dynstore/stores/{NAME}/(\w+)\.py\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
FILES = dict(BLOCK.findall(PAGE))


@pytest.fixture(scope="module", autouse=True)
def registered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The files of the page as a package among the stores, and the page's line in the list of stores."""
    place = tmp_path_factory.mktemp("stores")
    (place / NAME).mkdir()
    (place / NAME / "__init__.py").touch()
    for name, source in FILES.items():
        (place / NAME / f"{name}.py").write_text(source, encoding="utf-8")
    (where,) = re.findall(rf'^ +"{NAME}": "([\w.]+:\w+)",$', PAGE, flags=re.MULTILINE)
    dynstore.stores.__path__.append(str(place))
    importlib.invalidate_caches()
    STORES[NAME] = where
    yield
    del STORES[NAME]
    dynstore.stores.__path__.remove(str(place))
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]


class TestTheShownStoreOnCpu(StoreContract):
    store, device = NAME, "cpu"


if ON_GPU:

    class TestTheShownStoreOnCuda(StoreContract):
        store, device = NAME, "cuda"

else:

    class TestTheShownStoreSimulated(CoreContract):
        store, device = NAME, "cuda-sim"


def test_a_kernel_that_cannot_be_loaded_leaves_the_graph_as_it_was(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(device=device, store=NAME, weighted=True)
    pair.insert([0, 1, 0], [1, 2, 0], [1.0, 2.0, 3.0])
    assert for_every_kernel(monkeypatch, pair, "insert_edges", ([0, 9], [1, 9], [4.0, 5.0])) > 0
    assert for_every_kernel(monkeypatch, pair, "delete_edges", ([0, 1], [1, 2])) > 0


def test_the_page_shows_all_files() -> None:
    assert sorted(FILES) == ["cpu", "cuda", "store"]
    assert get_store(NAME).name == NAME
    assert get_store(NAME).families == ("cpu", "cuda")


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_files_keep_the_layer_rule(name: str) -> None:
    assert problems(f"stores.{NAME}.{name}", FILES[name]) == []
    assert len(FILES[name].splitlines()) <= MAX_LINES
