"""Sizes, axes and counts that are tensors, NumPy's numbers, or whole floats: what Paddle takes, by the text of the call.

`n` is 3 and `m` 2, as 0-D tensors of int64 and int32; `l` makes tensors of int64.
"""

from tests.api.table import cases

GIVEN = "(lambda t, l, n, m, x, img, seq, vol: {call})({values})"
VALUES = (
    "paddle.to_tensor, lambda v: paddle.to_tensor(v, dtype='int64'), paddle.to_tensor(3), paddle.to_tensor(2, dtype='int32'),"
    " paddle.arange(12, dtype='float32').reshape([3, 4]), paddle.arange(32, dtype='float32').reshape([1, 2, 4, 4]),"
    " paddle.arange(16, dtype='float32').reshape([1, 2, 8]), paddle.arange(64, dtype='float32').reshape([1, 1, 4, 4, 4])"
)
CALLS = {
    "paddle.eye": ("paddle.eye(n)", "paddle.eye(n, m)", "paddle.eye(l([3]))", "paddle.eye(np.int64(3), np.int64(2))"),
    "paddle.full": (
        "paddle.full([n, 2], 4.0)",
        "paddle.full(l([2, 3]), 4.0)",
        "paddle.full([n, m], t(4.0))",
        "paddle.full([2], l(7))",
        "paddle.full([2], t(True))",
        "paddle.full([2], np.int64(3))",
    ),
    "paddle.full_like": ("paddle.full_like(x, m)", "paddle.full_like(l([1, 2]), t(7.5))"),
    "paddle.zeros": (
        "paddle.zeros([n, 2])",
        "paddle.zeros(l([2, 3]))",
        "paddle.zeros([l([2]), 3])",
        "paddle.zeros([np.int64(2), np.int64(3)])",
        "paddle.zeros(np.array([2, 3]))",
    ),
    "paddle.arange": ("paddle.arange(n)", "paddle.arange(l(1), l(7), l(2))"),
    "paddle.linspace": ("paddle.linspace(l(0), l(4), l(5))",),
    "paddle.reshape": ("paddle.reshape(x, [n, -1])", "paddle.reshape(x, l([2, 6]))", "x.reshape([l([2]), -1])"),
    "paddle.expand": ("paddle.expand(l([1]), [n, 2])", "paddle.expand(l([1]), l([2, 2]))", "paddle.expand(x, [m, -1, -1])"),
    "paddle.tile": ("paddle.tile(x, [m, 1])", "paddle.tile(x, l([2, 2]))"),
    "paddle.split": ("paddle.split(x, [l(1), 2], 0)", "paddle.split(x, 2, axis=l(1))"),
    "paddle.chunk": ("paddle.chunk(x, 2, axis=l(1))",),
    "paddle.concat": ("paddle.concat([x, x], axis=l(1))", "paddle.concat([x, x], axis=np.int64(1))"),
    "paddle.unsqueeze": ("paddle.unsqueeze(x, l(0))", "paddle.unsqueeze(x, l([0, 1]))", "paddle.unsqueeze(x, [l(0), 1])"),
    "paddle.slice": ("paddle.slice(x, [0, 1], [l(0), 1], [n, l(3)])", "paddle.slice(x, [0, 1], l([0, 1]), l([2, 3]))"),
    "paddle.gather": ("paddle.gather(x, l([0, 2]), axis=l(1))",),
    "paddle.sum": (
        "paddle.sum(x, axis=l(0))",
        "paddle.sum(x, axis=l([0, 1]))",
        "paddle.sum(x, axis=[l(1)])",
        "paddle.sum(x, axis=np.int64(0))",
    ),
    "paddle.cumsum": ("paddle.cumsum(x, axis=l(1))",),
    "paddle.topk": ("paddle.topk(x, k=m)", "paddle.topk(x, np.int64(2))"),
    "paddle.scale": ("paddle.scale(x, m)", "paddle.scale(x, t(2.0))"),
    "paddle.pow": ("paddle.pow(x, m)",),
    "paddle.histogram": ("paddle.histogram(x, bins=l(4))",),
    "paddle.nn.functional.one_hot": ("F.one_hot(l([1]), num_classes=n)",),
    "paddle.nn.functional.interpolate": (
        "F.interpolate(img, size=[l(2), l(2)])", "F.interpolate(img, size=l([2, 2]))", "F.interpolate(img, size=[2.0, 3.0])",
        "F.interpolate(img, size=[2.9, 6.0], mode='bilinear')",
        "F.interpolate(img, scale_factor=t([2.0, 1.5]))", "F.interpolate(seq, size=[4.0], mode='linear')",
        "F.interpolate(vol, size=[2.0, l(2), 2], mode='trilinear')",
    ),
    "paddle.nn.functional.upsample": ("F.upsample(img, size=[8.0, 8.0])", "F.upsample(img, size=l([8, 8]))"),
    "paddle.nn.UpsamplingBilinear2D": (
        "paddle.nn.UpsamplingBilinear2D(size=[5.0, 5.0])(img)",
        "paddle.nn.UpsamplingBilinear2D(size=l([5, 5]))(img)",
    ),
    "paddle.nn.UpsamplingNearest2D": ("paddle.nn.UpsamplingNearest2D(size=[8.0, 6.0])(img)",),
    "paddle.nn.functional.adaptive_avg_pool2d": ("F.adaptive_avg_pool2d(img, l([2, 2]))", "F.adaptive_avg_pool2d(img, [l(2), None])"),
    "paddle.nn.functional.adaptive_avg_pool3d": ("F.adaptive_avg_pool3d(vol, l([2, 2, 2]))", "F.adaptive_avg_pool3d(vol, [l(2), 2, 2])"),
    "paddle.nn.functional.adaptive_max_pool2d": ("F.adaptive_max_pool2d(img, l([2, 2]))", "F.adaptive_max_pool2d(img, [l(2), l(2)])"),
    "paddle.nn.functional.adaptive_max_pool3d": ("F.adaptive_max_pool3d(vol, l([2, 2, 2]))",),
    "paddle.nn.functional.conv2d_transpose": ("F.conv2d_transpose(img, paddle.ones([2, 1, 2, 2]), output_size=l([5, 5]))",),
    "paddle.nn.functional.affine_grid": ("F.affine_grid(paddle.ones([1, 2, 3]), l([1, 2, 3, 3]))",),
    "paddle.nn.functional.sequence_mask": ("F.sequence_mask(l([1, 2]), l(3))",),
}  # fmt: skip

