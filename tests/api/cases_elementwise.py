"""Functions of each element."""

from tests.api.table import ALL_INTS, FLOATS, HALVES, array, bools, cases, check, ints, normal, of, uniform

SHAPES = ((3, 5), (), (1,), (0, 2), (7,), (2, 1, 3))


def unary(name, recipe=normal, *, whole=(), exact=False, rtol=None, second=True, **options):
    """Over dtypes and shapes; `whole` are integer dtypes that it takes, too."""

    @cases(name)
    def _(c):
        for dtype in (*FLOATS, *HALVES):
            c(recipe(3, 5, dtype=dtype, **options), _exact=exact, _rtol=rtol, _second=second and dtype in FLOATS)
        for shape in SHAPES[1:]:
            c(recipe(*shape, **options), _exact=exact, _rtol=rtol)
        c(recipe(3, 4, dtype="float64", **options).strided(), _exact=exact, _rtol=rtol)
        for dtype in whole:
            c(normal(2, 3, dtype=dtype), _rtol=rtol)


inside = {"low": -0.95, "high": 0.95}
positive = {"low": 0.2, "high": 4.0}
unary("paddle.abs", whole=("int32", "int64"))
unary("paddle.acos", uniform, whole=("int32",), **inside)
unary("paddle.asin", uniform, whole=("int32",), **inside)
unary("paddle.atan", whole=("int32", "int64"))
unary("paddle.ceil", second=False)
unary("paddle.cos", whole=("int32", "int64"))
unary("paddle.cosh")
unary("paddle.erf", second=False)
unary("paddle.exp", whole=("int32", "int64"))
unary("paddle.floor", second=False)
unary("paddle.log", uniform, whole=("int32",), **positive)
unary("paddle.log10", uniform, second=False, whole=("int64",), **positive)
unary("paddle.log1p", uniform, second=False, whole=("int32",), **positive)
unary("paddle.log2", uniform, second=False, whole=("int32",), **positive)
unary("paddle.reciprocal", uniform, **positive)
unary("paddle.round", second=False, whole=("int32",))
unary("paddle.rsqrt", uniform, **positive)
unary("paddle.sign", second=False)
unary("paddle.sin", whole=("int32", "int64"))
unary("paddle.sinh", whole=("int32",))
unary("paddle.sqrt", uniform, **positive)
unary("paddle.square", whole=("int32", "int64"))
unary("paddle.stanh", second=False)
unary("paddle.tan", whole=("int64",))
unary("paddle.tanh", whole=("int32",))


@cases("paddle.round")
def _(c):
    c(array([0.5, 1.5, 2.5, -0.5, -1.5, 1e10]))
    c(array([1.2345, -2.3455, 12.5]), decimals=2)
    c(array([126.0, -155.0]), decimals=-1)


@cases("paddle.stanh")
def _(c):
    c(normal(2, 3), 0.5, 2.0)
    c(normal(2, 3), scale_a=1.5)


SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-30, 3e38]
for name in ("abs", "exp", "log", "sqrt", "rsqrt", "tanh", "sign", "floor", "reciprocal", "erf", "log1p", "square", "cosh", "asin"):

    @cases(f"paddle.{name}")
    def _(c):
        c(array(SPECIAL), _no_grad=True, _forms=False)


@cases("paddle.tanh_")
def _(c):
    c.expr("(paddle.tanh_(t), t)", t=normal(3, 4).fixed())
    c.expr("(lambda y: (paddle.tanh_(y), y.inplace_version))(x * 2)", x=normal(3))
    c.expr("paddle.tanh_(x)", x=normal(3), _raises=True)
    c.expr("(paddle.tanh_(t), t)", t=normal(3, 1, dtype="float64").fixed())
    c.expr("(paddle.tanh_(t), t)", t=normal().fixed())
    c.expr("(paddle.tanh_(t), t)", t=normal(0, 3).fixed())


@cases("paddle.scale")
def _(c):
    for dtype in (*FLOATS, *ALL_INTS):
        c(normal(2, 3, dtype=dtype), 2.0, 1.0, False)
    c(normal(0, 3), scale=-1.5, bias=0.5)
    c(normal(), 3.0, act="relu")
    c(normal(3, 4).strided(), 2, 1)
    c(normal(3), normal(1), 1.0)


