"""Kernels of a grid to PTX."""
