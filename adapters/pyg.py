"""PyTorch Geometric's loaders on a live graph: each batch is sampled from the current version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dynstore.adapters.libraries import require
from dynstore.algorithms.calls import Call, note_call
from dynstore.algorithms.sampling.hops import Fanout, Ranks, sample_hops
from dynstore.arguments import check_count, check_flag, check_integer, check_name
from dynstore.errors import InputError, InputTypeError, UnweightedGraphError, type_name
from dynstore.graph import DynamicGraph
from dynstore.graph.events.questions import refuse_multigraph
from dynstore.locks import Lock

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LiveSampler"]

CALLER = "LiveSampler"
STRATEGIES = ("uniform", "last")


class LiveSampler:
    """Samples in-neighbours of nodes or links for ``torch_geometric.loader.NodeLoader`` and ``LinkLoader``.

    It is a ``torch_geometric.sampler.BaseSampler``. Nodes are row numbers: ``G.vertex_numbers(ids)`` returns them, and
    tensors of features have a row for each. Messages flow along edges, so a hop follows the in-edges of its nodes; an
    undirected edge counts in both directions. A batch is sampled from the version that is current at this moment. The
    graph must not be updated while a batch is sampled.

    Parameters
    ----------
    G : DynamicGraph
        On the host or on the GPU. The sampled tensors are on the same device.
    num_neighbors : sequence of int
        The most neighbours of a node in each hop; -1 means all.
    replace : bool
        If True, an edge may be chosen more than once, so each node with in-edges gets exactly ``num_neighbors``.
    strategy : {"uniform", "last"}
        "uniform": all edges of a node have the same probability. "last": those with the last times are chosen, if the
        graph has ``timestamps``, else those with the largest weights; of equal ones, those from the lowest rows.
    disjoint : bool
        If True, each seed has a tree of its own, which shares no nodes with others.
    seed : int, optional
        With the same seed a sampler returns the same batches of the same versions again. By default the seed comes from
        PyTorch's generator.

    Raises
    ------
    MissingDependencyError
        Without PyTorch or PyTorch Geometric.
    UnweightedGraphError
        For "last" on a graph without times and weights.
    InputError
        For other arguments that cannot be used.
    """

    def __init__(
        self,
        G: DynamicGraph,
        num_neighbors: Sequence[int],
        *,
        replace: bool = False,
        strategy: Literal["uniform", "last"] = "uniform",
        disjoint: bool = False,
        seed: int | None = None,
    ) -> None:
        if not isinstance(G, DynamicGraph):
            raise InputTypeError(f"{CALLER}: G is a {type_name(G)}; wanted a dynstore.DynamicGraph")
        refuse_multigraph(CALLER, G)
        check_name(CALLER, "strategy", strategy, STRATEGIES)
        replace, self.disjoint = check_flag(CALLER, "replace", replace), check_flag(CALLER, "disjoint", disjoint)
        largest = strategy == "last"
        if largest and G.timestamps is None and not G.is_weighted():
            raise UnweightedGraphError(
                f'{CALLER}: strategy is "last", and the graph has neither times nor weights; '
                "make it with timestamps='int64'"
            )
        if largest and replace:
            raise InputError(f'{CALLER}: strategy is "last" with replace=True; the last neighbours are all different')
        self._fanouts = [Fanout(most, replace, largest) for most in _read_counts(num_neighbors)]
        check_count(CALLER, "seed", seed)
        require(CALLER, "torch_geometric.sampler").BaseSampler.register(LiveSampler)
        torch = require(CALLER, "torch")
        self.graph = G
        self.seed = int(torch.randint(2**62, ()) if seed is None else seed)
        self._batches, self._lock = 0, Lock()

    def __repr__(self) -> str:
        counts = [fanout.most for fanout in self._fanouts]
        return f"LiveSampler({counts}, version={self.graph.version}, device={self.graph.device!r})"

    @property
    def edge_permutation(self) -> None:
        """None: edges have no positions of their own, which would change with each update."""
        return None

    def sample_from_nodes(self, index: Any, **options: Any) -> Any:
        """Sample around nodes.

        Parameters
        ----------
        index : torch_geometric.sampler.NodeSamplerInput
            Its nodes are row numbers.
        **options
            Not used.

        Returns
        -------
        torch_geometric.sampler.SamplerOutput
            Its ``edge`` is None.

        Raises
        ------
        InputError
            For rows that the graph does not have, types, and times.
        """
        helpers = require(CALLER, "torch_geometric.sampler.neighbor_sampler")
        _refuse_kinds(index)
        return helpers.node_sample(index, self._sample)

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> Any:
        """Sample around the ends of links.

        Parameters
        ----------
        index : torch_geometric.sampler.EdgeSamplerInput
            Its rows and columns are row numbers.
        neg_sampling : torch_geometric.sampler.NegativeSampling, optional
            PyTorch Geometric draws the negative links at random. It does not check that they are no edges.

        Returns
        -------
        torch_geometric.sampler.SamplerOutput
            Its ``edge`` is None.

        Raises
        ------
        InputError
            As of :meth:`sample_from_nodes`.
        """
        helpers = require(CALLER, "torch_geometric.sampler.neighbor_sampler")
        _refuse_kinds(index)
        num_nodes = self.graph.number_of_vertices()
        return helpers.edge_sample(index, self._sample, num_nodes, self.disjoint, None, neg_sampling)

    def add_weights(self, data: Any) -> Any:
        """Add the weights of a batch's edges as ``data.edge_weight``; meant as a loader's ``transform``.

        Parameters
        ----------
        data : torch_geometric.data.Data
            A batch of this sampler. If an edge has been deleted since, its weight is NaN.

        Returns
        -------
        torch_geometric.data.Data
            The same object.
        """
        G, torch = self.graph, require(CALLER, "torch")
        ends = data.n_id[data.edge_index.to(data.n_id.device)].to("cuda" if G.core.backend.on_gpu else "cpu")
        rows = (G.core.backend.xp.from_dlpack(column).astype(G.vertex_dtype) for column in ends)
        weights = G.edge_weights(tuple(G.core.ids.of(column, G.number_of_vertices()) for column in rows))
        data.edge_weight = torch.from_dlpack(weights).to(data.edge_index.device)
        return data

    # ------------------------------------------------------------------ inside

    def _sample(self, seed: Any, seed_time: None = None) -> Any:
        """Return the sample around a tensor of rows; PyTorch Geometric's helpers call it."""
        G, torch = self.graph, require(CALLER, "torch")
        num_vertices = G.number_of_vertices()
        if seed.numel() and not 0 <= int(seed.min()) <= int(seed.max()) < num_vertices:
            stranger = int(seed.max()) if int(seed.min()) >= 0 else int(seed.min())
            raise InputError(f"{CALLER}: node {stranger} is no row of the graph; wanted 0 to {num_vertices - 1}")
        rows = G.core.backend.asarray(seed.numpy(), dtype=np.int64)
        sample = sample_hops(G.snapshot(True), rows, self._fanouts, self.disjoint, self._entropy(), self._ranks())
        note_call(G, Call(CALLER, "own kernel", G.version, "nothing"))
        tensors = (
            None if array is None else torch.from_dlpack(array)
            for array in (sample.nodes, sample.neighbors, sample.centers, sample.trees)
        )
        node, row, col, batch = tensors
        output = require(CALLER, "torch_geometric.sampler").SamplerOutput
        return output(
            node=node,
            row=row,
            col=col,
            edge=None,
            batch=batch,
            num_sampled_nodes=sample.nodes_a_hop,
            num_sampled_edges=sample.edges_a_hop,
        )

    def _ranks(self) -> Ranks | None:
        G = self.graph
        if not self._fanouts[0].largest:
            return None
        if G.timestamps is not None:
            return Ranks(*G.core.slot_times(True))
        weights = G.snapshot(True).weights
        assert weights is not None
        return Ranks(weights, G.core.backend.nothing(np.int32))

    def _entropy(self) -> list[int]:
        """Return what the random numbers of the next batch follow from.

        A worker process has a copy of the sampler, and counts for itself. Its seed differs from that of other workers,
        and from epoch to epoch.
        """
        with self._lock:
            batch = self._batches
            self._batches += 1
        worker = require(CALLER, "torch.utils.data").get_worker_info()
        return [self.seed, batch] if worker is None else [self.seed, batch, worker.seed]


def _read_counts(num_neighbors: Any) -> list[int]:
    if isinstance(num_neighbors, str | dict) or not hasattr(num_neighbors, "__len__") or not len(num_neighbors):
        raise InputTypeError(f"{CALLER}: num_neighbors is {num_neighbors!r}; wanted a list with a number for each hop")
    counts = [check_integer(CALLER, "num_neighbors", each) for each in num_neighbors]
    if min(counts) < -1:
        raise InputError(f"{CALLER}: num_neighbors has {min(counts)}; wanted 0 or more, or -1 for all")
    return counts


def _refuse_kinds(index: Any) -> None:
    """Refuse what only graphs with types and times have."""
    if index.input_type is not None:
        raise InputError(
            f"{CALLER}: the input has the type {index.input_type!r}; wanted none, as the graph has no types"
        )
    if index.time is not None:
        raise InputError(f"{CALLER}: the input has times; wanted none: a batch is sampled from the current version")
