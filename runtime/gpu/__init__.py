"""Artifacts on a GPU: the drivers of devices, the memory of tensors on one, and executables that launch kernels there."""
