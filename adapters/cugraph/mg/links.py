"""What cuGraph needs to work on several GPUs, once for each communicator: a handle and the library that lends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dynstore.adapters.cugraph.borrowed.loading import TESTED, load_bridge, minor_release
from dynstore.adapters.cugraph.borrowed.toolchain import find_rapids, rapids_version
from dynstore.adapters.libraries import require
from dynstore.distributed.calls import Collective
from dynstore.distributed.threads import ThreadCommunicator
from dynstore.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from dynstore.adapters.cugraph.borrowed.loading import Bridge
    from dynstore.distributed.communicator import Communicator

__all__ = ["CALLER", "RankConnection", "connect", "keep_link", "kept_link", "open_link"]

CALLER = "lend"
DEVICE = "cuda"


@dataclass(frozen=True, eq=False, slots=True)
class RankConnection:
    """The connection of one rank's cuGraph to that of the others.

    Attributes
    ----------
    handle : pylibcugraph.ResourceHandle
        For the functions of pylibcugraph.
    address : int
        Of the raft handle inside it.
    bridge : Bridge
    kept : tuple
        The raft handle and its communicator, which cuGraph refers to by address.
    """

    handle: Any
    address: int
    bridge: Bridge
    kept: tuple[Any, ...]


_links: WeakKeyDictionary[Communicator, RankConnection] = WeakKeyDictionary()


def kept_link(comm: Communicator) -> RankConnection | None:
    """Return the link that an earlier call has made and tested, or None."""
    return _links.get(comm)


def keep_link(comm: Communicator, link: RankConnection) -> None:
    """Keep a link that has passed its test."""
    _links[comm] = link


def connect(comm: Communicator) -> tuple[Any, int, tuple[Any, ...]]:
    """Connect cuGraph on all ranks, in one row of its grid. All ranks call it.

    Returns
    -------
    handle, address, kept
        As :class:`RankConnection` has them.

    Raises
    ------
    MissingDependencyError
        Without pylibcugraph or raft-dask.
    """
    with Collective(comm, CALLER) as call:
        return _connect(call)


def _connect(call: Collective) -> tuple[Any, int, tuple[Any, ...]]:
    comm = call.comm
    nccl = require(CALLER, "raft_dask.common.nccl").nccl
    inject = require(CALLER, "raft_dask.common.comms_utils").inject_comms_on_handle_coll_only
    raft = require(CALLER, "pylibraft.common.handle").Handle()
    plc, comms = require(CALLER, "pylibcugraph"), require(CALLER, "pylibcugraph.comms")
    identifiers = call.agree(nccl.get_unique_id() if comm.rank == 0 else None)
    connection = nccl()
    connection.init(comm.size, identifiers[0], comm.rank)
    inject(raft, connection, comm.size, comm.rank, False)
    comms.init_subcomms(raft, comm.size)
    address = int(raft.getHandle())
    return plc.ResourceHandle(address), address, (raft, connection)


def open_link(comm: Communicator) -> RankConnection:
    """Connect cuGraph on all ranks. All ranks call it.

    cuGraph gets an NCCL communicator of its own. All ranks are in one row of its grid, so that each rank has the whole
    rows of its vertices, as a shard does.

    Raises
    ------
    InputError
        If the graph is not on GPUs, or the ranks are threads of one process.
    MissingDependencyError
        Without pylibcugraph or raft-dask, without the library that lends, or with a release that is not a tested one.
    """
    with Collective(comm, CALLER) as call:
        bridge = _usable_bridge(comm)
        handle, address, kept = _connect(call)
        return RankConnection(handle, address, bridge, kept)


def _usable_bridge(comm: Communicator) -> Bridge:
    """Return the library that lends, if it can be used on these ranks.

    cuGraph keeps Python's lock while a rank waits for the others. NCCL goes on by itself; a communicator that needs
    Python to answer would never let the others come.
    """
    if comm.device != DEVICE:
        raise InputError(
            f"{CALLER}: the graph is on {comm.device!r}; wanted ranks with a GPU each, as with NcclCommunicator"
        )
    if isinstance(comm, ThreadCommunicator) and comm.size > 1:
        raise InputError(
            f"{CALLER}: the {comm.size} ranks are threads of one process; cuGraph wants a process for each, as with "
            "NcclCommunicator"
        )
    bridge, site = load_bridge(), find_rapids()
    if bridge.borrowed_mg_graph is None or site is None:
        raise MissingDependencyError(f"{CALLER}: rows cannot be lent: {bridge.reason}")
    if minor_release(site) != TESTED:
        raise MissingDependencyError(
            f"{CALLER}: RAPIDS {rapids_version(site)} has not been tested on several GPUs; wanted "
            f"{TESTED[0]}.{TESTED[1]:02}"
        )
    return bridge
