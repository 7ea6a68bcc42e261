"""The exceptions that dynstore raises.

::

    DynstoreError
    ├── InputError (ValueError)            what was passed in cannot be used
    │   ├── InputTypeError (TypeError)     ... because its type is wrong
    │   ├── FileFormatError                ... because of a line in a file
    │   ├── LimitError                     ... because an id or a size is past a limit
    │   ├── SavedGraphError                ... because a folder is no saved graph, or is damaged
    │   └── UnweightedGraphError (RuntimeError)  ... because the graph has no weights
    ├── StaleSnapshotError (RuntimeError)  a snapshot was used after a later update, a pin after its release
    ├── StreamError (RuntimeError)         a stream has ended, or its source could not go on
    │   └── SourceGapError                 ... because the source lacks what was not read
    ├── RankError (RuntimeError)           another rank of a distributed program raised, ended, or did not come
    ├── OutOfMemoryError (MemoryError)     the update did not fit; the graph is as it was
    ├── LogError (OSError)                 the log of updates cannot be written; the graph is as it was
    ├── FailedToConvergeError (RuntimeError)
    └── MissingDependencyError (ImportError)

Every message names the caller, what it got and what it expected. A call that raises leaves the graph as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

__all__ = [
    "DynstoreError",
    "FailedToConvergeError",
    "FileFormatError",
    "InputError",
    "InputTypeError",
    "LimitError",
    "LogError",
    "MissingDependencyError",
    "OutOfMemoryError",
    "RankError",
    "SavedGraphError",
    "SourceGapError",
    "StaleSnapshotError",
    "StreamError",
    "UnweightedGraphError",
    "cause_of",
    "shown",
    "type_name",
    "unknown_name",
    "unknown_parameters",
    "without_secrets",
]

# User and password in an address; up to the last @, as passwords may have one.
_LOGIN = re.compile(r"(?<=://)[^\s'\"<>]*@")
# What is called like a secret, and its value: in an address, in options as text, in JSON.
_NAMED = re.compile(
    r"(?i)([\w.-]*(?:passw(?:or)?d|pwd|passphrase|token|secret|credential|(?:api|access)[-_.]?key)[\w.-]*"
    r"(?:\s*=\s*|['\"]\s*[:=]\s*))(?!\*{3})('[^']*'|\"[^\"]*\"|[^\s&,;'\"#]*[^\s&,;'\"#:.])"
)
HIDDEN = "***"


class DynstoreError(Exception):
    """Base class of all exceptions that dynstore raises."""


class InputError(DynstoreError, ValueError):
    """An argument has a value that cannot be used."""


class InputTypeError(InputError, TypeError):
    """An argument has a type that cannot be used."""


class FileFormatError(InputError):
    """A file cannot be read as an edge list. The message names the file and the line."""


class LimitError(InputError):
    """An id or a size is beyond a limit of the graph."""


class SavedGraphError(InputError):
    """A folder is no saved graph, is damaged, or was written by a newer dynstore."""


class UnweightedGraphError(InputError, RuntimeError):
    """An algorithm needs weights, and the graph has none."""


class StaleSnapshotError(DynstoreError, RuntimeError):
    """A snapshot or a window was read after an update of its graph, or a pin after its release."""


class StreamError(DynstoreError, RuntimeError):
    """A stream of edges has ended, or its source could not go on."""


class SourceGapError(StreamError):
    """A source no longer has what was not read yet: it was trimmed, rewritten, or made anew.

    A :class:`dynstore.streams.Source` raises it. ``Stream(on_gap="continue")`` counts it, and goes on.

    Parameters
    ----------
    message : str
        Who, what is missing from where to where, and what is there instead.
    first, last : object
        From where to where something is missing, as the source counts; None where it cannot say.
    count : int or None
        How much is missing: messages; of a file bytes. None where the source cannot say.
    resume : object
        The position behind the gap: :meth:`dynstore.streams.Source.seek` goes on there.
    """

    def __init__(self, message: str, first: object, last: object, count: int | None, resume: object) -> None:
        super().__init__(message)
        self.first, self.last, self.count, self.resume = first, last, count, resume

    def __reduce__(self) -> tuple[type[SourceGapError], tuple[object, ...]]:
        return type(self), (str(self), self.first, self.last, self.count, self.resume)


class RankError(DynstoreError, RuntimeError):
    """Another rank of a distributed program raised, ended, or did not come to a call of all ranks."""


class OutOfMemoryError(DynstoreError, MemoryError):
    """Memory ran out while an update was planned. The graph is unchanged."""


class LogError(DynstoreError, OSError):
    """The log of a graph's updates cannot be written, or another process has it. The graph is unchanged."""


