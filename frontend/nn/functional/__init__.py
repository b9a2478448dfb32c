"""`paddle.nn.functional`."""

from polyreme.nn.functional import activation, common, conv, loss, pooling
from polyreme.nn.functional.activation import *
from polyreme.nn.functional.common import *
from polyreme.nn.functional.conv import *
from polyreme.nn.functional.loss import *
from polyreme.nn.functional.pooling import *

__all__: list[str] = []
__all__ += activation.__all__
__all__ += common.__all__
__all__ += conv.__all__
__all__ += loss.__all__
__all__ += pooling.__all__
