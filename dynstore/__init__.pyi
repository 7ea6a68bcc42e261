# ruff: noqa: F403  what is public in a family is an algorithm
from dynstore import algorithms as algorithms
from dynstore import datasets as datasets
from dynstore import distributed as distributed
from dynstore import errors as errors
from dynstore import gts as gts
from dynstore import streams as streams
from dynstore.adapters.explanation import explain as explain
from dynstore.adapters.networkx.exchange import from_networkx as from_networkx
from dynstore.algorithms.centrality.api import *
from dynstore.algorithms.community.api import *
from dynstore.algorithms.components.api import *
from dynstore.algorithms.link_analysis.api import *
from dynstore.algorithms.traversal.api import *
from dynstore.durable import Database as Database
from dynstore.durable import open as open
from dynstore.graph import DynamicGraph as DynamicGraph
from dynstore.graph import GraphView as GraphView
from dynstore.graph import PinnedGraph as PinnedGraph
from dynstore.graph import load as load
from dynstore.graph.events.simple import SimpleGraph as SimpleGraph
from dynstore.operations.results import Operation as Operation
from dynstore.operations.results import OperationResults as OperationResults
from dynstore.snapshot import GapCSR as GapCSR
from dynstore.streams.stream import Stream as Stream
from dynstore.typing import ReorderReport as ReorderReport
from dynstore.typing import UpdateReport as UpdateReport
from dynstore.windows.moves import SlideReport as SlideReport
from dynstore.windows.window import Window as Window

__version__: str
