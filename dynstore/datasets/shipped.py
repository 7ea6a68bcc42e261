"""The graphs in ``dynstore/datasets/data``; sources and licences are in the README.md beside them."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

from dynstore.arguments import check_name
from dynstore.io import EventTable, read_events

__all__ = ["SHIPPED", "load"]

# name -> (file, number of its time column)
SHIPPED = {
    "collegemsg": ("CollegeMsg.txt.gz", 2),
    "mathoverflow": ("sx-mathoverflow.txt.gz", 2),
}


def load(name: str) -> EventTable:
    """Load a temporal graph that ships with the package, its events by time.

    Parameters
    ----------
    name : {"mathoverflow", "collegemsg"}
        "mathoverflow": answers and comments, from user to user, 506,550 events between 24,818 users. "collegemsg":
        private messages, 59,835 events between 1,899 users.

    Returns
    -------
    EventTable
        With a ``time`` column.

    Raises
    ------
    InputError
        For another name.
    """
    check_name("load", "dataset", name, SHIPPED)
    file, time = SHIPPED[name]
    with resources.as_file(resources.files(__package__) / "data" / file) as path:
        return replace(read_events(path, source=0, destination=1, time=time), name=name)
