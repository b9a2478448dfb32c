"""Complex numbers, matrices, medians, histograms, scatters, and what else `paddle` has of tensors."""

from tests.api.table import FLOATS, INTS, apart, array, bools, cases, caught, check, ints, normal, uniform

COMPLEX = ("complex64", "complex128")


@cases("paddle.real")
def _(c):
    for dtype in COMPLEX:
        c(normal(3, 4, dtype=dtype))
    c(normal(0, 3, dtype="complex64"))
    c(normal(dtype="complex128"))
    c(normal(3, 4, dtype="complex64").strided())
    c(normal(3), _raises=True)


@cases("paddle.imag")
def _(c):
    for dtype in COMPLEX:
        c(normal(3, 4, dtype=dtype))
    c(normal(0, 3, dtype="complex64"))
    c(normal(dtype="complex128"))
    c(normal(3, 4, dtype="complex64").strided())
    c(normal(3), _raises=True)


@cases("paddle.conj")
def _(c):
    for dtype in (*COMPLEX, *FLOATS, *INTS):
        c(normal(3, 4, dtype=dtype))
    c(normal(0, 3, dtype="complex64"))
    c(normal(dtype="complex64"))
    c(normal(3, 1, dtype="complex64").strided())


@cases("paddle.complex")
def _(c):
    c(normal(3, 4), normal(3, 4), _forms=False)
    c(normal(3, 1, dtype="float64"), normal(4, dtype="float64"))


@cases("paddle.multiply")
def _(c):
    c(normal(3, 4, dtype="complex64"), normal(4, dtype="complex64"), _forms=False)
    c.expr("paddle.conj(x / y) * x - y", x=normal(3, 4, dtype="complex128"), y=normal(3, 4, dtype="complex128"))
    c.expr("paddle.abs(x * 2)", x=normal(3, 4, dtype="complex128"))
    c.expr("paddle.matmul(x, y)", x=normal(3, 4, dtype="complex128"), y=normal(4, 2, dtype="complex128"))
    c.expr("x * y", x=normal(3, dtype="float32"), y=normal(3, dtype="complex64"))


@cases("paddle.cholesky")
def _(c):
    for dtype in FLOATS:
        for upper in (False, True):
            c.expr(
                f"paddle.cholesky(paddle.matmul(x, x, transpose_y=True) + paddle.eye(3, dtype=x.dtype), upper={upper})",
                x=normal(3, 3, dtype=dtype),
                _rtol=1e-4 if dtype == "float32" else None,
            )
    c.expr("paddle.cholesky(paddle.matmul(x, x, transpose_y=True) + paddle.eye(4, dtype='float64'))", x=normal(2, 3, 4, 4, dtype="float64"))
    c(array([[4.0]]))
    c(array([[1.0, 2.0], [2.0, 1.0]]), _raises=True)
    c(normal(2, 3), _raises=True)


@cases("paddle.inverse")
def _(c):
    c(array([[2.0, 1.0], [0.5, -3.0]]))
    c(array([[2.0, 1.0], [0.5, -3.0]], "float64").strided(), _second=True)
    c(normal(2, 3, 3, dtype="float64"))
    c(normal(1, 1, dtype="float64"))
    c(normal(3, 3, dtype="complex128"))
    c(array([[1.0, 2.0], [2.0, 4.0]]), _raises=True)
    c(normal(2, 3), _raises=True)
    c(ints(2, 2), _raises=True)


@cases("paddle.cross")
def _(c):
    c(normal(4, 3), normal(4, 3))
    c(normal(3, 3, dtype="float64"), normal(3, 3, dtype="float64"), axis=1, _second=True)
    c(normal(3, 2, 3), normal(3, 2, 3))
    c(normal(2, 3, 1), normal(2, 3, 1), axis=-2)
    c(normal(4, 3).strided(), normal(4, 3).strided())
    c(normal(4, 3, dtype="int64"), normal(4, 3, dtype="int64"))
    c(normal(0, 3), normal(0, 3))
    c(normal(2, 4), normal(2, 4), _raises=True)
    c(normal(2, 3), normal(2, 3), axis=0, _raises=True)
    c(normal(1, 3), normal(2, 3), _raises=True)


