"""Ctrl-C during an update waits for its end, or stops it before it has written anything."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynstore.graph.updates
from dynstore.interrupts import Uninterrupted
from dynstore.testing.pair import Pair

STORES = ["gpma+", "gpma", "lpma", "slab_hash", "graphvine"]


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """Workers of pytest-xdist may ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class CtrlC:
    """Calls a function; Ctrl-C comes while call number ``at``, counted from 0, is under way."""

    def __init__(self, function: Callable[..., Any], at: int) -> None:
        self.function, self.at, self.calls = function, at, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.function(*args, **kwargs)
        self.calls += 1
        if self.calls == self.at + 1:
            signal.raise_signal(signal.SIGINT)
        return result


def interrupt(monkeypatch: pytest.MonkeyPatch, pair: Pair, owner: Any, name: str, method: str, *args: Any) -> int:
    """Let Ctrl-C come in each call of a function in turn, until an update has no more of them; return how many."""
    for at in range(100):
        graph, calling, version = pair.graph, CtrlC(getattr(owner, name), at), pair.graph.version
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, calling)
            try:
                getattr(graph, method)(*args)
                came = False
            except KeyboardInterrupt:
                came = True
        if graph.version > version:
            getattr(pair.model, method)(*args)
        pair.check()
        if not came:
            assert calling.calls <= at, f"{method}: Ctrl-C in call {at} was lost"
            return at
    raise AssertionError(f"{method}: more than 100 calls")


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("options", [{}, {"directed": False, "renumber": True, "reuse_ids": True}], ids=str)
def test_ctrl_c_while_the_host_waits_for_the_gpu(device, monkeypatch, store: str, options: dict[str, Any]) -> None:
    pair = Pair(device=device, store=store, **options)
    src, dst = np.divmod(3 * np.arange(160, dtype=np.int32), 30)
    pair.insert(src, dst)
    backend = pair.graph.backend
    for method, batch in (
        ("insert_edges", (src[20::40], dst[20::40] + np.int32(1))),
        ("insert_edges", (np.full(12, 7, np.int32), np.arange(12, dtype=np.int32))),
        ("delete_edges", (src[20::40], dst[20::40])),
        ("delete_edges", (src[40:90], dst[40:90])),
    ):  # fmt: skip
        interrupt(monkeypatch, pair, backend, "to_host", method, batch)


@pytest.mark.parametrize("method", ["insert_edges", "delete_edges"])
@pytest.mark.parametrize("transposed", [False, True])
def test_ctrl_c_while_an_update_is_written(monkeypatch, method: str, transposed: bool) -> None:
    """It is written to both orientations."""
    pair = Pair(device="cpu", transposed=transposed)
    src, dst = np.divmod(3 * np.arange(160, dtype=np.int32), 30)
    pair.insert(src, dst)
    batch = (src[20::40], dst[20::40] + np.int32(method == "insert_edges"))
    kernels = pair.graph.backend.kernels("dynstore.stores.gpma_plus", "update")
    name = {"insert_edges": "insert_in_place", "delete_edges": "delete_in_place"}[method]
    assert interrupt(monkeypatch, pair, kernels, name, method, batch) > 0


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("method", "args"), [("insert_vertices", ([50],)), ("delete_vertices", ([3, 4],)), ("reorder", ()), ("clear", ())]
)
def test_ctrl_c_before_an_update_has_its_version(
    monkeypatch, method: str, args: tuple[Any, ...], transposed: bool
) -> None:
    """Edges and ids are written by then."""
    pair = Pair(device="cpu", renumber=True, reuse_ids=True, transposed=transposed)
    pair.insert([3, 3, 4, 5], [4, 5, 5, 6])
    pair.insert([9, 9, 9, 9], [3, 4, 5, 6])
    assert interrupt(monkeypatch, pair, dynstore.graph.updates, "Lease", method, *args) == 1


def test_an_interrupt_is_handled_once_at_the_end_of_the_outermost_block() -> None:
    done = []

    def be_interrupted() -> None:
        with Uninterrupted():
            with Uninterrupted():
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        be_interrupted()
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_in_a_block_is_not_lost_with_an_interrupt() -> None:
    def fail() -> None:
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("a wrong id")

    with pytest.raises(KeyboardInterrupt) as caught:
        fail()
    assert isinstance(caught.value.__context__, ValueError)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_process_that_handles_no_interrupt_stays_so(handler: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, handler)
    with Uninterrupted():
        assert signal.getsignal(signal.SIGINT) is handler
    assert signal.getsignal(signal.SIGINT) is handler
