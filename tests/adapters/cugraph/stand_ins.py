"""Stand-ins for RAPIDS on machines without a GPU: what dynstore relies on of cuGraph 26.10, over NumPy and pandas.

They show that the right rows, ids and frames are handed on, and when; whether cuGraph then computes the right thing is
for ``test_cugraph_gpu.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynstore.adapters import cugraph as drop_in

# Before any test has had the drop-in look something up.
OWN_NAMES = frozenset(vars(drop_in))

SOURCES = {
    # Graph asks its implementation for what it does not have itself, first with hasattr, then with getattr.
    "cugraph.structure.graph_classes": """
class Graph:
    class Properties:
        def __init__(self, directed):
            self.directed = directed

    def __init__(self, m_graph=None, directed=False):
        if m_graph is not None:
            raise TypeError("m_graph can only be an instance of a cugraph.MultiGraph")
        self._Impl = None
        self.graph_properties = Graph.Properties(directed)

    def __getattr__(self, name):
        if name == "_Impl":
            raise AttributeError(name)
        if hasattr(self._Impl, name):
            return getattr(self._Impl, name)
        elif hasattr(self._Impl.properties, name):
            return getattr(self._Impl.properties, name)
        raise AttributeError(name)

    def from_cudf_edgelist(self, input_df, source="source", destination="destination", edge_attr=None, weight=None,
                           edge_id=None, edge_type=None, renumber=True, store_transposed=False, symmetrize=None,
                           vertices=None):
        if self._Impl is None:
            self._Impl = simpleGraphImpl(self.graph_properties)
        elif type(self._Impl) is not simpleGraphImpl:
            raise RuntimeError("Graph is already initialized")
        elif self._Impl.edgelist is not None:
            raise RuntimeError("Graph already has values")
        self._Impl.edgelist = input_df

    def from_cudf_adjlist(self, offset_col, index_col, value_col=None):
        self._Impl = simpleGraphImpl(self.graph_properties)
        self._Impl.adjlist = offset_col

    def from_numpy_array(self, np_array, nodes=None):
        import pandas

        src, dst = np_array.nonzero()
        frame = pandas.DataFrame({"src": src, "dst": dst, "weight": np_array[src, dst]})
        if nodes is not None:
            frame = frame.assign(src=nodes[src].values, dst=nodes[dst].values)
        self.from_cudf_edgelist(frame, "src", "dst", edge_attr="weight", vertices=nodes)

    def from_pandas_edgelist(self, pdf, source="source", destination="destination", **options):
        self.from_cudf_edgelist(pdf, source, destination, **options)

    def is_directed(self):
        return self.graph_properties.directed

    def clear(self):
        self._Impl = None

    def is_weighted(self):
        return self.properties.weighted

    def unrenumber(self, df, column_name):
        return self.renumber_map.unrenumber(df, column_name)

    def to_directed(self):
        other = type(self)(directed=True)
        other._Impl = type(self._Impl)(other.graph_properties)
        self._Impl.to_directed(other._Impl)
        return other

    def to_undirected(self):
        other = type(self)()
        other._Impl = type(self._Impl)(other.graph_properties)
        self._Impl.to_undirected(other._Impl)
        return other
""",
    "cugraph.structure.graph_implementation.simpleGraph": """
class simpleGraphImpl:
    class Properties:
        def __init__(self, properties):
            self.directed = properties.directed
            self.renumbered = False
            self.node_count = None
            self.edge_count = None
            self.weighted = False

    def __init__(self, properties):
        self.edgelist = None
        self.input_df = None
        self.adjlist = None
        self.transposedadjlist = None
        self.renumber_map = None
        self.properties = simpleGraphImpl.Properties(properties)
        self.source_columns = None
        self.destination_columns = None
        self.vertex_columns = None
        self.weight_column = None

    class AdjList:
        def __init__(self, offsets, indices, value=None):
            self.offsets, self.indices, self.weights = offsets, indices, value

    class transposedAdjList(AdjList):
        pass

    def delete_adj_list(self):
        self.adjlist = None

    def edges(self):
        return self.view_edge_list()[self.vertex_columns]

    def degrees_function(self, vertex_subset=None, degree_type="in_degree"):
        return vertex_subset, self._plc_graph

    def degree(self, vertex_subset=None):
        return self.degrees_function(vertex_subset, "degree")

    def has_node(self, n):
        return (self.nodes() == n).any()
""",
    "cugraph.structure.number_map": """
class NumberMap:
    class SingleGPU:
        def __init__(self, df, src_col_names, dst_col_names, id_type, store_transposed):
            self.df = df
            self.col_names = [str(i) for i in range(len(src_col_names))]

    def __init__(self, renumber_id_type, unrenumbered_id_type, is_renumbered):
        self.is_renumbered = is_renumbered

    def unrenumber(self, df, column_name):
        table = self.implementation.df.merge(df, right_on=column_name, left_on="id", how="right")
        return table.drop(columns=["id", column_name], errors="ignore").rename(columns={"0": column_name})
