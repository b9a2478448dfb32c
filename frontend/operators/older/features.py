"""Features of images, pairs and steps, rearranged and put together as networks before Paddle 2 do."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.control_flow import loop
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.nn import functional
from polyreme.nn.layers.norm import as_matrix, iterate
from polyreme.operators.arguments import Sizes, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tape import no_grad
from polyreme.tensor import Tensor


@operator(legacy=spelled("space_to_depth"))
def space_to_depth(x: Tensor, *, blocksize: int) -> Tensor:
    """[N, C, H, W] as [N, C * size * size, H / size, W / size], in the order of Darknet's: channels are put between pixels first, and the
    numbers that come of this are read as they lie.
    """
    n, channels, height, width = x.type.shape
    size = blocksize
    if size < 2 or any(isinstance(d, int) and d % by for d, by in ((channels, size * size), (height, size), (width, size))):
        raise UnsupportedError(f"expected channels that {size * size} divides, height and width that {size} does but got {list(x.shape)}")
    apart = math.reshape(x, [n, size, size, channels // (size * size), height, width])
    between = math.transpose(apart, [0, 3, 4, 1, 5, 2])
    return math.reshape(between, [n, channels * size * size, height // size, width // size])


@operator(legacy=spelled("fsp", {"X": "x", "Y": "y"}))
def fsp(x: Tensor, y: Tensor) -> Tensor:
    """The means over the pixels of the products of each channel of `x` [N, C, H, W] and each of `y` [N, D, H, W], [N, C, D]."""
    n, channels, height, width = x.type.shape
    flat = math.reshape(x, [n, channels, height * width]), math.reshape(y, [n, y.type.shape[1], height * width])
    return math.matmul(flat[0], flat[1], False, True) / dispatch.full((), height * width, x.type.dtype)


@operator(legacy=spelled("similarity_focus"))
def similarity_focus(x: Tensor, *, axis: int, indexes: Sizes) -> Tensor:
    """Ones where a slice of `x` [N, A, B, C] along `axis`, at one of the indexes, has its greatest element, and then the greatest one of
    the rows and columns that are left; zeros elsewhere. All slices have the same.
    """
    if x.ndim != 4 or axis not in (1, 2, 3):
        raise UnsupportedError(f"expected a tensor of four axes and the axis 1, 2 or 3 but got {list(x.shape)} and {axis}")
    x = x.detach()
    count, (rows, columns) = x.type.shape[0], (size for i, size in enumerate(x.type.shape) if i not in (0, axis))
    row, column = (
        dispatch.call(nn.Iota, shape=(1, rows, 1), axis=1, dtype=i64), dispatch.call(nn.Iota, shape=(1, 1, columns), axis=2, dtype=i64)
    )  # fmt: skip
    least, none = dispatch.full((), float("-inf"), x.type.dtype), dispatch.full((), 0, x.type.dtype)
    found = dispatch.full((count, rows, columns), 0, x.type.dtype)
    each, rounds = dispatch.full((), columns, i64), math.minimum(dispatch.full((), rows, i64), dispatch.full((), columns, i64))

    def look(i: Tensor, left: Tensor, found: Tensor) -> list[Tensor]:
        place = math.reshape(math.argmax(math.reshape(left, [count, rows * columns]), 1), [-1, 1, 1])
        down = math.floor_divide(place, each)
        in_row, in_column = math.equal(row, down), math.equal(column, place - down * each)
        here = math.logical_and(in_row, in_column)
        left = math.where(math.logical_or(in_row, in_column), least, left)
        return [i + 1, left, math.where(here, none + 1.0, found)]

    for index in indexes:
        part = dispatch.call(nn.Gather, x, dispatch.full((1,), int(index), i64), axis=axis)
        state = [dispatch.full((), 0, i64), math.squeeze(part, [axis]), found]
        *_, found = loop(lambda i, *now: math.less_than(i, rounds), look, state)
    return math.broadcast_to(math.unsqueeze(found, [axis]), list(x.type.shape))


_PAIRS = {"X": "x", "Y": "y", "Weight": "weight", "Bias": "bias"}


@operator("bilinear", legacy=spelled("bilinear_tensor_product", _PAIRS))
def bilinear_tensor_product(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.bilinear(x, y, weight, bias)


@operator(legacy=spelled("spectral_norm", {"Weight": "weight", "U": "u", "V": "v"}, constant="U V"))
def spectral_norm(weight: Tensor, u: Tensor, v: Tensor, *, dim: int = 0, power_iters: int = 1, eps: float = 1e-12) -> Tensor:
    """`weight` divided by its greatest singular value, as power iterations find it from `u` and `v`."""
    matrix = as_matrix(weight, dim)
    with no_grad():
        u, v = iterate(matrix, u, v, power_iters, eps)
    return math.divide(weight, math.dot(u, math.mv(matrix, v)))


@operator(legacy=spelled("max_pool3d_with_index", outputs="Out Mask", attributes={"ksize": "kernel_size"}))
def max_pool3d_with_index(
    x: Tensor,
    *,
    kernel_size: Sizes,
    strides: Sizes = (1, 1, 1),
    paddings: Sizes = (0, 0, 0),
    global_pooling: bool = False,
    adaptive: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The greatest elements, and where they stood in their volumes; adaptive and global ones without."""
    if adaptive or global_pooling:
        return functional.adaptive_max_pool3d(x, [1, 1, 1] if global_pooling else [int(k) for k in kernel_size]), None
    return functional.max_pool3d(x, list(kernel_size), list(strides), list(paddings), True)
