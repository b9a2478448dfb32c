"""Linear, Embedding, Dropout, Flatten, padding and other everyday layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.dtypes import default_dtype
from polyreme.math.manipulation import flatten, reshape
from polyreme.nn import functional as F
from polyreme.nn.layer import Layer
from polyreme.nn.layers.defaults import defaults
from polyreme.static.mode import in_dynamic_mode
from polyreme.tensor import Tensor

__all__ = [
    "AlphaDropout", "Bilinear", "CosineSimilarity", "Dropout", "Dropout2D", "Dropout3D", "Embedding", "Flatten", "Fold", "Identity",
    "Linear", "Pad1D", "Pad2D", "Pad3D", "PairwiseDistance",
    "Unflatten", "Unfold", "ZeroPad1D", "ZeroPad2D", "ZeroPad3D",
]  # fmt: skip


def _named(text: str, name: str | None) -> str:
    return f"{text}, name={name}" if name else text


class Identity(Layer):
    """Returns what it is given."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Layer):
    """x @ weight + bias: weight [in_features, out_features], Xavier; bias [out_features], zeros; `bias_attr=False` for none."""

    def __init__(self, in_features: int, out_features: int, weight_attr: Any = None, bias_attr: Any = None, name: str | None = None):
        super().__init__()
        self._dtype = default_dtype().name
        self.in_features, self.out_features, self.name = in_features, out_features, name
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return _named(f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._dtype}", self.name)


class Bilinear(Layer):
    """x1 weight[o] x2ᵀ + bias: weight [out_features, in1_features, in2_features], Xavier; bias [1, out_features], zeros; `bias_attr=False`
    for none.
    """


    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ):
        super().__init__()
        self._dtype = default_dtype().name
        self._in1_features, self._in2_features, self._out_features, self._name = in1_features, in2_features, out_features, name
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self.weight = self.create_parameter([out_features, in1_features, in2_features], weight_attr)
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.bilinear(x1, x2, self.weight, self.bias, self._name)

    def extra_repr(self) -> str:
        sizes = f"in1_features={self._in1_features}, in2_features={self._in2_features}, out_features={self._out_features}"
        return _named(f"{sizes}, dtype={self._dtype}", self._name)


