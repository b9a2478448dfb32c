"""Steps of the reducer that know the dialects: `REDUCTIONS` are those of `ir/debug/reduce.py` and these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.dialects import kernel, tensor
from polyreme.ir.accuracy import Array
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.debug.reduce import SHRINK, STEPS, Step, Trial, inline_region, size_change
from polyreme.ir.define import ConstantLike
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, ScalarType, TensorType, VectorType, index


def _isolate_call(trial: Trial, op: Op, variant: int, values: Sequence[Array]) -> bool:
    """main = one call of a kernel: buffers that it changes are outputs, others are inputs with what they held before."""
    main = trial.main
    if main is None or trial.inputs is None:
        return False
    buffers = [v for v in dict.fromkeys(op.operands) if isinstance(v.type, BufferType)]
    before, after = _around_call(trial, main, op)
    if before is None or after is None:
        return False
    changed = {v for v in buffers if before[v].tobytes() != after[v].tobytes()}
    order = [v for v in buffers if v not in changed] + [v for v in buffers if v in changed]
    roles = ["output" if v in changed else "input" for v in order]
    names = [f"b{i}" for i in range(len(order))]
    alone = Func.empty("main", [v.type for v in order], arg_names=names, arg_roles=tuple(roles), loc=main.location)
    inside: dict[Value, Value] = dict(zip(order, alone.args, strict=True))
    for value in op.operands:
        producer = value.producer()
        if value not in inside:
            if producer is None or not producer.has(ConstantLike):
                return False
            alone.block.append(producer.clone(inside))
    alone.block.append(op.clone(inside))
    Builder.at_end(alone.block)(Return, ())
    assert main.parent is not None
    main.parent.insert(alone, main)
    main.erase()
    # What is an argument now need not lie where an arena is aligned to.
    for inner in trial.module.walk():
        if isinstance(inner, (kernel.Load, kernel.Store)):
            inner.attributes["align"] = None
    trial.inputs = [before[v].reshape(_shape_of(trial, v)) for v in order if v not in changed]
    return True


def _shape_of(trial: Trial, value: Value) -> tuple[int, ...]:
    if not all(isinstance(d, int) for d in value.type.shape):
        raise ValueError("expected known sizes")
    return tuple(value.type.shape)


def _around_call(trial: Trial, main: Func, call: Op) -> tuple[dict[Value, Array] | None, dict[Value, Array] | None]:
    """What the buffers of a call in `main` hold before and after it."""
    assert trial.inputs is not None
    memory: dict[Value, Array] = {}
    states: list[dict[Value, Array]] = []

    def copies() -> dict[Value, Array]:
        return {v: np.array(memory[v]).reshape(-1) for v in call.operands if v in memory}

    def watch(op: Op, args: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        if op.parent_op is main:
            memory.update(zip(op.operands, args, strict=True))
            memory.update(zip(op.results, results, strict=True))
            if op.next is call or op is call:
                states.append(copies())
        return results

    roles = main.arg_roles or ("input",) * len(main.args)
    given = iter(trial.inputs)
    arrays = []
    for arg, role in zip(main.args, roles, strict=True):
        array = (
            np.full(_shape_of(trial, arg), np.nan if arg.type.dtype.is_float else 0, arg.type.dtype.np)
            if role == "output"
            else np.array(next(given))
        )
        memory[arg] = array
        arrays.append(array)
    if call.prev is None:
        states.append(copies())
    try:
        evaluate(trial.module, arrays, watch=watch)
    except PolyremeError:
        return None, None
    return (states[0], states[1]) if len(states) == 2 else (None, None)


def _constant(trial: Trial, op: Op, variant: int, values: Sequence[Array]) -> bool:
    """op(…) -> a number: 1, for positions 0"""
    for result in op.results:
        if result.uses:
            result.replace_all_uses_with(_number(Builder.before_op(op), result))
    return True


def _number(b: Builder, like: Value) -> Value:
    kind = like.type
    if isinstance(kind, TensorType):
        full: Value = b(tensor.Full, value=_one(kind.dtype), shape=kind.shape, dtype=kind.dtype)
        return full
    dtype = kind if isinstance(kind, ScalarType) else kind.dtype
    one: Value = b(kernel.Constant, value=_one(dtype), dtype=dtype)
    return b(kernel.Broadcast, one, lanes=kind.lanes) if isinstance(kind, VectorType) else one


def _one(dtype: ScalarType) -> Any:
    return 0 if dtype == index else 1.0 if dtype.is_float else True if dtype.kind == "b" else 1


def _can_be_constant(op: Op) -> bool:
    if not op.results or op.has(ConstantLike) or op.regions or isinstance(op, kernel.Broadcast):
        return False
    inside = isinstance(op.parent_op, tensor.Fused)
    return all(isinstance(r.type, (ScalarType, VectorType)) and r.type.kind != "c" if isinstance(r.type, ScalarType) else
               isinstance(r.type, VectorType) or (inside and isinstance(r.type, TensorType)) for r in op.results)  # fmt: skip


def _run_once(trial: Trial, op: Op, variant: int, values: Sequence[Array]) -> bool:
    """parallel n { ops } -> ops, for iteration 0"""
    return inline_region(op, 0, [Builder.before_op(op)(kernel.Constant, value=0, dtype=index)])


def _shrink_loops(trial: Trial, op: Op, variant: int, values: Sequence[Array]) -> bool:
    """As `shrink`, for kernels: a size also stands in them as a position."""
    old, new, _ = size_change(op, variant)
    constants = [o for o in trial.module.walk() if isinstance(o, kernel.Constant) and o.dtype == index and o.value == old]
    for constant in constants:
        constant.attributes["value"] = new
    return bool(constants) and SHRINK.apply(trial, op, variant, values)


def _launch_less(trial: Trial, op: Op, variant: int, values: Sequence[Array]) -> bool:
    """One block, or blocks of one thread."""
    name = ("grid", "block")[variant]
    op.attributes[name] = (1,) * len(op.attributes[name])
    return True


def _drop_carried(trial: Trial, op: Op, variant: int, values: Sequence[Array]) -> bool:
    """A value that a loop carries, and that nothing uses afterwards, goes."""
    if not isinstance(op, kernel.For) or op.results[variant].uses:
        return False
    body, carried = op.block, op.block.args[1 + variant]
    inits = [v for i, v in enumerate(op.inits) if i != variant]
    yielded = [v for i, v in enumerate(body.terminator.operands) if i != variant]
    carried.replace_all_uses_with(op.inits[variant])
    body.terminator.set_operands(yielded, (len(yielded),))
    body.erase_arg(1 + variant)
    region = op.regions.pop()
    left = kernel.For.build([op.lo, op.hi, *inits], op.attributes, [region], [v.type for v in inits], op.location, (1, 1, len(inits)))
    assert op.parent is not None
    op.parent.insert(left, op)
    op.regions = []
    others = iter(left.results)
    for i, result in enumerate(op.results):
        if i != variant:
            result.replace_all_uses_with(next(others))
    op.erase()
    return True


def _drop_from_group(trial: Trial, op: Op, variant: int, values: Sequence[Array]) -> bool:
    """A result of a group that nothing uses goes, and operands that nothing inside uses."""
    if not isinstance(op, tensor.Fused) or op.results[variant].uses:
        return False
    last = op.block.terminator
    kept = [i for i in range(len(op.results)) if i != variant]
    last.set_operands([last.operands[i] for i in kept], (len(kept),))
    taken = list(op.operands)
    for i in reversed(range(len(taken))):
        if not op.block.args[i].uses:
            op.block.erase_arg(i)
            del taken[i]
    region = op.regions.pop()
    left = tensor.Fused.build(taken, {"schedule": ""}, [region], [op.results[i].type for i in kept], op.location, (len(taken),))
    assert op.parent is not None
    op.parent.insert(left, op)
    for i, new in zip(kept, left.results, strict=True):
        op.results[i].replace_all_uses_with(new)
    op.erase()
    return True


def _calls_in_main(op: Op) -> bool:
    func = op.parent_op
    return isinstance(op, kernel.Call) and isinstance(func, Func) and func.sym_name == "main"


ISOLATE_CALL = Step("isolate-call", lambda op: int(_calls_in_main(op)), _isolate_call, alone=True)

LAUNCH_LESS = Step("launch-less", lambda op: 2 if isinstance(op, kernel.Launch) else 0, _launch_less, alone=True)

REDUCTIONS: tuple[Step, ...] = (
    ISOLATE_CALL,
    LAUNCH_LESS,
    *STEPS,
    Step(
        "drop-from-group",
        lambda op: len(op.results) if isinstance(op, tensor.Fused) and len(op.results) > 1 else 0,
        _drop_from_group,
        alone=True,
    ),
    Step("shrink-loops", SHRINK.count, _shrink_loops, alone=True),
    Step("run-once", lambda op: int(isinstance(op, kernel.Parallel)), _run_once),
    Step("drop-carried", lambda op: len(op.results) if isinstance(op, kernel.For) else 0, _drop_carried, alone=True),
    Step("constant", lambda op: int(_can_be_constant(op)), _constant),
)
