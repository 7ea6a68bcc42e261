"""A signal during an update waits for its end, or stops it before it has written anything."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynstore.graph.core
import dynstore.interrupts
from dynstore import DynamicGraph
from dynstore.interrupts import Uninterrupted
from dynstore.testing.pair import Pair

STORES = ["gpma+", "gpma", "lpma", "slab_hash", "graphvine"]
# Signals whose handlers raise in these tests.
RAISING = (signal.SIGALRM, signal.SIGTERM, signal.SIGUSR1, signal.SIGRTMIN + 1)


class TimeoutCameError(Exception):
    """What the handlers raise; its argument is the signal."""


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """Workers of pytest-xdist may ignore Ctrl-C."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *RAISING)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)
    for number, handler in before.items():
        signal.signal(number, handler)


def raise_timeout(number: int, frame: Any) -> None:
    raise TimeoutCameError(number)


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
    backend = pair.graph.core.backend
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
    kernels = pair.graph.core.backend.kernels("dynstore.stores.gpma_plus", "update")
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
    assert interrupt(monkeypatch, pair, dynstore.graph.core, "Lease", method, *args) == 1


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


def test_an_inner_block_exchanges_no_handler() -> None:
    with Uninterrupted():
        noting = signal.getsignal(signal.SIGINT)
        with Uninterrupted():
            assert signal.getsignal(signal.SIGINT) == noting != signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) == noting
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_may_make_an_update_of_its_own() -> None:
    """It is called when the block has ended, so its own block holds signals back again."""
    held = []

    def handle(*_: object) -> None:
        with Uninterrupted():
            held.append(signal.getsignal(signal.SIGINT) != signal.default_int_handler)

    signal.signal(signal.SIGUSR1, handle)
    with Uninterrupted():
        signal.raise_signal(signal.SIGUSR1)
        assert held == []
    assert held == [True]


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


@pytest.mark.parametrize("number", RAISING)
@pytest.mark.parametrize("by_other_thread", [False, True])
def test_every_signal_waits_for_the_end_of_the_block(number: int, by_other_thread: bool) -> None:
    """Python calls handlers in the main thread, also where the system has interrupted another one."""
    signal.signal(number, raise_timeout)
    done = []

    def be_stopped() -> None:
        with Uninterrupted():
            if by_other_thread:
                thread = threading.Thread(target=signal.raise_signal, args=(number,))
                thread.start()
                thread.join()
            else:
                signal.raise_signal(number)
            done.append("block")
        done.append("behind")

    with pytest.raises(TimeoutCameError):
        be_stopped()
    assert done == ["block"]
    assert signal.getsignal(number) is raise_timeout


def test_handlers_are_called_in_the_order_of_the_signals_even_if_they_raise() -> None:
    called = []

    def note_and_raise(number: int, frame: Any) -> None:
        called.append(number)
        raise TimeoutCameError(number)

    for number in RAISING:
        signal.signal(number, note_and_raise)

    def be_stopped() -> None:
        with Uninterrupted():
            for number in (*RAISING[::-1], *RAISING):
                signal.raise_signal(number)

    with pytest.raises(TimeoutCameError) as caught:
        be_stopped()
    assert called == list(RAISING[::-1])
    assert isinstance(caught.value.__context__, TimeoutCameError)


def test_a_handler_that_raises_between_two_others_leaves_no_handler_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as the handlers are exchanged, and once as they are exchanged back."""
    for number in RAISING:
        signal.signal(number, raise_timeout)
    ours = SimpleNamespace(getsignal=signal.getsignal, handlers=[])

    def exchange(number: int, handler: Any) -> Any:
        before = signal.signal(number, handler)
        ours.handlers.append(handler)
        if len(ours.handlers) == 2:  # those of SIGINT and SIGUSR1 notes, the others not yet
            signal.raise_signal(signal.SIGTERM)
        if ours.handlers.count(raise_timeout) == 1:  # that of SIGUSR1 is back, the others not yet
            signal.raise_signal(signal.SIGUSR1)
        return before

    monkeypatch.setattr(dynstore.interrupts, "_signal", SimpleNamespace(getsignal=signal.getsignal, signal=exchange))

    def be_stopped(first: list[Any]) -> None:
        ours.handlers = first
        with Uninterrupted():
            done.append("block")

    for first, wanted in (([], []), ([None] * 2, ["block"])):
        done: list[str] = []
        with pytest.raises(TimeoutCameError):
            be_stopped(first)
        assert done == wanted
        assert {signal.getsignal(number) for number in RAISING} == {raise_timeout}
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_exchange_no_handler() -> None:
    seen = []

    def look() -> None:
        with Uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


class Sender:
    """A thread that sends a random signal to another thread, a random time after it is asked to."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._asked, self._is_over = rng, threading.Semaphore(0), False
        self._idle = threading.Thread(target=threading.Event().wait, daemon=True)
        self._idle.start()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def send_within(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked.release()

    def end(self) -> None:
        self._is_over = True
        self._asked.release()
        self._thread.join()

    def _run(self) -> None:
        while self._asked.acquire() and not self._is_over:
            end = time.perf_counter() + self._rng.uniform(0, self._seconds)
            while time.perf_counter() < end:
                time.sleep(0)
            target = self._idle if self._rng.integers(2) else threading.main_thread()
            signal.pthread_kill(target.ident, int(self._rng.choice(RAISING)))


@pytest.mark.parametrize("store", ["gpma+", "merge", "slab_hash"])
@pytest.mark.parametrize("times", [200, pytest.param(1000, marks=pytest.mark.thorough)])
def test_an_update_is_whole_or_not_at_all_whenever_a_handler_raises(
    store: str, times: int, rng: np.random.Generator
) -> None:
    """Some signals reach the main thread, some another one; either way Python calls the handler in the main thread."""
    size, sender = 2000, Sender(rng)
    sys.setswitchinterval(1e-5)  # else the sender often waits until the update is over
    graph = DynamicGraph(device="cpu", store=store)
    graph.insert_edges(tuple(rng.integers(0, size, (2, 4 * size))))
    graph.predecessors(1)
    stopped, length = 0, 1e-3

    def update_until_a_signal_comes(method: str, batch: tuple[np.ndarray, ...]) -> None:
        nonlocal stopped, length
        stopped += 1
        begun = time.perf_counter()
        sender.send_within(2 * length)
        getattr(graph, method)(batch)
        stopped, length = stopped - 1, 0.9 * length + 0.1 * (time.perf_counter() - begun)
        while time.perf_counter() < begun + 10:
            time.sleep(0)

    for number in RAISING:
        signal.signal(number, raise_timeout)
    try:
        for step in range(times):
            method = ("insert_edges", "delete_edges")[step % 2]
            batch = tuple(rng.integers(0, size, (2, size)))
            version = graph.version
            with pytest.raises(TimeoutCameError):
                update_until_a_signal_comes(method, batch)
            there = graph.has_edges(batch)
            if graph.version > version:
                assert there.all() if method == "insert_edges" else not there.any()
            columns, into = graph.edge_columns(), graph.snapshot(transposed=True)
            assert columns["source"].shape[0] == graph.number_of_edges() == into.num_edges
            held = into.mask()
            keys = into.indices[held] * size + into.sources[held]
            np.testing.assert_array_equal(np.sort(keys), columns["source"] * size + columns["destination"])
    finally:
        sender.end()
    assert stopped > times // 20
