"""What tells a compiled function from others, for who only has to know that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class CompiledFunction:
    """A function that `paddle.jit.to_static` made of `dygraph_function`; see `StaticFunction`."""

    @property
    def dygraph_function(self) -> Callable[..., Any]:
        """The function as it was written."""
        raise NotImplementedError
