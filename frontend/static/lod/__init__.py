"""Levels of detail: tensors whose rows are sequences, sequences of sequences, and so on; and how that travels through programs."""
