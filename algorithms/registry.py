"""The list of all public algorithms.

To import it imports all families. That is cheap, as kernels are imported by the first call that needs them.
"""

from __future__ import annotations

from dynstore.algorithms.calls import RECORDS, Algorithm
from dynstore.algorithms.centrality.api import betweenness_centrality
from dynstore.algorithms.community.api import triangle_count
from dynstore.algorithms.components.api import weakly_connected_components
from dynstore.algorithms.link_analysis.api import pagerank
from dynstore.algorithms.traversal.api import bfs, sssp
from dynstore.arguments import check_name

__all__ = ["ALGORITHMS", "find_algorithm"]

ALGORITHMS: dict[str, Algorithm] = {
    function.__name__: RECORDS[function.__name__]
    for function in (betweenness_centrality, bfs, pagerank, sssp, triangle_count, weakly_connected_components)
}


def find_algorithm(name: str) -> Algorithm:
    """Return the record of a public algorithm.

    Raises
    ------
    InputError
        For an unknown name; the message lists the known ones and makes a guess.
    """
    check_name("find_algorithm", "algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]
