"""Paddle's `paddle.utils`: unique names, nested structures."""

from polyreme.names import listed
from polyreme.utils import unique_name
from polyreme.utils.structures import flatten, map_structure

__all__ = ["flatten", "map_structure", "unique_name"]

__dir__ = listed(__name__)
