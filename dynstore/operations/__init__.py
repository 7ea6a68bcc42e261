"""Insertions, deletions and queries in one batch, answered as if they ran one by one."""
