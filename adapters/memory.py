"""One memory pool for CuPy, cuDF and cuGraph on a GPU: RMM's.

dynstore allocates through CuPy, RAPIDS through RMM. Two pools on one GPU cannot use each other's free memory. Importing
cuDF makes CuPy allocate through RMM, too. But RMM has no pool until a program makes one: each allocation is then a
cudaMalloc. :func:`share_pool` makes CuPy use RMM, and makes a pool. Nothing of this happens unless it is called.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynstore.adapters.libraries import require
from dynstore.arguments import check_count

__all__ = ["SharedPool", "share_pool"]

POOL_STEP = 256  # RMM needs multiples of it


@dataclass(frozen=True, slots=True)
class SharedPool:
    """The memory resource that CuPy and RAPIDS now allocate from.

    Attributes
    ----------
    resource : str
        The class of RMM's memory resource, such as "PoolMemoryResource".
    made : bool
        Whether this call made it; False if the program had chosen one before.
    """

    resource: str
    made: bool


def share_pool(initial_bytes: int | None = None, maximum_bytes: int | None = None) -> SharedPool:
    """Make CuPy, and so dynstore, allocate from RMM on the current GPU, as cuDF and cuGraph do.

    Call it once, before anything is allocated: earlier allocations stay where they are until they are freed. It changes
    CuPy's allocator and, unless the program has already chosen one of RMM's memory resources, RMM's to a growing pool.
    No other code in dynstore changes either.

    Parameters
    ----------
    initial_bytes : int, optional
        The initial size of a new pool, rounded up to 256; by default RMM's choice, half of the free memory.
    maximum_bytes : int, optional
        The maximum size of a new pool, also rounded up; by default all memory.

    Returns
    -------
    SharedPool
        The memory resource in use.

    Raises
    ------
    MissingDependencyError
        Without RMM or CuPy; CuPy then keeps its own pool.
    InputError
        For a size that is no integer of 0 or more.
    """
    sizes = {
        "initial_pool_size": check_count("share_pool", "initial_bytes", initial_bytes),
        "maximum_pool_size": check_count("share_pool", "maximum_bytes", maximum_bytes),
    }
    sizes = {name: -(-size // POOL_STEP) * POOL_STEP for name, size in sizes.items() if size is not None}
    cupy = require("share_pool", "cupy")
    rmm = require("share_pool", "rmm")
    allocators = require("share_pool", "rmm.allocators.cupy")
    resource = rmm.mr.get_current_device_resource()
    made = type(resource) is rmm.mr.CudaMemoryResource
    if made:
        resource = rmm.mr.PoolMemoryResource(resource, **sizes)
        rmm.mr.set_current_device_resource(resource)
    cupy.cuda.set_allocator(allocators.rmm_cupy_allocator)
    return SharedPool(type(resource).__name__, made)
