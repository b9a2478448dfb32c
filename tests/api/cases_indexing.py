"""Choosing elements, writing to them, sorting and searching."""

from tests.api.table import ALL_INTS, FLOATS, HALVES, apart, array, bools, cases, check, ints, normal


@cases("paddle.gather")
def _(c):
    for dtype in (*FLOATS, *HALVES, "int32", "int64", "uint8"):
        c(normal(5, 3, dtype=dtype), array([0, 4, 4, 1], "int64"))
    c(normal(5, 3), array([0, 2], "int32"), 1)
    c(normal(5, 3), array([0, 2], "int64"), axis=-1)
    c(normal(5, 3), array([[1], [3]], "int64"))
    c(normal(5, 3), array([], "int64"))
    c(normal(5, 3), array(2, "int64"))
    c(normal(5, 3).strided(), array([1, 1], "int64"))
    c(normal(5), array([0, 3], "int64"))
    c(normal(5, 3), array([0, 2], "int64"), array(1, "int32"))
    c(normal(2, 3, 4), array([2, 0], "int64"), 1)


@cases("paddle.gather_nd")
def _(c):
    for dtype in (*FLOATS, "int32", "int64", "bool"):
        c(bools(3, 4) if dtype == "bool" else normal(3, 4, dtype=dtype), array([[0, 1], [2, 3], [0, 1]], "int64"))
    c(normal(3, 4, 2), array([[1], [0]], "int64"))
    c(normal(3, 4, 2), array([[1, 2]], "int32"))
    c(normal(3, 4), array([[[0, 1]], [[2, 2]]], "int64"))
    c(normal(3, 4).strided(), array([[2, 1]], "int64"))
    c(normal(3, 4), array([1, 2], "int64"))
    c(normal(3, 4), ints(0, 2))


@cases("paddle.index_select")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(4, 3, dtype=dtype), array([3, 0, 0], "int64"))
    c(normal(4, 3), array([2, 1], "int32"), 1)
    c(normal(4, 3), array([2, 1], "int64"), axis=-1)
    c(normal(4, 3).strided(), array([1], "int64"))
    c(normal(4), array([1, 3], "int64"))


@cases("paddle.index_sample")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(3, 4, dtype=dtype), array([[0, 3], [1, 1], [2, 0]], "int64"))
    c(normal(3, 4), array([[0, 3, 1], [1, 1, 0], [2, 0, 3]], "int32"))
    c(normal(3, 4).strided(), array([[0], [1], [3]], "int64"))


@cases("paddle.masked_select")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(3, 4, dtype=dtype), bools(3, 4))
    c(normal(3, 4), array([False] * 4, "bool"))
    c(normal(3, 4), bools(4))
    c(normal(3, 4).strided(), bools(3, 4))
    c(normal(0), bools(0))
    c(normal(), array(True, "bool"))


@cases("paddle.scatter")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(4, 3, dtype=dtype), array([2, 0], "int64"), normal(2, 3, dtype=dtype))
    c(normal(4, 3), array([2, 0, 2], "int64"), normal(3, 3), overwrite=False)
    c(normal(4, 3), array([1, 3], "int32"), normal(2, 3), False)
    c(normal(4), array([1, 3], "int64"), normal(2))
    c(normal(4, 3).strided(), array([0], "int64"), normal(1, 3))
    c(normal(4, 3), array(2, "int64"), normal(3))


@cases("paddle.scatter_")
def _(c):
    c.expr("(paddle.scatter_(y, i, u), y, y.inplace_version)", y=normal(4, 3).fixed(), i=array([2, 0], "int64"), u=normal(2, 3).fixed())
    c.expr(
        "(paddle.scatter_(y, i, u, overwrite=False), y)",
        y=normal(4, 3, dtype="float64").fixed(),
        i=array([2, 2], "int64"),
        u=normal(2, 3, dtype="float64").fixed(),
    )
    c.expr(
        "(lambda y: (paddle.scatter_(y, i, u) is y, y, y.inplace_version))(x * 2)", x=normal(4, 3), i=array([2, 0], "int64"), u=normal(2, 3)
    )


