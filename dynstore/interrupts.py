"""``with`` blocks for updates: one delays Ctrl-C and other signals to its end, one turns memory errors into ours."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the wrappers in `signal` take ten times as long
import signal
from itertools import repeat
from threading import get_ident, main_thread
from types import FrameType
from typing import Any

from dynstore.errors import OutOfMemoryError

__all__ = ["MemoryChecked", "Uninterrupted", "memory_error"]

NUMBERS = tuple(map(int, sorted(signal.valid_signals())))
# The handlers of all these signals when an update last looked, and those that are Python functions, by signal.
_seen: tuple[list[Any], dict[int, Any]] = [], {}
# Whether the main thread is in a block that holds signals back.
_is_held = False


class MemoryChecked:
    """A ``with`` block that turns memory errors of NumPy and CuPy into ours; plans made in it are dropped."""

    __slots__ = ("_caller",)

    def __init__(self, caller: str) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemoryError):
            raise memory_error(self._caller, error) from error


def memory_error(caller: str, error: MemoryError) -> OutOfMemoryError:
    """Return our error for one of NumPy or CuPy."""
    return OutOfMemoryError(f"{caller}: memory ran out ({error}); the graph is as it was")


class Uninterrupted:
    """A ``with`` block that no signal's handler stops: the handlers are called at the end of the block, in order.

    Handlers may raise, as that of Ctrl-C does, timeouts by SIGALRM, or those of SIGTERM that exit. Python calls them in
    the main thread, between any two of its instructions, whichever thread the system interrupts. So blocking signals in
    one thread would not help. Instead every handler that is a Python function is exchanged for one that notes the
    signal. Of a signal that comes several times in the block, one call is made, as Python does itself.

    A handler that raises as the block begins stops it before its first statement. Exchanging handlers sets the system's
    calls to be interrupted by the signal, as :func:`signal.signal` always does (see :func:`signal.siginterrupt`). An
    exception that another thread sets (``PyThreadState_SetAsyncExc``) is not held back.

    A block within another one leaves all to the outer one.
    """

    __slots__ = ("_came", "_handlers", "_is_open")

    def __enter__(self) -> None:
        self._came: dict[int, FrameType | None] = {}
        self._handlers: dict[int, Any] = {}
        if _is_held or get_ident() != main_thread().ident:
            return
        self._hold()

    def _hold(self) -> None:
        global _is_held
        handlers = list(map(_signal.getsignal, NUMBERS))
        self._handlers = _seen[1] if handlers == _seen[0] else _choose_handlers(handlers)
        self._is_open = True
        try:
            list(map(_signal.signal, self._handlers, repeat(self._note)))
        except BaseException:
            self._is_open = False
            self._restore()
            raise
        _is_held = bool(self._handlers)

    def __exit__(self, *error: object) -> None:
        if self._handlers:
            self._release()

    def _release(self) -> None:
        global _is_held
        try:
            self._restore()
        finally:
            self._is_open = _is_held = False
            self._call_handlers()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_open:
            self._came.setdefault(number, frame)
        else:  # a handler has raised at a moment when this one could not be exchanged back
            self._handlers[number](number, frame)

    def _restore(self) -> None:
        """Exchange the handlers back, all of them also if one is called meanwhile and raises."""
        handlers, note = self._handlers, self._note
        try:
            # In one call of a C function, within which only handlers that are called run Python.
            list(map(_signal.signal, handlers, handlers.values()))
        except BaseException:
            left = {number: handlers[number] for number in handlers if _signal.getsignal(number) == note}
            list(map(_signal.signal, left, left.values()))
            raise

    def _call_handlers(self) -> None:
        """Call the handlers of the signals that came; one that raises does not keep the others from being called."""
        try:
            while self._came:
                number = next(iter(self._came))
                self._handlers[number](number, self._came.pop(number))
        finally:
            if self._came:
                self._call_handlers()


def _choose_handlers(handlers: list[Any]) -> dict[int, Any]:
    """Return those of all signals' handlers that are Python functions, by signal, and remember them.

    Other signals are ignored, end the process, or have a handler of another language.
    """
    global _seen
    named = zip(NUMBERS, handlers, strict=True)
    _seen = handlers, {number: handler for number, handler in named if callable(handler)}
    return _seen[1]
