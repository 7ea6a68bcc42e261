"""The views of a graph: its edges of some time, and its present version, pinned."""

from __future__ import annotations

from dynstore.graph.saving import Saving
from dynstore.graph.versions.pinned import PinnedGraph, pin_version
from dynstore.graph.versions.view import Timed

__all__ = ["Views"]


class Views(Timed, Saving):
    """The part of :class:`dynstore.DynamicGraph` that makes views."""

    def pin(self) -> PinnedGraph:
        """Keep the current version readable while the graph is updated.

        Updates note what they overwrite. The pin reads the graph, and corrects it by these notes. The first call that
        reads all edges, such as an algorithm, makes a copy of the version. See ``docs/guides/pins.md``.

        Returns
        -------
        PinnedGraph
            A read-only graph; also a context manager, which releases it. Pins of one version share their memory.

        Examples
        --------
        >>> import dynstore
        >>> G = dynstore.DynamicGraph.from_edges([(0, 1)], device="cpu")
        >>> pin = G.pin()
        >>> _ = G.insert_edges([(0, 2)])
        >>> pin.neighbors(0).tolist(), G.neighbors(0).tolist()
        ([1], [1, 2])
        >>> pin.release()
        """
        return pin_version(self)
