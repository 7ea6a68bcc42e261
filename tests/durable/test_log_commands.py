"""``dynstore log`` and ``dynstore export``: what they show and write; one line for each fault."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dynstore import DynamicGraph, cli
from tests.durable.scenes import FAST, content, opened


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run the command in this process; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["dynstore", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "pay[1]"
    with opened(path, FAST, directed=False, weighted=True, renumber=True) as db:
        for number in range(25):
            with db.positioned(b"%d" % number):
                db.graph.insert_edges((["ann", f"v{number}"], ["bob", "ann"], [float(number), 1.0]))
            if number == 9:
                db.checkpoint()
        db.graph.delete_edges((["ann"], ["bob"]))
    return path


def test_log(command: Any, folder: Path) -> None:
    code, out, err = command("log", str(folder))
    assert (code, err) == (0, "")
    assert "the last 20 records" in out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert [row[0] for row in rows] == [str(version) for version in range(7, 27)]
    assert rows[-1][1:2] + rows[-1][3:] == ["1", "delete_edges", "-"]
    assert rows[-2][3:] == ["insert_edges", "24"]
    size = sum(path.stat().st_size - 64 for path in folder.glob("*.wal"))
    assert f"26 records: 1 delete_edges, 25 insert_edges; 51 rows, {size / 1e6:.3g} MB" in out
    assert "checkpoints: 0, 10; last version: 26" in out
    assert len(command("log", str(folder), "--last", "0")[1].splitlines()) == len(out.splitlines()) + 6 - 1  # no title


def test_log_beside_a_process_that_writes(command: Any, tmp_path: Path) -> None:
    with opened(tmp_path / "db", FAST) as db:
        code, out, _ = command("log", "db")
        assert (code, out) == (0, "0 records: none; 0 rows, 0 MB\ncheckpoints: 0; last version: 0\n")
        db.graph.insert_edges([(0, 1)])
        with (tmp_path / "db" / "log-0000000000000001.wal").open("ab") as file:
            file.write(b"torn")
        assert "4 bytes behind the last record are not whole" in command("log", "db")[1]
        db._log.kill("test")


def test_export(command: Any, folder: Path, tmp_path: Path) -> None:
    code, out, err = command("export", str(folder), "--to", "parquet")
    assert (code, out, err) == (0, "wrote pay[1].parquet: 25 edges of version 26\n", "")
    with opened(folder, FAST) as db:
        wanted, older = content(db.graph), content(db.at(12))
    table = pq.read_table(tmp_path / "pay[1].parquet")
    G = DynamicGraph.from_edges(table, device="cpu")  # the table knows the graph's options
    assert set(G.edge_table().itertuples(index=False)) == set(table.to_pandas().itertuples(index=False))
    assert not G.is_directed()
    assert (G.number_of_edges(), wanted["version"]) == (25, 26)
    code, out, _ = command("export", str(folder), "--version", "12", "--output", "older.parquet")
    assert (code, out) == (0, "wrote older.parquet: 13 edges of version 12\n")
    weights = pq.read_table(tmp_path / "older.parquet")["weight"].to_pylist()
    assert sorted(weights) == [1.0] * 12 + [11.0]
    assert older["version"] == 12
    assert {path.name for path in tmp_path.iterdir()} == {"pay[1]", "pay[1].parquet", "older.parquet"}


def test_exports_of_every_kind_of_graph(command: Any, tmp_path: Path) -> None:
    with opened(tmp_path / "db", FAST, edge_columns={"n": "int16"}) as db:
        db.graph.insert_edges([(0, 1, 5), (1, 2, 6)])
        assert command("export", "db", "--output", "e.parquet")[0] == 0
    assert pq.read_table(tmp_path / "e.parquet").to_pydict() == {"source": [0, 1], "destination": [1, 2], "n": [5, 6]}


def test_wrong_calls(command: Any, folder: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (("log", "nothing"), "log: no file 'nothing/MANIFEST'; wanted a folder that dynstore.open has made"),
        (("export", str(folder), "--version", "99"), "export: version is 99; the last version is 26"),
        (("export", str(folder), "--to", "csv"), "'csv' is not"),
        (("export", str(folder), "--output", "no/such.parquet"), "cannot write 'no/such.parquet': No such file"),
    ):
        code, out, err = command(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("dynstore: error: ")
        assert message in err
        assert err.count("\n") == 1
    (folder / "MANIFEST").write_text("{}")
    assert "MANIFEST' is damaged: it is no manifest" in command("log", str(folder))[2]
    assert not list(tmp_path.glob("*.parquet"))
