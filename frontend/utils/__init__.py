"""Paddle's `paddle.utils`: unique names, nested structures, DLPack."""

import importlib
from typing import Any

from polyreme.names import absent_from, listed
from polyreme.utils import unique_name
from polyreme.utils.structures import flatten, map_structure

__all__ = ["flatten", "map_structure", "unique_name"]


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"{__name__}.dlpack") if name == "dlpack" else absent_from(__name__)(name)


__dir__ = listed(__name__)
