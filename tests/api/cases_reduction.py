"""Sums, means, extremes and what runs along an axis."""

from tests.api.table import FLOATS, apart, array, bools, cases, ints, normal, uniform

AXES = (None, 0, -1, 1, [0, 1], (0, -1), [])


def reduction(name, recipe=normal, whole=(), second=False, **options):
    @cases(name)
    def _(c):
        for dtype in FLOATS:
            for axis in AXES:
                c(recipe(3, 4, dtype=dtype, **options), axis, _second=second)
        for axis in AXES[:5]:
            c(recipe(3, 1, 5, **options), axis=axis, keepdim=True)
        c(recipe(**options))
        c(recipe(1, **options))
        c(recipe(3, 5, **options).strided(), 0)
        c(recipe(2, 3, **options), 2, _raises=True)
        for dtype in whole:
            c(ints(3, 4, low=-3 if dtype[0] != "u" else 0, dtype=dtype), 1)
            c(ints(3, 4, low=-3 if dtype[0] != "u" else 0, dtype=dtype))
        c.expr(f"x.{name.rpartition('.')[2]}(axis=1, keepdim=True)", x=recipe(2, 3, **options))


reduction("paddle.sum", whole=("int32", "int64", "uint8", "int8", "int16"), second=True)
reduction("paddle.mean", second=True)
reduction("paddle.prod", whole=("int32", "int64"))
reduction("paddle.max", apart, whole=("int32", "int64"))
reduction("paddle.min", apart, whole=("int32", "int64"))
reduction("paddle.logsumexp")


@cases("paddle.sum")
def _(c):
    c(bools(3, 4), 1)
    c(bools(3, 4))
    c(normal(3, 4), 1, "float64")
    c(normal(3, 4), dtype="float64", keepdim=True)
    c(ints(3, 4), 0, "int32")
    c(ints(3, 4, dtype="int32"), dtype="float32")
    c(normal(0, 3))
    c(normal(0, 3), 0)
    c(normal(0, 3), 1)
    c(normal(2, 3, dtype="float16"))
    c(normal(2, 3, dtype="bfloat16"), 1)
    c(normal(2, 3, 4, 2), [0, 2])
    c.expr("x.sum([0, 1])", x=normal(2, 3))


@cases("paddle.mean", "paddle.Tensor.mean")
def _(c):
    c(ints(3, 4))
    c(ints(3, 4, dtype="int32"), 1)
    c(normal(0, 3))
    c(normal(0, 3), 0)
    c(normal(2, 3, dtype="float16"), 1)
    c(normal(2, 3), 0, dtype="float64")
    c.expr("(x.mean(), x.mean(1), x.mean([0, 1], keepdim=True), x.mean(axis=-1))", x=normal(2, 3))


@cases("paddle.max", "paddle.min")
def _(c):
    for name in ("max", "min", "amax", "amin"):
        c.expr(f"paddle.{name}(x)", x=array([[1.0, 3.0, 3.0], [0.0, 0.0, 2.0]]))
        c.expr(f"paddle.{name}(x, 1)", x=array([[1.0, 3.0, 3.0], [0.0, 0.0, 2.0]])) if name[0] == "a" else None
        c.expr(f"paddle.{name}(x, axis=1)", x=array([[1.0, float("nan")], [0.0, -1.0]]), _no_grad=True)
        c.expr(f"paddle.{name}(x)", x=normal(0, 3), _raises=True) if name[0] == "m" else None


@cases("paddle.prod")
def _(c):
    c(array([[0.0, 2.0], [3.0, 4.0]]), 1)
    c(array([0.0, 0.0, 2.0]))
    c(normal(2, 3), dtype="float64")
    c(ints(2, 3), dtype="float32")
    c(normal(0))


@cases("paddle.std", "paddle.var")
def _(c):
    for name in ("std", "var"):
        for dtype in FLOATS:
            for axis in (None, 0, -1, [0, 1], [0]):
                c.expr(f"paddle.{name}(x, {axis})", x=normal(3, 5, dtype=dtype))
            c.expr(f"paddle.{name}(x, 1, False)", x=normal(3, 5, dtype=dtype))
            c.expr(f"paddle.{name}(x, axis=1, unbiased=True, keepdim=True)", x=normal(3, 5, dtype=dtype))
            c.expr(f"x.{name}()", x=normal(3, 5, dtype=dtype))
        c.expr(f"paddle.{name}(x, 0)", x=normal(3, 5).strided())
        c.expr(f"paddle.{name}(x)", x=normal(), _no_grad=True)
        c.expr(f"paddle.{name}(x, unbiased=False)", x=normal(1))
    c.expr("paddle.var(x, 1, correction=0)", x=normal(3, 5))
    c.expr("paddle.var(x, 1, correction=2, keepdim=True)", x=normal(3, 5))


