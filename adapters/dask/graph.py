"""A dynamic graph on a Dask cluster: one object of the client, a rank on each worker."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from dynstore.adapters.dask import on_ranks
from dynstore.adapters.dask.crew import Crew
from dynstore.adapters.dask.partitions import is_dask_frame, lay_batch
from dynstore.adapters.dask.progress import Progress, Watch
from dynstore.adapters.dask.ranks import Setup
from dynstore.adapters.libraries import require
from dynstore.arguments import check_number
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.graph.readable import ReadableGraph

if TYPE_CHECKING:
    from dynstore.typing import Device, OnDuplicate, UpdateReport

__all__ = ["DaskGraph"]

NOT_OPTIONS = ("comm", "frames")
TIMEOUT = 300.0


class DaskGraph(ReadableGraph):
    """A graph that takes batches of edges in place, and whose edges lie on the workers of a Dask cluster.

    Each worker has a rank of a :class:`dynstore.distributed.ShardedGraph`. On GPUs, one a worker, the ranks are
    connected by NCCL; on hosts by Dask's own connections. Methods wait until all ranks have ended; one call runs at a
    time. An update happens on all workers or on none.

    :meth:`has_edges` and :meth:`edge_weights` answer a Dask frame by a Dask frame: its two columns and ``has_edge``, or
    ``weight``; partitions may come in another order. They answer rows of the client by an array on the host.
    :meth:`degree` and its like return a number for one vertex, a frame of the client for several, and a Dask frame for
    all. :meth:`vertex_ids` returns an array on the host, in the order of the rows of one rank's results.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the current one. A client with ``asynchronous=True`` is refused.
    workers : sequence of str, optional
        The addresses of the workers that get a rank. By default all.
    device : {"auto", "cpu", "cuda"}
        Where the ranks keep their edges. "auto": on GPUs if all workers have one.
    timeout : float
        The most seconds that a rank waits for the others in one step. The loss of a worker is noticed earlier.
    **graph_options
        As for :class:`dynstore.distributed.ShardedGraph`, such as ``directed``, ``weighted``, ``renumber``,
        ``partition``. Frames are those of pandas on hosts, of cuDF on GPUs.

    Raises
    ------
    InputError
        For options that cannot be used, a client that is not connected, workers that are not there, or two of them on
        one GPU.
    MissingDependencyError
        Without Dask.
    RankError
        If a worker is lost.

    Examples
    --------
    >>> from distributed import Client, LocalCluster  # doctest: +SKIP
    >>> from dynstore.adapters.dask import DaskGraph
    >>> G = DaskGraph(Client(LocalCluster(n_workers=2)))  # doctest: +SKIP
    >>> G.insert_edges([(0, 1), (1, 2)]).inserted  # doctest: +SKIP
    2
    """

    def __init__(
        self,
        client: Any = None,
        *,
        workers: Sequence[str] | None = None,
        device: Device = "auto",
        timeout: float = TIMEOUT,
        **graph_options: Any,
    ) -> None:
        caller, distributed = "DaskGraph", require("DaskGraph", "distributed")
        if client is None:
            try:
                client = distributed.default_client()
            except ValueError:  # Dask has none
                raise InputError(f"{caller}: there is no client yet; make a distributed.Client, or pass one") from None
        if not isinstance(client, distributed.Client):
            raise InputTypeError(f"{caller}: client is a {type_name(client)}; wanted a distributed.Client")
        if client.asynchronous:
            raise InputError(f"{caller}: the client is asynchronous; wanted one that waits for results")
        if check_number(caller, "timeout", timeout) <= 0:
            raise InputError(f"{caller}: timeout is {timeout}; wanted more than 0 seconds")
        for name in NOT_OPTIONS:
            if name in graph_options:
                raise InputError(f"{caller}: {name} cannot be chosen: it follows from the cluster; leave it out")
        self._crew, self._watch = Crew(caller, client, workers), Watch()
        self._device = self._choose_device(device)
        on_gpu = self._device == "cuda"
        identifier = self._crew.make_identifier(caller) if on_gpu else None
        options = {**graph_options, "frames": "cudf" if on_gpu else "pandas"}
        group = f"dynstore-{uuid4().hex}"
        self._crew.open(caller, Setup(group, self._crew.addresses, self._device, identifier, timeout), options)
        self._directed: bool
        self._weighted: bool
        self._renumbered: bool
        self._directed, self._weighted, self._renumbered = self._ask("DaskGraph", on_ranks.kind)

    def _choose_device(self, device: Device) -> str:
        """Return the device of all ranks."""
        crew = self._crew
        places = crew.find_places("DaskGraph", device)
        devices = {place.device for place in places}
        if len(devices) > 1:
            found = {address: place.device for address, place in zip(crew.addresses, places, strict=True)}
            raise InputError(
                f"DaskGraph: the workers differ: {found}; wanted one device; pass device='cpu', or workers="
            )
        gpus = [place.gpu for place in places if place.gpu is not None]
        shared = next((gpu for gpu in gpus if gpus.count(gpu) > 1), None)
        if shared is not None:
            raise InputError(
                f"DaskGraph: {gpus.count(shared)} workers have the same GPU ({shared}); wanted one for each, as with "
                "dask_cuda.LocalCUDACluster; or pass device='cpu'"
            )
        return devices.pop()

    def __repr__(self) -> str:
        kind = "directed" if self._directed else "undirected"
        size = len(self._crew.addresses)
        if self._crew.lost is not None:
            return f"DaskGraph({kind}, {size} workers; it cannot be used any more: {self._crew.lost})"
        vertices, edges, version = self._ask("repr", on_ranks.counts)
        return (
            f"DaskGraph({kind}, {vertices} vertices, {edges} edges, {size} workers, device={self._device!r}, "
            f"version={version})"
        )

    def __reduce__(self) -> NoReturn:
        raise InputTypeError("DaskGraph: it belongs to its client and cannot be pickled; pass G.edge_table() to tasks")

    def __enter__(self) -> DaskGraph:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the graph's memory on the workers; it cannot be used any more. A ``with`` block does so at its end."""
        self._crew.close()

    # ------------------------------------------------------------------ what it is

    @property
    def workers(self) -> tuple[str, ...]:
        """The addresses of the workers, in order of the ranks."""
        return self._crew.addresses

    @property
    def device(self) -> str:
        return self._device

    @property
    def version(self) -> int:
        version: int = self._ask("version", on_ranks.counts)[2]
        return version

    def is_directed(self) -> bool:
        return self._directed

    def is_weighted(self) -> bool:
        return self._weighted

    def is_renumbered(self) -> bool:
        return self._renumbered

    def number_of_vertices(self) -> int:
        vertices: int = self._ask("number_of_vertices", on_ranks.counts)[0]
        return vertices

    def number_of_edges(self) -> int:
        edges: int = self._ask("number_of_edges", on_ranks.counts)[1]
        return edges

    def progress(self) -> Progress:
        """Return how far the current call is. Any thread may call this, at any time.

        Returns
        -------
        Progress
        """
        return self._watch.show()

    # ------------------------------------------------------------------ queries

    def _look_up(self, name: str, edges: Any, source: str, destination: str, weights: bool) -> Any:
        ends = source, destination
        self._crew.check(name)
        with self._watch(name) as watch:
            batch = lay_batch(name, self._crew, watch, edges, ends)
            watch.ranks()
            if not is_dask_frame(edges):
                return self._crew.call(name, on_ranks.look_up, name, ends, batches=[batch])[0]
            meta = pickle.dumps(edges._meta)
            return self._crew.call_frame(name, on_ranks.look_up_frame, name, ends, meta, batches=[batch])[0]

    def _degrees(self, name: str, vertices: Any, orientations: tuple[bool, ...]) -> Any:
        if vertices is None:
            return self.compute_frame(name, on_ranks.method_frame, name)[0]
        return self._call(name, on_ranks.method, name, vertices)[0]

    def vertex_ids(self) -> Any:
        return self._ask("vertex_ids", on_ranks.vertex_ids)

    def edge_table(self) -> Any:
        """Return the edges, each once.

        Returns
        -------
        dask frame
            ``source``, ``destination``, ``weight`` if there are weights: a partition a worker. Later updates do not
            change it.
        """
        return self.compute_frame("edge_table", on_ranks.edge_table)[0]

    # ------------------------------------------------------------------ calls of the ranks

    def compute_frame(self, name: str, function: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
        """Call a function on all workers that returns a frame, which stays there.

        Parameters
        ----------
        name : str
            For messages.
        function : callable
            It gets the :class:`dynstore.distributed.ShardedGraph` of its rank and the other arguments, and returns a
            frame, or a tuple of a frame and something small.
        *args
            The same on all ranks.

        Returns
        -------
        frame : dask frame
            A partition a worker.
        more
            What rank 0 has returned beside its frame, or None.
        """
        self._crew.check(name)
        with self._watch(name) as watch:
            watch.ranks()
            return self._crew.call_frame(name, on_ranks.frame, function, args)

    def _call(self, name: str, function: Callable[..., Any], *args: Any) -> list[Any]:
        with self._watch(name) as watch:
            watch.ranks()
            return self._crew.call(name, function, *args)

    def _ask(self, name: str, function: Callable[..., Any]) -> Any:
        return self._crew.call(name, function, one=True)[0]

    # ------------------------------------------------------------------ updates

    def insert_edges(
        self,
        edges: Any,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        on_duplicate: OnDuplicate = "replace",
        default_weight: float | None = None,
    ) -> UpdateReport:
        """Insert a batch.

        Parameters
        ----------
        edges : dask or dask-cudf DataFrame, or as for :meth:`dynstore.DynamicGraph.insert_edges`
            Partitions are read on the workers that have them. Rows of the client go to the first worker.
        source, destination, weight, on_duplicate, default_weight
            As for :meth:`dynstore.DynamicGraph.insert_edges`. Rows count in the order of the ranks, those of one rank
            in the order of the partitions. So of equal edges in partitions of several workers any may be the last.

        Returns
        -------
        UpdateReport
            What the update did to the whole graph.

        Raises
        ------
        InputError, OutOfMemoryError
            The graph is unchanged on all workers. The message names the rank.
        RankError
            If a worker is lost, or a rank fails in another way. The graph cannot be used any more.
        """
        names, options = (source, destination, weight), {"on_duplicate": on_duplicate, "default_weight": default_weight}
        return self._update("insert_edges", (edges,), names, {"weight": weight, **options})

    def delete_edges(self, edges: Any, source: str = "source", destination: str = "destination") -> UpdateReport:
        """Delete a batch.

        Parameters
        ----------
        edges, source, destination
            As for :meth:`insert_edges`.

        Returns
        -------
        UpdateReport
            What the update did to the whole graph.

        Raises
        ------
        InputError, OutOfMemoryError, RankError
            As :meth:`insert_edges`.
        """
        return self._update("delete_edges", (edges,), (source, destination), {})

    def update(
        self,
        insert: Any = None,
        delete: Any = None,
        *,
        source: str = "source",
        destination: str = "destination",
        weight: str | None = None,
        default_weight: float | None = None,
        on_duplicate: OnDuplicate = "replace",
    ) -> UpdateReport:
        """Delete edges and insert others, as one version.

        Parameters
        ----------
        insert, delete : as for :meth:`insert_edges`, optional
            See :meth:`dynstore.DynamicGraph.update`.
        source, destination, weight, default_weight, on_duplicate
            See :meth:`insert_edges`.

        Returns
        -------
        UpdateReport
            What the update did to the whole graph.

        Raises
        ------
        InputError, OutOfMemoryError, RankError
            As :meth:`insert_edges`.
        """
        names, options = (source, destination, weight), {"on_duplicate": on_duplicate, "default_weight": default_weight}
        return self._update("update", (insert, delete), names, {"weight": weight, **options})

    def insert_vertices(self, ids: Any) -> UpdateReport:
        """Add the vertices that do not exist yet, without edges.

        Parameters
        ----------
        ids : int, str, list, array, series or frame of one column
            As for :meth:`dynstore.DynamicGraph.insert_vertices`, of the client.

        Returns
        -------
        UpdateReport
            All its counts are 0.

        Raises
        ------
        InputError, OutOfMemoryError, RankError
            As :meth:`insert_edges`.
        """
        report: UpdateReport = self._call("insert_vertices", on_ranks.insert_vertices, ids)[0]
        return report

    def _update(
        self, name: str, batches: tuple[Any, ...], ends: tuple[str | None, ...], options: dict[str, Any]
    ) -> UpdateReport:
        crew = self._crew
        crew.check(name)
        with self._watch(name) as watch:
            laid = tuple(lay_batch(name, crew, watch, edges, ends) for edges in batches)
            watch.ranks()
            given = {**options, "source": ends[0], "destination": ends[1]}
            report: UpdateReport = crew.call(name, on_ranks.update, name, given, batches=laid)[0]
        return report

    # ------------------------------------------------------------------ programs of all ranks

    def run(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Call a function on all workers, as a program of all ranks.

        The function may call all of :mod:`dynstore.distributed` and :mod:`dynstore.adapters.cugraph.mg`.

        Parameters
        ----------
        function : callable
            It gets the :class:`dynstore.distributed.ShardedGraph` of its rank and the other arguments. It is pickled.
        *args
            The same on all ranks; they can be pickled, and are small.

        Returns
        -------
        list
            What the function has returned, in order of the ranks; it can be pickled, and is small.

        Raises
        ------
        DynstoreError
            As one that all ranks have raised.
        RankError
            If a rank fails in another way. The graph cannot be used any more.
        """
        return self._call("run", on_ranks.run, function, args)
