"""Learning rates of dygraph mode, under the name that they have in Paddle 1.8."""

from __future__ import annotations

from polyreme.fluid.decays import (
    CosineDecay,
    ExponentialDecay,
    InverseTimeDecay,
    LambdaDecay,
    LearningRateDecay,
    LinearLrWarmup,
    MultiStepDecay,
    NaturalExpDecay,
    NoamDecay,
    PiecewiseDecay,
    PolynomialDecay,
    ReduceLROnPlateau,
    StepDecay,
)
from polyreme.names import listed

__all__ = [
    "CosineDecay", "ExponentialDecay", "InverseTimeDecay", "LambdaDecay", "LearningRateDecay", "LinearLrWarmup", "MultiStepDecay",
    "NaturalExpDecay", "NoamDecay", "PiecewiseDecay", "PolynomialDecay", "ReduceLROnPlateau", "StepDecay",
]  # fmt: skip

__dir__ = listed(__name__)
