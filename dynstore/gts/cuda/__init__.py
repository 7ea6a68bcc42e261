"""Kernels of streamed pages for CUDA."""
