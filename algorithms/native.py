"""Kernels that walk a store's own rows, for when its sorted slots would first have to be made.

A store says what its rows are made of (:class:`~dynstore.stores.base.NativeRows`). Kernels for a form are a package of
its name here, with a ``cpu`` and a ``cuda`` module. These have a function for each algorithm that walks such rows,
named as the public one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.algorithms.calls import Call, note_call

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph

__all__ = ["run_native"]


def run_native(G: DynamicGraph, name: str, *arguments: Any) -> Any:
    """Run a public algorithm over the store's own rows, and note that it did.

    Returns
    -------
    what its kernels return, or None
        None where the sorted slots are there, the store has no other rows, or nobody wrote kernels for them.
    """
    rows = G.native_rows()
    if rows is None:
        return None
    function = getattr(G.backend.kernels(f"dynstore.algorithms.{rows.form}"), name, None)
    if function is None:
        return None
    found = function(G.backend, rows, *arguments)
    copied, reason = f"nothing: kernels read the store's {rows.form}", "sorted slots would have to be made first"
    note_call(G, Call(name, "own kernel", G.version, copied, reason=reason))
    return found
