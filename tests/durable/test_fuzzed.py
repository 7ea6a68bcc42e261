"""Whatever is changed in a folder, with right checksums: it is refused by one of our errors, or is a sound graph."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.durable import folder as folders
from dynstore.errors import DynstoreError, InputError
from dynstore.graph import saving
from dynstore.testing.invariants import check_graph
from tests.conftest import PROFILE
from tests.durable.crafting import read_raw, write_raw
from tests.durable.fuzzing import change_document, change_records, change_words
from tests.durable.scenes import FAST, KINDS, content, make_update, opened, random_update
from tests.graph.saved.folders import read_manifest, rewrite_columns, rewrite_manifest

CASES = 2000 if PROFILE == "thorough" else 30
GRAPHS = {**KINDS, "windowed": {"weighted": True}, "texts in a window": {"renumber": True}}


def write(folder: Path, kind: str, rng: np.random.Generator) -> None:
    """Write a database with a few updates of each kind."""
    with opened(folder, FAST, **GRAPHS[kind]) as db:
        G = db.graph
        if kind not in KINDS:
            window = dynstore.Window(G, 6)
            for _ in range(4):
                ends = [rng.integers(0, 20, 4) for _ in range(2)]
                named = ends if kind == "windowed" else [[f"v{n}ü" for n in part] for part in ends]
                window.slide((*named, *([rng.random(4)] if G.is_weighted() else [])))
            end = "y" if kind != "windowed" else 3
            columns = {"weight": [1.0, 2.0]} if G.is_weighted() else {}
            G.apply(
                {"op": ["insert", "delete"], "time": [1, 2], "source": [end] * 2, "destination": [end] * 2, **columns}
            )
            return
        while G.version < 10:
            make_update(G, random_update(rng, kind, rows=6))


def is_sound(graph: Any, folder: Path) -> None:
    """Expect a graph whose arrays are right, and which is saved and loaded as it is."""
    check_graph(graph)
    shutil.rmtree(folder, ignore_errors=True)
    graph.save(folder)
    assert content(dynstore.load(folder, "cpu")) == content(graph)


def restored(folder: Path, files: dict[Path, bytes]) -> None:
    """Bring a folder back to what it was."""
    for path in folder.rglob("*"):
        if path.is_file() and path not in files:
            path.unlink()
    for path, before in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(before)


def seeds(rng: np.random.Generator) -> Iterator[np.random.Generator]:
    """Yield the random numbers of each case; each is named by one number, for whoever looks for a fault."""
    for number in rng.integers(2**32, size=CASES):
        yield np.random.default_rng(number)


@pytest.mark.parametrize("kind", GRAPHS)
def test_changed_records(kind: str, tmp_path: Path, rng: np.random.Generator) -> None:
    folder, refused = tmp_path / "db", 0
    write(folder, kind, rng)
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    records = read_raw(folder)
    for draw in seeds(rng):
        restored(folder, files)
        write_raw(folder, change_records(draw, records))
        try:
            with opened(folder, FAST) as db:
                is_sound(db.graph.copy(), tmp_path / "saved")
                found = content(db.graph)
        except (InputError, DynstoreError):
            refused += 1
            continue
        with opened(folder, FAST) as db:
            assert content(db.graph) == found
    assert 0.2 * CASES < refused < 0.98 * CASES


@pytest.mark.parametrize("kind", GRAPHS)
def test_changed_checkpoints(kind: str, tmp_path: Path, rng: np.random.Generator) -> None:
    write(tmp_path / "db", kind, rng)
    folder, refused = tmp_path / "graph", 0
    with opened(tmp_path / "db", FAST) as db:
        db.graph.save(folder)
        wanted = content(db.graph)
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    manifest = read_manifest(folder)
    del manifest["checksum"]
    for draw in seeds(rng):
        restored(folder, files)
        parts = [part for part in manifest["parts"] if part["bytes"]]
        if not parts or draw.integers(2):  # a graph may have lost all its edges
            changed = change_document(draw, manifest)
            changed["checksum"] = saving._checksum(saving._dump(changed))
            (folder / "manifest.json").write_bytes(saving._dump(changed))
        else:
            part = parts[draw.integers(len(parts))]
            words = change_words(draw, (folder / part["file"]).read_bytes())
            rewrite_columns(folder, **{part["name"]: np.frombuffer(words, part["dtype"])})
        try:
            graph = dynstore.load(folder, "cpu")
        except DynstoreError:
            refused += 1
            continue
        is_sound(graph, tmp_path / "again")
    assert refused > 0.2 * CASES
    restored(folder, files)
    rewrite_manifest(folder)
    assert content(dynstore.load(folder, "cpu")) == wanted


def test_changed_manifests(tmp_path: Path, rng: np.random.Generator) -> None:
    folder = tmp_path / "db"
    write(folder, "int32", rng)
    with opened(folder, FAST) as db:
        db.checkpoint()
        wanted = content(db.graph)
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    document = json.loads((folder / "MANIFEST").read_bytes())
    for draw in seeds(rng):
        restored(folder, files)
        changed = change_document(draw, document)
        if isinstance(changed, dict):
            (folder / "MANIFEST").write_bytes(folders._dump(changed))
        try:
            with opened(folder, FAST) as db:
                assert content(db.graph) == wanted
        except DynstoreError:
            continue
