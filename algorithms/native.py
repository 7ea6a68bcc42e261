"""Kernels that walk a store's own rows, used if the sorted slots would first have to be made.

A store names the form of its rows (:class:`~dynstore.stores.base.NativeRows`). The kernels for a form are in the
package of that name here, with a ``cpu`` and a ``cuda`` module. These have a function for each supported algorithm,
with the public name. Pages need more than a kernel: their functions are in ``paged.native``, for all devices, and get
the graph.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dynstore.algorithms.calls import Call, note_call

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph

__all__ = ["run_native"]


def run_native(G: AnyGraph, name: str, *arguments: Any, transposed: bool = False) -> Any:
    """Run a public algorithm over the store's own rows, and record the call; ``transposed``: over those of in-edges.

    Returns
    -------
    the kernels' result, or None None if the sorted slots are there, the store has no other rows, or there are no
    kernels for them.
    """
    rows = G.native_rows(transposed)
    if rows is None:
        return None
    function: Any
    if rows.form == "paged":
        from dynstore.algorithms.paged import native

        function = partial(getattr(native, name), G)
    else:
        function = getattr(G.backend.kernels(f"dynstore.algorithms.{rows.form}"), name, None)
        if function is None:
            return None
        function = partial(function, G.backend)
    found = function(rows, *arguments)
    if found is None:
        return None
    copied, reason = f"nothing: kernels read the store's {rows.form}", "sorted slots would have to be made first"
    note_call(G, Call(name, "own kernel", G.version, copied, reason=reason))
    return found
