"""A saved graph with right checksums and wrong content is refused, and the error says what is wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.errors import InputError, SavedGraphError
from tests.graph.saved.folders import read_manifest, rewrite_columns, rewrite_manifest

GRAPHS: dict[str, dict[str, Any]] = {
    "undirected": {"directed": False, "weighted": True},
    "directed": {"weighted": True, "weight_dtype": "float64", "vertex_dtype": "int64"},
    "ids": {"renumber": True, "reuse_ids": True},
    "texts": {"renumber": True},
    "columns": {"directed": False, "edge_columns": {"kind": "int8", "share": "float64"}, "timestamps": "int64"},
}


@pytest.fixture
def save(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that saves a small graph of a kind."""

    def save(kind: str) -> Path:
        options = GRAPHS[kind]
        G = dynstore.DynamicGraph(device="cpu", **options)
        src, dst = np.array([0, 0, 1, 3]), np.array([1, 2, 2, 3])
        if kind == "texts":
            src, dst = (np.array([f"v{number}ü" for number in ends], dtype=object) for ends in (src, dst))
        weights = [[1.0, 2.0, 3.0, np.inf]] if options.get("weighted") else []
        more = [[1, 2, 3, 4], [0.5, np.nan, 1.5, 2.0], [10, 20, 30, 40]] if kind == "columns" else []
        G.insert_edges((src, dst, *weights, *more))
        if kind == "ids":
            G.delete_vertices([3])
        G.save(tmp_path / kind)
        dynstore.load(tmp_path / kind, "cpu")
        return tmp_path / kind

    return save


def refused(folder: Path, message: str) -> None:
    with pytest.raises(SavedGraphError, match=rf"load: the saved graph '.*' is damaged: .*{message}"):
        dynstore.load(folder, "cpu")


@pytest.mark.parametrize("kind", GRAPHS)
def test_what_was_saved_is_read(kind: str, save: Callable[[str], Path]) -> None:
    folder = save(kind)
    rewrite_columns(folder)
    rewrite_manifest(folder)
    dynstore.load(folder, "cpu")


@pytest.mark.parametrize(
    ("kind", "columns", "message"),
    [
        ("undirected", {"weight": [1, 2, 1, 3, 2, 3, np.nan]}, "the weight of edge 6 is NaN; wanted a number"),
        ("undirected", {"weight": [1, 2, 1, 3, 2, 4, 5]}, "the edge 1 - 2 has two weights, 3.0 and 4.0"),
        ("undirected", {"destination": [1, 2, 0, 3, 0, 1, 3]}, "the edge 1 - 2 has no way back"),
        ("undirected", {"source": [0, 0, 1, 1, 2, 3, 3]}, "the edge 1 - 2 has no way back"),
        ("directed", {"weight": [1.0, 2.0, np.nan, 1.0]}, "the weight of edge 2 is NaN"),
        ("directed", {"weight": np.ones(4, "<f4")}, "the weights are float32; wanted float64"),
        ("directed", {"weight": np.ones(5)}, "column 'weight' has 5 rows; wanted 4"),
        ("directed", {"source": [-1, 0, 1, 3]}, "an edge leads to a row that is not there; there are 4"),
        ("directed", {"destination": [1, 2, 2, 4]}, "an edge leads to a row that is not there; there are 4"),
        ("directed", {"source": [0, 0, 0, 3], "destination": [1, 2, 2, 3]}, "the edges are not in order"),
        ("directed", {"source": np.arange(4, dtype="<i4")}, "the edges are int32 and int64; wanted int64"),
        ("ids", {"id": [0, 1, 1, 3]}, "the id 1 is there twice"),
        ("ids", {"id": [0, 1, -2, 3]}, "the id -2 is negative"),
        ("ids", {"id": [0, 1, 2**63 - 1, 3]}, "the id 9223372036854775807 is too large"),
        ("ids", {"deleted": np.array([0, 0, 0, 2], "u1").view(np.bool_)}, "'deleted' has other bytes than 0 and 1"),
        ("ids", {"deleted": [True, False, False, True]}, "the deleted vertex in row 0 has edges"),
        ("texts", {"id.ends": [4, 8, 6, 16]}, "column 'id.ends' has 6 at row 2; wanted 8 or more"),
        ("texts", {"id.ends": [4, 8, 12, 13]}, "column 'id.ends' ends at 13; the strings have 16 bytes"),
        ("texts", {"id.ends": [4, 8, 12, 10**15]}, "column 'id.ends' ends at 1000000000000000"),
        ("texts", {"id.ends": [3, 8, 12, 16]}, "the string in row 0 of 'id' is no UTF-8"),
        ("texts", {"id.text": list("v0üv0üv2üv3ü".encode())}, "the id 'v0ü' is there twice"),
        ("columns", {"edge.kind": [1, 2, 1, 3, 2, 4, 4]}, "the edge 1 - 2 has two values of 'kind', 3 and 4"),
        ("columns", {"edge.time": np.arange(7, dtype="<i4")}, "the edge column 'time' is int32; wanted int64"),
    ],
)  # fmt: skip
def test_wrong_columns(kind: str, columns: dict[str, Any], message: str, save: Callable[[str], Path]) -> None:
    folder = save(kind)
    rewrite_columns(folder, **columns)
    refused(folder, message)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("directed", {"num_vertices": -1}, "num_vertices is -1"),
        ("directed", {"num_vertices": True}, "num_vertices is True"),
        ("undirected", {"num_vertices": 2**31}, "num_vertices is 2147483648; int32 rows go to 2147483647"),
        ("directed", {"version": -1}, "version is -1"),
        ("directed", {"version": 2**70}, "version is 1180591620717411303424"),
        ("directed", {"options": []}, "the options are a list"),
        ("directed", {"options": {}}, "there is no 'directed'"),
    ],
)
def test_wrong_counts(kind: str, changes: dict[str, Any], message: str, save: Callable[[str], Path]) -> None:
    folder = save(kind)
    rewrite_manifest(folder, **changes)
    refused(folder, message)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("directed", {"directed": 0}, "directed is 0; wanted True or False"),
        ("directed", {"weighted": "yes"}, "weighted is 'yes'; wanted True or False"),
        ("directed", {"store": ["gpma+"]}, "unknown store"),
        ("directed", {"device": "cpu"}, "the options have 'device'"),
        ("directed", {"capacity": -1}, "capacity is -1"),
        ("directed", {"capacity": "much"}, "capacity is 'much'"),
        ("directed", {"build_densities": 1}, "unknown parameter 'build_densities'"),
        ("directed", {"vertex_dtype": ["int64"]}, "vertex_dtype is .*; wanted 'int32' or 'int64'"),
        ("directed", {"timestamps": "int64"}, "wanted .*'edge.time'"),
        ("columns", {"timestamps": "int32"}, "the edge column 'time' is int64; wanted int32"),
        ("columns", {"edge_columns": ["kind"]}, "edge_columns|list"),
        ("columns", {"edge_columns": {"kind": "int8", "share": "complex128"}}, "wanted complex128"),
    ],
)
def test_wrong_options(kind: str, options: dict[str, Any], message: str, save: Callable[[str], Path]) -> None:
    folder = save(kind)
    rewrite_manifest(folder, options={**read_manifest(folder)["options"], **options})
    refused(folder, message)