@cases("paddle.clip")
def _(c):
    c(normal(3, 4), -0.5, 0.5, _second=True)
    c(normal(3, 4).strided(), min=0.0)
    c(normal(5), max=0.25)
    c(normal(), -1, 1)
    c(normal(0, 2), -1, 1)
    c(normal(4, dtype="int64"), -2, 2)
    c(normal(4, dtype="int32"), -2)
    c(normal(4, dtype="float64"), normal(dtype="float64").fixed(), 2.0)
    c(normal(4))
    c(array([0.5, -0.5, 1.0]), -0.5, 0.5)


@cases("paddle.isnan", "paddle.isinf", "paddle.isfinite")
def _(c):
    for name in ("isnan", "isinf", "isfinite"):
        for dtype in FLOATS:
            c.expr(f"paddle.{name}(x)", x=array(SPECIAL, dtype))
        c.expr(f"paddle.{name}(x), x.{name}()", x=normal(3, dtype="int32"))
        c.expr(f"paddle.{name}(x)", x=normal(0, 3))
        c.expr(f"paddle.{name}(x)", x=normal())
        c.expr(f"paddle.{name}(x)", x=normal(3, 5).strided())


def binary(name, left=normal, right=normal, dtypes=(*FLOATS, *HALVES, *ALL_INTS), second=True, options=None):
    options = options or {}

    @cases(name)
    def _(c):
        for dtype in dtypes:
            c(left(3, 4, dtype=dtype), right(4, dtype=dtype, **options), _second=second and dtype in FLOATS)
        c(left(3, 4).strided(), right(1, 4, **options))
        c(left(2, 1, 3), right(4, 1, **options))
        c(left(), right(5, **options))
        c(left(0, 3), right(3, **options))
        c(left(1), right(**options))
        c(left(3), right(4, **options), _raises=True)


binary("paddle.add")
binary("paddle.subtract")
binary("paddle.multiply")
binary("paddle.divide", right=uniform, options={"low": 1.0, "high": 4.0})
binary("paddle.floor_divide", right=uniform, second=False, options={"low": 1.0, "high": 4.0})
binary("paddle.mod", right=uniform, second=False, dtypes=(*FLOATS, "int32", "int64"), options={"low": 1.0, "high": 4.0})
binary("paddle.maximum", second=False)
binary("paddle.minimum", second=False)
binary("paddle.pow", left=uniform, dtypes=FLOATS)


@cases("paddle.maximum", "paddle.minimum")
def _(c):
    for name in ("maximum", "minimum"):
        c.expr(f"paddle.{name}(x, y)", x=array([1.0, 2.0, float("nan"), 3.0]), y=array([1.0, 3.0, 0.0, float("nan")]))


@cases("paddle.mod", "paddle.floor_divide", "paddle.divide")
def _(c):
    c.expr("(x % y, x // y)", x=array([-7, 7, -7, 7, 0], "int64"), y=array([3, -3, -3, 3, 5], "int64"))
    c.expr("(x % y, x // y)", x=array([-7.5, 7.5, -7.5, 7.5, 0.0]), y=array([3.0, -3.0, -3.0, 3.0, 5.0]))
    c.expr("x / y", x=array([1.0, -1.0, 0.0]), y=array([0.0, 0.0, 0.0]), _no_grad=True)
    c.expr("(x / y, x / 2, 2 / y, x % 4, x // 4)", x=array([1, 7, -7], "int64"), y=array([2, 3, 5], "int64"))
    c.expr("paddle.remainder(x, y)", x=normal(3, 4), y=uniform(4, low=1.0, high=3.0))
    c.expr("x // 0", x=array([1], "int64"), _raises=True)
    c.expr("paddle.divide(x, y, rounding_mode='trunc')", x=normal(3, 4), y=uniform(4, low=0.3, high=0.6))
    c.expr("paddle.divide(x, y, rounding_mode='floor')", x=normal(3, 4), y=uniform(4, low=0.3, high=0.6))


