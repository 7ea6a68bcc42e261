"""The graphs in ``dynstore/datasets/data``; sources and licences are in the README.md beside them.

CollegeMsg is in each installation. MathOverflow is ten times as large: the checkout and the source archive have it, and
no wheel.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

from dynstore.arguments import check_name
from dynstore.errors import InputError
from dynstore.io import EventTable, read_events

__all__ = ["SHIPPED", "load"]

# name -> (file, number of its time column)
SHIPPED = {
    "collegemsg": ("CollegeMsg.txt.gz", 2),
    "mathoverflow": ("sx-mathoverflow.txt.gz", 2),
}


def load(name: str) -> EventTable:
    """Load a temporal graph, its events by time.

    Parameters
    ----------
    name : {"collegemsg", "mathoverflow"}
        "collegemsg": private messages, 59,835 events between 1,899 users. "mathoverflow": answers and comments, from
        user to user, 506,550 events between 24,818 users; only in a checkout of the repository.

    Returns
    -------
    EventTable
        With a ``time`` column.

    Raises
    ------
    InputError
        For another name, or if the file is not in this installation.
    """
    check_name("load", "dataset", name, SHIPPED)
    file, time = SHIPPED[name]
    with resources.as_file(resources.files(__package__) / "data" / file) as path:
        if not path.is_file():
            raise InputError(
                f"load: {name} is in a checkout of the repository, and not in this installation; wanted 'collegemsg', "
                f"or the path of SNAP's file {file}, whose column {time} has the times"
            )
        return replace(read_events(path, source=0, destination=1, time=time), name=name)
