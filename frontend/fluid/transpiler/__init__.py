"""`fluid.transpiler`: changes to programs that are built."""

from polyreme.fluid.transpiler.memory import MemorySaving, memory_optimize, release_memory
from polyreme.fluid.transpiler.ps_dispatcher import HashName, RoundRobin
from polyreme.names import listed

__all__ = ["HashName", "MemorySaving", "RoundRobin", "memory_optimize", "release_memory"]

__dir__ = listed(__name__)