@cases("paddle.add", "paddle.subtract", "paddle.multiply", "paddle.divide", "paddle.pow")
def _(c):
    for expression in (
        "x + 1",
        "1.5 - x",
        "x * 2",
        "2 / x",
        "x ** 2",
        "2 ** x",
        "-x",
        "+x",
        "abs(x)",
        "x + True",
        "x - 0.5",
        "x.pow(3)",
        "x // 1.5",
        "x % 0.7",
    ):
        c.expr(expression, x=uniform(2, 3, low=0.2, high=3.0))
    for expression in (
        "x + 1",
        "1 - x",
        "x * 2",
        "x + 1.5",
        "x * 0.5",
        "x ** 2",
        "x / 2",
        "2 ** abs(x)",
        "-x",
        "~x",
        "x & (x + 1)",
        "x | (x + 1)",
        "x ^ (x * 3)",
    ):
        for dtype in ("int32", "int64"):
            c.expr(expression, x=normal(4, dtype=dtype))
    pairs = (
        *(("float32", "float64"), ("float16", "float32"), ("bfloat16", "float32"), ("float16", "bfloat16")),
        *(("int32", "float32"), ("int64", "float64"), ("int32", "int64"), ("uint8", "int8")),
        *(("bool", "float32"), ("bool", "int64"), ("int64", "float32")),
    )
    for a, b in pairs:
        x = bools(3) if a == "bool" else normal(3, dtype=a)
        refused = "float" not in a
        c.expr("x + y", x=x, y=normal(3, dtype=b), _raises=refused)
        c.expr("x * y", x=x, y=normal(3, dtype=b), _raises=refused)
        c.expr("y > x", x=x.fixed(), y=normal(3, dtype=b).fixed(), _raises=refused)
        c.expr("paddle.maximum(x, y)", x=x.fixed(), y=normal(3, dtype=b).fixed(), _raises=refused)
    for a in ("int32", "int64"):
        for b in FLOATS:
            c.expr("(x.sum() + y, y * x.sum())", x=normal(3, dtype=a), y=normal(3, dtype=b))
            c.expr("(x + y.sum())", x=normal(3, dtype=a), y=normal(3, dtype=b))
    c.expr("paddle.add(x, y, alpha=2)", x=normal(3), y=normal(3))
    c.expr("paddle.subtract(x, y, alpha=0.5)", x=normal(3), y=normal(3))
    c.expr("(lambda o: (paddle.add(x, y, out=o), o))(paddle.zeros([3]))", x=normal(3).fixed(), y=normal(3).fixed())
    c.expr("x + y", x=normal(3).fixed(), y=normal(3).raw())
    c.expr("x ** 0.5", x=uniform(3))
    c.expr("x ** 0", x=normal(3))
    c.expr("(x + y, x * y)", x=bools(4), y=bools(4))
    c.expr("x + 1", x=bools(4))
    c.expr("x * 0.5", x=bools(4))


@cases("paddle.pow")
def _(c):
    c(uniform(3, 2), 2.5, _second=True)
    c(normal(3, 2), 2)
    c(normal(4, dtype="int64"), 3)
    c(normal(4, dtype="int32"), 2)
    c(ints(4, low=1), ints(4, low=0, high=4))
    c(normal(4), 3.0)


for name in ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"):

    @cases(f"paddle.{name}")
    def _(c):
        for dtype in (*FLOATS, *HALVES, *ALL_INTS):
            c(normal(3, 4, dtype=dtype), normal(1, 4, dtype=dtype))
        c(bools(4), bools(4))
        c(normal(), normal(3))
        c(normal(0, 3), normal(3))
        c(normal(4, 5, dtype="int64").strided(), ints(5))
        c(array([float("nan"), float("inf"), 0.0, 1.0]), array([float("nan"), float("inf"), -0.0, 2.0]))
        c(normal(3), normal(4), _raises=True)


@cases("paddle.equal", "paddle.less_than", "paddle.greater_than")
def _(c):
    for expression in ("x == 1", "x != 1", "x < 1", "x <= 1", "x > 1", "x >= 0.5", "1 < x", "x == None"):
        c.expr(expression, x=normal(4, dtype="int64"))
        c.expr(expression, x=normal(4, dtype="float32"))