@cases("paddle.nonzero")
def _(c):
    for dtype in (*FLOATS, "int32", "int64", "bool"):
        c(ints(3, 4, high=2, dtype=dtype).fixed())
        c(ints(3, 4, high=2, dtype=dtype).fixed(), True)
    c(bools(0, 3))
    c(array([0.0, 0.0]))
    c(bools(5))
    c(bools(2, 3, 4).strided(), as_tuple=True)


@cases("paddle.argsort", "paddle.sort")
def _(c):
    for name in ("argsort", "sort"):
        for dtype in (*FLOATS, "int32", "int64"):
            recipe = apart(3, 5, dtype=dtype) if "float" in dtype else ints(3, 5, low=-100, high=100, dtype=dtype)
            for options in ("", ", 0", ", -1, True", ", axis=1, descending=True"):
                c.expr(f"paddle.{name}(x{options})", x=recipe)
        c.expr(f"paddle.{name}(x, stable=True)", x=ints(20, high=3))
        c.expr(f"paddle.{name}(x, 0, True, stable=True)", x=ints(20, high=3))
        c.expr(f"paddle.{name}(x, 0)", x=apart(3, 5).strided())
        c.expr(f"paddle.{name}(x)", x=normal())
        c.expr(f"paddle.{name}(x)", x=normal(0, 3))
        c.expr(f"paddle.{name}(x)", x=array([1.0, float("nan"), -1.0, float("inf")]))
        c.expr(f"x.{name}(descending=True)", x=apart(4))
        c.expr(f"paddle.{name}(x, 3)", x=apart(3, 4), _raises=True)


@cases("paddle.topk")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        recipe = apart(3, 5, dtype=dtype) if "float" in dtype else array([[5, 1, 4, 2, 3], [9, 8, 1, 0, 2]], dtype)
        c(recipe, 2)
        c(recipe, 2, 0, False)
    c(apart(3, 5), 1, -1, True, False)
    c(apart(3, 5), k=3, axis=0)
    c(apart(3, 5), array(2, "int32"))
    c(apart(3, 5).strided(), 2)
    c(apart(5), 5)
    c(apart(3, 5), 6, _raises=True)


@cases("paddle.unique")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        x = array([2, 3, 3, 1, 5, 3], dtype)
        c(x, _no_grad=True)
        c(x, True, True, True, _no_grad=True)
    y = array([[2, 1, 3], [3, 0, 1], [2, 1, 3]], "int64")
    c(y)
    c(y, axis=0)
    c(y, return_index=True, return_inverse=True, return_counts=True, axis=0)
    c(y, return_inverse=True, axis=1)
    c(y, return_counts=True)
    c(y, return_index=True, dtype="int32")
    c(array([], "int64"))


INDICES = (
    "0", "-1", "1:3", ":, 0", "..., 1", "None", "None, 1:", ":, None, 2", "::2", "::-1", "3:0:-1", "1:1", "..., None", "1, 2", "-1, -2",
    "1:, :2", "...",
    "[0, 2]", "[0, 2], [1, 3]", "[[0, 1], [2, 3]]", ":, [0, 1, 1]", "1:, [0]", "np.array([0, 1])", "x > 0", "x[:, 0] > 0",
    "paddle.to_tensor([1, 0])",
    "paddle.to_tensor(2)", "paddle.to_tensor([0, 1]), paddle.to_tensor([2, 3])", "True", "[True, False, True, False]",
    ":, [True, False, True, True, False]",
    "x[0] > 0,", "slice(1, None), slice(None, None, 2)", "paddle.to_tensor([[0], [1]]), paddle.to_tensor([0, 2])", "0, ..., 1:3", "(1,)",
    "()", "[[0, 1]]",
    "paddle.to_tensor(1):3",
)  # fmt: skip


