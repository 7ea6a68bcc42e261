"""Matrix Market, Parquet, compressed files, and files that cannot be opened."""

from __future__ import annotations

import datetime
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dynstore.errors import FileFormatError, InputError
from dynstore.io import OP_DELETE, EventTable, read_events

BANNER = "%%MatrixMarket matrix coordinate"


def write(folder: Path, text: str | bytes, name: str) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def pairs(events: EventTable) -> list[tuple[int, int]]:
    return list(zip(events.src.tolist(), events.dst.tolist(), strict=True))


@pytest.mark.parametrize(
    ("head", "entries", "expected", "weights"),
    [
        ("pattern general", "1 2\n3 1\n", [(0, 1), (2, 0)], None),
        ("real general", "1 2 0.5\n3 1 -2\n", [(0, 1), (2, 0)], [0.5, -2.0]),
        ("integer general", "1 2 7\n3 1 -2\n", [(0, 1), (2, 0)], [7.0, -2.0]),
        ("pattern symmetric", "2 1\n3 3\n", [(1, 0), (0, 1), (2, 2)], None),
        ("real symmetric", "2 1 4\n3 3 5\n", [(1, 0), (0, 1), (2, 2)], [4.0, 4.0, 5.0]),
        ("integer skew-symmetric", "2 1 4\n3 1 5\n", [(1, 0), (0, 1), (2, 0), (0, 2)], [4.0, -4.0, 5.0, -5.0]),
    ],
)
def test_matrix_market(tmp_path: Path, head: str, entries: str, expected: list, weights: list | None) -> None:
    path = write(tmp_path, f"{BANNER} {head}\n% made by hand\n\n3 3 2\n{entries}", "m.mtx")
    events = read_events(path)
    assert pairs(events) == expected
    assert (None if events.weight is None else events.weight.tolist()) == weights


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2\n", ":1: wanted '%%MatrixMarket matrix coordinate FIELD SYMMETRY'"),
        (f"{BANNER} complex general\n1 1 0\n", ":1: field 'complex' is not read"),
        (f"{BANNER} real hermitian\n1 1 0\n", ":1: symmetry 'hermitian' is not read"),
        (f"{BANNER} pattern general\n% c\n3 4 1\n1 1\n", ":3: the matrix is 3 x 4; an adjacency matrix is square"),
        (f"{BANNER} pattern general\n3 3\n", ":2: wanted 'ROWS COLUMNS ENTRIES'"),
        (f"{BANNER} pattern general\n% c\n", "the file ends before the line"),
        (f"{BANNER} pattern general\n3 3 2\n1 1\n", ":2: 2 entries are announced, the file has 1"),
        (f"{BANNER} pattern general\n3 3 1\n0 1\n", ":3: source 0 is too small; vertex ids are integers from 1 to 3"),
        (f"{BANNER} pattern general\n3 3 2\n1 1\n% c\n1 4\n", ":5: destination 4 is too large"),
        (f"{BANNER} real general\n3 3 1\n1 1 nan\n", ":3: weight 'nan' is not a number"),
        (f"{BANNER} real general\n3 3 2\n1 1 1\n1 2\n", ":4: the row has 2 fields; the first row has 3"),
        (f"{BANNER} pattern general\n3000000000 3000000000 1\n1 1\n", ":2: 3000000000 vertices; wanted at most"),
    ],
)
def test_matrix_market_faults_have_their_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text, "m.mtx")
    with pytest.raises(FileFormatError) as caught:
        read_events(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_matrix_market_knows_its_columns(tmp_path: Path) -> None:
    path = write(tmp_path, f"{BANNER} pattern general\n1 1 1\n1 1\n", "m.mtx")
    with pytest.raises(InputError, match=r"m\.mtx: got source; the columns of a Matrix Market file are fixed"):
        read_events(path, source=1)
    with pytest.raises(InputError, match="a matrix of the field 'pattern' has no values"):
        read_events(path, weight="weight")


@pytest.mark.parametrize("ending", ["gz", "xz"])
@pytest.mark.parametrize("name", ["e.txt", "e.csv", "e.mtx"])
def test_compressed_files(tmp_path: Path, name: str, ending: str) -> None:
    matrix = f"{BANNER} pattern general\n2 2 1\n1 2\n".encode()
    text = {"e.txt": b"0 1\n", "e.csv": b"a,b\n0,1\n", "e.mtx": matrix}[name]
    packed = gzip.compress(text) if ending == "gz" else lzma.compress(text)
    assert pairs(read_events(write(tmp_path, packed, f"{name}.{ending}"))) == [(0, 1)]


def test_a_fault_in_a_compressed_file_has_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(b"0 1\n1 -2\n"), "e.txt.gz")
    with pytest.raises(FileFormatError, match=r"e.txt.gz:2: destination -2 is negative"):
        read_events(path)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_a_file_cut_short_is_refused(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    packed = compress(b"0 1\n" * 999)
    with pytest.raises(FileFormatError, match="damaged or cut short"):
        read_events(write(tmp_path, packed[:-12], "cut"))


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_events(tmp_path / "nothing.txt")
    assert str(caught.value) == f"read_events: no file {str(tmp_path / 'nothing.txt')!r}"
    with pytest.raises(InputError, match=r"cannot open .*: Is a directory"):
        read_events(tmp_path)


class TestParquet:
    @pytest.fixture
    def arrow(self):
        import pyarrow.parquet

        return pyarrow

    @staticmethod
    def save(arrow, folder: Path, **columns: object) -> Path:
        path = folder / "e.parquet"
        arrow.parquet.write_table(arrow.table(columns), path)
        return path

    def test_columns_and_times(self, arrow, tmp_path: Path) -> None:
        when = np.array(["2004-02", "2004-01"], dtype="datetime64[ms]")
        path = self.save(arrow, tmp_path, x=[0.5, 1.5], target=[1, 3], source=[0, 2], t=when)
        events = read_events(path, weight="x", time=3)
        assert pairs(events) == [(2, 3), (0, 1)]
        assert events.weight is not None
        assert events.weight.tolist() == [1.5, 0.5]
        assert events.time is not None
        assert events.time.dtype == np.dtype("datetime64[ns]")

    @pytest.mark.parametrize("times", [[2, 1], [2.5, 1.5], ["2004-02", "2004-01"]])
    def test_other_times(self, arrow, tmp_path: Path, times: list) -> None:
        path = self.save(arrow, tmp_path, source=np.array([0, 2], np.uint8), dst=[1, 3], t=times)
        assert pairs(read_events(path, time="t")) == [(2, 3), (0, 1)]

    def test_explicit_changes(self, arrow, tmp_path: Path) -> None:
        path = self.save(arrow, tmp_path, src=[0, 0], dst=[1, 1], op=["+", "-"], w=[1.0, None])
        events = read_events(path, op="op", weight="w")
        assert events.op is not None
        assert events.op[1] == OP_DELETE

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"src": [0, -1], "dst": [1, 2]}, "`source` has -1 at row 1, which is negative"),
            ({"src": [0, 2**31 - 1], "dst": [1, 2]}, "`source` has 2147483647 at row 1, which is too large"),
            (
                {"src": np.array([0, 2**63], np.uint64), "dst": [1, 2]},
                "`source` has 9223372036854775808 at row 1, which is too large",
            ),
            ({"src": [0.0, 1.0], "dst": [1, 2]}, "`source` is float64; vertex ids must be integers"),
            ({"src": ["a", "b"], "dst": [1, 2]}, "`source` has 'a' (str) at row 0; vertex ids are integers"),
            ({"src": [0, None], "dst": [1, 2]}, "column `source` has 1 nulls, the first at row 1; wanted none"),
            (
                {"src": [0, 1], "dst": [1, 2], "w": [0.5, float("nan")]},
                "`weight` is NaN at row 1; a weight must be a number",
            ),
            ({"src": [0, 1], "dst": [1, 2], "w": ["x", "y"]}, "`weight` is string; a weight must be a number"),
            ({"src": [0, 1], "dst": [1, 2], "t": ["x", "y"]}, "`time` has 'x' at row 0; wanted ISO dates"),
            ({"src": [0, 1], "dst": [1, 2], "t": [0.5, float("nan")]}, "`time` has a null at row 1; wanted none"),
            (
                {"src": [0, 1], "dst": [1, 2], "t": [datetime.time(1)] * 2},
                "`time` is time64[us]; times are integers, date-times, dates or ISO texts",
            ),
            ({"src": [0, 1], "dst": [1, 2], "t": [True, False]}, "`time` is bool; times are integers"),
            (
                {"src": [0, 1], "dst": [1, 2], "t": np.array([1, 2**63 + 5], np.uint64)},
                "`time` has 9223372036854775813; times go to 9223372036854775807",
            ),
            ({"src": [0, 1], "dst": [1, 2], "op": ["+", "?"]}, "`op` is '?' at row 1; wanted '+' or 'insert'"),
        ],
    )
    def test_faults_have_their_row(self, arrow, tmp_path: Path, columns: dict, message: str) -> None:
        path = self.save(arrow, tmp_path, **columns)
        options = {key: name for key, name in (("weight", "w"), ("time", "t"), ("op", "op")) if name in columns}
        with pytest.raises(FileFormatError) as caught:
            read_events(path, **options)
        assert f"{path}: {message}" in str(caught.value)

    @pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
    def test_texts_are_numbered(self, arrow, tmp_path: Path, kind: str) -> None:
        payers = arrow.array(["ann", " bob", "ann"], None if kind == "dictionary" else getattr(arrow, kind)())
        columns = {"payer": payers, "payee": arrow.array([7, 8, 7])}
        if kind == "dictionary":
            columns["payer"] = payers.dictionary_encode()
        try:
            path = self.save(arrow, tmp_path, **columns)
        except arrow.ArrowNotImplementedError:  # string_view, before pyarrow 21
            pytest.skip(f"this pyarrow writes no {kind} into Parquet files")
        events = read_events(path, renumber=True)
        assert events.ids is not None
        assert events.ids.tolist() == ["ann", "7", " bob", "8"]
        assert pairs(events) == [(0, 1), (2, 3), (0, 1)]

    def test_large_ids_are_numbered(self, arrow, tmp_path: Path) -> None:
        path = self.save(arrow, tmp_path, src=np.array([2**64 - 1, 5], np.uint64), dst=[5, 2**63 - 1])
        events = read_events(path, renumber=True)
        assert events.ids is not None
        assert events.ids.tolist() == [2**64 - 1, 5, 2**63 - 1]
        assert pairs(events) == [(0, 1), (1, 2)]

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"src": ["ann", None], "dst": [1, 2]}, "`source` has a null at row 1"),
            ({"src": ["ann", "bob"], "dst": [1.0, 2.0]}, "`destination` is float64; vertex ids must be integers"),
            ({"src": [0.5, 1.0], "dst": [1, 2]}, "`source` is float64; vertex ids must be integers"),
            ({"src": [0, -1], "dst": [1, 2]}, "`source` has -1 at row 1, which is negative"),
        ],
    )
    def test_what_is_no_id_is_refused(self, arrow, tmp_path: Path, columns: dict, message: str) -> None:
        path = self.save(arrow, tmp_path, **columns)
        with pytest.raises(FileFormatError) as caught:
            read_events(path, renumber=True)
        assert message in str(caught.value)

    def test_a_null_in_a_dictionary_is_refused(self, arrow, tmp_path: Path) -> None:
        names = arrow.DictionaryArray.from_arrays(arrow.array([0, 1, None]), arrow.array(["ann", "bob"]))
        path = self.save(arrow, tmp_path, src=names, dst=[1, 2, 3])
        with pytest.raises(FileFormatError, match="`source` has a null at row 2"):
            read_events(path, renumber=True)

    def test_a_name_twice_is_refused_where_it_is_asked_for(self, arrow, tmp_path: Path) -> None:
        path = tmp_path / "e.parquet"
        column = arrow.array([0, 1])
        table = arrow.Table.from_arrays([column, column, column], names=["src", "dst", "src"])
        arrow.parquet.write_table(table, path)
        with pytest.raises(FileFormatError, match="2 columns are called 'src'; wanted one"):
            read_events(path)

    def test_damaged_pages_are_one_line(self, arrow, tmp_path: Path) -> None:
        path = self.save(arrow, tmp_path, src=list(range(600)), dst=list(range(600)))
        content = bytearray(path.read_bytes())
        content[4:60] = bytes(56)
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="not a Parquet file that can be read"):
            read_events(path)

    def test_weights_that_the_dtype_cannot_hold_are_refused(self, arrow, tmp_path: Path) -> None:
        path = self.save(arrow, tmp_path, src=[0, 1], dst=[1, 2], w=[float("inf"), -1e39])
        with pytest.raises(FileFormatError, match=r"`weight` has -1e\+39 at row 1, which is too large"):
            read_events(path, weight="w", weight_dtype="float32")

    def test_what_only_looks_like_parquet(self, arrow, tmp_path: Path) -> None:
        with pytest.raises(FileFormatError, match="does not start with 'PAR1'"):
            read_events(write(tmp_path, b"0 1\n", "e.parquet"))
        with pytest.raises(FileFormatError, match="not a Parquet file that can be read"):
            read_events(write(tmp_path, b"PAR1 and no more", "e.parquet"))


