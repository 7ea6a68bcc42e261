"""The payments that server and consumer speak of: made up from a seed, and where they are to be found."""

from __future__ import annotations

import socket
import time
from importlib.util import find_spec
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from dynstore.errors import without_secrets

REDIS = "redis://localhost:6379/payments"
FLIGHT = "grpc://localhost:8815/payments"
COLUMNS = {"source": "card", "destination": "merchant", "weight": "cents", "time": "time"}

CARDS, MERCHANTS = 5000, 800
START = np.datetime64("2026-01-05T09:00:00", "ns")
SECOND = 1_000_000_000
PERIOD = 90  # messages: in each period there is a ring and a spree
RING_CARDS, RING_MERCHANTS, RING_BEGINS, RING_LASTS = 6, 5, 20, 40
SPREE_MERCHANTS, SPREE_BEGINS, SPREE_LASTS = 30, 5, 10


def make_message(number: int, rows: int = 50, seed: int = 7) -> pd.DataFrame:
    """Return the payments of one second; a message of the same number and seed is always the same."""
    rng = np.random.default_rng((seed, number))
    card = rng.integers(0, CARDS, rows)
    merchant = (MERCHANTS * rng.random(rows) ** 2).astype(np.int64)  # some are paid by many
    cents = rng.lognormal(8, 1, rows).astype(np.int64) + 1
    period, second = divmod(number, PERIOD)
    cards, merchants = ring(period, seed)
    if RING_BEGINS <= second < RING_BEGINS + RING_LASTS:  # three payments of the ring
        card[:3], merchant[:3], cents[:3] = rng.choice(cards, 3), rng.choice(merchants, 3), 49_900
    if SPREE_BEGINS <= second < SPREE_BEGINS + SPREE_LASTS:  # a stolen card is tried out
        low = 3 * (second - SPREE_BEGINS)
        card[3:6], merchant[3:6], cents[3:6] = spree(period, seed), _shops(period, seed)[low : low + 3], 100
    nanoseconds = np.sort(rng.integers(0, SECOND, rows)) + number * SECOND
    return pd.DataFrame(
        {
            "card": [f"card-{each:04d}" for each in card],
            "merchant": [f"shop-{each:03d}" for each in merchant],
            "cents": cents,
            "time": START + nanoseconds.astype("m8[ns]"),
        }
    )


def ring(period: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return the cards and the merchants of a period's ring: each card pays at each merchant."""
    rng = np.random.default_rng((seed, 1, period))
    return rng.choice(CARDS, RING_CARDS, replace=False), rng.choice(MERCHANTS, RING_MERCHANTS, replace=False)


def spree(period: int, seed: int = 7) -> int:
    """Return the card that is tried out at many merchants in a period."""
    return int(np.random.default_rng((seed, 2, period)).integers(CARDS))


def _shops(period: int, seed: int) -> np.ndarray:
    return np.random.default_rng((seed, 3, period)).choice(MERCHANTS, SPREE_MERCHANTS, replace=False)


def find_address() -> str:
    """Return where payments go: to Redis if it answers, else through Arrow Flight."""
    if find_spec("redis") is not None and is_listening(REDIS):
        return REDIS
    return FLIGHT


def is_listening(address: str) -> bool:
    """Whether there is a server at an address."""
    place = urlsplit(address)
    try:
        socket.create_connection((place.hostname, place.port), 1).close()
    except OSError:
        return False
    return True


def wait_for(address: str, seconds: float = 30.0) -> None:
    """Return when there is a server at an address.

    Raises
    ------
    TimeoutError
        If there is none in time.
    """
    ends = time.monotonic() + seconds
    while not is_listening(address):
        if time.monotonic() > ends:
            raise TimeoutError(f"nothing listens at {without_secrets(address)}; start server.py")
        time.sleep(0.1)
