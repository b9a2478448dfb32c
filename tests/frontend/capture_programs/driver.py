"""Runs one program in three ways, and notes all that can be seen of each call: what came back, gradients, outputs, errors, and every object
outside afterwards.

A program is a function of a `Run`: it builds what it needs anew, makes functions `static`, names the objects to `watch`, and calls. Nothing
of one run is left to the next, so that what was noted in two runs can be compared.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import io
import random
import re
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme import nn
from polyreme.ir.diagnostics import PolyremeError
from polyreme.jit import StaticFunction
from polyreme.nn.tables import Table

MODES = ("eager", "default", "full")
PROGRAMS: dict[str, tuple[Callable[[Run], None], bool]] = {}
_UNSEEN = ("_full_name", "_state_dict_hooks", "_forward_hook_ids", "_to_static_bound")


def program(whole: bool = True) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Note a program. With `whole` every call of its static functions is to be one program in the default mode, too."""

    def noted(function: Callable[[Run], None]) -> Callable[[Run], None]:
        assert function.__name__ not in PROGRAMS, function.__name__
        PROGRAMS[function.__name__] = function, whole
        return function

    return noted


class Refused(Exception):
    """A call was refused by `full_graph=True`: the program ends."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """An object that was met before."""

    number: int


@dataclasses.dataclass(frozen=True)
class Array:
    """Values, for comparison: close if they are of a floating dtype."""

    dtype: str
    values: Any


class Run:
    """One run of a program in one of `MODES`."""

    def __init__(self, mode: str):
        self.mode = mode
        self.notes: list[Any] = []
        self.watched: list[Any] = []
        self.statics: list[StaticFunction] = []
        self.refusal: Exception | None = None
        self.made = 0
        self.calls = 0  # that came to an end
        paddle.seed(11)
        random.seed(11)
        np.random.seed(11)

    # --- what programs use

    def static(self, function: Any = None, **options: Any) -> Any:
        """The function or Layer, compiled if this run is one of compiled code; also as a decorator with options."""
        if function is None:
            return functools.partial(self.static, **options)
        if self.mode == "eager":
            return function
        made = paddle.jit.to_static(function, full_graph=self.mode == "full", **options)
        held = made.forward if isinstance(made, nn.Layer) else made
        if isinstance(held, StaticFunction):
            self.statics.append(held)
        return made

    def watch(self, *objects: Any) -> None:
        """Compare these objects, and all they hold, after every call."""
        self.watched += objects

    def t(self, *shape: int, dtype: str = "float32", grad: bool = False) -> Any:
        """A new tensor; the numbers are the same in every run."""
        self.made += 1
        drawn = np.random.default_rng(self.made).standard_normal(shape)
        if dtype.startswith(("int", "uint")):
            drawn = np.random.default_rng(self.made).integers(0, 3, shape)
        if dtype.startswith("complex"):
            drawn = drawn + 1j * np.random.default_rng(self.made + 99).standard_normal(shape)
        made = paddle.to_tensor(drawn).astype(dtype)
        made.stop_gradient = not grad
        return made

    def g(self, *shape: int, dtype: str = "float32") -> Any:
        """A new tensor that needs gradients."""
        return self.t(*shape, dtype=dtype, grad=True)

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call, go backward from what came, and note everything."""
        before = self._state(args, kwargs)
        printed = io.StringIO()
        result, error = None, None
        try:
            with contextlib.redirect_stdout(printed):
                result = function(*args, **kwargs)
        except Exception as raised:
            error = raised
        if (
            self.mode == "full"
            and error is not None
            and (isinstance(error, PolyremeError) or compare(before, self._state(args, kwargs)) is None)
        ):
            # A call that cannot be one program, since it raises, too.
            self.refusal = error
            difference = compare(before, self._state(args, kwargs))
            assert difference is None, f"a refused call changed what is outside: {difference}"
            raise Refused
        self.calls += 1
        self.notes.append(("output", printed.getvalue()))
        self.notes.append(("error", None if error is None else (type(error).__name__, said(error))))
        memo: dict[int, int] = {}
        kept: list[Any] = []
        state = [describe(part, memo, kept) for part in ([*args], kwargs, self.watched)]
        self.notes.append(("result", describe(result, memo, kept)))
        self.notes.append(("state", state))
        self._backward(result, args, kwargs)
        return result

    def note(self, value: Any) -> None:
        """Compare this value, too."""
        self.notes.append(("noted", describe(value, {}, [])))

    # ---

    def _state(self, *more: Any) -> Any:
        memo: dict[int, int] = {}
        kept: list[Any] = []
        return [describe(part, memo, kept) for part in (*more, self.watched)]

    def _backward(self, result: Any, args: Any, kwargs: Any) -> None:
        results = [t for t in tensors(result) if not t.stop_gradient and (t.dtype.name.startswith(("float", "bfloat", "complex")))]
        places = tensors([args, kwargs, self.watched])
        if not results:
            return
        total = None
        for held in results:
            weight = paddle.to_tensor(np.linspace(0.5, 1.5, held.size, dtype="float32").reshape(held.shape))
            part = held.real() + 2.0 * held.imag() if held.dtype.name.startswith("complex") else held.astype("float32")
            part = (part.astype("float32") * weight).sum()
            total = part if total is None else total + part
        try:
            total.backward()
        except Exception as error:
            self.notes.append(("backward", type(error).__name__))
        self.notes.append(("gradients", [None if t.grad is None else describe(t.grad, {}, []) for t in places]))
        for held in places:
            held.clear_grad() if held.grad is not None else None


