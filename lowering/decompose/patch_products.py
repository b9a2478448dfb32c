"""Convolutions of few pixels as products of patches, in whole steps of training.

Elsewhere weights are packed once, and a convolution reads them for as many pixels as there are. A step of training changes its weights: a
kernel that wants them in another order puts them there in each step, and the last layers of a network have more weights than pixels. So
the few move in place of the many. What each window sees is laid out as a row, a *patch*, in the order in which the weights lie, and the
convolution, with both of its adjoints, is a product of the patches that reads the weights as they are.
"""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar, NamedTuple

from polyreme.dialects.nn import Add, Constant, Conv, ConvFilter, ConvTranspose, Fold, MatMul, Pad, Reshape, Slice, Transpose, Window
from polyreme.dialects.nn.conv import conv_numbers
from polyreme.ir import config
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Op
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.machines.step_costs import STEP_COSTS
from polyreme.lowering.machines.winograd_costs import WINOGRAD_CHANNELS

Value = Any


@register_pass
@dataclass(frozen=True)
class PatchProducts(FuncPass):
    """conv(x, W)  ->  patches(x) Wᵀ; conv_transpose(y, W)  ->  fold(y W); conv_filter(x, y)  ->  yᵀ patches(x)

    Before and after: `nn` ops.  Only in whole steps of training, and where moving the patches is estimated to be less work than what
    kernels for windows do beside the same products: put weights that change into another order, or transform them for Winograd's algorithm
    if the target has that (`winograd`), or multiply by zeros between pixels that are a stride apart. Patches of more than `room` bytes,
    which come from memory, are not made. Runs in front of decomposition, behind which the adjoints of a convolution are no longer told
    apart, and before layouts are chosen, for which these are no convolutions.
    """

    name: ClassVar[str] = "patch-products"
    takes: ClassVar[tuple[str, ...]] = ("nn",)
    winograd: bool = True
    room: int = 1 << 23

    def run_on(self, func: Func) -> None:
        if "state" not in func.arg_roles:
            return
        kept = {arg for arg, role in zip(func.args, func.arg_roles, strict=True) if role == "param"}
        for op in list(func.block):
            n = _numbers(op)
            if n is None or not self._pays(op, n, kept):
                continue
            b = Builder.before_op(op)
            made = _MAKERS[type(op)](b, op, n)
            made.name = op.results[0].name
            op.replace_with(made)

    def _pays(self, op: Any, n: _Numbers, kept: set[Value]) -> bool:
        """Whether patches are less work, where weights that are in `kept`, or known, are packed before."""
        patches = n.pixels * n.patch
        products = patches * n.out
        if patches * op.results[0].type.dtype.bytes > self.room:
            return False
        if isinstance(op, ConvFilter):
            return products + STEP_COSTS.moved * patches < STEP_COSTS.windows * products
        weights = 0 if op.weight in kept or op.weight.producer(Constant) is not None else n.patch * n.out
        moves_by_one = all(s == 1 for s in n.strides)
        if isinstance(op, ConvTranspose):
            return products + 2 * STEP_COSTS.moved * patches < self._windows(n, n.phases, weights, moves_by_one)
        return products + STEP_COSTS.moved * patches < self._windows(n, products, weights, moves_by_one)

    def _windows(self, n: _Numbers, products: int, weights: int, moves_by_one: bool) -> float:
        """What a kernel for windows takes with so many products and weights to pack, whose windows move by one or not."""
        direct = products + STEP_COSTS.packed * weights
        taken = (
            self.winograd
            and n.kernel == (3, 3)
            and moves_by_one
            and n.dilations == (1, 1)
            and min(n.channels, n.out) >= WINOGRAD_CHANNELS
            and prod(n.places) >= STEP_COSTS.winograd_places
            and config.winograd()
        )
        return min(direct, STEP_COSTS.winograd * products + STEP_COSTS.transformed * weights) if taken else direct


