"""Functions of sequences: those of `paddle.static.nn`."""

from __future__ import annotations

from polyreme.fluid.framework import appending
from polyreme.names import listed
from polyreme.static.nn import sequence

__all__ = ["sequence_conv", "sequence_expand", "sequence_first_step", "sequence_last_step", "sequence_pool", "sequence_softmax"]

sequence_conv = appending(sequence.sequence_conv)
sequence_expand = appending(sequence.sequence_expand)
sequence_softmax = appending(sequence.sequence_softmax)
sequence_pool = appending(sequence.sequence_pool)
sequence_first_step = appending(sequence.sequence_first_step)
sequence_last_step = appending(sequence.sequence_last_step)

__dir__ = listed(__name__)
