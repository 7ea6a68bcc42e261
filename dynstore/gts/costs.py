"""The paper's cost models (section 5): the time of a run, by the bytes that it copies (Strategy-P, no disks)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynstore.errors import InputError

__all__ = ["Machine", "predict_pass", "predict_search"]


@dataclass(frozen=True, slots=True)
class Machine:
    """What has to be measured on a machine; bandwidths are in bytes per second, times in seconds.

    Parameters
    ----------
    chunk_bandwidth : float
        The paper's c1: one large copy.
    stream_bandwidth : float
        c2: copies of one page each.
    call_seconds : float
        The time of launching a kernel. The paper's t_call(x) is x times this.
    last_kernel_seconds : float
        t_kernel: the time of the kernels on the last small and the last large page. No copy runs beside them.
    sync_seconds : float
        t_sync: the time of merging WA between devices.
    """

    chunk_bandwidth: float
    stream_bandwidth: float
    call_seconds: float = 0.0
    last_kernel_seconds: float = 0.0
    sync_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("chunk_bandwidth", "stream_bandwidth"):
            if not getattr(self, name) > 0:
                raise InputError(f"Machine: {name} is {getattr(self, name)}; wanted more than 0 bytes per second")


def predict_pass(
    machine: Machine, written_bytes: int, read_bytes: int, page_bytes: int, calls: int, num_devices: int = 1
) -> float:
    """Predict one pass of a PageRank-like algorithm; equation 1.

    Parameters
    ----------
    machine : Machine
    written_bytes, read_bytes : int
        The bytes of WA and of RA.
    page_bytes : int
        The bytes of SP and LP: of all pages.
    calls : int
        How many kernels are launched: S + L if each page is copied alone.
    num_devices : int
        N.

    Returns
    -------
    float
        Seconds.
    """
    streamed = (read_bytes + page_bytes) / (machine.stream_bandwidth * num_devices)
    return (
        2 * written_bytes / machine.chunk_bandwidth
        + streamed
        + machine.call_seconds * calls / num_devices
        + machine.last_kernel_seconds
        + machine.sync_seconds
    )


def predict_search(
    machine: Machine,
    written_bytes: int,
    levels: Sequence[tuple[int, int]],
    hit_rate: float = 0.0,
    num_devices: int = 1,
    skew: float = 1.0,
) -> float:
    """Predict a run of a BFS-like algorithm; equation 2.

    Parameters
    ----------
    machine : Machine
    written_bytes : int
        The bytes of WA.
    levels : sequence of (int, int)
        For each level: the bytes of its pages with their RA, and how many kernels are launched.
    hit_rate : float
        r_hit, 0 to 1: the share of the pages that are on the device already. For a cache of B pages the paper sets it
        to B / (S + L).
    num_devices : int
        N.
    skew : float
        d_skew, 1 / N to 1: 1 if all devices have as many pages in each level.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    InputError
        If the hit rate or the skew is outside these bounds.
    """
    if not 0 <= hit_rate <= 1:
        raise InputError(f"predict_search: hit_rate is {hit_rate}; wanted 0 to 1")
    if not 1 / num_devices <= skew <= 1:
        raise InputError(f"predict_search: skew is {skew}; wanted {1 / num_devices:g} to 1")
    devices = num_devices * skew
    total = 2 * written_bytes / machine.chunk_bandwidth
    for streamed, calls in levels:
        total += (
            streamed / (machine.stream_bandwidth * devices) * (1 - hit_rate) + machine.call_seconds * calls / devices
        )
    return total
