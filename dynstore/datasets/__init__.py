"""Data by name: two temporal graphs, of which one ships with the package, generated graphs, and files.

``load("collegemsg")``, ``rmat(20, 8, seed=1)``, ``uniform(1000, 5000, seed=1)``, or any of them from
one string: ``resolve("rmat:20:8", seed=1)``.
"""

from __future__ import annotations

from dynstore.datasets.generators import rmat, uniform
from dynstore.datasets.names import resolve
from dynstore.datasets.shipped import SHIPPED, load

__all__ = ["SHIPPED", "load", "resolve", "rmat", "uniform"]
