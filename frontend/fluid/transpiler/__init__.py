"""`fluid.transpiler`: changes to programs that are built."""

from polyreme.fluid.transpiler.memory import MemorySaving, memory_optimize, release_memory
from polyreme.names import listed

__all__ = ["MemorySaving", "memory_optimize", "release_memory"]

__dir__ = listed(__name__)
