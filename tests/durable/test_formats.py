"""Folders of older formats are opened; newer ones are refused, and so are manifests of wrong content."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import dynstore
from dynstore.durable import folder as folders
from dynstore.errors import DynstoreError, SavedGraphError
from tests.durable.scenes import FAST, opened

OLD = Path(__file__).parent / "database-format-2"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with opened(tmp_path / "db", FAST) as db:
        db.graph.insert_edges([(0, 1)])
        db.checkpoint()
    return tmp_path / "db"


def rewrite(folder: Path, **changes: Any) -> None:
    document = {**json.loads((folder / "MANIFEST").read_bytes()), **changes}
    (folder / "MANIFEST").write_bytes(folders._dump(document))


def test_a_database_of_format_2_is_opened_and_goes_on(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "db")
    for step in range(2):
        with opened(tmp_path / "db", FAST) as db:
            G = db.graph
            assert (G.version, db.position, db.recovery.checkpoint, db.recovery.records) == (
                4 + step,
                b"offset 17",
                1,
                3 + step,
            )
            assert sorted(G.edge_table().to_numpy()[:, :3].tolist())[:2] == [["Zoë", "ann", 3.0], ["ann", "dan", 0.5]]
            assert db.at(1).number_of_edges() == 3
            G.insert_edges((["eve"], ["ann"], [1.0]), time=[1767484800000000000])
        manifest = json.loads((tmp_path / "db" / "MANIFEST").read_bytes())
        assert (manifest["format"], manifest["written_by"]) == (3, f"dynstore {dynstore.__version__}")


def test_a_newer_format_is_named(database: Path) -> None:
    rewrite(database, format=4, written_by="dynstore 7.0")
    message = (
        "open: '.*MANIFEST' has kind 'dynstore-database' and format 4, written by dynstore 7.0; this dynstore reads "
    )
    with pytest.raises(SavedGraphError, match=f"{message}'dynstore-database', formats 2 to 3"):
        dynstore.open(database, device="cpu")
    rewrite(database, format=1)
    with pytest.raises(SavedGraphError, match=r"format 1, written by dynstore 7\.0; this"):
        dynstore.open(database, device="cpu")
    rewrite(database, format="3")
    with pytest.raises(SavedGraphError, match="format '3'"):
        dynstore.open(database, device="cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token": 7}, "the token is 7; wanted 32 digits"),
        ({"token": "\ud800" * 32}, "the token is"),
        ({"token": "../" * 10 + "ab"}, "the token is"),
        ({"checkpoints": []}, "it has no checkpoints"),
        ({"checkpoints": 3}, "it is no manifest"),
        ({"checkpoints": [{"version": 1}]}, "it is no manifest: 'position'"),
        ({"checkpoints": [{"version": -1, "position": None}]}, "the checkpoints have the versions"),
        ({"checkpoints": [{"version": "x", "position": None}]}, "the checkpoints have the versions"),
        ({"checkpoints": [{"version": True, "position": None}]}, "the checkpoints have the versions"),
        ({"checkpoints": [{"version": n, "position": None} for n in (1, 0)]}, "the checkpoints have the versions"),
        ({"checkpoints": [{"version": n, "position": None} for n in (1, 1)]}, "the checkpoints have the versions"),
        ({"checkpoints": [{"version": 1, "position": "xyz"}]}, "it is no manifest"),
        ({"checkpoints": [{"version": 1, "position": 17}]}, "it is no manifest"),
        ({"checkpoints": [{"version": 2**70, "position": None}]}, "ckpt-1180591620717411303424"),
        ({"checkpoints": [{"version": 0, "position": None}, {"version": 9, "position": None}]}, ""),
    ],
)
def test_manifests_that_make_no_sense(changes: dict[str, Any], message: str, database: Path) -> None:
    rewrite(database, **changes)
    if not message:  # a checkpoint that is not there is passed over
        with opened(database, FAST) as db:
            assert (db.graph.version, len(db.recovery.passed_over)) == (1, 1)
        return
    with pytest.raises(SavedGraphError, match=f"open: '.*' is damaged: .*{message}"):
        dynstore.open(database, device="cpu")


@pytest.mark.parametrize("content", [b"[" * 100_000, b"[1]", b"{}", b'"x"', b"\xff", b"", b"3"])
def test_what_is_no_manifest(content: bytes, database: Path) -> None:
    (database / "MANIFEST").write_bytes(content)
    with pytest.raises(SavedGraphError, match="MANIFEST' is damaged: it is no manifest"):
        dynstore.open(database, device="cpu")


def test_files_of_a_log_of_a_newer_format_are_named(database: Path) -> None:
    (segment,) = database.glob("log-*.wal")
    content = bytearray(segment.read_bytes())
    content[8:12] = (2).to_bytes(4, "little")
    segment.write_bytes(content)
    with pytest.raises(SavedGraphError, match=r"log-\d+.wal' is damaged: the head of the file"):
        dynstore.open(database, device="cpu")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", ["MANIFEST", "log-0000000000000001.wal", "ckpt-0000000000000001/manifest.json"])
def test_what_is_no_file_is_not_waited_for(name: str, database: Path) -> None:
    (database / name).unlink()
    os.mkfifo(database / name)
    if name.startswith("ckpt"):
        with opened(database, FAST) as db:
            assert db.recovery.checkpoint == 0
        return
    with pytest.raises(SavedGraphError, match=r"it is no file|there are no files"):
        dynstore.open(database, device="cpu")


@pytest.mark.parametrize("name", ["MANIFEST.part", "log-0000000000000001.wal", "log-0000000000000002.wal", "LOCK"])
def test_links_are_not_written_through(name: str, database: Path, tmp_path: Path) -> None:
    """A folder from elsewhere must not lead writes to other files."""
    other = tmp_path / "other"
    path = database / name
    if path.exists():
        path.rename(other)
    else:
        other.write_bytes(b"mine")
    before = other.read_bytes()
    path.symlink_to(other)
    with pytest.raises(DynstoreError, match=f"{name}'.* is a link"):
        dynstore.open(database, device="cpu")
    assert other.read_bytes() == before
    other.unlink()
    with pytest.raises(DynstoreError, match=f"{name}'.* is a link"):
        dynstore.open(database, device="cpu")
    assert not other.exists()
