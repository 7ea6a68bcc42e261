"""Options of stores, as they are typed: ``--store-option gpma+:build_density=0.7``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynstore.errors import InputError

__all__ = ["read_store_options"]


def read_store_options(caller: str, given: Sequence[str], stores: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read what was typed for the options of stores.

    Parameters
    ----------
    caller : str
        The command, for messages.
    given : sequence of str
        Texts such as ``gpma+:build_density=0.7``, or ``build_density=0.7`` for all stores.
    stores : sequence of str
        The stores of the run; empty if none is named.

    Returns
    -------
    dict
        Store name -> its options.

    Raises
    ------
    InputError
        For a text of another form.
    """
    options: dict[str, dict[str, Any]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{caller}: --store-option is {text!r}; wanted [STORE:]KEY=VALUE")
        store, colon, key = name.rpartition(":")
        if not colon and not stores:
            raise InputError(f"{caller}: --store-option is {text!r}, and no --store is given; wanted STORE:KEY=VALUE")
        for chosen in [store] if colon else stores:
            options.setdefault(chosen, {})[key] = _read_value(value)
    return options


def _read_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
