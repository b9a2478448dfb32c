"""Functions that move elements without changing them."""

from tests.api.table import ALL_INTS, FLOATS, HALVES, array, bools, cases, check, ints, normal

EVERY = (*FLOATS, *HALVES, *ALL_INTS)


@cases("paddle.reshape")
def _(c):
    for dtype in EVERY:
        c(normal(2, 6, dtype=dtype), [3, -1])
    c(bools(2, 3), [6])
    c(normal(2, 3, 4), [0, -1])
    c(normal(2, 3, 4), [0, 0, 2, 2])
    c(normal(2, 3, 4), (4, 6))
    c(normal(1), [])
    c(normal(), [1, 1])
    c(normal(0, 3), [3, 0])
    c(normal(0, 3), [-1, 3])
    c(normal(3, 4).strided(), [12])
    c(normal(3, 4), array([2, 6], "int64"))
    c(normal(3, 4), [array(2, "int64"), 6])
    c(normal(3, 4), [array([6], "int32"), -1])
    c(normal(2, 3), [4, 2], _raises=True)
    c(normal(2, 3), [-1, -1], _raises=True)
    c.expr("(x.reshape([4, 3]), x.reshape([-1]), x.reshape([2, 2, -1]), x.reshape(4, 3))", x=normal(3, 4))
    c.expr("x.reshape_([4, 3])", x=normal(3, 4).fixed())


@cases("paddle.reshape_")
def _(c):
    c.expr("(paddle.reshape_(y, [4, 3]), y, y.inplace_version)", y=normal(3, 4).fixed())
    c.expr("(lambda y: (paddle.reshape_(y, [-1]) is y, y, y.inplace_version))(x * 2)", x=normal(3, 4))
    c.expr("paddle.reshape_(x, [5])", x=normal(3, 4).fixed(), _raises=True)
    for dtype in ("float64", "int32", "int64"):
        c.expr("(paddle.reshape_(y, [0, -1]), y)", y=normal(3, 1, 5, dtype=dtype).fixed())
    c.expr("paddle.reshape_(y, [1, 1])", y=normal().fixed())
    c.expr("paddle.reshape_(y, [5, 0])", y=normal(0, 3).fixed())


@cases("paddle.transpose")
def _(c):
    for dtype in EVERY:
        c(normal(2, 3, dtype=dtype), [1, 0], _forms=False)
    c(bools(2, 3), [1, 0])
    c(normal(2, 3, 4), [2, 0, 1])
    c(normal(2, 3, 4), (-1, 0, 1))
    c(normal(), [])
    c(normal(0, 3), [1, 0])
    c(normal(3, 4).strided(), [1, 0])
    c(normal(2, 3), [0, 1, 2], _raises=True)
    c(normal(2, 3), [0, 0], _raises=True)
    c.expr("(x.transpose([1, 0]), x.T, x.t(), x.mT)", x=normal(3, 4))


@cases("paddle.t")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(2, 3, dtype=dtype))
    c(normal(3))
    c(normal())
    c(normal(0, 2))
    c(normal(2, 3, 4), _raises=True)


@cases("paddle.flatten")
def _(c):
    for dtype in (*FLOATS, "int32", "int64", "uint8"):
        c(normal(2, 3, 4, dtype=dtype), 1)
    c(normal(2, 3, 4))
    c(normal(2, 3, 4, 2), 1, 2)
    c(normal(2, 3, 4), -2, -1)
    c(normal(2, 3, 4), start_axis=0, stop_axis=1)
    c(normal())
    c(normal(0, 3, 2), 1)
    c(normal(3, 4).strided())
    c(normal(2, 3), 1, 0, _raises=True)
    c(normal(2, 3), 3, _raises=True)


for name, shape, choices in (
    ("squeeze", (1, 3, 1), (None, 0, 2, -1, [0, 2], (0,), [1], 1)),
    ("unsqueeze", (3, 4), (0, 1, 2, -1, [0, 2], (0, 1), [-1, 0], -3)),
):

    @cases(f"paddle.{name}")
    def _(c):
        for axis in choices:
            c(normal(*shape), axis)
        for dtype in EVERY:
            c(normal(*shape, dtype=dtype), 0)
        c(bools(*shape), 0)
        c(normal(), 0) if name == "unsqueeze" else c(normal())
        c(normal(0, 1), 1)
        c(normal(3, 1, 5).strided(), 1)
        c(normal(*shape), 7, _raises=True)
        c(normal(*shape), array([1], "int64")) if name == "unsqueeze" else None

    @cases(f"paddle.{name}_")
    def _(c):
        c.expr(f"(paddle.{name}_(y, 0), y, y.inplace_version)", y=normal(*shape).fixed())
        c.expr(f"(lambda y: (paddle.{name}_(y, [0]) is y, y, y.inplace_version))(x * 2)", x=normal(*shape))
        c.expr(f"(lambda y: (y.{name}_(0) is y, y))(x * 2)", x=normal(*shape))
        for dtype in ("float64", "int64"):
            c.expr(f"(paddle.{name}_(y, 0), y)", y=normal(*shape, dtype=dtype).fixed())


