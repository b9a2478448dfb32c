"""Learning rates of dygraph mode, under the name that they have in Paddle 1.8."""

from __future__ import annotations

from polyreme.fluid.decays import *
from polyreme.fluid.decays import LearningRateDecay as LearningRateDecay
from polyreme.names import listed

__dir__ = listed(__name__)
