"""Functions of sequences: those of `paddle.static.nn`."""

from __future__ import annotations

from polyreme.names import listed
from polyreme.static.nn.sequence import (
    sequence_conv,
    sequence_expand,
    sequence_first_step,
    sequence_last_step,
    sequence_pool,
    sequence_softmax,
)

__all__ = ["sequence_conv", "sequence_expand", "sequence_first_step", "sequence_last_step", "sequence_pool", "sequence_softmax"]

__dir__ = listed(__name__)
