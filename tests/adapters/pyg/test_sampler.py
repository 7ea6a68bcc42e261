"""PyTorch Geometric's loaders on a live graph: every sampled edge is one of the current version."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.adapters.pyg import LiveSampler
from dynstore.errors import InputError, InputTypeError, MissingDependencyError, UnweightedGraphError

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.loader import LinkLoader, NodeLoader  # noqa: E402
from torch_geometric.sampler import BaseSampler, NegativeSampling, NodeSamplerInput  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch, of itself
V = 60


def graph_of(device: str, directed: bool = True, renumber: bool = False, seed: int = 0) -> dynstore.DynamicGraph:
    """Return a graph with rows of very different lengths; weights are 100 * source + destination."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, V, 500), (V * rng.random(500) ** 3).astype(np.int64)
    G = dynstore.DynamicGraph(device=device, directed=directed, weighted=True, renumber=renumber)
    G.insert_vertices(np.arange(V))
    low, high = (src, dst) if directed else (np.minimum(src, dst), np.maximum(src, dst))
    G.insert_edges((src, dst, (100.0 * low + high)))
    return G


def edges_of(G: dynstore.DynamicGraph) -> dict[tuple[int, int], float]:
    """Return the weight of each edge by its rows, both directions of undirected ones."""
    frame = G.to_pandas()
    src, dst = (G.core.backend.to_host(G.vertex_numbers(frame[end].to_numpy())) for end in ("source", "destination"))
    found = dict(zip(zip(src.tolist(), dst.tolist(), strict=True), frame["weight"].tolist(), strict=True))
    if not G.is_directed():
        found |= {(v, u): weight for (u, v), weight in found.items()}
    return found


def data_of(G: dynstore.DynamicGraph) -> Data:
    """Return features of which row v holds v, and no edges: those are the sampler's."""
    return Data(
        x=torch.arange(G.number_of_vertices(), dtype=torch.float32)[:, None], edge_index=torch.empty(2, 0).long()
    )


def pairs_of(batch: Any) -> list[tuple[int, int]]:
    """Return the sampled edges as rows."""
    return list(zip(*batch.n_id[batch.edge_index].tolist(), strict=True))