class FailedToConvergeError(DynstoreError, RuntimeError):
    """An algorithm used up its iterations before it converged."""


class MissingDependencyError(DynstoreError, ImportError):
    """An optional library is missing. The message has the command that installs it."""


def type_name(value: object) -> str:
    """Return the name of a value's type for a message, with its module unless it is a builtin.

    >>> type_name([0, 1])
    'list'
    """
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def shown(value: object) -> str:
    """Return a value for a message: as it is written, or its type where that takes much room.

    >>> shown(-1), shown([0] * 1000)
    ('-1', 'a list')
    """
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else f"a {type_name(value)}"


def without_secrets(text: object) -> str:
    """Return a text without the passwords and tokens of addresses and options in it.

    Errors of client libraries repeat the address, and end up in logs.

    >>> without_secrets("redis://ann:hunter2@server:6379/edges?token=abc: refused")
    'redis://***@server:6379/edges?token=***: refused'
    """
    return _NAMED.sub(rf"\g<1>{HIDDEN}", _LOGIN.sub(f"{HIDDEN}@", str(text)))


def cause_of(error: BaseException) -> BaseException | None:
    """Return an error as the cause of another one; None if a traceback would show secrets in it."""
    link: BaseException | None = error
    while link is not None:
        if without_secrets(link) != str(link):
            return None
        link = link.__cause__ or link.__context__
    return error


def unknown_name(caller: str, what: str, got: object, known: Iterable[str]) -> InputError:
    """Build the error for a name that does not exist, with the known ones and a guess.

    >>> str(unknown_name("DynamicGraph", "store", "GPMA", ["gpma+", "merge"]))
    "DynamicGraph: unknown store 'GPMA'; known: 'gpma+', 'merge'. Did you mean 'gpma+'?"
    """
    names = sorted(known)
    hint = _hint([_guess(str(got), names)])
    return InputError(f"{caller}: unknown {what} {shown(got)}; known: {_listed(names)}{hint}")


def unknown_parameters(caller: str, got: Sequence[str], known: Mapping[str, Sequence[str]]) -> InputTypeError:
    """Build the error for parameters that a function does not have, with those that it has.

    Parameters
    ----------
    caller : str
    got : sequence of str
        The names that were given.
    known : mapping
        What else takes parameters, "" for the function itself -> their names, the most important one first.

    Examples
    --------
    >>> str(unknown_parameters("bfs", ["source"], {"": ["start", "depth_limit"]}))
    "bfs: unknown parameter 'source'; known: 'start', 'depth_limit'"
    """
    names = [name for part in known.values() for name in part]
    parts = "; ".join((f"{owner}: " if owner else "") + _listed(part) for owner, part in known.items() if part)
    plural = "s" if len(got) > 1 else ""
    hint = _hint([_guess(name, names) for name in got])
    return InputTypeError(f"{caller}: unknown parameter{plural} {_listed(got)}; known: {parts}{hint}")


def _guess(got: str, names: Iterable[str]) -> str | None:
    """Return the name that is meant: one that ``got`` abbreviates, as "src" does "source", or a similar one."""
    by_lower = {name.lower(): name for name in names}
    if got in by_lower.values():  # another owner has it
        return None
    short = got.lower()
    longer = [name for name in by_lower if _abbreviates(short, name)]
    close = [min(longer, key=len)] if longer else get_close_matches(short, by_lower, n=1, cutoff=0.5)
    return by_lower[close[0]] if close else None


def _abbreviates(short: str, name: str) -> bool:
    """Whether the letters of ``short`` are in ``name``, in this order, beginning with the first."""
    rest = iter(name)
    return short[:1] == name[:1] and all(letter in rest for letter in short)


def _hint(guesses: list[str | None]) -> str:
    found = [guess for guess in guesses if guess is not None]
    return f". Did you mean {_listed(found)}?" if found else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
