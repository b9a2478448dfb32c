"""Tensors from nothing and from data."""

from tests.api.table import ALL_INTS, FLOATS, HALVES, array, bools, cases, check, ints, normal, of

EVERY = (*FLOATS, *HALVES, *ALL_INTS, "bool")

for name in ("zeros", "ones"):

    @cases(f"paddle.{name}")
    def _(c):
        for dtype in (None, *EVERY):
            c([2, 3], dtype)
        c([])
        c([0, 2])
        c((1,))
        c(3)
        c(array([2, 3], "int64"), _forms=False)
        c([array(2, "int32"), 3])
        c([2], dtype=of("paddle.int32"))
        c([2], dtype=of("np.float64"))
        c(2, 3)
        c([-1], _raises=True)
        c([2], "float99", _raises=True)

    @cases(f"paddle.{name}_like")
    def _(c):
        for dtype in EVERY:
            c(bools(2, 3) if dtype == "bool" else normal(2, 3, dtype=dtype).fixed(), _forms=False)
            c(normal(2, 3).fixed(), dtype, _forms=False)
        c(normal(0, 2))
        c(normal())
        c(normal(3, 4).strided())


@cases("paddle.full")
def _(c):
    for dtype in (None, *EVERY):
        c([2, 3], 1, dtype)
    c([2], 2.5)
    c([2], True)
    c([2], 7)
    c([], -1.5)
    c([0, 3], 1.0)
    c([2], float("inf"))
    c([2], array(3.0))
    c(array([2, 2], "int32"), 1.0, _forms=False)
    c([array(2, "int64"), 1], 1.0)
    c([2], "3.5")
    c(shape=[2], fill_value=1, dtype="int64")
    c([2], 300, "uint8")


@cases("paddle.full_like")
def _(c):
    for dtype in EVERY:
        c(bools(2, 3) if dtype == "bool" else normal(2, 3, dtype=dtype).fixed(), 1, _forms=False)
        c(normal(2, 3).fixed(), 1.0, dtype, _forms=False)
    c(normal(0, 2), 2.0)
    c(normal(), 2.0)
    c(ints(2), 2.7)
    c(normal(3, 4).strided(), 1.0)


@cases("paddle.empty", "paddle.empty_like")
def _(c):
    for dtype in EVERY:
        c.expr(f"(lambda t: (t.shape, t.dtype, t.stop_gradient))(paddle.empty([2, 3], '{dtype}'))")
        c.expr(f"(lambda t: (t.shape, t.dtype))(paddle.empty_like(x, '{dtype}'))", x=normal(2, 1))
    c.expr("(lambda t: (t.shape, t.dtype))(paddle.empty([]))")
    c.expr("(lambda t: (t.shape, t.dtype))(paddle.empty((0, 2)))")
    c.expr("(lambda t: (t.shape, t.dtype))(paddle.empty(paddle.to_tensor([2, 3])))")
    c.expr("(lambda t: (t.shape, t.dtype))(paddle.empty_like(x))", x=ints(0, 3))


@cases("paddle.arange")
def _(c):
    c(5)
    c(5.0)
    c(1, 5)
    c(1, 5, 2)
    c(5, 1, -2)
    c(0.5, 3)
    c(0, 1, 0.1)
    c(1, 2, 0.3, "float64")
    for dtype in (*FLOATS, *HALVES, "int32", "int64"):
        c(0, 6, 2, dtype)
    c(5, 5)
    c(end=4)
    c(start=2, end=4, step=1, dtype=of("paddle.int32"))
    c(array(1, "int64"), array(6, "int64"), array(2, "int64"), _forms=False)
    c(array(1.0), array(3.0), array(0.5), _forms=False, _no_grad=True)
    c(0, 5, 0, _raises=True)


@cases("paddle.linspace")
def _(c):
    for dtype in (None, *FLOATS, "int32", "int64"):
        c(0, 10, 5, dtype)
    c(0.0, 1.0, 1)
    c(1, -1, 4)
    c(0, 1, 7)
    c(array(0.0), array(2.0), array(3, "int32"), _forms=False, _no_grad=True)
    c(array(0.0, "float64"), 2.0, 3, _forms=False, _no_grad=True)


@cases("paddle.eye")
def _(c):
    for dtype in (None, *FLOATS, "int32", "int64"):
        c(3, dtype=dtype)
    c(2, 4)
    c(4, 2)
    c(1)
    c(0)
    c(3, None, "float64")
    c(-1, _raises=True)


