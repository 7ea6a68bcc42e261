"""Stand-ins for what is called of RAPIDS where a sharded graph is lent: ranks are threads, arrays NumPy's.

The lent rows are put together again, and dynstore's own algorithms answer for cuGraph's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import distributed
from dynstore.adapters import libraries
from dynstore.adapters.cugraph.borrowed.loading import Bridge
from dynstore.adapters.cugraph.mg import links
from dynstore.distributed import Communicator

__all__ = ["LentShard", "here", "rapids", "run"]

here = threading.local()


class LentShard(SimpleNamespace):
    """Keeps what it was made of; ``layout`` is what is wrong with cuGraph's struct."""

    layout: str | None = None
    turned = 0  # by how many places the neighbours of each row are wrong
    weight = 1.0  # what weights are multiplied by

    def __init__(
        self,
        address: int,
        offsets: Any,
        indices: Any,
        weights: Any,
        numbers: Any,
        starts: list[int],
        num_edges: int,
        **options: Any,
    ) -> None:
        here.comm.barrier()  # as cuGraph's constructor does
        rows = np.repeat(np.arange(len(numbers)), np.diff(offsets))
        whole = np.concatenate(here.comm.all_gather(numbers))
        columns = [numbers[rows], whole[(indices + self.turned) % max(len(whole), 1)]]
        if options["transposed"]:
            columns = columns[::-1]
        if weights is not None:
            columns.append(weights**self.weight)
        gathered = here.comm.all_gather(columns)
        self.edges = [np.concatenate(parts) for parts in zip(*gathered, strict=True)]
        super().__init__(address=address, numbers=numbers, starts=starts, num_edges=num_edges, **options)

    def graph(self) -> dynstore.DynamicGraph:
        return dynstore.DynamicGraph.from_edges(
            tuple(self.edges), device="cpu", weighted=len(self.edges) == 3, vertex_dtype=str(self.numbers.dtype)
        )

    @classmethod
    def problem_of_layout(cls, made: Any, *kinds: Any) -> str | None:
        assert (made.weighted, made.transposed) == kinds[2:4]
        assert kinds[4:] == (True, 64)
        return cls.layout if here.comm.rank == 1 else None


class Plc:
    """What is called of pylibcugraph."""

    def __init__(self) -> None:
        self.comms = SimpleNamespace(init_subcomms=lambda handle, size: here.rows.append(size))

    def ResourceHandle(self, address: int) -> tuple[str, int]:  # noqa: N802
        return "handle", address

    def GraphProperties(self, **options: Any) -> Any:  # noqa: N802
        return options

    def MGGraph(self, handle: Any, properties: Any, src: list[Any], dst: list[Any], **options: Any) -> Any:  # noqa: N802
        assert len(src) == len(dst) == options["num_arrays"] == 1
        ring = np.concatenate(here.comm.all_gather(src[0]))
        assert sorted(ring.tolist()) == list(range(64))
        return SimpleNamespace(weighted=options["weight_array"] is not None, transposed=options["store_transposed"])

    def bfs(self, handle: Any, graph: LentShard, sources: Any, *rest: Any) -> Any:
        assert not graph.transposed
        start = int(np.concatenate(here.comm.all_gather(sources))[0])
        found = dynstore.bfs(graph.graph(), start)["distance"].to_numpy()
        return found[graph.numbers], None, graph.numbers

    def pagerank(self, handle: Any, graph: LentShard, *rest: Any) -> Any:
        assert graph.transposed
        found: Any = dynstore.pagerank(graph.graph(), tol=1e-6)
        return graph.numbers, found["pagerank"].to_numpy()[graph.numbers], True


class Nccl:
    """raft-dask's communicator."""

    @staticmethod
    def get_unique_id() -> bytes:
        return b"identifier"

    def init(self, size: int, identifier: bytes, rank: int) -> None:
        assert (size, identifier, rank) == (here.comm.size, b"identifier", here.comm.rank)


class Handle:
    def getHandle(self) -> int:  # noqa: N802
        return 4711


def inject(handle: Handle, connection: Nccl, size: int, rank: int, verbose: bool) -> None:
    here.rows = []


@pytest.fixture
def rapids(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """The stand-ins; ranks are threads on the host here, which is refused elsewhere."""
    plc = Plc()
    stream = SimpleNamespace(synchronize=lambda: None)
    cuda = SimpleNamespace(get_current_stream=lambda: stream)
    modules = {
        "cupy": SimpleNamespace(asarray=np.asarray, asnumpy=np.asarray, cuda=cuda),
        "pylibcugraph": plc,
        "pylibcugraph.comms": plc.comms,
        "pylibraft.common.handle": SimpleNamespace(Handle=Handle),
        "raft_dask.common.nccl": SimpleNamespace(nccl=Nccl),
        "raft_dask.common.comms_utils": SimpleNamespace(inject_comms_on_handle_coll_only=inject),
    }

    def import_module(name: str) -> Any:
        if name not in modules:
            raise ImportError(f"No module named {name!r}")
        return modules[name]

    monkeypatch.setattr(libraries, "importlib", SimpleNamespace(import_module=import_module))
    site = tmp_path / "site"
    (site / "pylibcugraph").mkdir(parents=True)
    (site / "pylibcugraph" / "VERSION").write_text("26.10.00\n")
    state = SimpleNamespace(modules=modules, site=site, bridge=Bridge(LentShard, "a stand-in", LentShard))
    monkeypatch.setattr(links, "load_bridge", lambda: state.bridge)
    monkeypatch.setattr(links, "find_rapids", lambda: site)
    monkeypatch.setattr(links, "ThreadCommunicator", type("NoCommunicator", (), {}))
    monkeypatch.setattr(links, "DEVICE", "cpu")
    return state


def run(program: Callable[[Communicator], Any], ranks: int) -> list[Any]:
    def with_comm(comm: Communicator) -> Any:
        here.comm = comm
        return program(comm)

    return distributed.run(with_comm, ranks=ranks, device="cpu", timeout=20.0)
