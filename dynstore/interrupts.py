"""Blocks of an update: Ctrl-C waits for the end of what must not stop half way; memory errors become ours."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` puts around its functions takes ten times as long
import signal
from threading import current_thread, main_thread
from typing import Any

from dynstore.errors import OutOfMemoryError

__all__ = ["MemoryChecked", "Uninterrupted"]

SIGINT = int(signal.SIGINT)


class MemoryChecked:
    """A ``with`` block whose memory errors, NumPy's and CuPy's, become ours; what was planned in it is dropped."""

    __slots__ = ("_caller",)

    def __init__(self, caller: str) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemoryError):
            raise OutOfMemoryError(f"{self._caller}: memory ran out ({error}); the graph is as it was") from error


class Uninterrupted:
    """A ``with`` block that an interrupt does not stop: it is handled, as ever, at the end of the block.

    In other threads than the main one nobody is interrupted.
    """

    __slots__ = ("_came", "_handler")

    def __enter__(self) -> None:
        self._handler: Any = None
        self._came: tuple[Any, ...] | None = None
        handler = _signal.getsignal(SIGINT)
        if callable(handler):  # else it is ignored, ends the process, or is not Python's
            try:
                _signal.signal(SIGINT, self._note)
            except ValueError:  # another thread than the main one; else of a handler whose signal has just come
                if current_thread() is main_thread():
                    raise
                return
            self._handler = handler

    def __exit__(self, *error: object) -> None:
        if self._handler is not None:
            _signal.signal(SIGINT, self._handler)
            if self._came is not None:
                self._handler(*self._came)

    def _note(self, *interrupt: Any) -> None:
        self._came = interrupt
