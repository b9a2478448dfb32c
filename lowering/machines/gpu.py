"""Facts of GPUs, which kernels for them share."""

from __future__ import annotations

# Threads that go together.
WARP = 32
# Bytes that one thread reads or writes at once.
VECTOR_BYTES = 16
# Threads of a block that does one thing to many elements.
BLOCK_THREADS = 256
# About so many multiprocessors does a device have.
MULTIPROCESSORS = 128
# One `mma`: rows, columns and depth; so many sums of it are each lane's.
MMA_ROWS, MMA_COLUMNS, MMA_DEPTH, MMA_SUMS = 16, 8, 16, 4
