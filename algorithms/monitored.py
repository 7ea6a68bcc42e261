"""The monitors of each graph, so that a function that is called like a tracked answer can return that answer."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from dynstore.algorithms.registry import find_algorithm
from dynstore.locks import Lock

if TYPE_CHECKING:
    from dynstore.algorithms.tracking import Monitor
    from dynstore.graph import DynamicGraph

__all__ = ["find_monitor", "note_monitor"]

# A monitor stays as long as someone else holds it.
_monitors: WeakKeyDictionary[DynamicGraph, WeakSet[Monitor]] = WeakKeyDictionary()
_lock = Lock()  # of both kinds of sets: one thread may look while another starts to track


def note_monitor(G: DynamicGraph, monitor: Monitor) -> None:
    """Let :func:`find_monitor` find a monitor of a graph."""
    with _lock:
        _monitors.setdefault(G, WeakSet()).add(monitor)


def find_monitor(G: DynamicGraph, name: str, params: dict[str, Any]) -> Monitor | None:
    """Return an open monitor of this call on a graph, or None.

    Parameters
    ----------
    G : DynamicGraph
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
    defaults = {
        key: parameter.default for key, parameter in inspect.signature(find_algorithm(name).function).parameters.items()
    }
    return all(
        _is_plain(one) and _is_plain(other) and one == other
        for one, other in (
            (first.get(key, defaults.get(key)), second.get(key, defaults.get(key))) for key in {**first, **second}
        )
    )


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | np.number)
