"""PageRank's weights, scaled where a row's sum does not fit their dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["are_moderate", "choose_weights"]

# Weights are divided by 2 to the power of this where their sum is too large.
FAR = 40


def choose_weights(kernels: Any, into: GapCSR, out: GapCSR, out_weights: Array | None) -> tuple[GapCSR, Array]:
    """Return in-edges and sums of out-weights that kernels can compute with: as they are, or scaled.

    Kernels divide ranks by these sums, and multiply by weights. Only the quotients of a row's weights and their sum
    matter, so a power of two may be divided out of each row. This is done for all rows if the sum of one does not fit
    the weights' dtype, or is so large or small that its quotients do not. It copies the weights.

    Parameters
    ----------
    kernels : module
        ``link_analysis.ranks`` of the graph's device.
    into, out : GapCSR
        In-edges and out-edges.
    out_weights : array, shape (V,), or None
        The sums, if they are known.

    Returns
    -------
    into : GapCSR
    out_weights : array, shape (V,)
    """
    sums = kernels.sum_out_weights(out) if out_weights is None else out_weights
    if out.weights is None or are_moderate(out.backend.xp, sums):
        return into, sums
    xp = out.backend.xp
    exponents = xp.frexp(sums)[1]
    far = xp.frexp(kernels.sum_out_weights(_scaled(out, out.sources, xp.full_like(exponents, FAR))))[1] + FAR
    exponents = xp.where(xp.isfinite(sums), exponents, far)
    if out_weights is None:
        sums = kernels.sum_out_weights(_scaled(out, out.sources, exponents))
    else:
        sums = xp.ldexp(sums, -exponents)
    return _scaled(into, into.indices, exponents), sums


def are_moderate(xp: Any, sums: Array) -> bool:
    """Whether each sum is 0, or far enough from the ends of its dtype's range that ranks divided by it are numbers."""
    limit = np.finfo(sums.dtype).maxexp * 3 // 4
    return bool(((sums == 0) | ((sums >= 2.0**-limit) & (sums <= 2.0**limit))).all())


def _scaled(csr: GapCSR, tails: Array, exponents: Array) -> GapCSR:
    """Return the rows with each weight divided by 2 to the power of its tail's exponent."""
    with np.errstate(all="ignore"):  # gaps may carry any weight
        return csr.with_weights(csr.backend.xp.ldexp(csr.weights, -exponents[tails]))
