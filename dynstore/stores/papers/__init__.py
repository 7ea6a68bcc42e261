"""Structures as papers describe them, to repeat the experiments there; they come in as a store from elsewhere does."""

from __future__ import annotations

__all__ = ["STORES"]

# name -> "module:class", as an entry point has it
STORES = {
    "adjlists": "dynstore.stores.papers.adjlists.store:AdjListsStore",
    "gpma": "dynstore.stores.papers.gpma.store:GPMAStore",
    "gpma_level": "dynstore.stores.papers.gpma_level.store:GPMALevelStore",
    "graphvine": "dynstore.stores.papers.graphvine.store:GraphVineStore",
    "pma": "dynstore.stores.papers.pma_sequential.store:PMAStore",
}
