"""Grid kernels to PTX."""
