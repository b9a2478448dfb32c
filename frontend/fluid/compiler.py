"""`fluid.CompiledProgram` and strategies: those of `paddle.static`."""

from __future__ import annotations

from polyreme.names import listed
from polyreme.static.parallel.compiled_program import CompiledProgram
from polyreme.static.parallel.strategies import BuildStrategy, ExecutionStrategy

__all__ = ["BuildStrategy", "CompiledProgram", "ExecutionStrategy"]

__dir__ = listed(__name__)
