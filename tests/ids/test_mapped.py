"""Graphs whose vertices have any ids: updates and reordering, algorithms, the same on every device."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.datasets import rmat
from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.graph import DynamicGraph
from dynstore.testing.pair import ID_KINDS, Pair
from dynstore.testing.parity import check_parity
from dynstore.typing import UpdateReport

DEVICES = ("cpu", "cuda" if "cuda" in os.environ.get("DYNSTORE_TEST_DEVICES", "") else "cuda-sim")
every_kind_of_id = pytest.mark.parametrize("kind", ["sparse", "strings"])


def test_options_that_need_each_other() -> None:
    with pytest.raises(InputError, match="got reuse_ids=True and renumber=False"):
        DynamicGraph(device="cpu", reuse_ids=True)
    with pytest.raises(InputTypeError, match="renumber is 'yes'"):
        DynamicGraph(device="cpu", renumber="yes")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="make it with renumber=True"):
        DynamicGraph(device="cpu").reorder()
    with pytest.raises(InputError, match="threshold is 2"):
        DynamicGraph(device="cpu", renumber=True).reorder(threshold=2)


def test_a_graph_that_is_not_renumbered_knows_its_ids(backend_name: str) -> None:
    graph = DynamicGraph(device=backend_name)
    graph.insert_edges(([3], [1]))
    host = graph.core.backend.to_host
    assert host(graph.vertex_ids()).tolist() == [0, 1, 2, 3]
    assert host(graph.vertex_numbers([3, 9, 0])).tolist() == [3, -1, 0]
    assert not graph.is_renumbered()
    assert "vertex_map" not in graph.memory_usage()


def test_reordering_an_empty_graph() -> None:
    graph = DynamicGraph(renumber=True, device="cpu")
    report = graph.reorder()
    assert (report.vertex_drift, report.edge_drift, report.moved) == (0.0, 0.0, 0)


def test_exports_outlive_a_reordering() -> None:
    graph = DynamicGraph(renumber=True, device="cpu")
    graph.insert_edges((["a", "b"], ["b", "c"]))
    graph.insert_edges((["c", "c", "c"], ["a", "b", "c"]))
    arrays = graph.snapshot().export()
    before = {name: array.copy() for name, array in arrays.items()}
    graph.reorder()
    graph.insert_edges((["a"], ["a"]))
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("back", [1, 3, 7])
def test_a_deleted_vertex_that_comes_back_keeps_its_number(backend_name: str, back: int) -> None:
    """Whichever of the deleted ones it is: a new id takes the number of another."""
    pair = Pair(renumber=True, reuse_ids=True, device=backend_name)
    pair.insert([3, 1, 7], [1, 7, 3])
    pair.update("delete_vertices", [1, 3, 7])
    pair.insert([back], [20])
    assert pair.graph.number_of_vertices() == 3
    pair.check_queries()


def test_the_largest_id_is_that_before_the_largest_int64(backend_name: str) -> None:
    pair = Pair(renumber=True, device=backend_name)
    pair.insert([2**63 - 2, 0], [0, 2**63 - 2])
    for columns in (([2**63 - 1], [0]), ([0], [2**63 - 1])):
        pair.refuse(LimitError, "insert_edges", columns, match=str(2**63 - 1))
    assert pair.graph.vertex_ids().tolist() == [0, 2**63 - 2]


def test_the_callers_arrays_are_neither_kept_nor_written() -> None:
    graph = DynamicGraph(renumber=True, device="cpu")
    src, dst = np.array([5, 9]), np.array([9, 7])
    graph.insert_edges((src, dst))
    assert (src.tolist(), dst.tolist()) == ([5, 9], [9, 7])
    src[:], dst[:] = 0, 0
    ids = graph.vertex_ids()
    ids[:] = 0
    assert graph.edge_table().to_numpy().tolist() == [[9, 7], [5, 9]]


def test_the_drift_is_counted_in_degree_classes() -> None:
    graph = DynamicGraph(renumber=True, device="cpu", directed=True)
    graph.insert_edges((list("aaab"), list("bccb")))
    graph.insert_edges((["x"], ["y"]))
    degrees = dict(zip(*(column.tolist() for _, column in graph.degree().items()), strict=True))
    assert degrees == {"b": 3, "a": 2, "c": 1, "x": 1, "y": 1}
    assert graph.reorder(threshold=1.0) == dynstore.ReorderReport(0.0, 0.0, 0)
    graph.insert_edges((list("yyyy"), list("abcy")))  # b 4, a 3, c 2, x 1, y 6
    report = graph.reorder(threshold=0.5)
    assert report.vertex_drift == pytest.approx(3 / 5)  # sorted, 4-7, 2-3 and 1 stand at the places of a, x and y
    assert report.edge_drift == pytest.approx((3 + 1 + 6) / 16)
    assert graph.vertex_ids().tolist() == list("ybacx")


@every_kind_of_id
def test_frames_of_ids(kind: str) -> None:
    frame = pd.DataFrame({"a": [ID_KINDS[kind](n) for n in (1, 2, 3)], "b": [ID_KINDS[kind](n) for n in (2, 3, 3)]})
    for table in (frame, frame.astype("category")):
        graph = DynamicGraph.from_edges(table, "a", "b", renumber=True, device="cpu", directed=False)
        rows = {frozenset(row) for row in graph.edge_table().to_numpy().tolist()}
        assert rows == {frozenset(row) for row in frame.to_numpy().tolist()}
        assert (graph.edge_table()["source"] <= graph.edge_table()["destination"]).all()
        assert graph.core.backend.to_host(graph.has_edges(table, "b", "a")).all()
        assert graph.delete_edges(table.iloc[:2], "a", "b").deleted == 2


@every_kind_of_id
@pytest.mark.parametrize("directed", [True, False])
def test_the_same_on_the_host_and_on_cuda(kind: str, directed: bool) -> None:
    def history(device: str) -> Any:
        graph = DynamicGraph(renumber=True, reuse_ids=True, directed=directed, weighted=True, device=device)
        rng = np.random.default_rng(5)
        seen: list[Any] = []
        for step in range(3):
            src, dst = ([ID_KINDS[kind](n) for n in column] for column in rng.integers(0, 9 + 4 * step, (2, 20)))
            seen.append(graph.insert_edges((src, dst, rng.integers(0, 9, 20) / 2)))
            seen.append(graph.delete_edges((dst[:9], src[:9])))
            seen.append(graph.delete_vertices(src[9:11]))
            seen.append(graph.core.backend.to_host(graph.vertex_ids()).tolist())
        seen.append(graph.reorder())
        # When gpma+ merges everything, and so when it grows, depends on what the device's kernels cost.
        seen = [each[:5] if isinstance(each, UpdateReport) else each for each in seen]
        seen += [graph.edge_table(), graph.degree(), graph.core.backend.to_host(graph.vertex_ids()).tolist()]
        seen += [graph.core.backend.to_host(graph.neighbors(src[0])).tolist(), graph.number_of_vertices()]
        return seen

    check_parity(history, DEVICES)


@pytest.mark.parametrize(
    "body",
    [
        lambda graph: graph.neighbors(5),
        lambda graph: graph.insert_edges((["a"], ["b"])),
        lambda graph: graph.insert_edges(([2**63], [1])),
        lambda graph: graph.insert_edges(([50, 51], [52, 53])),
    ],
)
def test_the_same_errors_on_the_host_and_on_cuda(body: Callable[[DynamicGraph], Any]) -> None:
    def refused(device: str) -> Any:
        graph = DynamicGraph(renumber=True, device=device, max_vertices=4)
        graph.insert_edges(([10**12], [7]))
        return body(graph)

    check_parity(refused, DEVICES)


def test_the_page_about_ids_prints_what_it_shows() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "vertex-ids.md").read_text(encoding="utf-8")
    (program,), (shown,) = (
        re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL) for language in ("python", "text")
    )
    program = program.replace("renumber=True", 'renumber=True, device="cpu"')
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    # pandas before 3.0 shows a missing string as None
    assert printed.getvalue().replace("None", " NaN") == shown


# ---------------------------------------------------------------------- algorithms


class Twins:
    """One graph whose ids are its numbers, and one with ids of another kind that are numbered another way."""

    def __init__(self, kind: str, device: str, directed: bool, scale: int = 4) -> None:
        events = rmat(scale, 3, seed=11)
        weights = 1.0 + np.arange(len(events)) % 5
        self.name = ID_KINDS[kind]
        self.plain = DynamicGraph(directed=directed, weighted=True, device=device)
        self.plain.insert_edges((events.src, events.dst, weights))
        self.named = DynamicGraph(directed=directed, weighted=True, device=device, renumber=True)
        src, dst = ([self.name(number) for number in column.tolist()] for column in (events.src, events.dst))
        self.named.insert_edges((src[:30], dst[:30], weights[:30]))
        self.named.insert_edges((src[30:], dst[30:], weights[30:]))
        self.named.insert_vertices([self.name(n) for n in range(self.plain.number_of_vertices())])

    def same(self, algorithm: Callable[..., Any], *args: Any, column: str, **kwargs: Any) -> tuple[Any, Any]:
        """Return both frames, the second brought to the first's order; compare a column."""
        plain = _pandas(algorithm(self.plain, *args, **kwargs)).set_index("vertex")
        named = _pandas(algorithm(self.named, *map(self._translate, args), **kwargs)).set_index("vertex")
        named = named.loc[[self.name(number) for number in plain.index]]
        np.testing.assert_allclose(named[column].to_numpy(), plain[column].to_numpy(), rtol=1e-5, atol=1e-7)
        return plain, named

    def _translate(self, value: Any) -> Any:
        return [self.name(number) for number in value] if isinstance(value, list) else value


