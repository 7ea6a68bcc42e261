"""The list of functions that the NetworkX backend offers: what each accepts, and how often it ran."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from dynstore.adapters.networkx.fallback import run_networkx
from dynstore.adapters.networkx.graphs import FollowedGraph
from dynstore.adapters.networkx.store import StoreGraph, store_graph_of

__all__ = ["OFFERS", "Offer", "calls", "offer", "refuse_weight_function"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
Refusal = Callable[[dict[str, Any]], str | None]


@dataclass(frozen=True, slots=True)
class Offer:
    """One function of the backend.

    Attributes
    ----------
    function : callable
        Takes NetworkX's arguments, with a converted graph or a graph of ours.
    signature : inspect.Signature
    multigraphs : bool
        Whether parallel edges do not change the result (or are merged by the conversion).
    refuses : callable or None
        Gets the arguments by name; returns why they cannot be served, or None.
    cheap : bool
        NetworkX is faster than the conversion of the graph.
    """

    function: Callable[..., Any]
    signature: inspect.Signature
    multigraphs: bool
    refuses: Refusal | None
    cheap: bool

    def problem(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Return why a call cannot be served, or None. Wrong arguments are left to the function."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        if bound.arguments["G"].is_multigraph() and not self.multigraphs:
            return "multigraphs are not offered for this function"
        return self.refuses(bound.arguments) if self.refuses else None


OFFERS: dict[str, Offer] = {}

# Dispatch name -> how often the backend ran it in this process.
calls: Counter[str] = Counter()


def offer(
    *, multigraphs: bool = False, refuses: Refusal | None = None, cheap: bool = False
) -> Callable[[_Function], _Function]:
    """Register a function under its own name, which is NetworkX's dispatch name."""

    def register(function: _Function) -> _Function:
        name = function.__name__

        @functools.wraps(function)
        def run(G: Any, *args: Any, **kwargs: Any) -> Any:
            ours = isinstance(G, FollowedGraph)
            reason = offered.problem((G, *args), kwargs) if ours else None  # else NetworkX has asked `can_run`
            if reason is None:
                try:
                    result = function(G if isinstance(G, StoreGraph) else store_graph_of(G), *args, **kwargs)
                    calls[name] += 1
                    return result
                except NotImplementedError as error:
                    if not ours:
                        raise
                    reason = str(error)
            return run_networkx(name, reason, (G, *args), kwargs)

        offered = OFFERS[name] = Offer(run, inspect.signature(function), multigraphs, refuses, cheap)
        return cast("_Function", run)

    return register


def refuse_weight_function(arguments: dict[str, Any]) -> str | None:
    """Refuse a weight that is computed by a Python function, edge by edge."""
    return "weight is a function; wanted the name of an edge attribute" if callable(arguments["weight"]) else None
