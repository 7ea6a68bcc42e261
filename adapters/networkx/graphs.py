"""NetworkX graph classes that log their changes, so that their stores are updated instead of rebuilt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dynstore.adapters.libraries import require
from dynstore.adapters.networkx.store import StoreGraph
from dynstore.adapters.networkx.tracked import TrackedGraph

if TYPE_CHECKING:
    from networkx import Graph as _Base
else:
    _Base = object

__all__ = ["FollowedGraph", "GraphCache", "graph_classes"]


class GraphCache(dict[Any, Any]):
    """Replaces NetworkX's cache of a graph's conversions: it keeps none, but notices when NetworkX clears it.

    Every change of a graph that NetworkX knows of clears this cache. Clearing by a method that logs is expected. Any
    other clearing causes a rebuild of the store.
    """

    def __init__(self) -> None:
        super().__init__()
        self.expecting = 0
        self.changed_unseen = False

    def __bool__(self) -> bool:
        return True  # NetworkX does not clear an empty cache

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return default

    def clear(self) -> None:
        if not self.expecting:
            self.changed_unseen = True

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphCache, ()


class FollowedGraph(_Base):  # type: ignore[misc]  # NetworkX has no types here
    """The mixin that :class:`Graph` and :class:`DiGraph` add to NetworkX's classes.

    Before the first algorithm nothing is logged. From then on each method that changes the graph logs the edges that it
    touches, and the next algorithm applies them to the store as one batch.
    """

    __networkx_backend__ = "dynstore"
    _store: TrackedGraph | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)  # NetworkX's __new__ would query the backends for a class

    def __init__(self, incoming_graph_data: Any = None, **attr: Any) -> None:
        super().__init__(incoming_graph_data, **attr)
        self._follow_anew()

    def _follow_anew(self) -> None:
        """Start without a store, and with a cache that notices changes."""
        self._store = None
        self.__networkx_cache__ = GraphCache()

    def __copy__(self) -> Any:
        return self.copy()  # the default would share the dicts, and the cache that notices their changes

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_store"}

    def to_directed_class(self) -> type:
        return graph_classes()[1]

    def to_undirected_class(self) -> type:
        return graph_classes()[0]

    def _current_store(self) -> StoreGraph:
        """Return the store, updated to the present graph."""
        cache = self.__networkx_cache__
        if not isinstance(cache, GraphCache) or "_graph" in self.__dict__:
            return TrackedGraph(self)  # caching is off, or this is a view, whose changes are not logged
        store = self._store
        if store is None or cache.changed_unseen or not store.follows(self):
            cache.changed_unseen = False
            store = TrackedGraph(self)
        self._store = None  # so that a refresh that fails half-way leaves no store behind
        store.refresh()
        self._store = store
        return store

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Expect the cache to be cleared; drop the store if the change fails half-way: what was changed is unknown."""
        cache = self.__networkx_cache__
        if not isinstance(cache, GraphCache):
            self._store = None
            yield
            return
        cache.expecting += 1
        try:
            yield
        except BaseException:
            self._store = None
            raise
        finally:
            cache.expecting -= 1

    # ------------------------------------------------------------------ nodes

    def add_node(self, node_for_adding: Any, **attr: Any) -> None:
        store = self._store
        if store is None:
            super().add_node(node_for_adding, **attr)
            return
        with self._noted():
            super().add_node(node_for_adding, **attr)
            store.note_nodes(self._node)

    def add_nodes_from(self, nodes_for_adding: Iterable[Any], **attr: Any) -> None:
        store = self._store
        if store is None:
            super().add_nodes_from(nodes_for_adding, **attr)
            return
        with self._noted():
            super().add_nodes_from(nodes_for_adding, **attr)
            store.note_nodes(self._node)

    def remove_node(self, n: Any) -> None:
        store = self._store
        if store is None or n not in self:
            super().remove_node(n)
            return
        with self._noted():
            store.note_removal(n)
            super().remove_node(n)

    def remove_nodes_from(self, nodes: Iterable[Any]) -> None:
        store = self._store
        if store is None:
            super().remove_nodes_from(nodes)
            return

        def noting() -> Iterator[Any]:
            for node in nodes:
                if node in self._node:
                    store.note_removal(node)
                yield node

        with self._noted():
            super().remove_nodes_from(noting())

    # ------------------------------------------------------------------ edges

    def add_edge(self, u_of_edge: Any, v_of_edge: Any, **attr: Any) -> None:
        store = self._store
        if store is None:
            super().add_edge(u_of_edge, v_of_edge, **attr)
            return
        with self._noted():
            moved = not self.has_edge(u_of_edge, v_of_edge)
            super().add_edge(u_of_edge, v_of_edge, **attr)
            store.note_edge(u_of_edge, v_of_edge, moved)

    def add_edges_from(self, ebunch_to_add: Iterable[Any], **attr: Any) -> None:
        store = self._store
        if store is None:
            super().add_edges_from(ebunch_to_add, **attr)
            return

        def noting() -> Iterator[Any]:
            for edge in ebunch_to_add:
                ends = tuple(edge)[:2]
                moved = len(ends) < 2 or not self.has_edge(*ends)
                yield edge  # NetworkX adds it, or refuses it: then nothing is noted
                store.note_edge(ends[0], ends[1], moved)

        with self._noted():
            super().add_edges_from(noting(), **attr)

    def remove_edge(self, u: Any, v: Any) -> None:
        store = self._store
        if store is None or not self.has_edge(u, v):
            super().remove_edge(u, v)
            return
        with self._noted():
            store.note_edge(u, v, moved=True)
            super().remove_edge(u, v)

    def remove_edges_from(self, ebunch: Iterable[Any]) -> None:
        store = self._store
        if store is None:
            super().remove_edges_from(ebunch)
            return

        def noting() -> Iterator[Any]:
            for edge in ebunch:
                u, v = edge[:2]
                if self.has_edge(u, v):
                    store.note_edge(u, v, moved=True)
                yield edge

        with self._noted():
            super().remove_edges_from(noting())

    # ------------------------------------------------------------------ what calls the methods above, and all at once

    def add_weighted_edges_from(self, ebunch_to_add: Iterable[Any], weight: str = "weight", **attr: Any) -> None:
        store = self._store
        if store is None:
            super().add_weighted_edges_from(ebunch_to_add, weight, **attr)
            return
        with self._noted():
            super().add_weighted_edges_from(ebunch_to_add, weight, **attr)

    def update(self, edges: Any = None, nodes: Any = None) -> None:
        store = self._store
        if store is None:
            super().update(edges, nodes)
            return
        with self._noted():
            super().update(edges, nodes)

    def clear(self) -> None:
        store = self._store
        if store is None:
            super().clear()
            return
        with self._noted():
            super().clear()
            store.note_clear(nodes_too=True)

    def clear_edges(self) -> None:
        store = self._store
        if store is None:
            super().clear_edges()
            return
        with self._noted():
            super().clear_edges()
            store.note_clear(nodes_too=False)


@lru_cache(maxsize=1)
def graph_classes() -> tuple[type, type]:
    """Return the classes ``Graph`` and ``DiGraph``; made on the first request, because they need NetworkX."""
    nx = require(__package__, "networkx")
    made = []
    for base, words in ((nx.Graph, "An undirected"), (nx.DiGraph, "A directed")):
        doc = (
            f"{words} networkx graph that ``dynstore`` follows: algorithms run on a store that changes update in place."
        )
        names = {"__doc__": doc, "__module__": __package__}
        made.append(type(base.__name__, (FollowedGraph, base), names))
    return made[0], made[1]
