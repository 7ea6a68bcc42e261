"""Records with right checksums and wrong content are refused with one error before anything of them is applied."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.durable.listing import list_log
from dynstore.errors import SavedGraphError
from tests.durable.crafting import Raw, craft, read_raw, write_raw
from tests.durable.scenes import FAST, opened

WEIGHTED: dict[str, Any] = {"weighted": True, "edge_columns": {"kind": "int8"}}


def write_updates(folder: Path) -> Path:
    """Write a log of one record a kind of update."""
    with opened(folder, FAST, **WEIGHTED) as db:
        G = db.graph
        G.insert_edges(([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0], [1, 2, 3]))
        with db.positioned(b"here"):
            G.delete_edges(([0], [1]))
        G.update(insert=([3], [4], [0.5], [4]), delete=([1], [2]))
        G.insert_vertices([7])
        G.delete_vertices([6])
    return folder


def write_slides(folder: Path, **options: Any) -> Path:
    with opened(folder, FAST, **options) as db:
        window = dynstore.Window(db.graph, 3)
        weights = [[1.0, 2.0, 3.0]] if db.graph.is_weighted() else []
        window.slide(([10, 11, 12], [11, 12, 13], *weights))
        window.slide(([10, 13, 12], [13, 11, 11], *weights))
    return folder


def refused(folder: Path, message: str, lists: bool = True) -> None:
    """Expect that a folder is refused, and stays as it was; the list of its records names the same fault."""
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(SavedGraphError, match=f"open: '.*' is damaged: the record of version .*{message}"):
        dynstore.open(folder, device="cpu")
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    if lists:
        with pytest.raises(SavedGraphError, match=f"log: '.*' is damaged: the record of version .*{message}"):
            list(list_log("log", folder).entries())


def meta(change: Callable[[Any], Any]) -> Callable[[Raw], None]:
    def apply(raw: Raw) -> None:
        found = change(raw.meta)
        raw.meta = raw.meta if found is None else found

    return apply


def test_what_is_written_back_is_read(tmp_path: Path) -> None:
    folder = write_updates(tmp_path / "db")
    records = read_raw(folder)
    assert [raw.head.kind for raw in records] == [
        "insert_edges",
        "delete_edges",
        "update",
        "insert_vertices",
        "delete_vertices",
    ]
    write_raw(folder, records)
    with opened(folder, FAST) as db:
        assert (db.graph.version, db.position, db.recovery.bytes_cut) == (5, b"here", 0)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (meta(lambda _: b"\xff\xfe"), "its description is no JSON"),
        (meta(lambda _: b"[" * 100_000), "its description is no JSON"),
        (meta(lambda _: b"[{}]"), "its description is a list of 1"),
        (meta(lambda _: [[], []]), "its arguments are a list"),
        (meta(lambda found: [found[0], {}]), "its columns are a dict"),
        (meta(lambda found: [found[0], [["edges.source", "<i8"]]]), "it has the column"),
        (meta(lambda found: [found[0], [["edges.source", "|O8", 3], *found[1][1:]]]), "it has the column"),
        (meta(lambda found: [found[0], [["edges.source", "((", 3], *found[1][1:]]]), "it has the column"),
        (meta(lambda found: [found[0], [["edges.source", "<i8", -1], *found[1][1:]]]), "it has the column"),
        (meta(lambda found: [found[0], [["edges.source", "<i8", 10**15], *found[1][1:]]]), "ends behind the record"),
        (meta(lambda found: [found[0], [["edges.source", "<i8", True], *found[1][1:]]]), "it has the column"),
        (meta(lambda found: [found[0], [*found[1], ["edges.more", "<i8", 100]]]), "ends behind the record"),
        (meta(lambda found: [found[0], [*found[1], found[1][0]]]), "behind|twice"),
        (meta(lambda found: [found[0], found[1][:-1]]), "bytes behind its columns"),
        (lambda raw: raw.changed.update(meta=10**6), "its description and its position are longer"),
        (lambda raw: raw.changed.update(position=10**6), "its description and its position are longer"),
    ],
)  # fmt: skip
def test_records_that_are_none(change: Callable[[Raw], None], message: str, last: bool, tmp_path: Path) -> None:
    """The last one, too: its checksum says that no crash has torn it."""
    folder = write_updates(tmp_path / "db")
    if last:
        write_raw(folder, read_raw(folder)[:1])
    craft(folder, 0, change)
    refused(folder, message)


def columns(**given: Any) -> Callable[[Raw], Raw]:
    ends = {"edges.source": np.array([0, 1, 2]), "edges.destination": np.array([1, 2, 3])}
    values = {"edges.weight": np.ones(3, "f4"), "edges.edge.kind": np.ones(3, "i1")}
    return lambda raw: raw.with_columns(
        {name: each for name, each in {**ends, **values, **given}.items() if each is not None}
    )


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (columns(**{"edges.weight": np.ones(3)}), "`edges.weight` is float64; wanted float32"),
        (columns(**{"edges.edge.kind": np.ones(3, "i8")}), "`edges.edge.kind` is int64; wanted int8"),
        (columns(**{"edges.edge.kind": None}), "it has the columns .*; wanted edges.source, edges.destination"),
        (columns(**{"edges.edge.other": np.ones(3)}), "it has the columns "),
        (columns(**{"edges.source": np.ones(3, "f8")}), "`edges.source` is float64; wanted integers or strings"),
        (columns(**{"edges.source": None}), "it has the columns "),
        (columns(frames=np.ones(3)), "it has the columns "),
        (columns(**{"insert.source": np.ones(3)}), "it has the columns "),
        (columns(**{"edges.source": np.ones(2, "i8")}), "it has 2 rows; its head says 3"),
        (lambda raw: raw.with_columns({}), "it has the columns none"),
        (lambda raw: raw.with_columns({}, surprise=1), "it has the argument 'surprise'"),
        (meta(lambda found: [{**found[0], "surprise": 1}, found[1]]), "it has the argument 'surprise'"),
        (meta(lambda found: [{**found[0], "edges": "x"}, found[1]]), "it has the argument 'edges'"),
        (meta(lambda found: [{}, found[1]]), "it has no argument '\\w+', which a insert_edges has"),
        (lambda raw: setattr(raw, "head", raw.head._replace(rows=2**40)), "it has 3 rows; its head says 1099511627776"),
        (lambda raw: setattr(raw, "head", raw.head._replace(kind="slide")), "a slide has row numbers"),
        (lambda raw: setattr(raw, "head", raw.head._replace(kind="apply")), "a apply has row numbers"),
        (lambda raw: setattr(raw, "head", raw.head._replace(kind="clear")), "it has the argument"),
    ],
)  # fmt: skip
def test_updates_that_do_not_fit_the_graph(
    change: Callable[[Raw], Any], message: str, last: bool, tmp_path: Path
) -> None:
    folder = write_updates(tmp_path / "db")
    if last:
        write_raw(folder, read_raw(folder)[:1])
    craft(folder, 0, change)
    refused(folder, message, lists=False)


def moved(**given: Any) -> Callable[[Raw], Raw]:
    """Return a function that changes columns of a slide, and arguments."""

    def change(raw: Raw) -> Raw:
        place, read = 0, {}
        for name, dtype, count in raw.meta[1]:
            place += -place % 8
            read[name] = np.frombuffer(raw.columns, dtype, count, place)
            place += read[name].nbytes
        arguments = {name: given[name] for name in given if name == "num_vertices"}
        arrays = {name: np.asarray(array, read[name].dtype) if isinstance(array, list) else array
                  for name, array in given.items() if name != "num_vertices"}  # fmt: skip
        return raw.with_columns({**read, **arrays}, **arguments)

    return change


INT32 = np.iinfo(np.int32).max


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_vertices": -1}, "num_vertices is -1; the graph has 14"),
        ({"num_vertices": 3}, "num_vertices is 3; the graph has 14"),
        ({"num_vertices": True}, "num_vertices is True"),
        ({"num_vertices": "14"}, "num_vertices is '14'"),
        ({"num_vertices": 10**12}, "num_vertices is 1000000000000; slide: .* int32 ids go to"),
        ({"num_vertices": 2**30}, "num_vertices is 1073741824; slide: .* max_vertices is"),
        ({"arriving.source": [10, 14, 11]}, "`arriving.source` has 14 at row 1; the graph has 14 vertices"),
        ({"arriving.destination": [13, -1, 9]}, "`arriving.destination` has -1 at row 1"),
        ({"arriving.destination": [INT32, 0, 0]}, f"`arriving.destination` has {INT32} at row 0"),
        ({"leaving.source": [-5, 11, 12]}, "`leaving.source` has -5 at row 0"),
        ({"arriving.source": [10]}, "`arriving.destination` has 3 rows; wanted 1"),
        ({"leaving.source": [10]}, "`leaving.destination` has 3 rows; wanted 1"),
        ({"arriving.source": np.array([10, 13])}, "`arriving.source` is int64; wanted int32"),
        ({"leaving.source": np.array([1.0, 2, 3])}, "`leaving.source` is float64; wanted int32"),
        ({"arriving.weight": np.ones(2)}, "it has the columns "),
        ({"surprise": np.ones(2)}, "it has the columns "),
    ],
)  # fmt: skip
def test_slides_with_row_numbers_that_are_wrong(
    change: dict[str, Any], message: str, last: bool, tmp_path: Path
) -> None:
    folder = write_slides(tmp_path / "db")
    if not last:
        with opened(folder, FAST) as db:
            db.graph.insert_edges([(0, 1)])
    assert read_raw(folder)[1].head.kind == "slide"
    craft(folder, 1, moved(**change))
    refused(folder, message, lists=False)


@pytest.mark.parametrize("kind", ["weighted", "texts", "columns"])
def test_slides_of_other_graphs(kind: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"weighted": {"weighted": True}, "texts": {"renumber": True}}.get(kind, {})
    folder = write_slides(tmp_path / "db", **options)
    shutil.copytree(folder, tmp_path / "kept")
    changes = {
        "weighted": [
            (1, {"arriving.weight": [np.nan, 1.0, 2.0]}, "`arriving.weight` is NaN at row 0"),
            (1, {"arriving.weight": [1.0]}, "`arriving.weight` has 1 rows; wanted 3"),
            (1, {"arriving.weight": np.ones(3)}, "`arriving.weight` is float64; wanted float32"),
        ],
        "texts": [
            (0, {"entering.source": [10]}, "`entering.destination` has 3 rows; wanted 1"),
            (0, {"entering.source": np.array([0.0, 1, 2])}, "`entering.source` is float64; wanted integers or strings"),
            (0, {"arriving.source": [0, 1, 9]}, "`arriving.source` has 9 at row 2; the graph has 4 vertices"),
            (0, {"num_vertices": 4}, "it has the columns "),
        ],
        "columns": [(0, {"entering.source": np.array([1, 2, 3])}, "it has the columns ")],
    }[kind]
    for place, change, message in changes:
        craft(folder, place, moved(**change))
        refused(folder, message, lists=False)
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "kept", folder)
    with opened(folder, FAST) as db:
        assert db.graph.version == 2


def test_a_last_update_that_the_graph_refuses_is_still_cut_off(tmp_path: Path) -> None:
    """As a crash leaves it, between the log and the graph."""
    folder = write_updates(tmp_path / "db")
    craft(folder, 3, lambda raw: raw.with_columns({"ids": np.array([-3])}))
    write_raw(folder, read_raw(folder)[:4])
    with opened(folder, FAST) as db:
        assert db.graph.version == 3
        assert db.recovery.bytes_cut > 0
