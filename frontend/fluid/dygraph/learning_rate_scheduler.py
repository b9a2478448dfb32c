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

__all__ = [
    "CosineDecay", "ExponentialDecay", "InverseTimeDecay", "LambdaDecay", "LearningRateDecay", "LinearLrWarmup", "MultiStepDecay",
    "NaturalExpDecay", "NoamDecay", "PiecewiseDecay", "PolynomialDecay", "ReduceLROnPlateau", "StepDecay",
]  # fmt: skip