@cases("paddle.to_tensor")
def _(c):
    for value in (
        "3", "2.5", "True", "[1, 2]", "[1.0, 2]", "[[True], [False]]", "(1, 2.5)", "np.ones((2, 2))", "np.arange(3)", "np.float32(3)",
        "np.int16([1, 2])", "[]", "[[], []]", "1 + 2j", "[1j]", "np.array(5)", "[np.float64(1), 2]", "np.zeros((0, 3), 'float32')",
        "[[1, 2], [3, 4.5]]", "np.array([True, False])", "2 ** 40", "-1", "[np.ones(2), np.zeros(2)]", "float('nan')", "paddle.ones([2])",
        "[paddle.ones([2]), paddle.zeros([2])]", "[paddle.ones([]), 2.0]", "np.uint8([200])", "np.float16([1.5])",
        "np.ones(2, 'complex64')",
    ):  # fmt: skip
        c.expr(f"paddle.to_tensor({value})")
    for dtype in EVERY:
        c.expr(f"paddle.to_tensor([0, 1, 2], '{dtype}')")
        c.expr(f"paddle.to_tensor([0.0, 1.5, 2.5], dtype='{dtype}')")
    c.expr("paddle.to_tensor([1.0], stop_gradient=False)")
    c.expr("paddle.to_tensor([1.0], 'float64', paddle.CPUPlace(), False)")
    c.expr("paddle.to_tensor([1.0], place='cpu')")
    c.expr("paddle.to_tensor([[1], [1, 2]])", _raises=True)
    c.expr("paddle.to_tensor('abc')", _raises=True)
    c.expr("paddle.to_tensor(['a'])", _raises=True)
    c.expr("paddle.to_tensor(None)", _raises=True)
    c.expr("paddle.to_tensor({})", _raises=True)
    c.expr("(lambda a: (lambda t: (t, a.fill(0), t))(paddle.to_tensor(a)))(np.ones(3))")


@cases("paddle.Tensor")
def _(c):
    c.expr("(paddle.Tensor(np.ones((2, 2), 'float32')), paddle.Tensor([1.0, 2.0]), paddle.Tensor(x))", x=normal(2).fixed())
    c.expr(
        "(x.shape, x.dtype, x.stop_gradient, x.is_leaf, x.persistable, x.ndim, str(x.place), type(x).__name__, isinstance(x, "
        "paddle.Tensor))",
        x=normal(2, 3),
    )
    c.expr(
        "(x.clone(), x.detach(), x.astype('float64'), x.cpu(), x.tolist(), x.numpy(), x.item(0), x[0, 1].item())", x=normal(2, 3).fixed()
    )
    c.expr("(np.asarray(x), np.array(x) + 1, float(x.sum()), bool(x.sum() > 100))", x=normal(2, 3).fixed())
    c.expr("(x.numpy(), x.numpy().dtype.name)", x=normal(2, 3, dtype="float64").strided().fixed())


@check(
    "paddle.Tensor.numpy",
    "paddle.Tensor.set_value",
    "paddle.Tensor.shape",
    "paddle.Tensor.dtype",
    "paddle.Tensor.stop_gradient",
    traits=("float32", "int64", "0-d", "empty", "odd"),
)
def a_tensor_says_what_it_is_and_takes_values(paddle, np, rng):
    found = []
    for values in (
        rng.standard_normal((3, 5)).astype("float32"),
        rng.integers(0, 9, (2,)),
        np.float32(3.0),
        np.zeros((0, 2), "float64"),
        np.array([True]),
    ):
        x = paddle.to_tensor(values)
        found.append([list(x.shape), x.dtype, x.stop_gradient, x.numpy(), x.numpy() is x.numpy(), x.dtype == paddle.float32, str(x.dtype)])
    x = paddle.to_tensor(np.ones((2, 2), "float32"))
    y = x
    x.set_value(np.full((2, 2), 3.0, "float32"))
    x.set_value(paddle.to_tensor(np.full((2, 2), 4.0, "float32")))
    before = x.numpy()
    x.stop_gradient = False
    return {"found": found, "x": x.detach(), "y": y.detach(), "before": before, "stop": x.stop_gradient}


@check("paddle.Tensor", traits=("float32", "float64", "int64", "bool", "bfloat16", "0-d", "empty", "one", "odd"))
def tensors_print_as_paddle_prints_them(paddle, np, rng):
    made = [
        rng.standard_normal((3, 5)).astype("float32"), rng.standard_normal(()).astype("float64"), np.zeros((0, 3), "float32"),
        np.ones((1,), "float32"), np.arange(7),
        np.array([[True], [False]]), np.array([1.0, np.nan, np.inf, -np.inf], "float32"), np.array([1e-8, 1e8, 0.5], "float32"),
        np.arange(2000, dtype="float32").reshape(40, 50),
        np.array(3), np.array([[-1, 100], [5, -70]], "int8"), np.arange(24.0).reshape(2, 3, 4), np.array([1e20, 1.0]),
        np.array([0.1, 0.25, 1000.0], "float32"), np.array([1 + 2j, -0.5j], "complex64"),
    ]  # fmt: skip
    found = [repr(paddle.to_tensor(v)) for v in made]
    x = paddle.to_tensor(made[0])
    x.stop_gradient = False
    found += [
        repr(x),
        str(x * 2),
        repr(x.astype("bfloat16")),
        repr(x.detach().transpose([1, 0])),
        f"{paddle.to_tensor(2.5)}",
        repr(paddle.nn.Linear(2, 2).weight),
    ]
    return found
