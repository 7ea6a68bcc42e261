"""Kernels of streamed pages for the host."""
