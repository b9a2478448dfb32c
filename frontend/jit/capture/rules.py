"""Gradient rules of the user's own in a traced function: PyLayers and hooks become `nn.custom_gradient`, whose body is what their Python
does.

That Python runs while the function is traced, and once, so that it may do nothing but compute: what else it seems to do is refused.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme import tape
from polyreme.dialects import nn as ops
from polyreme.ir.core import Block, Op, OpResult, Region, Value
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.ir.python.records import dataclass
from polyreme.jit.traced import BackwardTraceError
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.jit.capture.trace import Trace

__all__ = ["WatchedRule", "custom_gradient", "effect_of", "hooked"]

_WAY_OUT = "call it outside of the compiled function, or let it only compute"
_CHANGING = frozenset({"append", "appendleft", "extend", "insert", "pop", "popitem", "setdefault", "write", "numpy", "item", "tolist"})
_CHANGEABLE = (list, dict, set, bytearray, np.ndarray, np.random.Generator, logging.Logger)
_OUTER = frozenset({"random", "time", "datetime", "os", "sys", "logging", "subprocess", "threading"})
_WORDY = frozenset({"print", "open", "input", "setattr", "delattr", "exec", "eval", "next"})


def custom_gradient(
    trace: Trace,
    values: Sequence[Tensor],
    inputs: Sequence[Tensor],
    rule: Callable[..., Sequence[Tensor | None]],
    function: Callable[..., Any] | None,
    what: str,
    takes_zeros: bool = True,
) -> list[Tensor]:
    """Tensors that stand for `values` and whose gradients go to `inputs` as `rule(*gradients)` has it; messages call that `what`.

    It calls `function`, which may do nothing but compute; None does nothing else for certain.
    """
    effect = effect_of(function) if function is not None else None
    if effect is not None:
        raise BackwardTraceError(f"expected {what} to compute gradients and nothing else but {effect}; {_WAY_OUT}", caller_location())
    if not takes_zeros and len(values) > 1:
        raise BackwardTraceError(
            f"expected {what} to take zeros for a result without gradient but it takes None, by set_materialize_grads(False); {_WAY_OUT}",
            caller_location(),
        )
    taken = [trace.value_of(v) for v in values]
    operands = [trace._operand(t, True) for t in inputs]
    seeds = [trace.builder.insert(_zeros(value, trace)) for value in taken]
    trace.unknown.update(seeds)
    first = trace.builder.block.last
    stopped, written = dict(trace.stopped), {key: o.tensor._value for key, o in trace.originals.items()}
    try:
        with tape.recording(True):
            grads = list(rule(*[trace._stand_in(seed, seed.type.dtype.kind not in "fc") for seed in seeds]))
    except PolyremeError as error:
        raise BackwardTraceError(
            f"expected {what} to be made of tensor functions but {error.diagnostics[0].message}; {_WAY_OUT}", error.diagnostics[0].location
        ) from error
    if any(o.tensor._value is not written.get(key) for key, o in trace.originals.items()):
        raise BackwardTraceError(
            f"expected {what} to compute gradients and nothing else but it changes a tensor in place; {_WAY_OUT}", caller_location()
        )
    reached = [
        i
        for i, (grad, t) in enumerate(zip(grads, inputs, strict=True))
        if grad is not None and not t.stop_gradient and t.type.dtype.kind in "fc"
    ]
    made = [trace._operand(grads[i], True) for i in reached]
    for i, value in zip(reached, made, strict=True):
        if value.type != operands[i].type:
            raise BackwardTraceError(f"expected a gradient of type {operands[i].type} from {what} but got {value.type}", caller_location())
    trace.stopped = stopped
    body, captured = _body(seeds, first, made)
    op = trace.builder.insert_op(ops.CustomGradient(taken, operands, captured, reached=tuple(reached), body=body, loc=trace.location()))
    return [trace._stand_in(result, result.type.dtype.kind not in "fc") for result in op.results]


def hooked(trace: Trace, tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
    """Let the gradient of `tensor`, of all that uses it before and after, pass through the hook. What is returned takes the hook off again.
    """
    value = tensor._value
    if not isinstance(value, OpResult) or value.op.parent is not trace.builder.block:
        raise BackwardTraceError(
            "a hook on a tensor from outside stays there after the call, which a compiled function cannot do; register it before the call",
            caller_location(),
        )
    # Gradients pass the hooks from the last one of these to the first, and it is the hook registered first that sees them first.
    chain: list[Any] = []
    base: Any = value
    while base in trace.hooks:
        chain.insert(0, base.op)
        base = base.op.inputs[0]

    def rule(grad: Tensor) -> list[Tensor | None]:
        changed = hook(grad)
        return [grad if changed is None else changed]

    alias = trace._stand_in(base, False)
    (result,) = custom_gradient(trace, [alias], [alias], rule, hook, "a hook")
    made = result._value
    op = made.op
    for i, captured in enumerate(op.operands):
        if any(captured is link.result for link in chain):
            op.set_operand(i, base)
    if all(_precedes(v, base.op) for v in op.captured):
        _move(op, base.op)
    elif any(use.op is not op and not isinstance(use.op, ops.StopGradient) for use in value.uses):
        raise BackwardTraceError(
            "expected a hook before its tensor is used but it needs what was computed after that; register it at once", caller_location()
        )
    else:
        for after, link in zip([op, *chain], chain, strict=False):
            _move(link, after)
    base.replace_all_uses_with(made, unless=lambda use: use.op is op)
    trace.hooks.add(made)
    if not chain:
        trace.stands_for(base, made)

    def remove() -> None:
        if op.parent is not trace.builder.block:
            raise RuntimeError(
                "expected the hook to be taken off while the function that registered it runs: it is part of a compiled function now"
            )
        before = op.inputs[0]
        made.replace_all_uses_with(before)
        trace.stands_for(made, before)
        op.erase()

    return remove


def _move(op: Op, before: Op) -> None:
    """Let `op` stand behind another one."""
    block = op.parent
    assert block is not None
    op.detach()
    block.insert(op, before.next)


def _zeros(value: Value, trace: Trace) -> Op:
    """What stands for a gradient until the body is cut out."""
    kind: Any = value.type
    return ops.Full(value=False if kind.dtype.kind == "b" else 0, shape=kind.shape, dtype=kind.dtype, loc=trace.location())


def _precedes(value: Value, op: Op) -> bool:
    """Whether there is a value where `op` ends."""
    at: Op | None = op
    while isinstance(value, OpResult) and at is not None:
        if at is value.op:
            return True
        at = at.prev
    return not isinstance(value, OpResult)


def _body(seeds: Sequence[Any], last: Op | None, made: Sequence[Value]) -> tuple[Region, list[Value]]:
    """The ops behind `last`, moved into a region that yields `made`, and the values that it captures."""
    moved: list[Op] = []
    at = last.next if last is not None else None
    while at is not None:
        moved.append(at)
        at = at.next
    inside = {r for op in moved for r in op.results}
    captured = list(dict.fromkeys(v for v in [*(v for op in moved for v in op.operands), *made] if v not in inside and v not in seeds))
    block = Block([v.type for v in (*seeds, *captured)], [*(f"grad_{i}" for i in range(len(seeds))), *(v.name for v in captured)])
    arguments: dict[Value, Value] = dict(zip([*seeds, *captured], block.args, strict=True))
    for op in moved:
        op.detach()
        block.append(op)
        for i, value in enumerate(op.operands):
            if value in arguments:
                op.set_operand(i, arguments[value])
    block.append(ops.Yield([arguments.get(v, v) for v in made]))
    for seed in seeds:
        seed.op.erase()
    return Region(block), captured


# --- what else a function does


@dataclass(frozen=True)
class WatchedRule:
    """A function for gradients whose reads, writes and calls are reported while it runs: it does nothing but compute."""

    run: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)


def effect_of(function: Callable[..., Any]) -> str | None:
    """What a Python function, or one of the user's that it calls, seems to do besides computing, for a message; None where nothing is seen.

    Tensors that it makes may be written to. What is watched has been seen to do nothing else.
    """
    if isinstance(function, WatchedRule):
        return None
    return _effect(function, set())


def _effect(function: Callable[..., Any], met: set[CodeType]) -> str | None:
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return (
            None
            if _is_ours(function) or inspect.isbuiltin(function) or isinstance(function, type)
            else f"'{type(function).__name__}' cannot be looked into"
        )
    if code in met or _is_ours(plain):
        return None
    met.add(code)
    names = inspect.getclosurevars(plain)
    held = {**names.globals, **names.nonlocals}
    for name, value in held.items():
        if isinstance(value, _CHANGEABLE):
            return f"it uses '{name}', which may change"
        if inspect.ismodule(value) and (value.__name__ in _OUTER or value is np and "random" in code.co_names):
            return f"it uses the module '{name}'"
    if (found := next(_effects(code), None)) is not None:
        return found
    called = [value for value in held.values() if inspect.isroutine(value)]
    # Methods of what it holds on to, as far as their names tell.
    owners = [
        value
        for value in (*names.nonlocals.values(), getattr(function, "__self__", None))
        if value is not None and not _is_ours(type(value))
    ]
    called += [method for owner in owners for name in code.co_names if inspect.isfunction(method := getattr(type(owner), name, None))]
    return next((effect for inner in called if not inspect.isbuiltin(inner) and (effect := _effect(inner, met)) is not None), None)


def _is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).split(".")[0] == "polyreme"


def _effects(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        name = str(instruction.argval)
        if instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") or (instruction.opname == "STORE_DEREF" and name in code.co_freevars):
            yield f"it sets '{name}'"
        elif instruction.opname in ("STORE_ATTR", "DELETE_ATTR"):
            yield f"it sets the attribute '{name}'"
        elif instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") and name in _WORDY and hasattr(builtins, name):
            yield f"it calls {name}()"
        elif instruction.opname in ("LOAD_METHOD", "LOAD_ATTR") and name in _CHANGING:
            yield f"it calls {name}()"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _effects(constant)