def said(error: Exception) -> str:
    """How its message begins; numbers of tensors go on from run to run."""
    return re.sub(r"_\d+\b", "_N", str(error))[:60]


def tensors(value: Any, seen: set[int] | None = None) -> list[Any]:
    """All tensors in nested containers, Layers and plain objects, each once."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return []
    if isinstance(value, paddle.Tensor):
        seen.add(id(value))
        return [value]
    parts = list(_parts(value))
    if parts:
        seen.add(id(value))
    return [held for _, part in parts for held in tensors(part, seen)]


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    """What an object holds, each under a name."""
    if isinstance(value, StaticFunction):
        return _parts(value.dygraph_function)
    if isinstance(value, Table) and any(isinstance(key, int) for key in value):
        return list(enumerate(value.values()))  # hooks, whose numbers go on from run to run
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple, collections.deque)):
        return list(enumerate(value))
    if isinstance(value, functools.partial):
        return [("func", value.func), ("args", value.args), ("keywords", value.keywords)]
    if isinstance(value, types.MethodType):
        return [("self", value.__self__)]
    if isinstance(value, types.FunctionType):
        cells = [
            (name, cell.cell_contents)
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            if _is_full(cell)
        ]
        return [*cells, ("defaults", value.__defaults__), ("kwdefaults", value.__kwdefaults__), *vars(value).items()]
    if isinstance(value, type) and value.__module__.startswith("tests."):
        return [(k, v) for k, v in vars(value).items() if not k.startswith("__") and not callable(v)]
    if isinstance(value, (type, types.ModuleType, Run, np.ndarray)):
        return []
    own = getattr(value, "__dict__", None)
    return (
        [(k, v) for k, v in own.items() if k not in _UNSEEN and not (k == "forward" and isinstance(v, StaticFunction))]
        if isinstance(own, dict)
        else []
    )


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def describe(value: Any, memo: dict[int, int], kept: list[Any]) -> Any:
    """A value as something that can be compared with that of another run: contents, and which objects are one and the same."""
    if isinstance(value, StaticFunction):
        value = value.dygraph_function
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return type(value).__name__, repr(value) if not isinstance(value, float) else Array("float", np.asarray(value))
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType, Run)) and not list(_parts(value)):
        return getattr(value, "__name__", type(value).__name__)
    if id(value) in memo:
        return Reference(memo[id(value)])
    memo[id(value)] = len(memo)
    kept.append(value)
    if isinstance(value, paddle.Tensor):
        values = value.astype("float32") if value.dtype.name == "bfloat16" else value
        return (
            "tensor",
            value.dtype.name,
            tuple(value.shape),
            value.stop_gradient,
            type(value).__name__,
            Array(value.dtype.name, values.detach().numpy().copy()),
        )
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, Array(str(value.dtype), value.copy())
    if isinstance(value, np.generic):
        return "scalar", str(value.dtype), Array(str(value.dtype), np.asarray(value))
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, value))
    name = value.__qualname__ if isinstance(value, types.FunctionType) else type(value).__name__
    return name, [(str(key), describe(part, memo, kept)) for key, part in _parts(value)]


def compare(expected: Any, actual: Any, where: str = "") -> str | None:
    """Where two descriptions differ; None if they are the same."""
    if isinstance(expected, Array) and isinstance(actual, Array):
        loose = 2e-2 if expected.dtype in ("bfloat16", "float16") else 1e-5
        if expected.values.shape != actual.values.shape:
            return f"{where}: expected shape {expected.values.shape} but got {actual.values.shape}"
        same = (
            np.allclose(expected.values, actual.values, rtol=loose, atol=loose, equal_nan=True)
            if expected.values.dtype.kind in "fc"
            else np.array_equal(expected.values, actual.values)
        )
        return None if same else f"{where}: expected {expected.values} but got {actual.values}"
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        if len(expected) != len(actual):
            return f"{where}: expected {expected} but got {actual}"
        for i, (a, b) in enumerate(zip(expected, actual, strict=True)):
            label = a[0] if isinstance(a, tuple) and a and isinstance(a[0], str) else i
            difference = compare(a, b, f"{where}.{label}")
            if difference is not None:
                return difference
        return None
    return None if expected == actual else f"{where}: expected {expected} but got {actual}"


def run(name: str, mode: str) -> Run:
    """One run of a program."""
    function, _ = PROGRAMS[name]
    made = Run(mode)
    with contextlib.suppress(Refused), paddle.utils.unique_name.guard():
        function(made)
    return made


def difference(expected: Run, actual: Run) -> str | None:
    """What is not the same in a compiled run; the calls that were made before one was refused are compared."""
    notes = expected.notes if actual.refusal is None else expected.notes[: len(actual.notes)]
    return compare(notes, actual.notes)


def three(p: Run, function: Any) -> None:
    """Calls at two shapes."""
    p.call(function, p.g(2, 3))
    p.call(function, p.t(2, 3))
    p.call(function, p.g(4, 3))
