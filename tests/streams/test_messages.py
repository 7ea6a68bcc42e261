"""Messages and lines are read one by one: what is nothing, what is wrong, and what becomes of it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dynstore
from dynstore import DynamicGraph, Stream
from dynstore.errors import DynstoreError, FileFormatError, InputError, StreamError
from dynstore.streams import BadUnit, FileSource, decode, encode
from dynstore.streams.messages import Message, Messages
from tests.streams.scripted import Scripted, graph, pairs_of


def units(*values: Any, columns: Any = None) -> Messages:
    """Return messages that arrived together."""
    return Messages([Message(value, f"message {n} of 'pay'", n + 1) for n, value in enumerate(values)], columns)


def run(*values: Any, G: DynamicGraph | None = None, apart: bool = False, **options: Any) -> DynamicGraph:
    """Send messages through a stream, together or each alone."""
    G = graph(renumber=True) if G is None else G
    given = [units(value) for value in values] if apart else [units(*values)]
    Stream(G, Scripted(*given, ends=True), **options).run()
    return G


def frame(source: str, destination: str, **more: Any) -> bytes:
    columns = {"source": [source], "destination": [destination], **{name: [each] for name, each in more.items()}}
    return encode(pd.DataFrame(columns))


A_TO_B, B_TO_C = encode([("ann", "bob")]), encode([("bob", "cem")])
EDGES = {("ann", "bob"), ("bob", "cem")}

# ---------------------------------------------------------------------- nothing


NOTHING: dict[str, Any] = {
    "no value": None,
    "no bytes": b"",
    "blanks": b" \n\n",
    "no objects": b"[]",
    "an empty table": encode(pd.DataFrame({"source": [], "destination": []}, dtype=str)),
    "a table without columns": encode(pd.DataFrame()),
    "no fields": {},
}


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("nothing", NOTHING)
def test_a_message_without_rows_is_nothing_to_do(nothing: str, apart: bool) -> None:
    assert pairs_of(run(A_TO_B, NOTHING[nothing], B_TO_C, apart=apart)) == EDGES
    assert pairs_of(run(NOTHING[nothing], apart=apart)) == set()


# ---------------------------------------------------------------------- right alone, right together


DIFFERENT: dict[str, list[Any]] = {
    "a note that is a number, then a text": [frame("ann", "bob", note=1), frame("bob", "cem", note="x")],
    "categories, then strings": [
        encode(pd.DataFrame({"source": pd.Categorical(["ann"]), "destination": pd.Categorical(["bob"])})),
        B_TO_C,
    ],
    "strings, then views of strings": [
        A_TO_B,
        encode(
            pa.table(
                {name: pa.array([text], pa.string_view()) for name, text in [("source", "bob"), ("destination", "cem")]}
            )
        ),
    ],
    "times without and with a zone": [
        frame("ann", "bob", time=pd.Timestamp("2026-01-01")),
        frame("bob", "cem", time=pd.Timestamp("2026-01-01", tz="UTC")),
    ],
    "times in seconds and in nanoseconds": [
        encode(pa.table({"source": ["ann"], "destination": ["bob"], "time": pa.array([1], pa.timestamp("s"))})),
        encode(pa.table({"source": ["bob"], "destination": ["cem"], "time": pa.array([1], pa.timestamp("ns"))})),
    ],
    "with a time, then without": [frame("ann", "bob", time=3), B_TO_C],
    "Arrow, then JSON": [A_TO_B, b'{"source": "bob", "destination": "cem"}'],
    "JSON with more items": [
        b'{"source": "ann", "destination": "bob", "n": 1}',
        b'{"source": "bob", "destination": "cem", "n": "one"}',
    ],
    "fields, then JSON": [{"source": "ann", "destination": "bob"}, b'{"source": "bob", "destination": "cem"}'],
    "fields with others": [{"source": "ann", "destination": "bob", "n": "1"}, {"source": "bob", "destination": "cem"}],
}


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("name", DIFFERENT)
def test_messages_of_several_producers(name: str, apart: bool) -> None:
    assert pairs_of(run(*DIFFERENT[name], apart=apart)) == EDGES


@pytest.mark.parametrize("apart", [True, False])
def test_a_window_gets_the_rows_of_all(apart: bool) -> None:
    values = [encode(pa.table({"source": [n], "destination": [n + 1], "time": pa.array([n], pa.timestamp(unit))}))
              for n, unit in enumerate(("s", "ms", "us", "ns"))]  # fmt: skip
    G = graph()
    window = dynstore.Window(G, "1s", by="time")
    assert pairs_of(run(*values, G=G, window=window, apart=apart)) == {(0, 1), (1, 2), (2, 3), (3, 4)}


@pytest.mark.parametrize(
    "value",
    [
        b'{"source": "ann", "destination": "bob"}\n{"source": "bob", "destination": "cem"}\n',
        b'[{"source": "ann", "destination": "bob"}, {"source": "bob", "destination": "cem"}]',
        b'{"source": ["ann", "bob"], "destination": ["bob", "cem"]}',
        b'[{"source": "ann",\n  "destination": "bob"},\n {"source": "bob",\n  "destination": "cem"}]\n',
    ],
    ids=["lines", "array", "columns", "several lines"],
)
def test_plain_shapes_of_json(value: bytes) -> None:
    assert pairs_of(run(value)) == EDGES


def test_a_file_of_arrow_is_a_message_too() -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"source": ["ann", "bob"], "destination": ["bob", "cem"]})
    with pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1):
            writer.write_batch(batch)
    assert pairs_of(run(sink.getvalue().to_pybytes())) == EDGES


def test_only_columns_that_are_needed_are_read() -> None:
    wide = encode(pa.table({"source": ["ann"], "destination": ["bob"], "blob": [b"x" * 1000]}))
    assert decode(wide, {"source", "destination", "op"}).column_names == ["source", "destination"]
    assert set(decode(b'{"source": 1, "blob": 2}', {"source"})) == {"source"}


def test_fields_are_texts_and_ids_are_decided_for_all() -> None:
    rows = [{"source": str(n), "destination": str(n + 1), "time": f"2026-01-0{n + 1}"} for n in range(3)]
    G = graph(renumber=True, timestamps="int64")
    run(*rows, G=G)
    assert pairs_of(G) == {(0, 1), (1, 2), (2, 3)}
    assert sorted(G.to_pandas()["time"].tolist()) == [pd.Timestamp(row["time"]).value for row in rows]
    texts = graph(renumber=True)
    run(*rows, G=texts, ids="text")
    assert pairs_of(texts) == {("0", "1"), ("1", "2"), ("2", "3")}
    run({"source": "3", "destination": "ann"}, G=texts)  # the graph's ids decide now
    assert ("3", "ann") in pairs_of(texts)
    with pytest.raises(InputError, match=r"message 0 of 'pay': .*source 'ann' is not a whole number"):
        run({"source": "ann", "destination": "1", "time": "2026-01-01"}, G=G)


def test_decimals_of_json_are_numbers() -> None:
    money = pd.DataFrame({"source": ["a", "b"], "destination": ["b", "c"], "weight": [Decimal("1.25"), Decimal(3)]})
    assert b'"weight": 1.25' in encode(money, "json")
    G = run(encode(money, "json"), G=graph(renumber=True, weighted=True))
    assert sorted(G.to_pandas()["weight"].tolist()) == [1.25, 3.0]


# ---------------------------------------------------------------------- what cannot be read


BAD: dict[str, tuple[Any, str]] = {
    "no Arrow": (A_TO_B[:40], "is no Arrow stream"),
    "no JSON": (b"{oops", "is no JSON"),
    "JSON that is no object": (b"[1, 2]", "is no JSON object"),
    "a null": (b'{"source": "ann", "destination": null}', "null at row 0"),
    "an op": (b'{"source": "ann", "destination": "bob", "op": 7}', "`op` is 7 at row 0"),
    "no column": (b'{"source": "ann"}', "columns not found: destination"),
    "lengths": (b'{"source": ["a"], "destination": ["a", "b"]}', "they must be equal"),
    "a float": (b'{"source": 1.5, "destination": "b"}', r"1.5 \(float\) at row 0"),
}


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("name", BAD)
def test_the_rows_before_a_bad_message_are_applied(name: str, apart: bool) -> None:
    value, message = BAD[name]
    G, source = (
        graph(renumber=True),
        Scripted(*([units(A_TO_B), units(value)] if apart else [units(A_TO_B, value, B_TO_C)])),
    )
    stream = Stream(G, source)
    place = f"message {0 if apart else 1} of 'pay'"
    with pytest.raises(DynstoreError, match=f"Stream: {place}: .*{message}"):
        stream.run()
    assert pairs_of(G) == {("ann", "bob")}
    assert source.committed == [1]


@pytest.mark.parametrize("name", BAD)
def test_bad_messages_are_left_out(name: str, caplog: pytest.LogCaptureFixture) -> None:
    value, _ = BAD[name]
    G, source = graph(renumber=True), Scripted(units(value, A_TO_B, value, value, B_TO_C, value), ends=True)
    progress = Stream(G, source, on_error="skip").run()
    assert pairs_of(G) == EDGES
    assert (progress.left_out, progress.applied, source.committed[-1]) == (4, 2, 6)
    assert "4 messages left out" in str(progress)
    assert "message 0 of 'pay' is left out" in caplog.text


REFUSED = {
    "a negative id": ({"source": -1}, "`source` has -1 at row 0"),
    "an id that is too large": ({"source": 2**31 - 1}, "`source` has 2147483647 at row 0; int32 ids go to"),
    "no number": ({"weight": np.nan}, "column `weight` has 1 nulls, the first at row 0"),
    "a weight that is too large": ({"weight": 1e300}, "`weight` has 1e[+]300 at row 0; that does not fit float32"),
    "a time between two": ({"time": 1.5}, "`time` is float64; wanted integers or date-times"),
    "a column that does not fit": ({"kind": 300}, "`kind` has 300 at row 0; that does not fit uint8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_would_refuse_is_bad_too(name: str) -> None:
    given, message = REFUSED[name]
    good = {"source": 0, "destination": 1, "weight": 1.0, "time": 1, "kind": 1}
    G, found = graph(weighted=True, timestamps="int64", edge_columns={"kind": "uint8"}), []
    values = [encode(pd.DataFrame([row])) for row in (good, good | given, good | {"destination": 2})]
    assert pairs_of(run(*values, G=G, on_error=found.append)) == {(0, 1), (0, 2)}
    assert [bad.place for bad in found] == ["message 1 of 'pay'"]
    with pytest.raises(InputError, match=message):
        raise found[0].error


def test_a_bad_message_decides_nothing() -> None:
    """Ids that are integers, in a message that is refused for its operation: those of the next are texts."""
    bad = b'{"source": 1, "destination": 2, "op": "?"}'
    assert pairs_of(run(bad, A_TO_B, B_TO_C, on_error="skip")) == EDGES


def test_a_function_gets_what_is_left_out() -> None:
    found: list[BadUnit] = []
    assert pairs_of(run(A_TO_B, b"{oops", B_TO_C, on_error=found.append)) == EDGES
    (bad,) = found
    assert (bad.place, bad.value) == ("message 1 of 'pay'", b"{oops")
    assert isinstance(bad.error, FileFormatError)

    def full(unit: BadUnit) -> None:
        raise OSError("no room")

    with pytest.raises(StreamError, match="on_error could not take message 0 of 'pay': no room"):
        run(b"{oops", on_error=full)


def test_a_file_gets_what_is_left_out(tmp_path: Path) -> None:
    for _ in range(2):
        run(A_TO_B, b"{oops", b"\xff\xfe", on_error=tmp_path / "dead.jsonl")
    letters = [json.loads(line) for line in (tmp_path / "dead.jsonl").read_text().splitlines()]
    assert [letter["place"] for letter in letters] == ["message 1 of 'pay'", "message 2 of 'pay'"] * 2
    assert letters[0]["value"] == "{oops"
    assert letters[1]["base64"] == "//4="
    assert "is no JSON" in letters[0]["error"]


@pytest.mark.parametrize(
    ("on_error", "message"),
    [
        ("ignore", "on_error is 'ignore'; wanted 'raise', 'skip', a function"),
        (7, "on_error is a int; wanted 'raise', 'skip', a function"),
        ("http://x/y", "on_error is an address of kind 'http'"),
        ("no/such/folder/dead.jsonl", "on_error: cannot open 'no/such/folder/dead.jsonl'"),
    ],
)
def test_what_is_no_place_for_them(on_error: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Stream(graph(), [(0, 1)], on_error=on_error)


def test_lines_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "pay.csv"
    file.write_text("source,destination,weight\nann,bob,1\nbob,cem,much\ncem,dot\ncem,eve,2\n")
    G = graph(renumber=True, weighted=True)
    with pytest.raises(FileFormatError, match=r"pay\.csv:3: weight 'much' is not a number"):
        Stream(G, FileSource(file, follow=False)).run()
    assert pairs_of(G) == {("ann", "bob")}
    found: list[BadUnit] = []
    G = graph(renumber=True, weighted=True)
    progress = Stream(G, FileSource(file, follow=False), on_error=found.append).run()
    assert pairs_of(G) == {("ann", "bob"), ("cem", "eve")}
    assert progress.left_out == 2
    assert [bad.place for bad in found] == [f"{file}:3", f"{file}:4"]
    assert [bad.value for bad in found] == [b"bob,cem,much\n", b"cem,dot\n"]


def test_after_a_bad_line_a_database_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "pay.jsonl"
    file.write_text('{"source": 0, "destination": 1}\n{"source": 1}\n{"source": 2, "destination": 3}\n')
    for on_error, edges in (("raise", {(0, 1)}), ("skip", {(0, 1), (2, 3)}), ("raise", {(0, 1), (2, 3)})):
        with dynstore.open(tmp_path / "db", device="cpu") as db:
            stream = Stream(db.graph, FileSource(file, follow=False), on_error=on_error)
            if len(edges) == 1:
                with pytest.raises(InputError, match=r"pay\.jsonl:2: .*columns not found: destination"):
                    stream.run()
            else:
                stream.run()
            assert pairs_of(db.graph) == edges


# ---------------------------------------------------------------------- transform


def test_a_function_makes_rows_of_what_comes() -> None:
    def debezium(events: pd.DataFrame) -> pd.DataFrame:
        rows = pd.DataFrame(events["after"].tolist())
        return rows.rename(columns={"payer": "source", "payee": "destination"})

    value = b'{"after": {"payer": "ann", "payee": "bob"}}\n{"after": {"payer": "bob", "payee": "cem"}}\n'
    assert pairs_of(run(value, transform=debezium)) == EDGES
    with pytest.raises(InputError, match="message 0 of 'pay': transform raised KeyError: 'after'"):
        run(A_TO_B, transform=debezium)


def test_a_function_gets_frames_of_every_source(tmp_path: Path) -> None:
    def twice(rows: pd.DataFrame) -> tuple[Any, Any]:
        assert isinstance(rows, pd.DataFrame)
        source, destination = (rows[name].astype(int).to_numpy() for name in ("source", "destination"))
        return np.concatenate((source, source + 10)), np.concatenate((destination, destination + 10))

    (tmp_path / "e.csv").write_text("source,destination\n0,1\n")
    sources: list[Any] = [
        pd.DataFrame({"source": [0], "destination": [1]}),
        ([0], [1]),
        pa.table({"source": [0], "destination": [1]}),
        FileSource(tmp_path / "e.csv", follow=False),
    ]
    for source in sources:
        G = graph()
        Stream(G, source, transform=twice).run()
        assert pairs_of(G) == {(0, 1), (10, 11)}
    with pytest.raises(InputError, match="transform is 3; wanted a function of a pandas frame"):
        Stream(graph(), [(0, 1)], transform=3)  # type: ignore[arg-type]
