"""How a case of `paddle.fluid` is written: a function of the module that returns plain values of what it did.

    @check("paddle.fluid.Block.remove_op", "paddle.fluid.Block.slice_ops")
    def operators_are_removed(fluid, np):
        ...
        return {"types": [op.type for op in block.ops], "error": caught(lambda: block.var("none"), "none")}

It runs under 1.8.5 and here, with programs, scope and unique names of its own. A result is a tree of dicts, lists, texts, numbers, None and
arrays. `caught(f, *words)` gives the exception's class and which of `words` its message says. `older=True` is for what no Paddle has: the
case asserts itself what the documents say, and returns None. This file and the cases run under Python 3.8, too.
"""

import inspect
import zlib
from importlib import import_module
from pathlib import Path

REGISTRY = {}


class Case:
    """One case: its names, its function, and the checksum of the function's text."""

    def __init__(self, names, function, older):
        self.id = f"{names[0]}: {function.__name__}"
        self.names, self.function, self.older = names, function, older

    @property
    def fingerprint(self):
        return zlib.crc32(inspect.getsource(self.function).encode())

    def run(self, fluid, np):
        """The outcome as JSON has it; never raises."""
        try:
            with fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
                with fluid.program_guard(fluid.Program(), fluid.Program()):
                    return plain(self.function(fluid, np), np)
        except Exception as error:
            return {"raised": type(error).__name__, "text": str(error)[-600:]}


def check(*names, older=False):
    """The decorated function is a case of these names."""

    def add(function):
        case = Case(names, function, older)
        assert case.id not in REGISTRY, case.id
        REGISTRY[case.id] = case
        return function

    return add


def load():
    """All cases by id."""
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        import_module("tests.fluid_api." + path.stem)
    return REGISTRY


def caught(call, *words):
    """What `call()` raises, and which words its message says; else what it gives."""
    try:
        found = call()
    except Exception as error:
        text = str(error)
        kinds = [k.__name__ for k in type(error).__mro__ if issubclass(k, Exception)]
        return {"error": kinds, "says": {w: w in text for w in words}}
    return {"gave": found if isinstance(found, (int, float, str, bool, type(None))) else type(found).__name__}


def kind_of(fluid, variable):
    """The name of a variable's element type, which is to equal a member of `VarType`."""
    kinds = fluid.core.VarDesc.VarType
    names = ("BOOL", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "UINT8", "INT8")
    return [name for name in names if variable.dtype == getattr(kinds, name)]


def sizes_of(variable):
    """The shape, with -1 for a free size."""
    return [-1 if size == -1 else int(size) for size in variable.shape]


def plain(value, np):
    """The tree of a result."""
    if isinstance(value, dict):
        return {str(k): plain(v, np) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, np) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.ravel().tolist()}
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError("expected a plain value in a result but got " + type(value).__name__)


# Paddle 1.8's library raises EnforceNotMet for every mistake; here it is the class that Python has for it.
MISTAKES = {"ValueError", "TypeError", "RuntimeError", "IndexError", "KeyError", "NotImplementedError", "FileNotFoundError"}


def differences(got, expected, where="result"):
    """Where two outcomes differ: numbers by more than 1e-5, everything else at all."""
    if isinstance(got, dict) and isinstance(expected, dict):
        if set(got) != set(expected):
            return [f"{where}: {sorted(got)} instead of {sorted(expected)}" + (": " + str(got["text"]) if "text" in got else "")]
        return [d for k in expected for d in differences(got[k], expected[k], where + "." + k)]
    if where.endswith(".error"):
        fine = expected[0] in got or expected[0] in ("EnforceNotMet", "AssertionError") and bool(MISTAKES & set(got))
        return [] if fine else [f"{where}: {got} instead of {expected[0]}"]
    if isinstance(got, list) and isinstance(expected, list):
        if len(got) != len(expected):
            return [f"{where}: {got} instead of {expected}"]
        return [d for i, (g, e) in enumerate(zip(got, expected)) for d in differences(g, e, f"{where}[{i}]")]
    if isinstance(expected, float) and isinstance(got, float):
        near = abs(expected) < float("inf") and abs(got - expected) <= 1e-5 * max(1.0, abs(expected))
        close = got == expected or near or got != got and expected != expected
        return [] if close else [f"{where}: {got} instead of {expected}"]
    return [] if got == expected and type(got) is type(expected) else [f"{where}: {got!r} instead of {expected!r}"]