""",
    "cugraph.traversal.bfs": """
def bfs(G, start=None):
    return G._plc_graph
""",
    "cugraph.tree.minimum_spanning_tree": """
def maximum_spanning_tree(G, ignore_nan=False):
    if G.is_directed():
        raise ValueError("input graph must be undirected")
    if not G.adjlist:
        G.view_adj_list()
    return G.adjlist.offsets.shape[0] - 1, G.number_of_vertices()
""",
    "cugraph.link_analysis.pagerank": """
def pagerank(G, alpha=0.85):
    return G._plc_graph
""",
    "cugraph.sampling.homogeneous_neighbor_sample": """
def _vertex_type(G):
    return G.edgelist.edgelist_df.dtypes.iloc[0]

def homogeneous_neighbor_sample(G):
    vertex_type, graph = _vertex_type(G), G._plc_graph
    wanted = getattr(graph, "vertices_array", None)
    if wanted is not None and wanted.dtype != vertex_type:
        raise ValueError(f"the edge list shows vertices as {vertex_type}, the graph has {wanted.dtype}")
    if G.edgelist.edgelist_df["src"].dtype != vertex_type:
        raise ValueError("two types of one column")
    return graph
""",
    "cugraph.cores.k_core": """
def _call_plc_core_number(G):
    return G._plc_graph

def k_core(G):
    return _call_plc_core_number(G)
""",
    "cugraph.structure.convert_matrix": """
def from_cudf_edgelist(df, source="source", destination="destination", edge_attr=None, create_using=None,
                       renumber=True):
    return "cuGraph's own", create_using

def from_numpy_array(A, create_using=Graph, vertices=None):
    G = Graph()
    G._Impl = simpleGraphImpl(G.graph_properties)
    return G

def from_numpy_matrix(A, create_using=Graph):
    return from_numpy_array(A)

def from_pandas_adjacency(df, create_using=Graph, vertices=None):
    return from_numpy_array(df)

def from_adjlist(offsets, indices, values=None, create_using=Graph):
    G = Graph()
    G.from_cudf_adjlist(offsets, indices, values)
    return G
""",
    "cugraph.structure.hypergraph": """
def hypergraph(values, columns=None, graph_class=Graph):
    graph = graph_class()
    graph.from_cudf_edgelist(values, source=[columns[0]], destination=[columns[1]], edge_attr=None, renumber=True)
    return {"graph": graph, "kind": type(getattr(graph.edgelist, "edgelist_df", None)).__name__}
""",
    "cugraph.community.egonet": """
def induced_subgraph(G, vertices):
    made = Graph()
    made._Impl = simpleGraphImpl(made.graph_properties)
    return made, vertices

def ego_graph(G, n):
    frame = G.edgelist.edgelist_df
    return frame.dtypes.iloc[0], frame["src"].dtype, "weights" in frame, len(frame), type(frame).__name__, frame

def louvain(G):
    return len(G.input_df), G.input_df.dtypes.iloc[0], type(G.input_df).__name__, G.input_df
""",
}


class LentGraph(SimpleNamespace):
    """Keeps what it was made of."""

    def __init__(self, offsets: Any, indices: Any, weights: Any, number_map: Any, **options: Any) -> None:
        super().__init__(offsets=offsets, indices=indices, weights=weights, number_map=number_map, **options)

    def edges(self) -> list[tuple[Any, ...]]:
        """Return (source, destination[, weight]) under the ids that cuGraph would show, sorted."""
        rows = np.repeat(np.arange(self.offsets.shape[0] - 1), np.diff(self.offsets))
        ends = [self.number_map[rows], self.number_map[self.indices]]
        ends = ends[::-1] if self.transposed else ends
        columns = ends if self.weights is None else [*ends, self.weights]
        return sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.fixture
def rapids(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The stand-ins, found by dynstore's adapters, and the drop-in module as ``drop_in``."""
    from dynstore.adapters.cugraph import live_graph

    state, found = _install(monkeypatch), _forget_cugraph()
    state.drop_in = drop_in
    live_graph.live_graph_type.cache_clear()
    yield state
    _forget_cugraph()
    vars(drop_in).update(found)
    live_graph.live_graph_type.cache_clear()


def _forget_cugraph() -> dict[str, Any]:
    """Have the drop-in forget what it has looked up in cuGraph, or in the stand-in; return that."""
    return {name: vars(drop_in).pop(name) for name in set(vars(drop_in)) - OWN_NAMES}


