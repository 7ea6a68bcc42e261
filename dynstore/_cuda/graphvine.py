"""Edge blocks in a binary tree a vertex on CUDA: what the store calls."""

from dynstore._cuda.graphvine_append import append_keys, plan_append
from dynstore._cuda.graphvine_removal import plan_removal, remove_keys
from dynstore._cuda.graphvine_rows import find_keys, read_rows

__all__ = ["append_keys", "find_keys", "plan_append", "plan_removal", "read_rows", "remove_keys"]
