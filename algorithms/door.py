"""The door for adapters: they call algorithms through it, so a tracked answer is used wherever there is one."""

from __future__ import annotations

import inspect
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from dynstore.algorithms.calls import SLOTS, Call, note_call
from dynstore.algorithms.registry import ALGORITHMS

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph

__all__ = ["compute_rows", "find_monitor", "find_rows", "keep_monitor", "read_inputs", "tracked_rows"]

# The monitors of each graph, so that a function that is called like a tracked answer can return that answer. A monitor
# stays as long as someone else holds it.
_monitors: WeakKeyDictionary[AnyGraph, WeakSet[Any]] = WeakKeyDictionary()
_lock = RLock()  # of both kinds of sets: one thread may look while another starts to track


def keep_monitor(G: AnyGraph, monitor: Any) -> None:
    """Let calls find a graph's :class:`~dynstore.algorithms.Monitor`."""
    with _lock:
        _monitors.setdefault(G, WeakSet()).add(monitor)


def find_monitor(G: AnyGraph, name: str, params: dict[str, Any]) -> Any:
    """Return an open :class:`~dynstore.algorithms.Monitor` of this call on a graph, or None.

    Parameters
    ----------
    G : DynamicGraph or GraphView
        A view has none.
    name : str
        The name of the function.
    params : dict
        Its parameters. Those that are left out have their defaults. Only numbers, strings, flags and None are compared:
        with anything else there is none.
    """
    with _lock:
        monitors = list(_monitors.get(G, ()))
    for monitor in monitors:
        if monitor.name == name and not monitor.is_closed and _is_same_call(name, monitor.params, params):
            return monitor
    return None


def _is_same_call(name: str, first: dict[str, Any], second: dict[str, Any]) -> bool:
    parameters = inspect.signature(ALGORITHMS[name].function).parameters
    defaults = {key: parameter.default for key, parameter in parameters.items()}
    return all(
        _is_plain(one) and _is_plain(other) and one == other
        for one, other in (
            (first.get(key, defaults.get(key)), second.get(key, defaults.get(key))) for key in {**first, **second}
        )
    )


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | np.number)


def tracked_rows(G: AnyGraph, name: str, **params: Any) -> tuple[Any, ...] | None:
    """Return what the graph's tracked answer to this call has, by row; None if the call is not tracked.

    Returns
    -------
    tuple of arrays, or None
        As :meth:`dynstore.algorithms.Monitor.arrays`, brought up to date.

    Raises
    ------
    InputError
        As :meth:`dynstore.algorithms.Monitor.refresh`.
    """
    monitor = find_monitor(G, name, params)
    if monitor is None:
        return None
    arrays: tuple[Any, ...] = monitor.arrays()
    note_call(G, Call(name, "own kernel", G.version, SLOTS, 0, f"its tracked answer: {monitor.path}"))
    return arrays


def read_inputs(G: AnyGraph, name: str, *args: Any, **params: Any) -> tuple[Any, ...]:
    """Return what :func:`compute_rows` takes, for parameters as users give them.

    Raises
    ------
    InputError
        If the function would raise it.
    """
    read = ALGORITHMS[name].read
    return () if read is None else read(G, *args, **params)


def compute_rows(G: AnyGraph, name: str, *inputs: Any, **options: Any) -> Any:
    """Return the result of an algorithm by row, from inputs that have been read; see ``Algorithm.compute``.

    The caller has checked that the graph is of a kind that the algorithm supports.
    """
    record = ALGORITHMS[name]
    pairs = record.pairs_of(G) if G.core.shows_events else G  # tested here, so that the walk of a call is shorter
    return record.compute(pairs, *inputs, **options)


def find_rows(G: AnyGraph, name: str, **params: Any) -> Any:
    """Return the result of an algorithm by row, for parameters as users give them; of a tracked answer if there is one.

    Returns
    -------
    array, or tuple of arrays
        What ``Algorithm.compute`` returns; a tracked answer has only the arrays of it.

    Raises
    ------
    InputError
        If the function would raise it.
    """
    found = tracked_rows(G, name, **params)
    if found is not None:
        return found if len(found) > 1 else found[0]
    return compute_rows(G, name, *read_inputs(G, name, **params))