@cases("paddle.equal_all")
def _(c):
    c(array([1.0, 2.0]), array([1.0, 2.0]))
    c(array([1.0, 2.0]), array([1.0, 2.5]))
    c(array([1, 2], "int64"), array([1, 2], "int64"))
    c(bools(4), bools(4))
    c(normal(3), normal(2))
    c(normal(0), normal(0))


@cases("paddle.allclose")
def _(c):
    c(array([10000.0, 1e-7]), array([10000.1, 1e-8]))
    c(array([10000.0, 1e-8]), array([10000.1, 1e-9]), rtol=1e-3)
    c(array([1.0, float("nan")]), array([1.0, float("nan")]))
    c(array([1.0, float("nan")], "float64"), array([1.0, float("nan")], "float64"), equal_nan=True)
    c(array([1.0]), array([2.0]), atol=1.5)
    c(normal(0), normal(0))
    c(normal(), array(100.0))


for name in ("logical_and", "logical_or", "logical_xor"):

    @cases(f"paddle.{name}")
    def _(c):
        c(bools(3, 4), bools(4))
        for dtype in (*FLOATS, "int8", "int32", "int64"):
            c(ints(3, 4, high=2, dtype=dtype).fixed(), ints(3, 1, high=2, dtype=dtype).fixed())
        c(bools(), bools(3))
        c(bools(0, 2), bools(2))
        c(bools(3, 4).strided(), bools(3, 1))


@cases("paddle.logical_not")
def _(c):
    c(bools(3, 4))
    c(bools())
    c(bools(0, 2))
    for dtype in (*FLOATS, "int8", "int32", "int64"):
        c(ints(5, high=2, dtype=dtype).fixed())
    c(bools(3, 4).strided())


@cases("paddle.add_n")
def _(c):
    c([normal(3, 2), normal(3, 2), normal(3, 2)])
    c([normal(3, 2, dtype="float64")])
    c(normal(3, 2))
    c([ints(3), ints(3)])
    c([normal(0, 2), normal(0, 2)])
    c([normal(), normal()])
    c([normal(2, 3), normal(3, 2)], _raises=True)


@cases("paddle.where")
def _(c):
    for dtype in (*FLOATS, *HALVES, "int32", "int64"):
        c(bools(3, 4), normal(3, 4, dtype=dtype), normal(3, 4, dtype=dtype))
    c(bools(3, 1), normal(4), normal(3, 4))
    c(bools(4), 1.0, normal(4))
    c(bools(4), normal(4), 0.0)
    c(bools(), normal(3), normal())
    c(bools(0, 3), normal(0, 3), normal(3))
    c(bools(3, 4).strided(), normal(3, 4).strided(), normal(3, 4))
    c(array([[True, False], [True, True]], "bool"))
    c(array([0.0, 1.0, 2.0]))
    c(bools(2), normal(2), _raises=True)
    c.expr("x.where(x > 0, x * 2)", x=normal(3, 4), _raises=True)
    c.expr("(x > 0).where(x, x * 2)", x=normal(3, 4))


@cases("paddle.cast")
def _(c):
    every = (*FLOATS, *HALVES, *ALL_INTS, "bool")
    for a in every:
        x = bools(2, 3) if a == "bool" else normal(2, 3, dtype=a, scale=2.0)
        for b in every:
            c(x, b)
    c(normal(0, 3), "int32")
    c(normal(), "float64")
    c(normal(3, 4).strided(), "float64")
    c(normal(3), of("paddle.float64"))
    c(normal(3), of("np.float64"))
    c(normal(3), of("np.dtype('int8')"))
    c(array([1.9, -1.9, 300.0, -0.5]), "int32")
    c(normal(3), "float99", _raises=True)


@check("paddle.add", "paddle.scale")
def functions_write_to_out(paddle, np, rng):
    x = paddle.to_tensor(rng.standard_normal((2, 3)).astype("float32"))
    x.stop_gradient = False
    found = {}
    for name in ("abs", "exp", "sin", "sqrt", "floor", "sum", "mean"):
        out = paddle.zeros([1])
        result = getattr(paddle, name)(paddle.abs(x), out=out)
        found[name] = [result.detach(), out.detach(), list(out.shape), out.stop_gradient]
    return found
