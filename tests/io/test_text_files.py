"""Delimited text: every layout that is read, and every fault with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynstore import DynamicGraph, Stream
from dynstore.errors import FileFormatError, InputError
from dynstore.io import OP_DELETE, OP_INSERT, OP_REWEIGHT, EventTable, read_events
from dynstore.io.columns import ColumnChoice
from dynstore.io.dialects import DialectChoice
from dynstore.io.limits import Limits
from dynstore.io.text import read_text
from dynstore.streams import FileSource
from tests.streams.scripted import pairs_of


def write(folder: Path, text: str | bytes, name: str = "edges.txt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read_all(text: str) -> EventTable:
    """Read a text that is in memory."""
    return read_text("memory", text.encode(), lambda size: b"", ColumnChoice(), DialectChoice(), Limits(2**31 - 2))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("blanks.txt", "1 2\n3 4\n5 6\n"),
        ("many_blanks.txt", "  1   2 \n3 \t 4\n\n   \n5 6"),
        ("tabs.tsv", "1\t2\n3\t4\n5\t6\n"),
        ("commas.csv", "1,2\n3, 4\n5,6\n"),
        ("blanks.csv", "1 2\n3 4\n5 6\n"),
        ("semicolons.txt", "1;2\n3;4\n5;6\n"),
        ("quoted.csv", '"1","2"\n3,4\n5,6\n'),
        ("crlf.txt", "1 2\r\n3 4\r\n5 6\r\n"),
        ("comments.txt", "# a comment\n% another\n1 2\n# between\n3 4\n  % indented\n5 6\n#last"),
        ("header.csv", "source,destination\n1,2\n3,4\n5,6\n"),
        ("swapped.csv", "dst,src\n2,1\n4,3\n6,5\n"),
        ("other_names.csv", "from,to\n1,2\n3,4\n5,6\n"),
        ("unknown_names.csv", "a,b\n1,2\n3,4\n5,6\n"),
        ("more_columns.txt", "1 2 x 0.5\n3 4 y 1\n5 6 z 2\n"),
        ("mark.csv", b"\xef\xbb\xbf1,2\n3,4\n5,6\n"),
    ],
)
def test_every_layout_gives_the_same_edges(tmp_path: Path, name: str, text: str | bytes) -> None:
    events = read_events(write(tmp_path, text, name))
    assert events.src.tolist() == [1, 3, 5]
    assert events.dst.tolist() == [2, 4, 6]
    assert (events.src.dtype, events.dst.dtype) == (np.int64, np.int64)
    assert events.time is events.weight is events.op is None
    assert (events.name, len(events), events.num_vertices) == (name, 3, 7)


def test_columns_by_name_by_number_and_by_number_as_text(tmp_path: Path) -> None:
    path = write(tmp_path, "day,w,a,b\n3,0.5,1,2\n1,-1e2,3,4\n", "trades.csv")
    for choice in (("a", "b", "w", "day"), (2, 3, 1, 0), ("2", "3", "1", "0")):
        events = read_events(path, *choice)
        assert events.src.tolist() == [3, 1]
        assert events.weight is not None
        assert events.weight.tolist() == [-100.0, 0.5]
        assert events.time is not None
        assert events.time.tolist() == [1, 3]


def test_ids_are_the_first_columns_that_nothing_else_takes(tmp_path: Path) -> None:
    events = read_events(write(tmp_path, "9 + 1 2\n8 + 3 4\n"), time=0, op=1)
    assert events.src.tolist() == [3, 1]
    assert events.dst.tolist() == [4, 2]


def test_a_header_may_be_forced_or_denied(tmp_path: Path) -> None:
    path = write(tmp_path, "1 2\n3 4\n")
    assert read_events(path, header=True).src.tolist() == [3]
    assert read_events(path, header=False).src.tolist() == [1, 3]
    with pytest.raises(FileFormatError, match=r"edges.txt:1: source 'a' is not a whole number"):
        read_events(write(tmp_path, "a b\n3 4\n"), header=False)


@pytest.mark.parametrize(
    ("times", "order"),
    [
        (["5", "3", "3", "1"], [3, 1, 2, 0]),
        (["1.5", "1.25", "1.25", "0"], [3, 1, 2, 0]),
        (["2004-05", "2004-03", "2004-03", "2003-12"], [3, 1, 2, 0]),
        (["2004-05-01", "2004-03-31", "2004-03-31", "2004-02"], [3, 1, 2, 0]),
        (["20040501", "20040331", "20040331", "20031231"], [3, 1, 2, 0]),
        (["2004-01-01T12:00:00Z", "2004-01-01T12:30:00+01:00", "2004-01-01T11:30:00Z", "2003"], [3, 1, 2, 0]),
    ],
)
def test_times_sort_and_equal_times_keep_their_order(tmp_path: Path, times: list[str], order: list[int]) -> None:
    rows = "".join(f"{row} 9 {time}\n" for row, time in enumerate(times))
    events = read_events(write(tmp_path, rows), time=2)
    assert events.src.tolist() == order
    assert events.time is not None
    assert (events.time[1:] >= events.time[:-1]).all()


def test_dates_become_datetimes(tmp_path: Path) -> None:
    events = read_events(write(tmp_path, "1 2 2004-03\n"), time=2)
    assert events.time is not None
    assert events.time.dtype == np.dtype("datetime64[ns]")
    assert events.time[0] == np.datetime64("2004-03-01")


def test_explicit_changes_may_leave_out_the_weight_of_a_deletion(tmp_path: Path) -> None:
    for text in ("1 - 5 6\n2 + 5 6 7\n3 w 5 6 8\n", "1 + 5 6 7\n2 - 5 6\n3 w 5 6 8\n4 - 5 6 9 10\n"):
        events = read_events(write(tmp_path, text), time=0, op=1, weight=4)
        assert events.op is not None
        assert events.weight is not None
        assert set(events.op.tolist()) == {OP_INSERT, OP_DELETE, OP_REWEIGHT}
        assert np.isnan(events.weight[np.argmax(events.op == OP_DELETE)])
        assert not np.isnan(events.weight[events.op != OP_DELETE]).any()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("1 2\n3\n", {}, ":2: the row has 1 fields; the first row has 2"),
        ("1 2\n3 4 5\n", {}, ":2: the row has 3 fields; the first row has 2"),
        ("1,2\n\n3,\n", {}, ":3: destination is empty"),
        ("1,2\n\n# c\n3,4\n", {}, ":3: the row has 1 fields; the first row has 2. If it is a comment, say comment='#'"),
        ("# c\n\n1 2\n3 -4\n", {}, ":4: destination -4 is negative"),
        ("1 2\n2147483647 4\n", {}, ":2: source 2147483647 is too large; vertex ids are integers from 0 to 2147483646"),
        ("1 2\n99999999999999999999 4\n", {}, ":2: source 99999999999999999999 is too large"),
        ("1 2\n9223372036854775808 4\n", {"vertex_dtype": "int64"}, ":2: source 9223372036854775808 is too large"),
        ("1 2\n3.0 4\n", {}, ":2: source '3.0' is not a whole number"),
        ("1.0 2\n3.0 4\n", {}, ":1: source '1.0' is not a whole number"),
        ("1 2\n1e3 4\n", {}, ":2: source '1e3' is not a whole number"),
        ("1 2\nbob 4\n", {}, ":2: source 'bob' is not a whole number"),
        ("1 2\nTrue True\n", {}, ":2: source 'True' is not a whole number"),
        ("1 2\n3 nan\n", {}, ":2: destination 'nan' is not a whole number"),
        (b"1 2\n\xff 4\n", {}, ":2: byte 0xff is not UTF-8"),
        ("1 2 1\n3 4 nan\n", {"weight": 2}, ":2: weight 'nan' is not a number"),
        ("1 2 1\n3 4 x\n", {"weight": 2}, ":2: weight 'x' is not a number"),
        ("1,2,1\n3,4,\n", {"weight": 2}, ":2: the row has no weight"),
        (
            "1 2 5\n3 4 soon\n",
            {"time": 2},
            ":2: time 'soon' cannot be read; wanted whole numbers, as in the first rows",
        ),
        ("1 2 2004-01\n3 4 2004-13\n", {"time": 2}, ":2: time '2004-13' cannot be read; wanted ISO dates"),
        ("1,2,5\n3,4,\n", {"time": 2}, ":2: time '' cannot be read"),
        ("1 2 +\n3 4 x\n", {"op": 2}, ":2: op 'x' is none of '+', '-', 'w'"),
        ("1 2 +\n3 4\n", {"op": 2}, ":2: op '' is none of '+', '-', 'w'"),
        ("1 2 + 1\n3 4 w\n", {"op": 2, "weight": 3}, ":2: the row has no weight"),
        ("a,b\n1,2\nx,4\n", {"source": "a"}, ":3: source 'x' is not a whole number"),
    ],
)
def test_a_bad_row_is_named_with_its_file_and_line(
    tmp_path: Path, text: str | bytes, options: dict, message: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(FileFormatError) as caught:
        read_events(path, **options)
    assert f"{path}{message}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"source": "buyer", "destination": "sold"},
            "no source column 'buyer'; the file has 'buyr', 'seller'. Did",
        ),
        ({"source": 2}, "no source column 2; the file has columns 0 to 1"),
        ({"source": 0, "destination": 0}, "column 0 is named as source and as destination; wanted two columns"),
        ({"source": 0, "time": 1}, "no column is left for the destination"),
        ({"delimiter": ",,"}, "delimiter ',,'; wanted one character"),
        ({"vertex_dtype": "int16"}, "unknown vertex_dtype 'int16'"),
    ],
)
def test_columns_that_are_not_there_are_refused(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_events(write(tmp_path, "buyr,seller\n1,2\n"), **options)
    assert message in str(caught.value)


def test_names_need_a_header(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a name, but the file has no header"):
        read_events(write(tmp_path, "1 2\n"), source="a", header=False)


def test_an_op_file_without_the_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no weight column 3; no row has so many fields"):
        read_events(write(tmp_path, "1 2 -\n1 2 -\n"), op=2, weight=3)


@pytest.mark.parametrize("text", ["", "\n\n", "# only\n% comments\n", "source,destination\n"])
def test_a_file_without_rows_has_no_events(tmp_path: Path, text: str) -> None:
    events = read_events(write(tmp_path, text))
    assert (len(events), events.num_vertices) == (0, 0)


@given(
    rows=st.lists(st.tuples(st.integers(0, 2**31 - 2), st.integers(0, 2**31 - 2)), min_size=1),
    delimiter=st.sampled_from([" ", "\t", ",", ";", "  "]),
    ending=st.sampled_from(["\n", "\r\n"]),
    comments=st.booleans(),
)
def test_what_is_written_is_read(rows: list[tuple[int, int]], delimiter: str, ending: str, comments: bool) -> None:
    lines = [f"{u}{delimiter}{v}" for u, v in rows]
    if comments:
        lines = [part for line in lines for part in (f"# {line}", line)]
    table = read_all(ending.join(lines) + ending)
    assert list(zip(table.src.tolist(), table.dst.tolist(), strict=True)) == rows


@given(
    rows=st.integers(1, 30),
    bad=st.integers(0, 29),
    fault=st.sampled_from(["-1 2", "x 2", "1", "1 2 3", "1.5 2", "1 99999999999"]),
    comment=st.booleans(),
)
def test_the_line_is_right_wherever_the_fault_is(rows: int, bad: int, fault: str, comment: bool) -> None:
    lines = [f"{row} {row + 1}" for row in range(rows)]
    where = 1 + bad % rows
    lines.insert(where, fault)
    if comment:
        lines.insert(0, "% a comment")
    with pytest.raises(FileFormatError, match=f"^memory:{where + 1 + comment}: "):
        read_all("\n".join(lines))


class TestRenumbered:
    """``renumber=True``: any ids, numbered where they are texts, too large or far apart."""

    @staticmethod
    def read(folder: Path, text: str, **options: object):
        return read_events(write(folder, text, "e.csv"), renumber=True, **options)

    def test_texts_are_numbered_by_their_first_occurrence(self, tmp_path: Path) -> None:
        text = 'payee,when,payer\nbob,2024-01-02T10:00:00Z,ann\n "Smith, Jo" ,2024-01-01,bob \n007,2024-01-03,7\n'
        events = self.read(tmp_path, text, source="payer", destination="payee", time="when")
        assert events.ids is not None
        named = [(events.ids[u], events.ids[v]) for u, v in zip(events.src, events.dst, strict=True)]
        assert named == [("bob", "Smith, Jo"), ("ann", "bob"), ("7", "007")]
        assert events.ids.tolist() == ["ann", "bob", "Smith, Jo", "7", "007"]
        assert (events.src.dtype, events.dst.dtype, events.num_vertices) == (np.int64, np.int64, 5)

    def test_a_number_and_a_text_that_read_the_same_are_one_vertex(self, tmp_path: Path) -> None:
        events = self.read(tmp_path, "source,target\n7,ann\nann,7\nbob,ann\n")
        assert list(zip(events.src.tolist(), events.dst.tolist(), strict=True)) == [(0, 1), (1, 0), (2, 1)]

    def test_values_that_pandas_takes_for_others_are_texts(self, tmp_path: Path) -> None:
        events = self.read(tmp_path, "source,target\nTrue,NA\nnan,null\n")
        assert events.ids is not None
        assert events.ids.tolist() == ["True", "NA", "nan", "null"]

    def test_texts_in_a_file_of_changes(self, tmp_path: Path) -> None:
        events = self.read(tmp_path, "+,ann,bob,1.5\n-,ann,bob\n+,bob,cat,2\n", op=0, weight=3, source=1)
        assert events.ids is not None
        assert events.ids.tolist() == ["ann", "bob", "cat"]
        assert list(zip(events.src, events.dst, strict=True)) == [(0, 1), (0, 1), (1, 2)]

    @pytest.mark.parametrize("highest", [2**31 - 1, 2**63 - 1, 2**64 - 1])
    def test_large_ids_are_numbered(self, tmp_path: Path, highest: int) -> None:
        events = self.read(tmp_path, f"1,{highest}\n{highest},5\n")
        assert events.ids is not None
        assert events.ids.tolist() == [1, highest, 5]
        assert events.dst.tolist() == [1, 2]

    @pytest.mark.parametrize(
        ("rows", "highest", "numbered"),
        [(10, 2**20, False), (10, 2**20 + 1, True), (70_000, 16 * 70_000, False), (70_000, 16 * 70_000 + 1, True)],
    )
    def test_ids_far_apart_are_numbered(self, tmp_path: Path, rows: int, highest: int, numbered: bool) -> None:
        text = f"{highest},0\n" + "3,4\n" * (rows - 1)
        events = self.read(tmp_path, text)
        assert (events.ids is not None) == numbered
        assert events.num_vertices == (4 if numbered else highest + 1)
        assert read_events(tmp_path / "e.csv").src[0] == highest

    def test_ids_that_are_near_stay_as_they_are(self, tmp_path: Path) -> None:
        events = self.read(tmp_path, "9,3\n4,9\n")
        assert events.ids is None
        assert (events.src.tolist(), events.dst.tolist()) == ([9, 4], [3, 9])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("1,2\n3,-4\n", ":2: destination -4 is negative"),
            ("1,2\n3,4.5\n", ":2: destination '4.5' is a number, but not whole; ids=\"text\" (--ids text) takes it"),
            ("1,2\n3,18446744073709551616\n", ":2: destination 18446744073709551616 is too large"),
            ("source,target\nann,bob\n ,cat\n", ":3: source is empty; wanted an id"),
            ("source,target\nann,bob\ncat\n", ":3: the row has 1 fields; the first row has 2"),
        ],
    )
    def test_what_is_no_id_is_refused(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(FileFormatError) as caught:
            self.read(tmp_path, text)
        assert f"e.csv{message}" in str(caught.value)

    def test_bytes_that_are_no_text_are_refused_with_their_line(self, tmp_path: Path) -> None:
        path = tmp_path / "e.csv"
        path.write_bytes(b"source,target\nann,bob\ncaf\xe9,bob\n")
        with pytest.raises(FileFormatError, match=r"e\.csv:3: byte 0xe9 is not UTF-8"):
            read_events(path, renumber=True)


@pytest.mark.parametrize("blank", ["\t\n", "  \n", " \t \r\n"])
def test_lines_of_blanks_are_no_rows(tmp_path: Path, blank: str) -> None:
    events = read_events(write(tmp_path, f"1\t2\n{blank}3\t4\n{blank}"))
    assert (events.src.tolist(), events.dst.tolist()) == ([1, 3], [2, 4])


@pytest.mark.parametrize(("text", "line"), [("1,2\r3,4\r", 1), ("1,2\n3,4\r \n", 2), ("a,b\r\n1,2\r\n3,4\r5,6\n", 3)])
def test_lone_carriage_returns_are_refused(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(text.encode())
    with pytest.raises(FileFormatError, match=rf"e\.csv:{line}: a carriage return without a line feed"):
        read_events(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"op": "99999999999"}, "no op column 99999999999; the file has columns 0 to 2"),
        ({"op": 0, "weight": "99999999999"}, "no weight column 99999999999"),
        ({"source": "9" * 5000}, "no source column 9999"),
        ({"weight_dtype": "int8"}, "unknown weight_dtype 'int8'; known: 'float32', 'float64'"),
    ],
)
def test_columns_past_all_rows_are_refused(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_events(write(tmp_path, "+ 1 2\n+ 3 4\n"), **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("weight", ["1e39", "-3.5e38", "1e400"])
def test_weights_that_the_dtype_cannot_hold_are_refused(tmp_path: Path, weight: str) -> None:
    path = write(tmp_path, f"1 2 inf\n3 4 {weight}\n")
    with pytest.raises(FileFormatError) as caught:
        read_events(path, weight=2, weight_dtype="float32")
    assert f"{path}:2: weight '{weight}' is too large; wanted at most 3.4028235e+38" in str(caught.value)
    path.write_text("1 2 inf\n3 4 3.4e38\n")
    events = read_events(path, weight=2, weight_dtype="float32")
    assert events.weight is not None
    assert events.weight.tolist() == [float("inf"), 3.4e38]


def test_the_home_folder_is_where_it_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, "0 1\n")
    assert read_events("~/edges.txt").src.tolist() == read_events(Path("~/edges.txt")).src.tolist() == [0]


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("rows", ["1,2\n3,ann", "source,destination\n1,ann", "# one\nsource,destination\n# two\nann,1"])
def test_a_last_line_without_an_end_decides_types_like_others(rows: str, end: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(rows + end)
    events = read_events(path, renumber=True)
    assert events.ids is not None
    assert "ann" in events.ids
    G = DynamicGraph(device="cpu", renumber=True)
    Stream(G, FileSource(path, follow=False)).run()
    again = DynamicGraph(device="cpu", renumber=True)
    again.insert_edges(events)
    assert pairs_of(G) == pairs_of(again)


def test_the_first_rows_are_whole_lines_of_a_file_of_long_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    note = "x" * 900_000
    path.write_text("".join(f"{row},{row + 1},{note}\n" for row in range(3)))
    assert read_events(path).src.tolist() == [0, 1, 2]


def test_beside_a_usual_name_no_column_is_guessed(tmp_path: Path) -> None:
    path = write(tmp_path, "source,note\n1,2\n")
    with pytest.raises(InputError, match="which column is the destination"):
        read_events(path)
