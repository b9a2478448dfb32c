"""`paddle.nn.functional`."""

from typing import TYPE_CHECKING

from polyreme.names import absent_from
from polyreme.nn.functional import activation, common, conv, loss, norm, pooling, sequence
from polyreme.nn.functional.activation import *
from polyreme.nn.functional.common import *
from polyreme.nn.functional.conv import *
from polyreme.nn.functional.loss import *
from polyreme.nn.functional.norm import *
from polyreme.nn.functional.pooling import *
from polyreme.nn.functional.sequence import *

__all__: list[str] = []
__all__ += activation.__all__
__all__ += common.__all__
__all__ += conv.__all__
__all__ += loss.__all__
__all__ += norm.__all__
__all__ += pooling.__all__
__all__ += sequence.__all__

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__ = absent_from(__name__)
