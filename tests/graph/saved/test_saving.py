"""Saved graphs come back equal; what is no saved graph, or is damaged, is refused with one clear error."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.errors import InputError, InputTypeError, MissingDependencyError, SavedGraphError
from dynstore.files import Files
from dynstore.graph import saving
from tests.conftest import DEVICES
from tests.graph.cases import IDS, KIND_NAMES, KINDS, assert_equal, every_store_and_device, host_columns, make_graph


@pytest.mark.parametrize(("store", "device"), every_store_and_device(DEVICES))
def test_every_store_with_options(store: str, device: str, tmp_path: Path) -> None:
    G = make_graph(store, device, directed=True, weighted=True)
    G.save(tmp_path / "graph")
    assert_equal(G, dynstore.load(tmp_path / "graph", device))


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize(("directed", "weighted"), KINDS, ids=KIND_NAMES)
def test_every_kind_of_graph_and_ids(ids: str, directed: bool, weighted: bool, tmp_path: Path) -> None:
    for step, dtypes in enumerate((("int32", "float32"), ("int64", "float64"))):
        G = make_graph("gpma+", "cpu", directed, weighted, ids, vertex_dtype=dtypes[0], weight_dtype=dtypes[1])
        path = str(tmp_path / str(step))
        G.save(path)
        assert_equal(G, dynstore.load(path, "cpu"))
        if weighted and not directed:  # bit by bit
            assert np.signbit(dynstore.load(path, "cpu").edge_columns()["weight"]).any()


@pytest.mark.parametrize("ids", IDS)
def test_from_one_device_to_another(ids: str, tmp_path: Path) -> None:
    for source, target in ((DEVICES[0], DEVICES[-1]), (DEVICES[-1], DEVICES[0])):
        G = make_graph("gpma+", source, directed=False, weighted=True, ids=ids)
        G.save(tmp_path / source)
        H = dynstore.load(tmp_path / source, target)
        assert H.device == target
        assert_equal(G, H)


def test_free_numbers_are_used_again_in_the_same_order(tmp_path: Path) -> None:
    G = make_graph("gpma+", "cpu", directed=True, weighted=False, ids="strings")
    G.save(tmp_path / "graph")
    H = dynstore.load(tmp_path / "graph", "cpu")
    for graph in (G, H):
        graph.insert_vertices(["new", "newer", "newest"])
    assert list(G) == list(H)
    assert _new_numbers(G) == _new_numbers(H)
    assert min(_new_numbers(G)) < 13 <= max(_new_numbers(G))


def _new_numbers(G: DynamicGraph) -> list[int]:
    return [int(number) for number in G.vertex_numbers(["new", "newer", "newest"])]


def test_empty_graphs_and_isolated_vertices(tmp_path: Path) -> None:
    for renumber in (False, True):
        G = DynamicGraph(weighted=True, renumber=renumber, device="cpu")
        for step in range(2):
            path = tmp_path / f"{renumber}{step}"
            G.save(path)
            H = dynstore.load(path, "cpu")
            assert (list(H), H.number_of_edges(), H.version) == (list(G), 0, G.version)
            G.insert_vertices([5, 3])


def test_the_default_device_is_the_best_one(tmp_path: Path) -> None:
    DynamicGraph(device="cpu").save(tmp_path / "graph")
    assert dynstore.load(tmp_path / "graph").device == DynamicGraph().device


def test_a_subclass_loads_its_own_kind(tmp_path: Path) -> None:
    DynamicGraph(device="cpu").save(tmp_path / "graph")
    assert type(Named.load(tmp_path / "graph")) is Named


class Named(DynamicGraph):
    pass


# ---------------------------------------------------------------------- writing


def test_what_is_written(tmp_path: Path) -> None:
    """The format, byte by byte: later versions must read it."""
    G = DynamicGraph(directed=False, weighted=True, renumber=True, reuse_ids=True, device="cpu")
    G.insert_edges((["b", "ü"], ["ü", "ü"], [1.5, 2.0]))
    G.delete_vertices(["b"])
    G.save(tmp_path / "graph")
    manifest = json.loads((tmp_path / "graph" / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["kind"], manifest["format"]) == ("dynstore-graph", 1)
    assert (manifest["num_vertices"], manifest["version"]) == (2, 2)
    assert manifest["written_by"] == f"dynstore {dynstore.__version__}"
    wanted = {
        "source": np.array([0], "<i4"),
        "destination": np.array([0], "<i4"),
        "weight": np.array([2.0], "<f4"),
        "id.text": np.frombuffer("üb".encode(), "|u1"),
        "id.ends": np.array([2, 3], "<i8"),
        "deleted": np.array([False, True], "|b1"),
    }
    assert [part["name"] for part in manifest["parts"]] == list(wanted)
    for part in manifest["parts"]:
        array = wanted[part["name"]]
        content = (tmp_path / "graph" / part["file"]).read_bytes()
        assert content == array.tobytes()
        assert (part["dtype"], part["shape"], part["bytes"]) == (array.dtype.str, [array.size], array.nbytes)
        assert part["checksum"] == f"crc32:{zlib.crc32(content):08x}"
    assert {file.name for file in (tmp_path / "graph").iterdir()} == {
        "manifest.json",
        *(part["file"] for part in manifest["parts"]),
    }


def test_a_graph_that_an_earlier_dynstore_saved_is_read() -> None:
    H = dynstore.load(Path(__file__).parent / "saved-format-1", "cpu")
    assert repr(H) == "DynamicGraph(undirected weighted, 4 vertices, 3 edges, store='lpma', device='cpu', version=3)"
    assert host_columns(H) == {
        "source": ["Zoë", "Zoë", "ann"],
        "destination": ["Zoë", "bob", "bob"],
        "weight": [4.0, 2.5, 0.5],
    }
    assert list(H) == ["Zoë", "bob", "ann", "dan"]
    assert H.core.state().options["strategy"] == "bottom-up"
    H.insert_vertices(["eve"])
    assert list(H) == ["Zoë", "bob", "ann", "eve"]


def test_an_existing_graph_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "graph"
    G = make_graph("gpma+", "cpu", directed=True, weighted=True)
    G.save(path)
    mode = path.stat().st_mode
    G.insert_edges(([30], [31], [1.0]))
    with pytest.raises(InputError, match=r"save: '.*graph' is a saved graph already; overwrite=True replaces it"):
        G.save(path)
    assert 30 not in dynstore.load(path, "cpu")
    G.save(path, overwrite=True)
    assert_equal(G, dynstore.load(path, "cpu"))
    assert path.stat().st_mode == mode
    assert len(list(path.iterdir())) == 4
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_but_a_saved_graph_is_ever_replaced(overwrite: bool, tmp_path: Path) -> None:
    G = DynamicGraph(device="cpu")
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text('{"kind": "other", "format": 1}')
    (tmp_path / "file").write_text("text")
    for name in ("empty", "other", "file"):
        with pytest.raises(InputError, match=f"save: .*{name}' exists and is not replaced"):
            G.save(tmp_path / name, overwrite=overwrite)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["empty", "file", "manifest.json", "other"]


def test_wrong_arguments(tmp_path: Path) -> None:
    G = DynamicGraph(device="cpu")
    with pytest.raises(InputTypeError, match="save: path is a NoneType; wanted a str or a path"):
        G.save(None)  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="save: overwrite is 'yes'; wanted True or False"):
        G.save(tmp_path / "graph", overwrite="yes")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="load: path is a int; wanted a str or a path"):
        dynstore.load(3)  # type: ignore[arg-type]
    for parent in ("missing", "missing/too", "file"):
        (tmp_path / "file").touch()
        with pytest.raises(FileNotFoundError, match=f"save: there is no folder '.*{parent}'; make it first"):
            G.save(tmp_path / parent / "graph")


def test_the_home_folder_is_where_it_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    G = DynamicGraph.from_edges([(0, 1)], device="cpu")
    G.save("~/graph")
    assert_equal(G, dynstore.load("~/graph", "cpu"))
    assert_equal(G, dynstore.load(Path("~/graph"), "cpu"))
    assert [file.name for file in tmp_path.iterdir()] == ["graph"]


def test_a_file_of_a_saved_graph_is_no_graph(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    DynamicGraph.from_edges([(0, 1)], device="cpu").save(folder)
    for file in folder.iterdir():
        with pytest.raises(
            SavedGraphError, match=f"load: '{file}' is a file of a saved graph; load its folder, '{folder}'"
        ):
            dynstore.load(file, "cpu")


class Crash(BaseException):
    pass


def _crashing(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the given operation on files be the last one: what follows is as if the process had been killed."""
    count = 0

    def counted(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count > after:
                raise Crash
            return function(*args, **kwargs)

        return call

    for name in ("write_new", "remove_folder", "rename", "remove", "make_folder"):
        monkeypatch.setattr(Files, name, counted(getattr(Files, name)))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_crash_at_any_time_leaves_the_old_graph_or_the_new_one(
    overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (make_graph("gpma+", "cpu", directed=True, weighted=True) for _ in range(2))
    new.insert_edges(([30], [31], [1.0]))
    for after in range(20):
        path = tmp_path / str(after) / "graph"
        path.parent.mkdir()
        if overwrite:
            old.save(path)
        with monkeypatch.context() as patched:
            _crashing(patched, after)
            try:
                new.save(path, overwrite=overwrite)
                finished = True
            except Crash:
                finished = False
        if path.exists():
            found = dynstore.load(path, "cpu")
            assert_equal(new if 30 in found else old, found)
            assert not finished or 30 in found
            new.save(path, overwrite=True)  # what the crash has left does not get in the way
            assert_equal(new, dynstore.load(path, "cpu"))
        else:
            assert not overwrite
            assert not finished
        if finished:
            assert after > 5
            return
    raise AssertionError("it never finished")


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        DynamicGraph(device="cpu").save(tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- damage


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small saved graph with all kinds of parts."""
    G = DynamicGraph(directed=False, weighted=True, renumber=True, reuse_ids=True, device="cpu")
    G.insert_edges((["b", "c"], ["c", "ü"], [1.5, 2.0]))
    G.delete_vertices(["b"])
    G.save(tmp_path / "graph")
    return tmp_path / "graph"


def test_every_byte_counts(saved: Path) -> None:
    files = list(saved.iterdir())
    assert len(files) == 7
    for file in files:
        content = file.read_bytes()
        for place in range(len(content)):
            file.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
            with pytest.raises(SavedGraphError, match="load: "):
                saving.read_state(saved)
        file.write_bytes(content)
    dynstore.load(saved)


def test_every_length_counts(saved: Path) -> None:
    for file in saved.iterdir():
        content = file.read_bytes()
        for changed in (b"", content[:1], content[:-1], content + b"\0", content + b"\n", content + content):
            file.write_bytes(changed)
            with pytest.raises(SavedGraphError, match=r"load: the saved graph .* is damaged: "):
                dynstore.load(saved)
        file.unlink()
        with pytest.raises(SavedGraphError, match=f"load: .*{file.name}"):
            dynstore.load(saved)
        file.mkdir()
        with pytest.raises(SavedGraphError, match=f"load: .*{file.name}"):
            dynstore.load(saved)
        file.rmdir()
        file.write_bytes(content)
    dynstore.load(saved)


def _rewrite(saved: Path, **changes: Any) -> None:
    """Change the manifest, with a right checksum."""
    file = saved / "manifest.json"
    manifest = {**json.loads(file.read_bytes()), **changes}
    del manifest["checksum"]
    manifest["checksum"] = saving._checksum(saving._dump(manifest))
    file.write_bytes(saving._dump(manifest))


def test_foreign_and_newer_folders_are_named(saved: Path, tmp_path: Path) -> None:
    manifest = saved / "manifest.json"
    content = json.loads(manifest.read_bytes())
    newer = {"kind": "dynstore-graph", "format": 5, "written_by": "dynstore 7.0", "blocks": []}
    for text, message in (
        (json.dumps(newer), "has format 5, written by dynstore 7.0; this dynstore reads formats 1 to 4"),
        (json.dumps({**content, "kind": "dynstore-journal"}), "kind 'dynstore-journal'; this dynstore reads"),
        ("[1]", "has no kind and format; wanted the manifest of a saved graph"),
        ('{"name": "app", "version": 1}', "has no kind and format"),
        ('{"kind": "dynstore-graph", "format": "1"}', "has no kind and format"),
        ("[" * 100_000, "is no JSON"),
        ("\udc80", "is no JSON"),
    ):
        manifest.write_text(text, encoding="utf-8", errors="surrogateescape")
        with pytest.raises(SavedGraphError, match=message):
            dynstore.load(saved)
    for path in (tmp_path, tmp_path / "missing", tmp_path / "missing" / "manifest.json"):
        with pytest.raises(SavedGraphError, match=r"load: no file '.*manifest.json'; wanted a folder that"):
            dynstore.load(path)


def test_a_manifest_that_makes_no_sense_is_refused(saved: Path) -> None:
    """Whatever the checksums say: wrong row numbers would be written to."""
    manifest = json.loads((saved / "manifest.json").read_bytes())
    parts, options = manifest["parts"], manifest["options"]
    outside = {**parts[0], "file": f"../{saved.name}/{parts[0]['file']}"}
    for changes, message in (
        ({"num_vertices": 2}, "column 'deleted' has 3 rows; wanted 2"),
        ({"num_vertices": None}, "num_vertices is None, version 2; wanted integers"),
        ({"parts": parts[1:]}, "damaged: there is no 'source'"),
        ({"parts": [*parts[:2], *parts[3:]]}, "wanted .*'weight'"),
        ({"parts": [part for part in parts if part["name"] != "id.ends"]}, "damaged: there is no 'id.ends'"),
        ({"parts": [part for part in parts if part["name"] != "id.text"]}, "there are columns"),
        ({"parts": [outside, *parts[1:]]}, "unknown part"),
        ({"parts": [{**parts[0], "name": "other"}, *parts[1:]]}, "damaged"),
        ({"parts": [{**parts[0], "dtype": "|O"}, *parts[1:]]}, "unknown part"),
        ({"parts": [{**parts[0], "dtype": "<i8", "shape": [1]}, *parts[1:]]}, "damaged"),
        ({"parts": [{**parts[0], "shape": [10**12]}, *parts[1:]]}, "damaged"),
        ({"parts": 7}, "damaged"),
        ({"options": {**options, "vertex_dtype": "int64"}}, "the edges are int32 and int32; wanted int64"),
        ({"options": {**options, "renumber": False, "reuse_ids": False}}, "there are columns"),
    ):  # fmt: skip
        _rewrite(saved, **{**manifest, **changes})
        with pytest.raises(SavedGraphError, match=message):
            dynstore.load(saved)
    _rewrite(saved, **manifest)
    dynstore.load(saved)


def test_a_row_that_is_not_there_is_refused(tmp_path: Path) -> None:
    G = DynamicGraph(device="cpu")
    G.insert_edges(([0, 1], [1, 2]))
    G.save(tmp_path / "graph")
    _rewrite(tmp_path / "graph", num_vertices=2)
    with pytest.raises(SavedGraphError, match="an edge leads to a row that is not there; there are 2"):
        dynstore.load(tmp_path / "graph")


def _swap_columns(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_bytes())
    first, second, *others = manifest["parts"]
    _rewrite(saved, parts=[{**first, "name": "destination"}, {**second, "name": "source"}, *others])


def test_edges_in_another_order_are_refused(tmp_path: Path) -> None:
    G = DynamicGraph(device="cpu")
    G.insert_edges(([0, 0, 1], [1, 2, 1]))
    G.save(tmp_path / "graph")
    _swap_columns(tmp_path / "graph")
    with pytest.raises(SavedGraphError, match="the edges are not in order"):
        dynstore.load(tmp_path / "graph")


def test_another_library_for_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    DynamicGraph(device="cpu", frames="polars").save(tmp_path / "graph")
    assert dynstore.load(tmp_path / "graph").core.frames == "polars"
    monkeypatch.setattr("dynstore.input.frames._is_installed", lambda library: library != "polars")
    with pytest.raises(MissingDependencyError, match="frames is 'polars', which is not installed"):
        dynstore.load(tmp_path / "graph")
    assert dynstore.load(tmp_path / "graph", frames="auto").core.frames == "auto"
