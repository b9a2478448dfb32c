"""How a case is written.

A file `cases_SUBJECT.py` holds functions that run under both modules. The short way, for calls of one name:

    @cases("paddle.add")
    def _(c):
        for dtype in FLOATS + INTS:
            c(normal(3, 1, dtype=dtype), normal(4, dtype=dtype))     # paddle.add(x, y), and its gradients
        c(normal(3, 4).strided(), normal(0, 3, 4))                   # non-contiguous, zero-size
        c(normal(3), normal(4), _raises=True)                        # Paddle raises; so must we, the same type

    @cases("paddle.nn.Linear")
    def _(c):
        # Built after a seed: printing, state dict, first values, outputs, gradients, evaluation mode.
        c.layer(4, 3, bias_attr=False)(normal(2, 4))
        c.expr("paddle.nn.Linear(4, 3)(x).sum()", x=normal(2, 4))

Arguments that are `Recipe`s become tensors with numbers drawn from a generator that is seeded by the case's text; floats need gradients, so
that the case also compares the gradients of all float arguments for a random cotangent. The case's text is its id: it changes exactly when
the case does. Options start with an underscore: see `Cases.__call__`.

The free way, for whatever takes several steps:

    @check("paddle.nn.Layer.apply", "paddle.nn.Layer.train")
    def apply_visits_children_first(paddle, np, rng):
        ...
        return {"order": order, "training": model.training}

The result is any tree of dicts, lists, tuples, tensors, arrays, dtypes, numbers, texts and None; `caught(f)` stands for what `f()` raises.
Under a key that starts with "grad" the tolerance is that of gradients. `paddle.seed(SEED)` is called and the counters of names start anew
before every case.

Case files import numpy and this module, neither of the frameworks.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

SEED = 2026
FLOATS = ("float32", "float64")
HALVES = ("float16", "bfloat16")
INTS = ("int32", "int64")
ALL_INTS = ("uint8", "int8", "int16", "int32", "int64")

Array = np.ndarray[Any, Any]
Rng = np.random.Generator


# --- recipes: tensors to be


@dataclass(frozen=True)
class Recipe:
    """A tensor that a case wants: `make(rng)` draws an array, which is cast to `dtype`. `floating` ones need gradients unless `fixed`;
    `sized` gives the same in another shape.
    """

    text: str
    shape: tuple[int, ...]
    dtype: str
    make: Callable[[Rng], Array]
    sized: Callable[[tuple[int, ...]], Recipe]
    is_strided: bool = False
    is_fixed: bool = False
    is_raw: bool = False

    @property
    def floating(self) -> bool:
        return self.dtype in (*FLOATS, *HALVES, "complex64", "complex128")

    @property
    def differentiable(self) -> bool:
        return self.floating and not self.is_fixed and not self.is_raw

    def strided(self) -> Recipe:
        """The same numbers as a non-contiguous tensor: a transposed view of a contiguous one, or where one axis has them all, every other
        element of a longer one.
        """
        return replace(self, is_strided=True)

    def resized(self, shape: Sequence[int]) -> Recipe:
        """The same kind of numbers in another shape."""
        return replace(self.sized(tuple(shape)), is_strided=self.is_strided, is_fixed=self.is_fixed, is_raw=self.is_raw)

    def fixed(self) -> Recipe:
        """The same, with `stop_gradient`."""
        return replace(self, is_fixed=True)

    def raw(self) -> Recipe:
        """The numpy array itself instead of a tensor."""
        return replace(self, is_raw=True)

    def __repr__(self) -> str:
        return self.text + ".strided" * self.is_strided + ".fixed" * self.is_fixed + ".raw" * self.is_raw

    def traits(self) -> set[str]:
        """What shape it has, as the coverage report counts it."""
        found = {self.dtype}
        if not self.shape:
            found.add("0-d")
        if 0 in self.shape:
            found.add("empty")
        if 1 in self.shape:
            found.add("one")
        if any(s % 2 and s > 1 for s in self.shape):
            found.add("odd")
        if self.is_strided and np.prod(self.shape) > 1:
            found.add("strided")
        return found


SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128", "bool": "bool"}


def _recipe(
    kind: str, shape: Sequence[int], dtype: str, make: Callable[[Rng], Array], sized: Callable[[tuple[int, ...]], Recipe], note: str = ""
) -> Recipe:
    short = SHORT.get(dtype, dtype.replace("uint", "u").replace("int", "i"))
    return Recipe(f"{kind}{short}[{','.join(map(str, shape))}]{note}", tuple(shape), dtype, make, sized)


def normal(*shape: int, dtype: str = "float32", scale: float = 1.0) -> Recipe:
    """Standard normal numbers times `scale`; for complex dtypes both parts; for integer dtypes rounded and three times as wide."""

    def make(rng: Rng) -> Array:
        values = rng.standard_normal(shape) * scale
        if dtype.startswith("complex"):
            values = values + 1j * rng.standard_normal(shape)
        if "int" in dtype:
            values = np.abs(np.round(3 * values)) if dtype.startswith("u") else np.round(3 * values)
        return np.asarray(values)

    return _recipe("", shape, dtype, make, lambda other: normal(*other, dtype=dtype, scale=scale), "" if scale == 1.0 else f"*{scale}")


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, dtype: str = "float32") -> Recipe:
    """Uniform numbers in [low, high)."""
    sized = lambda other: uniform(*other, low=low, high=high, dtype=dtype)
    return _recipe("", shape, dtype, lambda rng: np.asarray(rng.uniform(low, high, shape)), sized, f"in({low:g},{high:g})")


def apart(*shape: int, dtype: str = "float32", step: float = 0.25) -> Recipe:
    """Numbers that are all different, at least `step` apart, in random order and around 0: for maxima, sorting and other kinks."""

    def make(rng: Rng) -> Array:
        size = int(np.prod(shape))
        return (rng.permutation(size) - (size - 1) / 2.0 + 0.25).reshape(shape) * step

    return _recipe("apart ", shape, dtype, make, lambda other: apart(*other, dtype=dtype, step=step), "" if step == 0.25 else f"*{step}")


def ints(*shape: int, low: int = 0, high: int = 5, dtype: str = "int64") -> Recipe:
    """Integers in [low, high)."""
    sized = lambda other: ints(*other, low=low, high=high, dtype=dtype)
    return _recipe("", shape, dtype, lambda rng: np.asarray(rng.integers(low, high, shape)), sized, f"in({low},{high})")


def bools(*shape: int) -> Recipe:
    """Coin tosses."""
    return _recipe("", shape, "bool", lambda rng: np.asarray(rng.integers(0, 2, shape)).astype(bool), lambda other: bools(*other))


def array(values: Any, dtype: str = "float32") -> Recipe:
    """Exactly these numbers; in another shape the first of them along every axis, again from the first where there are not enough."""
    fixed = np.asarray(values, "float64" if dtype == "bfloat16" else dtype)
    sized = lambda other: array(fixed[np.ix_(*(np.arange(n) % max(old, 1) for n, old in zip(other, fixed.shape)))], dtype)
    return Recipe(f"{dtype} {_listed(fixed, values)}", fixed.shape, dtype, lambda rng: fixed, sized)


def _listed(fixed: Array, values: Any) -> str:
    """The numbers; where there are none, of what shape they are none."""
    return repr(np.asarray(values).tolist()) if fixed.size or fixed.ndim == 1 else f"none of {list(fixed.shape)}"


# --- cases


@dataclass(frozen=True)
class Case:
    """One run under each module. `body(paddle, rng)` gives the tree of results; the text, or the source of a free function, is the
    `fingerprint`.

    A `single` call may meet a dtype for which Paddle has no kernel: then it compares nothing. A free function may not.
    """

    id: str
    names: tuple[str, ...]
    subject: str
    body: Callable[[Any, Rng], Any]
    source: int | Callable[..., Any]  # the number, or the function that it is of: it is read when someone asks
    traits: frozenset[str] = frozenset()
    raises: bool = False
    exact: bool = False
    rtol: float | None = None
    atol: float | None = None
    single: bool = True

    @property
    def fingerprint(self) -> int:
        return self.source if isinstance(self.source, int) else fingerprint_of(self.source)

    def rng(self) -> Rng:
        return np.random.default_rng(zlib.crc32(self.id.encode()))


REGISTRY: dict[str, Case] = {}


def register(case: Case) -> None:
    """Add the case; a text that stands there already gets a number."""
    number, base = 1, case.id
    while case.id in REGISTRY:
        number += 1
        case = replace(case, id=f"{base} #{number}")
    REGISTRY[case.id] = case


def cases(*names: str) -> Callable[[Callable[[Cases], None]], Callable[[Cases], None]]:
    """The decorated function adds cases of the first name (which count for the others, too) by calling its argument."""

    def add(function: Callable[[Cases], None]) -> Callable[[Cases], None]:
        function(Cases(names, function.__module__.rpartition("cases_")[2]))
        return function

    return add


def check(
    *names: str, exact: bool = False, rtol: float | None = None, atol: float | None = None, traits: Sequence[str] = ()
) -> Callable[[Any], Any]:
    """The decorated `function(paddle, np, rng)` is a case of these names."""

    def add(function: Callable[[Any, Any, Rng], Any]) -> Callable[[Any, Any, Rng], Any]:
        subject = function.__module__.rpartition("cases_")[2]
        register(
            Case(
                f"{names[0]}: {function.__name__}", names, subject, lambda paddle, rng: function(paddle, np, rng),
                function, frozenset(traits),
                exact=exact, rtol=rtol, atol=atol, single=False,
            )  # fmt: skip
        )
        return function

    return add


def fingerprint_of(function: Callable[..., Any]) -> int:
    """A number of what the source says, which does not change with its layout, comments and docstrings."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for part in ast.walk(tree):
        if isinstance(part, ast.FunctionDef) and ast.get_docstring(part) is not None:
            del part.body[0]
    return zlib.crc32(repr(_said(tree)).encode())


