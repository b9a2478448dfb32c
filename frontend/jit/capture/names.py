"""Names of values while a function is traced: those of the variables that the user keeps them in.

A variable gets its value after the op that made it was recorded: `hidden = paddle.matmul(x, w)` is an op first and an assignment
afterwards. So the frames of the user's that an op was recorded under are remembered, and when the next op comes, or the end, their
variables say what the values since then are called. This needs no source text, and knows by itself what a look at the statement would have
to guess: tuples, `+=`, a result that is not the last op of what was called. A value that is only part of a larger expression is in no
variable, and has no name.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from polyreme.ir.core import Block, OpResult
from polyreme.ir.diagnostics import is_users_frame
from polyreme.tensor import Tensor

__all__ = ["VariableNames"]


class VariableNames:
    """Names the values of `block` after variables of the user's; frames from the one that runs `outermost` on are not looked at."""

    def __init__(self, block: Block, outermost: CodeType):
        self.block = block
        self.outermost = outermost
        self.frames: list[FrameType] = []

    def step(self) -> None:
        """An op is about to be recorded: name what was assigned since the last one, and remember who asked for this one."""
        self.look()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self.outermost:
            if is_users_frame(frame):
                self.frames.append(frame)
            frame = frame.f_back

    def look(self) -> None:
        """Name the values that variables of the remembered frames hold, those of inner frames first, and forget the frames."""
        for frame in self.frames:
            for name, held in frame.f_locals.items():
                if isinstance(held, Tensor):
                    value = held._value
                    if isinstance(value, OpResult) and not value.name and value.op.parent is self.block and name != "_":
                        value.name = name
        self.frames.clear()
