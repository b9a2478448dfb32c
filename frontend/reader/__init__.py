"""`paddle.reader`: readers, functions that return an iterator over samples, made of other readers."""

from polyreme.names import listed
from polyreme.reader import decorator
from polyreme.reader.decorator import *

__all__ = decorator.__all__

__dir__ = listed(__name__)
