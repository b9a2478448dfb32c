"""What is known of machines: caches, vectors, instructions, and which of them a function may use."""
