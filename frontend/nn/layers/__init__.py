"""The layers, by family."""
