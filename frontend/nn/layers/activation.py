"""Activations as layers."""

from __future__ import annotations

import inspect
from typing import Any

from polyreme.dtypes import default_dtype
from polyreme.nn import functional as F
from polyreme.nn import initializer as init
from polyreme.nn.layer import Layer
from polyreme.nn.layers.function_layer import FunctionLayer
from polyreme.tensor import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Maxout",
    "Mish", "PReLU", "ReLU", "ReLU6", "SELU",
    "Sigmoid", "Silu", "Softmax", "Softmax2D", "Softplus", "Softshrink", "Softsign", "Swish", "Tanh", "Tanhshrink", "ThresholdedReLU",
]  # fmt: skip


class _Activation(FunctionLayer):
    """A function of `nn.functional`, whose options `options` gives in the order of the constructor."""

    prefix = "_"
    options: dict[str, Any] = {}
    spec = ""  # how the arguments are printed

    def __init__(self, *args: Any, **kwargs: Any):
        try:
            bound = inspect.signature(type(self)).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}(): {error}; it takes {', '.join([*self.options, 'name'])}") from None
        bound.apply_defaults()
        super().__init__(**{k: v for k, v in bound.arguments.items() if k in self.options})
        self._name = bound.arguments["name"]

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self._apply_function(x)
        return made

    def extra_repr(self) -> str:
        parts = [f"{k}={v:{self.spec}}" if self.spec else f"{k}={v}" for k, v in self._chosen().items()]
        return ", ".join(parts + ([f"name={self._name}"] if self._name else []))


def _layer(name: str, function: str, doc: str, *, spec: str = "", **options: Any) -> type[Layer]:
    """A class of this name. Its parameters are the options, those without a default being `...`, then `name`."""
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(k, place, default=inspect.Parameter.empty if v is ... else v) for k, v in {**options, "name": None}.items()
    ]
    members = {
        "function": function,
        "options": options,
        "spec": spec,
        "__doc__": doc,
        "__module__": __name__,
        "__signature__": inspect.Signature(parameters),
    }
    return type(name, (_Activation,), members)


CELU: type[Layer] = _layer("CELU", "celu", "max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).", alpha=1.0)
ELU: type[Layer] = _layer("ELU", "elu", "x where it is positive, else alpha * (exp(x) - 1).", alpha=1.0)
GELU: type[Layer] = _layer("GELU", "gelu", "x times the normal distribution function of x.", approximate=False)
GLU: type[Layer] = _layer("GLU", "glu", "The first half along `axis` times the sigmoid of the second.", axis=-1)
Hardshrink: type[Layer] = _layer("Hardshrink", "hardshrink", "x where |x| is over the threshold, else 0.", threshold=0.5)
Hardsigmoid: type[Layer] = _layer("Hardsigmoid", "hardsigmoid", "x / 6 + 0.5, held within [0, 1].")
Hardswish: type[Layer] = _layer("Hardswish", "hardswish", "x * relu6(x + 3) / 6.")
Hardtanh: type[Layer] = _layer("Hardtanh", "hardtanh", "x held within [min, max].", min=-1.0, max=1.0)
LeakyReLU: type[Layer] = _layer("LeakyReLU", "leaky_relu", "x where it is positive, else negative_slope * x.", negative_slope=0.01)
LogSigmoid: type[Layer] = _layer("LogSigmoid", "log_sigmoid", "log(sigmoid(x)).")
LogSoftmax: type[Layer] = _layer("LogSoftmax", "log_softmax", "log(softmax(x)).", axis=-1)
Maxout: type[Layer] = _layer("Maxout", "maxout", "The largest of each `groups` neighbouring channels.", groups=..., axis=1)
Mish: type[Layer] = _layer("Mish", "mish", "x * tanh(softplus(x)).")
ReLU: type[Layer] = _layer("ReLU", "relu", "max(x, 0).")
ReLU6: type[Layer] = _layer("ReLU6", "relu6", "x held within [0, 6].")
SELU: type[Layer] = _layer("SELU", "selu", "scale * elu(x, alpha).", spec=".16f", scale=1.0507009873554805, alpha=1.6732632423543772)
Sigmoid: type[Layer] = _layer("Sigmoid", "sigmoid", "1 / (1 + exp(-x)).")
Softmax: type[Layer] = _layer("Softmax", "softmax", "exp(x) scaled to sum to one along `axis`.", axis=-1)
Softplus: type[Layer] = _layer("Softplus", "softplus", "log(1 + exp(beta * x)) / beta.", beta=1, threshold=20)
Softshrink: type[Layer] = _layer("Softshrink", "softshrink", "x moved towards 0 by the threshold, and 0 within it.", threshold=0.5)
Softsign: type[Layer] = _layer("Softsign", "softsign", "x / (1 + |x|).")
Swish: type[Layer] = _layer("Swish", "swish", "x * sigmoid(x).")
Tanh: type[Layer] = _layer("Tanh", "tanh", "Hyperbolic tangent.")
Tanhshrink: type[Layer] = _layer("Tanhshrink", "tanhshrink", "x - tanh(x).")
ThresholdedReLU: type[Layer] = _layer(
    "ThresholdedReLU", "thresholded_relu", "x where it is over the threshold, else `value`.", threshold=1.0, value=0.0
)


class Silu(Layer):
    """x * sigmoid(x)."""

    def __init__(self, inplace: bool = False, name: str | None = None):
        super().__init__()
        self._inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(x)

    def extra_repr(self) -> str:
        return f"inplace={self._inplace}"


class PReLU(Layer):
    """x where it is positive, else a learned slope times x."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, weight_attr: Any = None, data_format: str = "NCHW", name: str | None = None
    ):
        super().__init__()
        self._num_parameters, self._init, self._data_format, self._name = num_parameters, init, data_format, name
        self._weight = self.create_parameter([num_parameters], weight_attr, default_dtype(), default_initializer=_constant(init))

    def forward(self, x: Tensor) -> Tensor:
        return F.prelu(x, self._weight, self._data_format)

    def extra_repr(self) -> str:
        name = f", name={self._name}" if self._name else ""
        return f"num_parameters={self._num_parameters}, data_format={self._data_format}, init={self._init}, dtype={self._dtype}{name}"


def _constant(value: float) -> Any:
    return init.Constant(value)


class Softmax2D(Layer):
    """softmax along the channels of images, [channels, height, width] or with a batch before. An `AssertionError` for other ranks."""

    def __init__(self, name: str | None = None):
        super().__init__()
        self._dtype, self._name = default_dtype().name, name

    def forward(self, x: Tensor) -> Tensor:
        assert x.ndim in (3, 4), f"Softmax2D requires a 3D or 4D tensor as input. Received: {x.ndim}D."
        return F.softmax(x, axis=-3)

    def extra_repr(self) -> str:
        return f"name={self._name}" if self._name else ""