@every_kind_of_id
@pytest.mark.parametrize("directed", [True, False])
def test_searches_under_ids(kind: str, directed: bool, backend_name: str) -> None:
    twins = Twins(kind, backend_name, directed)
    none = -1 if kind == "sparse" else None
    for algorithm, column in ((dynstore.bfs, "distance"), (dynstore.sssp, "distance")):
        plain, named = twins.same(algorithm, [3], column=column)
        numbers = [twins.name(n) for n in range(twins.plain.number_of_vertices())]
        parents = named["predecessor"]
        assert parents.isna().to_numpy().tolist() == ((plain["predecessor"] < 0) & (none is None)).tolist()
        reached = (plain["predecessor"] >= 0).to_numpy()
        assert reached.any()
        assert set(parents[reached]) <= set(numbers)
        if none == -1:
            assert parents.dtype == np.int64
            assert (parents[~reached] == -1).all()
        # Every parent is one step nearer, by an edge that there is.
        children = named.index[reached].tolist()
        assert twins.named.core.backend.to_host(twins.named.has_edges((parents[reached].tolist(), children))).all()
        nearer = named.loc[parents[reached].tolist(), "distance"].to_numpy()
        assert (nearer < named["distance"].to_numpy()[reached]).all()


@every_kind_of_id
def test_ranks_and_counts_under_ids(kind: str) -> None:
    for directed in (True, False):
        twins = Twins(kind, "cpu", directed, scale=6)
        twins.same(dynstore.pagerank, column="pagerank", tol=1e-7)
        twins.same(dynstore.betweenness_centrality, [1, 5, 9], column="betweenness_centrality")
        _, named = twins.same(lambda graph: _sizes(dynstore.weakly_connected_components(graph)), column="size")
        assert set(named["labels"]) <= set(named.index)
        weights = {n: float(n) for n in (1, 4, 6)}
        frame = pd.DataFrame({"vertex": list(weights), "values": list(weights.values())})
        plain = dynstore.pagerank(twins.plain, personalization=frame, tol=1e-7)["pagerank"].to_numpy()
        frame["vertex"] = [twins.name(n) for n in weights]
        named = dynstore.pagerank(twins.named, personalization=frame, tol=1e-7).set_index("vertex")
        named = named.loc[[twins.name(n) for n in range(plain.shape[0])], "pagerank"].to_numpy()
        np.testing.assert_allclose(named, plain, rtol=1e-4)
    twins.same(dynstore.triangle_count, column="counts")
    plain, named = (dynstore.triangle_count(*args) for args in (
        (twins.plain, [5, 2]), (twins.named, [twins.name(5), twins.name(2)])
    ))  # fmt: skip
    assert named["vertex"].tolist() == [twins.name(5), twins.name(2)]
    assert named["counts"].tolist() == plain["counts"].tolist()


