"""What several commands use: the check of a device's name."""

from __future__ import annotations

__all__ = ["DEVICE_HELP", "check_device"]

DEVICE_HELP = "Where to run: cpu, cuda (a GPU), or auto: a GPU if one can be used."


def check_device(name: str) -> None:
    """Refuse all but the public devices."""
    from dynstore.backend import DEVICES, unknown_device

    if name not in DEVICES:
        raise unknown_device(name)
