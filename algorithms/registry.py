"""The list of all public algorithms.

To import it imports all families. That is cheap, as kernels are imported by the first call that needs them.
"""

from __future__ import annotations

from dynstore.algorithms.calls import RECORDS, Algorithm
from dynstore.algorithms.centrality import api as centrality
from dynstore.algorithms.community import api as community
from dynstore.algorithms.components import api as components
from dynstore.algorithms.link_analysis import api as link_analysis
from dynstore.algorithms.traversal import api as traversal
from dynstore.arguments import check_name

__all__ = ["ALGORITHMS", "find_algorithm"]

FAMILIES = (centrality, community, components, link_analysis, traversal)
# What is public in a family is an algorithm.
ALGORITHMS: dict[str, Algorithm] = {name: RECORDS[name] for family in FAMILIES for name in family.__all__}


def find_algorithm(name: str) -> Algorithm:
    """Return the record of a public algorithm.

    Parameters
    ----------
    name : str
        Such as "bfs".

    Returns
    -------
    Algorithm
        As in :data:`ALGORITHMS`.

    Raises
    ------
    InputError
        For an unknown name; the message lists the known ones and makes a guess.
    """
    check_name("find_algorithm", "algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]
