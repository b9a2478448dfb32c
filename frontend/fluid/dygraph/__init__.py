"""`fluid.dygraph`: functions that run at once, Layers, learning rates, and what compiles them."""

from polyreme.fluid.decays import (
    CosineDecay,
    ExponentialDecay,
    InverseTimeDecay,
    LambdaDecay,
    LinearLrWarmup,
    MultiStepDecay,
    NaturalExpDecay,
    NoamDecay,
    PiecewiseDecay,
    PolynomialDecay,
    ReduceLROnPlateau,
    StepDecay,
)
from polyreme.fluid.dygraph import base, jit, layers, learning_rate_scheduler, losses, nn, parallel, rnn
from polyreme.fluid.dygraph.base import disable_dygraph, enable_dygraph, enabled, grad, guard, no_grad, to_variable
from polyreme.fluid.dygraph.checkpoint import load_dygraph, save_dygraph
from polyreme.fluid.dygraph.jit import ProgramTranslator, TracedLayer, declarative
from polyreme.fluid.dygraph.layers import Layer, LayerList, ParameterList, Sequential
from polyreme.fluid.dygraph.losses import BCELoss, L1Loss, MSELoss, NLLLoss
from polyreme.fluid.dygraph.nn import (
    NCE,
    BatchNorm,
    BilinearTensorProduct,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    Dropout,
    Embedding,
    GroupNorm,
    GRUUnit,
    InstanceNorm,
    LayerNorm,
    Linear,
    Pool2D,
    PRelu,
    SpectralNorm,
)
from polyreme.fluid.dygraph.parallel import BackwardStrategy, DataParallel, ParallelEnv, prepare_context
from polyreme.fluid.dygraph.rnn import GRUCell, LSTMCell
from polyreme.names import listed

__all__ = [
    "BCELoss", "BackwardStrategy", "BatchNorm", "BilinearTensorProduct", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose",
    "CosineDecay", "DataParallel", "Dropout", "Embedding", "ExponentialDecay", "GRUCell", "GRUUnit", "GroupNorm", "InstanceNorm",
    "InverseTimeDecay", "L1Loss", "LSTMCell", "LambdaDecay", "Layer", "LayerList", "LayerNorm", "Linear", "LinearLrWarmup", "MSELoss",
    "MultiStepDecay", "NCE", "NLLLoss", "NaturalExpDecay", "NoamDecay", "PRelu", "ParallelEnv", "ParameterList", "PiecewiseDecay",
    "PolynomialDecay", "Pool2D", "ProgramTranslator", "ReduceLROnPlateau", "Sequential", "SpectralNorm", "StepDecay",
    "TracedLayer", "base", "declarative",
    "disable_dygraph", "disable_imperative", "enable_dygraph", "enable_imperative", "enabled", "grad", "guard", "jit", "layers",
    "learning_rate_scheduler", "load_dygraph", "losses", "nn", "no_grad", "parallel", "prepare_context", "rnn", "save_dygraph",
    "to_variable",
]  # fmt: skip

enable_imperative, disable_imperative = enable_dygraph, disable_dygraph

__dir__ = listed(__name__)
