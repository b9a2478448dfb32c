"""Elementary functions of the C library, lane by lane: for angles too large for our own reduction, and functions without code of their own.
"""

from __future__ import annotations

from polyreme.lowering.emit.llvm.text import Lane, join

# Angles from here on are the library's.
HUGE_ANGLE = 2.0**30

# Names of float64 functions that code may call, and of float32 ones; modules that use them declare them.
LIBM = (
    "sin",
    "cos",
    "tan",
    "atan2",
    "pow",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "tanh",
    "erf",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "fmod",
)
LIBM_FLOAT32 = ("sinf", "cosf", "tanf", "fmodf")
_OF_TWO = ("atan2", "pow", "fmod", "fmodf")


def libm(function: str, *operands: Lane) -> Lane:
    """A function of libm, lane by lane."""
    first = operands[0]
    results = []
    for scalars in zip(*(operand.split() for operand in operands), strict=True):
        args = ", ".join(s.typed for s in scalars)
        results.append(first.code.value(first.elem, 1, f"call {first.elem} @{function}({args})"))
    return join(results)


def libm_declarations() -> list[str]:
    """Every libm function that the code here may call."""
    typed = [("double", name) for name in LIBM] + [("float", name) for name in LIBM_FLOAT32]
    return [f"declare {elem} @{name}({', '.join([elem] * (1 + (name in _OF_TWO)))})" for elem, name in typed]


def unless(special: Lane, x: Lane, result: Lane, function: str, *more: Lane) -> Lane:
    """`result`, but libm's function of x, and of `more`, where `special` is on: a branch that is taken if some lane is."""
    code = x.code
    some = special
    if x.lanes > 1:
        packed = code.value(f"i{x.lanes}", 1, f"bitcast {special.typed} to i{x.lanes}")
        some = packed.compare("ne", 0)
    here, slow, done = code.block, code.label("huge"), code.label("reduced")
    code.branch(some.ref, slow, done)
    code.start(slow)
    exact = special.where(libm(function, x, *more), result)
    code.jump(done)
    code.start(done)
    return code.value(x.elem, x.lanes, f"phi {x.type} [ {result.ref}, %{here} ], [ {exact.ref}, %{slow} ]")
