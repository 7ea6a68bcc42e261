"""Parity: the same body on two devices must return the same values and dtypes, or raise the same error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from dynstore.backend import get_backend

__all__ = ["check_parity", "on_host"]


def on_host(value: Any) -> Any:
    """Convert a result into lists, tuples and NumPy arrays, independent of the device."""
    if hasattr(value, "columns") and hasattr(value, "dtypes"):
        return [(str(name), np.asarray(_column(value, name))) for name in value.columns]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [(field.name, on_host(getattr(value, field.name))) for field in fields(value)]
    if isinstance(value, dict):
        return [(key, on_host(value[key])) for key in sorted(value)]
    if isinstance(value, tuple | list):
        return [on_host(item) for item in value]
    if hasattr(value, "__cuda_array_interface__"):
        return get_backend("cuda").to_host(value)
    return value


def _column(frame: Any, name: str) -> Any:
    column = frame[name]
    return column.to_numpy()


def check_parity(body: Callable[[str], Any], devices: tuple[str, str] | list[str]) -> None:
    """Run ``body(device)`` on both devices and assert that the outcomes are the same.

    Parameters
    ----------
    body : callable
        Gets a device's name; returns arrays, frames, reports, numbers, or lists and dicts of these.
    devices : pair of str
        The names of two devices, such as ``("cpu", "cuda")``.
    """
    first, second = (_outcome(body, device) for device in devices)
    _assert_same(first, second, "result")


def _outcome(body: Callable[[str], Any], device: str) -> Any:
    try:
        return "returned", on_host(body(device))
    except Exception as error:
        return "raised", type(error).__name__, str(error)


def _assert_same(one: Any, other: Any, where: str) -> None:
    assert type(one) is type(other), f"{where}: {one!r} against {other!r}"
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, f"{where}: dtype {one.dtype} against {other.dtype}"
        np.testing.assert_array_equal(one, other, err_msg=where)
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), f"{where}: {one!r} against {other!r}"
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            _assert_same(a, b, f"{where}[{number}]")
    else:
        assert one == other, f"{where}: {one!r} against {other!r}"