def _sizes(components: pd.DataFrame) -> pd.DataFrame:
    components["size"] = components.groupby("labels")["vertex"].transform("size")
    return components


@every_kind_of_id
def test_ids_that_an_algorithm_does_not_find(kind: str) -> None:
    twins, stranger = Twins(kind, "cpu", True), ID_KINDS[kind](999)
    for call in (
        lambda: dynstore.bfs(twins.named, stranger),
        lambda: dynstore.sssp(twins.named, [stranger]),
        lambda: dynstore.betweenness_centrality(twins.named, pd.DataFrame({"v": [twins.name(1), stranger]})),
    ):
        with pytest.raises(InputError, match=rf"Found invalid vertex in .*{stranger}.*16 vertices$"):
            call()
    frame = pd.DataFrame({"vertex": [twins.name(1), stranger], "values": [1.0, 2.0]})
    with pytest.raises(InputError, match=f"personalization names vertex '?{stranger}"):
        dynstore.pagerank(twins.named, personalization=frame)
    other = ID_KINDS["sparse" if kind == "strings" else "strings"](1)
    with pytest.raises(InputTypeError, match="bfs: "):
        dynstore.bfs(twins.named, other)


@pytest.mark.parametrize("change", ["reorder", "clear"])
def test_ranks_from_before_other_numbers_are_not_used(change: str) -> None:
    def first_ranks(warm: bool) -> pd.DataFrame:
        graph = DynamicGraph(renumber=True, device="cpu")
        graph.insert_edges((list("aab"), list("bca")))
        graph.insert_edges((list("dddd"), list("abcd")))
        if warm:
            dynstore.pagerank(graph)
        getattr(graph, change)()
        if change == "clear":
            graph.insert_edges((list("wxyz"), list("xxwx")))
        options = {"max_iter": 1, "fail_on_nonconvergence": False, "warm_start": warm}
        return dynstore.pagerank(graph, **options)[0]

    pd.testing.assert_frame_equal(first_ranks(warm=True), first_ranks(warm=False))


def _pandas(frame: Any) -> Any:
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame
