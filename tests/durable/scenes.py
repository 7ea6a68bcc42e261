"""Random updates, what a graph is after them, and a disk that loses its power."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dynstore import Database, DynamicGraph
from dynstore.durable.log import Sync
from dynstore.errors import InputError
from dynstore.files import FILES, Buffer, Files

KINDS: dict[str, dict[str, Any]] = {
    "int32": {},
    "int64": {"vertex_dtype": "int64", "weighted": True, "weight_dtype": "float64", "directed": False},
    "sparse": {"renumber": True, "reuse_ids": True, "weighted": True},
    "timed": {"timestamps": "int64", "edge_columns": {"id": "int64"}, "directed": False},
    "events": {"multigraph": True, "weighted": True, "timestamps": "int64", "edge_columns": {"id": "int64"}},
    "strings": {"renumber": True, "edge_columns": {"id": "int64", "x.text": "uint8"}, "weighted": True},
}
Update = tuple[str, tuple[Any, ...], dict[str, Any]]


def named(kind: str, numbers: Any) -> Any:
    """Return ids of a kind."""
    if kind == "strings":
        return [f"vertex {number} ü" for number in numbers]
    return np.asarray(numbers) * (2**40 + 1 if kind == "sparse" else 1)


def random_update(rng: np.random.Generator, kind: str, rows: int = 20) -> Update:
    """Return a call of one of the graph's methods; some calls are refused."""
    options, count = KINDS[kind], int(rng.integers(0, rows))
    ends = tuple(named(kind, rng.integers(0, 30, count)) for _ in range(2))
    weights = (rng.integers(0, 9, count) / 4,) if options.get("weighted") else ()
    extra = tuple(rng.integers(0, 99, count) for _ in options.get("edge_columns", ()))
    times = (rng.integers(0, 50, count),) if options.get("timestamps") else ()
    edges = (*ends, *weights, *extra, *times)
    choice = int(rng.integers(0, 12))
    if options.get("multigraph") and choice in (3, 5, 6, 7):
        ids = rng.integers(0, 400, count)
        if choice == 3:
            return "insert_edges", (edges,), {"edge_id": np.unique(rng.integers(0, 10**6, 2 * count))[:count]}
        if choice == 5:
            return "delete_edges", (), {"edge_ids": ids}
        if choice == 6:
            return "delete_edges", (ends,), {"which": ("oldest", "newest")[count % 2]}
        return "update", (edges,), {"edge_ids": ids}
    if times and choice > 9:
        bound = int(rng.integers(0, 25))
        if choice == 10:
            return "expire", (bound,), {}
        return "update", (edges[:-1], ends), {"expire_before": bound, "time": times[0]}
    if choice < 4:
        return "insert_edges", (edges,), {}
    if choice < 6:
        return "delete_edges", (ends,), {}
    if choice == 6:
        return "update", (), {"insert": edges, "delete": ends}
    if choice == 7:
        return "insert_edges", (edges,), {"on_duplicate": "add"}
    if choice == 8:
        return "insert_vertices", (named(kind, rng.integers(0, 40, 3)),), {}
    if choice == 9:
        return "delete_vertices", (named(kind, rng.integers(0, 30, 2)),), {}
    if choice == 10:
        return ("reorder", (), {"threshold": 0.5}) if options.get("renumber") else ("delete_edges", (ends,), {})
    return ("clear", (), {}) if not rng.integers(0, 4) else ("insert_edges", ((ends[0], [0.5]),), {})  # refused


def make_update(graph: DynamicGraph, update: Update) -> bool:
    """Make an update; return False if it is refused."""
    name, args, kwargs = update
    try:
        getattr(graph, name)(*args, **kwargs)
    except InputError:
        return False
    return True


def content(graph: DynamicGraph) -> dict[str, Any]:
    """Return all that makes a graph equal to another."""
    state = graph.core.state().moved(graph.core.backend.to_host)
    columns = {name: (str(array.dtype), array.tolist()) for name, array in state.columns.items()}
    options = {name: value for name, value in state.options.items() if name not in ("capacity", "frames")}
    return {"version": state.version, "vertices": state.num_vertices, "options": options, **columns}


class Fast(Files):
    """Files that need not survive a power loss."""

    def sync(self, file: int) -> None:
        pass

    def sync_folder(self, path: Path) -> None:
        pass


FAST = Fast()


@contextmanager
def opened(
    path: Path, files: Files = FILES, sync: Sync = "commit", keep: int = 2, device: str = "cpu", **options: Any
) -> Iterator[Database]:
    """Open a database on some files; one that a fault has killed is closed without a word."""
    database = Database(path, sync, 1 << 40, keep, {"device": device, **options}, files)
    try:
        yield database
    finally:
        if database._log.is_dead:
            database._log.close()
        else:
            database.close()
        database.close()


# ---------------------------------------------------------------------- power


class Node:
    """A file or a folder as the disk has it, and what was not synced yet."""

    def __init__(self, is_folder: bool) -> None:
        self.is_folder = is_folder
        self.bytes = bytearray()
        self.names: dict[str, Node] = {}
        self.pending: list[tuple[Any, ...]] = []


Operation = tuple[Any, ...]
# Functions that sync for another one.
BETWEEN = ("<lambda>", "_or_dead", "write_new", "sync")


