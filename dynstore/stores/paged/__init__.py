"""Rows packed into pages that lie in host memory, plain or encoded; what a graph larger than the GPU's memory reads."""