class _Numbers(NamedTuple):
    """Those of a convolution, whichever of its adjoints an op is: of an image [batch, channels, *sizes] by [out, channels, *kernel]."""

    batch: int
    channels: int
    sizes: tuple[int, ...]
    out: int
    places: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]

    @property
    def pixels(self) -> int:
        """Of the results of all images."""
        return self.batch * prod(self.places)

    @property
    def patch(self) -> int:
        """Numbers that a window sees."""
        return self.channels * prod(self.kernel)

    @property
    def phases(self) -> int:
        """Multiply-adds of the adjoint by the image as a convolution by phases, or of an image that is spread apart by zeros."""
        sizes = zip(self.sizes, self.kernel, self.strides, self.dilations, strict=True)
        along = [-(-size // s) * s * -(-k // s) if d == 1 else size * k for size, k, s, d in sizes]
        return self.batch * prod(along) * self.channels * self.out


def _numbers(op: Op) -> _Numbers | None:
    """The numbers of a convolution or of one of its adjoints; None for other ops, where a size is not known, in groups, where patches are
    pixels anyway, and of types whose sums are of another type.
    """
    if isinstance(op, Conv):
        image, result, weight = op.x.type.shape, op.result.type.shape, op.weight.type.shape
    elif isinstance(op, ConvTranspose):
        image, result, weight = op.result.type.shape, op.x.type.shape, op.weight.type.shape
    elif isinstance(op, ConvFilter):
        image, result, weight = op.x.type.shape, op.dy.type.shape, op.result.type.shape
    else:
        return None
    dtype = op.results[0].type.dtype
    strides, pairs, dilations = conv_numbers(len(image) - 2, op.strides, op.padding, op.dilations)
    if op.groups != 1 or not dtype.is_float or dtype.bits < 32:
        return None
    if not all(isinstance(n, int) for n in (*image, *result, *weight, *strides, *(n for pair in pairs for n in pair), *dilations)):
        return None
    if 0 in (*image, *result, *weight) or (prod(weight[2:]) == 1 and all(s == 1 for s in strides)):
        return None
    numbers: Any = image[0], image[1], image[2:], weight[0], result[2:], weight[2:], strides, tuple(pairs), dilations
    return _Numbers(*numbers)


def _patches(b: Builder, x: Value, n: _Numbers) -> Value:
    """[batch · places, channels · kernel] of an image [batch, channels, *sizes]."""
    spatial = len(n.sizes)
    if any(n != (0, 0) for n in n.pairs):
        x = b(Pad, x, padding=(0, 0, 0, 0, *(amount for pair in n.pairs for amount in pair)))
    windows = b(Window, x, axes=tuple(range(2, 2 + spatial)), sizes=n.kernel, strides=n.strides, dilations=n.dilations)
    rows = b(Transpose, windows, perm=(0, *range(2, 2 + spatial), 1, *range(2 + spatial, 2 + 2 * spatial)))
    return b(Reshape, rows, shape=(n.pixels, n.patch))


def _in_rows(b: Builder, y: Value, n: _Numbers) -> Value:
    """[batch · places, out] of a result [batch, out, *places]."""
    return b(Reshape, b(Transpose, y, perm=(0, *range(2, 2 + len(n.places)), 1)), shape=(n.pixels, n.out))


def _conv(b: Builder, op: Any, n: _Numbers) -> Value:
    weight = b(Reshape, op.weight, shape=(n.out, n.patch))
    y = b(MatMul, _patches(b, op.x, n), weight, transpose_y=True)
    if op.bias is not None:
        y = b(Add, y, op.bias)
    return _channels_first(b, b(Reshape, y, shape=(n.batch, *n.places, n.out)))


def _conv_transpose(b: Builder, op: Any, n: _Numbers) -> Value:
    """What each pixel adds to its window, and the sums where windows overlap, without the padding."""
    spatial = len(n.sizes)
    parts = b(MatMul, _in_rows(b, op.x, n), b(Reshape, op.weight, shape=(n.out, n.patch)))
    windows = b(Reshape, parts, shape=(n.batch, *n.places, n.channels, *n.kernel))
    padded = tuple(low + size + high for size, (low, high) in zip(n.sizes, n.pairs, strict=True))
    axes = tuple(range(1, 1 + spatial))
    image = b(Fold, windows, axes=axes, sizes=padded, strides=n.strides, dilations=n.dilations)
    if padded != n.sizes:
        starts = tuple(low for low, _ in n.pairs)
        stops = tuple(low + size for low, size in zip(starts, n.sizes, strict=True))
        image = b(Slice, image, starts=(0, *starts, 0), stops=(n.batch, *stops, n.channels), strides=(1,) * (2 + spatial))
    return _channels_first(b, image)


def _conv_filter(b: Builder, op: Any, n: _Numbers) -> Value:
    dw = b(MatMul, _in_rows(b, op.dy, n), _patches(b, op.x, n), transpose_x=True)
    return b(Reshape, dw, shape=(n.out, n.channels, *n.kernel))


def _channels_first(b: Builder, x: Value) -> Value:
    rank = x.type.rank
    return b(Transpose, x, perm=(0, rank - 1, *range(1, rank - 1)))


_MAKERS = {Conv: _conv, ConvTranspose: _conv_transpose, ConvFilter: _conv_filter}
