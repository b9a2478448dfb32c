"""Running a module of any level on numpy, through the ops' reference meaning.

Symbolic sizes are bound from the shapes of the inputs. A reference that has a size among its attributes asks `resolve` what it is for
the run under way. Every tensor that an op makes is compared with the op's result type, so a reference and an inference that
disagree are found where they meet.

At kernel level `main` takes buffers, the outputs last. Inside the run a buffer is its flat array, which kernels write in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from polyreme.ir.attributes import SymbolRef
from polyreme.ir.builtin import RESULT_ROLES, Func, Module
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.define import BindsSizes, ConstantLike
from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.ir.dims import SYMBOL, Dim, Expr, substitute, symbols, told
from polyreme.ir.dims import evaluate as evaluate_dim
from polyreme.ir.sizes.facts import Guard, reasons
from polyreme.ir.types import BufferType, ScalarType, TensorType, Type, VectorType, element_type, type_symbols

Array = np.ndarray[Any, Any]

MAX_CALL_DEPTH = 64


class EvaluateError(PolyremeError):
    """Inputs that a function does not take, or an op that failed on the values it got."""

    code = "E0308"


# --- sizes of the run under way

_NO_SIZES: Mapping[str, int] = MappingProxyType({})
_sizes: ContextVar[Mapping[str, int]] = ContextVar("sizes", default=_NO_SIZES)


class TooManyRounds(EvaluateError):
    """A loop that goes on for longer than `at_most_rounds` says."""


_rounds: ContextVar[int | None] = ContextVar("rounds", default=None)


@contextmanager
def at_most_rounds(count: int) -> Iterator[None]:
    """Inside the `with` a loop of more rounds is an `EvaluateError`: of a module that nobody wrote, nobody knows that its loops end."""
    token = _rounds.set(count)
    try:
        yield
    finally:
        _rounds.reset(token)


def check_rounds(done: int, loop: Op) -> None:
    """Called by a loop before each round, of which it has `done` so many."""
    most = _rounds.get()
    if most is not None and done >= most:
        raise TooManyRounds(f"expected the loop to end within {most} rounds", loop.location, code="E0307")


def resolve(dim: Dim) -> int:
    """The number that `dim` stands for in the run under way; `EvaluateError` when one of its names has no value."""
    if isinstance(dim, int):
        return dim
    try:
        return evaluate_dim(dim, _sizes.get())
    except KeyError as error:
        raise EvaluateError(str(error.args[0]), code="E0307") from None


def resolve_all(dims: Iterable[Dim]) -> tuple[int, ...]:
    """Each of `dims` as `resolve` has it."""
    return tuple(d if isinstance(d, int) else resolve(d) for d in dims)


def learn_sizes(kinds: Sequence[Type], values: Sequence[Array], names: Collection[str]) -> None:
    """Bind those of `names` that the shapes of `values`, which are of types `kinds`, tell, in the run under way: anew, if they are bound
    already.
    """
    if not names:
        return
    sizes = _sizes.get()
    assert isinstance(sizes, dict), "sizes of a run that can learn some"
    for kind, value in zip(kinds, values, strict=True):
        for dim, size in zip(getattr(kind, "shape", ()), np.shape(value), strict=True):
            if (found := told(dim, size)) is not None and found[0] in names:
                sizes[found[0]] = int(found[1])


@contextmanager
def with_sizes(sizes: Mapping[str, int]) -> Iterator[None]:
    """Run with `sizes` bound; for whoever calls a reference by hand."""
    token = _sizes.set(sizes)
    try:
        yield
    finally:
        _sizes.reset(token)


# --- entry point


# Sees each op as it runs, with its operands and results, and gives the results to go on with.
Watch = Callable[[Op, Sequence[Any], Sequence[Any]], Sequence[Any]]


def evaluate(code: Module | Func, inputs: Sequence[Any], function: str = "main", watch: Watch | None = None) -> list[Array]:
    """The results of `function` on `inputs` (arrays, or what `np.asarray` takes).

    A function on buffers is given all its arguments, or all but the outputs, which are then made here; its results are the
    outputs, in the shapes of their types. Made outputs start as nan or the largest integer, so that a forgotten store shows. `watch` is
    called after every op.
    """
    func = code.function(function) if isinstance(code, Module) else code
    args = [np.asarray(x) for x in inputs]
    outputs = [i for i, role in enumerate(func.arg_roles) if role in RESULT_ROLES]
    given = [i for i in range(len(func.args)) if i not in outputs]
    if outputs and len(args) == len(given):
        sizes = bind_sizes(func, dict(zip(given, args, strict=True)))
        made = {i: _poison(func.args[i].type, sizes) for i in outputs}
        args = [made[i] if i in made else args[given.index(i)] for i in range(len(func.args))]
    if len(args) != len(func.args):
        raise EvaluateError(f"expected {len(given)} inputs for '@{func.sym_name}' but got {len(args)}", func.location, code="E0307")
    sizes = bind_sizes(func, dict(enumerate(args)))
    results = _Run(func, watch).call(func, [_enter(a, v) for a, v in zip(func.args, args, strict=True)], sizes)
    if not outputs:
        return [np.asarray(r) for r in results]
    return [args[i] for i in outputs]


def random_inputs(func: Func, seed: int = 0, size: int = 3, sizes: Mapping[str, int] = _NO_SIZES) -> list[Array]:
    """Inputs for a function, all but its outputs: numbers that narrow floats hold exactly, every symbolic size that is not in `sizes` is
    `size`.

    Integers are 0 or 1, so that they may be positions too.
    """
    rng = np.random.default_rng(seed)
    names: set[str] = set().union(*(type_symbols(a.type) for a in func.args))
    sizes = {**dict.fromkeys(names, size), **sizes}
    inputs = []
    for i, arg in enumerate(func.args):
        if i < len(func.arg_roles) and func.arg_roles[i] in RESULT_ROLES:
            continue
        shape = tuple(evaluate_dim(d, sizes) for d in getattr(arg.type, "shape", ()))
        dtype = element_type(arg.type)
        drawn = rng.integers(-16, 17, shape) / 8 if dtype.kind in "fc" else rng.integers(0, 2, shape)
        if dtype.kind == "c":
            drawn = drawn + 1j * rng.integers(-16, 17, shape) / 8
        inputs.append(np.asarray(drawn).astype(dtype.np))
    return inputs


def bind_sizes(func: Func, args: Mapping[int, Any], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """The sizes that arguments' shapes give to the names in their types; `EvaluateError` names the argument that does not fit.

    `args` are arrays by position; those left out bind nothing. In a call between functions `known` are the caller's sizes, which hold for
    names that no argument binds: buffers come as flat arrays there.
    """
    flat = known is not None
    sizes: dict[str, int] = {}
    for i, value in args.items():
        kind = func.args[i].type
        if flat and isinstance(kind, BufferType):
            continue
        _check_kind(func, i, value)
        for axis, (dim, size) in enumerate(zip(getattr(kind, "shape", ()), np.shape(value), strict=False)):
            if isinstance(dim, Expr) and SYMBOL.match(str(dim)):
                if sizes.setdefault(str(dim), size) != size:
                    _explain(func, i, axis, size, sizes)
                    _misfit(func, i, value, f", with {dim} = {sizes[str(dim)]} from another argument")
    # Only then the sizes that no axis has alone.
    for i, value in args.items():
        kind = func.args[i].type
        if not (flat and isinstance(kind, BufferType)):
            for dim, size in zip(getattr(kind, "shape", ()), np.shape(value), strict=False):
                if (found := told(dim, size)) is not None:
                    sizes.setdefault(found[0], max(int(found[1]), 0))
    bound = {**(known or {}), **sizes}
    for i, value in args.items():
        kind = func.args[i].type
        if not isinstance(kind, TensorType) and (flat or not isinstance(kind, BufferType)):
            continue
        wanted = [substitute(d, bound) for d in kind.shape]
        if any(isinstance(w, int) and w != size for w, size in zip(wanted, np.shape(value), strict=True)):
            for axis, (w, size) in enumerate(zip(wanted, np.shape(value), strict=True)):
                if w != size:
                    _explain(func, i, axis, size, sizes)
            names = ", ".join(f"{k} = {v}" for k, v in sizes.items())
            _misfit(func, i, value, f", with {names}" if names else "")
    _check_guards(func, bound)
    return bound


def _explain(func: Func, index: int, axis: int, size: int, sizes: Mapping[str, int]) -> None:
    """If a guard is why an axis of an argument must have the size that it has not, say so."""
    dim = func.args[index].type.shape[axis]
    wanted = substitute(dim, sizes)
    found = told(dim, size)
    fits = found is None or substitute(dim, {found[0]: found[1]}) == size
    if needs := reasons(map(Guard.parse, func.guards), dim, "equal" if fits else "divisor", _arg_name(func, index), axis):
        here = f", where {dim} is {wanted}" if isinstance(dim, Expr) and isinstance(wanted, int) and fits else ""
        raise EvaluateError(
            f"expected {needs} but got {size}, axis {axis} of the argument '{_arg_name(func, index)}' of '@{func.sym_name}'{here}",
            func.location,
            code="E0307",
        )


def _check_guards(func: Func, sizes: Mapping[str, int]) -> None:
    for guard in map(Guard.parse, func.guards):
        if guard.kind not in ("bound", "checked"):
            continue
        size, low, high = guard.measured
        if not symbols(size) <= sizes.keys():
            continue  # a bind of some arguments alone
        measured = evaluate_dim(size, sizes)
        if (low is not None and measured < low) or (high is not None and measured > high):
            raise EvaluateError(
                f"expected {guard.words} ({guard.origin}) but got {measured} for '@{func.sym_name}'", func.location, code="E0307"
            )


def _check_kind(func: Func, index: int, value: Any) -> None:
    kind = func.args[index].type
    if isinstance(kind, (TensorType, BufferType)):
        if value.ndim != kind.rank or value.dtype != kind.dtype.np:
            _misfit(func, index, value)
    elif isinstance(kind, VectorType):
        if np.shape(value) != (kind.lanes,):
            _misfit(func, index, value)
    elif np.ndim(value) != 0:
        _misfit(func, index, value)


def _misfit(func: Func, index: int, value: Any, why: str = "") -> None:
    arg = func.args[index]
    name = _arg_name(func, index)
    got = f"{value.dtype}{list(value.shape)}"
    raise EvaluateError(
        f"expected the argument '{name}' of '@{func.sym_name}' to be {arg.type} but got {got}{why}", func.location, code="E0307"
    )


def _arg_name(func: Func, index: int) -> str:
    return func.arg_names[index] if index < len(func.arg_names) else func.args[index].name or str(index)


def _poison(kind: BufferType, sizes: Mapping[str, int]) -> Array:
    with with_sizes(sizes):
        shape = resolve_all(kind.shape)
    dtype = kind.dtype.np
    fill: Any = np.nan if kind.dtype.kind in "fc" else True if kind.dtype.kind == "b" else np.iinfo(dtype).max
    return np.full(shape, fill, dtype)


def _enter(arg: Value, value: Array) -> Any:
    """An argument as ops take it: buffers flat and in place, scalars as numpy scalars."""
    if isinstance(arg.type, BufferType):
        if not value.flags.c_contiguous:
            raise EvaluateError(f"expected a contiguous array for the buffer '{arg.name}'", code="E0307")
        return value.reshape(-1)
    if isinstance(arg.type, ScalarType):
        return arg.type.np.type(value)
    return value


# --- the interpreter


class Returned(Exception):
    """A function ends here: what an op that ends it early raises when it is evaluated."""



class _Run:
    """One evaluation: the functions that calls may reach."""

    def __init__(self, func: Func, watch: Watch | None):
        self.watch = watch
        module = func.parent_op
        self.functions = {f.sym_name: f for f in module.functions} if isinstance(module, Module) else {}

    def call(self, func: Func, args: Sequence[Any], sizes: Mapping[str, int], depth: int = 1) -> list[Any]:
        if depth > MAX_CALL_DEPTH:
            raise EvaluateError(
                f"expected at most {MAX_CALL_DEPTH} calls inside each other but '@{func.sym_name}' goes deeper", func.location
            )
        known = dict(sizes)  # which ops that bind sizes add to
        with with_sizes(known):
            try:
                return _Frame(self, func, known, depth).run(func.body, args)
            except Returned:
                return []

    def callee(self, op: Op) -> Func:
        name = op.attributes["callee"].name
        if name not in self.functions:
            raise EvaluateError(
                f"'{op.name}' calls '@{name}', which is no function of the module{did_you_mean(name, self.functions)}", op.location
            )
        return self.functions[name]


class _Number(NamedTuple):
    """How an op is run that makes one number, or one vector of them, by its reference alone. Kernels have few others, and run them
    thousands of times: what can be known of an op before it runs is looked up once.
    """

    op: Op
    reference: Callable[..., Any]
    operands: list[Any]  # for each declared operand a value, a tuple of them, or None
    attributes: dict[str, Any]
    result: Value
    shape: tuple[int, ...] | None  # of a vector
    constant: bool

    @classmethod
    def of(cls, op: Op) -> _Number | None:
        kind = op.results[0].type if len(op.results) == 1 else None
        reference = getattr(type(op), "reference", None)
        if (
            not isinstance(kind, (ScalarType, VectorType))
            or reference is None
            or type(op).evaluate is not Op.evaluate
            or "callee" in op.attributes
            or BindsSizes in op.traits
        ):
            return None
        shape = (kind.lanes,) if isinstance(kind, VectorType) else None
        return cls(
            op,
            reference,
            op.definition.split(op._operands, op.segments),
            op.attributes,
            op.results[0],
            shape,
            shape is None and ConstantLike in op.traits,
        )


class _Frame:
    """The values of one call."""

    def __init__(self, run: _Run, func: Func, sizes: dict[str, int], depth: int):
        self.outer = run
        self.func = func
        self.sizes = sizes
        self.depth = depth
        self.values: dict[Value, Any] = {}
        self.known: dict[Block, list[tuple[Op, _Number | None]]] = {}
        self.learns: dict[Block, bool] = {}  # whether ops in a block bind sizes, which are known inside it only

    def run(self, region: Region, args: Sequence[Any]) -> list[Any]:
        """What the region's terminator passes on when its block is entered with `args`."""
        block: Block = region.block
        if len(args) != len(block.args):
            raise EvaluateError(f"expected {len(block.args)} values to enter the region but got {len(args)}")
        values = self.values
        values.update(zip(block.args, args, strict=True))
        steps = self.steps(block)
        around = dict(self.sizes) if self.learns[block] else None
        ends = self.ends(block)
        for place, (op, number) in enumerate(steps):
            if number is None:
                self.step(op)
            elif not (number.constant and number.result in values):
                self.compute(number)
            if ends is not None:
                for value in ends.get(place, ()):
                    values.pop(value, None)
        if around is not None and block.parent_op is not self.func:
            self.sizes.clear()
            self.sizes.update(around)
        return [] if block.last is None else [values[v] for v in block.last._operands]

    def steps(self, block: Block) -> list[tuple[Op, _Number | None]]:
        """The ops of a block before its terminator, with what is known of them."""
        found = self.known.get(block)
        if found is None:
            watched = self.outer.watch is not None
            found = self.known[block] = [(op, None if watched else _Number.of(op)) for op in block if op is not block.last]
            self.learns[block] = any(BindsSizes in op.traits for op, _ in found)
        return found

    def ends(self, block: Block) -> dict[int, list[Value]] | None:
        """By the number of an op of a function's own block on tensors: the values that nobody reads after it, whose memory may go. None
        for a block that runs several times, or whose values somebody watches."""
        func = self.func
        if block.parent_op is not func or self.outer.watch is not None or not all(isinstance(a.type, TensorType) for a in func.args):
            return None
        place = {op: i for i, op in enumerate(block)}
        found: dict[int, list[Value]] = {}
        for value in (*block.args, *(v for op in block for v in op.results)):
            last = max((self._in_block(user, place) for user in value.users), default=-1)
            found.setdefault(last, []).append(value)
        return found

    @staticmethod
    def _in_block(user: Op, place: Mapping[Op, int]) -> int:
        """The number of the op of a block that is, or has inside it, an op that uses a value of the block."""
        around: Op | None = user
        while around is not None and around not in place:
            around = around.parent_op
        assert around is not None
        return place[around]

    def compute(self, number: _Number) -> None:
        op, reference, operands, attributes, result, shape, _ = number
        values = self.values
        try:
            value = reference(*[values[x] if isinstance(x, Value) else x and tuple([values[v] for v in x]) for x in operands], **attributes)
            values[result] = value if shape is None or getattr(value, "shape", None) == shape else self.checked(op, result.type, value)
        except (PolyremeError, *_FAULTS) as error:
            _raise_with_place(op, error)

    def step(self, op: Op) -> None:
        values = self.values
        args = [values[v] for v in op._operands]
        try:
            results = self.results(op, args)
            if self.outer.watch is not None:
                results = self.outer.watch(op, args, results)
            if len(results) != len(op.results):
                raise EvaluateError(f"'{op.name}' made {len(results)} values but has {len(op.results)} results", op.location)
            if BindsSizes in op.traits:
                for result, value in zip(op.results, results):
                    self.bind(result.type, value)
            for result, value in zip(op.results, results):
                kind = result.type
                # Most ops of kernels make numbers, which need no look.
                values[result] = value if kind.__class__ is ScalarType else self.checked(op, kind, value)
        except (PolyremeError, *_FAULTS) as error:
            _raise_with_place(op, error)

    def results(self, op: Op, args: Sequence[Any]) -> Sequence[Any]:
        if "callee" in op.attributes and isinstance(op.attributes["callee"], SymbolRef):
            func = self.outer.callee(op)
            if len(args) != len(func.args):
                raise EvaluateError(
                    f"expected {len(func.args)} arguments for '@{func.sym_name}' but got {len(args)}", op.location, code="E0307"
                )
            sizes = bind_sizes(func, dict(enumerate(args)), self.sizes)
            run = lambda: self.outer.call(func, args, sizes, self.depth + 1)
            # Ops that start their callee several times say so.
            return op.run_callee(run) if hasattr(op, "run_callee") else run()
        return op.evaluate(args, self.run)

    def bind(self, kind: Type, value: Any) -> None:
        for dim, size in zip(getattr(kind, "shape", ()), np.shape(value), strict=False):
            if (found := told(dim, size)) is not None:
                self.sizes.setdefault(found[0], int(found[1]))

    def checked(self, op: Op, kind: Type, value: Any) -> Any:
        if isinstance(kind, TensorType):
            value = np.asarray(value)
            shape = tuple(d if isinstance(d, int) else substitute(d, self.sizes) for d in kind.shape)
            if value.shape != shape or value.dtype != kind.dtype.np:
                raise EvaluateError(f"'{op.name}' should make {kind} but made {value.dtype}{list(value.shape)}", op.location)
        elif isinstance(kind, VectorType) and np.shape(value) != (kind.lanes,):
            raise EvaluateError(f"'{op.name}' should make {kind} but made an array of shape {list(np.shape(value))}", op.location)
        return value


# What references raise on values that they do not take.
_FAULTS = (ArithmeticError, LookupError, TypeError, ValueError)


def _raise_with_place(op: Op, error: Exception) -> NoReturn:
    """Raise an error of an op's reference, with the op's place where it has none."""
    if not isinstance(error, PolyremeError):
        raise EvaluateError(f"'{op.name}' failed: {error}", op.location) from error
    if error.diagnostics[0].location:
        raise error
    raise EvaluateError(error.message, op.location, error.diagnostics[0].code) from error
