"""A graph in a folder, which survives a crash."""

from __future__ import annotations

import logging
import math
import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dynstore.arguments import check_count, check_name, check_number
from dynstore.durable.changes import exchange_as_change
from dynstore.durable.folder import (
    MANIFEST,
    Manifest,
    Recovery,
    add_checkpoint,
    make_folder,
    read_manifest,
    refuse_links,
    refuse_others,
    restore,
    tidy,
)
from dynstore.durable.graph import DurableGraph
from dynstore.durable.growth import CHECKPOINT_SECONDS, LogGrowth
from dynstore.durable.locking import lock_folder
from dynstore.durable.log import SYNC, Log, Sync
from dynstore.durable.records import KINDS, encode
from dynstore.errors import InputError, InputTypeError, LogError, type_name
from dynstore.files import FILES, Files
from dynstore.graph import DynamicGraph
from dynstore.interrupts import MemoryChecked, Uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynstore.durable.folder import Restored
    from dynstore.durable.records import LoggedUpdate
    from dynstore.graph.core import GraphState
    from dynstore.ids.base import RenumberingPlan
    from dynstore.input.columns import EdgeColumns
    from dynstore.typing import Device

__all__ = ["Database", "open_database"]

R = TypeVar("R")
# Options that need not be those of the folder.
FREE = ("device", "frames", "capacity", "first_edge_id")
# Updates that change nothing of the graph before they call `Transaction.await_record`.
PLANNED = ("insert_edges", "delete_edges", "update", "expire", "slide", "apply")
_log = logging.getLogger("dynstore")


def open_database(
    path: str | os.PathLike[str],
    sync: Sync = "commit",
    checkpoint_bytes: int = 1 << 30,
    keep: int = 2,
    device: Device = "auto",
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    **graph_options: Any,
) -> Database:
    """Open a graph that lives in a folder and survives a crash; ``dynstore.open``.

    Each update of ``db.graph`` is written to a log before the graph changes. When the folder is opened again, the graph
    is made from the newest checkpoint and the log. Only one process may have the folder open.

    Parameters
    ----------
    path : str or path
        The folder. It is made if it is not there; the folder around it must be there. "~" is the home folder.
    sync : {"commit", "group", "os"}
        Which updates survive a power failure. All updates survive the end of the process, even by ``kill -9``.

        - "commit": every update that has returned;
        - "group": those up to :attr:`Database.durable_version`. A thread syncs the log about every 10 ms, and an update
          waits only if 64 MB are not synced. After :meth:`Database.flush` all updates survive;
        - "os": those before the last :meth:`Database.flush` or checkpoint, and later ones if the operating system has
          written them.
    checkpoint_bytes : int
        Write a checkpoint, in the background, when the log has grown by so many bytes, or by ``checkpoint_seconds``.
    keep : int
        How many checkpoints to keep. The log reaches back to the oldest of them.
    device : {"auto", "cpu", "cuda"}
        The device of the graph. It may be another one than before.
    checkpoint_seconds : float
        The time that the updates since the last checkpoint took, without compiling and waiting for the disk: about what
        repeating them takes when the folder is opened again. At least ten times as long as copying the graph takes.
    **graph_options
        Parameters of :class:`DynamicGraph`, for a folder that is new. For another one they may be left out; if given,
        they must be those of its graph. ``frames`` may differ; ``capacity`` is not used then.

    Returns
    -------
    Database
        A context manager; see there.

    Raises
    ------
    LogError
        If the folder is open already, in this process or another one.
    InputError
        If the folder is no database and not empty, or its graph has other options.
    SavedGraphError
        If it is damaged. Nothing is changed then.
    OSError
        If it cannot be written.

    Examples
    --------
    >>> import dynstore, tempfile
    >>> folder = tempfile.mkdtemp() + "/payments"
    >>> with dynstore.open(folder, device="cpu") as db:
    ...     _ = db.graph.insert_edges([(0, 1), (1, 2)])
    >>> with dynstore.open(folder, device="cpu") as db:
    ...     print(db.graph.number_of_edges(), db.recovery.records)
    2 1
    """
    options = {"device": device, **graph_options}
    return Database(path, sync, checkpoint_bytes, keep, options, checkpoint_seconds=checkpoint_seconds)