for _name, _calls in CALLS.items():

    @cases(_name)
    def _(c):
        for call in _calls:
            c.expr(GIVEN.format(call=call, values=VALUES))


@cases("paddle.cast")
def _(c):
    for dtype in (
        "'int'",
        "'float'",
        "'long'",
        "'double'",
        "'half'",
        "'short'",
        "'byte'",
        "'i4'",
        "'f8'",
        "int",
        "float",
        "bool",
        "complex",
        "np.int32",
        "np.dtype('int8')",
    ):
        c.expr(f"paddle.cast(paddle.to_tensor([1.5, 0.0]), {dtype})")
    for name in ("double", "long", "half", "int", "float", "short", "cfloat", "cdouble"):
        c.expr(f"(paddle.zeros([1], paddle.{name}), paddle.{name})")


@cases("paddle.Tensor.to")
def _(c):
    given = "(lambda x, small: {})(paddle.to_tensor([2.75, -1.5]), paddle.ones([1], 'int8'))"
    for call in (
        "x.to(small)",
        "x.to(other=small)",
        "x.to(other=small, blocking=False)",
        "x.to(small, True)",
        "x.to('cpu', 'float64')",
        "x.to(dtype='int')",
        "x.to(device='cpu', dtype='int32')",
    ):
        c.expr(given.format(call))
    for call in ("x.to()", "x.to(foo=1)", "x.to('foo')"):
        c.expr(given.format(call), _raises=True)
    for method in ("type_as(small)", "long()", "double()", "half()", "short()", "byte()", "char()", "int()", "float()"):
        c.expr(given.format(f"abs(x).{method}"))
