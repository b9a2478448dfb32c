"""Writers of other projects' model formats."""
