"""The older API, `polyreme.fluid`."""
