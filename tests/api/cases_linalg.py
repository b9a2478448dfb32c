"""Products of matrices."""

from tests.api.table import FLOATS, cases, normal


@cases("paddle.matmul")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype), normal(4, 2, dtype=dtype), _second=True)
        c(normal(4, dtype=dtype), normal(4, dtype=dtype))
        c(normal(2, 3, 4, dtype=dtype), normal(4, dtype=dtype))
        c(normal(4, dtype=dtype), normal(2, 4, 3, dtype=dtype))
    c(normal(2, 1, 3, 4), normal(5, 4, 2), _no_grad=True)
    c(normal(4, 3), normal(4, 2), True)
    c(normal(3, 4), normal(2, 4), transpose_y=True)
    c(normal(2, 4, 3), normal(2, 5, 4), True, True)
    c(normal(4, 3).strided(), normal(3, 2).strided())
    c(normal(0, 4), normal(4, 2))
    c(normal(3, 0), normal(0, 2))
    c(normal(1, 1), normal(1, 1))
    c(normal(3, 4), normal(3, 4), _raises=True)
    for dtype in ("int32", "int64"):
        c(normal(2, 3, dtype=dtype), normal(3, 2, dtype=dtype))
    c.expr("(x @ y, x.matmul(y), x.mm(y))", x=normal(2, 3), y=normal(3, 2))


@cases("paddle.mm")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype), normal(4, 2, dtype=dtype))
    c(normal(2, 3, 4), normal(2, 4, 2))
    c(normal(4, 3).strided(), normal(3, 1))
    c(normal(0, 3), normal(3, 1))
    c(normal(3, 4), normal(3, 4), _raises=True)


@cases("paddle.bmm")
def _(c):
    for dtype in FLOATS:
        c(normal(2, 3, 4, dtype=dtype), normal(2, 4, 2, dtype=dtype))
    c(normal(1, 3, 1), normal(1, 1, 5))
    c(normal(0, 3, 2), normal(0, 2, 5))
    c(normal(2, 3, 4).strided(), normal(2, 4, 3).strided())
    c(normal(3, 4), normal(4, 2), _raises=True)
    c(normal(2, 3, 4), normal(3, 4, 2), _raises=True)
    c(normal(2, 3, 4), normal(2, 3, 4), _raises=True)


@cases("paddle.mv")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype), normal(4, dtype=dtype))
    c(normal(1, 1), normal(1))
    c(normal(3, 5).strided(), normal(5))
    c(normal(3, 4), normal(3), _raises=True)


@cases("paddle.dot")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(4, dtype=dtype), normal(4, dtype=dtype))
    c(normal(2, 3), normal(2, 3))
    c(normal(1), normal(1))
    c(normal(0), normal(0))
    c(normal(3, 5).strided(), normal(3, 5))
    c(normal(3), normal(4), _raises=True)


@cases("paddle.addmm")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 2, dtype=dtype), normal(3, 4, dtype=dtype), normal(4, 2, dtype=dtype))
    c(normal(3, 2), normal(3, 4), normal(4, 2), 0.5, 2.0)
    c(normal(1, 2), normal(3, 4), normal(4, 2), alpha=-1.0)
    c(normal(2), normal(3, 4), normal(4, 2), beta=0.0)
    c(normal(3, 2).strided(), normal(3, 4).strided(), normal(4, 2))
    c(normal(3, 2), normal(3, 4), normal(3, 2), _raises=True)


@cases("paddle.einsum")
def _(c):
    for dtype in FLOATS:
        c("ij,jk->ik", normal(2, 3, dtype=dtype), normal(3, 4, dtype=dtype))
        c("ij,jk", normal(2, 3, dtype=dtype), normal(3, 4, dtype=dtype))
    c("ij->ji", normal(2, 3))
    c("ba", normal(2, 3))
    c("ijk->", normal(2, 3, 4))
    c("i,i", normal(3), normal(3))
    c("i,j->ij", normal(2), normal(3))
    c("ii->i", normal(3, 3))
    c("ij,ij->i", normal(2, 3), normal(2, 3))
    c("bhct,bhcs->bhts", normal(2, 2, 3, 4), normal(2, 2, 3, 5))
    c("...ij,...jk->...ik", normal(5, 2, 3), normal(1, 3, 4))
    c("bij,bjk,bk->bi", normal(2, 3, 4), normal(2, 4, 5), normal(2, 5))
    c("ij,jk", normal(2, 3), normal(4, 4), _raises=True)
