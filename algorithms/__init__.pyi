# ruff: noqa: F403  what is public in a family is an algorithm
from dynstore.algorithms.centrality.api import *
from dynstore.algorithms.community.api import *
from dynstore.algorithms.components.api import *
from dynstore.algorithms.link_analysis.api import *
from dynstore.algorithms.registry import ALGORITHMS as ALGORITHMS
from dynstore.algorithms.registry import find_algorithm as find_algorithm
from dynstore.algorithms.tracking import Monitor as Monitor
from dynstore.algorithms.tracking import track as track
from dynstore.algorithms.traversal.api import *
