"""Functions of each element."""

from tests.api.table import ALL_INTS, FLOATS, HALVES, cases, normal


@cases("paddle.add")
def _(c):
    for dtype in (*FLOATS, *HALVES, *ALL_INTS):
        c(normal(3, 4, dtype=dtype), normal(4, dtype=dtype))
    c(normal(3, 4).strided(), normal(1, 4))
    c(normal(), normal(5), _second=True)
    c(normal(0, 3), normal(3))
    c(normal(3), normal(4), _raises=True)


@cases("paddle.tanh")
def _(c):
    for dtype in (*FLOATS, *HALVES):
        c(normal(3, 5, dtype=dtype), _second=dtype in FLOATS)
    c(normal())
    c(normal(0, 2))
    c(normal(3, 4).strided())
    c(normal(3, dtype="int32"))
