"""A database's folder: which files there are, how the graph comes back from them, how checkpoints get there.

- ``MANIFEST``: JSON with the log's token, the checkpoints (version, the position of the update's source), the version
  of dynstore that has written it, and a checksum. It is replaced as a whole. Format 2 did not say who wrote it, and its
  records did not say whether times were date-times.
- ``ckpt-<version>``: the graph at that version, as :meth:`dynstore.DynamicGraph.save` writes it.
- ``log-<first>.wal``: the updates since the oldest checkpoint; see :mod:`dynstore.durable.log`.
- ``LOCK``: locked while the folder is open.
"""

from __future__ import annotations

import json
import re
import secrets
import zlib
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from dynstore.durable.growth import working_time
from dynstore.durable.locking import LOCK
from dynstore.durable.log import SEGMENT_HEAD, segment_name
from dynstore.durable.reading import LogReader, damaged, list_segments
from dynstore.durable.replaying import replay
from dynstore.errors import InputError, SavedGraphError, shown
from dynstore.graph import DynamicGraph
from dynstore.graph.saving import MISREAD, read_regular, read_state, write_state
from dynstore.graph.state import made_of_state

if TYPE_CHECKING:
    from dynstore.files import Files
    from dynstore.graph.core import GraphState
    from dynstore.typing import Device, Frames

__all__ = [
    "MANIFEST",
    "Checkpoint",
    "Manifest",
    "Recovery",
    "Restored",
    "add_checkpoint",
    "make_folder",
    "read_manifest",
    "refuse_links",
    "refuse_others",
    "restore",
    "tidy",
]

MANIFEST, PART = "MANIFEST", ".part"
KIND, FORMAT, OLDEST = "dynstore-database", 3, 2
TOKEN = re.compile("[0-9a-f]{32}")


class Checkpoint(NamedTuple):
    """A version that is there as a whole, and the position of its source."""

    version: int
    position: bytes | None

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"ckpt-{self.version:016d}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a database is made of: the token of its log, and its checkpoints, the oldest one first."""

    token: str
    checkpoints: tuple[Checkpoint, ...]

    @classmethod
    def fresh(cls) -> Manifest:
        """Return that of a new database without a checkpoint."""
        return cls(secrets.token_hex(16), ())

    def up_to(self, version: int) -> Manifest:
        """Return one of the checkpoints up to a version."""
        return Manifest(self.token, tuple(each for each in self.checkpoints if each.version <= version))

    def checked(self) -> Manifest:
        """Return it; refuse values that none can have.

        Raises
        ------
        ValueError
        """
        if not isinstance(self.token, str) or not TOKEN.fullmatch(self.token):
            raise ValueError(f"the token is {shown(self.token)}; wanted 32 digits")
        versions = [each.version for each in self.checkpoints]
        if not versions:
            raise ValueError("it has no checkpoints")
        if {*map(type, versions)} != {int} or versions[0] < 0 or versions != sorted(set(versions)):
            raise ValueError(f"the checkpoints have the versions {shown(versions)}; wanted integers that ascend")
        return self

    def write(self, files: Files, folder: Path) -> None:
        """Replace the manifest in a folder; it lasts then."""
        part = folder / (MANIFEST + PART)
        files.write_new(part, _dump(_document(self.token, self.checkpoints)))
        files.rename(part, folder / MANIFEST)
        files.sync_folder(folder)


def _document(token: str, checkpoints: tuple[Checkpoint, ...]) -> dict[str, Any]:
    from dynstore import __version__

    listed = [
        {"version": each.version, "position": None if each.position is None else each.position.hex()}
        for each in checkpoints
    ]
    head = {"kind": KIND, "format": FORMAT, "written_by": f"dynstore {__version__}"}
    return {**head, "token": token, "checkpoints": listed}


def _dump(document: dict[str, Any]) -> bytes:
    """Return a manifest with its checksum as it is written."""
    content = {name: value for name, value in document.items() if name != "checksum"}
    content["checksum"] = f"crc32:{zlib.crc32(json.dumps(content).encode()):08x}"
    return (json.dumps(content, indent=2) + "\n").encode()


