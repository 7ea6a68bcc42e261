"""A server that does not answer: how long that is borne, and what is said of it."""

from __future__ import annotations

import logging
from time import monotonic, sleep

from dynstore.errors import InputError, StreamError, cause_of, type_name, without_secrets

__all__ = ["PATIENCE_S", "Outage", "check_patience"]

PATIENCE_S = 60.0
PAUSE_S = 0.2  # between two tries
_log = logging.getLogger("dynstore")


def check_patience(who: str, patience: object) -> None:
    """Raise InputError if a patience is no number of seconds."""
    if not isinstance(patience, int | float) or not patience >= 0:
        raise InputError(f"{who}: patience is {patience!r}; wanted seconds, at least 0")


class Outage:
    """Whether a server is away, and since when.

    Parameters
    ----------
    who : str
        The source and its server, for messages.
    patience : float
        For how many seconds the source tries again.

    Raises
    ------
    InputError
        For a negative patience.
    """

    def __init__(self, who: str, patience: float) -> None:
        check_patience(who, patience)
        self._who, self._patience = who, patience
        self._since: float | None = None

    def note(self, error: BaseException, timeout: float = 0.0) -> None:
        """Note that the server did not answer, and wait a little, but not longer than ``timeout`` seconds.

        Raises
        ------
        StreamError
            If it has been away for too long.
        """
        why = without_secrets(str(error) or type_name(error))
        if self._since is None:
            self._since = monotonic()
            _log.warning("%s does not answer: %s; trying again for %g s", self._who, why, self._patience)
        if monotonic() - self._since >= self._patience:
            raise StreamError(f"{self._who} has not answered for {self._patience:g} s: {why}") from cause_of(error)
        sleep(min(timeout, PAUSE_S))

    def end(self) -> None:
        """Note that the server has answered."""
        if self._since is not None:
            _log.warning("%s answers again, after %.1f s", self._who, monotonic() - self._since)
            self._since = None
