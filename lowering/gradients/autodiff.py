"""Reverse-mode differentiation of `nn` functions, from the rules in `lowering/gradients/`.

`GRADIENTS` maps op classes to rules, for the compiler and the eager tape alike. `forward_half` makes the function that keeps what gradients
need (residuals), `backward_half` one that computes them for the results that have gradients, and `forward_backward` both at once. Views and
constants are made again rather than kept. `gradient_function` computes gradients from the arguments alone, so that it can be differentiated
again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from polyreme.dialects.nn import Full
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, OpResult, Value
from polyreme.ir.define import ConstantLike, ControlFlow, View
from polyreme.ir.diagnostics import PassError
from polyreme.ir.dims import Dim, line_of, symbols
from polyreme.ir.rewrite import rewrite_greedily
from polyreme.ir.types import TensorType, type_symbols
from polyreme.lowering.analysis.names import distinct
from polyreme.lowering.gradients import (
    attention,
    complex,
    control,
    custom,
    dist,
    elementwise,
    linear,
    matrix,
    norm,
    pool,
    quantize,
    recurrent,
    reduce,
    shape,
)
from polyreme.lowering.gradients.table import GRADIENTS, gradient, has_gradient
from polyreme.lowering.gradients.walk import NOT_DIFFERENTIABLE, active_values, gradients_and_presence, gradients_of
from polyreme.lowering.transforms.control_cleanup import CONTROL_PATTERNS

__all__ = [
    "active_values", "arguments_read", "arguments_read_themselves",
    "GRADIENTS", "NOT_DIFFERENTIABLE", "BackwardHalf", "Differentiated", "ForwardHalf", "backward_half", "forward_backward", "forward_half",
    "gradient",
    "gradient_function", "gradients_and_presence", "gradients_of", "needs_gradients",
]  # fmt: skip

# importing them fills the table
_FAMILIES = (attention, complex, control, custom, dist, elementwise, linear, matrix, norm, pool, quantize, recurrent, reduce, shape)

class Differentiated(NamedTuple):
    """The halves of a function's derivative.

    `forward` takes the function's arguments and returns its results, then the residuals. `backward` takes the arguments whose positions are
    in `saved`, then the residuals, then a gradient for each result of a float or complex type, and returns the gradients of the arguments
    asked for.
    """

    forward: Func
    backward: Func
    saved: tuple[int, ...]


class ForwardHalf(NamedTuple):
    """What runs first. `function` takes the arguments of the function differentiated and returns its results, then the residuals.

    Gradients may need the arguments at `saved`; `residuals` says of each what it is: the number of an op, and of a result of it.
    """

    function: Func
    saved: tuple[int, ...]
    residuals: tuple[tuple[int, int], ...]


class BackwardHalf(NamedTuple):
    """What computes gradients. `function` takes the arguments at `saved`, the residuals with the numbers `residuals`, then a gradient of
    each result at `given`.

    It returns the gradients of the arguments at `reached`: no others depend on these results. Of the arguments, it reads the elements of
    those in `read`, of others only sizes.
    """

    function: Func
    saved: tuple[int, ...]
    residuals: tuple[int, ...]
    given: tuple[int, ...]
    reached: tuple[int, ...]
    read: frozenset[int]


def needs_gradients(func: Func, wrt: Sequence[int]) -> tuple[bool, ...]:
    """Of each result of `func`, whether it needs a gradient where the arguments at positions `wrt` do: whether differentiable ops lead from
    these to it.
    """
    active = active_values(list(func.block), {func.args[i] for i in wrt})
    return tuple(v in active for v in func.block.terminator.operands)


def forward_half(func: Func, wrt: Sequence[int]) -> ForwardHalf:
    """The forward half of `func`, which stays as it is: it keeps what the gradients of any of its results need.

    `PassError` names every op that a gradient must pass and that has no rule.
    """
    return _forward(_with_gradients(func, wrt, _all_given(func, wrt)), func)


def backward_half(func: Func, wrt: Sequence[int], given: Sequence[int], forward: ForwardHalf) -> BackwardHalf:
    """The gradients of the arguments at `wrt`, of the sum of the results at `given` (those that need gradients), each weighted by its
    gradient.
    """
    return _backward(_with_gradients(func, wrt, given), func, forward)


def arguments_read(func: Func, wrt: Sequence[int]) -> frozenset[int]:
    """The arguments of `func` whose elements the gradients of those at `wrt` need."""
    given = _all_given(func, wrt)
    return backward_half(func, wrt, given, forward_half(func, wrt)).read


def arguments_read_themselves(func: Func, wrt: Sequence[int], given: Sequence[int], copies: Iterable[int]) -> frozenset[int]:
    """As `BackwardHalf.read`, without arguments of which gradients need no more than copies, which the ops with these numbers make, though
    these move nothing.
    """
    apart: Func = func.clone()
    ops, count = list(apart.block), len(func.args)
    active = active_values(ops, {apart.args[i] for i in wrt})
    made = [ops[number].results[0] for number in copies]
    wrt = [*wrt, *(count + i for i, value in enumerate(made) if value in active)]
    for value in made:
        value.replace_all_uses_with(apart.block.add_arg(value.type, "copy"))
    for key, new in (("arg_names", [f"copy_{i}" for i in range(len(made))]), ("arg_roles", ["input"] * len(made))):
        apart.attributes[key] = (*apart.attributes[key], *new)
    apart.finish()
    return frozenset(i for i in backward_half(apart, wrt, given, forward_half(apart, wrt)).read if i < count)


def forward_backward(func: Func, wrt: Sequence[int]) -> Differentiated:
    """Differentiate `func`, which stays as it is, with respect to the arguments at positions `wrt` (of float or complex types).

    Gradients of arguments that no result depends on are zeros. `PassError` names every op that a gradient must pass and that has no rule.
    """
    given = [i for i, v in enumerate(func.block.terminator.operands) if has_gradient(v)]
    whole = _with_gradients(func, wrt, given, zeros=True)
    forward = _forward(whole, func)
    backward = _backward(whole, func, forward)
    assert backward.residuals == tuple(range(len(forward.residuals)))
    return Differentiated(forward.function, backward.function, backward.saved)


def gradient_function(func: Func, wrt: Sequence[int], given: Sequence[int]) -> tuple[Func, tuple[int, ...]]:
    """A function of the arguments of `func` and a gradient of each result at `given`, which returns the gradients of those arguments that
    are named beside it.

    It computes anew what a backward half is handed, so that its own gradients are those of the second order, and so on.
    """
    whole = _with_gradients(func, wrt, given)
    needed = _needed(whole.grads, {}, frozenset())
    if (call := next((op for op in needed if op.name == "host.call"), None)) is not None:
        raise PassError(
            f"expected ops that can run twice on the way to gradients of a higher order but '{call.name}' calls a function of the host",
            call.location,
        )
    inputs = [*whole.args, *whole.seeds.values()]
    return _outlined(func, inputs, [op for op in whole.func.block if op in needed], whole.grads), whole.reached


class _Whole(NamedTuple):
    """A copy of a function with the ops of its gradients behind its own, which are `head`."""

    func: Func
    args: list[BlockArgument]
    head: dict[Op, int]  # the number of each
    seeds: dict[int, BlockArgument]
    grads: list[Value]
    reached: tuple[int, ...]


def _all_given(func: Func, wrt: Sequence[int]) -> list[int]:
    return [i for i, needed in enumerate(needs_gradients(func, wrt)) if needed]


def _with_gradients(func: Func, wrt: Sequence[int], given: Sequence[int], zeros: bool = False) -> _Whole:
    """With `zeros`, arguments that no gradient reaches have zeros."""
    whole: Func = func.clone()
    block = whole.block
    args, head = list(block.args), {op: i for i, op in enumerate(block) if op is not block.terminator}
    outputs = list(block.terminator.operands)
    names = [whole.result_names[i] if i < len(whole.result_names) else v.name or f"result_{i}" for i, v in enumerate(outputs)]
    seeds = {i: block.add_arg(outputs[i].type, f"grad_{names[i]}") for i in given}
    b = Builder(block, block.terminator)
    found = gradients_of(b, [(v, seeds.get(i)) for i, v in enumerate(outputs)], [args[i] for i in wrt])
    pairs = [(i, _zeros(b, args[i]) if zeros and grad is None else grad) for i, grad in zip(wrt, found, strict=True)]
    return _Whole(whole, args, head, seeds, [g for _, g in pairs if g is not None], tuple(i for i, g in pairs if g is not None))


def _zeros(b: Builder, value: Value) -> Value:
    assert isinstance(value.type, TensorType)
    zeros: Value = b(Full, value=0, shape=value.type.shape, dtype=value.type.dtype)
    return zeros


# --- splitting


def _forward(whole: _Whole, func: Func) -> ForwardHalf:
    """The forward half of `func`, of which `whole` is the copy with gradients."""
    args: dict[Value, int] = {a: i for i, a in enumerate(whole.args)}
    needed = _needed(whole.grads, whole.head, None)
    outer = _outer(whole, needed)
    saved = {v: None for v in outer if v in args}
    residuals = {v: None for v in outer if v not in args}
    # Sizes are told by what is kept: which results have gradients is not known yet.
    for value in _size_sources(
        whole, needed, [*saved, *residuals], [*args, *(r for op in whole.head if op not in needed for r in op.results)]
    ):
        (saved if value in args else residuals)[value] = None
    places = tuple((whole.head[v.op], v.index) for v in residuals if isinstance(v, OpResult))
    forward = func.clone()
    ops = list(forward.block)
    terminator = forward.block.terminator
    kept = [ops[number].results[index] for number, index in places]
    terminator.set_operands((*terminator.operands, *kept), (len(terminator.operands) + len(kept),))
    names = (*forward.result_names, *(f"residual_{i}" for i in range(len(kept)))) if forward.result_names else ()
    forward.attributes["sym_name"] = f"{func.sym_name}_forward"
    forward.attributes["result_names"] = names
    return ForwardHalf(forward.finish(), tuple(args[v] for v in saved), places)


def _backward(whole: _Whole, func: Func, forward: ForwardHalf) -> BackwardHalf:
    """The backward half, of what `forward` keeps."""
    ops = list(whole.head)
    saved = {whole.args[i]: i for i in forward.saved}
    residuals = {ops[number].results[index]: i for i, (number, index) in enumerate(forward.residuals)}
    kept = frozenset(residuals)
    needed = _needed(whole.grads, whole.head, kept)
    outer = dict.fromkeys(_outer(whole, needed))
    if (lost := next((v for v in outer if v not in saved and v not in residuals), None)) is not None:
        raise AssertionError(f"the gradients of some results of '{func.sym_name}' need {lost}, which those of all do not")
    read = frozenset(saved[v] for v in outer if v in saved)
    outer.update(dict.fromkeys(_size_sources(whole, needed, [*outer, *whole.seeds.values()], [*saved, *residuals])))
    given = [v for v in saved if v in outer], [v for v in residuals if v in outer]
    inputs = [*given[0], *given[1], *whole.seeds.values()]
    function = _outlined(func, inputs, [op for op in whole.func.block if op in needed], whole.grads)
    if any(op.has(ControlFlow) for op in function.block):
        # A loop or branch computes all that it carries, and some of that for other results only.
        rewrite_greedily(function, CONTROL_PATTERNS)
        read &= {saved[v] for v, arg in zip(given[0], function.args, strict=False) if arg.uses}
    return BackwardHalf(
        function, tuple(saved[v] for v in given[0]), tuple(residuals[v] for v in given[1]), tuple(whole.seeds), whole.reached, read
    )


def _needed(grads: Sequence[Value], head: Container[Op], kept: frozenset[Value] | None) -> set[Op]:
    """Ops that a backward half runs: what `grads` need of the ops outside `head`, and of the views and constants in it, which are made
    again.

    With `kept`, the values that there are, also what else is not among them.
    """
    needed: set[Op] = set()
    waiting = list(grads)
    while waiting:
        value = waiting.pop()
        op = value.owner
        if not isinstance(op, Op) or op in needed or (kept is not None and value in kept):
            continue
        if kept is None and op in head and not (op.has(View) or op.has(ConstantLike)):
            continue
        needed.add(op)
        waiting += op.operands
    return needed


def _outer(whole: _Whole, needed: Container[Op]) -> list[Value]:
    """What the ops of a backward half take of the forward half, and of its arguments; what of these it returns as it is, too."""
    fixed = set(whole.seeds.values())
    used = [*(v for op in whole.func.block if op in needed for v in op.operands), *whole.grads]
    return list(dict.fromkeys(v for v in used if v not in fixed and v.owner not in needed))


def _size_sources(whole: _Whole, needed: Container[Op], inputs: Sequence[Value], candidates: Sequence[Value]) -> list[Value]:
    """Values that tell sizes that a backward half mentions and its `inputs` do not tell.

    A value may be all that tells a size, even if its elements are not needed: an argument, or what an op made that gave the size its name.
    """
    bound = bound_symbols(inputs)
    mentioned = [op_symbols(op) for op in whole.func.block if op in needed]
    missing = frozenset().union(*mentioned, *(type_symbols(v.type) for v in [*inputs, *whole.seeds.values()])) - bound
    found: list[Value] = []
    for value in candidates:
        if value not in inputs and bound_symbols([value]) & missing:
            found.append(value)
            missing -= bound_symbols([value])
    return found


def _outlined(func: Func, inputs: Sequence[Value], ops: Sequence[Op], results: Sequence[Value]) -> Func:
    """A function of copies of `ops`, which take `inputs`."""
    names = [v.name or f"residual_{i}" for i, v in enumerate(inputs)]
    roles = tuple("input" for _ in inputs)
    made = Func.empty(f"{func.sym_name}_backward", [v.type for v in inputs], (), distinct(names), loc=func.location, arg_roles=roles)
    mapping: dict[Value, Value] = dict(zip(inputs, made.args, strict=True))
    for op in ops:
        made.block.append(op.clone(mapping))
    made.block.append(Return([mapping[g] for g in results], loc=func.location))
    return made.finish()


def bound_symbols(values: Sequence[Value]) -> frozenset[str]:
    """Names of the sizes that a run learns from the values' shapes: those of axes that are lines in one name."""
    return frozenset(found[0] for v in values for d in getattr(v.type, "shape", ()) if (found := line_of(d)) is not None)


def op_symbols(op: Op) -> frozenset[str]:
    found: set[str] = set()
    for value in op.attributes.values():
        dims: Sequence[Dim] = value if isinstance(value, tuple) else (value,)
        for dim in dims:
            if hasattr(dim, "terms"):
                found |= symbols(dim)
    return frozenset(found).union(*(type_symbols(r.type) for r in op.results))
