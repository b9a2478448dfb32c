"""Layers of `fluid.dygraph`: their parameters, and an operator of the table on them, followed by the activation `act`.

Shapes, defaults and names of parameters are those of Paddle 1.8. `use_cudnn` and `is_distributed` change no value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polyreme import math as functions
from polyreme.fluid.dygraph.layers import Layer
from polyreme.fluid.framework import default_main_program, in_dygraph_mode
from polyreme.fluid.initializer import Constant, Normal
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.param_attr import ParamAttr
from polyreme.names import listed
from polyreme.nn import functional
from polyreme.nn.functional.common import embedding_by_rows
from polyreme.static.nn.sampling import noise_contrastive

__all__ = [
    "BatchNorm", "BilinearTensorProduct", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Dropout", "Embedding", "GRUUnit",
    "GroupNorm", "InstanceNorm", "LayerNorm", "Linear", "NCE", "PRelu", "Pool2D", "SpectralNorm",
]  # fmt: skip


def _many(value: Any, count: int, what: str) -> list[int]:
    found = [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)] * count
    if len(found) != count:
        raise ValueError(f"expected one number or {count} as {what} but got {list(value)}")
    return found


def _wants(attr: Any, what: str, layer: str) -> Any:
    if attr is False:
        raise AssertionError(f"{what} should not be False in {layer}.")
    return attr


class OperatorLayer(Layer):
    """A Layer whose forward is one operator by its name in Paddle, which writes its result to the slot `Out` or the one given."""

    def __init__(self, act: str | None = None, dtype: Any = "float32", name_scope: str | None = None):
        super().__init__(name_scope, dtype=dtype)
        self._act = act

    def run(self, type: str, inputs: dict[str, Any], attrs: dict[str, Any], slot: str = "Out", *more: str) -> list[Any]:
        """The results of an operator in `slot` and in `more` slots."""
        helper = LayerHelper(type, name=self.full_name())
        outputs = {s: helper.create_variable_for_type_inference(self._dtype) for s in (slot, *more)}
        helper.append_op(type, inputs, outputs, attrs)
        return list(outputs.values())

    def finished(self, x: Any, bias: Any = None, axis: int = 1) -> Any:
        """`x` plus a bias along the axes from `axis` on, and through the activation."""
        if bias is not None:
            (x,) = self.run("elementwise_add", {"X": x, "Y": bias}, {"axis": axis})
        return x if self._act is None else self.run(self._act, {"X": x}, {})[0]


# --- convolutions and pools


class _Convolution(OperatorLayer):
    """Windows of an image or volume times filters [num_filters, num_channels / groups, *filter_size], plus a bias per filter."""

    rank = 2

    def __init__(
        self, num_channels: int, num_filters: int, filter_size: Any, stride: Any, padding: Any, dilation: Any, groups: int | None,
        param_attr: Any, bias_attr: Any, use_cudnn: bool, act: str | None, dtype: Any, transposed: bool = False,
    ):  # fmt: skip
        name = type(self).__name__
        super().__init__(act, dtype)
        _wants(param_attr, "param_attr", name)
        if not isinstance(use_cudnn, bool):
            raise ValueError("use_cudnn should be True or False")
        split = groups or 1
        if num_channels % split:
            raise ValueError("num_channels must be divisible by groups.")
        window = _many(filter_size, self.rank, "filter_size")
        self._attrs = {
            "strides": _many(stride, self.rank, "stride"), "paddings": _many(padding, self.rank, "padding"),
            "dilations": _many(dilation, self.rank, "dilation"), "groups": split, "use_cudnn": use_cudnn,
        }  # fmt: skip
        shape = [num_channels, num_filters // split, *window] if transposed else [num_filters, num_channels // split, *window]
        start = None if transposed else Normal(0.0, math.sqrt(2.0 / (math.prod(window) * num_channels)))
        self.weight = self.create_parameter(shape, param_attr, dtype, default_initializer=start)
        self.bias = self.create_parameter([num_filters], bias_attr, dtype, is_bias=True)

    def forward(self, input: Any) -> Any:
        """[N, num_channels, ...] -> [N, num_filters, ...]"""
        type = f"conv{self.rank}d" + ("_transpose" if isinstance(self, (Conv2DTranspose, Conv3DTranspose)) else "")
        (out,) = self.run(type, {"Input": input, "Filter": self.weight}, self._attrs, "Output")
        return self.finished(out, self.bias)


class Conv2D(_Convolution):
    """2-D convolution of [N, num_channels, H, W]; filters are normal with deviation sqrt(2 / (filter elements * channels))."""

    def __init__(
        self, num_channels: int, num_filters: int, filter_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int | None = None, param_attr: Any = None, bias_attr: Any = None, use_cudnn: bool = True, act: str | None = None,
        dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(
            num_channels, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, use_cudnn, act, dtype
        )


class Conv3D(_Convolution):
    """3-D convolution of [N, num_channels, D, H, W]."""

    rank = 3

    def __init__(
        self, num_channels: int, num_filters: int, filter_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int | None = None, param_attr: Any = None, bias_attr: Any = None, use_cudnn: bool = True, act: str | None = None,
        dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(
            num_channels, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, use_cudnn, act, dtype
        )


class Conv2DTranspose(_Convolution):
    """Transposed 2-D convolution, with filters [num_channels, num_filters / groups, *filter_size]; `output_size` chooses among the sizes
    that the stride allows.
    """

    def __init__(
        self, num_channels: int, num_filters: int, filter_size: Any, output_size: Any = None, padding: Any = 0, stride: Any = 1,
        dilation: Any = 1, groups: int | None = None, param_attr: Any = None, bias_attr: Any = None, use_cudnn: bool = True,
        act: str | None = None, dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(
            num_channels, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, use_cudnn, act, dtype, True
        )
        if output_size is not None and not isinstance(output_size, (list, int)):
            raise ValueError("output_size should be list or int")
        self._attrs["output_size"] = [] if output_size is None else _many(output_size, 2, "output_size")


class Conv3DTranspose(_Convolution):
    """Transposed 3-D convolution. As in Paddle 1.8 the bias is added only where a `bias_attr` is given."""

    rank = 3

    def __init__(
        self, num_channels: int, num_filters: int, filter_size: Any, padding: Any = 0, stride: Any = 1, dilation: Any = 1,
        groups: int | None = None, param_attr: Any = None, bias_attr: Any = None, use_cudnn: bool = True, act: str | None = None,
        dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(
            num_channels, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, use_cudnn, act, dtype, True
        )
        self._adds_bias = bool(bias_attr)

    def forward(self, input: Any) -> Any:
        (out,) = self.run("conv3d_transpose", {"Input": input, "Filter": self.weight}, self._attrs, "Output")
        return self.finished(out, self.bias if self._adds_bias else None)


class Pool2D(OperatorLayer):
    """The largest element (`max`) or the mean (`avg`) of each window of [N, C, H, W]."""

    def __init__(
        self, pool_size: Any = -1, pool_type: str = "max", pool_stride: Any = 1, pool_padding: Any = 0, global_pooling: bool = False,
        use_cudnn: bool = True, ceil_mode: bool = False, exclusive: bool = True,
    ):  # fmt: skip
        if pool_type not in ("max", "avg"):
            raise ValueError(f"Unknown pool_type: '{pool_type}'. It can only be 'max' or 'avg'.")
        if not global_pooling and pool_size == -1:
            raise ValueError(
                f"When the global_pooling is False, pool_size must be passed and be a valid value. Received pool_size: {pool_size}"
            )
        if not isinstance(use_cudnn, bool):
            raise ValueError("use_cudnn should be True or False")
        super().__init__()
        self._attrs = {
            "pooling_type": pool_type, "ksize": _many(pool_size, 2, "pool_size"), "global_pooling": global_pooling,
            "strides": _many(pool_stride, 2, "pool_stride"), "paddings": _many(pool_padding, 2, "pool_padding"), "use_cudnn": use_cudnn,
            "ceil_mode": ceil_mode, "exclusive": exclusive,
        }  # fmt: skip

    def forward(self, input: Any) -> Any:
        return self.run("pool2d", {"X": input}, self._attrs)[0]


# --- products and tables


class Linear(OperatorLayer):
    """act(x @ weight [input_dim, output_dim] + bias [output_dim])."""

    def __init__(
        self, input_dim: int, output_dim: int, param_attr: Any = None, bias_attr: Any = None, act: str | None = None,
        dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(act, dtype)
        self.weight = self.create_parameter([input_dim, output_dim], param_attr, dtype)
        self.bias = self.create_parameter([output_dim], bias_attr, dtype, is_bias=True)

    def forward(self, input: Any) -> Any:
        """[..., input_dim] -> [..., output_dim]"""
        (out,) = self.run("matmul", {"X": input, "Y": self.weight}, {"transpose_X": False, "transpose_Y": False, "alpha": 1.0})
        return self.finished(out, self.bias, len(input.shape) - 1)


class BilinearTensorProduct(OperatorLayer):
    """x @ weight[i] @ y^T + bias for each i of `output_dim`: [N, input1_dim], [N, input2_dim] -> [N, output_dim]."""

    def __init__(
        self, input1_dim: int, input2_dim: int, output_dim: int, name: str | None = None, act: str | None = None, param_attr: Any = None,
        bias_attr: Any = None, dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(act, dtype)
        self.weight = self.create_parameter([output_dim, input1_dim, input2_dim], param_attr, dtype)
        self.bias = self.create_parameter([1, output_dim], bias_attr, dtype, is_bias=True)

    def forward(self, x: Any, y: Any) -> Any:
        return self.finished(functional.bilinear(x, y, self.weight, self.bias))


class Embedding(OperatorLayer):
    """Rows of a table `weight` of shape `size`, [rows, width]: ids of any shape -> [..., width]. The row `padding_idx` reads as zeros.

    With `is_sparse` the gradient of the table is the rows that were read, and optimizers step as Paddle's do on such.
    """

    def __init__(
        self, size: Sequence[int], is_sparse: bool = False, is_distributed: bool = False, padding_idx: int | None = None,
        param_attr: Any = None, dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(dtype=dtype)
        self._padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
        self._is_sparse = is_sparse
        self.weight = self.create_parameter(list(size), param_attr, dtype)

    def forward(self, input: Any) -> Any:
        if self._is_sparse and in_dygraph_mode():
            return embedding_by_rows(input, self.weight, None if self._padding < 0 else self._padding)
        attrs = {"padding_idx": self._padding, "is_sparse": self._is_sparse}
        return self.run("lookup_table_v2", {"Ids": input, "W": self.weight}, attrs)[0]


# --- norms


class BatchNorm(OperatorLayer):
    """Each channel with mean 0 and variance 1 over the batch, times `weight`, plus `bias`; in `eval()` by the moving mean and variance.

    As in Paddle 1.8 these two are parameters that are not trained, and `is_test` matters in programs only.
    """

    def __init__(
        self, num_channels: int, act: str | None = None, is_test: bool = False, momentum: float = 0.9, epsilon: float = 1e-05,
        param_attr: Any = None, bias_attr: Any = None, dtype: Any = "float32", data_layout: str = "NCHW", in_place: bool = False,
        moving_mean_name: str | None = None, moving_variance_name: str | None = None, do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False, trainable_statistics: bool = False,
    ):  # fmt: skip
        _wants(bias_attr, "bias_attr", "batch_norm")
        dtype = "float32" if dtype == "float16" else dtype
        super().__init__(act, dtype)
        shape = [num_channels]
        self.weight = self.create_parameter(shape, param_attr, dtype, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(shape, bias_attr, dtype, is_bias=True)
        for part, name, start in (("_mean", moving_mean_name, 0.0), ("_variance", moving_variance_name, 1.0)):
            attr = ParamAttr(
                name=name, initializer=Constant(start), trainable=False, do_model_average=do_model_average_for_mean_and_var
            )  # fmt: skip
            setattr(self, part, self.create_parameter(shape, attr, dtype))
        self._is_test = is_test
        self._attrs = {
            "momentum": momentum, "epsilon": epsilon, "data_layout": data_layout, "use_global_stats": use_global_stats,
            "trainable_statistics": trainable_statistics,
        }  # fmt: skip

    def forward(self, input: Any) -> Any:
        helper = LayerHelper("batch_norm", name=self.full_name())
        out, mean, variance = (helper.create_variable_for_type_inference(self._dtype, stop_gradient=i > 0) for i in range(3))
        inputs = {"X": input, "Scale": self.weight, "Bias": self.bias, "Mean": self._mean, "Variance": self._variance}
        outputs = {"Y": out, "SavedMean": mean, "SavedVariance": variance}
        is_test = not self.training or (self._is_test and not in_dygraph_mode())
        given = is_test and not self._attrs["trainable_statistics"] or self._attrs["use_global_stats"]
        if not in_dygraph_mode() or not given:
            outputs |= {"MeanOut": self._mean, "VarianceOut": self._variance}
        helper.append_op("batch_norm", inputs, outputs, {**self._attrs, "is_test": is_test})
        return self.finished(out)


class InstanceNorm(OperatorLayer):
    """Each channel of each image with mean 0 and variance 1, times `scale`, plus `bias`."""

    def __init__(
        self, num_channels: int, epsilon: float = 1e-05, param_attr: Any = None, bias_attr: Any = None, dtype: Any = "float32"
    ):
        _wants(bias_attr, "bias_attr", "InstanceNorm")
        super().__init__(dtype=dtype)
        self._epsilon = epsilon
        self.scale = self.create_parameter([num_channels], param_attr, dtype, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_channels], bias_attr, dtype, is_bias=True)

    def forward(self, input: Any) -> Any:
        return self.run("instance_norm", {"X": input, "Scale": self.scale, "Bias": self.bias}, {"epsilon": self._epsilon}, "Y")[0]


class GroupNorm(OperatorLayer):
    """Each group of channels with mean 0 and variance 1. As in Paddle 1.8 there are `weight` and `bias` only where attributes are given."""

    def __init__(
        self, channels: int, groups: int, epsilon: float = 1e-05, param_attr: Any = None, bias_attr: Any = None, act: str | None = None,
        data_layout: str = "NCHW", dtype: Any = "float32",
    ):  # fmt: skip
        if data_layout != "NCHW":
            raise ValueError(f"unsupported data layout:{data_layout}")
        super().__init__(act, dtype)
        self._attrs = {"epsilon": epsilon, "groups": groups}
        self.weight = self.create_parameter([channels], param_attr or False, dtype, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([channels], bias_attr or False, dtype, is_bias=True)

    def forward(self, input: Any) -> Any:
        (out,) = self.run("group_norm", {"X": input, "Scale": self.weight, "Bias": self.bias}, self._attrs, "Y")
        return self.finished(out)


class LayerNorm(OperatorLayer):
    """The last axes, of the sizes `normalized_shape`, with mean 0 and variance 1, times `weight`, plus `bias`, both of one axis."""

    def __init__(
        self, normalized_shape: Any, scale: bool = True, shift: bool = True, epsilon: float = 1e-05, param_attr: Any = None,
        bias_attr: Any = None, act: str | None = None, dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(act, dtype)
        self._sizes = list(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else [int(normalized_shape)]
        self._epsilon = epsilon
        shape = [math.prod(self._sizes)]
        if shift:
            _wants(bias_attr, "bias_attr", "LayerNorm")
        self.weight = self.create_parameter(shape, param_attr, dtype, default_initializer=Constant(1.0)) if scale else None
        self.bias = self.create_parameter(shape, bias_attr, dtype, is_bias=True) if shift else None

    def forward(self, input: Any) -> Any:
        sizes, first = list(input.shape), len(input.shape) - len(self._sizes)
        if first < 0 or sizes[first:] != self._sizes:
            shape = str(self._sizes)
            raise ValueError(f"Given normalized_shape is {shape}, expected input with shape [*, {shape[1:]}, but got input shape {sizes}")
        attrs = {"epsilon": self._epsilon, "begin_norm_axis": first}
        (out,) = self.run("layer_norm", {"X": input, "Scale": self.weight, "Bias": self.bias}, attrs, "Y")
        return self.finished(out)


class SpectralNorm(OperatorLayer):
    """A weight over its largest singular value, seen as a matrix whose rows are the axis `dim`; that value is found by `power_iters` steps
    of the power method from normal vectors `weight_u` and `weight_v`, which stay as they are.
    """

    def __init__(
        self, weight_shape: Sequence[int], dim: int = 0, power_iters: int = 1, eps: float = 1e-12, dtype: Any = "float32"
    ):
        super().__init__(dtype=dtype)
        self._dim, self._power_iters, self._eps = dim, power_iters, eps
        rows = list(weight_shape)[dim]
        for name, size in (("weight_u", rows), ("weight_v", math.prod(weight_shape) // rows)):
            setattr(self, name, self.create_parameter([size], ParamAttr(trainable=False), dtype, default_initializer=Normal(0.0, 1.0)))

    def forward(self, weight: Any) -> Any:
        axes = [self._dim, *(a for a in range(len(weight.shape)) if a != self._dim)]
        rows = functions.transpose(weight, axes).reshape([weight.shape[self._dim], -1])
        held = rows.detach()
        u, v = self.weight_u.detach(), self.weight_v.detach()
        for _ in range(self._power_iters):
            v = self._unit(functions.matmul(held, u, True, False))
            u = self._unit(functions.matmul(held, v))
        return weight / functions.sum(u * functions.matmul(rows, v))

    def _unit(self, x: Any) -> Any:
        return x / (functions.sqrt(functions.sum(x * x)) + self._eps)


# --- the rest


class Dropout(OperatorLayer):
    """Elements are dropped with probability `p` in training. `downgrade_in_infer` scales by 1 - p in `eval()`, `upscale_in_train` by
    1 / (1 - p) in training.
    """

    def __init__(
        self, p: float = 0.5, seed: int | None = None, dropout_implementation: str = "downgrade_in_infer", is_test: bool = False
    ):
        super().__init__()
        assert isinstance(p, (float, int)), "p argument should be a number"
        assert 0 <= p <= 1, "p argument should between 0 and 1"
        assert seed is None or isinstance(seed, int), "seed argument should be None or a integer"
        assert dropout_implementation in (
            "downgrade_in_infer", "upscale_in_train"
        ), "dropout_implementation argument should be 'downgrade_in_infer' or 'upscale_in_train'"  # fmt: skip
        self._p, self._seed, self._implementation, self._is_test = p, seed, dropout_implementation, is_test

    def forward(self, input: Any) -> Any:
        seed = self._seed or default_main_program().random_seed or self._seed
        attrs = {
            "dropout_prob": self._p, "is_test": not self.training or (self._is_test and not in_dygraph_mode()),
            "fix_seed": seed is not None, "seed": seed or 0, "dropout_implementation": self._implementation,
        }  # fmt: skip
        return self.run("dropout", {"X": input}, attrs)[0]


class PRelu(OperatorLayer):
    """x where it is positive, `weight` * x elsewhere, with one weight (`all`), one per channel of [N, C, H, W], or one per element."""

    def __init__(
        self, mode: str, channel: int | None = None, input_shape: Any = None, param_attr: Any = None, dtype: Any = "float32"
    ):
        super().__init__(dtype=dtype, name_scope="prelu")
        if mode == "all":
            shape = [1]
        elif mode == "channel":
            assert isinstance(channel, int), "channel argument is required when mode is 'channel'."
            shape = [1, channel, 1, 1]
        elif mode == "element":
            assert isinstance(input_shape, (list, tuple)), "input_shape argument is required when mode is 'element'."
            shape = [1, *list(input_shape)[1:]]
        else:
            raise ValueError("mode should be one of all, channel, element.")
        self._mode = mode
        self.weight = self.create_parameter(shape, param_attr, "float32", default_initializer=Constant(1.0))

    def forward(self, input: Any) -> Any:
        return self.run("prelu", {"X": input, "Alpha": self.weight}, {"mode": self._mode})[0]


class NCE(OperatorLayer):
    """The loss of each row of `input` [N, dim] that tells its classes `label` [N, T] from `num_neg_samples` that are drawn for it, over
    their number and one: [N, 1]. As in Paddle 1.8 there is a `bias` only where a `bias_attr` is given.
    """

    def __init__(
        self, num_total_classes: int, dim: int, sample_weight: Any = None, param_attr: Any = None, bias_attr: Any = None,
        num_neg_samples: int | None = None, sampler: str = "uniform", custom_dist: Sequence[float] | None = None, seed: int = 0,
        is_sparse: bool = False, dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(dtype=dtype)
        self._drawing = (num_total_classes, 10 if num_neg_samples is None else int(num_neg_samples), sampler, custom_dist, seed, is_sparse)
        self.weight = self.create_parameter([num_total_classes, dim], param_attr, dtype)
        self.bias = self.create_parameter([num_total_classes, 1], bias_attr, dtype, is_bias=True) if bias_attr else None

    def forward(self, input: Any, label: Any, sample_weight: Any = None) -> Any:
        return noise_contrastive(input, label, self.weight, self.bias, sample_weight, *self._drawing)


class GRUUnit(OperatorLayer):
    """One step of a gated recurrent unit on `input` [N, 3 h], a product made before, and `hidden` [N, h], where `size` is 3 h: the new
    hidden state, the reset one, and the gates [N, 3 h].
    """

    def __init__(
        self, size: int, param_attr: Any = None, bias_attr: Any = None, activation: str = "tanh", gate_activation: str = "sigmoid",
        origin_mode: bool = False, dtype: Any = "float32",
    ):  # fmt: skip
        super().__init__(dtype=dtype)
        numbers = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}
        # As in Paddle 1.8, whatever `origin_mode` says.
        self._attrs = {"activation": numbers[activation], "gate_activation": numbers[gate_activation]}
        hidden = size // 3
        self.weight = self.create_parameter([hidden, 3 * hidden], param_attr, dtype)
        self.bias = self.create_parameter([1, 3 * hidden], bias_attr, dtype, is_bias=True)

    def forward(self, input: Any, hidden: Any) -> tuple[Any, Any, Any]:
        inputs = {"Input": input, "HiddenPrev": hidden, "Weight": self.weight, "Bias": self.bias}
        gate, reset, updated = self.run("gru_unit", inputs, self._attrs, "Gate", "ResetHiddenPrev", "Hidden")
        return updated, reset, gate


__dir__ = listed(__name__)
