"""Host kernels of the algorithms: Numba njit over the gap-aware CSR, read in place."""
