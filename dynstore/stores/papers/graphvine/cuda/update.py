"""Edge blocks in a binary tree for each vertex on CUDA: the functions that the store calls."""

from dynstore.stores.papers.graphvine.cuda.append import append_keys, plan_append
from dynstore.stores.papers.graphvine.cuda.remove import plan_removal, remove_keys
from dynstore.stores.papers.graphvine.cuda.rows import find_keys, read_rows

__all__ = ["append_keys", "find_keys", "plan_append", "plan_removal", "read_rows", "remove_keys"]
