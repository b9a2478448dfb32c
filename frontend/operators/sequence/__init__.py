"""Operators on sequences: what the rows of a tensor are parts of is told by its levels of detail, in the slot `X@LOD`."""
