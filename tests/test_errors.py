"""The exception tree, and messages that help."""

from __future__ import annotations

import doctest
import inspect

import pytest

from dynstore import errors


def test_the_doctests_of_the_module() -> None:
    result = doctest.testmod(errors)
    assert result.attempted > 0
    assert result.failed == 0


def test_every_exception_is_ours_and_one_of_pythons() -> None:
    python = {
        errors.InputError: ValueError,
        errors.InputTypeError: TypeError,
        errors.FileFormatError: ValueError,
        errors.LimitError: ValueError,
        errors.StaleSnapshotError: RuntimeError,
        errors.OutOfMemoryError: MemoryError,
        errors.FailedToConvergeError: RuntimeError,
        errors.MissingDependencyError: ImportError,
        errors.SavedGraphError: ValueError,
        errors.SourceGapError: RuntimeError,
        errors.StreamError: RuntimeError,
        errors.LogError: OSError,
        errors.RankError: RuntimeError,
        errors.UnweightedGraphError: RuntimeError,
    }
    ours = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__}
    assert ours == {errors.DynstoreError, *python}
    for kind, base in python.items():
        assert issubclass(kind, errors.DynstoreError)
        assert issubclass(kind, base)
        assert kind.__name__ in (errors.__doc__ or ""), "the tree in the module docstring is incomplete"


@pytest.mark.parametrize(
    ("got", "hint"),
    [
        ("xyz", ""),
        ("rebuilt", ". Did you mean 'rebuild'?"),
        ("gpma", ". Did you mean 'gpma+'?"),
        ("rbd", ". Did you mean 'rebuild'?"),  # its letters, in order
        ("rdb", ""),
        ("merge", ""),
        (7, ""),
        (None, ""),
    ],
)
def test_unknown_names_come_with_the_known_ones(got: object, hint: str) -> None:
    error = errors.unknown_name("DynamicGraph", "store", got, ["rebuild", "gpma+", "merge"])
    assert str(error) == f"DynamicGraph: unknown store {got!r}; known: 'gpma+', 'merge', 'rebuild'{hint}"


def test_unknown_names_where_there_are_none() -> None:
    error = errors.unknown_name("store 'rebuild'", "option", "tau", [])
    assert str(error) == "store 'rebuild': unknown option 'tau'; known: none"


def test_unknown_parameters_come_with_the_known_ones() -> None:
    known = {"": ["source", "destination", "store"], "other": ["dense"]}
    error = errors.unknown_parameters("join", ["src", "dst"], known)
    assert isinstance(error, TypeError)
    assert str(error) == (
        "join: unknown parameters 'src', 'dst'; known: 'source', 'destination', 'store'; other: 'dense'. "
        "Did you mean 'source', 'destination'?"
    )
    error = errors.unknown_parameters("join", ["dense"], known)  # it is one of the other's, so nothing is guessed
    assert str(error) == "join: unknown parameter 'dense'; known: 'source', 'destination', 'store'; other: 'dense'"
    error = errors.unknown_parameters("join", ["dense"], {"": ["dens"], "other": ["dense"]})
    assert str(error) == "join: unknown parameter 'dense'; known: 'dens'; other: 'dense'"
    error = errors.unknown_parameters("bfs", ["source"], {"": ["start", "depth_limit"], "other": []})
    assert str(error) == "bfs: unknown parameter 'source'; known: 'start', 'depth_limit'"
