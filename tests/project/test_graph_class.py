"""What a graph is made of: few classes, few names, and one frame around all updates."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from dynstore import DynamicGraph
from dynstore.adapters.dask.graph import DaskGraph
from dynstore.distributed import ShardedGraph
from dynstore.graph import GraphView, PinnedGraph
from dynstore.graph.readable import ReadableGraph

ROOT = Path(__file__).resolve().parents[2]
MOST_NAMES, MOST_CLASSES = 61, 6  # six names, in a class of their own, are of multigraphs
ATTRIBUTES = {"core", "store_name", "vertex_dtype", "weight_dtype"}


def _public(names: list[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_a_graph_has_few_names() -> None:
    """What other packages need is in its core."""
    assert len(_public(dir(DynamicGraph))) <= MOST_NAMES
    assert _public(dir(DynamicGraph(device="cpu"))) - _public(dir(DynamicGraph)) == ATTRIBUTES


def test_the_reference_hides_none_of_them() -> None:
    """They are in its table, or are described with the class."""
    page = (ROOT / "docs" / "reference" / "graph.md").read_text(encoding="utf-8")
    assert "exclude-members" not in page
    shown = set(re.findall(r"^   DynamicGraph\.(\w+)$", page, flags=re.MULTILINE))
    assert _public(dir(DynamicGraph)) <= shown


def test_a_graph_has_few_classes() -> None:
    assert len(DynamicGraph.__mro__) - 2 <= MOST_CLASSES  # itself and `object`


def test_all_kinds_of_graphs_answer_the_same_questions() -> None:
    for kind in (DynamicGraph, GraphView, PinnedGraph, ShardedGraph, DaskGraph):
        assert issubclass(kind, ReadableGraph)
        assert not kind.__abstractmethods__


def test_what_is_asked_of_all_kinds_is_described_once() -> None:
    """A kind says only what it answers otherwise; the rest is inherited, and is shown."""
    kinds = (DynamicGraph, GraphView, PinnedGraph, ShardedGraph, DaskGraph)
    for name, asked in vars(ReadableGraph).items():
        if not name.startswith("_"):
            assert inspect.getdoc(asked), name
            for kind in {base for one in kinds for base in one.__mro__ if name in vars(base)} - {ReadableGraph}:
                own = vars(kind)[name].__doc__
                assert inspect.getdoc(getattr(kind, name)), f"{kind.__name__}.{name}"
                assert own is None or asked.__doc__.partition(".")[0] not in own, f"{kind.__name__}.{name}"


def test_one_file_opens_the_frame_of_an_update() -> None:
    """A pin's copy, and a table of records that gets longer, hold signals back by themselves: no edge changes there."""
    opened = re.compile(r"\bUninterrupted\(")
    files = list((ROOT / "dynstore" / "graph").rglob("*.py"))
    found = {path.name for path in files if opened.search(path.read_text(encoding="utf-8"))}
    assert found == {"transaction.py", "pinned.py", "records.py"}
    blocks = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in blocks if "with " in line and " Transaction(" in line and ".lock, Trans" not in line] == []