def _said(part: Any) -> Any:
    """The syntax tree as nested tuples; fields that hold nothing are left out, since versions of Python differ in them."""
    if isinstance(part, ast.AST):
        fields = ((name, _said(value)) for name, value in ast.iter_fields(part) if value is not None and value != [])
        return (type(part).__name__, *fields)
    return [_said(p) for p in part] if isinstance(part, list) else repr(part)


class Raised:
    """That something raised: the names of the exception's class and of its bases, and what it said."""

    def __init__(self, error: BaseException):
        self.kinds = [k.__name__ for k in type(error).__mro__ if k.__name__ not in ("object", "BaseException", "Exception")] or [
            "Exception"
        ]
        self.text = re.sub(r"(?:/[\w.-]+)+/", "", str(error))  # without folders, which differ from machine to machine


def caught(function: Callable[[], Any]) -> Any:
    """`Raised` by `function()`, or that it did not raise."""
    try:
        function()
    except Exception as error:
        return Raised(error)
    return "nothing was raised"


@dataclass(frozen=True)
class Cases:
    """Adds cases of one name."""

    names: tuple[str, ...]
    subject: str
    seen: list[int] = field(default_factory=list)

    def __call__(
        self,
        *args: Any,
        _raises: bool = False,
        _exact: bool = False,
        _rtol: float | None = None,
        _atol: float | None = None,
        _second: bool = False,
        _no_grad: bool = False,
        _out: Callable[[Any], Any] | None = None,
        _forms: bool = True,
        **kwargs: Any,
    ) -> None:
        """A call of the name with these arguments, recipes among them (also within lists and tuples) made tensors.

        `_raises`: Paddle raises. `_exact`: bit for bit. `_rtol`, `_atol`: in place of what the dtype says. `_second`: second derivatives,
        too. `_no_grad`: the inputs need no gradients. `_out`: what of the result to compare. `_forms`: for the first case of a name that
        has no such forms, say False; otherwise the method `x.name(…)` and the in-place `name_` are tried where Paddle has them.
        """
        text = f"{self.names[0]}({_arguments(args, kwargs)})" + " second" * _second + " no grad" * _no_grad
        options = {"raises": _raises, "exact": _exact, "rtol": _rtol, "atol": _atol}
        call = Call(self.names[0], args, kwargs, second=_second, with_grad=not _no_grad, out=_out)
        self._add(text, call.run, _recipes((args, kwargs)), options, gradients=call.with_grad and not _raises)
        if not self.seen and _forms and not _raises and _out is None and args and isinstance(args[0], Recipe) and not args[0].is_raw:
            self._add(text + " as a method", call.run_method, _recipes((args, kwargs)), options, gradients=call.with_grad)
            self._add(text + " in place", call.run_in_place, _recipes((args, kwargs)), options, gradients=call.with_grad)
            self.seen.append(1)

    def expr(
        self,
        text: str,
        _raises: bool = False,
        _exact: bool = False,
        _rtol: float | None = None,
        _atol: float | None = None,
        _second: bool = False,
        _no_grad: bool = False,
        **inputs: Any,
    ) -> None:
        """An expression of inputs, which may say `paddle`, `F` (paddle.nn.functional) and `np`."""
        recipes = _recipes(inputs)
        told = ", ".join(f"{k}={v!r}" for k, v in inputs.items())
        call = Call("", (), inputs, expression=text, second=_second, with_grad=not _no_grad)
        options = {"raises": _raises, "exact": _exact, "rtol": _rtol, "atol": _atol}
        self._add(f"{self.names[0]}: {text} where {told}" + " second" * _second, call.run, recipes, options, gradients=call.with_grad)

    def layer(self, *args: Any, _default: str = "float32", **kwargs: Any) -> Callable[..., None]:
        """Build the class with these arguments after a seed; call the answer with the inputs of `forward` (none: only build). `_default` is
        the default dtype then.

        Compares `repr`, the keys, shapes, numbers and names of the state dict, outputs, gradients of inputs and parameters, and outputs in
        evaluation mode.
        """


        def add(
            *inputs: Any,
            _raises: bool = False,
            _exact: bool = False,
            _rtol: float | None = None,
            _atol: float | None = None,
            **keywords: Any,
        ) -> None:
            text = f"{self.names[0]}({_arguments(args, kwargs)})" + (f"({_arguments(inputs, keywords)})" if inputs or keywords else "")
            if _default != "float32":
                text += f" in {_default}"
            built = Built(self.names[0], args, kwargs, inputs, keywords, _default)
            options = {"raises": _raises, "exact": _exact, "rtol": _rtol, "atol": _atol}
            self._add(text, built.run, _recipes((inputs, keywords)), options, gradients=not _raises)

        return add

    def _add(self, text: str, body: Any, recipes: list[Recipe], options: dict[str, Any], *, gradients: bool) -> None:
        traits = set().union(*(r.traits() for r in recipes)) if recipes else set()
        if any(_broadcast(a.shape, b.shape) for a in recipes for b in recipes):
            traits.add("broadcast")
        if options["raises"]:
            traits.add("raises")
        elif gradients and any(r.differentiable for r in recipes):
            traits.add("gradient")
        register(Case(text, self.names, self.subject, body, zlib.crc32(text.encode()), frozenset(traits), **options))


