"""Dtypes that meet: tensors without axes, Python's and NumPy's numbers, arrays, in every operator where Paddle computes something."""

from tests.api.table import cases

GIVEN = (
    "(lambda t: {})(lambda shape, dtype: paddle.to_tensor((np.arange(1, 4, dtype='float64') if shape else np.float64(2.0))"
    " * (-1 if 'u' not in dtype and dtype != 'bool' else 1)).astype(dtype))"
)
NAMES = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "floor_divide",
    "%": "mod",
    "<": "less_than",
    ">=": "greater_equal",
    "==": "equal",
}


def numbers(left, symbol):
    """What may stand to the right of a tensor of this dtype, or to its left."""
    found = ["2", "0.5", "np.float64(1.5)", "np.int64(2)", "t(0, 'float64')", "t(0, 'float32')"]
    if left != "bool":
        found += ["np.float32(1.5)", "t(0, 'int64')"]
    return [x for x in found if not (left == "bool" and symbol in "-//%" and "64(2)" in x)]


for _symbol, _name in NAMES.items():

    @cases(f"paddle.{_name}")
    def _(c):
        for left in ("float32", "int32", "int64", "uint8", "bool"):
            if left == "bool" and _symbol in ("-", "//", "%"):
                continue
            for right in numbers(left, _symbol):
                c.expr(GIVEN.format(f"t(1, '{left}') {_symbol} {right}"))
                if not right.startswith("np"):  # which asks NumPy first
                    c.expr(GIVEN.format(f"{right} {_symbol} t(1, '{left}')"))
        for left, right in (
            ("int32", "int64"),
            ("int64", "float32"),
            ("bool", "float32"),
            ("float32", "float64"),
            ("bool", "int32"),
            ("int32", "float64"),
        ):
            c.expr(GIVEN.format(f"t(0, '{left}') {_symbol} t(0, '{right}')"))
        if _symbol in "+-*/==":
            c.expr(GIVEN.format(f"t(1, 'complex64') {_symbol} t(0, 'float64')"))
            c.expr(GIVEN.format(f"t(1, 'float64') {_symbol} t(0, 'complex64')"))


@cases("paddle.pow")
def _(c):
    for call in (
        "t(1, 'bool') ** 2",
        "t(1, 'bool') ** 0.5",
        "t(1, 'int32') ** np.int64(2)",
        "t(1, 'int64') ** 2.0",
        "t(0, 'int32') ** t(0, 'int64')",
        "t(1, 'float32') ** t(0, 'int64')",
    ):
        c.expr(GIVEN.format(call))


@cases("paddle.bitwise_and", "paddle.bitwise_or", "paddle.bitwise_xor")
def _(c):
    for symbol in "&|^":
        for left in ("bool", "int32", "uint8"):
            c.expr(GIVEN.format(f"-3 {symbol} t(1, '{left}')"))


@cases("paddle.matmul")
def _(c):
    for left in ("float32", "float64", "int64", "complex64"):
        c.expr(GIVEN.format(f"t(1, '{left}') @ np.array([1.0, 2.0, 3.0])"))
        c.expr(GIVEN.format(f"np.array([1.0, 2.0, 3.0]) @ t(1, '{left}')"))
    c.expr(GIVEN.format("t(1, 'float32') @ t(1, 'complex64')"))


@cases("paddle.cumsum")
def _(c):
    for dtype in ("uint8", "int8", "int16", "int32", "bool"):
        c.expr(GIVEN.format(f"paddle.cumsum(t(1, '{dtype}'))"))


@cases("paddle.logsumexp")
def _(c):
    for dtype in ("uint8", "int32", "int64"):
        c.expr(GIVEN.format(f"paddle.logsumexp(t(1, '{dtype}'))"))


@cases("paddle.nanmedian")
def _(c):
    for values in ([-3, -2, 0, 1], [-4, -3], [2, 5], [-7, 2]):
        for dtype in ("int32", "int64"):
            c.expr(f"paddle.nanmedian(paddle.to_tensor({values}, dtype='{dtype}'))")


@cases("paddle.nn.functional.tanh")
def _(c):
    c.expr(GIVEN.format("F.tanh(t(1, 'int32'))"))