@cases("paddle.concat")
def _(c):
    for dtype in EVERY:
        c([normal(2, 3, dtype=dtype), normal(1, 3, dtype=dtype)])
    c([bools(2), bools(3)])
    c([normal(2, 3), normal(2, 1)], 1)
    c([normal(2, 3), normal(2, 1)], -1)
    c([normal(2, 3), normal(0, 3)])
    c([normal(2, 3), normal(2, 3).strided()], axis=0)
    c([normal(2, 3)])
    c((normal(2, 3), normal(2, 3), normal(2, 3)), 1)
    c([normal(2, 3), normal(2, 3)], array(1, "int32"))
    c([normal(2, 3), normal(2, 2)], 0, _raises=True)
    c([normal(2, 3), normal(2, 3)], 2, _raises=True)
    c([normal(2), normal(2, dtype="float64")], _raises=True)


@cases("paddle.stack")
def _(c):
    for dtype in EVERY:
        c([normal(2, 3, dtype=dtype), normal(2, 3, dtype=dtype)])
    for axis in (0, 1, 2, -1, -3):
        c([normal(2, 3), normal(2, 3)], axis)
    c([normal(), normal(), normal()])
    c([normal(0, 2), normal(0, 2)], 1)
    c([normal(2, 3).strided(), normal(2, 3)], 1)
    c([normal(3)])
    c([normal(2), normal(3)], _raises=True)
    c([normal(2), normal(2)], 3, _raises=True)


@cases("paddle.split")
def _(c):
    for dtype in (*FLOATS, "int32", "int64", "bool"):
        c(bools(4, 6) if dtype == "bool" else normal(4, 6, dtype=dtype), 2)
    c(normal(4, 6), 3, 1)
    c(normal(4, 6), [1, 2, 3], -1)
    c(normal(4, 6), [1, -1, 2], 1)
    c(normal(4, 6), [2, 4], axis=array(1, "int32"))
    c(normal(4, 6).strided(), 2, 0)
    c(normal(0, 4), 2, 1)
    c(normal(4, 6), 4, 1, _raises=True)
    c(normal(4, 6), 2, 2, _raises=True)
    c.expr("x.split(3, axis=1)", x=normal(4, 6))


@cases("paddle.chunk")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(4, 6, dtype=dtype), 2)
    c(normal(4, 6), 3, 1)
    c(normal(4, 6), 3, axis=-1)
    c(normal(3, 5), 5, 1)


@cases("paddle.unbind")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(3, 4, dtype=dtype))
    c(normal(3, 4), 1)
    c(normal(3, 4, 2), -1)
    c(normal(3, 4).strided(), 0)
    c(normal(1, 2))


@cases("paddle.unstack")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(3, 4, dtype=dtype))
    c(normal(3, 4), 1)
    c(normal(3, 4), -1, 4)
    c(normal(3, 4).strided(), 0)
    c(normal(3, 4), 0, 5, _raises=True)


@cases("paddle.tile")
def _(c):
    for dtype in (*FLOATS, "int32", "int64", "bool"):
        c(bools(2, 3) if dtype == "bool" else normal(2, 3, dtype=dtype), [2, 1])
    c(normal(3), [2])
    c(normal(3), (2, 2))
    c(normal(2, 3), [2])
    c(normal(2, 3), [1, 1])
    c(normal(), [3])
    c(normal(2, 3), [2, 0])
    c(normal(3, 4).strided(), [1, 2])
    c(normal(2, 3), array([1, 2], "int64"))
    c(normal(0, 2), [2, 2])


@cases("paddle.expand")
def _(c):
    for dtype in (*FLOATS, "int32", "int64", "bool"):
        c(bools(1, 3) if dtype == "bool" else normal(1, 3, dtype=dtype), [2, 3])
    c(normal(3), [2, 3])
    c(normal(3, 1), [-1, 4])
    c(normal(3), [2, -1])
    c(normal(), [2, 2])
    c(normal(1, 3).strided(), [2, 3])
    c(normal(3), array([2, 3], "int32"))
    c(normal(1, 3), [0, 3])
    c(normal(2, 3), [2, 4], _raises=True)
    c(normal(2, 3), [3], _raises=True)


@cases("paddle.broadcast_to")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(1, 3, dtype=dtype), [2, 3])
    c(normal(3), [2, 3])
    c(normal(3, 1), [3, 4])
    c(normal(), [2])
    c(normal(2, 3), [2, 4], _raises=True)