def _broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether the shapes differ and fit each other all the same."""
    return one != other and all(a == b or 1 in (a, b) for a, b in zip(one[::-1], other[::-1]))


def _arguments(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    return ", ".join([*(repr(a) for a in args), *(f"{k}={v!r}" for k, v in kwargs.items())])


def _recipes(value: Any) -> list[Recipe]:
    if isinstance(value, Recipe):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [r for v in value for r in _recipes(v)] if isinstance(value, (list, tuple)) else []


# --- what a case does under a module


class Absent:
    """The module has no such form."""


def resolve(paddle: Any, name: str) -> Any:
    """What stands under `paddle.a.b`."""
    value = paddle
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


class Inputs:
    """Recipes made tensors of a module, in order; `leaves` are those that need gradients, by the place they have in the arguments."""

    def __init__(self, paddle: Any, rng: Rng, *, with_grad: bool):
        self.paddle, self.rng, self.with_grad = paddle, rng, with_grad
        self.leaves: list[Any] = []

    def __call__(self, value: Any) -> Any:
        if isinstance(value, Recipe):
            return self.tensor(value)
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(self(v) for v in value)
        if isinstance(value, dict):
            return {k: self(v) for k, v in value.items()}
        return value.resolve(self.paddle) if isinstance(value, Of) else value

    def tensor(self, recipe: Recipe) -> Any:
        values = recipe.make(self.rng)
        if recipe.is_raw:
            return values.astype(recipe.dtype)
        storage = "float32" if recipe.dtype == "bfloat16" else recipe.dtype
        values = np.ascontiguousarray(values).reshape(values.shape).astype(storage)
        wide = recipe.is_strided and sum(n > 1 for n in recipe.shape) == 1  # a transposed view of which would be contiguous
        leaf = self.paddle.to_tensor(
            np.repeat(values, 2, _longest(recipe.shape)) if wide else np.ascontiguousarray(values.T) if recipe.is_strided else values
        )
        if recipe.dtype == "bfloat16":
            leaf = leaf.astype("bfloat16")
        leaf.stop_gradient = not (self.with_grad and recipe.differentiable)
        if not leaf.stop_gradient:
            self.leaves.append(leaf)
        if wide:
            return leaf[(slice(None),) * _longest(recipe.shape) + (slice(None, None, 2),)]
        return leaf.transpose(list(range(len(recipe.shape)))[::-1]) if recipe.is_strided else leaf


def _longest(shape: tuple[int, ...]) -> int:
    """The axis of the largest size."""
    return shape.index(max(shape))


@dataclass(frozen=True)
class Of:
    """An argument that a module makes: `of("paddle.nn.initializer.Constant(2.0)")`."""

    text: str

    def resolve(self, paddle: Any) -> Any:
        return eval(self.text, {"paddle": paddle, "np": np, "F": paddle.nn.functional})

    def __repr__(self) -> str:
        return self.text


def of(text: str) -> Of:
    """An argument that each module makes of this expression, such as an initializer, a layer or a dtype."""
    return Of(text)


def gradients(paddle: Any, result: Any, leaves: list[Any], rng: Rng, *, second: bool = False) -> Any:
    """Gradients of all leaves for a random cotangent of every float tensor in `result`; None for a leaf that does not matter. No outputs:
    None.
    """
    outputs = [t for t in _once(_tensors(paddle, result)) if not t.stop_gradient and ("float" in str(t.dtype) or "complex" in str(t.dtype))]
    if not outputs or not leaves:
        return None
    cotangents = [_like(paddle, t, rng) for t in outputs]
    if not second:
        return {"first": list(paddle.grad(outputs, leaves, cotangents, allow_unused=True))}
    try:
        first = paddle.grad(outputs, leaves, cotangents, create_graph=True, allow_unused=True)
        again = [t for t in first if t is not None and not t.stop_gradient]
        found = paddle.grad(again, leaves, [_like(paddle, t, rng) for t in again], allow_unused=True) if again else [None] * len(leaves)
    except RuntimeError as error:
        if "doesn't have any grad op" not in str(error):
            raise
        # Paddle has no second derivative of it.
        return {"first": list(paddle.grad(outputs, leaves, cotangents, allow_unused=True)), "second": Absent()}
    return {
        "first": [None if t is None else t.detach() for t in first],
        "second": [paddle.zeros_like(x) if g is None else g for x, g in zip(leaves, found)],
    }


def _like(paddle: Any, tensor: Any, rng: Rng) -> Any:
    values = rng.standard_normal(tuple(tensor.shape))
    if "complex" in str(tensor.dtype):
        values = values + 1j * rng.standard_normal(tuple(tensor.shape))
    return paddle.to_tensor(np.asarray(values)).astype(tensor.dtype)


def _once(tensors: Iterator[Any]) -> list[Any]:
    return list({id(t): t for t in tensors}.values())


def _tensors(paddle: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, paddle.Tensor):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from _tensors(paddle, v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(paddle, v)


@dataclass(frozen=True)
class Call:
    """A call of a name, or an expression."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    expression: str = ""
    second: bool = False
    with_grad: bool = True
    out: Callable[[Any], Any] | None = None

    def run(self, paddle: Any, rng: Rng) -> Any:
        inputs = Inputs(paddle, rng, with_grad=self.with_grad)
        args, kwargs = inputs(self.args), inputs(self.kwargs)
        if self.expression:
            result = eval(self.expression, {"paddle": paddle, "F": paddle.nn.functional, "np": np, **kwargs})
        else:
            result = resolve(paddle, self.name)(*args, **kwargs)
        if self.out is not None:
            result = self.out(result)
        return {"result": result, "grad": gradients(paddle, result, inputs.leaves, rng, second=self.second)}

    def run_method(self, paddle: Any, rng: Rng) -> Any:
        """`x.name(…)` instead of `paddle.name(x, …)`."""
        inputs = Inputs(paddle, rng, with_grad=self.with_grad)
        args, kwargs = inputs(self.args), inputs(self.kwargs)
        method = getattr(args[0], self.name.rpartition(".")[2], None)
        if method is None:
            return Absent()
        result = method(*args[1:], **kwargs)
        return {"result": result, "grad": gradients(paddle, result, inputs.leaves, rng)}

    def run_in_place(self, paddle: Any, rng: Rng) -> Any:
        """`paddle.name_(x, …)` or `x.name_(…)`: returns x itself, which has the result, a later version, and the gradients of both."""
        space, _, last = self.name.rpartition(".")
        inputs = Inputs(paddle, rng, with_grad=self.with_grad)
        args, kwargs = inputs(self.args), inputs(self.kwargs)
        function = getattr(resolve(paddle, space), last + "_", None)
        method = getattr(args[0], last + "_", None) if space == "paddle" else None
        if last.endswith("_") or function is None and method is None:
            return Absent()  # which is also what a form is that does not take these arguments: see below
        changed = args[0] * 1 if not args[0].stop_gradient else args[0]
        before = changed.inplace_version
        try:
            result = function(changed, *args[1:], **kwargs) if method is None else getattr(changed, last + "_")(*args[1:], **kwargs)
        except TypeError:
            return Absent()
        except Exception as error:
            return {"raised": Raised(error)}
        return {"result": changed, "same": result is changed, "versions": changed.inplace_version - before,
                "grad": gradients(paddle, changed, inputs.leaves, rng)}  # fmt: skip


