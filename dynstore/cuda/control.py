"""What the entries of `control` mean: the array in which the kernels of one update count (``grid``).

Several kernels, and several phases of one, share a `control`. Each file declares the entries that it uses, under the
kind of the update; a second name for an entry of a kind raises when the file is imported. ``docs/internals/cuda.md``
shows the whole map.
"""

from __future__ import annotations

from dynstore.cuda.grid import ARRIVALS

__all__ = ["MAPS", "declare"]

# kind -> entry -> its name
MAPS: dict[str, dict[int, str]] = {}


def declare(kind: str, **entries: int) -> tuple[int, ...]:
    """Declare entries of `control` for a kind of update, and return them in the order of the arguments.

    Raises
    ------
    ValueError
        For an entry that another name stands for already.
    """
    names = MAPS.setdefault(kind, {ARRIVALS: "ARRIVALS"})
    for name, entry in entries.items():
        if names.setdefault(entry, name) != name:
            raise ValueError(f"control of {kind}: entry {entry} is {names[entry]}; wanted another one for {name}")
    return tuple(entries.values())
