"""Result files: checked before a run, written at its end, completely or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dynstore.errors import DynstoreError, InputError
from dynstore.terminal import visible

__all__ = ["check_outputs", "printable", "write_outputs"]


def check_outputs(*paths: Path | None) -> None:
    """Check that every output can be written; leave no files behind.

    Raises
    ------
    InputError
    """
    given = [path for path in paths if path is not None]
    if len({path.absolute() for path in given}) < len(given):
        raise InputError(f"--json and --report are both {str(given[0])!r}; wanted two files")
    for path in given:
        try:
            exists = _exists(path)
            if exists and not path.is_file():
                raise InputError(f"cannot write {str(path)!r}: it is a {'folder' if path.is_dir() else 'special file'}")
            part = _part_of(path)
            if exists:
                path.open("r+b").close()
            part.open("wb").close()
            part.unlink()
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"cannot write {str(path)!r}: {getattr(error, 'strerror', None) or error}") from error


def _exists(path: Path) -> bool:
    """Whether the file exists; unlike ``Path.exists``, raise for names that no file can have, on every Python."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _part_of(path: Path) -> Path:
    """Return a name in the folder of the file, links resolved, so that the final move is atomic.

    It is short: the file's own name may be as long as names can be.
    """
    return path.resolve().with_name(f".dynstore-{os.getpid()}.part")


def write_outputs(texts: Mapping[Path, str | Mapping[str, Any]], say: bool = True) -> None:
    """Write each file under a temporary name beside its place, then move it there.

    Parameters
    ----------
    texts : mapping
        Path -> a text, or a document that is written as JSON.
    say : bool
        Whether to print a line for each file.

    Raises
    ------
    DynstoreError
    """
    for path, text in texts.items():
        if not isinstance(text, str):
            text = json.dumps(text, indent=2, ensure_ascii=False) + "\n"
        part = _part_of(path)
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(path.resolve())
        except BaseException as error:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise DynstoreError(f"could not write {str(path)!r}: {error.strerror or error}") from error
            raise
        if say:
            print(f"wrote {visible(path)}")


def printable(text: str) -> str:
    r"""Return a file's name with bytes that are not UTF-8 as ``\xe9``, so that it can be written and printed."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")
