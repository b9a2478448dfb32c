"""`paddle.nn.functional`."""

from polyreme.nn.functional import activation, common, conv, loss, pooling

_SUBJECTS = (activation, common, conv, pooling, loss)
for _subject in _SUBJECTS:
    for _name in _subject.__all__:
        globals()[_name] = getattr(_subject, _name)

__all__ = [name for subject in _SUBJECTS for name in subject.__all__]
