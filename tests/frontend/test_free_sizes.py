"""Functions of tensors whose sizes are free: what eager mode computes, for every size."""

import re

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.evaluate import evaluate
from polyreme.ir.sizes.facts import Guard
from polyreme.runtime.errors import CallError
from polyreme.runtime.library import load_compiled
from polyreme.static import InputSpec

F = paddle.nn.functional


def windows(x, w):
    b, h, wide, c = x.shape
    return x.reshape([b, h // w, w, wide // w, w, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([-1, w, w, c])


def windows_and_back(x):
    """The parts of images that Swin's attention looks at, each turned, put together again."""
    x = x.transpose([0, 2, 3, 1])
    b, h, w, c = x.shape
    turned = paddle.matmul(windows(x, 2).reshape([-1, 4, c]), paddle.to_tensor([[0.0, 1.0], [-1.0, 0.0]]))
    return x + turned.reshape([-1, h // 2, w // 2, 2, 2, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([b, h, w, c])


def windows_of_padded(x):
    b, c, h, w = x.shape
    x = F.pad(x, [0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4])
    high, wide = x.shape[2:]
    parts = windows(x.transpose([0, 2, 3, 1]), 4) * 2
    return parts.reshape([b, high // 4, wide // 4, 4, 4, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([b, high, wide, c])[:, :h, :w]


def neighbours_merged(x):
    b, c, h, w = x.shape
    return x.reshape([b, c, h // 2, 2, w // 2, 2]).transpose([0, 2, 4, 5, 3, 1]).flatten(3).reshape([b, -1, 4 * c])


def rows_filled_through_views(x):
    x = x * 1
    turned = x.transpose([0, 1, 3, 2])
    b, c, w, h = turned.shape
    turned.reshape([b, c, w // 3, 3, h])[:, :, :, 1] = 7.0
    return x


def means_filled_through_views(x):
    """Sizes of means that fill, in both directions, no line says: each call checks it."""
    means = F.avg_pool2d(x, 2, 2)
    turned = means.transpose([0, 1, 3, 2])
    b, c, w, h = turned.shape
    turned.reshape([b, c, w // 3, 3, h // 2, 2])[:, :, :, 1] = 7.0
    return means


def axis_of_one_left_out(x):
    halves = F.avg_pool2d(x, 2, 2)
    halves.transpose([0, 2, 3, 1]).squeeze(1)[:, 1:].add_(paddle.ones([1]))
    return halves


ROWS, PLACES = ("float32", [None, 4]), ("int64", ["M"])
IMAGES, OTHERS = ("float32", [None, 2, None, None]), ("float32", ["M", 2, None, None])
CASES = {
    "causal mask": (lambda x: paddle.triu(paddle.full([x.shape[0], x.shape[0]], -1e9), diagonal=1) + x[:, :1], [ROWS]),
    "lower triangle of a product": (lambda x: paddle.tril(paddle.matmul(x, x, transpose_y=True), -1), [ROWS]),
    "ones on a diagonal": (lambda x: x - paddle.eye(x.shape[0], 4), [ROWS]),
    "counting from a size": (lambda x: paddle.arange(x.shape[0], x.shape[0] + 5, dtype="float32"), [ROWS]),
    "counting on from a number": (lambda x: paddle.arange(3, 2 * x.shape[0] + 3, 2), [ROWS]),
    "adding to rows by position": (lambda x, i: paddle.scatter_nd_add(x, (i % 3).unsqueeze(-1), paddle.gather(x, i % 3)), [ROWS, PLACES]),
    "elements by coordinates": (lambda x, i: paddle.gather_nd(x, paddle.stack([i % 3, -(i % 4)], axis=-1)), [ROWS, PLACES]),
    "elements along an axis": (lambda x: paddle.take_along_axis(x, paddle.argmax(x, axis=1, keepdim=True), 1), [ROWS]),
    "rolled windows": (lambda x: paddle.roll(x, shifts=(-2, 1), axis=(2, 3)), [IMAGES]),
    "not rolled": (lambda x: paddle.roll(x, 0, 0), [ROWS]),
    "reflected border": (lambda x: F.pad(x, [1, 2, 0, 1], mode="reflect"), [IMAGES]),
    "repeated border": (lambda x: F.pad(x, [1, 2, 0, 1], mode="replicate"), [IMAGES]),
    "border from the other side": (lambda x: F.pad(x, [1, 2, 0, 1], mode="circular"), [IMAGES]),
    "twice as large": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), [IMAGES]),
    "corners on corners": (lambda x: F.interpolate(x, size=[2 * x.shape[2] + 1, 7], mode="bilinear", align_corners=True), [IMAGES]),
    "as large as another": (lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear", align_mode=1), [IMAGES, OTHERS]),
    "as many of the largest as a size says": (lambda x: paddle.topk(x, x.shape[0] // 2, axis=0)[0], [ROWS]),
    "counting down from a size": (lambda x: paddle.arange(x.shape[0], 0, -1), [ROWS]),
    "counting by more than one": (lambda x: paddle.arange(0, x.shape[0] * 8, 8, dtype="float32"), [ROWS]),
    "counting floats": (lambda x: paddle.arange(0.0, x.shape[0], 2), [ROWS]),
    "numbers between two": (lambda x: paddle.linspace(-1, 2.5, x.shape[0]), [ROWS]),
    "numbers up to a size": (lambda x: paddle.linspace(0, x.shape[0], x.shape[0] // 3, dtype="float64"), [ROWS]),
    "half as large again": (lambda x: F.interpolate(x, scale_factor=1.5), [IMAGES]),
    "one third as large": (lambda x: F.interpolate(x, scale_factor=[1 / 3, 2.25], mode="bilinear"), [IMAGES]),
    "places of maps": (
        lambda x: F.affine_grid(x.mean([2, 3]).reshape([-1, 2, 1]) + paddle.eye(2, 3), paddle.shape(x), align_corners=False),
        [IMAGES],
    ),
    "sampled where maps say": (
        lambda x: F.grid_sample(x, F.affine_grid(x[:, :, :2, 0].reshape([-1, 2, 2]).matmul(paddle.eye(2, 3)), x.shape)),
        [IMAGES],
    ),
    "sampled beyond the edges": (
        lambda x: F.grid_sample(x, 3 * x[:, :, :2, :2].reshape([-1, 2, 2, 2]), padding_mode="reflection", align_corners=False),
        [IMAGES],
    ),
    "the nearest of another size": (lambda x, y: F.interpolate(x, size=y.shape[2:]), [IMAGES, OTHERS]),
    "corners on those of another": (
        lambda x, y: F.interpolate(x, size=paddle.shape(y)[2:], mode="bilinear", align_corners=True),
        [IMAGES, OTHERS],
    ),
    "by four neighbours": (lambda x: F.interpolate(x, scale_factor=[2, 0.5], mode="bicubic"), [IMAGES]),
    "by four neighbours, corners on corners": (
        lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bicubic", align_corners=True),
        [IMAGES, OTHERS],
    ),
    "as many zeros as are missing": (
        lambda x, y: F.pad(x, [0, y.shape[3] - x.shape[3], paddle.shape(y)[2] - paddle.shape(x)[2], 0]),
        [IMAGES, OTHERS],
    ),
    "the first of as many": (lambda x, i: x[: paddle.shape(i)[0] - 1], [ROWS, PLACES]),
    "an element by a size": (lambda x: x[paddle.shape(x)[0] - 2], [ROWS]),
    "rows by a size that is a tensor": (lambda x: x.reshape([paddle.shape(x)[0], -1, 2]), [ROWS]),
    "a shape that is a tensor": (lambda x: paddle.zeros(paddle.shape(x), "int32"), [ROWS]),
    "a pyramid that is added": (
        lambda x: (lambda half: half + F.interpolate(F.max_pool2d(half, 2, ceil_mode=True), scale_factor=2))(
            F.max_pool2d(x, 2, ceil_mode=True)
        ),
        [IMAGES],
    ),
    "pixels to channels": (lambda x: F.pixel_unshuffle(x, 2), [IMAGES]),
    "pixels to channels, which are last": (lambda x: F.pixel_unshuffle(x.transpose([0, 2, 3, 1]), 3, "NHWC"), [IMAGES]),
    "pixels of squares to channels": (lambda x: F.pixel_unshuffle(x, 2), [("float32", ["B", 2, "S", "S"])]),
    "pixels to channels, but for a row": (lambda x: F.pixel_unshuffle(x[:, :, 1:], 2), [IMAGES]),
    "windows": (lambda x: windows(x.transpose([0, 2, 3, 1]), 2), [IMAGES]),
    "windows, and images of them again": (windows_and_back, [IMAGES]),
    "windows of images that are padded to them": (windows_of_padded, [IMAGES]),
    "windows of means, which may leave pixels": (lambda x: windows(F.avg_pool2d(x, 2, 2).transpose([0, 2, 3, 1]), 3), [IMAGES]),
    "neighbours merged": (neighbours_merged, [IMAGES]),
    "rows filled through views": (rows_filled_through_views, [IMAGES]),
    "means filled through views": (means_filled_through_views, [IMAGES]),
    "an axis of one left out": (axis_of_one_left_out, [IMAGES]),
    "sums in Einstein's notation": (lambda x: paddle.einsum("nchw,ndhw->ncd", x, x), [IMAGES]),
}
# Where not every size will do.
SIZES = {
    "a pyramid that is added": ((1, 2, 8, 3), (2, 2, 4, 7), (1, 2, 15, 12)),
    "pixels to channels": ((1, 2, 2, 2), (2, 2, 6, 4), (3, 2, 2, 10)),
    "pixels to channels, which are last": ((1, 2, 3, 3), (2, 2, 6, 9), (3, 2, 3, 12)),
    "pixels of squares to channels": ((1, 2, 2, 2), (2, 2, 6, 6)),
    "pixels to channels, but for a row": ((1, 2, 3, 2), (2, 2, 7, 4)),
    "windows": ((1, 2, 2, 2), (2, 2, 6, 4)),
    "windows, and images of them again": ((1, 2, 2, 2), (2, 2, 6, 4), (3, 2, 2, 10)),
    "windows of images that are padded to them": ((1, 2, 1, 1), (2, 2, 7, 4), (1, 2, 8, 5)),
    "windows of means, which may leave pixels": ((1, 2, 6, 7), (2, 2, 13, 18)),
    "neighbours merged": ((1, 2, 2, 2), (2, 2, 6, 4)),
    "rows filled through views": ((1, 2, 1, 3), (2, 2, 5, 6)),
    "means filled through views": ((1, 2, 4, 7), (2, 2, 9, 12)),
    "an axis of one left out": ((1, 2, 2, 4), (2, 2, 3, 7)),
}
# Functions whose sizes have to be multiples, and what each call checks.
MULTIPLES = {
    "pixels to channels": ["x0_2 % 2 == 0", "x0_3 % 2 == 0"],
    "windows, and images of them again": ["x0_2 % 2 == 0", "x0_3 % 2 == 0"],
    "rows filled through views": ["x0_3 % 3 == 0"],
}


def arrays(specs, sizes):
    rng = np.random.default_rng(0)
    for k, (dtype, shape) in enumerate(specs):
        known = [d if isinstance(d, int) else size + k for d, size in zip(shape, sizes)]
        yield rng.integers(0, 9, known) if dtype == "int64" else rng.standard_normal(known).astype(dtype)


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_free_sizes_computes_what_eager_mode_does(name):
    function, specs = CASES[name]
    module = paddle.inspect(function, [InputSpec(shape, dtype, f"x{i}") for i, (dtype, shape) in enumerate(specs)]).module
    for sizes in SIZES.get(name, ((4, 2, 5, 3), (7, 2, 4, 8), (6, 2, 9, 9))):
        inputs = list(arrays(specs, sizes))
        expected = function(*map(paddle.to_tensor, inputs)).numpy()
        (got,) = evaluate(module, inputs)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", MULTIPLES)
def test_one_program_is_for_all_sizes_that_are_multiples(name, tmp_path):
    function, ((dtype, shape),) = CASES[name]
    static = paddle.jit.to_static(function, input_spec=[InputSpec(shape, dtype, "x0")])
    paddle.jit.save(static, tmp_path / "saved")
    paddle.compile(static, tmp_path / "library.so")
    loaded, library = paddle.jit.load(tmp_path / "saved"), load_compiled(tmp_path / "library.so")
    with paddle.no_grad():
        for sizes in SIZES[name]:
            (x,) = arrays([(dtype, shape)], sizes)
            expected = function(paddle.to_tensor(x)).numpy()
            for got in (static(paddle.to_tensor(x)).numpy(), loaded(paddle.to_tensor(x)).numpy(), *library.run([x])):
                np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    (program,) = static.concrete_programs()
    assert [Guard.parse(text).need for text in program.func.guards] == MULTIPLES[name]
    with pytest.raises(CallError, match="divisible by"):
        loaded(paddle.zeros([1, 2, 5, 7]))


RESIZED = [
    ("linear", (22,), {"size": [20]}), ("bilinear", (18, 20), {"scale_factor": [1.5, 3.0]}),
    ("trilinear", (3, 17, 4), {"size": [8, 46, 6]}),
    ("bicubic", (5, 9), {"scale_factor": [1.5, 0.7]}), ("nearest", (5, 9), {"scale_factor": [1.5, 0.7]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "sizes", "target", "corners"),
    # "nearest" has no corners to align.
    [(*case, corners) for case in RESIZED for corners in (False, True) if case[0] != "nearest" or not corners],
)
def test_images_of_free_sizes_are_resized_to_the_last_bit_as_those_of_known_sizes(mode, sizes, target, corners):
    x = np.random.default_rng(0).standard_normal((2, 3, *sizes))
    def resized(x):
        return F.interpolate(x, mode=mode, align_corners=corners, **target)
    module = paddle.inspect(resized, [InputSpec([None, 3, *[None] * len(sizes)], "float64", "x")]).module
    (got,) = evaluate(module, [x])
    # The weights are the same; the products with them may be summed in another order.
    np.testing.assert_allclose(got, resized(paddle.to_tensor(x)).numpy(), rtol=0, atol=1e-15)


def test_a_border_wider_than_a_free_size_is_refused_when_it_runs():
    function = paddle.jit.to_static(
        lambda x: F.pad(x, [3, 3], mode="reflect", data_format="NCL"), input_spec=[InputSpec([1, 2, None], "float32", "x")]
    )
    assert function(paddle.zeros([1, 2, 4])).shape == [1, 2, 10]
    with pytest.raises(CallError, match="at least 4"):
        function(paddle.zeros([1, 2, 3]))


MODES = [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]


@pytest.mark.parametrize("mode", [mode for mode, _ in MODES])
def test_images_of_free_sizes_are_padded_by_one_kernel(mode):
    """It takes rows from places that were computed before."""
    found = paddle.inspect(lambda x: F.pad(x, [3, 1, 0, 2], mode=mode), [InputSpec([None, 2, None, None], "float32", "x")])
    assert re.search(r"kernel.call %x, .*%output", found.kernel)


@pytest.mark.parametrize(("mode", "of_numpy"), MODES)
def test_volumes_of_free_sizes_are_padded_as_those_of_known_sizes(mode, of_numpy):
    specs = [InputSpec([None, 2, None, None, None], "float32", "x", stop_gradient=False)]
    function = paddle.jit.to_static(lambda x: F.pad(x, [3, 1, 0, 2, 1, 0], mode=mode, data_format="NCDHW"), input_spec=specs)
    least = {"reflect": (2, 3, 4), "replicate": (1, 1, 1), "circular": (1, 2, 3)}[mode]
    widths = ((0, 0), (0, 0), (1, 0), (0, 2), (3, 1))
    for sizes in (least, (2, 3, 7), (3, 17, 34)):
        x = np.random.default_rng(0).standard_normal((2, 2, *sizes)).astype(np.float32)
        given = paddle.to_tensor(x, stop_gradient=False)
        got = function(given)
        np.testing.assert_array_equal(got.numpy(), np.pad(x, widths, of_numpy))
        (got * got).sum().backward()
        # Each element has a gradient of twice itself from each place that it is in.
        places = np.zeros(x.size, np.float32)
        wide = np.pad(np.arange(x.size).reshape(x.shape), widths, of_numpy)
        np.add.at(places, wide.reshape(-1), 1)
        np.testing.assert_allclose(given.grad.numpy(), 2 * x * places.reshape(x.shape), rtol=1e-6)
    for axis, name in enumerate(("x_2", "x_3", "x_4")):
        x = np.random.default_rng(0).standard_normal((1, 2, *(n - (i == axis) for i, n in enumerate(least)))).astype(np.float32)
        if mode == "circular" and x.size:  # goes around more than once, which is a program for numbers
            np.testing.assert_array_equal(function(paddle.to_tensor(x)).numpy(), np.pad(x, widths, "wrap"))
            continue
        with pytest.raises(CallError, match=f"{name} to be at least"):
            function(paddle.to_tensor(x))


@pytest.mark.parametrize(("mode", "of_numpy"), MODES)
def test_images_of_known_sizes_are_padded_by_one_kernel(mode, of_numpy):
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 21)).astype(np.float32)
    function = paddle.jit.to_static(lambda x: F.pad(x, [3, 1, 0, 8], mode=mode), input_spec=[InputSpec(x.shape, "float32", "x")])
    np.testing.assert_array_equal(function(paddle.to_tensor(x)).numpy(), np.pad(x, ((0, 0), (0, 0), (0, 8), (3, 1)), of_numpy))
    assert paddle.inspect(function).kernel.count("kernel.call") == 1