def read_manifest(caller: str, folder: Path) -> Manifest:
    """Read the manifest of a database.

    Raises
    ------
    SavedGraphError
        If there is none, or it is damaged or of a newer dynstore.
    """
    file = folder / MANIFEST
    try:
        content = read_regular(file)
    except (FileNotFoundError, NotADirectoryError):
        wanted = "wanted a folder that dynstore.open has made"
        raise SavedGraphError(f"{caller}: no file {str(file)!r}; {wanted}") from None
    except OSError as error:
        raise SavedGraphError(f"{caller}: cannot read {str(file)!r}: {error.strerror or error}") from error
    try:
        document = json.loads(content)
        found = document["kind"], document["format"]
        is_ours = found[0] == KIND and type(found[1]) is int and OLDEST <= found[1] <= FORMAT
        if is_ours and _dump(document) != content:
            raise damaged(caller, file, "it does not match its checksum")
        if is_ours:
            return Manifest(document["token"], tuple(map(_checkpoint, document["checkpoints"]))).checked()
    except SavedGraphError:
        raise
    except MISREAD as error:
        raise damaged(caller, file, f"it is no manifest: {error}") from None
    writer = document.get("written_by", "an unknown dynstore")
    raise SavedGraphError(
        f"{caller}: {str(file)!r} has kind {found[0]!r} and format {found[1]!r}, written by {writer}; this dynstore "
        f"reads {KIND!r}, formats {OLDEST} to {FORMAT}"
    )


def _checkpoint(listed: dict[str, Any]) -> Checkpoint:
    position = listed["position"]
    return Checkpoint(listed["version"], None if position is None else bytes.fromhex(position))


def make_folder(files: Files, path: Path) -> None:
    """Make the folder of a database, unless it is there.

    Raises
    ------
    InputError, FileNotFoundError
        If it cannot be one.
    """
    if path.is_dir():
        return
    if path.exists():
        raise InputError(f"open: {str(path)!r} is a file; wanted a folder")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"open: there is no folder {str(path.parent)!r}; make it first")
    files.make_folder(path)
    files.sync_folder(path.parent)


def refuse_others(path: Path) -> None:
    """Refuse a folder that has more than what a crash leaves of a new database.

    Raises
    ------
    InputError
    """
    known = (LOCK, f"{MANIFEST}.part", segment_name(1))
    for file in path.iterdir():
        left = file.name in known or file.name.startswith((".ckpt-", "ckpt-" + "0" * 16))
        with suppress(OSError):
            left = left and (file.is_dir() or file.stat().st_size <= SEGMENT_HEAD or file.name == known[1])
        if not left:
            raise InputError(
                f"open: {str(path)!r} has no {MANIFEST}, but {file.name!r}; wanted a database, or an empty folder"
            )


def refuse_links(caller: str, folder: Path) -> None:
    """Refuse a folder in which a link would lead what is written to a file elsewhere.

    Raises
    ------
    SavedGraphError
    """
    for path in (folder / LOCK, folder / (MANIFEST + PART), *folder.glob("log-*.wal")):
        if path.is_symlink():
            raise SavedGraphError(f"{caller}: {str(path)!r} is a link; wanted a file in the folder of the database")