for name in ("all", "any"):

    @cases(f"paddle.{name}")
    def _(c):
        for axis in AXES:
            c(bools(3, 4), axis)
            c(bools(3, 4), axis=axis, keepdim=True)
        c(bools())
        c(bools(0, 3), 0)
        c(bools(0))
        c(bools(3, 4).strided(), 0)
        for dtype in (*FLOATS, "int32", "int64", "uint8"):
            c(ints(3, 4, high=2, dtype=dtype).fixed(), 1)
        c(bools(2, 3), 5, _raises=True)


@cases("paddle.norm")
def _(c):
    for dtype in FLOATS:
        for p in (2, 1, 3, 0.5, float("inf"), -float("inf"), 0, "fro", None):
            for axis in (None, 0, -1, [0, 1]):
                if p is None or p == "fro" and axis in (0, -1) or p == 0.5 and dtype == "float32" or axis == [0, 1] and p in (2, 3, 0, 0.5):
                    continue
                recipe = apart(3, 4, dtype=dtype)
                c(recipe.fixed() if p == 0 else recipe, p, axis, _rtol=1e-7 if p == 3 and dtype == "float64" else None)
    c(normal(3, 4))
    c(normal(2, 3, 4), "fro", [-2, -1], True)
    c(normal(2, 3, 4), 2, 1, True)
    c(normal())
    c(normal(1))
    c(normal(3, 5).strided(), 2, 0)
    c(array([[0.0, 0.0], [3.0, 4.0]]), 2, 1)
    c.expr("x.norm()", x=normal(3, 4))


@cases("paddle.dist")
def _(c):
    for p in (2, 1, 3, 0, float("inf"), float("-inf")):
        x, y = apart(3, 4), apart(3, 4, step=0.4)
        c(x if p else x.fixed(), y if p else y.fixed(), p)
    c(normal(3, 1, dtype="float64"), normal(4, dtype="float64"))
    c(normal(3), normal(3), 2.0)
    c(normal(), normal())


@cases("paddle.cumsum")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        for axis in (None, 0, -1, 1):
            c(normal(3, 4, dtype=dtype), axis)
    c(normal(0, 3), 0)
    c(normal())
    c(normal(1))
    c(normal(3, 4).strided(), 0)
    c(normal(3, 4), 1, dtype="float64")
    c(ints(3, 4, dtype="int32"), 1, "int64")
    c(bools(4), 0)
    c(normal(2, 3), 2, _raises=True)


for name in ("argmax", "argmin"):

    @cases(f"paddle.{name}")
    def _(c):
        for dtype in (*FLOATS, "int32", "int64", "uint8", "int16"):
            recipe = apart(3, 4, dtype=dtype).fixed() if "float" in dtype else ints(3, 4, dtype=dtype)
            for axis in (None, 0, -1):
                c(recipe, axis)
        c(apart(3, 4), 1, True)
        c(apart(3, 4), axis=1, keepdim=True, dtype="int32")
        c(apart(3, 4), keepdim=True)
        c(apart(1))
        c(apart())
        c(array([1.0, 3.0, 3.0, 1.0]))
        c(array([1.0, float("nan"), 3.0]))
        c(apart(3, 5).strided(), 0)
        c(apart(3, 4), 2, _raises=True)


@cases("paddle.numel", "paddle.rank", "paddle.shape", "paddle.is_empty", "paddle.is_tensor")
def _(c):
    for shape in ((3, 4), (), (0, 3), (1,), (2, 3, 5)):
        c.expr("(paddle.numel(x), paddle.rank(x), paddle.shape(x), paddle.is_empty(x), paddle.is_tensor(x))", x=normal(*shape).fixed())
        c.expr(
            "(x.numel(), x.rank(), x.size, x.ndim, x.dim(), x.is_empty(), list(x.shape), len(x.shape), x.element_size())",
            x=normal(*shape).fixed(),
        )
    for dtype in ("float64", "int32", "int64", "bool", "float16", "uint8"):
        c.expr("(paddle.numel(x), paddle.rank(x), paddle.shape(x), x.element_size())", x=ints(2, 3, high=2, dtype=dtype).fixed())
    c.expr("(paddle.numel(x), paddle.shape(x))", x=normal(3, 4).strided().fixed())
    c.expr("(paddle.is_tensor(3), paddle.is_tensor([x]), paddle.is_tensor(np.ones(3)), paddle.is_tensor(x.numpy()))", x=normal(3).fixed())


@cases("paddle.trace")
def _(c):
    for dtype in (*FLOATS, "int32", "int64"):
        c(normal(3, 4, dtype=dtype))
    for offset in (-1, 0, 2):
        c(normal(2, 3, 4), offset, 1, 2)
    c(normal(3, 4, 2), 0, -3, -2)
    c(normal(3, 5).strided(), 1)
    c(normal(3), _raises=True)


@cases("paddle.logsumexp")
def _(c):
    c(array([1000.0, 1000.0, -1000.0]))
    c(uniform(2, 3, low=-100, high=100), 1)