@dataclass(frozen=True)
class Built:
    """A layer, built and called."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[Any, ...]
    keywords: dict[str, Any]
    default: str = "float32"

    def run(self, paddle: Any, rng: Rng) -> Any:
        paddle.set_default_dtype(self.default)
        try:
            return self.outcome(paddle, rng)
        finally:
            paddle.set_default_dtype("float32")

    def outcome(self, paddle: Any, rng: Rng) -> Any:
        made = Inputs(paddle, rng, with_grad=True)
        layer = resolve(paddle, self.name)(*made(self.args), **made(self.kwargs))
        state = {k: v.detach().clone() for k, v in layer.state_dict().items()}
        found = {
            "repr": repr(layer),
            "state": state,
            "names": {k: p.name for k, p in layer.named_parameters()},
            "full_name": layer.full_name(),
        }
        if self.inputs or self.keywords:
            inputs, keywords = made(self.inputs), made(self.keywords)
            result = layer(*inputs, **keywords)
            leaves = made.leaves + [p for p in layer.parameters() if not p.stop_gradient]
            found |= {"result": result, "grad": gradients(paddle, result, leaves, rng)}
            found["state after"] = {k: v for k, v in layer.state_dict().items() if v.stop_gradient}
            layer.eval()
            found["evaluation"] = layer(*inputs, **keywords)
        return found


def load(subjects: Sequence[str] = ()) -> dict[str, Case]:
    """All cases by id, or those of some subjects: the files `cases_SUBJECT.py` in this folder, and what is derived from all of them."""
    from tests.api.derived import SUBJECT, derive  # which reads what cases are made of here

    wanted = () if SUBJECT in subjects else subjects
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        if not wanted or path.stem.removeprefix("cases_") in wanted:
            import_module(f"tests.api.{path.stem}")
    if not wanted and not any(c.subject == SUBJECT for c in REGISTRY.values()):
        for case in list(derive(REGISTRY)):
            register(case)
    return {i: c for i, c in REGISTRY.items() if not subjects or c.subject in subjects}
