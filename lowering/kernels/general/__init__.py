"""Kernels of every other root: loops, sorting, drawing, scattering."""
