"""The text format taken apart and put together: its grammar, and how types and constants are spelled."""