class Database:
    """A graph in a folder; made by :func:`dynstore.open`.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    sync : str
    graph : DynamicGraph
        Its updates are logged. Read and change it like any other graph.
    recovery : Recovery
        How the graph came back.

    Notes
    -----
    If an update raises, neither the graph nor the log has it. If the log cannot be synced, written data may be lost,
    and a second sync would not show that. So all further updates raise :class:`LogError`; the graph can still be read.
    Open the folder again to go on.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        sync: Sync,
        checkpoint_bytes: int,
        keep: int,
        graph_options: dict[str, Any],
        files: Files = FILES,
        checkpoint_seconds: float = math.inf,
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InputTypeError(f"open: path is a {type_name(path)}; wanted a str or a path")
        check_name("open", "sync", sync, SYNC)
        seconds = check_number("open", "checkpoint_seconds", checkpoint_seconds, least=0)
        self._growth = LogGrowth(_positive("checkpoint_bytes", checkpoint_bytes), seconds)
        self._keep = _positive("keep", keep)
        self.path, self.sync = Path(os.path.expanduser(path)).absolute(), sync
        self.updating = False  # whether an update is being made, whose parts are not logged
        self.meanwhile: Callable[[], None] | None = None  # reads the graph while a record is written
        self.recovery = Recovery()
        self._files, self._device = files, graph_options["device"]
        self._process = os.getpid()  # a forked one must not write to the same log
        self._given: bytes = b""  # the position of the update that comes
        self._position: bytes | None = None
        self._turn = Lock()  # held by who removes files of the folder, and by who reads them
        self._checkpointer: Thread | None = None
        if (self.path / MANIFEST).exists():
            graph_options = {**graph_options, "capacity": None}
        empty = DynamicGraph(**graph_options)  # refuses bad options before anything is written
        make_folder(files, self.path)
        if not (self.path / MANIFEST).exists():
            refuse_others(self.path)
        with ExitStack() as undo:
            self._lock = lock_folder("open", self.path)
            undo.callback(self._lock.take_back)
            is_there = (self.path / MANIFEST).exists()
            graph = self._load(empty, graph_options, undo) if is_there else self._begin(empty, undo)
            undo.pop_all()
        self.graph: DynamicGraph = DurableGraph.over(graph, self)

    def _begin(self, graph: DynamicGraph, undo: ExitStack) -> DynamicGraph:
        """Begin with an empty graph in a new folder."""
        refuse_others(self.path)  # another process may have had the folder until now
        fresh = Manifest.fresh()
        self._log = Log(self._files, self.path, fresh.token, self.sync)
        undo.callback(self._log.close)
        self._log.begin(graph.version)
        state = graph.core.state().moved(graph.core.backend.to_host)
        self._manifest = add_checkpoint(self._files, self.path, fresh, state, None, self._keep)
        return graph

    def _load(self, empty: DynamicGraph, graph_options: dict[str, Any], undo: ExitStack) -> DynamicGraph:
        """Make the graph of the folder again, and go on with its log."""
        self._manifest = read_manifest("open", self.path)
        refuse_links("open", self.path)
        frames = graph_options.get("frames")
        restored = restore("open", self.path, self._manifest, self._device, frames)
        own, wanted = restored.graph.core.options(), empty.core.options()
        for name in graph_options:
            if name not in FREE and not _same(own.get(name), wanted.get(name)):
                raise InputError(
                    f"open: the graph in {str(self.path)!r} has {name}={own.get(name)!r}; got {wanted.get(name)!r}"
                )
        for path in restored.empty:
            self._files.remove(path)
        self._log = Log(self._files, self.path, self._manifest.token, self.sync)
        undo.callback(self._log.close)
        self._log.go_on(restored.first, restored.proven, restored.end, restored.graph.version)
        self._position, self.recovery = restored.position, restored.recovery
        self._growth.go_on(*restored.repeated)
        self._manifest.write(self._files, self.path)  # a sync of it may have failed, too
        tidy(self._files, self.path, self._manifest)
        self._manifest = self._manifest.up_to(self.recovery.checkpoint)  # newer ones are damaged: they do not count
        return restored.graph

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({str(self.path)!r}, sync={self.sync!r}, {self.graph!r})"

    # ------------------------------------------------------------------ what is there

    @property
    def position(self) -> bytes | None:
        """The position that was stored with an update last; None if there is none."""
        return self._position

    @property
    def durable_version(self) -> int:
        """The newest version that is known to survive a power loss."""
        return self._log.durable

    @property
    def logged_bytes(self) -> int:
        """Bytes that the log has taken in since the folder was opened."""
        return self._log.appended

    @contextmanager
    def positioned(self, position: bytes) -> Iterator[None]:
        """Store the position of a source together with the updates of a ``with`` block, in the same record of the log.

        After a crash, :attr:`position` is that of the last update that survived. A program that goes on reading there
        loses nothing, and repeats nothing.

        Parameters
        ----------
        position : bytes
            Any bytes, at least one.

        Raises
        ------
        InputError
            If ``position`` is not bytes, or is empty.
        """
        self._refuse_forked("positioned")
        if not isinstance(position, bytes) or not position:
            raise InputError(f"positioned: position is {position!r}; wanted bytes, at least one")
        outer, self._given = self._given, position
        try:
            yield
        finally:
            self._given = outer

    def at(self, version: int) -> DynamicGraph:
        """Return a copy of the graph as it was, made from a checkpoint and the log.

        Parameters
        ----------
        version : int
            From that of the oldest checkpoint on, up to the present one.

        Returns
        -------
        DynamicGraph
            Its updates are not logged.

        Raises
        ------
        InputError
            If the log does not reach back so far.
        """
        return self.restored_at(version).graph

    def restored_at(self, version: int) -> Restored:
        """Return a version as :meth:`at` does, with the position that was stored with it."""
        self._refuse_forked("at")
        wanted = check_count("at", "version", version)
        with self._turn:
            return restore("at", self.path, self._manifest, self._device, self.graph.core.frames, wanted)

    # ------------------------------------------------------------------ updates

    def make(self, change: LoggedUpdate, update: Callable[[], R]) -> R:
        """Log an update, then make it. If it raises, its record is cut off again.

        While the record is written, :attr:`meanwhile` is called, and the update is planned: it calls
        :meth:`await_record` before it writes. So the graph never has a version that the log does not have.
        """
        log, graph, before = self._log, self.graph, self.graph.version
        self._refuse_forked(change.kind)
        if before != log.version:
            log.kill(f"the graph has version {before} by an update that was not logged")
        log.check(change.kind)
        change.position = self._given
        with MemoryChecked(change.kind):
            record = encode(change, before + 1, log.durable, log.seed)
        with Uninterrupted():
            log.start(record)
            try:
                if self.meanwhile is not None:
                    self.meanwhile()
                if change.kind not in PLANNED:
                    log.wait()
                self.updating = True
                self._growth.begin()
                result = update()
                self.await_record()
            except BaseException:
                is_logged = log.was_appended()
                if graph.version != before:
                    log.kill("an update was made in part")
                if is_logged:
                    log.take_back()
                raise
            finally:
                self.updating = False
            if graph.version == before:  # as a reorder() that finds nothing to do
                log.take_back()
            else:
                self._growth.add(record.size)
                self._position = change.position or self._position
        if self._growth.is_due():
            self._begin_checkpoint()
        return result

    def exchange(
        self,
        caller: str,
        deletions: EdgeColumns,
        insertions: EdgeColumns,
        renumbering: RenumberingPlan,
        update: Callable[[], R],
    ) -> R:
        """Log an exchange of rows by numbers, unless it is a part of an update that is logged; make it."""
        if self.updating:
            return update()
        if renumbering.read_from is None or caller not in KINDS:
            raise LogError(f"{caller}: this update cannot be logged; it is not made")
        with MemoryChecked(caller):
            change = exchange_as_change(self.graph, caller, renumbering, deletions, insertions)
        return self.make(change, update)

    def await_record(self) -> None:
        """Wait until the record of the update that is being made is written; only then may the graph be.

        Raises
        ------
        LogError
        """
        self._growth.leave_out(self._log.wait)

    def flush(self) -> None:
        """Wait until all updates so far would survive a power failure.

        Raises
        ------
        LogError
            If the log cannot be synced. All further updates raise it, too.
        """
        self._refuse_forked("flush")
        self._log.flush("flush")

    def _refuse_forked(self, caller: str) -> None:
        """Refuse a process that was forked while the database was open: its parent writes to the same files.

        Raises
        ------
        LogError
        """
        if os.getpid() != self._process:
            raise LogError(
                f"{caller}: {str(self.path)!r} was opened by process {self._process}, and this is process "
                f"{os.getpid()}, which was forked; nothing is done. Open a database in the process that uses it"
            )

    # ------------------------------------------------------------------ checkpoints

    def checkpoint(self) -> None:
        """Write the whole graph now, and wait for it. Opening the folder then reads only the log from here on.

        Raises
        ------
        LogError
            If the log cannot be synced.
        OSError
            If the checkpoint cannot be written. The database is as it was.
        """
        self._refuse_forked("checkpoint")
        self._log.flush("checkpoint")
        self._join()
        self._write_checkpoint(self._state(), self._position)

    def _state(self) -> GraphState:
        with MemoryChecked("checkpoint"), self._growth.restarted():
            return self.graph.core.state().moved(self.graph.core.backend.to_host)

    def _write_checkpoint(self, state: GraphState, position: bytes | None) -> None:
        manifest = add_checkpoint(self._files, self.path, self._manifest, state, position, self._keep)
        with self._turn:
            self._manifest = manifest
            tidy(self._files, self.path, manifest)

    def _begin_checkpoint(self) -> None:
        """Copy the graph, and have a thread write it; if that fails, the log reaches back further."""
        if self._checkpointer is not None and self._checkpointer.is_alive():
            return

        def write() -> None:
            try:
                self._write_checkpoint(state, position)
            except OSError as error:
                _log.warning("%s: a checkpoint could not be written: %s", self.path, error)

        try:
            self._log.flush("checkpoint")
            state, position = self._state(), self._position
        except (LogError, MemoryError) as error:
            _log.warning("%s: a checkpoint could not be started: %s", self.path, error)
            return
        self._checkpointer = Thread(target=write, name="dynstore-checkpoint", daemon=True)
        self._checkpointer.start()

    def _join(self) -> None:
        if self._checkpointer is not None:
            self._checkpointer.join()
            self._checkpointer = None

    def close(self) -> None:
        """Sync the log and close it; wait for a checkpoint that is being written. The graph can still be read.

        A process that was forked while the database was open closes nothing: it is its parent's.

        Raises
        ------
        LogError
            If the log cannot be synced. It is closed nevertheless.
        """
        if self._lock.descriptor < 0 or os.getpid() != self._process:
            return
        self._join()
        try:
            if not self._log.is_dead:
                self._log.flush("close")
        finally:
            self._log.close()
            self._lock.release()


def _positive(name: str, value: int) -> int:
    count = check_count("open", name, value, least=1)
    if count is None:
        raise InputTypeError(f"open: {name} is None; wanted an integer")
    return count


def _same(one: Any, other: Any) -> bool:
    """Whether two options are equal; columns of edges are so in the same order, as tuples of columns have no names."""
    return bool(one == other) and (not isinstance(one, dict) or list(one) == list(other))
