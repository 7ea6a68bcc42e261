"""Which kernels run a function of cuGraph: dynstore's own, or cuGraph's on borrowed rows."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.calls import last_call, note_call
from dynstore.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.graph import DynamicGraph

__all__ = ["ENGINES", "Declined", "chosen_engine", "is_integer", "note_reason", "set_engine"]

ENGINES = ("dynstore", "cugraph")
VARIABLE = "DYNSTORE_CUGRAPH_ENGINE"
_chosen = {"engine": os.environ.get(VARIABLE, "dynstore")}


@dataclass(frozen=True, slots=True)
class Declined:
    """A call that dynstore's own kernels do not take, so that cuGraph's run.

    Attributes
    ----------
    reason : str
    """

    reason: str


def set_engine(engine: str) -> str:
    """Choose the kernels of all later calls in this process that do not name an engine themselves.

    The environment variable ``DYNSTORE_CUGRAPH_ENGINE`` sets the first choice; without it, that is "dynstore".

    Parameters
    ----------
    engine : {"dynstore", "cugraph"}
        "dynstore": its own kernels where their result is the same, else cuGraph's. "cugraph": always cuGraph's.

    Returns
    -------
    str
        The choice before, to go back to.

    Raises
    ------
    InputError
        For any other name.
    """
    before = chosen_engine(None)
    _chosen["engine"] = chosen_engine(engine, "set_engine")
    return before


def chosen_engine(engine: str | None, caller: str = VARIABLE) -> str:
    """Return the engine for a call that names ``engine``, or None."""
    name = _chosen["engine"] if engine is None else engine
    if name not in ENGINES:
        raise unknown_name(caller, "engine", name, ENGINES)
    return name


def note_reason(G: DynamicGraph, declined: Declined, call: Callable[[], Any]) -> Any:
    """Make a call that cuGraph runs, and have ``dynstore.explain`` say why dynstore's own kernels did not."""
    before = last_call(G)
    result = call()
    after = last_call(G)
    if after is not None and after is not before:
        note_call(G, replace(after, reason=f"{declined.reason}; {after.reason}"))
    return result


def is_integer(value: Any) -> bool:
    """Return whether an argument is one integer, of Python or of NumPy; flags are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