def test_columns_of_an_event_table_are_equally_long() -> None:
    with pytest.raises(InputError, match="`dst` has shape"):
        EventTable(np.zeros(2, np.int64), np.zeros(3, np.int64))


def test_numbers_of_thousands_of_digits_are_one_line(tmp_path: Path) -> None:
    digits = b"9" * 5000
    banner = b"%%MatrixMarket matrix coordinate pattern general\n"
    with pytest.raises(FileFormatError, match=r"e\.mtx:2: the matrix is 9+ x 3"):
        read_events(write(tmp_path, banner + digits + b" 3 3\n1 2\n", "e.mtx"))
    with pytest.raises(FileFormatError, match=r"e\.graph: 9+ vertices; wanted at most"):
        read_events(write(tmp_path, digits + b" 2\n2\n", "e.graph"))


def test_a_size_line_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    banner = b"%%MatrixMarket matrix coordinate pattern general\n"
    with pytest.raises(FileFormatError, match=r"e\.mtx:2: wanted 'ROWS COLUMNS ENTRIES'"):
        read_events(write(tmp_path, banner + b"\xff\xfe 3 4\n", "e.mtx"))


def test_matrices_with_ids_far_apart_are_numbered(tmp_path: Path) -> None:
    banner = b"%%MatrixMarket matrix coordinate pattern general\n"
    path = write(tmp_path, banner + b"2147483646 2147483646 1\n2147483646 1\n", "e.mtx")
    events = read_events(path, renumber=True)
    assert events.ids is not None
    assert (events.ids.tolist(), events.num_vertices) == ([2147483645, 0], 2)
