"""What functions of elements cost, on vectors, on every core here."""

from __future__ import annotations

# Functions that cost as much as this many simple ones; the others cost one.
EXPENSIVE = {
    "exp": 8, "expm1": 10, "log": 8, "log1p": 10, "log2": 8, "log10": 8, "sin": 10, "cos": 10, "tan": 14, "asin": 10, "acos": 10,
    "atan": 10, "atan2": 14,
    "sinh": 12, "cosh": 12, "tanh": 12, "sigmoid": 10, "erf": 12, "gelu": 8, "pow": 20, "mod": 6, "floor_divide": 10, "div": 4, "sqrt": 4,
    "rsqrt": 5,
}  # fmt: skip
# The same as the cost model counts. A minimum or maximum hands on what is not a number.
OPERATIONS = {**EXPENSIVE, "max": 4, "min": 4, "exp": 18, "sigmoid": 22, "tanh": 22, "gelu": 22, "erf": 22}
# Of these most are multiply-adds of a polynomial.
POLYNOMIALS = frozenset(("exp", "expm1", "log", "log1p", "sigmoid", "tanh", "gelu", "erf"))
# Functions whose operations mostly wait for each other: several vectors at once keep the machine busy, so many by the bytes of one. More
# are better in the caches only.
_WAITING = ("exp", "expm1", "log", "tanh", "sigmoid", "gelu")
AT_ONCE = {
    64: dict.fromkeys(_WAITING, 2),
    32: {
        **dict.fromkeys(("log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"), 2),
        **dict.fromkeys((*_WAITING, "erf"), 4),
    },
}
# Simple operations that split a vector into three bf16 terms; and cycles in which a number is drawn, or two are compared while sorting.
CUT_OPERATIONS, DRAW_CYCLES, COMPARE_CYCLES = 8, 8, 8
# Cycles until a result can be used: of a multiply-add, and of a simple function, or for each that a larger one counts as.
LATENCY, LATENCY_OF_SIMPLE = 4, 3
# Independent sums that hide it, where two begin in a cycle.
ENOUGH_SUMS = 2 * LATENCY