def test_a_store_that_is_not_here_is_no_damage(save: Callable[[str], Path]) -> None:
    folder = save("directed")
    rewrite_manifest(folder, options={**read_manifest(folder)["options"], "store": "gpma++"})
    with pytest.raises(SavedGraphError, match=r"is kept in store 'gpma\+\+', which is not here: .*mean 'gpma\+'\?"):
        dynstore.load(folder)


def test_wrong_parts(save: Callable[[str], Path]) -> None:
    folder = save("directed")
    parts = read_manifest(folder)["parts"]
    for changed, message in (
        ([*parts, parts[0]], "the column 'source' is there twice"),
        ([{**parts[0], "dtype": "(2,)<i8"}, *parts[1:]], "unknown part"),
        ([{**parts[0], "dtype": "(("}, *parts[1:]], "unknown part"),
        ([{**parts[0], "shape": [2, 2]}, *parts[1:]], "unknown part"),
        ([{**parts[0], "shape": 4}, *parts[1:]], "unknown part"),
        ([{**parts[0], "file": ["x"]}, *parts[1:]], "unknown part"),
        ([{**parts[0], "file": "\x00"}, *parts[1:]], ""),
        (["source", *parts[1:]], "unknown part"),
        ([[["source"]] * 6, *parts[1:]], "unknown part"),
        (None, "the parts are a NoneType"),
    ):
        rewrite_manifest(folder, parts=changed)
        refused(folder, message)


def test_an_unknown_device_is_not_the_folders_fault(save: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match="unknown device 'gpu'") as found:
        dynstore.load(save("directed"), "gpu")
    assert not isinstance(found.value, SavedGraphError)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_what_is_no_file_is_not_read(save: Callable[[str], Path]) -> None:
    """A pipe would be waited for, a device never ends."""
    folder = save("directed")
    file = folder / read_manifest(folder)["parts"][0]["file"]
    file.unlink()
    os.mkfifo(file)
    refused(folder, "is no file")
    shutil.rmtree(folder)
    folder = save("directed")
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    with pytest.raises(SavedGraphError, match=r"load: .*manifest.json': it is no file"):
        dynstore.load(folder, "cpu")
