"""The one dispatch point: every function of the Paddle API ends in `call` with an op of the `nn` dialect.

Three modes, chosen by what is going on. *Eager*: no recorder is active; the op runs now on the current device: on the CPU its reference on
numpy arrays (or a
compiled kernel), on a GPU a kernel of its own.
*Tracing* and *static*: a `Recorder` is active; it is handed the op and answers with tensors that stand for its results. In every mode
the step is put on the tape when an operand needs a gradient.

Eager calls are planned once per (place, op, operand types, attributes): checking, inference and the choice of the kernel happen on the
first call, later ones only run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np

from polyreme import tape, views
from polyreme.casting.operators import cast_operands, name_of
from polyreme.casting.state import REGIONS, attends, watching
from polyreme.compiled.gradient_recipes import GradientRecipe, make_recipe
from polyreme.compiled.graph_recipes import send_by_recipe
from polyreme.compiled.heavy_gradients import rule_for
from polyreme.compiled.heavy_kernels import attribute_key, choose
from polyreme.device import CPU, Place, follow
from polyreme.dialects import nn as ops
from polyreme.dialects.nn.elementwise import ScalarOp
from polyreme.dialects.nn.reduce import reduction_axes
from polyreme.ir.attributes import Dense
from polyreme.ir.core import Op
from polyreme.ir.debug.notes import MOST_NOTES
from polyreme.ir.diagnostics import Diagnostic, InferError, caller_location
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.scalar import quietly, scalar_function
from polyreme.ir.types import ScalarType, TensorType
from polyreme.pending import COUNT, Pending
from polyreme.provided import provides
from polyreme.recorder import Gathering, Recorder
from polyreme.runtime.gpu.arrays import DeviceArray
from polyreme.tensor import Tensor

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Sequence[Array]]


class _DispatchState(threading.local):
    recorder: Recorder | None = None
    nested = 0


_state = _DispatchState()


@provides
def active_trace() -> Recorder | None:
    """The recorder of this thread; None in eager mode, and while ops are gathered, which is eager mode to all but dispatch."""
    found = _state.recorder
    return None if isinstance(found, Gathering) else found


def recorder() -> Recorder | None:
    """Whoever takes the ops of this thread; None where they run at once."""
    return _state.recorder


@provides
@contextmanager
def at_once() -> Iterator[None]:
    """Inside the `with` ops run when they are called, also where they are gathered otherwise: what was gathered before is computed first.
    """
    found = _state.recorder
    if not isinstance(found, Gathering):
        yield
        return
    found.flush()
    with trace_into(None):
        yield


def set_recorder(recorder: Recorder | None) -> None:
    """Hand ops to `recorder` from now on, in this thread; None means eager. Inside a `trace_into` this is an error: it would end with it.
    """
    if _state.nested:
        raise RuntimeError("expected to switch between static and dygraph mode outside of traced functions and host operators")
    _state.recorder = recorder


@contextmanager
def trace_into(recorder: Recorder | None) -> Iterator[None]:
    """Hand ops to `recorder` inside the `with`; None means eager."""
    saved, _state.recorder = _state.recorder, recorder
    _state.nested += 1
    try:
        yield
    finally:
        _state.recorder = saved
        _state.nested -= 1


# --- eager execution

# `heavy_kernels(cls, operand_types, attributes, result_types)` gives a compiled kernel for the CPU, called with the arrays as the reference
# is, or None for ops that the reference serves well. With None everything runs by reference.
heavy_kernels: Callable[[type[Op], Sequence[Any], dict[str, Any], tuple[TensorType, ...]], Kernel | None] | None = choose


def use_heavy_kernels(chooser: Callable[..., Kernel | None] | None) -> None:
    """Let `chooser` pick kernels on the CPU from now on, also for calls that are planned already."""
    global heavy_kernels
    heavy_kernels = chooser
    _plans_of[CPU].clear()


class CallPlan:
    """What is settled about calls of one op on one device with operands of the same types and the same attributes."""

    __slots__ = (
        "attributes", "cls", "fast", "heavy", "is_kept", "kernel", "place", "read", "recipes", "result_dtypes", "result_types",
        "taped_as_pair", "types",
    )  # fmt: skip

    def __init__(self, place: Place, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]):
        self.place, self.cls = place, cls
        self.is_kept = False  # whether the next such call finds it
        self.recipes: dict[tuple[bool, ...], GradientRecipe | None] = {}
        self.read: dict[tuple[int, ...], frozenset[int]] = {}  # which operands the gradients need, by those that they are of
        definition = cls.definition
        definition.bind_operands(operands)
        self.attributes = definition.bind_attributes(attributes)
        self.types = [types_of(o) for o in operands] + [None] * (len(definition.operands) - len(operands))
        self.result_types: tuple[TensorType, ...] = definition.infer_types(self.types, self.attributes)
        self.result_dtypes = [(type, type.dtype.np, type.dtype.kind in "fc") for type in self.result_types]
        self.taped_as_pair = definition.plain and len(operands) == 2 and self.result_dtypes[0][2] and tape.has_rule(cls)
        self.fast: Callable[..., Any] | None = None
        self.kernel = _kernel(place, cls, self.types, self.attributes, self.result_types)
        self.heavy = self.kernel is not None
        if self.kernel is None:
            missing = [None] * (len(definition.operands) - len(operands))
            reference, bound = cls.reference, self.attributes  # type: ignore[attr-defined]
            self.kernel = lambda *arrays: reference(*arrays, *missing, **bound)
            self.fast = _scalar_kernel(cls, self.result_types) or _view_kernel(cls, bound) or _sum_kernel(cls, self.types, bound)

    def gradients(self, saved: Sequence[Any], results: Sequence[Array], grad: Array, edges: Sequence[Any]) -> list[Array | None] | None:
        """The gradients of the operands by a recipe; None where the rule must run as it stands: on another device, and where it has no
        recipe.
        """
        if len(results) != 1 or self.place is not CPU or _plans.place is not CPU or _state.recorder is not None:
            return None
        if grad.shape != results[0].shape or grad.dtype != results[0].dtype:
            return None  # a hook's, and a mistake that the rule's own steps tell
        recipe = self.recipe(edges)
        return None if recipe is None else recipe.run(saved, results, grad)

    def recipe(self, edges: Sequence[Any]) -> GradientRecipe | None:
        """The recipe for gradients that go on by these edges, if there is one."""
        wanted = tuple([edge is not None for edge in edges])
        try:
            return self.recipes[wanted]
        except KeyError:
            made = self.recipes[wanted] = make_recipe(self.cls, self.types, self.attributes, wanted, self._kernels)
            return made

    def _kernels(self, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> tuple[Callable[..., Any] | None, Any]:
        plan = CallPlan(self.place, cls, operands, attributes)
        return plan.fast, plan.kernel


@provides
def sent_at_once(output: Tensor, seed: Tensor | None, retain_graph: bool) -> bool:
    """Add the gradients of `output` to its leaves, all at once; False, and nothing done, where they have to go step by step."""
    if _state.recorder is not None or _plans.place is not CPU or COUNT.calls or REGIONS.count:
        return False
    return send_by_recipe(output, seed, retain_graph)


def types_of(operand: Any) -> Any:
    """The type of an operand, or those of several; None where there is none."""
    if operand is None:
        return None
    return tuple(t.type for t in operand) if isinstance(operand, (list, tuple)) else operand.type


def _kernel(
    place: Place, cls: type[Op], types: Sequence[Any], attributes: dict[str, Any], result_types: tuple[TensorType, ...]
) -> Kernel | None:
    if place.is_gpu_place():
        from polyreme.compiled import device_kernels

        return device_kernels.choose(place, cls, types, attributes, result_types)
    return heavy_kernels(cls, types, attributes, result_types) if heavy_kernels is not None else None


def _scalar_kernel(cls: type[Op], result_types: tuple[TensorType, ...]) -> Callable[..., Any] | None:
    """The scalar function of an elementwise op as it stands, where it gives the right element type by itself."""
    if not issubclass(cls, ScalarOp) or not cls.scalar_fn or cls.definition.attributes:
        return None
    (type,) = result_types
    row = scalar_function(cls.scalar_fn)
    if row.result == "bool":
        return row.numpy
    sample = row.numpy(*(np.ones(1, type.dtype.np) for _ in range(row.arity)))
    return row.numpy if sample.dtype == type.dtype.np else None


def _view_kernel(cls: type[Op], attributes: Mapping[str, Any]) -> Callable[..., Any] | None:
    """numpy's own function for an op that moves nothing, with its attributes."""
    if cls is ops.Reshape:
        return methodcaller("reshape", attributes["shape"])
    if cls is ops.Transpose:
        return methodcaller("transpose", attributes["perm"])
    if cls is ops.Slice:
        return itemgetter(tuple(map(slice, attributes["starts"], attributes["stops"], attributes["strides"])))
    return None


