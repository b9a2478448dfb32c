"""Empty tensors, axes of one, odd sizes and non-contiguous tensors where `derived.py` cannot make them of another case: sizes fit options, positions or each other."""

from tests.api.table import apart, array, cases, normal, uniform

F = "paddle.nn.functional"


for _name in ("max", "min"):

    @cases(f"paddle.{_name}")
    def _(c):
        c(apart(0, 4), 1)
        c(apart(3, 0), 0)
        c(apart(0, 4), _raises=True)
        c(apart(0, 4), 0, _raises=True)


for _name in ("argmax", "argmin"):

    @cases(f"paddle.{_name}")
    def _(c):
        c(apart(0, 4).fixed(), 1)
        c(apart(3, 0).fixed(), 0)


@cases("paddle.logsumexp")
def _(c):
    c(normal(0, 4), 1)
    c(normal(0, 4), 0, True)


@cases("paddle.std", "paddle.var")
def _(c):
    for axis in (None, 0, 1):
        c.expr(f"(paddle.std(x, {axis}), paddle.var(x, {axis}, False, True))", x=normal(0, 3), _no_grad=True)


@cases("paddle.broadcast_to")
def _(c):
    c(normal(1, 0), [2, 0])


@cases("paddle.expand")
def _(c):
    c(normal(1, 0), [2, 0])
    c(normal(0, 3), [2, 0, -1])


@cases("paddle.expand_as")
def _(c):
    c(normal(1, 0), normal(2, 0))


@cases("paddle.cholesky")
def _(c):
    c(normal(0, 0))
    c(normal(0, 3, 3))


@cases("paddle.inverse")
def _(c):
    c(normal(0, 0))
    c(normal(0, 2, 2, dtype="float64"))


@cases("paddle.index_select")
def _(c):
    c(normal(4, 0), array([3, 0, 0], "int64"))
    c(normal(4, 3), array([], "int64"))


@cases("paddle.scatter")
def _(c):
    c(normal(4, 0), array([3, 0], "int64"), normal(2, 0))
    c(normal(4, 1), array([3, 0], "int64"), normal(2, 1))


@cases("paddle.scatter_")
def _(c):
    for size in (0, 1):
        c.expr("(paddle.scatter_(y, i, u), y)", y=normal(3, size).fixed(), i=array([2, 0], "int64"), u=normal(2, size).fixed())


@cases("paddle.scatter_nd")
def _(c):
    c(array([[2], [0]], "int64"), normal(2, 0), [4, 0])


@cases("paddle.scatter_nd_add")
def _(c):
    c(normal(4, 0), array([[1], [3], [1]], "int64"), normal(3, 0))


@cases("paddle.split")
def _(c):
    c(normal(2, 1), 2)
    c(normal(4, 3), 2)
    c(normal(7, 3), [2, 5])


@cases("paddle.multinomial")
def _(c):
    c(uniform(0, low=0.1), 5, _raises=True)


@cases("paddle.arange")
def _(c):
    c(normal(0), normal(0), normal(0), _raises=True)


@cases("paddle.linspace")
def _(c):
    c(normal(0), normal(0), 5, _raises=True)


@cases(f"{F}.nll_loss")
def _(c):
    c(normal(3, 5), array([2, 2, 2], "int64"), ignore_index=2)


@cases(f"{F}.ctc_loss")
def _(c):
    c(normal(5, 0, 4), array([[1, 2]], "int32"), array([5], "int64"), array([2], "int64"), _raises=True)


@cases("paddle.nn.CTCLoss")
def _(c):
    c.layer()(normal(5, 1, 4), array([[1, 2]], "int32"), array([5], "int64"), array([2], "int64"))
    c.layer()(normal(5, 0, 4), array([[1, 2]], "int32"), array([5], "int64"), array([2], "int64"), _raises=True)


# --- two shapes that fit each other

for _name in ("mse_loss", "l1_loss", "square_error_cost"):

    @cases(f"{F}.{_name}")
    def _(c):
        c(normal(3, 1), normal(4))
        c(normal(2, 3, dtype="float64"), normal(1, 3, dtype="float64"))


for _name in ("MSELoss", "L1Loss"):

    @cases(f"paddle.nn.{_name}")
    def _(c):
        c.layer()(normal(3, 1), normal(4))


@cases("paddle.nn.MarginRankingLoss")
def _(c):
    c.layer(0.5)(normal(3, 1), normal(4), array([[1.0], [-1.0], [1.0]]).fixed())


@cases("paddle.nn.PairwiseDistance")
def _(c):
    c.layer()(normal(3, 4), normal(1, 4))


@cases("paddle.Tensor")
def _(c):
    c.expr("(x + y, x - y, x * y, x / y, x < y, x == y, x @ x.T, y - 1, 2 / y)", x=normal(3, 1), y=uniform(4, low=0.5))
