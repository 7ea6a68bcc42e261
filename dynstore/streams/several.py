"""One stream into several graphs: a batch is applied to all of them or to none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.graph import DynamicGraph
from dynstore.graph.events.questions import refuse_multigraph
from dynstore.streams.applying import Applier, Ready
from dynstore.streams.journal import find_journal
from dynstore.streams.rows import keeps_times, reads_weights
from dynstore.windows.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from dynstore.streams.pending import Taken
    from dynstore.streams.rows import StreamRows
    from dynstore.streams.staging import Staging
    from dynstore.typing import Array

__all__ = ["PartApplier", "SeveralApplier", "read_also"]

CALLER = "Stream"


class PartApplier(Applier):
    """Applies batches to one of several graphs, by updates that other graphs can agree to.

    Its graph may have fewer columns than rows have.
    """

    G: DynamicGraph

    def edges_of(self, rows: StreamRows) -> tuple[np.ndarray, ...]:
        return rows.edges(reads_weights(self.G, self.window), len(self.G.edge_dtypes) > keeps_times(self.G))

    def _update(self, insert: tuple[Array, ...], delete: tuple[Array, ...], given: dict[str, Any]) -> int:
        self.G.update(insert or None, delete or None, **given)
        return 0


class SeveralApplier(PartApplier):
    """Applies batches to several graphs. What it says of late rows and times is of the first one.

    ``others``: what applies them to the graphs behind the first.
    """

    def __init__(
        self,
        G: DynamicGraph,
        window: Window | None,
        length: int | None,
        lateness: int | float | None,
        staging: Staging,
        others: Sequence[PartApplier],
    ) -> None:
        super().__init__(G, window, length, lateness, staging)
        self.others = others

    @property
    def graphs(self) -> tuple[Any, ...]:
        return (self.G, *(other.G for other in self.others))

    def prepare(self, taken: Taken, dated: bool | None) -> Ready:
        """Prepare a batch for each graph."""
        others = tuple(other.prepare(taken, dated) for other in self.others)
        return super().prepare(taken, dated)._replace(others=others)

    def apply(self, ready: Ready, logged: AbstractContextManager[None] | None = None) -> int:
        """Apply a batch; a version of all graphs is made as a whole, or not at all."""
        each = [self.updates(ready)]
        each += [other.updates(part) for other, part in zip(self.others, ready.others, strict=True)]
        late = 0
        for left in range(max(map(len, each)), 0, -1):  # with deletions, a window has one version more
            turn = [(G, updates[-left]) for G, updates in zip(self.graphs, each, strict=True) if len(updates) >= left]
            found = _together(turn)
            late += found if turn[0][0] is self.G else 0
        return late


def _together(updates: Sequence[tuple[DynamicGraph, Callable[[], int]]]) -> int:
    """Update several graphs; return what the first update returns.

    An update asks whether it may be kept when nothing of it can fail any more. The others are made then: so if one of
    them fails, none is kept.
    """
    (G, update), *others = updates
    done = not others

    def make_others(_: object = None) -> None:
        nonlocal done
        if not done:
            _together(others)
            done = True

    if done:
        return update()
    with G.core.agreeing(make_others):
        result = update()
    make_others()  # an update that has nothing to do does not ask
    return result


def read_also(G: Any, also: Any, weighted: bool, with_length: bool) -> list[tuple[DynamicGraph, Window | None]]:
    """Read the graphs, or windows of them, that shall get the same rows as ``G``.

    Parameters
    ----------
    weighted : bool
        Whether rows have weights.
    with_length : bool
        Whether edges expire after a length of time.

    Raises
    ------
    InputError
        If they are none, or rows of ``G`` are none of theirs.
    """
    if isinstance(also, DynamicGraph | Window):
        also = [also]
    try:
        given = list(also)
    except TypeError:
        raise InputTypeError(f"{CALLER}: also is {also!r}; wanted a list of graphs or windows") from None
    found: list[tuple[DynamicGraph, Window | None]] = []
    for number, each in enumerate(given):
        name = f"also[{number}]"
        if not isinstance(each, DynamicGraph | Window):
            raise InputTypeError(f"{CALLER}: {name} is a {type_name(each)}; wanted a dynstore.DynamicGraph or a Window")
        H, window = (each.graph, each) if isinstance(each, Window) else (each, None)
        if H is G or any(H is other for other, _ in found):
            raise InputError(f"{CALLER}: {name} is of a graph that the stream has already; wanted another graph")
        _check_fits(G, H, window, name, weighted, with_length)
        found.append((H, window))
    return found


def _check_fits(G: Any, H: DynamicGraph, window: Window | None, name: str, weighted: bool, with_length: bool) -> None:
    """Refuse a graph that cannot take all rows of another one."""
    if not isinstance(G, DynamicGraph):
        raise InputError(f"{CALLER}: also was given; a graph on several ranks does not support it yet. Leave it out")
    refuse_multigraph(CALLER, H)
    if find_journal(G) is not None or find_journal(H) is not None:
        raise InputError(
            f"{CALLER}: also was given, and a graph is one of dynstore.open(...): two logs could end at different "
            "rows. Wanted graphs in memory"
        )
    if H.core.backend.name != G.core.backend.name:
        got = f"{name} is on {H.core.backend.name!r}, the graph on {G.core.backend.name!r}"
        raise InputError(f"{CALLER}: {got}; wanted one device")
    if H.is_renumbered() != G.is_renumbered():
        raise InputError(
            f"{CALLER}: {name} has renumber={H.is_renumbered()}, the graph renumber={G.is_renumbered()}; "
            "wanted ids of one kind"
        )
    if reads_weights(H, window) and not (weighted and np.can_cast(H.weight_dtype, G.weight_dtype)):
        got = f"weights of {H.weight_dtype}"
    elif not H.edge_dtypes.items() <= G.edge_dtypes.items() or len(H.edge_dtypes) not in (0, len(G.edge_dtypes)):
        got = f"the edge columns {list(H.edge_dtypes)}"
    else:
        got = ""
    if got:
        raise InputError(
            f"{CALLER}: {name} has {got}, which rows of the graph do not have; wanted the graph with most columns first"
        )
    if with_length and window is None and not keeps_times(H):
        raise InputError(
            f"{CALLER}: window is a length of time, and {name} keeps no times; wanted a dynstore.Window, "
            "or a graph with timestamps"
        )
