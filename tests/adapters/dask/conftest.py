"""The cluster is one for all tests of this folder."""

from tests.adapters.dask.clusters import client, cluster

__all__ = ["client", "cluster"]
