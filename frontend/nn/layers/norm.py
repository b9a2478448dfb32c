"""Normalisation layers. Running statistics are parameters that need no gradient, `_mean` and `_variance`, as in Paddle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polyreme import dispatch, tape
from polyreme import math as functions
from polyreme.dtypes import as_dtype, default_dtype
from polyreme.nn import functional as F
from polyreme.nn import initializer as init
from polyreme.nn.attributes import ParamAttr
from polyreme.nn.functional.norm import accepting, channel_axis, move
from polyreme.nn.layer import KEPT_FROM_BFLOAT16, Layer
from polyreme.nn.layers.defaults import defaults
from polyreme.tensor import Tensor

__all__ = [
    "BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "GroupNorm", "InstanceNorm1D", "InstanceNorm2D", "InstanceNorm3D",
    "LayerNorm", "LocalResponseNorm",
    "SpectralNorm", "SyncBatchNorm",
]  # fmt: skip


# --- batches


class _Running(Layer):
    """Batch norms: weight [C] of ones and bias [C] of zeros, each of which may be absent, running mean [C] of zeros and variance [C] of
    ones.
    """


    def _create(
        self, channels: int, weight_attr: Any, bias_attr: Any, mean_name: str | None, variance_name: str | None, average: bool = True
    ) -> None:
        shape = [channels]
        self.weight = self.create_parameter(shape, weight_attr, self._dtype, default_initializer=init.Constant(1.0))
        self.bias = self.create_parameter(shape, bias_attr, self._dtype, is_bias=True)
        self._mean = self._statistic(mean_name, 0.0, shape, average)
        self._variance = self._statistic(variance_name, 1.0, shape, average)

    def _statistic(self, name: str | None, value: float, shape: list[int], average: bool) -> Any:
        attr = ParamAttr(name=name, initializer=init.Constant(value), trainable=False, do_model_average=average)
        return self.create_parameter(shape, attr, self._dtype)


class BatchNorm(_Running):
    """Batch normalisation of the older API, of inputs with 2 to 5 axes, with an activation by name after it.

    `use_global_stats` takes the running statistics in training, too; `trainable_statistics` takes the batch's in evaluation.
    """

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ):
        super().__init__()
        self._dtype = "float32" if as_dtype(dtype).name == "float16" else dtype
        self._param_attr, self._bias_attr, self._act = param_attr, bias_attr, act
        self._create(num_channels, param_attr, bias_attr, moving_mean_name, moving_variance_name, do_model_average_for_mean_and_var)
        self._in_place, self._data_layout, self._momentum, self._epsilon = in_place, data_layout, momentum, epsilon
        self._is_test, self._use_global_stats, self._trainable_statistics = is_test, use_global_stats, trainable_statistics
        self.training = not is_test

    def forward(self, input: Tensor) -> Tensor:
        of_batch = not self._use_global_stats and (self.training or self._trainable_statistics)
        # Which statistics: asked for by name where the mode does not say it.
        asked = None if of_batch == self.training else not of_batch
        y = F.batch_norm(
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            self.training,
            self._momentum,
            self._epsilon,
            self._data_layout,
            asked,
        )
        return y if self._act is None else getattr(F, self._act)(y)


KEPT_FROM_BFLOAT16.append(BatchNorm)


class _BatchNormBase(_Running):
    """Batch normalisation of inputs whose number of axes is in `ranks`, in the formats `formats`."""

    ranks: Sequence[int] = (2, 3, 4, 5)
    formats: Sequence[str] = ("NC", *F.norm.SPATIAL_FORMATS)
    format_error = "expected NCHW or NHWC for data_format input"

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ):
        super().__init__()
        self._num_features, self._weight_attr, self._bias_attr, self._use_global_stats = (
            num_features,
            weight_attr,
            bias_attr,
            use_global_stats,
        )
        self._dtype = "float32" if default_dtype().name == "float16" else default_dtype().name
        names = (None, None) if name is None else (f"{name}_mean", f"{name}_variance")
        self._create(num_features, weight_attr, bias_attr, *names)
        self._data_format, self._momentum, self._epsilon, self._name = data_format, momentum, epsilon, name

    def _check_data_format(self) -> None:
        """Formats go by that of images from the first call on, as in Paddle: they differ in where channels stand only."""
        if self._data_format not in self.formats:
            raise ValueError(self.format_error)
        self._data_format = "NCHW" if self._data_format[1] == "C" else "NHWC"

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            raise ValueError(f"expected {' or '.join(f'{r}D' for r in self.ranks)} input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_data_format()
        self._check_input_dim(input)
        return F.batch_norm(
            input, self._mean, self._variance, self.weight, self.bias, self.training, self._momentum, self._epsilon, self._data_format,
            self._use_global_stats,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"num_features={self._num_features}, momentum={self._momentum}, epsilon={self._epsilon}"
        if self._data_format != "NCHW":
            text += f", data_format={self._data_format}"
        return text if self._name is None else f"{text}, name={self._name}"


@defaults(data_format="NCL")
class BatchNorm1D(_BatchNormBase):
    """Batch normalisation of [N, C], [N, C, L] or [N, L, C]."""

    ranks = (2, 3)
    formats = ("NC", "NCL", "NLC", "NCHW", "NHWC")
    format_error = "expected NC , NCL, NLC or None for data_format input"


class BatchNorm2D(_BatchNormBase):
    """Batch normalisation of [N, C, H, W] or [N, H, W, C]."""

    ranks = (4,)
    formats = ("NCHW", "NHWC")


@defaults(data_format="NCDHW")
class BatchNorm3D(_BatchNormBase):
    """Batch normalisation of [N, C, D, H, W] or [N, D, H, W, C]."""

    ranks = (5,)
    formats = ("NCDHW", "NDHWC", "NCHW", "NHWC")
    format_error = "expected NCDHW, NDHWC or None for data_format input"


class SyncBatchNorm(_BatchNormBase):
    """Batch normalisation by the statistics of all ranks' batches together: as one process would do it on the joined batch.

    Weight and bias are there even where their attributes are False; then they are not trained.
    """

    format_error = "expected 'NCDHW', 'NDHWC', 'NCL', 'NLC', 'NC', 'NCHW', 'NHWC' for data_format"

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, None, name)
        if weight_attr is False:
            self.weight = self.create_parameter([num_features], None, self._dtype, default_initializer=init.Constant(1.0))
            self.weight.stop_gradient = True
        if bias_attr is False:
            self.bias = self.create_parameter([num_features], None, self._dtype, is_bias=True)
            self.bias.stop_gradient = True

    def forward(self, x: Tensor) -> Tensor:
        from polyreme.distributed.statistics import by_joined_batch

        self._check_data_format()
        self._check_input_dim(x)
        if not self.training:
            return super().forward(x)
        recorder = dispatch.active_trace()
        if recorder is not None:
            inputs = {"X": x, "Mean": self._mean, "Variance": self._variance, "Scale": self.weight, "Bias": self.bias}
            attributes = {"momentum": self._momentum, "epsilon": self._epsilon, "is_test": False, "data_layout": self._data_format}
            made = recorder.operator(
                "sync_batch_norm", inputs, {"Y": x.type, "MeanOut": self._mean, "VarianceOut": self._variance}, attributes
            )
            if made is not None:
                return made["Y"]
        y, mean, variance = by_joined_batch(x, self.weight, self.bias, channel_axis(self._data_format, x.ndim), float(self._epsilon))
        move(self._mean, mean, self._momentum)
        move(self._variance, variance, self._momentum)
        return y

    @classmethod
    def convert_sync_batchnorm(cls, layer: Layer) -> Layer:
        """`layer` with every BatchNorm1D, 2D and 3D in it replaced by a SyncBatchNorm that has its parameters and statistics."""
        made = layer
        if isinstance(layer, _BatchNormBase):
            for attr in (layer._weight_attr, layer._bias_attr):
                if isinstance(attr, ParamAttr) and attr.name is not None:
                    attr.name += "_sync"
            made = SyncBatchNorm(
                layer._num_features, layer._momentum, layer._epsilon, layer._weight_attr, layer._bias_attr, layer._data_format, layer._name
            )
            taken = ["_mean", "_variance"]
            if layer._weight_attr is not False and layer._bias_attr is not False:
                taken += ["weight", "bias"]
            # In their places: as attributes they would come last.
            made._parameters.update((key, layer._parameters[key]) for key in taken)
            made.training = layer.training
        for name, sublayer in layer.named_children():
            made.add_sublayer(name, cls.convert_sync_batchnorm(sublayer))
        return made


# --- instances, groups, layers


class _InstanceNormBase(Layer):
    """Instance normalisation: `scale` [C] of ones and `bias` [C] of zeros, both or neither."""

    ranks: Sequence[int] = (4,)

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-5,
        momentum: float = 0.9,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        if weight_attr is False or bias_attr is False:
            assert weight_attr == bias_attr, "weight_attr and bias_attr must be set to False at the same time in InstanceNorm"
        self._momentum, self._epsilon, self._num_features, self._data_format = momentum, epsilon, num_features, data_format
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self.scale = self.create_parameter([num_features], weight_attr, default_initializer=init.Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True, default_initializer=init.Constant(0.0))

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            raise ValueError(f"expected {' or '.join(f'{r}D' for r in self.ranks)} input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return F.instance_norm(
            input, weight=self.scale, bias=self.bias, momentum=self._momentum, eps=self._epsilon, data_format=self._data_format
        )

    def extra_repr(self) -> str:
        return f"num_features={self._num_features}, epsilon={self._epsilon}"


@defaults(data_format="NCL")
class InstanceNorm1D(_InstanceNormBase):
    """Instance normalisation of [N, C, L] or [N, C]."""

    ranks = (2, 3)


class InstanceNorm2D(_InstanceNormBase):
    """Instance normalisation of [N, C, H, W]."""


@defaults(data_format="NCDHW")
class InstanceNorm3D(_InstanceNormBase):
    """Instance normalisation of [N, C, D, H, W]."""

    ranks = (5,)


class GroupNorm(Layer):
    """Group normalisation of [N, C, *sizes] or [N, *sizes, C]: weight [C] of ones, bias [C] of zeros."""

    @accepting(eps="epsilon")
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-5,
        *,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self._epsilon, self._num_channels, self._num_groups, self._device = epsilon, num_channels, num_groups, device
        self._dtype = default_dtype().name if dtype is None else dtype
        if data_format not in F.norm.SPATIAL_FORMATS:
            raise ValueError("unsupported data layout:" + data_format)
        self._data_format = "NCHW" if data_format[1] == "C" else "NHWC"
        self._weight_attr: Any = weight_attr if affine else False
        self._bias_attr: Any = bias_attr if affine else False
        self.weight = self.create_parameter(
            [num_channels], self._weight_attr, self._dtype, default_initializer=init.Constant(1.0), device=device
        )
        self.bias = self.create_parameter([num_channels], self._bias_attr, self._dtype, True, init.Constant(0.0), device=device)
        for parameter, attr in ((self.weight, self._weight_attr), (self.bias, self._bias_attr)):
            if parameter is not None:
                parameter.stop_gradient = getattr(attr, "learning_rate", None) == 0.0

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self._num_groups, self._epsilon, self.weight, self.bias, self._data_format)

    def extra_repr(self) -> str:
        return f"num_groups={self._num_groups}, num_channels={self._num_channels}, epsilon={self._epsilon}"


class LayerNorm(Layer):
    """Layer normalisation of the last axes: weight of ones and bias of zeros, each a vector with as many elements as these axes have."""

    @accepting(eps="epsilon")
    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        epsilon: float = 1e-5,
        *,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ):
        super().__init__()
        self._normalized_shape = list(normalized_shape) if isinstance(normalized_shape, Sequence) else [normalized_shape]
        self._epsilon, self._device = epsilon, device
        self._dtype = default_dtype().name if dtype is None else dtype
        self._weight_attr = weight_attr if elementwise_affine else False
        self._bias_attr = bias_attr if elementwise_affine and bias else False
        shape = [math.prod(self._normalized_shape)]
        self.weight = self.create_parameter(shape, self._weight_attr, self._dtype, default_initializer=init.Constant(1.0), device=device)
        self.bias = self.create_parameter(shape, self._bias_attr, self._dtype, True, init.Constant(0.0), device=device)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"


# --- channels, weights


class LocalResponseNorm(Layer):
    """Normalisation by neighbouring channels; see `nn.functional.local_response_norm`."""

    def __init__(
        self,
        size: int,
        alpha: float = 0.0001,
        beta: float = 0.75,
        k: float = 1.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self.size, self.alpha, self.beta, self.k, self.data_format, self.name = size, alpha, beta, k, data_format, name

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k, self.data_format, self.name)

    def extra_repr(self) -> str:
        text = f"size={self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
        if self.data_format != "NCHW":
            text += f", data_format={self.data_format}"
        return text if self.name is None else f"{text}, name={self.name}"


class SpectralNorm(Layer):
    """A weight divided by its largest singular value, which a few power iterations from `weight_u` and `weight_v` find.

    The weight counts as a matrix whose rows are its axis `dim`. As in Paddle each call starts from the same vectors, [rows] and [columns],
    normal numbers at first, and no gradient flows through the iterations.
    """

    def __init__(self, weight_shape: Sequence[int], dim: int = 0, power_iters: int = 1, eps: float = 1e-12, dtype: Any = "float32"):
        super().__init__()
        self._power_iters, self._eps, self._dim, self._dtype = power_iters, eps, dim, dtype
        self._weight_shape = list(weight_shape)
        assert math.prod(self._weight_shape) > 0, "Any dimension of `weight_shape` cannot be equal to 0."
        assert dim < len(self._weight_shape), (
            f"The input `dim` should be less than the length of `weight_shape`, but received dim={dim}"
        )
        rows = self._weight_shape[dim]
        for name, size in (("weight_u", rows), ("weight_v", math.prod(self._weight_shape) // rows)):
            vector = self.create_parameter([size], ParamAttr(), dtype, default_initializer=init.Normal(0.0, 1.0))
            vector.stop_gradient = True
            setattr(self, name, vector)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 2:
            raise ValueError(f"SpectralNorm expected a weight of at least 2 axes but got shape {list(x.shape)}")
        if self._dim not in (0, 1):
            raise ValueError(f"SpectralNorm expected dim to be 0 or 1 but got {self._dim}")
        if list(x.shape) != self._weight_shape:
            raise ValueError(f"SpectralNorm expected a weight of shape {self._weight_shape} but got {list(x.shape)}")
        matrix = as_matrix(x, self._dim)
        with tape.no_grad():
            u, v = iterate(matrix, self.weight_u, self.weight_v, self._power_iters, self._eps)
        return functions.divide(x, functions.dot(u, functions.mv(matrix, v)))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """With the axis `dim` as rows and all others as columns."""
    if dim:
        weight = functions.transpose(weight, [dim, *(i for i in range(weight.ndim) if i != dim)])
    return functions.reshape(weight, [weight.shape[0], -1])


def iterate(matrix: Tensor, u: Tensor, v: Tensor, times: int, epsilon: float) -> tuple[Tensor, Tensor]:
    """Power iterations for the singular vectors of the largest singular value."""
    for _ in range(times):
        v = _unit(functions.matmul(matrix, u, transpose_x=True), epsilon)
        u = _unit(functions.matmul(matrix, v), epsilon)
    return u, v


def _unit(vector: Tensor, epsilon: float) -> Tensor:
    length = functions.sqrt(functions.sum(functions.square(vector)))
    return functions.divide(vector, functions.scale(length, 1.0, epsilon))