def check(G: dynstore.DynamicGraph, batch: Any, fanouts: list[int], joined: bool = False) -> None:
    """Check all that holds of a sample without replacement from ``G`` as it is.

    ``joined``: the two trees of a link have the same number.
    """
    edges, nodes, pairs = edges_of(G), batch.n_id.tolist(), pairs_of(batch)
    assert set(pairs) <= set(edges)
    assert sum(batch.num_sampled_nodes) == len(nodes) == batch.x.shape[0]
    assert sum(batch.num_sampled_edges) == len(pairs)
    assert batch.x[:, 0].tolist() == nodes
    trees = [0] * len(nodes) if batch.batch is None else batch.batch.tolist()
    node_ends = np.cumsum([0, *batch.num_sampled_nodes]).tolist()
    edge_ends = np.cumsum([0, *batch.num_sampled_edges]).tolist()
    places = batch.edge_index.tolist()
    degrees = np.bincount([v for _, v in edges], minlength=V)
    for hop, most in enumerate(fanouts):
        row, col = (column[edge_ends[hop] : edge_ends[hop + 1]] for column in places)
        # The nodes that the hop before has found get neighbours, each the right number of different ones.
        for place in range(node_ends[hop], node_ends[hop + 1]):
            mine = [source for source, target in zip(row, col, strict=True) if target == place]
            degree = int(degrees[nodes[place]])
            assert len(set(mine)) == len(mine) == (degree if most < 0 else min(degree, most))
            assert {trees[source] for source in mine} <= {trees[place]}
        assert col == sorted(col)
        assert set(col) <= set(range(node_ends[hop], node_ends[hop + 1]))
        assert set(range(node_ends[hop + 1], node_ends[hop + 2])) <= set(row)
    found = list(zip(nodes[node_ends[1] :], trees[node_ends[1] :], strict=True))
    assert joined or len(set(found)) == len(found)


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize(("directed", "renumber"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("fanouts", [[4, 3], [-1], [2, -1, 1], [0, 5]])
def test_each_batch_is_of_the_current_version(
    device: str, directed: bool, renumber: bool, fanouts: list[int], disjoint: bool
) -> None:
    G = graph_of(device, directed, renumber)
    sampler = LiveSampler(G, fanouts, disjoint=disjoint, seed=3)
    loader = NodeLoader(data_of(G), sampler, input_nodes=torch.arange(V).flip(0), batch_size=9)
    seen = []
    for step, batch in enumerate(loader):
        check(G, batch, fanouts)
        seen += batch.n_id[: batch.batch_size].tolist()
        ends = np.random.default_rng(step).integers(0, V, (2, 40))
        G.delete_edges(G.to_pandas().iloc[::3])
        G.insert_edges((*ends, 100.0 * ends[0] + ends[1]))
    assert seen == list(range(V - 1, -1, -1))
    assert isinstance(sampler, BaseSampler)
    assert dynstore.explain(G).name == "LiveSampler"


def test_messages_come_from_the_sources_of_in_edges(device: str) -> None:
    G = dynstore.DynamicGraph(device=device)
    G.insert_edges(([1, 2, 0], [0, 1, 3]))
    (batch,) = NodeLoader(data_of(G), LiveSampler(G, [-1, -1]), input_nodes=torch.tensor([0]))
    assert pairs_of(batch) == [(1, 0), (2, 1)]
    assert (batch.num_sampled_nodes, batch.num_sampled_edges) == ([1, 1, 1], [1, 1])


def test_a_deleted_edge_is_never_sampled_again(device: str) -> None:
    G = dynstore.DynamicGraph(device=device)
    G.insert_edges((np.arange(1, 30), np.zeros(29, dtype=np.int64)))
    loader = NodeLoader(data_of(G), LiveSampler(G, [5]), input_nodes=torch.tensor([0]))
    for left in range(29, 0, -1):
        (batch,) = loader
        assert len(pairs_of(batch)) == min(5, left)
        G.delete_edges(([left], [0]))
    (batch,) = loader
    assert (batch.n_id.tolist(), pairs_of(batch)) == ([0], [])


def test_new_vertices_are_seeds_at_once(device: str) -> None:
    G = graph_of(device)
    sampler = LiveSampler(G, [-1])
    G.insert_edges(([3], [V], [1.0]))
    out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([V])))
    assert out.node.tolist() == [V, 3]
    with pytest.raises(InputError, match=rf"LiveSampler: node {V + 1} is no row of the graph; wanted 0 to {V}"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0, V + 1])))
    with pytest.raises(InputError, match="node -1 is no row"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([-1, 2])))


def test_a_seed_given_twice_has_its_neighbours_twice(device: str) -> None:
    G = dynstore.DynamicGraph(device=device)
    G.insert_edges(([1, 2], [0, 0]))
    (batch,) = NodeLoader(data_of(G), LiveSampler(G, [-1]), input_nodes=torch.tensor([0, 0]), batch_size=2)
    assert batch.n_id.tolist() == [0, 0, 1, 2]
    assert batch.edge_index.tolist() == [[2, 3, 2, 3], [0, 0, 1, 1]]


def test_with_replacement(device: str) -> None:
    G = graph_of(device)
    (batch,) = NodeLoader(data_of(G), LiveSampler(G, [50], replace=True), input_nodes=torch.arange(V), batch_size=V)
    edges = edges_of(G)
    degrees = np.bincount([v for _, v in edges], minlength=V)
    assert set(pairs_of(batch)) <= set(edges)
    assert np.bincount(batch.edge_index[1], minlength=V).tolist() == np.where(degrees > 0, 50, 0).tolist()


def test_the_last_neighbours_are_those_of_the_largest_weights(device: str) -> None:
    G = graph_of(device)
    (batch,) = NodeLoader(data_of(G), LiveSampler(G, [4], strategy="last"), input_nodes=torch.arange(V), batch_size=V)
    edges, wanted = edges_of(G), []
    for v in range(V):
        into = sorted((weight, u) for (u, w), weight in edges.items() if w == v)
        wanted += [(u, v) for _, u in into[-4:]]
    assert sorted(pairs_of(batch)) == sorted(wanted)


