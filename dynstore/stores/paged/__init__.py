"""Rows of a graph in pages of host memory, plain or encoded, for graphs that are larger than the GPU's memory."""