# ---------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a graph came back when its folder was opened.

    Attributes
    ----------
    version : int
        The graph's version.
    checkpoint : int
        The version of the checkpoint that was read.
    records : int
        Updates of the log that were made anew.
    bytes_cut : int
        Bytes behind the last whole record, which a crash had left.
    seconds : float
    passed_over : tuple of str
        What was wrong with newer checkpoints; the log was read from an older one on.
    """

    version: int = 0
    checkpoint: int = 0
    records: int = 0
    bytes_cut: int = 0
    seconds: float = 0.0
    passed_over: tuple[str, ...] = ()


class Restored(NamedTuple):
    """A graph that came back: its source's position, and the segment with which the log goes on.

    ``proven``, ``end``: see :class:`~dynstore.durable.reading.LogReader`; so is ``empty``. ``repeated``: the bytes of
    the records that were made anew, and the seconds this took.
    """

    graph: DynamicGraph
    position: bytes | None
    recovery: Recovery
    first: int
    proven: int
    end: int
    empty: list[Path]
    repeated: tuple[int, float]


def restore(
    caller: str, folder: Path, manifest: Manifest, device: Device, frames: Frames | None, until: int | None = None
) -> Restored:
    """Make the graph of a folder at its last version, or at an older one; files stay as they are.

    Raises
    ------
    InputError
        If the log has no such version.
    SavedGraphError
        If what is needed is damaged.
    """
    began = perf_counter()
    reachable = [each for each in manifest.checkpoints if until is None or each.version <= until]
    if not reachable:
        raise InputError(
            f"{caller}: version is {until}; the log reaches back to version {manifest.checkpoints[0].version}"
        )
    checkpoint, graph, passed_over = _newest_graph(caller, folder, reachable, device, frames)
    reader = LogReader(caller, folder, manifest.token, checkpoint.version, until)
    before = working_time()
    made = replay(caller, graph, reader)
    took = working_time() - before
    if until is not None and graph.version != until:
        raise InputError(f"{caller}: version is {until}; the last version is {graph.version}")
    end, cut = reader.end, reader.cut
    if made.refused is not None:
        end, cut = made.refused.start, cut + made.refused.end - made.refused.start
    recovery = Recovery(
        graph.version, checkpoint.version, made.records, cut, perf_counter() - began, tuple(passed_over)
    )
    position = checkpoint.position if made.position is None else made.position
    proven, repeated = min(reader.proven, end), (made.bytes, took)
    return Restored(graph, position, recovery, reader.last.first, proven, end, reader.empty, repeated)


def _newest_graph(
    caller: str, folder: Path, checkpoints: list[Checkpoint], device: Device, frames: Frames | None
) -> tuple[Checkpoint, DynamicGraph, list[str]]:
    """Make the graph of the newest checkpoint that is whole; also return what is wrong with newer ones."""
    problems: list[str] = []
    for checkpoint in reversed(checkpoints):
        try:
            state = read_state(folder / checkpoint.name)
            if frames is not None:
                state.options["frames"] = frames
            if state.version == checkpoint.version:
                return checkpoint, made_of_state(DynamicGraph, folder / checkpoint.name, state, device), problems
            problems.append(f"{checkpoint.name} has version {state.version}")
        except SavedGraphError as error:
            problems.append(str(error))
    raise damaged(caller, folder, "; ".join(problems))


# ---------------------------------------------------------------------- writing


def add_checkpoint(
    files: Files, folder: Path, manifest: Manifest, state: GraphState, position: bytes | None, keep: int
) -> Manifest:
    """Write a state that is on the host as the newest checkpoint; it lasts then. Return the manifest that says so."""
    checkpoint = Checkpoint(state.version, position)
    if checkpoint.version not in [each.version for each in manifest.checkpoints]:
        files.remove_folder(folder / checkpoint.name)  # one that was not finished
        write_state(state, folder / checkpoint.name, False, files)
        manifest = Manifest(manifest.token, (*manifest.checkpoints, checkpoint)[-keep:])
        manifest.write(files, folder)
    return manifest


def tidy(files: Files, folder: Path, manifest: Manifest) -> None:
    """Remove what no version needs that the manifest reaches: older checkpoints and segments, and what crashes left."""
    kept = {each.name for each in manifest.checkpoints}
    for path in [*folder.glob("ckpt-*"), *folder.glob(".ckpt-*.saving")]:
        if path.name not in kept:
            files.remove_folder(path)
    segments = list_segments(folder)
    for segment, following in pairwise(segments):
        if following.first <= manifest.checkpoints[0].version + 1:
            files.remove(segment.path)