@cases("paddle.histogram")
def _(c):
    for dtype in (*FLOATS, *INTS):
        c(normal(40, dtype=dtype), bins=7, min=-2, max=2)
        c(normal(5, 9, dtype=dtype), 5)
    c(array([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    c(array([1.0, 1.0]), bins=4)
    c(normal(33), bins=6, min=-2, max=3, density=True)
    c(normal(33), bins=6, min=-2, max=3, weight=uniform(33).fixed())
    c(normal(33), bins=6, min=-2, max=3, weight=uniform(33).fixed(), density=True)
    c(array([1.0, float("nan"), 3.0]), bins=3)
    c(normal(0), bins=3)
    c(normal(4, 5).strided(), bins=3)
    c(normal(3), bins=0, _raises=True)
    c(normal(3), min=3, max=1, _raises=True)


@cases("paddle.increment")
def _(c):
    for dtype in (*FLOATS, *INTS):
        c(normal(1, dtype=dtype), _no_grad=True, _forms=False)
        c(normal(dtype=dtype), 3, _no_grad=True)
    c(normal(1), 0.25, _no_grad=True)
    c(normal(2), _raises=True)
    c.expr("(lambda y: [paddle.increment(y) is y, y, y.inplace_version])(x * 1)", x=normal(1).fixed())


@cases("paddle.median")
def _(c):
    for dtype in FLOATS:
        c(apart(3, 5, dtype=dtype))
        c(apart(3, 4, dtype=dtype), axis=0)
        c(apart(3, 4, dtype=dtype), axis=1, keepdim=True)
        c(apart(3, 4, dtype=dtype), axis=-1, mode="min")
        c(apart(3, 4, dtype=dtype), mode="min", keepdim=True)
    for dtype in INTS:
        c(apart(3, 4, dtype=dtype, step=4), axis=1)
        c(apart(3, 4, dtype=dtype, step=4), axis=1, mode="min")
    c(apart(3, 4).strided(), axis=0)
    c(array([4.0, 2.0, 2.0, 2.0, 5.0]))
    c(array([2.0, 9.0, 2.0, 2.0]))
    c(array([2.0, 9.0, 2.0, 2.0]), mode="min")
    c(array([1.0, float("nan"), 3.0, 2.0]), _no_grad=True)
    c(array([1.0, float("nan"), 3.0]), axis=0, mode="min", _no_grad=True)
    c(normal())
    c(normal(), axis=0)
    c(normal(2, 0), axis=0)
    c(normal(0, 2), axis=0, _no_grad=True)
    c(normal(2, 3), axis=2, _raises=True)
    c(normal(2, 3), mode="max", _raises=True)
    c(normal(2, 3), axis=[], _raises=True)


@cases("paddle.nanmedian")
def _(c):
    for dtype in FLOATS:
        c(array([[1.0, float("nan"), 3.0, 2.0], [5.0, 4.0, float("nan"), float("nan")]], dtype))
        c(array([[1.0, float("nan"), 3.0, 2.0], [5.0, 4.0, float("nan"), float("nan")]], dtype), axis=1)
        c(array([[1.0, float("nan"), 3.0, 2.0], [5.0, 4.0, float("nan"), float("nan")]], dtype), axis=1, mode="min", keepdim=True)
        c(apart(2, 3, 5, dtype=dtype), axis=[0, 2])
    c(array([float("nan")] * 2), _no_grad=True)
    c(apart(7, dtype="int64", step=4))
    c(normal(2, 3), mode="max", _raises=True)


@cases("paddle.multiplex")
def _(c):
    c([normal(4, 3), normal(4, 3), normal(4, 3)], array([[2], [0], [1], [0]], "int32"), _forms=False)
    c([normal(4, 3, dtype="float64"), normal(4, 3, dtype="float64")], array([[1], [0], [1], [1]], "int32"), _second=True)
    c([ints(3, 2, 2), ints(3, 2, 2)], array([[1], [0], [1]], "int32"))
    c([normal(2, 1), normal(2, 1)], array([[1], [1]], "int32"))
    c([normal(2, 2)], array([[0], [0]], "int32"), _raises=True)
    c([normal(2, 2), normal(2, 2)], array([0, 1], "int32"), _raises=True)
    c([normal(2, 2), normal(2, 2)], array([[0], [2]], "int32"), _raises=True)


@cases("paddle.scatter")
def _(c):
    for overwrite in (True, False):
        c(normal(4, 3), array([2, 0], "int64"), normal(2, 3), overwrite, _forms=overwrite)
        c(normal(4, dtype="float64"), array([2, 0, 1], "int32"), normal(3, dtype="float64"), overwrite)
        c(ints(4, 3), array([2, 0], "int64"), ints(2, 3), overwrite)
    c(normal(4, 3), array([2, 2, 1, 2], "int64"), normal(4, 3), False)
    c(normal(4, 3), array([2, 2, 1, 2], "int64"), normal(4, 3).fixed())
    c(normal(4, 3), array([4], "int64"), normal(1, 3), _raises=True)


@cases("paddle.scatter_nd_add")
def _(c):
    c(normal(4, 3), array([[1], [3], [1]], "int64"), normal(3, 3))
    c(normal(4, 3, dtype="float64"), array([[1, 2], [3, 0], [1, 2]], "int32"), normal(3, dtype="float64"), _second=True)
    c(normal(4, 3, 2), array([[[1, 2], [3, 0]], [[1, 2], [-1, 1]]], "int64"), normal(2, 2, 2))
    c(ints(5), array([[1], [1], [4]], "int64"), ints(3))
    c(normal(3), array([1], "int64"), normal())
    c(normal(3, 4).strided(), array([[1], [1]], "int64"), normal(2, 4))
    c(normal(3), array([[1], [1]], "int64"), normal(3), _raises=True)
    c(normal(3), array([[5]], "int64"), normal(1), _raises=True)
    c(normal(3), array([[1]], "int64"), normal(1, dtype="float64"), _raises=True)


@cases("paddle.scatter_nd")
def _(c):
    c(array([[1], [3], [1]], "int64"), normal(3, 3), [4, 3], _forms=False)
    c(array([[1, 1], [0, 2], [1, -2]], "int32"), normal(3, 2, dtype="float64"), [2, 3, 2], _second=True)
    c(array([[1], [1]], "int64"), ints(2), [3])
    c(array([[1], [5]], "int64"), normal(2), [3], _raises=True)


@cases("paddle.put_along_axis")
def _(c):
    c(normal(3, 4), array([[0], [2], [1]], "int64"), normal(3, 1), 1)
    c(normal(3, 4, dtype="float64"), array([[0, 0], [2, 3], [1, 1]], "int64"), normal(3, 2, dtype="float64"), 1, "add")
    c(normal(3, 4), array([[0, 1, 2, 0]], "int64"), 2.5, 0)
    c(ints(3, 4), array([[0, 1, 2, 0]], "int32"), ints(1, 4), 0, "add")
    c(normal(3, 4), array([0], "int64"), normal(1), 0, _raises=True)


@cases("paddle.index_add")
def _(c):
    c(normal(4, 3), array([0, 2, 0], "int64"), 0, normal(3, 3))
    c(normal(3, 4, dtype="float64"), array([1, 1], "int32"), -1, normal(3, 2, dtype="float64"), _second=True)


@cases("paddle.shard_index")
def _(c):
    for dtype in INTS:
        for shard in (0, 1, 2):
            c(ints(5, 1, high=20, dtype=dtype), 20, 3, shard)
    c(ints(7, 1, high=20), 20, 2, 1, -100)
    c(ints(0, 1), 20, 2, 1)
    c(ints(3, high=20), 20, 2, 2, _raises=True)
    c(array([[20]], "int64"), 20, 2, 1, _raises=True)
    c(normal(3), 20, 2, 1, _raises=True)


@cases("paddle.multinomial")
def _(c):
    for dtype in FLOATS:
        c(uniform(7, dtype=dtype), 5, _exact=True, _no_grad=True)
        c(uniform(3, 9, dtype=dtype), 20, True, _exact=True, _no_grad=True)
        c(uniform(3, 9, dtype=dtype), 9, _exact=True, _no_grad=True)
    c(array([[0.0, 1.0, 0.0, 3.0]]), 2, _exact=True, _no_grad=True)
    c(uniform(7), _exact=True, _no_grad=True)
    c(array([0.0, 1.0]), 2, _raises=True)
    c(array([0.0, 0.0]), _raises=True)
    c(array([-1.0, 1.0]), _raises=True)
    c(uniform(2, 2, 2), _raises=True)
    c(uniform(3), 0, _raises=True)
    c(ints(3, low=1), _raises=True)


@check("paddle.multinomial")
def draws_go_on_where_others_stopped(paddle, np, rng):
    weights = paddle.to_tensor([0.1, 0.5, 0.2])
    return {"first": paddle.multinomial(weights, 4, True), "between": paddle.uniform([3]), "second": paddle.multinomial(weights, 2)}


@check("paddle.increment")
def a_change_in_between_is_found_by_backward(paddle, np, rng):
    x = paddle.to_tensor([2.0], stop_gradient=False)
    y = x * 1
    z = y * y
    paddle.increment(y)
    return {"said": caught(z.backward)}


@cases("paddle.where")
def _(c):
    c(bools(3, 4), normal(3, 4, dtype="complex64"), normal(3, 4, dtype="complex64"), _forms=False)


for _name in (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log10", "log1p", "log2", "sigmoid", "sign",
    "sin", "sinh", "sqrt", "tan", "tanh", "mean", "sgn", "angle",
):  # fmt: skip

    @cases(f"paddle.{_name}")
    def _(c):
        rtol = 1e-6 if c.names[0] in ("paddle.exp", "paddle.sigmoid") else None  # which Paddle computes in float32
        for dtype in COMPLEX:
            c(normal(3, 5, dtype=dtype), _forms=False, _rtol=None if dtype == "complex64" else rtol)
        c(normal(dtype="complex128"), _rtol=rtol)
        c(normal(4, 1, 3, dtype="complex64").strided())
        c(normal(0, 3, dtype="complex64"), _no_grad=True) if c.names[0] != "paddle.mean" else None
        # Quadrants, axes and numbers large and small: where roots and logarithms have their cuts.
        points = [
            3 + 4j,
            -3 + 4j,
            -3 - 4j,
            3 - 4j,
            0.5 + 0.25j,
            -0.5 + 0.25j,
            -2 + 1e-3j,
            -2 - 1e-3j,
            1e-3 + 2j,
            1e-3 - 2j,
            15 + 1j,
            -15 + 1j,
        ]
        c(array(points, "complex128"), _rtol=rtol or 1e-9)


@cases("paddle.pow")
def _(c):
    for dtype in COMPLEX:
        c(normal(3, 4, dtype=dtype), normal(4, dtype=dtype), _forms=False, _rtol=2e-5 if dtype == "complex64" else None)
    c(array([0j, 1 + 1j, -2j], "complex128"), array([2 + 0j, 0j, 3 + 0j], "complex128"), _no_grad=True)


for _name in ("isnan", "isinf", "isfinite"):

    @cases(f"paddle.{_name}")
    def _(c):
        c(array([1 + 1j, complex("nan"), complex(0, float("inf")), complex(float("-inf"), 1)], "complex64"), _no_grad=True)


@cases("paddle.norm")
def _(c):
    for p in (2, 1, float("inf"), 3):
        c(normal(3, 4, dtype="complex128"), p, _forms=False, _no_grad=True)
    c(normal(3, 4, dtype="complex64"), axis=1, _no_grad=True)


@cases("paddle.full")
def _(c):
    c([2, 3], 1 - 2j)
    c([], 2j, "complex128")


@cases("paddle.atan2")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 5, dtype=dtype), normal(5, dtype=dtype), _forms=False)
    c(normal(2, 3).strided(), normal(2, 3))
    c(array([0.0, -0.0, 0.0, -0.0, 1.0, -1.0]), array([1.0, 1.0, -1.0, -1.0, 0.0, 0.0]), _no_grad=True)


@cases("paddle.angle")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 5, dtype=dtype), _no_grad=True)
