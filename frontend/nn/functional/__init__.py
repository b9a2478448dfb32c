"""`paddle.nn.functional`."""

from typing import TYPE_CHECKING, Any

from polyreme.math.spelling import OF_FUNCTIONAL, spelled
from polyreme.names import absent_from, listed
from polyreme.nn.functional import (
    activation,
    attention,
    common,
    conv,
    loss,
    margin_loss,
    norm,
    path_loss,
    pooling,
    resize,
    sequence,
    vision,
)
from polyreme.nn.functional.activation import *
from polyreme.nn.functional.attention import *
from polyreme.nn.functional.common import *
from polyreme.nn.functional.conv import *
from polyreme.nn.functional.loss import *
from polyreme.nn.functional.margin_loss import *
from polyreme.nn.functional.norm import *
from polyreme.nn.functional.path_loss import *
from polyreme.nn.functional.pooling import *
from polyreme.nn.functional.resize import *
from polyreme.nn.functional.sequence import *
from polyreme.nn.functional.vision import *
from polyreme.provided import provides

for _name, _others in OF_FUNCTIONAL.items():
    globals()[_name] = spelled(globals()[_name], _name, _others)


@provides
def named_function(name: str) -> Any:
    """The function of that name, for files of mathematics that take the name of an activation."""
    return globals()[name]


__all__: list[str] = []
__all__ += activation.__all__
__all__ += attention.__all__
__all__ += common.__all__
__all__ += conv.__all__
__all__ += loss.__all__
__all__ += margin_loss.__all__
__all__ += norm.__all__
__all__ += path_loss.__all__
__all__ += pooling.__all__
__all__ += resize.__all__
__all__ += sequence.__all__
__all__ += vision.__all__

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
