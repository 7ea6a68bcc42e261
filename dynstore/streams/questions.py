"""Questions to the graph of a stream, and answers that say which version and which event time they are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

__all__ = ["Answer", "Question", "VersionTime", "settle"]

T = TypeVar("T")


class VersionTime(NamedTuple):
    """What a version of the graph holds: the newest time of its rows, and whether a window is being read again."""

    event_time: Any = None
    rebuilding: bool = False


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """The answer to a question, and what it is of.

    Attributes
    ----------
    result : object
        What the function has returned.
    version : int
        The version of the graph that the function got.
    event_time : int, float or numpy.datetime64, or None
        The newest time of the rows up to this version; None before this stream has read a row with a time.
    rebuilding : bool
        Whether the rows of a window are being read again after a restart: the graph has only a part of the window.
    """

    result: T
    version: int
    event_time: Any
    rebuilding: bool = False


@dataclass(slots=True)
class Question:
    """A question, to be answered when ``upto`` rows that have arrived are applied, and no others.

    ``version``: the version that it is about; None for the present one.
    """

    query: Callable[..., Any]
    version: int | None
    future: Future[Any]
    upto: int = 0


def settle(question: Question, view: Callable[[], tuple[tuple[Any, ...], int, VersionTime]]) -> None:
    """Answer a question by what ``view`` returns: graphs, their version and their time."""
    try:
        graphs, version, version_time = view()
        question.future.set_result(Answer(question.query(*graphs), version, *version_time))
    except BaseException as error:
        question.future.set_exception(error)