def _install(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    from dynstore.adapters import libraries
    from dynstore.adapters.cugraph import build, direct, live_graph
    from dynstore.adapters.cugraph.borrowed.loading import Bridge

    modules: dict[str, Any] = {}
    for name, source in SOURCES.items():
        module = modules[name] = ModuleType(name)
        module.__dict__.update({key: value for other in modules.values() for key, value in _classes(other).items()})
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    # Graph's methods look the implementation up where they were defined.
    graph_classes = modules["cugraph.structure.graph_classes"]
    graph_classes.simpleGraphImpl = modules["cugraph.structure.graph_implementation.simpleGraph"].simpleGraphImpl
    stream = SimpleNamespace(synchronize=lambda: None, id=0)
    cupy = SimpleNamespace(
        **{
            name: getattr(np, name)
            for name in (
                [
                    "arange",
                    "argsort",
                    "array",
                    "asarray",
                    "cumsum",
                    "empty_like",
                    "full",
                    "lexsort",
                    "nonzero",
                    "searchsorted",
                    "sort",
                    "stack",
                    "zeros",
                    "zeros_like",
                ]
            )
        },
        asnumpy=np.asarray,
        cuda=SimpleNamespace(
            get_current_stream=lambda: stream, Device=lambda: stream, Stream=SimpleNamespace(null=nullcontext())
        ),
    )
    cugraph = ModuleType("cugraph")
    cugraph.Graph = graph_classes.Graph  # type: ignore[attr-defined]
    cugraph.MultiGraph = type("MultiGraph", (graph_classes.Graph,), {})  # type: ignore[attr-defined]
    cugraph.__version__ = "26.10.00"  # type: ignore[attr-defined]
    for name, function in (
        ("cugraph.traversal.bfs", "bfs"),
        ("cugraph.tree.minimum_spanning_tree", "maximum_spanning_tree"),
        ("cugraph.link_analysis.pagerank", "pagerank"),
        ("cugraph.cores.k_core", "k_core"),
        ("cugraph.sampling.homogeneous_neighbor_sample", "homogeneous_neighbor_sample"),
        ("cugraph.structure.convert_matrix", "from_cudf_edgelist"),
        ("cugraph.structure.convert_matrix", "from_numpy_array"),
        ("cugraph.structure.convert_matrix", "from_numpy_matrix"),
        ("cugraph.structure.convert_matrix", "from_pandas_adjacency"),
        ("cugraph.structure.convert_matrix", "from_adjlist"),
        ("cugraph.structure.hypergraph", "hypergraph"),
        ("cugraph.community.egonet", "induced_subgraph"),
        ("cugraph.community.egonet", "ego_graph"),
        ("cugraph.community.egonet", "louvain"),
    ):
        setattr(cugraph, function, getattr(modules[name], function))
    plc = SimpleNamespace(
        SGGraph=lambda *args, **options: SimpleNamespace(args=args, **options),
        ResourceHandle=lambda: "handle",
        GraphProperties=lambda **options: options,
        minimum_spanning_tree=_minimum_tree,
    )
    cudf = SimpleNamespace(DataFrame=pd.DataFrame, Series=pd.Series)
    found = {**modules, "cupy": cupy, "cudf": cudf, "cugraph": cugraph, "pylibcugraph": plc}
    real = libraries.importlib.import_module

    def import_module(name: str) -> Any:
        if name not in found:
            return real(name)
        if found[name] is None:  # not installed, as in sys.modules
            raise ImportError(name)
        return found[name]

    monkeypatch.setattr(libraries, "importlib", SimpleNamespace(import_module=import_module))
    bridge = Bridge(LentGraph, "a stand-in")
    state = SimpleNamespace(cugraph=cugraph, bridge=bridge, graph_classes=graph_classes, modules=found)
    monkeypatch.setattr(live_graph, "load_bridge", lambda: state.bridge)
    monkeypatch.setattr(direct, "_own", threading.local())  # a handle of the stand-in is none of pylibcugraph
    monkeypatch.setattr(direct, "load_bridge", lambda: Bridge(None, "the stand-ins of cuGraph's functions are asked"))
    monkeypatch.setattr(build, "cuda_problem", lambda: None)
    real_graph = build.DynamicGraph

    def on_the_host(**options: Any) -> Any:
        return real_graph(**{**options, "device": "cpu"})

    monkeypatch.setattr(build, "DynamicGraph", on_the_host)
    return state


def _minimum_tree(handle: Any, graph: Any, check: bool) -> tuple[Any, Any, Any, Any]:
    """Find the tree of a stand-in for SGGraph; both directions of each edge, as pylibcugraph."""
    import networkx

    src, dst = graph.args[2:]
    if graph.input_array_format == "CSR":
        src, dst = np.repeat(np.arange(src.shape[0] - 1), np.diff(src)), dst
    found = networkx.Graph()
    found.add_weighted_edges_from(zip(src.tolist(), dst.tolist(), graph.weight_array.tolist(), strict=True))
    rows = [(u, v, values["weight"]) for u, v, values in networkx.minimum_spanning_edges(found)]
    rows = [*rows, *((v, u, w) for u, v, w in rows)]
    return (*(np.array(column) for column in zip(*rows, strict=True)), None)


def _classes(module: ModuleType) -> dict[str, Any]:
    return {key: value for key, value in vars(module).items() if isinstance(value, type)}
