"""Runs programs of pages one after another, each in a process of its own, which need not import large libraries again.

A server imports them once, and forks for each program. dynstore itself is imported by the programs: each finds it as a
new interpreter does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType
from typing import NamedTuple


class Done(NamedTuple):
    """How a program ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class Programs:
    """The server; its programs run in ``folder``."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, program: str) -> Done:
        """Run a program as ``python -c`` does."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(program).encode() + b"\n")
        self._server.stdin.flush()
        return Done(*json.loads(self._server.stdout.readline()))

    def end(self) -> None:
        self._server.communicate()
        assert self._server.returncode == 0


def _serve() -> str | None:
    """Fork for each line of the input; return the program in the fork, and None at the end of the input."""
    for line in sys.stdin.buffer:
        with TemporaryFile() as stdout, TemporaryFile() as stderr:
            child = os.fork()
            if child == 0:
                with open(os.devnull) as nothing:
                    for file, number in ((nothing, 0), (stdout, 1), (stderr, 2)):
                        os.dup2(file.fileno(), number)
                return str(json.loads(line))
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            printed = []
            for file in (stdout, stderr):
                file.seek(0)
                printed.append(file.read().decode())
        print(json.dumps([status, *printed]), flush=True)
    return None


if __name__ == "__main__":
    import numba
    import pandas  # noqa: F401
    import scipy.sparse  # noqa: F401

    numba.njit(lambda value: value)(1)  # makes the tables that Numba makes for the first kernel, a third of a second
    sys.path[0] = ""
    program = _serve()
    if program is not None:  # the fork ends as any interpreter does, with an error's traceback or the exit's handlers
        sys.modules["__main__"] = ModuleType("__main__")
        exec(program, vars(sys.modules["__main__"]))
