"""`paddle.nn.utils`: weights that are computed from other parameters in front of every call of their layer; parameters as one vector;
gradients cut by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from polyreme import math as functions
from polyreme import tape
from polyreme.math.creation import assign
from polyreme.names import listed
from polyreme.nn import functional as F
from polyreme.nn.layer import Layer
from polyreme.nn.layers.common import Linear
from polyreme.nn.layers.norm import as_matrix
from polyreme.random import default_generator
from polyreme.tensor import Tensor

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "remove_weight_norm", "spectral_norm", "vector_to_parameters",
    "weight_norm",
]  # fmt: skip


def _hook_of(layer: Layer, kind: Any, name: str) -> Any:
    """The key of the hook of this kind for the parameter `name`, None when there is none."""
    return next((k for k, hook in layer._forward_pre_hooks.items() if isinstance(hook.function, kind) and hook.function.name == name), None)


def _check_new(layer: Layer, kind: Any, name: str, what: str) -> None:
    if _hook_of(layer, kind, name) is not None:
        raise RuntimeError(f"Cannot register two {what} hooks on the same parameter {name}")
    if name not in layer._parameters:
        raise KeyError(f"{what} expected the name of a parameter ({', '.join(layer._parameters)}) but got '{name}'")


# --- length and direction


class WeightNorm:
    """A hook that sets `name` to g * v / |v|, of the parameters `name_g` and `name_v`; norms are over all axes but `dim`, and over all for
    -1.
    """

    def __init__(self, name: str, dim: int):
        self.name, self.dim = name, dim

    def compute_weight(self, layer: Layer) -> Tensor:
        g, v = getattr(layer, f"{self.name}_g"), getattr(layer, f"{self.name}_v")
        if self.dim == -1:
            length = functions.sqrt(functions.sum(functions.square(v)))
            return functions.multiply(functions.divide(v, functions.scale(length, 1.0, 1e-12)), g)
        rows = F.normalize(as_matrix(v, self.dim), axis=1)
        scaled = functions.multiply(rows, functions.unsqueeze(g, 1))
        order = [self.dim, *(i for i in range(v.ndim) if i != self.dim)]
        back = functions.reshape(scaled, [v.shape[i] for i in order])
        return functions.transpose(back, [order.index(i) for i in range(v.ndim)]) if self.dim else back

    def __call__(self, layer: Layer, inputs: Any) -> None:
        setattr(layer, self.name, self.compute_weight(layer))


def weight_norm(layer: Layer, name: str = "weight", dim: int | None = 0) -> Layer:
    """Let the parameter `name` be computed from its length and its direction, two parameters that are trained in its place. Returns the
    layer.

    `name_v` has the weight's shape, `name_g` one length per place along `dim`, or one in all (a number) when that is None. w = g * v / |v|.
    Source: Salimans and Kingma, "Weight Normalization" (2016).
    """
    _check_new(layer, WeightNorm, name, "weight_norm")
    weight = layer._parameters[name]
    rank = weight.ndim
    dim = -1 if dim is None else dim
    assert -rank <= dim < rank, "dim must set between [-R, R), R means the dimension of weight."
    # As in Paddle, -1 stands for all axes, and other negative numbers count from the end.
    hook = WeightNorm(name, dim if dim == -1 else dim % rank)
    with tape.no_grad():
        flat = weight if hook.dim == -1 else as_matrix(weight, hook.dim)
        squares = functions.sum(functions.square(flat), None if hook.dim == -1 else 1)
        length = functions.sqrt(functions.scale(squares, 1.0, 1e-12))
        values = weight.detach()
    del layer._parameters[name]
    for suffix, value in (("_v", values), ("_g", length)):
        made = layer.create_parameter(value.shape, dtype=value.dtype)
        layer.add_parameter(name + suffix, made)
        with tape.no_grad():
            assign(value, made)
    setattr(layer, name, hook.compute_weight(layer))
    layer.register_forward_pre_hook(hook)
    return layer


def remove_weight_norm(layer: Layer, name: str = "weight") -> Layer:
    """Undo `weight_norm`: `name` is a parameter again, with the value that it was computed to have. Returns the layer."""
    key = _hook_of(layer, WeightNorm, name)
    if key is None:
        raise ValueError(f"weight_norm of '{name}' not found in {layer}")
    with tape.no_grad():
        value = layer._forward_pre_hooks.pop(key).function.compute_weight(layer)
        delattr(layer, name)
        del layer._parameters[f"{name}_g"], layer._parameters[f"{name}_v"]
        made = layer.create_parameter(value.shape, dtype=value.dtype)
        layer.add_parameter(name, made)
        assign(value, made)
    return layer


# --- the largest singular value


class SpectralNormHook:
    """A hook that sets `name` to the parameter `name_orig` divided by its largest singular value, for which training moves the buffers
    `name_u` and `name_v`.
    """

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, layer: Layer, do_power_iteration: bool) -> Tensor:
        weight, u, v = (getattr(layer, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with tape.no_grad():
                for _ in range(self.n_power_iterations):
                    assign(F.normalize(functions.matmul(matrix, u, transpose_x=True), axis=0, epsilon=self.eps), v)
                    assign(F.normalize(functions.matmul(matrix, v), axis=0, epsilon=self.eps), u)
                # Of their own, so that the next call may move the buffers before gradients flow through this one.
                u, v = u.clone(), v.clone()
        return functions.divide(weight, functions.dot(u, functions.mv(matrix, v)))

    def __call__(self, layer: Layer, inputs: Any) -> None:
        setattr(layer, self.name, self.compute_weight(layer, do_power_iteration=layer.training))


def spectral_norm(layer: Layer, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Layer:
    """Let the parameter `name` be divided by its largest singular value, as a matrix whose rows are its axis `dim`. Returns the layer.

    `dim` None means where the layer's outputs are: 1 for Linear and transposed convolutions, else 0. The singular value comes from
    `n_power_iterations` steps of power iteration per call in training. Source: Miyato et al., "Spectral Normalization" (2018).
    """
    if dim is None:
        dim = 1 if isinstance(layer, Linear) or type(layer).__name__ in ("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose") else 0
    hook = SpectralNormHook(name, n_power_iterations, dim, eps)
    _check_new(layer, SpectralNormHook, name, "spectral_norm")
    weight = layer._parameters[name]
    with tape.no_grad():
        vectors = []
        for size in as_matrix(weight, dim).shape:
            # Paddle makes a parameter first, which draws its initial values, and fills it with normal numbers then.
            vector = layer.create_parameter([size])
            assign(default_generator().normal((size,), 0.0, 1.0, vector.type.dtype), vector)
            vectors.append(vector)
        u, v = (F.normalize(vector, axis=0, epsilon=eps) for vector in vectors)
    del layer._parameters[name]
    layer.add_parameter(f"{name}_orig", weight)
    # A plain tensor under the old name: whoever looks at the weight before the first call finds one.
    setattr(layer, name, functions.scale(weight, 1.0))
    layer.register_buffer(f"{name}_u", u)
    layer.register_buffer(f"{name}_v", v)
    layer.register_forward_pre_hook(hook)
    return layer


# --- parameters as one vector


def parameters_to_vector(parameters: Iterable[Tensor], name: str | None = None) -> Tensor:
    """All numbers of the parameters, one after the other: a vector of its own, with `stop_gradient=False`."""
    with tape.no_grad():
        vector = functions.concat([functions.reshape(p, [-1]) for p in parameters], 0)
    vector.stop_gradient = False
    return vector


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor], name: str | None = None) -> None:
    """Give the parameters the numbers of the vector, in order; it may have more."""
    targets = list(parameters)
    if vec.ndim != 1:
        raise AssertionError(f"vector_to_parameters expected a vector but got shape {list(vec.shape)}")
    wanted = sum(p.size for p in targets)
    if vec.size < wanted:
        raise ValueError(f"vector_to_parameters expected at least {wanted} numbers, as the parameters have, but got {vec.size}")
    start = 0
    with tape.no_grad():
        for parameter in targets:
            part = functions.slice(vec, [0], [start], [start + parameter.size])
            assign(functions.reshape(part, parameter.shape), parameter)
            start += parameter.size


# --- gradients cut by hand, between `backward` and the optimizer's step


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale all gradients alike, so that their common norm is at most `max_norm`. Returns what the norm was.

    `norm_type` is 0, 1, 2 or inf. A norm that is inf or nan is an error with `error_if_nonfinite`.
    """
    kind, gradients = float(norm_type), _gradients(parameters)
    if kind not in (0.0, 1.0, 2.0, math.inf):
        raise ValueError(f"norm_type only support [inf, 0, 1, 2] but got {norm_type}")
    if not gradients:
        return functions.zeros([])
    with tape.no_grad():
        lengths = functions.stack([functions.norm(functions.reshape(g, [-1]), kind) for g in gradients])
        total = functions.norm(lengths, kind)
        if error_if_nonfinite and not math.isfinite(total.item()):
            raise RuntimeError(
                f"the norm of all gradients is {total.item()}, so they cannot be clipped; error_if_nonfinite=False scales them all the same"
            )
        factor = functions.clip(
            functions.divide(functions.full([], float(max_norm), total.dtype), functions.scale(total, 1.0, 1e-6)), max=1.0
        )
        for gradient in gradients:
            assign(functions.multiply(gradient, factor), gradient)
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Cut every element of all gradients to between -clip_value and clip_value."""
    with tape.no_grad():
        for gradient in _gradients(parameters):
            assign(functions.clip(gradient, -float(clip_value), float(clip_value)), gradient)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in ([parameters] if isinstance(parameters, Tensor) else parameters) if p.grad is not None]


__dir__ = listed(__name__)
