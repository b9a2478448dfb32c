"""Products of matrices, and matrices as products."""
