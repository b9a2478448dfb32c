"""`paddle.nn`: layers, and what they are made of."""

from polyreme.nn import clip, container, functional, initializer, layer
from polyreme.nn.layers import activation, common, conv, loss, pooling

_SUBJECTS = (layer, container, activation, common, conv, pooling, loss, clip)
for _subject in _SUBJECTS:
    for _name in _subject.__all__:
        globals()[_name] = getattr(_subject, _name)

__all__ = ["functional", "initializer", *(name for subject in _SUBJECTS for name in subject.__all__)]
