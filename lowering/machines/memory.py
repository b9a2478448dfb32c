"""Facts of memory that every core here is taken to share; a row of `cores.py` gets those by which cores turn out to differ."""

from __future__ import annotations

# Bytes of a line, which comes as a whole and which no two threads should write. Buffers begin at one.
LINE_BYTES = 64
# Bytes after which addresses share their places in L1, and in L2: what is that far from each other drives each other out.
L1_WAY_BYTES, L2_WAY_BYTES = 4096, 1 << 17
# L3 is slow if a core reads fewer bytes from it in a cycle.
FAST_L3_BYTES = 12
# Associativity of L2.
L2_WAYS = 16
# Up to so many rows a product is bound by reading its weights, and has time to widen narrow ones.
ROWS_OF_WEIGHTS = 16
# How far ahead loops ask for lines of memory: 1 KiB or 4 KiB are about as good.
LOOP_PREFETCH_BYTES = 2048
# Bytes that a task may take of its stack; a module of WebAssembly has a stack of as many.
STACK_BYTES = 1 << 20
# Bytes of a page, at whose end the hardware prefetcher stops; it follows each load on its own, and loses them if a loop has more.
PAGE_BYTES, PREFETCHED_LOADS = 4096, 16
# Bytes that the second-level TLB reaches with such pages.
TLB_REACH_BYTES = 6 << 20
# How far ahead lines are prefetched that come from memory: in bytes of operands of products, and in cycles of computing.
PREFETCH_BYTES, PREFETCH_CYCLES = 4096, 1000
# Loads of a round of a loop, each from a place of its own that moves on, which the hardware prefetcher follows.
FOLLOWED_LOADS = 32
# Of L3, which other threads and programs use too, 1 / this is where a core still finds what it left there.
L3_SHARE = 4
# Rows, or pairs of rows, of an operand that is packed which are asked for ahead.
PREFETCH_ROWS = 32
# An unknown number of rows asks for all of the next panel in the time of so many rows, from memory and from L3; fewer for its first lines.
ROWS_OF_MEMORY, ROWS_OF_L3 = 16, 32
# Lines that a round of steps asks for at most, since line fill buffers are few; twice as many of a round most of whose lines are there
# already, or that is a long one.
LINES_OF_ROUND = 4
# Vectors of a panel that stay in L1 beside what else a tile reads, and cycles in which one comes from L2.
L1_PANEL_VECTORS, L2_VECTOR_CYCLES = 256, 1.6
