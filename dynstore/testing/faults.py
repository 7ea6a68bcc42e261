"""Failures on purpose: of the n-th allocation of an update, or the n-th kernel to be loaded, for every n in turn."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from dynstore.errors import OutOfMemoryError
from dynstore.testing.invariants import host_arrays
from dynstore.testing.model import weigh

if TYPE_CHECKING:
    import pytest

    from dynstore.backend import Backend
    from dynstore.testing.pair import Pair

__all__ = [
    "FailingEmpty",
    "FailingFind",
    "FailingModule",
    "count_bytes",
    "for_every_allocation",
    "for_every_kernel",
    "for_every_new_array",
    "for_every_pinned_array",
    "let_fail",
]

MAX_FAILURES = 1000


class FailingEmpty:
    """Replaces ``Backend.empty``; raises at call ``fail_at``, counted from 0; if ``lasting``, at later ones, too."""

    def __init__(self, empty: Any, fail_at: int, lasting: bool = False) -> None:
        self.empty, self.fail_at, self.lasting, self.calls = empty, fail_at, lasting, 0

    def __call__(self, shape: Any, dtype: Any) -> Any:
        self.calls += 1
        if _fails(self):
            raise OutOfMemoryError(f"test: allocation {self.fail_at} of {shape} {dtype} fails")
        return self.empty(shape, dtype)


class FailingModule:
    """Replaces an array module; its ``fail_at``-th call that returns new memory raises MemoryError.

    ``lasting``: later ones do, too.
    """

    def __init__(self, module: Any, fail_at: int, lasting: bool = False) -> None:
        self.module, self.fail_at, self.lasting, self.calls = module, fail_at, lasting, 0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.module, name)
        if isinstance(value, type) or not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            result = value(*args, **kwargs)
            if self._is_new(result, args) and kwargs.get("out") is None:
                self.calls += 1
                if _fails(self):
                    raise MemoryError(f"test: new array {self.fail_at}, of {name}, fails")
            return result

        return call

    def _is_new(self, result: Any, args: tuple[Any, ...]) -> bool:
        if isinstance(result, tuple | list):
            return any(self._is_new(item, args) for item in result)
        return isinstance(result, self.module.ndarray) and not any(result is item for item in args)


def _fails(faulty: FailingEmpty | FailingModule) -> bool:
    late = faulty.calls - faulty.fail_at
    return late >= 1 if faulty.lasting else late == 1


class FailingFind:
    """Replaces ``Kernel._find`` as if no kernel were loaded; raises at the ``fail_at``-th kernel to load."""

    def __init__(self, find: Any, fail_at: int) -> None:
        self.find, self.fail_at, self.loaded = find, fail_at, set[tuple[str, ...]]()

    @property
    def calls(self) -> int:
        return len(self.loaded)

    def __get__(self, kernel: Any, _: type) -> Any:
        return partial(self, kernel)

    def __call__(self, kernel: Any, args: tuple[Any, ...]) -> Any:
        kinds = (kernel.name, *(str(getattr(arg, "dtype", type(arg))) for arg in args))
        if kinds not in self.loaded:
            self.loaded.add(kinds)
            if len(self.loaded) == self.fail_at + 1:
                raise OutOfMemoryError(f"test: kernel {self.fail_at}, {kernel.name}, cannot be loaded")
        return self.find(kernel, args)


def for_every_allocation(monkeypatch: pytest.MonkeyPatch, pair: Pair, method: str, *args: Any, **kwargs: Any) -> int:
    """Let each allocation through the backend fail in turn, then let the update succeed.

    After each failure the graph must be byte for byte unchanged, and its lease still valid. The update that finally
    succeeds must do the same as the model.

    Returns
    -------
    int
        Number of allocations of the update.
    """
    return _fail_in_turn(monkeypatch, pair, "empty", method, args, kwargs)


def for_every_pinned_array(monkeypatch: pytest.MonkeyPatch, pair: Pair, method: str, *args: Any, **kwargs: Any) -> int:
    """As :func:`for_every_allocation`, but allocations of pinned host memory fail."""
    return _fail_in_turn(monkeypatch, pair, "pinned", method, args, kwargs)


def for_every_new_array(monkeypatch: pytest.MonkeyPatch, pair: Pair, method: str, *args: Any, **kwargs: Any) -> int:
    """As :func:`for_every_allocation`, but functions of NumPy or CuPy that return new arrays fail."""
    return _fail_in_turn(monkeypatch, pair, "array", method, args, kwargs)


def for_every_kernel(monkeypatch: pytest.MonkeyPatch, pair: Pair, method: str, *args: Any, **kwargs: Any) -> int:
    """As :func:`for_every_allocation`, but compiling or loading a CUDA kernel fails, as in a new process."""
    return _fail_in_turn(monkeypatch, pair, "kernel", method, args, kwargs)


def let_fail(patch: pytest.MonkeyPatch, backend: Backend, what: str, number: int) -> Any:
    """Let one call fail, counted from 0, and return what counts the calls.

    ``what``: "empty" or "pinned", allocations through the backend; "array", functions of NumPy or CuPy that return new
    arrays; "kernel", the loading of CUDA kernels, as in a new process.
    """
    owner: Any = backend
    name, make = what, cast("Any", FailingEmpty)
    if what == "array":
        name, make = "xp", FailingModule
    elif what == "kernel":
        from dynstore.cuda.compiler import Kernel

        owner, name, make = Kernel, "_find", FailingFind
    faulty = make(getattr(owner, name), number)
    patch.setattr(owner, name, faulty)
    return faulty


def _fail_in_turn(monkeypatch: pytest.MonkeyPatch, pair: Pair, what: str, method: str, args: Any, kwargs: Any) -> int:
    """Let the n-th call fail (:func:`let_fail`), for n from 0 until none fails."""
    graph, lease, args = pair.graph, pair.graph.snapshot(), pair.with_columns(method, args)
    arrays, edges = host_arrays(lease), graph.number_of_edges()
    for n in range(MAX_FAILURES):
        for store in filter(None, (graph.core.out, graph.core.into)):
            store.free_cache()  # else the graph frees this after the failure, and does the update again
        with monkeypatch.context() as patch:
            faulty = let_fail(patch, graph.core.backend, what, n)
            try:
                report = getattr(graph, method)(*args, **weigh(method, kwargs))
            except OutOfMemoryError:
                report = None
                failed = True
            else:
                failed = False
        if not failed:
            assert faulty.calls <= n, f"{method}: call {n} failed and the update went on"
            pair.follow(report, edges, method, *args, **kwargs)
            return n
        pair.unchanged(lease, arrays)
    raise AssertionError(f"{method}: more than {MAX_FAILURES} failures")


def count_bytes(monkeypatch: pytest.MonkeyPatch, pair: Pair, method: str, *args: Any, **kwargs: Any) -> int:
    """Do an update and return the number of bytes that it allocated through the backend."""
    sizes: list[int] = []
    args = pair.with_columns(method, args)
    empty = pair.graph.core.backend.empty

    def counting(shape: Any, dtype: Any) -> Any:
        array = empty(shape, dtype)
        sizes.append(int(array.nbytes))
        return array

    with monkeypatch.context() as patch:
        patch.setattr(pair.graph.core.backend, "empty", counting)
        before = pair.graph.number_of_edges()
        report = getattr(pair.graph, method)(*args, **kwargs)
    pair.follow(report, before, method, *args, **kwargs)
    return sum(sizes)
