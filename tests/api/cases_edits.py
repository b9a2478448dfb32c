"""Elements replaced, and the names that Paddle has in place."""

from tests.api.table import FLOATS, array, bools, cases, ints, normal, uniform


@cases("paddle.masked_fill")
def _(c):
    for dtype in (*FLOATS, "int64"):
        c(normal(3, 4, dtype=dtype), bools(3, 4), 2)
    c(normal(3, 4), bools(4), 0.5)
    c(normal(0, 4), bools(4), 0.5)


@cases("paddle.masked_scatter")
def _(c):
    c(normal(3, 4), bools(3, 4), normal(4, 3))
    c(normal(3, 4, dtype="float64"), bools(4), normal(20, dtype="float64"))


@cases("paddle.index_fill")
def _(c):
    for dtype in (*FLOATS, "int64"):
        c(normal(3, 4, dtype=dtype), array([0, 2], "int64"), 0, 3, _forms=False)
    c(normal(3, 4), array([1, 1], "int32"), -1, 0.5, _forms=False)


@cases("paddle.index_put")
def _(c):
    c(normal(4, 3), (array([0, 2], "int64"),), normal(2, 3))
    c(normal(4, 3), (array([0, 2], "int64"), array([1, 1], "int64")), normal(2))
    c(normal(4, 3, dtype="float64"), (array([0, 0, 3], "int64"),), normal(3, 3, dtype="float64"), True)
    c(ints(4, 3), (array([[0], [3]], "int64"), array([1, 2], "int64")), ints(2, 2), True)


@cases("paddle.copysign")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype), array([1.0, -2.0, -0.0, 0.0], dtype).fixed())
    c(normal(3), -1.0)


@cases("paddle.hypot")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype), normal(4, dtype=dtype), _forms=False)


@cases("paddle.ldexp")
def _(c):
    c(normal(3, 4), ints(4, low=-3, dtype="int32"), _forms=False)
    c(ints(3), ints(3), _forms=False)


@cases("paddle.sinc")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype), _forms=False)
    c(array([0.0, 0.5]), _forms=False)


@cases("paddle.nan_to_num")
def _(c):
    c(array([1.0, float("nan"), float("inf"), -float("inf")]), _forms=False)
    c(array([1.0, float("nan"), float("inf"), -float("inf")], "float64"), 1.0, 5.0, -6.0, _forms=False)
    c(normal(2, 3), _forms=False)


@cases("paddle.baddbmm")
def _(c):
    c(normal(2, 3, 5), normal(2, 3, 4), normal(2, 4, 5), 0.5, 2.0)


@cases("paddle.sub", "paddle.mul", "paddle.div", "paddle.less", "paddle.clamp")
def _(c):
    c(normal(3, 4), normal(4))
    c.expr("paddle.mul(x, y)", x=normal(3), y=normal(3))
    c.expr("paddle.div(x, y)", x=normal(3), y=uniform(3, low=1, high=2))
    c.expr("paddle.less(x, y)", x=normal(3), y=normal(3))
    c.expr("paddle.clamp(x, -0.5, 0.5)", x=normal(7))
    for call in ("sub_(y)", "mul_(y)", "div_(y)", "clamp_(-0.5, 0.5)", "acosh_()", "asinh_()"):
        c.expr(f"(lambda z: [z.{call} is z, z, z.inplace_version])(x * 1)", x=uniform(3, low=1.5, high=3), y=uniform(3, low=1, high=2))
    # A composition counts one change here, and as many as it is made of in Paddle.
    c.expr("(lambda z: [z.hypot_(y) is z, z])(x * 1)", x=normal(3), y=normal(3))
    c.expr("(lambda z: [z.atanh_() is z, z, z.inplace_version])(x * 1)", x=uniform(3, low=-0.5, high=0.5))


@cases("paddle.Tensor.uniform_", "paddle.Tensor.normal_", "paddle.Tensor.fill_diagonal_")
def _(c):
    c.expr("x.uniform_(-1, 2)", x=normal(3, 4).fixed())
    c.expr("x.normal_(1, 2)", x=normal(3, 4).fixed())
    c.expr("x.fill_diagonal_(2.0, 1)", x=normal(3, 4).fixed())
    c.expr("x.fill_diagonal_(2.0, wrap=True)", x=normal(5, 2).fixed())
    c.expr("x.fill_diagonal_(2.0)", x=normal(3, 3, 3).fixed())
    c.expr("x.requires_grad_(False).stop_gradient", x=normal(3))
