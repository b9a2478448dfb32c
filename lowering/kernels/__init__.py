"""How kernels are written; what all families share is here, each family in a folder of its own."""
