"""The functions of `paddle` itself, by subject, and the table that makes them methods of Tensor."""

from __future__ import annotations

from polyreme.math import complex_functions as complex_functions  # puts them into `elementwise`
from polyreme.math import (
    complexes,
    contractions,
    creation,
    distinct,
    edits,
    elementwise,
    indexing,
    linalg,
    logic,
    manipulation,
    matrices,
    operators,
    reduction,
    running,
    scattering,
    search,
    special,
    statistics,
)
from polyreme.math import contents as contents  # provides what is known of values
from polyreme.math.complexes import *
from polyreme.math.contractions import *
from polyreme.math.creation import *
from polyreme.math.distinct import *
from polyreme.math.edits import *
from polyreme.math.elementwise import *
from polyreme.math.linalg import *
from polyreme.math.logic import *
from polyreme.math.manipulation import *
from polyreme.math.matrices import *
from polyreme.math.reduction import *
from polyreme.math.running import *
from polyreme.math.scattering import *
from polyreme.math.search import *
from polyreme.math.special import *
from polyreme.math.spelling import spelled
from polyreme.math.statistics import *
from polyreme.provided import provided
from polyreme.tensor import Tensor

_SUBJECTS = (
    creation,
    elementwise,
    logic,
    reduction,
    manipulation,
    linalg,
    contractions,
    search,
    distinct,
    complexes,
    matrices,
    scattering,
    statistics,
    running,
    special,
    edits,
)

for _subject in _SUBJECTS:
    for _name in _subject.METHODS:
        setattr(Tensor, _name, spelled(getattr(_subject, _name), _name))
    for _name in _subject.__all__:
        globals()[_name] = spelled(getattr(_subject, _name), _name)
for _name, _function in operators.OPERATORS.items():
    setattr(Tensor, _name, _function)


# Where the method is called otherwise than the function, or clashes with what the class has.
_METHODS: dict[str, object] = {
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "astype": elementwise.cast,
    "T": property(lambda self: manipulation.transpose(self, list(range(self.ndim))[::-1])),
    "mT": property(lambda self: manipulation.transpose(self, [*range(self.ndim - 2), self.ndim - 1, self.ndim - 2])),
    "fill_": edits.fill_,
    "zero_": lambda self: edits.fill_(self, 0),
    "view_as": lambda self, other, name=None: manipulation.view(self, other.shape),
    "softmax": lambda self, *args, **kwargs: provided.named_function("softmax")(self, *args, **kwargs),
    "stft": lambda self, *args, **kwargs: provided.stft(self, *args, **kwargs),
    "istft": lambda self, *args, **kwargs: provided.istft(self, *args, **kwargs),
    "type_as": lambda self, other: elementwise.cast(self, other.dtype),
    "reshape_as": lambda self, other: manipulation.reshape(self, other.shape),
}
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)

# The names that are not those of the dtypes themselves.
_CASTS = {
    "int": "int32", "float": "float32", "long": "int64", "short": "int16", "char": "int8", "byte": "uint8", "half": "float16",
    "double": "float64", "cfloat": "complex64",
    "cdouble": "complex128",
}  # fmt: skip
for _name in (
    "bool",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "complex64",
    "complex128",
    *_CASTS,
):
    _dtype = _CASTS.get(_name, _name)
    setattr(Tensor, _name, lambda self, dtype=_dtype: elementwise.cast(self, dtype))

__all__: list[str] = []
__all__ += complexes.__all__
__all__ += contractions.__all__
__all__ += creation.__all__
__all__ += distinct.__all__
__all__ += edits.__all__
__all__ += elementwise.__all__
__all__ += linalg.__all__
__all__ += logic.__all__
__all__ += manipulation.__all__
__all__ += matrices.__all__
__all__ += reduction.__all__
__all__ += running.__all__
__all__ += scattering.__all__
__all__ += search.__all__
__all__ += special.__all__
__all__ += statistics.__all__
