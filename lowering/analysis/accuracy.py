"""How exact results are where more than a rounding is lost: by functions, and by algorithms that save multiplications.

Tests hold all of it. What users allow of the latter is the machine's (`Target.winograd` and its neighbours).
"""

from __future__ import annotations

from polyreme.ir.accuracy import Accuracy

# In ulp, by LLVM's name of the format; without fma, up to 1 more. Of gelu of a float32: in ulp of its operand; of its sin, cos and tan:
# below 2^30, and libm's above.
FUNCTIONS = {
    "float": {
    "exp": 1.0, "expm1": 1.5, "log": 1.0, "log1p": 1.5, "log2": 0.51, "log10": 0.51, "tanh": 2.0, "sigmoid": 1.75, "erf": 1.25, "gelu": 2.0,
        "rsqrt": 1.5, "sin": 0.51, "cos": 0.51, "tan": 0.51, "asin": 0.51, "acos": 0.51, "atan": 0.51, "atan2": 0.51, "sinh": 0.51,
        "cosh": 0.51, "pow": 0.51,
    },
    "double": {
    "exp": 1.0, "expm1": 1.5, "log": 1.0, "log1p": 1.5, "log2": 1.0, "log10": 1.0, "tanh": 2.0, "sigmoid": 1.75, "erf": 1.25, "gelu": 1.75,
        "rsqrt": 1.5,
        "sin": 1.0, "cos": 1.0, "tan": 1.0, "asin": 1.25, "acos": 1.25, "atan": 1.25, "atan2": 1.0, "sinh": 1.75, "cosh": 1.5, "pow": 1.25,
    },
}  # fmt: skip
# By algorithm and what it is cut into: the side of a window and the size of a piece of `winograd.py`, the size of a piece of
# `nchw_winograd_columns.py`. They say what the magnitude is.
ALGORITHMS = {
    "winograd": {
        (3, 2): Accuracy(ulp=0.5, summed=1.0), (3, 3): Accuracy(ulp=0.5, summed=2.0), (3, 4): Accuracy(ulp=0.5, summed=3.0),
        (5, 2): Accuracy(ulp=0.5, summed=3.0),
    },
    "winograd_columns": {
        (5, 2): Accuracy(ulp=0.5, summed=1.0), (5, 3): Accuracy(ulp=0.5, summed=2.5), (5, 4): Accuracy(ulp=0.5, summed=2.5),
        (5, 5): Accuracy(ulp=0.5, summed=5.0),
    },
}  # fmt: skip