def test_the_last_neighbours_of_a_graph_with_times_are_its_newest(device: str) -> None:
    G = dynstore.DynamicGraph(device=device, timestamps="int64")
    G.insert_edges((np.arange(1, 9), np.zeros(8, dtype=np.int64)), time=np.arange(8))
    G.insert_edges(([3], [0]), time=[20])
    loader = NodeLoader(data_of(G), LiveSampler(G, [3], strategy="last"), input_nodes=torch.tensor([0]))
    (batch,) = loader
    assert pairs_of(batch) == [(3, 0), (7, 0), (8, 0)]
    G.expire(20)
    (batch,) = loader
    assert pairs_of(batch) == [(3, 0)]


def test_without_pytorch_the_line_to_type_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.sampler", None)
    with pytest.raises(MissingDependencyError, match=r"LiveSampler: torch_geometric cannot.*'dynstore\[pyg\]'"):
        LiveSampler(dynstore.DynamicGraph(device="cpu"), [1])


def test_weights_come_with_a_transform(device: str) -> None:
    for renumber in (False, True):
        G = graph_of(device, renumber=renumber)
        sampler = LiveSampler(G, [3, 3])
        for batch in NodeLoader(data_of(G), sampler, batch_size=20, transform=sampler.add_weights):
            edges = edges_of(G)
            assert batch.edge_weight.tolist() == [edges[pair] for pair in pairs_of(batch)]


def test_names_as_vertices(device: str) -> None:
    G = dynstore.DynamicGraph(device=device, renumber=True, weighted=True)
    G.insert_edges((["ann", "bob", "cid"], ["bob", "cid", "ann"], [1.0, 2.0, 3.0]))
    sampler = LiveSampler(G, [-1])
    seeds = torch.from_dlpack(G.vertex_numbers(["cid"]))
    (batch,) = NodeLoader(data_of(G), sampler, input_nodes=seeds.cpu(), transform=sampler.add_weights)
    assert G.vertex_ids()[batch.n_id.cpu().numpy()].tolist() == ["cid", "bob"]
    assert batch.edge_weight.tolist() == [2.0]


def batches_of(sampler: LiveSampler, **options: Any) -> list[list[tuple[int, int]]]:
    loader = NodeLoader(data_of(sampler.graph), sampler, batch_size=20, **options)
    return [pairs_of(batch) for batch in loader]


def test_a_seed_gives_the_same_batches_again(device: str) -> None:
    G = graph_of(device)
    first = LiveSampler(G, [3, 2], seed=5)
    epochs = [batches_of(first) for _ in range(2)]
    assert epochs[0] != epochs[1]
    again = LiveSampler(G, [3, 2], seed=5)
    assert [batches_of(again) for _ in range(2)] == epochs
    assert batches_of(LiveSampler(G, [3, 2], seed=6)) != epochs[0]
    torch.manual_seed(1)
    drawn = batches_of(LiveSampler(G, [3, 2]))
    torch.manual_seed(1)
    assert batches_of(LiveSampler(G, [3, 2])) == drawn


@pytest.mark.parametrize("disjoint", [False, True])
def test_links(device: str, disjoint: bool) -> None:
    G = graph_of(device)
    sampler = LiveSampler(G, [3, 2], disjoint=disjoint, seed=1)
    links = torch.tensor(list(edges_of(G))).T
    for batch in LinkLoader(data_of(G), sampler, edge_label_index=links, batch_size=50):
        check(G, batch, [3, 2], disjoint)
        ends = batch.n_id[batch.edge_label_index]
        assert ends.tolist() == links[:, batch.input_id].tolist()
    binary = LinkLoader(
        data_of(G), sampler, edge_label_index=links, batch_size=50, neg_sampling=NegativeSampling("binary")
    )
    for batch in binary:
        check(G, batch, [3, 2], disjoint)
        count = batch.input_id.shape[0]
        assert batch.n_id[batch.edge_label_index][:, :count].tolist() == links[:, batch.input_id].tolist()
        assert batch.edge_label.tolist() == [1.0] * count + [0.0] * count
    triplet = LinkLoader(
        data_of(G), sampler, edge_label_index=links, batch_size=50, neg_sampling=NegativeSampling("triplet", 2)
    )
    for batch in triplet:
        check(G, batch, [3, 2], disjoint)
        ends = batch.n_id[batch.src_index], batch.n_id[batch.dst_pos_index]
        assert [column.tolist() for column in ends] == links[:, batch.input_id].tolist()
        assert batch.dst_neg_index.shape == (batch.input_id.shape[0], 2)
        if disjoint:
            assert batch.batch[batch.src_index].tolist() == batch.batch[batch.dst_pos_index].tolist()


