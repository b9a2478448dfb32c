"""`fluid.unique_name`: names for what has none."""

from __future__ import annotations

from polyreme.names import listed
from polyreme.utils.unique_name import UniqueNameGenerator, generate, guard, switch

__all__ = ["UniqueNameGenerator", "generate", "guard", "switch"]

__dir__ = listed(__name__)
