"""Elementary functions of the C library, lane by lane: for angles too large for our own reduction, and functions without code of their own.
"""

from __future__ import annotations

from polyreme.lowering.emit.llvm.text import Lane, join

# Angles from here on are the library's.
HUGE_ANGLE = 2.0**30
# The bits of 2/pi after the point, as many as the largest float64 needs.
TWO_OVER_PI = (
    0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561, 0xB7246E3A, 0x424DD2E0, 0x06492EEA,
    0x09D1921C, 0xFE1DEB1C, 0xB129A73E, 0xE88235F5, 0x2EBB4484, 0xE99C7026, 0xB45F7E41, 0x3991D639, 0x835339F4, 0x9C845F8B, 0xBDF9283B,
    0x1FF897FF, 0xDE05980F, 0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF, 0x27CB09B7, 0x4F463F66, 0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B, 0x3D0739F7,
    0x8A5292EA, 0x6BFB5FB1, 0x1F8D5D08, 0x56033046, 0xFC7B6BAB,
)  # fmt: skip

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