def _sum_kernel(cls: type[Op], types: Sequence[Any], attributes: Mapping[str, Any]) -> Callable[..., Any] | None:
    """What the reference of a sum of floats does, with all settled that does not depend on the numbers."""
    if cls is not ops.Sum or types[0].dtype.kind != "f":
        return None
    dtype = np.dtype(types[0].dtype.np)
    axes = reduction_axes(attributes["axis"], types[0].rank)
    added = partial(np.add.reduce, axis=axes, keepdims=attributes["keepdims"], dtype=np.float64, initial=0)
    return partial(quietly, lambda x: np.asarray(added(x), dtype))


class _Plans(dict[Any, CallPlan]):
    """The plans of calls on one device."""

    def __init__(self, place: Place):
        self.place = place


_plans_of: dict[Place, _Plans] = {CPU: _Plans(CPU)}
_plans = _plans_of[CPU]
MOST_PLANS = 4096


def _use_place(place: Place) -> None:
    """Plan, and run, on this device from now on. A table per device: a call on the CPU need not look where it is."""
    global _plans
    _plans = _plans_of.setdefault(place, _Plans(place))


follow(_use_place)


def _signature(operand: Any) -> Any:
    if operand is None:
        return None
    if isinstance(operand, (list, tuple)):
        return tuple((t._value.shape, t._value.dtype) for t in operand)
    return operand._value.shape, operand._value.dtype


