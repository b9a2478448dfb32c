"""Blocks in blocks: operators with a block of operators of their own, and how they run."""
