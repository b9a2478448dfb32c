"""Facts of memory that every core here is taken to share; a row of `cores.py` gets those by which cores turn out to differ."""

from __future__ import annotations

# Associativity of L2.
L2_WAYS = 16
# Bytes of a page, at whose end the hardware prefetcher stops.
PAGE_BYTES = 4096
# Bytes that the second-level TLB reaches with such pages.
TLB_REACH_BYTES = 6 << 20
