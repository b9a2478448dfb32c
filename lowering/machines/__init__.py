"""Facts about machines: caches, vectors, instructions."""
