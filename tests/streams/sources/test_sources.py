"""Sources: each row comes once, and comes again if it was not committed; on real servers where they are installed."""

from __future__ import annotations

import functools
import json
import operator
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph, Stream
from dynstore.errors import (
    FileFormatError,
    InputError,
    InputTypeError,
    MissingDependencyError,
    SourceGapError,
    StreamError,
)
from dynstore.streams import FileSource, FlightSource, KafkaSource, NatsSource, RedisSource, decode, encode
from dynstore.streams.applying import Applier
from dynstore.streams.messages import Message, Messages
from dynstore.streams.sources import file_chain, tailed_file
from tests.libraries import FRAMES, from_pandas
from tests.streams.scripted import Scripted, graph, pairs_of, wait_until
from tests.streams.sources.file_writer import OPTIONS, marked

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("edges", [[], [(0, 1), (1, 2)]])
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_views_of_a_graph_are_no_source(kind: Any, edges: Any) -> None:
    """An EdgeView is a mapping of pairs: read as columns, it would have no rows."""
    H = kind(edges)
    for given in (H, H.edges, H.edges(), H.edges(data=True), H.nodes, H.adj, dict.fromkeys(edges, 1).keys()):
        with pytest.raises(InputTypeError, match=r"which changes with its graph; wanted .*list\(G.edges\)"):
            Stream(graph(), given)
    for pairs in (list(map(tuple, edges)), set(edges)):
        assert Stream(graph(), pairs).run().applied == len(edges)
    with pytest.raises(InputTypeError, match=r"source is a dict with the key \(0, 1\); wanted columns by name"):
        Stream(graph(), {(0, 1): 0.5})


# ---------------------------------------------------------------------- messages


@pytest.mark.parametrize("kind", ["arrays", *FRAMES])
@pytest.mark.parametrize("form", ["arrow", "json"])
def test_messages_come_back(form: Any, kind: str) -> None:
    frame = pd.DataFrame(
        {"source": [0, 1], "destination": [1, 2], "time": pd.to_datetime(["2026-01-01", "2026-01-02"])}
    )
    edges = {name: frame[name].to_numpy() for name in frame} if kind == "arrays" else from_pandas(kind, frame)
    table = decode(encode(edges, form))
    G = DynamicGraph(device="cpu")
    progress = Stream(G, [table], lateness="3D").run()
    assert progress.event_time == np.datetime64("2026-01-02")
    assert pairs_of(G) == {(0, 1), (1, 2)}
    assert len(decode(encode([(0, 1, 0.5)], form))["weight"]) == 1


def test_bad_messages() -> None:
    with pytest.raises(FileFormatError, match="'hello' is no JSON"):
        decode(b"hello")
    with pytest.raises(FileFormatError, match=r"'\[0, 1\]' is no JSON object"):
        decode(b"[0, 1]\n")
    with pytest.raises(FileFormatError, match="is no Arrow stream"):
        decode(encode([(0, 1)])[:40])
    with pytest.raises(InputError, match="unknown format 'xml'"):
        encode([(0, 1)], "xml")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a tuple of 4 columns"):
        encode(([0], [1], [2], [3]))
    with pytest.raises(InputError, match="got a int"):
        encode(3)


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for library, make in (("redis", RedisSource), ("nats", NatsSource), ("confluent_kafka", KafkaSource)):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(MissingDependencyError, match=r"pip install 'dynstore\[streams\]'"):
            make("edges")


# ---------------------------------------------------------------------- files