@provides
def call(cls: type[Op], *operands: Any, **attributes: Any) -> Any:
    """Apply the op to tensors (or None for an absent optional one, or a sequence for a variadic one): a tensor, or a tuple of them.

    Operands or attributes that the op does not take raise `InferError` (a `ValueError`).
    """
    recorder, plan, watch = _state.recorder, None, None
    if REGIONS.count:
        operands, watch = cast_operands(cls, operands), watching()
    if recorder is not None:
        results = recorder.emit(cls, operands, attributes)
        if not recorder.taped:
            return results
        bound = cls.definition.bind_attributes(attributes) if tape.is_grad_enabled() else attributes
        if cls.definition.regions:
            bound |= {part.name: attributes[part.name] for part in cls.definition.regions}
    else:
        results, plan = _run(cls, operands, attributes)
        bound = plan.attributes
    if tape.is_grad_enabled() and _needs_grad(operands):
        tape.record(cls, operands, bound, results if isinstance(results, tuple) else (results,), plan)
    if watch is not None:
        watch.made(name_of(cls), results if isinstance(results, tuple) else (results,))
    return results


@provides
def planned_pair(cls: type[Op], x: Any, y: Any) -> Tensor | None:
    """What `call(cls, x, y)` gives, on the short way; None where it is no eager call of an elementwise op that is planned already.

    Most ops of a training loop's Python are such calls, and what they cost besides numpy is what dygraph mode costs.
    """
    recorder = _state.recorder
    if recorder is not None and not isinstance(recorder, Gathering):
        return None
    try:
        a, b = x._value, y._value
        plan = _plans.get((cls, (a.shape, a.dtype), (b.shape, b.dtype)))
    except AttributeError:  # a number, say: the long way tells
        return None
    if plan is None or plan.fast is None or COUNT.calls and recorder is None and (a.__class__ is Pending or b.__class__ is Pending):
        return None
    if REGIONS.count and attends():
        return None
    if recorder is not None:
        return recorder.gather(plan, (x, y))
    made = plan.fast(a, b)
    result = Tensor._wrap(made if made.__class__ is np.ndarray else np.asarray(made), plan.result_types[0])
    if not (x.stop_gradient and y.stop_gradient) and tape.is_grad_enabled():
        if plan.taped_as_pair:
            tape.record_pair(plan, x, y, result)
        else:
            tape.record(cls, (x, y), plan.attributes, (result,), plan)
    return result