@cases("paddle.Tensor")
def _(c):
    for index in INDICES:
        if index == "x[0] > 0,":
            continue
        c.expr(f"x[{index}]", x=normal(4, 5))
    for index in (
        "0", "1, ..., 0", ":, 1:3, ::2", "[0, 1], :, [1, 2]", ":, [0, 2], [1, 1]", "None, 0, :, None", "..., [0, 0]", "[0], 1:, 0",
        "0, [1, 2]", "x[:, 0, 0] > 0, 1", "[[0], [1]], :, [[0, 1]]",
    ):  # fmt: skip
        c.expr(f"x[{index}]", x=normal(2, 3, 4))
    for dtype in (*ALL_INTS, *HALVES, "float64"):
        c.expr("(x[1], x[:, 1:], x[[0, 2]], x[x > 0])", x=normal(3, 4, dtype=dtype))
    c.expr("(x[0], x[1:, 2])", x=normal(3, 4).strided())
    c.expr("x[5]", x=normal(3, 4), _raises=True)
    c.expr("x[0, 0, 0]", x=normal(3, 4), _raises=True)
    c.expr("x['a']", x=normal(3, 4), _raises=True)
    c.expr("x[0]", x=normal(), _raises=True)
    c.expr("[x[0] for x in (x, x * 2)]", x=normal(2))
    c.expr("[t for t in x]", x=normal(3, 2))
    c.expr("(len(x), bool(x[0, 0] > 100), float(x[0, 0]), int(x[0, 1] * 10), x[0, 0].item(), x.tolist())", x=normal(3, 2))


def _written(paddle, x, index, value, base=None):
    namespace = {"paddle": paddle, "x": x, "v": value}
    exec(f"x[{index}] = v", {"np": __import__("numpy")}, namespace)
    return x


WRITES = (
    "0", "-1", "1:3", ":, 0", "..., 1", "::2", "::-1", "1, 2", "1:, :2", "...", "[0, 2]", "[0, 2], [1, 3]", ":, [0, 1]", "x > 0",
    "x[:, 0] > 0", "paddle.to_tensor([1, 0])", "[True, False, True, False]", "1:, [0]", "paddle.to_tensor(2)", "None, 1", "1:1",
)  # fmt: skip


@check("paddle.Tensor", "paddle.Tensor.set_value")
def numbers_are_written_to_places(paddle, np, rng):
    found = {}
    for index in WRITES:
        for dtype in ("float32", "int64"):
            x = paddle.to_tensor(np.round(rng.standard_normal((4, 5)) * 3).astype(dtype))
            found[f"{index} {dtype}"] = [_written(paddle, x, index, 7), x.inplace_version]
    return found


@check("paddle.Tensor", traits=("gradient", "float32"))
def tensors_are_written_to_places_with_gradients(paddle, np, rng):
    found = {}
    for index in WRITES:
        base = paddle.to_tensor(rng.standard_normal((4, 5)).astype("float32"))
        base.stop_gradient = False
        value = paddle.to_tensor(rng.standard_normal(()).astype("float32"))
        value.stop_gradient = False
        x = base * 1
        _written(paddle, x, index, value)
        masked = ">" in index or "True" in index or index == "1:1"  # where Paddle has no gradient for the value
        weight = paddle.to_tensor(rng.standard_normal((4, 5)).astype("float32"))
        found[index] = {"result": x, "grad": paddle.grad((x * weight).sum(), [base] if masked else [base, value], allow_unused=True)}
    return found


@check("paddle.Tensor")
def values_are_broadcast_and_cast_when_they_are_written(paddle, np, rng):
    found = []
    for index, value in (
        ("0", [1.0, 2.0, 3.0]),
        (":, 1", [5.0, 6.0]),
        ("1:, 1:", 9),
        ("[0, 1]", np.ones((2, 3), "float32")),
        ("...", 0.5),
        (":", paddle.zeros([3])),
    ):
        x = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))
        value = paddle.to_tensor(value) if isinstance(value, list) else value
        found.append(_written(paddle, x, index, value))
    return found
