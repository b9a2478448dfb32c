"""What orders along an axis: sort, argsort, topk, kthvalue, mode, median, along middle axes, of equal elements, of numbers without axes."""

from tests.api.table import apart, array, bools, cases, ints, normal

TIES = array([[2.0, 2.0, 1.0, 1.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 4.0, 3.0, 3.0, 5.0]])


@cases("paddle.kthvalue")
def _(c):
    for dtype in ("float32", "float64", "int32", "int64"):
        c(apart(3, 4, 2, dtype=dtype, step=1.0), 2)
        c(apart(3, 4, 2, dtype=dtype, step=1.0), 3, 1, True)
    for axis in range(-4, 4):
        c(apart(2, 3, 4, 3), 2, axis)
    c(normal().fixed(), 1)
    c(normal(1), 1, keepdim=True)
    c(normal(0, 3), 2)
    c(array([[2.0, float("nan"), 1.0, float("nan"), 3.0]]).fixed(), 2)
    for k, axis in ((0, 1), (5, 1), (1, 3), (1, -4)):
        c(apart(3, 4, 2), k, axis, _raises=True)
    c(normal(3, 0), 1, _raises=True)


@cases("paddle.mode")
def _(c):
    for dtype in ("float32", "float64", "int32", "int64"):
        c(ints(3, 4, 2, high=3, dtype=dtype))
    for axis in range(-4, 4):
        c(ints(2, 3, 4, 5, high=3, dtype="float32"), axis)
        c(ints(2, 3, 4, 5, high=3, dtype="float32"), axis, True)
    c(TIES)
    c(TIES, 0)
    c(normal().fixed())
    c(normal(1), keepdim=True)
    c(normal(0, 3))


@cases("paddle.topk")
def _(c):
    for axis in range(-4, 4):
        c(apart(2, 3, 4, 3), 2, axis)
        c(apart(2, 3, 4, 3), 2, axis, False)
    c(normal(), 1)
    c(normal(), 1, 0, False)
    c(normal(0, 3), 2)
    c(normal(), 1, 1, _raises=True)
    c(normal(), 0, _raises=True)
    c.expr("(lambda r: [type(r).__name__, r._fields, r.values, r.indices])(paddle.topk(x, 2))", x=apart(5))
    c.expr("(lambda r: [type(r).__name__, r.values, r.indices])(x.topk(2, axis=1))", x=apart(2, 3, 2))


@cases("paddle.sort")
def _(c):
    for axis in range(-4, 4):
        c(apart(2, 3, 4, 3), axis, descending=axis % 2 == 0)
    c(TIES, 1, True, True)


@cases("paddle.argsort")
def _(c):
    for axis in range(-3, 3):
        c(apart(3, 4, 2), axis)
        c(TIES, axis % 2, axis > 0, True)


@cases("paddle.median")
def _(c):
    for axis in range(-4, 4):
        c(apart(2, 3, 4, 3), axis)
        c(apart(2, 3, 4, 3), axis, True, "min")


@cases("paddle.take_along_axis")
def _(c):
    for axis in (0, 1, -2, -1):
        c(normal(2, 2, 2), ints(2, 2, 2, high=2), axis)
    c(normal(2, 3, 4), ints(1, 2, 1, high=3), 1)
    c(normal(2, 3, 4), ints(2, 5, 4, high=3), 1, False)


@cases("paddle.put_along_axis")
def _(c):
    for axis in (0, 1, -1):
        c(normal(2, 3, 4), array([[[1, 0, 1, 0]]], "int64"), 2.0, axis)
        c(normal(2, 3, 4), array([[[1], [0], [1]]], "int64"), 2.0, axis, "add")
    c(normal(2, 3, 4), array([[[0, 1, 2, 2]], [[1, 0, 0, 2]]], "int64"), normal(2, 1, 4), 1, broadcast=False)
    c(normal(2, 3, 4), array([[[0, 1, 2, 2]], [[1, 0, 0, 2]]], "int64"), normal(2, 1, 4), 1, "add", broadcast=False)
    c(normal(2, 3, 4), array([[[0, 1, 2, 2]], [[1, 0, 0, 2]]], "int64"), normal(2, 1, 4), 1, "mul", broadcast=False)


@cases("paddle.diff")
def _(c):
    for dtype in ("float32", "float64", "int32", "int64"):
        c(normal(3, 4, dtype=dtype))
    for axis in range(-3, 3):
        c(normal(2, 3, 4), 1, axis)
    c(normal(5), 2)
    c(normal(2, 3), 1, 0, normal(1, 3), normal(2, 3))
    c(bools(3, 4))
    c(normal(1, 3), axis=0)


@cases("paddle.nanmean")
def _(c):
    nans = array([[1.0, float("nan"), 3.0], [float("nan"), float("nan"), 6.0]])
    c(nans)
    for axis in (0, 1, -1, [0, 1]):
        c(nans, axis)
        c(nans, axis, True)
    c(normal(2, 3, 4), [0, 2])


@cases("paddle.msort")
def _(c):
    c(apart(3, 4, 2))
    c(ints(4))