def plan_of(cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> CallPlan:
    """What is settled about this call, and others with operands of these types: found, or settled now."""
    plans = _plans
    try:
        if attributes:
            key = (cls, *map(_signature, operands), *[(k, attribute_key(v)) for k, v in attributes.items()])
        elif len(operands) == 1 and operands[0].__class__ is Tensor:
            array = operands[0]._value
            key = (cls, (array.shape, array.dtype))
        else:
            key = (cls, *map(_signature, operands))
        plan = plans.get(key)
    except TypeError:  # an attribute that cannot be a key
        key, plan = None, None
    except AttributeError:
        check_operands(cls, operands)
        raise
    if plan is None:
        try:
            plan = CallPlan(plans.place, cls, operands, attributes)
        except InferError as error:
            raise _placed(error, cls, operands) from None
        if len(plans) >= MOST_PLANS:
            plans.clear()
        if key is not None:
            plans[key], plan.is_kept = plan, True
    return plan


def _run(cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, CallPlan]:
    if COUNT.calls:
        # What is pending is another thread's.
        for operand in operands:
            tape.settle(*[t for t in (operand if isinstance(operand, (list, tuple)) else (operand,)) if isinstance(t, Tensor)])
    plan = plan_of(cls, operands, attributes)
    return _execute(plan, operands), plan


def run_planned(plan: CallPlan, operands: Sequence[Any]) -> Any:
    """Run an op by its plan now, and put it on the tape if gradients are recorded: a tensor, or a tuple of them."""
    results = _execute(plan, operands)
    if tape.is_grad_enabled() and _needs_grad(operands):
        tape.record(plan.cls, operands, plan.attributes, results if isinstance(results, tuple) else (results,), plan)
    return results


def _execute(plan: CallPlan, operands: Sequence[Any]) -> Any:
    wrap = Tensor._wrap
    if plan.fast is not None:
        return wrap(np.asarray(plan.fast(*[o._value for o in operands])), plan.result_types[0])
    arrays = [o._value if isinstance(o, Tensor) else None if o is None else tuple(t._value for t in o) for o in operands]
    out = plan.kernel(*arrays)  # type: ignore[misc]
    if len(plan.result_types) == 1:
        (out,) = out if isinstance(out, (tuple, list)) else (out,)
        return wrap(_as_array(out), plan.result_types[0])
    return tuple(wrap(_as_array(a), t) for a, t in zip(out, plan.result_types, strict=True))


def _as_array(made: Any) -> Any:
    """What a kernel gave, as an array; one of a device stays there."""
    return made if type(made) is DeviceArray else np.asarray(made)


@provides
def compiled_gradient(
    cls: type[Op],
    flat: Sequence[Tensor],
    segments: Sequence[int] | None,
    attributes: dict[str, Any],
    results: Sequence[Array],
    grads: Sequence[Tensor | None],
    edges: Sequence[Any],
) -> list[Tensor | None] | None:
    """The gradients of a heavy op's flat operands by one compiled kernel of its rule; None where its steps are run one by one.

    `results` are what the op gave, `grads` their gradients; an operand without an edge needs none.
    """
    if heavy_kernels is None or _state.recorder is not None or not _plans.place.is_cpu_place():
        return None
    operands: list[Tensor | None] = list(flat)
    wanted = [edge is not None for edge in edges]
    if segments is not None:
        # Heavy ops have optional operands at most: what is absent takes up a place again.
        present = iter(zip(flat, wanted, strict=True))
        operands, wanted = (list(x) for x in zip(*(next(present) if size else (None, False) for size in segments), strict=True))
    found = rule_for(cls, operands, attributes, [g is not None for g in grads], wanted)
    if found is None:
        return None
    rule, work = found
    arrays = {
        "operand": [None if t is None else t._value for t in operands],
        "result": results,
        "grad": [None if g is None else g._value for g in grads],
    }
    made = rule.run(arrays, work)
    if made is None:
        return None
    given = [None if array is None else Tensor._wrap(array) for array in made]
    return given if segments is None else [g for g, size in zip(given, segments, strict=True) if size]


def _placed(error: InferError, cls: type[Op], operands: Sequence[Any]) -> InferError:
    """The error at the user's own line, with notes on what the operands are."""
    notes = []
    for part, operand in zip(cls.definition.operands, operands, strict=False):
        group = operand if isinstance(operand, (list, tuple)) else [] if operand is None else [operand]
        notes += [Diagnostic(f"'{part.name}' is {t.type}{f', the parameter {t.name!r}' if t.persistable else ''}") for t in group]
    fault = error.diagnostics[0]
    return InferError(replace(fault, location=fault.location or caller_location(), notes=(*fault.notes, *notes[:MOST_NOTES])))


def check_operands(cls: type[Op], operands: Sequence[Any]) -> None:
    """An error that says which operand is no tensor with a value, if there is one."""
    for operand in operands:
        for tensor in operand if isinstance(operand, (list, tuple)) else [operand]:
            if tensor is None or isinstance(tensor, Tensor) and isinstance(tensor._value, np.ndarray):
                continue
            if not isinstance(tensor, Tensor):
                raise TypeError(f"'{cls.name}' expected tensors but got {type(tensor).__name__} ({tensor!r})")
            if tensor._value is None:
                raise ValueError(f"'{cls.name}' expected a tensor with contents but got one that is not initialized")
            raise RuntimeError(f"'{cls.name}' got {tensor._value_text()}")


def _needs_grad(operands: Sequence[Any]) -> bool:
    for operand in operands:
        if operand is None:
            continue
        if isinstance(operand, (list, tuple)):
            if any(not t.stop_gradient for t in operand):
                return True
        elif not operand.stop_gradient:
            return True
    return False


# --- constants, and writing


@provides
def constant(array: Any) -> Tensor:
    """A tensor of exactly this array, which nobody may write to afterwards."""
    array = np.asarray(array)
    if active_trace() is None:
        return Tensor._wrap(array)
    return call(ops.Constant, value=Dense(array))


@provides
def full(shape: Sequence[Dim], value: Any, dtype: ScalarType) -> Tensor:
    """A tensor whose elements are all `value`; the value and the shape may be symbolic sizes while a function is traced."""
    if isinstance(value, Expr):
        number = call(ops.DimValue, size=value, dtype=dtype)
        return call(ops.BroadcastTo, number, shape=tuple(shape)) if shape else number
    recorder = _state.recorder
    if recorder is None:
        return Tensor._wrap(_filled(tuple(shape), value, dtype))
    if isinstance(recorder, Gathering):
        return recorder.number(value, dtype) if not shape else Tensor._wrap(np.full(tuple(shape), value, dtype.np))
    if isinstance(value, (complex, np.complexfloating)):
        element = call(ops.Constant, value=Dense(np.full((), value, dtype.np)))
        return call(ops.BroadcastTo, element, shape=tuple(shape)) if shape else element
    return call(ops.Full, value=value, shape=tuple(shape), dtype=dtype)


def _filled(shape: tuple[Any, ...], value: Any, dtype: ScalarType) -> Array:
    if _plans.place.is_gpu_place():
        from polyreme.compiled import device_kernels

        return device_kernels.filled(_plans.place, shape, np.full((), value, dtype.np))
    return np.full(shape, value, dtype.np)


@provides
def assign(tensor: Tensor, value: Tensor) -> Tensor:
    """Give `tensor` the contents (and the place in the graph) of `value`: the one way to change a tensor. Returns `tensor`."""
    if _state.recorder is not None:
        if tensor._view is None or not _shares(_state.recorder):
            _state.recorder.assign(tensor, value)
        else:
            views.write_recorded(_state.recorder, tensor, value)
        return tensor
    tape.settle(tensor, value)
    if tape.is_grad_enabled() and not tensor.stop_gradient and tensor._node is None and value._node is not None:
        raise RuntimeError(leaf_is_changed(tensor))
    if tensor._view is not None:
        value = views.alias(value)  # what it is now, for it may be one of those that follow
        views.write(tensor, value)
    return take_over(tensor, value)


def take_over(tensor: Tensor, value: Tensor) -> Tensor:
    """Give `tensor` alone, without its views, the contents and the place in the graph of `value`."""
    tensor._value = value._value
    tensor._type = value._type
    tensor._place = value._place
    tensor._version += 1
    if value._node is not None:
        tensor._node, tensor._index = value._node, value._index
        tensor.stop_gradient = value.stop_gradient
    return tensor


def leaf_is_changed(tensor: Tensor) -> str:
    """What an error says of a leaf that something recorded would be written to."""
    return (
        f"a leaf tensor that needs gradients (shape {list(tensor.shape)}) cannot be changed by an inplace function; "
        "do it under no_grad(), or on a copy"
    )


# --- views


def _shares(recorder: Recorder) -> bool:
    """Whether tensors have views where ops are recorded: variables of a static program have none."""
    return recorder.taped or isinstance(recorder, Gathering)


def view(cls: type[Op], x: Tensor, *operands: Tensor, **attributes: Any) -> Tensor:
    """As `call`, for an op that moves nothing: the result is a view of `x`, which shares its contents. (Variables of a static program share
    none.)
    """
    if REGIONS.count:
        x, *_ = cast_operands(cls, (x,))
    recorder, recorded = _state.recorder, tape.is_grad_enabled()
    result: Tensor
    if recorder is None:
        result, plan = _run(cls, (x, *operands), attributes)
        if recorded and not x.stop_gradient:
            tape.record(cls, (x, *operands), plan.attributes, (result,), plan)
    else:
        result = call(cls, x, *operands, **attributes)
        if not _shares(recorder):
            return result
        recorder.shares(result, 1)
    views.link(x, result, ((cls, operands, attributes),), recorded)
    return result


def view_by_steps(x: Tensor, result: Tensor, steps: tuple[views.Step, ...], calls: int | None = None) -> Tensor:
    """`result`, which was made of `x` by calls of these ops, or by so many others that come to the same, as a view of it."""
    recorder = _state.recorder
    if recorder is None or _shares(recorder):
        if recorder is not None:
            recorder.shares(result, len(steps) if calls is None else calls)
        views.link(x, result, steps, tape.is_grad_enabled())
    return result


def alias(tensor: Tensor) -> Tensor:
    """Another tensor that is what `tensor` is now, with its place in the graph, and stays that when `tensor` is changed."""
    if _state.recorder is not None:
        return _state.recorder.alias(tensor)
    tape.settle(tensor)
    return views.alias(tensor)


@provides
def detached(tensor: Tensor, shares: bool = True) -> Tensor:
    """A tensor that shares the contents of `tensor` (or has them as they are now), but not the graph."""
    recorder = _state.recorder
    if recorder is None:
        tape.settle(tensor)
        made = Tensor._wrap(tensor._value, tensor._type)
        made._place = tensor._place
        if shares and tensor._value is not None:
            views.link(tensor, made, (), False)
        return made
    made = recorder.contents(tensor)
    made._place = tensor._place
    recorder.apart(made)
    if shares and _shares(recorder):
        views.link(tensor, made, (), False)
    return made


@provides
def note_copy(x: Tensor, made: Tensor, shape: Sequence[Dim] | None) -> None:
    """Have a trace know for which of its sizes `made` is no copy of `x` but shares its contents: seen in another shape, or None as it is.
    """
    recorder = active_trace()
    if recorder is not None and recorder.learns_sizes:
        for size in views.copied_from(x, shape):
            recorder.note_copy(made, x, size)


@provides
def begin_with(tensor: Tensor, other: Tensor) -> None:
    """Let a new tensor share the contents of `other`."""
    made = detached(other)
    tensor._value, tensor._type, tensor._place = made._value, made._type, made._place
    if tensor._value.__class__ is Pending:
        tensor._value.held_by(tensor)
    if made._view is not None:
        views.link(other, tensor, (), False)


@provides
def share(tensor: Tensor, other: Tensor) -> None:
    """Let `tensor` leave whom it shares contents with, and share those of `other`."""
    if not isinstance(other, Tensor):
        raise TypeError(f"expected a Tensor as data but got {type(other).__name__}")
    if _state.recorder is not None:
        raise RuntimeError("expected data to be set outside of traced functions and static programs; assign to the tensor instead")
    if tensor._view is not None:
        views.leave(tensor)
    views.become(tensor, detached(other))


def seen_as(tensor: Tensor, make: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """Let `tensor` see what it shares as the view that `make(tensor, *args, **kwargs)` is of it; when that fails it is what it was."""
    recorder = _state.recorder
    if recorder is not None and not _shares(recorder):
        return assign(tensor, make(alias(tensor), *args, **kwargs))  # variables share nothing
    if isinstance(recorder, Gathering):
        with at_once():  # what was gathered takes the tensor for what it is now
            return seen_as(tensor, make, *args, **kwargs)
    if recorder is not None:
        recorder.turn(tensor)
    before = views.stand_in(tensor, alias(tensor))
    try:
        made = make(before, *args, **kwargs)
        if recorder is not None:
            recorder.turned(tensor, made, before, make, args, kwargs)
    except BaseException:
        views.put_back(tensor, before)
        raise
    views.become(tensor, made)
    if isinstance(recorder, Gathering):
        recorder.changed(tensor)
    return tensor