class Recording(Fast):
    """Files that note what is done to them, in ``operations``, and which functions sync, in ``sites``.

    ``drop`` leaves out the syncs of one function: "_sync_now:sync".
    """

    def __init__(self, drop: str = "") -> None:
        self.operations: list[Operation] = []
        self.drop, self.sites = drop, set[str]()

    def note(self, *operation: Any) -> None:
        self.operations.append(operation)

    def create(self, path: Path) -> int:
        file = super().create(path)
        self.note("create", path, file)
        return file

    def open(self, path: Path) -> int:
        file = super().open(path)
        self.note("open", path, file)
        return file

    def close(self, file: int) -> None:
        self.note("close", file)
        super().close(file)

    def write(self, file: int, offset: int, buffers: Sequence[Buffer]) -> int:
        self.note(
            "write", file, offset, b"".join(bytes(memoryview(buffer).cast("B")) for buffer in buffers if len(buffer))
        )
        return super().write(file, offset, buffers)

    def cut(self, file: int, size: int) -> None:
        self.note("cut", file, size)
        super().cut(file, size)

    def sync(self, file: int) -> None:
        if not self._is_dropped("sync"):
            self.note("sync", file)

    def sync_folder(self, path: Path) -> None:
        if not self._is_dropped("sync_folder"):
            self.note("sync_folder", path)

    def _is_dropped(self, method: str) -> bool:
        frame = sys._getframe(2)
        while frame.f_code.co_name in BETWEEN and frame.f_back is not None:
            frame = frame.f_back
        site = f"{frame.f_code.co_name}:{method}"
        self.sites.add(site)
        return site == self.drop

    def make_folder(self, path: Path) -> None:
        self.note("make_folder", path)
        super().make_folder(path)

    def rename(self, path: Path, target: Path) -> None:
        super().rename(path, target)
        self.note("rename", path, target)

    def remove(self, path: Path) -> None:
        self.note("remove", path)
        super().remove(path)

    def remove_folder(self, path: Path) -> None:
        if path.is_dir():
            for name in sorted(path.iterdir()):
                self.note("remove", name)
            self.note("remove", path)
        super().remove_folder(path)


# Of an operation that was not synced, and the number of those on the same file or folder that came after it: which part
# of it the disk has, 0 to 1.
Keep = Callable[[Operation, int], float]


class Disk:
    """The files of a program, of which a power loss keeps what was synced, and some of the rest."""

    def __init__(self, root: Path) -> None:
        self.root, self.top = root, Node(True)
        self._files: dict[int, Node] = {}
        self._seen: dict[int, dict[str, Node]] = {}  # the names in each folder as programs see them, by its id

    def _names(self, folder: Node) -> dict[str, Node]:
        return self._seen.setdefault(id(folder), {})

    def _find(self, path: Path) -> Node:
        node = self.top
        for name in path.relative_to(self.root).parts:
            node = self._names(node)[name]
        return node

    def apply(self, operation: Operation) -> None:
        """Follow one operation."""
        kind, *rest = operation
        if kind in ("create", "make_folder", "remove"):
            path = rest[0]
            folder = self._find(path.parent)
            names = self._names(folder)
            if kind == "remove":
                del names[path.name]
                folder.pending.append(("remove", path.name))
            elif path.name not in names:
                node = names[path.name] = Node(kind == "make_folder")
                folder.pending.append(("add", path.name, node))
            else:
                names[path.name].pending.append(("cut", 0))
            if kind == "create":
                self._files[rest[1]] = names[path.name]
        elif kind == "open":
            self._files[rest[1]] = self._find(rest[0])
        elif kind == "rename":
            folder, target = self._find(rest[0].parent), self._find(rest[1].parent)
            node = self._names(folder).pop(rest[0].name)
            self._names(target)[rest[1].name] = node
            if folder is target:
                folder.pending.append(("rename", rest[0].name, rest[1].name, node))
            else:  # either may be lost alone
                folder.pending.append(("remove", rest[0].name))
                target.pending.append(("add", rest[1].name, node))
        elif kind in ("write", "cut"):
            self._files[rest[0]].pending.append((kind, *rest[1:]))
        elif kind == "sync":
            _settle(self._files[rest[0]])
        elif kind == "failed_sync":  # programs still see what was written, but the disk will never have it
            self._files[rest[0]].pending = []
        elif kind == "sync_folder":
            _settle(self._find(rest[0]))

    def lose_power(self, target: Path, keep: Keep) -> None:
        """Write to a folder what is left."""
        _write(self.top, target, keep)


def _settle(node: Node) -> None:
    for operation in node.pending:
        _do(node, operation, 1.0)
    node.pending = []


def _do(node: Node, operation: Operation, part: float) -> None:
    kind, *rest = operation
    if kind == "write":
        offset, written = rest
        written = written[: int(len(written) * part)]
        node.bytes.extend(bytes(max(0, offset + len(written) - len(node.bytes))))
        node.bytes[offset : offset + len(written)] = written
    elif kind == "cut":
        del node.bytes[rest[0] :]
    elif kind == "add":
        node.names[rest[0]] = rest[1]
    elif kind == "remove":
        node.names.pop(rest[0], None)
    else:
        node.names.pop(rest[0], None)
        node.names[rest[1]] = rest[2]


def _write(node: Node, path: Path, keep: Keep) -> None:
    left = Node(node.is_folder)
    left.bytes, left.names = bytearray(node.bytes), dict(node.names)
    for number, operation in enumerate(node.pending, start=1):
        part = keep(operation, len(node.pending) - number)
        if part:
            _do(left, operation, part)
    if not left.is_folder:
        path.write_bytes(left.bytes)
        return
    path.mkdir(exist_ok=True)
    for name, child in left.names.items():
        _write(child, path / name, keep)
