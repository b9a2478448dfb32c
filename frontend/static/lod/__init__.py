"""Levels of detail: tensors whose rows are sequences, sequences of sequences, and so on; and how that travels
through programs; so do the positions of rows that were read, beside gradients of tables."""
