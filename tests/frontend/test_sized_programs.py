"""Free sizes that meet numbers, other sizes and Python's own questions: `to_static` gives what eager mode gives at all sizes, by as few
programs as serve them.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme.device import on_device
from polyreme.ir.builtin import Module
from polyreme.ir.evaluate import EvaluateError, evaluate
from polyreme.ir.sizes.facts import Guard
from polyreme.jit import program, static_function
from polyreme.jit.capture.trace import UnknownSizeError
from polyreme.runtime.errors import CallError
from polyreme.runtime.library import load_compiled
from polyreme.static import InputSpec

nn = paddle.nn
F = nn.functional


class Interpreted:
    """What stands in for compiled code: the function, run on numpy."""

    def __init__(self, func, name, prepare=""):
        self.module = Module.empty(loc=func.location)
        copy = func.clone()
        copy.attributes["sym_name"] = "main"
        self.module.block.append(copy)

    def run(self, arrays):
        return evaluate(self.module, arrays)


@pytest.fixture
def interpreted(monkeypatch):
    """Programs run on numpy: what is compiled of them is the subject of other tests."""
    monkeypatch.setattr(program, "compile_function", Interpreted)


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def whole(high, *shape):
    return np.random.default_rng(sum(shape)).integers(0, high, shape)


def shares(*shape):
    return np.random.default_rng(sum(shape)).random(shape, "float32") * 0.8 + 0.1


def rows(n, h):
    return (floats(n, h, 4),)


def images(n, h):
    return (floats(n, 4, h, h + 2),)


def flat(value):
    return [part for item in value for part in flat(item)] if isinstance(value, (list, tuple)) else [value]


def assert_as_eager(function, compiled, calls):
    for arrays in calls:
        wanted = flat(function(*map(paddle.to_tensor, arrays)))
        got = flat(compiled(*map(paddle.to_tensor, arrays)))
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-5)


def free_specs(arrays, axes=None):
    """The specs of arrays whose sizes are free, or those of some axes."""
    shapes = [[None if axes is None or axis in axes else n for axis, n in enumerate(a.shape)] for a in arrays]
    return [InputSpec(shape, str(a.dtype), f"x{i}") for i, (a, shape) in enumerate(zip(arrays, shapes, strict=True))]


def programs_of(compiled):
    return compiled.concrete_programs()


def needs(traced):
    return [Guard.parse(text).need for text in traced.func.guards]


def layer(made):
    made.eval()
    return lambda *args: made(*args)


SIZES = [(2, 8), (3, 10), (1, 13)]
CASES = {
    # Weights and numbers tell sizes: one program, and what it needs.
    "linear": (layer(nn.Linear(4, 3)), rows, ["axis 2 of x0 == 4"]),
    "convolution": (layer(nn.Conv2D(4, 6, 3, groups=2)), images, ["axis 1 of x0 == 4"]),
    "transposed convolution": (layer(nn.Conv2DTranspose(4, 6, 3, 2)), images, ["axis 1 of x0 == 4"]),
    "batch norm": (layer(nn.BatchNorm2D(4)), images, ["axis 1 of x0 == 4"]),
    "layer norm": (layer(nn.LayerNorm(4)), rows, ["axis 2 of x0 == 4"]),
    "group norm": (layer(nn.GroupNorm(2, 4)), images, ["axis 1 of x0 == 4"]),
    "slopes": (layer(nn.PReLU(4)), images, ["axis 1 of x0 == 4"]),
    "recurrent": (layer(nn.GRU(4, 3)), rows, ["axis 2 of x0 == 4"]),
    "encoder": (layer(nn.TransformerEncoderLayer(4, 2, 8)), rows, ["axis 2 of x0 == 4"]),
    "pixels of channels": (layer(nn.PixelShuffle(2)), images, ["x0_1 % 4 == 0"]),
    "heads": (lambda x: x.reshape([x.shape[0], x.shape[1], 2, x.shape[2] // 2]).transpose([0, 2, 1, 3]), rows, ["x0_2 % 2 == 0"]),
    "by numbers": (lambda x: x.reshape([-1, 2, 6]).sum(axis=1), lambda n, h: (floats(2 * n, 3, 4),), ["N*x0_1*x0_2 % 12 equals 0"]),
    "by a constant": (lambda x: x * paddle.ones([3, 4]), lambda n, h: (floats(n, 3, 4),), ["axis 1 of x0 == 3", "axis 2 of x0 == 4"]),
    # Sizes that tensors hold.
    "sizes out of a shape": (lambda x: x.reshape([paddle.shape(x)[0], -1])[:, : 2 + paddle.shape(x)[1]], rows, ["x0_1*x0_2-x0_1 >= 2"]),
    "numbers up to a size": (lambda x: paddle.arange(x.shape[1], dtype="float32") + paddle.linspace(0, 1, paddle.shape(x)[1]), rows, []),
    "sizes made a tensor": (lambda x: x.reshape(paddle.to_tensor([x.shape[0], -1])) * paddle.to_tensor([x.shape[1], 2.0]).sum(), rows, []),
    "the number of elements": (lambda x: x / paddle.numel(x).astype("float32"), rows, []),
    "scaled by a size": (lambda x: x.sum() / x.shape[1], rows, []),
    # Pyramids: what types cannot say is checked.
    "halved and doubled": (
        lambda x: (lambda half: half + F.interpolate(F.max_pool2d(half, 2, 2), scale_factor=2))(F.avg_pool2d(x, 2, 2)),
        lambda n, h: (floats(n, 2, 8 * n, 16 + n % 2),),
        ["2*floordiv(x0_2, 4) equals floordiv(x0_2, 2)", "2*floordiv(x0_3, 4) equals floordiv(x0_3, 2)"],
    ),
    "halved twice, and back": (
        lambda x: (
            lambda half: x + F.interpolate(half + F.interpolate(F.max_pool2d(half, 2, 2), scale_factor=2), scale_factor=2)
        )(F.avg_pool2d(x, 2, 2)),
        lambda n, h: (floats(n, 2, 8 * n, 16),),
        ["x0_2 % 2 == 0", "x0_3 % 2 == 0", "x0_2_2 % 2 == 0", "x0_3_2 % 2 == 0"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_of_free_sizes_serves_all_that_fit(name, interpreted):
    function, inputs, wanted = CASES[name]
    compiled = paddle.jit.to_static(function, input_spec=free_specs(inputs(*SIZES[0])))
    assert_as_eager(function, compiled, [inputs(*sizes) for sizes in (*SIZES, *SIZES[::-1])])
    (traced,) = programs_of(compiled)
    assert sorted(needs(traced)) == sorted(wanted)


BRANCHES = {
    "less": (lambda x: x * 2 if x.shape[0] > 2 else x - 1, 2),
    "equal": (lambda x: x * 2 if x.shape[0] == 1 else x - 1, 2),
    "not equal": (lambda x: x * 2 if x.shape[1] != 8 else x - 1, 2),
    "whole shapes": (lambda x: x * 2 if x.shape == [2, 8, 4] else x - 1, 3),
    "both": (lambda x: x * 2 if x.shape[0] > 1 and x.shape[1] % 2 == 0 else x - 1, 2),
    "one of": (lambda x: x * 2 if x.shape[1] in (8, 13) else x - 1, 3),
    "a truth": (lambda x: x if x.shape[0] else x + 1, 1),
    "what holds anyway": (lambda x: x if x.shape[0] >= 0 else x + 1, 1),
    "the lesser": (lambda x: x[:, : min(x.shape[1], 9)], 2),
    "as many as there are": (lambda x: x[:, :9], 2),
    "the last ones": (lambda x: x[:, -9:], 2),
    "from one on": (lambda x: x[:, 9:] + x[:, -1:], 2),
    "of a tensor": (lambda x: x * 2 if paddle.shape(x)[1] > 8 else x - 1, 2),
    "squeezed": (lambda x: x.squeeze(0) * 1, 2),
    "squeezed wherever": (lambda x: x.squeeze() * 1, 2),
    "windows if they fit": (lambda x: x.reshape([x.shape[0], x.shape[1] // 2, -1]) if x.shape[1] % 2 == 0 else x, 2),
    # Numbers: a program for each.
    "a number": (lambda x: x.reshape([int(x.shape[0]), -1]), 1),
    "a loop": (lambda x: sum(x[:, k].sum() for k in range(x.shape[1])), 3),
    "a root": (lambda x: x / x.shape[1] ** 0.5, 3),
    "a quotient": (lambda x: x * (1 / x.shape[1]), 3),
    "an item": (lambda x: x * paddle.shape(x)[1].item(), 3),
    "its length": (lambda x: x * len(x), 3),
    "its rows": (lambda x: sum(row.sum() for row in x), 3),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_what_python_asks_of_sizes_is_answered_by_those_of_the_call(name, interpreted):
    function, count = BRANCHES[name]
    compiled = paddle.jit.to_static(function, input_spec=[InputSpec([-1, -1, -1])])
    assert_as_eager(function, compiled, [rows(*sizes) for sizes in (*SIZES, *SIZES[::-1])])
    assert len(programs_of(compiled)) == count


def written(x, mask):
    made = x * 1
    made[mask] = 0.5
    return made


PAIRS = {
    "cross entropy": (F.cross_entropy, lambda n: (floats(n, 4), whole(4, n)), 1),
    "cross entropy with shares": (lambda x, y: F.cross_entropy(x, y, soft_label=True), lambda n: (floats(n, 4), shares(n, 4)), 1),
    "squared errors": (F.mse_loss, lambda n: (floats(n, 4), floats(n, 4) + 1), 1),
    "binary cross entropy": (F.binary_cross_entropy, lambda n: (shares(n, 4), shares(n, 4)), 1),
    "divergence": (F.kl_div, lambda n: (floats(n, 4), shares(n, 4)), 1),
    "margins": (F.triplet_margin_loss, lambda n: (floats(n, 4), floats(n, 4) + 1, floats(n, 4) * 2), 1),
    "overlap": (F.dice_loss, lambda n: (shares(n, 3, 4), whole(4, n, 3, 1)), 1),
    "cosine": (F.cosine_similarity, lambda n: (floats(n, 4), floats(n, 4) + 1), 1),
    "all with all": (lambda x, y: paddle.matmul(x, y, transpose_y=True), lambda n: (floats(n, 4), floats(n + 1, 4)), 1),
    "batches of products": (paddle.bmm, lambda n: (floats(n, 2, 4), floats(n, 4, 3)), 1),
    "dot": (paddle.dot, lambda n: (floats(n, 4), floats(n, 4) + 1), 1),
    "choice": (paddle.where, lambda n: (floats(n, 4) > 0, floats(n, 4), floats(n, 4) + 1), 1),
    "below each other": (lambda x, y: paddle.concat([x, y], 0), lambda n: (floats(n, 4), floats(n + 2, 4)), 1),
    "beside each other": (lambda x, y: paddle.concat([x, y], 1), lambda n: (floats(n, 4), floats(n, 3)), 1),
    "stacked": (lambda x, y: paddle.stack([x, y], 1), lambda n: (floats(n, 4), floats(n, 4) + 1), 1),
    "rows": (paddle.gather, lambda n: (floats(n, 4), whole(n, n + 3)), 1),
    "places": (lambda x, i: paddle.take_along_axis(x, i, 1), lambda n: (floats(n, 4), whole(4, n, 2)), 1),
    "mask": (written, lambda n: (floats(n, 4), floats(n) > 0), 1),
    "attention": (F.scaled_dot_product_attention, lambda n: (floats(n, 3, 2, 4), floats(n, 5, 2, 4), floats(n, 5, 2, 4) + 1), 1),
    "states": (
        lambda x, h: nn.GRU(4, 3, weight_ih_attr=ONES, weight_hh_attr=ONES, bias_ih_attr=ONES, bias_hh_attr=ONES)(x, h.unsqueeze(0))[0],
        lambda n: (floats(n, 5, 4), floats(n, 3)),
        1,
    ),
    "Einstein's notation": (lambda x, y: paddle.einsum("bij,bjk->bik", x, y), lambda n: (floats(n, 2, 3), floats(n, 3, 4)), 1),
    "repeated": (lambda x, y: x + y, lambda n: (floats(n, 4), floats(1, 4)), 2),  # for y of one row, and for equal ones
    "repeated as another": (paddle.expand_as, lambda n: (floats(1, 4), floats(n, 4)), 2),
}
ONES = nn.initializer.Constant(0.5)


@pytest.mark.parametrize("name", PAIRS)
def test_free_sizes_of_several_inputs_are_apart_unless_an_op_makes_them_equal(name, interpreted):
    function, inputs, count = PAIRS[name]
    compiled = paddle.jit.to_static(function, input_spec=free_specs(inputs(3), axes=[0]))
    assert_as_eager(function, compiled, [inputs(n) for n in (3, 5, 2, 1)])
    assert len(programs_of(compiled)) <= count


def test_a_call_that_fits_no_program_gets_one_of_its_own_and_few_of_those_are_kept(interpreted, monkeypatch):
    monkeypatch.setattr(static_function, "MOST_SIZES", 3)

    def function(x):
        return x + paddle.ones([3, 4])

    compiled = paddle.jit.to_static(function, input_spec=[InputSpec([None, 4])])
    assert compiled(paddle.ones([3, 4])).shape == [3, 4]
    assert [compiled(paddle.ones([1, 4])).shape for _ in range(2)] == [[3, 4]] * 2
    assert len(programs_of(compiled)) == 2
    numbers = paddle.jit.to_static(lambda x: x * int(x.shape[0]), input_spec=[InputSpec([None, 4])])
    for n in (2, 3, 4, 5, 6, 2):
        assert float(numbers(paddle.ones([n, 4])).max()) == n
    assert len(programs_of(numbers)) <= 3


def test_what_nothing_makes_fit_is_refused_with_what_would(interpreted):
    compiled = paddle.jit.to_static(layer(nn.Linear(4, 3)), input_spec=[InputSpec([-1, -1], name="features")])
    compiled(paddle.ones([2, 4]))
    with pytest.raises(EvaluateError, match="expected axis 1 of 'features' to be 4 .* but got 5"):
        compiled(paddle.ones([2, 5]))


def test_who_traces_without_a_call_is_told_which_sizes_must_be_numbers():
    def function(x, y):
        return x.reshape([-1]) * sum(range(y.shape[1]))

    with pytest.raises(
        UnknownSizeError, match="known size but got the symbolic size 'y_1'; give the size a number in the InputSpec"
    ) as caught:
        paddle.jit.to_static(function, input_spec=[InputSpec([None, 2], name="x"), InputSpec([2, None], name="y")]).trace()
    assert caught.value.axes == ((1, 1),)
    assert caught.value.diagnostics[0].location.line == function.__code__.co_firstlineno + 1
    for question in (lambda x: x if x.shape[0] > 3 else -x, lambda x: x if x.shape[0] == 3 else -x):
        with pytest.raises(UnknownSizeError, match="while the program is built"):
            paddle.inspect(question, [InputSpec([None], name="x")])


def test_what_is_squeezed_without_a_call_is_guarded():
    def guards(function, *shape):
        module = paddle.inspect(function, [InputSpec(shape, "float32", "x")]).module
        return [str(t) for t in module.function().function_type.results], [Guard.parse(text).need for text in module.function().guards]

    assert guards(lambda x: x.squeeze(0) * 1, None, 3) == (["tensor<3xf32>"], ["axis 0 of x == 1"])
    assert guards(lambda x: x.squeeze() * 1, None, 1, 3) == (["tensor<Nx3xf32>"], ["N >= 2"])
    assert guards(lambda x: x.squeeze([1]) * 1, None, 1, 3) == (["tensor<Nx3xf32>"], [])


def test_the_first_free_batch_is_called_as_ever():
    def types(*specs):
        return [str(t) for t in paddle.jit.to_static(lambda *xs: [x * 1 for x in xs], input_spec=list(specs)).trace().inputs]

    def spec(name, *shape):
        return InputSpec(shape, "float32", name)

    assert types(spec("x", None, 2), spec("y", None, 2)) == ["tensor<Nx2xf32>", "tensor<y_0x2xf32>"]
    assert types(spec("x", 3, None), spec("y", None, 2)) == ["tensor<3x(x_1)xf32>", "tensor<Nx2xf32>"]
    assert types(spec("x", "N", 2), spec("y", None, 2)) == ["tensor<Nx2xf32>", "tensor<y_0x2xf32>"]
    assert types(spec("x", "B", 2), spec("y", "B", 2)) == ["tensor<Bx2xf32>"] * 2


class Pyramid(nn.Layer):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2D(2, 2, 3, 2, 1)

    def forward(self, image):
        half = self.down(image)
        return half + F.interpolate(self.down(half), scale_factor=2)


FITTING, MISFIT = (1, 2, 7, 12), (1, 2, 6, 12)
DIFFERENCE = "no difference between 2*floordiv(image_2+3, 4) and -floordiv(image_2, 2)+image_2 (there is none where image_2 % 4 is 0 or 3)"


def test_every_way_to_run_compares_sizes_that_types_cannot_say(tmp_path):
    net = Pyramid()
    compiled = paddle.jit.to_static(Pyramid(), input_spec=[InputSpec([None, 2, None, None], name="image")])
    compiled.set_state_dict(net.state_dict())
    assert_as_eager(net, compiled, [(floats(*shape),) for shape in (FITTING, (2, 2, 4, 3), (1, 2, 8, 8))])
    module = paddle.inspect(compiled).module
    paddle.jit.save(compiled, tmp_path / "net")
    loaded = paddle.jit.load(tmp_path / "net")
    paddle.compile(compiled, tmp_path / "net.so")
    library = load_compiled(tmp_path / "net.so")
    weights = [t.numpy() for t in compiled.parameters()]
    ways = {
        "loaded": lambda x: loaded(paddle.to_tensor(x)).numpy(),
        "library": lambda x: library.run([x])[0],
        "nn": lambda x: evaluate(module, [x, *weights][: len(module.function().args)])[0],
    }
    for way, run in ways.items():
        np.testing.assert_allclose(
            run(floats(*FITTING)), net(paddle.to_tensor(floats(*FITTING))).numpy(), rtol=1e-4, atol=1e-5, err_msg=way
        )
        with pytest.raises(Exception, match=re.escape(DIFFERENCE)) as caught:
            run(floats(*MISFIT))
        # A library tells no folders.
        file = Path(__file__).name if way == "library" else __file__
        assert "but got 1" in str(caught.value) and f"nn.add at {file}" in str(caught.value), way
    assert "image_2 being axis 2 of 'image'" in str(caught.value) or way == "nn"
    assert DIFFERENCE in (tmp_path / "net.h").read_text()
    # Gradients flow through what was cut to size.
    x, y = (paddle.to_tensor(floats(*FITTING), stop_gradient=False) for _ in range(2))
    (net(x) ** 2).sum().backward()
    (compiled(y) ** 2).sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_device_compares_sizes_as_a_processor_does():
    def function(x):
        return x.reshape([-1, 2, 3]).sum(axis=1)

    with on_device("gpu-emulated"):
        compiled = paddle.jit.to_static(function, input_spec=[InputSpec([None, None], name="x")])
        assert_as_eager(function, compiled, [(floats(4, 3),)])
        (entry,) = compiled.programs()
        with pytest.raises(
            CallError,
            match=r"expected N\*x_1 to be divisible by 6, N being axis 0 of 'x', x_1 being axis 1 of 'x' \(nn.reshape at .*\) but got 2",
        ):
            entry([paddle.ones([4, 2])])


def test_every_way_to_run_checks_an_axis_that_is_a_number(tmp_path):
    compiled = paddle.jit.to_static(nn.Linear(4, 3), input_spec=[InputSpec([-1, -1], name="x")])
    module = paddle.inspect(compiled).module
    library = paddle.compile(compiled, tmp_path / "linear.so")
    weights = [t.numpy() for t in compiled.parameters()]
    line = r"axis 1 of 'x' to be 4 \(nn.linear at .*test_sized_programs.py:\d+:\d+\) but got 5"
    for run in (lambda x: compiled(paddle.to_tensor(x)), library, lambda x: evaluate(module, [x, *weights])):
        with pytest.raises(Exception, match=f"expected {line}"):
            run(floats(2, 5))
    assert "Expects axis 1 of 'x' to be 4 (nn.linear" in (tmp_path / "linear.h").read_text()