def test_a_file_that_grows_gives_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text("# comment\nfrom,to,when\n0,1,2026-01-01T10:00\n1,")
    G = DynamicGraph(device="cpu")
    columns = {"source": "from", "destination": "to", "time": "when"}
    source = FileSource(file)
    with Stream(G, source, max_delay=0.0, columns=columns).start() as stream, file.open("a") as more:
        wait_until(lambda: stream.progress().applied == 1)
        more.write("2,2026-01-01T10:01\n")
        more.flush()
        wait_until(lambda: stream.progress().applied == 2)
        for row in range(2, 500):
            more.write(f"{row},{row + 1},2026-01-01T11:00\n")
        more.flush()
        wait_until(lambda: stream.progress().applied == 500)
        assert stream.progress().event_time == np.datetime64("2026-01-01T11:00")
    assert pairs_of(G) == {(row, row + 1) for row in range(500)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.tsv", "source\tdestination\n5\t6\n7\t8\n"),
        ("e.txt", "5 6\n7   8"),
        ("e.csv", "# above\n5;6\n\n# no row\n7;8\n"),
        ("e.jsonl", '{"source": 5, "destination": 6}\n\n{"source": 7, "destination": 8}\n'),
    ],
)
def test_files_of_each_kind_end_without_follow(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    G = DynamicGraph(device="cpu")
    Stream(G, FileSource(tmp_path / name, follow=False)).run()
    assert pairs_of(G) == {(5, 6), (7, 8)}


def test_ids_that_are_texts_stay_texts(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("a,b\n" + "".join(f"{row:04d},{row + 1:04d}\n" for row in range(3)))
    G = DynamicGraph(device="cpu", renumber=True)
    source = FileSource(tmp_path / "e.csv", follow=False, header=False)
    source.poll(1, 0)  # reads all; what follows is read as texts, too
    with (tmp_path / "e.csv").open("a") as more:
        more.write("0007,0008\n")
    Stream(G, source).run()
    assert G.has_edges([("0007", "0008")]).tolist() == [True]


def test_a_position_is_a_byte_and_reading_goes_on_there(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text("source,destination\n" + "".join(f"{row},{row + 1}\n" for row in range(50)))
    first = FileSource(file, follow=False)
    lines, position = first.poll(2, 0)  # type: ignore[misc]
    count = len(lines.read(0, len(lines))["source"])
    assert 0 < count < 50
    second = FileSource(file, follow=False)
    second.seek(position)
    G = DynamicGraph(device="cpu")
    Stream(G, second).run()
    assert pairs_of(G) == {(row, row + 1) for row in range(count, 50)}
    with pytest.raises(SourceGapError, match=r"cannot go on at byte 100000 of '.*e.csv': it has \d+ bytes now: it was"):
        first.seek(100000)  # as older versions wrote it
    with pytest.raises(InputError, match="cannot go on at '1-0'; wanted a position of a FileSource"):
        first.seek("1-0")
    first.close()


def test_rotation_and_truncation_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "e.csv"
    file.write_text("0,1\n")
    source, G = FileSource(file), DynamicGraph(device="cpu")
    with Stream(G, source, max_delay=0.0, on_gap="continue").start() as stream:
        wait_until(lambda: stream.progress().applied == 1)
        file.rename(tmp_path / "e.csv.1")
        with (tmp_path / "e.csv.1").open("a") as old:
            old.write("1,2\n")
        (tmp_path / "new").write_text("2,3\n")
        (tmp_path / "new").rename(file)
        wait_until(lambda: stream.progress().applied == 3)
        file.write_text("")
        wait_until(lambda: source.truncations == 1)
        file.write_text("3,4\n")
        wait_until(lambda: stream.progress().applied == 4)
    assert source.rotations == 1
    assert pairs_of(G) == {(0, 1), (1, 2), (2, 3), (3, 4)}
    assert "was replaced by another file" in caplog.text
    assert "it has 0 bytes now: it was truncated" in caplog.text


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_json_rows_without_an_operation_insert(tmp_path: Path, rows: int) -> None:
    """Wherever the file is cut into pieces: the first row of a piece may lack what others have."""
    lines = [{"source": row, "destination": row + 1} for row in range(6)]
    lines[3:3] = [{"op": "-", "source": 1, "destination": 2}, {"source": 7, "destination": 8, "op": "+"}]
    file = tmp_path / "e.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    G = DynamicGraph(device="cpu")
    Stream(G, FileSource(file, follow=False), batch_edges=rows).run()
    assert pairs_of(G) == {(0, 1), (2, 3), (3, 4), (4, 5), (5, 6), (7, 8)}
    messages = [b"".join(json.dumps(line).encode() + b"\n" for line in part) for part in (lines[:3], lines[3:])]
    H = DynamicGraph(device="cpu")
    units = Messages([Message(message, str(number), number) for number, message in enumerate(messages)])
    Stream(H, Scripted(units, ends=True)).run()
    assert pairs_of(H) == pairs_of(G)


def poll_lines(source: FileSource, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
    """Poll for lines; what comes before those of another file is a position without rows."""
    found = source.poll(max_rows, timeout)
    return source.poll(max_rows, timeout) if found is not None and isinstance(found[0], Messages) else found


def test_lines_that_come_just_before_a_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the last look at the old file and the one at its name."""
    file = tmp_path / "e.csv"
    file.write_text("0,1\n")
    source, look, left = FileSource(file), os.stat, ["2,3\n"]

    def rotated(path: Any, **options: Any) -> os.stat_result:
        if path == file and left:
            with file.open("a") as old:
                old.write("1,2\n")
            file.rename(tmp_path / "e.csv.1")
            file.write_text(left.pop())
        return look(path, **options)

    monkeypatch.setattr(os, "stat", rotated)
    found = [poll_lines(source, 10, 0.1) for _ in range(4)]
    assert [each[0].read(0, len(each[0]))["source"].tolist() for each in found if each is not None] == [
        ["0"],
        ["1"],
        ["2"],
    ]
    source.close()


@pytest.mark.parametrize("header", ["", "source,destination\n"])
def test_a_file_is_truncated_just_behind_the_first_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    """Nothing was known of its rows before: the next look finds a file that has none, or other ones."""
    file, look = tmp_path / "e.csv", tailed_file.read_at
    file.write_text(header)
    source = FileSource(file)
    assert poll_lines(source, 10, 0.0) is None
    file.write_text(header + "0,1\n1,2\n")
    left = ["7,8\n"]

    def read_at(opened: Any, first: int, count: int) -> bytes:
        data = look(opened, first, count)
        if count == 640 and left:  # the rows
            (tmp_path / "e.csv.1").write_bytes(file.read_bytes())
            file.write_text(header + left.pop())
        return data

    monkeypatch.setattr(tailed_file, "read_at", read_at)
    found = [poll_lines(source, 10, 0.1) for _ in range(3)]
    assert not left
    read = [each[0].read(0, len(each[0]))["source"].tolist() for each in found if each is not None]
    assert sorted(functools.reduce(operator.iadd, read, [])) == ["0", "1", "7"]
    source.close()


@pytest.mark.parametrize("rotates_again", [False, True])
@pytest.mark.parametrize("part", [2, 4])
def test_the_old_file_grows_when_a_part_of_the_new_one_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int, rotates_again: bool
) -> None:
    """Lines of the old file come before those of the new one, but not before the rest of what was read already."""
    file, apply = tmp_path / "e.csv", Applier.apply

    def follow(rows: int) -> list[int]:
        """Return the rows in the graph once it has so many, and go on with its folder as it was then."""
        found: list[int] = []

        def look(self: Applier, *batch: Any) -> int:
            late = apply(self, *batch)
            if db.graph.number_of_edges() == rows:
                found.extend(int(source) for source in db.graph.to_pandas()["source"])
                shutil.copytree(tmp_path / "db", tmp_path / "left")
            return late

        monkeypatch.setattr(Applier, "apply", look)
        with dynstore.open(tmp_path / "db", **OPTIONS) as db:
            stream = Stream(db.graph, FileSource(file), batch_edges=2, max_delay=0.0, transform=marked)
            stream.run(until=lambda progress: bool(found))
        shutil.rmtree(tmp_path / "db")
        (tmp_path / "left").rename(tmp_path / "db")
        return sorted(found)

    with file.open("a", buffering=1) as old:
        old.write("0,1\n")
        follow(1)
        file.rename(tmp_path / "e.csv.1")
        file.write_text("".join(f"{row},1\n" for row in range(10, 15)))
        assert follow(1 + part) == [0, *range(10, 10 + part)]
        old.write("1,1\n2,1\n")
        new = list(range(10, 15))
        if rotates_again:
            (tmp_path / "e.csv.1").rename(tmp_path / "e.csv.2")
            file.rename(tmp_path / "e.csv.1")
            file.write_text("20,1\n")
            new.append(20)
        assert follow(3 + len(new)) == [0, 1, 2, *new]


def test_a_look_in_the_middle_of_a_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look misses a file that has two names in turn. The next look finds it, and the position knows it."""
    file = tmp_path / "e.csv"
    file.write_text("0,1\n")
    source, look, missed = FileSource(file), file_chain.list_files, ["e.csv.1"]

    def list_files(*asked: Any) -> Any:
        left_out = missed.pop() if missed else ""
        return [each for each in look(*asked) if each.path.name != left_out]

    monkeypatch.setattr(file_chain, "list_files", list_files)
    found = [poll_lines(source, 10, 0.1)]
    file.rename(tmp_path / "e.csv.1")
    file.write_text("1,2\n")
    found += [poll_lines(source, 10, 0.1)]
    assert [each[0].read(0, 1)["source"].tolist() for each in found if each is not None] == [["0"], ["1"]]
    assert not missed
    source.close()
    again = FileSource(file)
    assert found[1] is not None
    again.seek(found[1][1])
    assert poll_lines(again, 10, 0.1) is None
    again.close()


def test_a_file_is_truncated_in_the_middle_of_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look finds the copy, and cannot tell any more that it is one."""
    file, names, left = tmp_path / "e.csv", file_chain.RotatedNames, ["7,8\n"]
    file.write_text("0,1\n")
    source = FileSource(file)
    found = [poll_lines(source, 10, 0.1)]
    (tmp_path / "e.csv.1").write_bytes(file.read_bytes())

    def truncate(path: Path) -> Any:
        if left:
            file.write_text(left.pop())
        return names(path)

    monkeypatch.setattr(file_chain, "RotatedNames", truncate)
    found += [poll_lines(source, 10, 0.1) for _ in range(2)]
    assert not left
    read = [each[0].read(0, len(each[0]))["source"].tolist() for each in found if each is not None]
    assert functools.reduce(operator.iadd, read, []) == ["0", "7"]
    source.close()


def test_an_empty_file_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text("# nothing yet\n")
    source = FileSource(file)
    assert poll_lines(source, 10, 0.0) is None
    (tmp_path / "new").write_text("2,3\n")
    (tmp_path / "new").rename(file)
    found = [poll_lines(source, 10, 0.0) for _ in range(2)]
    assert [each[0].read(0, 1)["source"].tolist() for each in found if each is not None] == [["2"]]
    source.close()


def test_bad_files_and_lines(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open"):
        FileSource(tmp_path / "no.csv")
    (tmp_path / "e.csv").write_text("0,1\n1,2,3\n")
    with pytest.raises(FileFormatError, match=r"e\.csv:2: the row has 3 fields; the first row has 2"):
        Stream(DynamicGraph(device="cpu"), FileSource(tmp_path / "e.csv", follow=False)).run()
    (tmp_path / "e.jsonl").write_text("{}\nno\n")
    with pytest.raises(FileFormatError, match=r"e\.jsonl:2: 'no' is no JSON"):
        Stream(DynamicGraph(device="cpu"), FileSource(tmp_path / "e.jsonl", follow=False)).run()


# ---------------------------------------------------------------------- servers


@pytest.fixture
def flight_server() -> Iterator[Any]:
    import pyarrow

    flight = pytest.importorskip("pyarrow.flight")

    class Server(flight.FlightServerBase):
        """Sends ten batches of 100 rows, and then waits if the ticket is "endless"."""

        def do_get(self, context: Any, ticket: Any) -> Any:
            schema = pyarrow.schema([("source", pyarrow.int64()), ("destination", pyarrow.int64())])

            def batches() -> Iterator[Any]:
                for first in range(0, 1000, 100):
                    rows = pyarrow.array(range(first, first + 101))
                    yield pyarrow.record_batch([rows[:-1], rows[1:]], schema=schema)
                while ticket.ticket == b"endless" and not context.is_cancelled():
                    time.sleep(0.02)

            return flight.GeneratorStream(schema, batches())

    with Server("grpc://127.0.0.1:0") as server:
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_flight(flight_server: Any) -> None:
    location = f"grpc://127.0.0.1:{flight_server.port}"
    G = DynamicGraph(device="cpu")
    assert Stream(G, f"{location}/edges").run().applied == 1000
    assert pairs_of(G) == {(row, row + 1) for row in range(1000)}
    source = FlightSource("endless", location)
    source.seek(7)
    G = DynamicGraph(device="cpu")
    begun = time.monotonic()
    Stream(G, source, max_delay=0.0).run(until=lambda progress: progress.applied == 300)
    assert pairs_of(G) == {(row, row + 1) for row in range(700, 1000)}
    assert time.monotonic() - begun < 10  # the end does not wait for the server


def test_servers_that_are_not_there() -> None:
    for address in ("redis://127.0.0.1:1/edges", "nats://127.0.0.1:1/edges"):
        pytest.importorskip(address.partition(":")[0])
        with pytest.raises(StreamError, match=r"(?i)111|refused"):
            Stream(DynamicGraph(device="cpu"), address)


def test_a_path_may_be_a_string_or_a_path(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("source,destination\n0,1\n1,2\n")
    for path in (tmp_path / "e.csv", str(tmp_path / "e.csv")):
        G = graph()
        assert Stream(G, path).run(until=lambda progress: progress.applied == 2).applied == 2
        assert pairs_of(G) == {(0, 1), (1, 2)}
    with pytest.raises(InputError, match=r"FileSource: cannot open '.*none\.csv': No such file"):
        Stream(graph(), tmp_path / "none.csv")
