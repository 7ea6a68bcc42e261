"""Store "paged": updates that follow each other without a read, which would make one run of the delta's two."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynstore.testing.pair import Pair
from tests.conftest import DEVICES
from tests.crossed import crossed


class Unread(Pair):
    """A graph that updates do not compare with its model."""

    def check(self) -> None:
        pass


@crossed(weighted=[False, True], directed=[False, True], transposed=[False, True], backend_name=DEVICES)
def test_updates_that_no_read_comes_between(
    weighted: bool, directed: bool, transposed: bool, backend_name: str
) -> None:
    """New edges, edges of each run and of pages, and edges that were deleted there, by all updates."""
    rng = np.random.default_rng(3)  # it leads to all states
    vertices, most = (12, 50) if backend_name == "cuda-sim" else (20, 140)
    steps = 60 if backend_name == "cpu" else 16
    options: dict[str, Any] = {"delta_edges": most, "density": 0.5, "page_bits": 5}
    pair = Unread(transposed, store="paged", device=backend_name, directed=directed, weighted=weighted, **options)
    gone: list[tuple[int, int]] = []
    seen: set[tuple[bool, bool, bool]] = set()  # dead slots in pages, dead edges in the large run, a small run

    def with_weights(src: Any, dst: Any) -> tuple[Any, ...]:
        return (src, dst, rng.integers(-64, 64, len(src)) / 4) if weighted else (src, dst)

    def some(edges: list[tuple[int, int]], count: int) -> np.ndarray:
        numbers = rng.integers(0, len(edges), count if edges else 0)
        return np.array(edges, np.int64).reshape(-1, 2)[numbers]

    def draw() -> tuple[np.ndarray, ...]:
        fresh = rng.integers(0, vertices, (int(rng.integers(4)), 2))
        return tuple(np.concatenate((fresh, some(sorted(pair.model.edges), 3), some(gone, 2))).T)

    for count in (2 * most + 20, most // 2 - 10):
        pair.update("insert_edges", with_weights(*rng.integers(0, vertices, (2, count))))
    for _ in range(steps):
        leaving = draw()
        gone += set(zip(*(column.tolist() for column in leaving), strict=True)) & pair.model.edges.keys()
        how = str(rng.choice(["replace", "add"]))
        match int(rng.integers(4)):
            case 0:
                pair.update("delete_edges", leaving)
            case 1:
                pair.update("update", with_weights(*draw()), leaving, on_duplicate=how)
            case _:
                pair.update("insert_edges", with_weights(*draw()), on_duplicate=how)
        store: Any = pair.graph.core.out
        runs = store._delta._runs
        seen.add((store._num_dead > 0, runs.num_dead > 0, len(runs.small[0]) > 0))
        assert pair.graph.number_of_edges() == pair.model.number_of_edges()
    twin = pair.copy()
    pair.update("delete_edges", draw())
    for each in (pair, twin):
        each.check_points()
        Pair.check(each)
        each.check_queries()
    assert (True, True, True) in seen