def test_worker_processes_sample_a_copy_each_in_its_own_way() -> None:
    G = graph_of("cpu")
    sampler = LiveSampler(G, [3], seed=2)
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy.graph is not G
    assert batches_of(copy) == batches_of(LiveSampler(G, [3], seed=2))
    epochs = [batches_of(sampler, num_workers=2, generator=torch.Generator().manual_seed(epoch)) for epoch in (0, 1, 0)]
    assert epochs[0] == epochs[2] != epochs[1]
    edges = set(edges_of(G))
    assert all(set(batch) <= edges for batch in epochs[0])
    same_seeds = NodeLoader(data_of(G), sampler, input_nodes=torch.arange(20).repeat(2), batch_size=20, num_workers=2)
    one, other = (pairs_of(batch) for batch in same_seeds)
    assert one != other


def test_a_network_learns_from_it(device: str) -> None:
    """Which of two groups a vertex is in can be learned from its neighbours, while edges come and go."""
    nn = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 200)
    x = torch.from_numpy(rng.normal(groups, 1.0)).float()[:, None]
    data = Data(x=x, y=torch.from_numpy(groups), edge_index=torch.empty(2, 0).long())
    ends = rng.integers(0, 200, (2, 8000))
    ends = ends[:, groups[ends[0]] == groups[ends[1]]]
    G = dynstore.DynamicGraph(device=device, directed=False)
    G.insert_vertices(np.arange(200))
    model = nn.SAGEConv(1, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    loader = NodeLoader(data, LiveSampler(G, [10]), batch_size=50, shuffle=True)
    for part in np.array_split(ends, 20, axis=1):
        G.insert_edges(tuple(part))
        for batch in loader:
            optimizer.zero_grad()
            found = model(batch.x, batch.edge_index)[: batch.batch_size]
            torch.nn.functional.cross_entropy(found, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    right = [
        (model(batch.x, batch.edge_index)[: batch.batch_size].argmax(1) == batch.y[: batch.batch_size])
        for batch in loader
    ]
    assert torch.cat(right).float().mean() > 0.85


@pytest.mark.parametrize(
    ("num_neighbors", "options", "message"),
    [
        (5, {}, "LiveSampler: num_neighbors is 5; wanted a list with a number for each hop"),
        ([], {}, r"num_neighbors is \[\]; wanted a list"),
        ({"a": [1]}, {}, "num_neighbors is .*; wanted a list"),
        ([2.5], {}, "num_neighbors is 2.5; wanted an integer"),
        ([3, -2], {}, "num_neighbors has -2; wanted 0 or more, or -1 for all"),
        ([3], {"strategy": "first"}, "unknown strategy 'first'; known: 'last', 'uniform'"),
        ([3], {"strategy": "last", "replace": True}, 'strategy is "last" with replace=True'),
        ([3], {"replace": 1}, "replace is 1; wanted True or False"),
        ([3], {"seed": -1}, "seed is -1; wanted 0 or more"),
    ],
)
def test_wrong_arguments_are_refused(num_neighbors: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LiveSampler(graph_of("cpu"), num_neighbors, **options)


def test_what_the_graph_does_not_have_is_refused() -> None:
    G = dynstore.DynamicGraph(device="cpu")
    G.insert_edges(([0], [1]))
    with pytest.raises(UnweightedGraphError, match=r'strategy is "last", and the graph has neither times nor weights'):
        LiveSampler(G, [1], strategy="last")
    with pytest.raises(InputTypeError, match=r"G is a .*Data; wanted a dynstore.DynamicGraph"):
        LiveSampler(data_of(G), [1])  # type: ignore[arg-type]
    sampler, nodes = LiveSampler(G, [1]), torch.tensor([0])
    with pytest.raises(InputError, match="the input has the type 'paper'"):
        sampler.sample_from_nodes(NodeSamplerInput(None, nodes, input_type="paper"))
    with pytest.raises(InputError, match="the input has times"):
        sampler.sample_from_nodes(NodeSamplerInput(None, nodes, time=nodes))


def test_its_text(device: str) -> None:
    assert repr(LiveSampler(graph_of(device), (3, -1))) == f"LiveSampler([3, -1], version=2, device='{device}')"
