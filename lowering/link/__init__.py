"""Objects, constants and the runtime's native parts become an artifact, in memory or as a library."""
