"""Draws after `paddle.seed`, bit for bit."""

from tests.api.table import FLOATS, array, cases, check, uniform


@cases("paddle.rand")
def _(c):
    for dtype in (None, *FLOATS):
        c([3, 5], dtype, _exact=True)
    c([], _exact=True)
    c([0, 3], _exact=True)
    c((1,), _exact=True)
    c([7, 11], _exact=True)
    c(array([2, 3], "int32"), _forms=False, _exact=True)


@cases("paddle.randn")
def _(c):
    for dtype in (None, *FLOATS):
        c([3, 5], dtype, _exact=True)
    c([], _exact=True)
    c([0, 3], _exact=True)
    c((1,), _exact=True)
    c([7, 11], _exact=True)
    c(array([2, 3], "int32"), _forms=False, _exact=True)


@cases("paddle.uniform")
def _(c):
    for dtype in (None, *FLOATS):
        c([3, 5], dtype, _exact=True)
    c([4], None, -2.0, 3.0, _exact=True)
    c([4], "float64", 1.0, 1.5, _exact=True)
    c([4], min=0, max=10, _exact=True)
    c([4], None, -1.0, 1.0, 7, _exact=True)
    c([0], _exact=True)
    c([], _exact=True)


@cases("paddle.normal")
def _(c):
    c(shape=[3, 5], _exact=True)
    c(2.0, 3.0, [4], _exact=True)
    c(0.0, 1.0, [], _exact=True)
    c(-1.0, 0.5, (0, 2), _exact=True)
    c(mean=1, std=2, shape=[3], _exact=True)
    c(uniform(3).fixed(), 2.0, _exact=True, _forms=False)
    c(1.0, uniform(3).fixed(), _exact=True, _forms=False)


@cases("paddle.randint")
def _(c):
    for dtype in (None, "int32", "int64"):
        c(0, 10, [3, 5], dtype, _exact=True)
    c(5, _exact=True)
    c(5, shape=[4], _exact=True)
    c(-5, 5, [7], _exact=True)
    c(-5, 1 << 30, [5], _exact=True)
    c(low=-3, high=4, shape=(2, 0), _exact=True)
    c(0, 2, [], _exact=True)
    c(5, 1, _raises=True)


@cases("paddle.randperm")
def _(c):
    for dtype in ("int64", "int32", *FLOATS):
        c(9, dtype, _exact=True)
    c(1, _exact=True)
    c(20, _exact=True)


@cases("paddle.bernoulli")
def _(c):
    for dtype in FLOATS:
        c(uniform(3, 5, dtype=dtype), _exact=True, _forms=False)
    c(uniform().fixed(), _exact=True, _forms=False)
    c(array([0.0, 1.0, 0.5]), _exact=True, _forms=False)
    c(uniform(0, 3), _exact=True, _forms=False)
    c(uniform(3, 5).strided().fixed(), _exact=True, _forms=False)


@check(
    "paddle.seed",
    "paddle.rand",
    "paddle.randn",
    "paddle.randint",
    "paddle.normal",
    "paddle.uniform",
    "paddle.bernoulli",
    "paddle.randperm",
    exact=True,
)
def draws_follow_one_generator_in_the_order_of_the_program(paddle, np, rng):
    paddle.seed(7)
    first = [
        paddle.rand([2]), paddle.randn([3]), paddle.randint(0, 9, [2]), paddle.normal(shape=[1]), paddle.uniform([2]), paddle.randperm(4),
        paddle.bernoulli(paddle.full([3], 0.5)),
    ]  # fmt: skip
    paddle.seed(7)
    again = [paddle.rand([1]), paddle.rand([1]), paddle.randn([1])]
    paddle.seed(2**40 + 3)
    state = paddle.get_rng_state()
    wide = paddle.rand([2])
    paddle.set_rng_state(state)
    return {"first": first, "again": again, "wide": wide, "back": paddle.rand([2])}


@check("paddle.seed", exact=True)
def a_seed_may_be_any_whole_number(paddle, np, rng):
    found = []
    for seed in (0, 1, 100, 2023, 2**31, 2**32 + 5):
        paddle.seed(seed)
        found.append(paddle.rand([2]))
    return found