@cases("paddle.expand_as")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(1, 3, dtype=dtype), normal(2, 3, dtype=dtype))
    c(normal(3), normal(2, 4, 3))
    c(normal(), normal(2))
    c(normal(3, 1).strided(), normal(3, 4))
    c(normal(2, 3), normal(2, 4), _raises=True)


@cases("paddle.flip")
def _(c):
    for dtype in (*FLOATS, "int32", "int64", "bool"):
        c(bools(2, 3) if dtype == "bool" else normal(2, 3, dtype=dtype), 0)
    c(normal(2, 3, 4), [0, 2])
    c(normal(2, 3), -1)
    c(normal(2, 3), [1])
    c(normal(0, 3), 0)
    c(normal(3, 5).strided(), [0, 1])
    c(normal(2, 3), 2, _raises=True)
    c(normal(2, 3), [0, 0], _raises=True)


@cases("paddle.roll")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(3, 4, dtype=dtype), 1)
    c(normal(3, 4), 2, 0)
    c(normal(3, 4), -1, 1)
    c(normal(3, 4), [1, 2], [0, 1])
    c(normal(3, 4), (1, -1), axis=(-1, 0))
    c(normal(3, 4), 10, 1)
    c(normal(3, 5).strided(), 2, 0)
    c(normal(3, 4), 1, 2, _raises=True)


@cases("paddle.slice")
def _(c):
    for dtype in (*FLOATS, "int32", "int64", "bool"):
        c(bools(4, 5) if dtype == "bool" else normal(4, 5, dtype=dtype), [0, 1], [1, 0], [3, 2])
    c(normal(4, 5), [1], [-3], [-1])
    c(normal(4, 5), [0], [0], [100])
    c(normal(4, 5), axes=[0], starts=[array(1, "int64")], ends=[3])
    c(normal(4, 5), [0], array([1], "int32"), array([4], "int32"))
    c(normal(4, 5), [1], [2], [2])
    c(normal(4, 5).strided(), [0, 1], [0, 1], [2, 3])


@cases("paddle.strided_slice")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(4, 6, dtype=dtype), [0, 1], [0, 1], [4, 6], [2, 2])
    c(normal(4, 6), [1], [5], [0], [-2])
    c(normal(4, 6), [1], [-1], [-7], [-1])
    c(normal(4, 6), axes=[0], starts=[0], ends=[100], strides=[3])
    c(normal(5, 7).strided(), [0], [1], [5], [3])


@cases("paddle.diag")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(3, dtype=dtype))
        c(normal(3, 4, dtype=dtype))
    for offset in (-1, 1, 2):
        c(normal(3), offset)
        c(normal(3, 4), offset)
    c(normal(3), padding_value=2.0)
    c(normal(3), 1, 5)
    c(normal(3, 5).strided(), -1)


for name in ("tril", "triu"):

    @cases(f"paddle.{name}")
    def _(c):
        for dtype in (*FLOATS, "int32", "int64"):
            c(normal(3, 4, dtype=dtype))
        for diagonal in (-2, -1, 1, 3):
            c(normal(3, 4), diagonal)
        c(normal(2, 3, 3), 1)
        c(bools(3, 3))
        c(normal(3, 5).strided(), diagonal=1)
        c(normal(1, 1))
        c(normal(0, 3))
        c(normal(3), _raises=True)


@cases("paddle.meshgrid")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(2, dtype=dtype), normal(3, dtype=dtype), _forms=False)
    c([normal(2), normal(3), normal(1)])
    c([normal(), normal(3)])
    c(normal(2), normal(3), indexing="xy")


@cases("paddle.kron")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(2, 3, dtype=dtype), normal(3, 2, dtype=dtype))
    c(normal(3), normal(2, 2))
    c(normal(2, 1, 3), normal(2, 2))
    c(normal(), normal(3))
    c(normal(3, 4).strided(), normal(2, 2))


@cases("paddle.assign")
def _(c):
    for dtype in EVERY:
        c(normal(2, 3, dtype=dtype), _forms=False)
    c(bools(3))
    c(normal(0, 3))
    c(normal())
    c(normal(3, 4).strided())
    c([1, 2, 3])
    c([1.5, 2.5])
    c([[True], [False]])
    c(3)
    c(2.5)
    c(normal(2, 3).raw())
    c(normal(2, 3, dtype="float64").raw())
    c(ints(2, 3).raw())
    c.expr("(lambda o: (paddle.assign(x, o) is o, o))(paddle.zeros([2, 3]))", x=normal(2, 3))
    c.expr("(lambda o: (paddle.assign([1, 2], o), o))(paddle.zeros([2], 'int64'))")


@check("paddle.assign")
def assign_copies(paddle, np, rng):
    x = paddle.to_tensor([1.0, 2.0])
    y = paddle.assign(x)
    x[0] = 5.0
    return {"x": x, "y": y, "different": y is not x}