class Embedding(Layer):
    """Rows of a table by number: weight [num_embeddings, embedding_dim], Xavier; the row `padding_idx` is zeros and stays so."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        *,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
        weight_attr: Any = None,
        name: str | None = None,
    ):
        super().__init__()
        self._dtype = default_dtype().name if dtype is None else dtype
        if num_embeddings <= 0:
            raise ValueError("num_embeddings must be gather than 0")
        if embedding_dim <= 0:
            raise ValueError("embedding_dim must be gather than 0")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"padding_idx must be within [-{num_embeddings}, {num_embeddings})")
        self._num_embeddings, self._embedding_dim, self._sparse, self._name = num_embeddings, embedding_dim, sparse, name
        self._max_norm, self._norm_type, self._scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self._padding_idx = padding_idx
        if _weight is not None:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError(f"expected a weight of shape {[num_embeddings, embedding_dim]} but got {list(_weight.shape)}")
            self.weight = _weight
            self.weight.stop_gradient = _freeze
        else:
            self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr, self._dtype, device=device)
            if weight_attr is None:
                self.weight.stop_gradient = _freeze
        if padding_idx is not None and in_dynamic_mode():  # in a program the row reads as zeros, whatever it holds
            values = self.weight.numpy()
            values[padding_idx] = 0
            self.weight.set_value(values)

    def forward(self, x: Tensor) -> Tensor:
        padding = self._padding_idx
        if padding is not None and padding < 0:
            padding += self._num_embeddings
        return F.embedding(x, self.weight, padding, self._max_norm, self._norm_type, self._sparse, self._scale_grad_by_freq)

    def extra_repr(self) -> str:
        padding = f", padding_idx={self._padding_idx}" if self._padding_idx is not None else ""
        text = (
            f"{self._num_embeddings}, {self._embedding_dim}{padding}, sparse={self._sparse}, scale_grad_by_freq={self._scale_grad_by_freq}"
        )
        return _named(text, self._name)


class Dropout(Layer):
    """In training, elements become 0 with probability p; see `nn.functional.dropout`."""

    def __init__(self, p: Any = 0.5, inplace: bool = False, axis: Any = None, mode: str = "upscale_in_train", name: str | None = None):
        super().__init__()
        self.p, self.axis, self.mode, self.inplace, self.name = p, axis, mode, inplace, name

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.axis, self.training, self.inplace, self.mode)

    def extra_repr(self) -> str:
        return _named(f"p={self.p}, axis={self.axis}, mode={self.mode}", self.name)


class _ChannelDropout(Layer):
    function = "dropout2d"

    def __init__(self, p: float = 0.5, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self.p, self.data_format, self.name = p, data_format, name

    def forward(self, input: Tensor) -> Tensor:
        dropped: Tensor = getattr(F, self.function)(input, self.p, self.training, self.data_format)
        return dropped

    def extra_repr(self) -> str:
        return _named(f"p={self.p}, data_format={self.data_format}", self.name)


class Dropout2D(_ChannelDropout):
    """In training, whole channels of images become 0 with probability p."""


@defaults(data_format="NCDHW")
class Dropout3D(_ChannelDropout):
    """In training, whole channels of volumes become 0 with probability p."""

    function = "dropout3d"


class AlphaDropout(Layer):
    """Dropout that keeps mean and variance under SELU."""

    def __init__(self, p: float = 0.5, name: str | None = None):
        super().__init__()
        self.p, self.name = p, name

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return _named(f"p={self.p}", self.name)


class Flatten(Layer):
    """Joins axes `start_axis` to `stop_axis`; by default all but the first."""

    def __init__(self, start_axis: int = 1, stop_axis: int = -1):
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input: Tensor) -> Tensor:
        return flatten(input, self.start_axis, self.stop_axis)


class Unflatten(Layer):
    """Splits one axis into several."""

    def __init__(self, axis: int, shape: Sequence[int], name: str | None = None):
        super().__init__()
        self.axis, self.shape, self.name = axis, list(shape), name

    def forward(self, input: Tensor) -> Tensor:
        place = self.axis % input.ndim
        return reshape(input, [*input.shape[:place], *self.shape, *input.shape[place + 1 :]])

    def extra_repr(self) -> str:
        return _named(f"axis={self.axis}, shape={self.shape}", self.name)


class _Pad(Layer):
    rank = 2

    def __init__(self, padding: Any, mode: str = "constant", value: float = 0.0, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self.padding = [padding] * (2 * self.rank) if isinstance(padding, int) else padding
        self._mode, self.value, self._name = mode, value, name
        self._data_format = data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, self.padding, self._mode, self.value, self._data_format)

    def extra_repr(self) -> str:
        return _named(f"padding={self.padding}, mode={self._mode}, value={self.value}, data_format={self._data_format}", self._name)


@defaults(data_format="NCL")
class Pad1D(_Pad):
    """Sequences with elements added: left, right."""

    rank = 1


class Pad2D(_Pad):
    """Images with elements added: left, right, top, bottom."""


@defaults(data_format="NCDHW")
class Pad3D(_Pad):
    """Volumes with elements added: left, right, top, bottom, front, back."""

    rank = 3


class ZeroPad2D(_Pad):
    """Images with zeros added: left, right, top, bottom."""

    def __init__(self, padding: Any, data_format: str = "NCHW", name: str | None = None):
        super().__init__(padding, "constant", 0.0, data_format, name)

    def extra_repr(self) -> str:
        return _named(f"padding={self.padding}, data_format={self._data_format}", self._name)


@defaults(data_format="NCL")
class ZeroPad1D(_Pad):
    """Sequences with zeros added: left, right."""

    rank = 1

    def __init__(self, padding: Any, data_format: str = "NCL", name: str | None = None):
        super().__init__(padding, "constant", 0.0, data_format, name)


@defaults(data_format="NCDHW")
class ZeroPad3D(_Pad):
    """Volumes with zeros added: left, right, top, bottom, front, back."""

    rank = 3

    def __init__(self, padding: Any, data_format: str = "NCDHW", name: str | None = None):
        super().__init__(padding, "constant", 0.0, data_format, name)


class Unfold(Layer):
    """The windows of images as columns."""

    def __init__(self, kernel_sizes: Any, dilations: Any = 1, paddings: Any = 0, strides: Any = 1, name: str | None = None):
        super().__init__()
        self.kernel_sizes, self.dilations, self.paddings, self.strides, self.name = kernel_sizes, dilations, paddings, strides, name

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_sizes, self.strides, self.paddings, self.dilations)

    def extra_repr(self) -> str:
        return _named(
            f"kernel_size={self.kernel_sizes}, dilation={self.dilations}, padding={self.paddings}, stride={self.strides}", self.name
        )


class Fold(Layer):
    """Windows, given as columns, added up to images."""

    def __init__(
        self, output_sizes: Any, kernel_sizes: Any, dilations: Any = 1, paddings: Any = 0, strides: Any = 1, name: str | None = None
    ):
        super().__init__()
        self.output_sizes, self.kernel_sizes, self.dilations = output_sizes, kernel_sizes, dilations
        self.paddings, self.strides, self.name = paddings, strides, name

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_sizes, self.kernel_sizes, self.strides, self.paddings, self.dilations)

    def extra_repr(self) -> str:
        return _named(
            f"kernel_size={self.kernel_sizes}, dilation={self.dilations}, padding={self.paddings}, stride={self.strides}", self.name
        )


class CosineSimilarity(Layer):
    """The cosine of the angle between vectors along `axis`."""

    def __init__(self, axis: int = 1, eps: float = 1e-8):
        super().__init__()
        self._axis, self._eps = axis, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self._axis, self._eps)

    def extra_repr(self) -> str:
        return f"axis={self._axis}, eps={self._eps}"


class PairwiseDistance(Layer):
    """The p-norm of x - y + epsilon along the last axis."""

    def __init__(self, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False, name: str | None = None):
        super().__init__()
        self.p, self.epsilon, self.keepdim, self.name = p, epsilon, keepdim, name

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.pairwise_distance(x, y, self.p, self.epsilon, self.keepdim)

    def extra_repr(self) -> str:
        text = (
            f"p={self.p}"
            + (f", epsilon={self.epsilon}" if self.epsilon != 1e-6 else "")
            + (f", keepdim={self.keepdim}" if self.keepdim else "")
        )
        return _named(text, self.name)
