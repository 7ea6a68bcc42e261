"""``with`` blocks for updates: one delays Ctrl-C to its end, one turns memory errors into ours."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the wrappers in `signal` take ten times as long
import signal
from threading import current_thread, main_thread
from typing import Any

from dynstore.errors import OutOfMemoryError

__all__ = ["MemoryChecked", "Uninterrupted"]

SIGINT = int(signal.SIGINT)


class MemoryChecked:
    """A ``with`` block that turns memory errors of NumPy and CuPy into ours; plans made in it are dropped."""

    __slots__ = ("_caller",)

    def __init__(self, caller: str) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemoryError):
            raise OutOfMemoryError(f"{self._caller}: memory ran out ({error}); the graph is as it was") from error


class Uninterrupted:
    """A ``with`` block that an interrupt does not stop: the interrupt is handled at the end of the block.

    Only the main thread can be interrupted.
    """

    __slots__ = ("_came", "_handler")

    def __enter__(self) -> None:
        self._handler: Any = None
        self._came: tuple[Any, ...] | None = None
        handler = _signal.getsignal(SIGINT)
        if callable(handler):  # else the signal is ignored, ends the process, or its handler is not Python's
            try:
                _signal.signal(SIGINT, self._note)
            except ValueError:  # not the main thread, or a handler whose signal has just come
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
