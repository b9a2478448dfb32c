"""Gradients of programs: for every operator between the inputs and the target, its gradient operator is appended, last one first.

A gradient operator holds no formula. When the program is translated it applies the rules of `lowering.gradients.autodiff` to what its
forward operator was applied to, so that in-place writes in between do no harm. Gradients that arrive at a variable from several operators
are summed in the order of their arrival, as in dygraph mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from polyreme import dtypes
from polyreme.casting.operators import apart
from polyreme.ir.diagnostics import caller_location
from polyreme.ir.dims import Expr, product
from polyreme.ir.python.records import dataclass
from polyreme.loaders.program_desc import LOD_TENSOR, SELECTED_ROWS
from polyreme.static.bodies import check_takes_operators
from polyreme.static.kinds import Gradient, kind_named
from polyreme.static.lod.read_rows import is_read_by_rows, mark_rows
from polyreme.static.lod.travel import NOT_DECLARED, level_to_share
from polyreme.static.nested.uses import blocks_of
from polyreme.static.operator import Operator, OpRole, gradient_type
from polyreme.static.program import Block
from polyreme.static.recorder import variable_of
from polyreme.static.variable import GRAD, Parameter, Variable, VariableError, named_variable
from polyreme.utils import unique_name

__all__ = ["append_backward", "gradients"]


@apart
def append_backward(
    loss: Variable,
    parameter_list: Sequence[Any] | None = None,
    no_grad_set: Iterable[Any] | None = None,
    callbacks: Any = None,
    checkpoints: Any = None,
    distop_context: Any = None,
) -> list[tuple[Parameter, Variable]]:
    """Append the gradient operators of `loss` (one element); returns pairs of each trainable parameter and the variable of its gradient.

    Gradients are called `NAME@GRAD`. `parameter_list` limits the parameters, by variables or names; no gradient flows through variables in
    `no_grad_set`. A variable's error clip bounds its gradient. `callbacks` are called behind each gradient operator, with `block` and a
    `context`: the names of variables by those of their gradients. `checkpoints` trade memory for time in Paddle; here the compiler decides
    what it keeps.
    """
    check_takes_operators("append_backward()")
    target = _variable(loss, "loss")
    if product(target.type.shape) != 1:
        raise VariableError(
            f"expected a loss of one element but '{target.name}' has shape {list(target.shape)}; take its mean first",
            target.location,
            code="E0608",
        )
    program, block = target.block.program, target.block
    if parameter_list is None:
        parameters = [p for p in program.all_parameters() if p.trainable]
    else:
        parameters = [_parameter(block, p) for p in parameter_list]
    if target.op is not None and not target.op.attrs.get("op_role", 0):
        target.op.attrs["op_role"] = int(OpRole.Forward) | int(OpRole.Loss)
    with program.role(OpRole.Backward):
        told = [] if callbacks is None else list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
        found = _Backward(block, _names(no_grad_set), None, told).run([target], [None])
    pairs = [(p, block.vars[found[p.name]]) for p in parameters if p.name in found]
    makers = {name: op for op in block.ops for name in op.output_arg_names}
    for parameter, gradient in pairs:
        maker = makers.get(gradient.name)
        if maker is not None:  # which says whose gradient it makes, as Paddle's transpilers ask
            maker.attrs["op_role_var"] = [*maker.attrs.get("op_role_var", ()), parameter.name, gradient.name]
    return pairs


def _operators_in_front(block: Block) -> list[Operator]:
    """The operators of the blocks around a block that have run when it begins, in order."""
    parent = block.parent_block
    if parent is None:
        return []
    count = next((i for i, op in enumerate(parent.ops) if block in blocks_of(op)), len(parent.ops))
    return [*_operators_in_front(parent), *parent.ops[:count]]


@apart
def gradients(targets: Any, inputs: Any, target_gradients: Any = None, no_grad_set: Iterable[Any] | None = None) -> list[Variable | None]:
    """The gradients of the sum of `targets` with respect to `inputs`, as variables; None for an input that they do not depend on.

    `target_gradients` weight the targets; ones by default. The result can be differentiated again.
    """
    outputs = [_variable(t, "targets") for t in (targets if isinstance(targets, (list, tuple)) else [targets])]
    wanted = [_variable(t, "inputs") for t in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
    weights = (
        [None] * len(outputs)
        if target_gradients is None
        else list(target_gradients if isinstance(target_gradients, (list, tuple)) else [target_gradients])
    )
    if len(weights) != len(outputs):
        raise ValueError(f"expected one of 'target_gradients' per target but got {len(weights)} for {len(outputs)}")
    block = outputs[0].block
    for y, dy in zip(outputs, weights, strict=True):
        if dy is not None and dy.type.shape != y.type.shape:
            raise VariableError(
                f"expected a gradient of shape {list(y.shape)} for '{y.name}' but got {list(dy.shape)}", caller_location(), code="E0608"
            )
    with block.program.role(OpRole.Backward):
        found = _Backward(block, _names(no_grad_set), [x.name for x in wanted]).run(outputs, weights)
    return [block.vars[found[x.name]] if x.name in found else None for x in wanted]


def _variable(value: Any, what: str) -> Variable:
    variable = named_variable(value)
    if variable is None:
        raise TypeError(f"The type of '{what}' must be Variable, but received {type(value)}.")
    return variable


def _parameter(block: Block, given: Any) -> Parameter:
    variable = block.var_recursive(given) if isinstance(given, str) else variable_of(given, block)
    if not isinstance(variable, Parameter):
        raise TypeError(f"expected parameters, or their names, in parameter_list but '{variable.name}' is none")
    return variable


def _names(given: Iterable[Any] | None) -> set[str]:
    return {item if isinstance(item, str) else _variable(item, "no_grad_set").name for item in given or ()}


@dataclass
class _Flow:
    """Where gradients flow through one operator: places of inputs and of outputs."""

    inputs: list[tuple[str, int]] = field(default_factory=list)
    outputs: list[tuple[str, int]] = field(default_factory=list)


class _Backward:
    """One pass over the operators of a block, and over those in front of it in the blocks around it, whose gradient operators stand in the
    block, too.

    With `wanted`, gradients are followed to these variables only; else to everything that does not stop them.
    """

    def __init__(self, block: Block, stopped: set[str], wanted: Sequence[str] | None, callbacks: Sequence[Any] = ()):
        self.block = block
        self.stopped = stopped
        self.wanted = None if wanted is None else set(wanted)
        self.callbacks = callbacks
        self.pending: dict[str, list[tuple[Operator, str, int]]] = {}  # gradients that arrived, each as an output slot of an operator
        self.names: dict[str, str] = {}  # what gradients are called in this pass

    def run(self, targets: Sequence[Variable], weights: Sequence[Any]) -> dict[str, str]:
        """Append everything; the names of gradients, by the names of what they belong to."""
        ops = [*_operators_in_front(self.block), *self.block.ops]
        last = max((i for i, op in enumerate(ops) for t in targets if any(t.name in n for n in op.write_slots().values())), default=-1)
        flows = self._flows(ops[: last + 1])
        for target, weight in zip(targets, weights, strict=True):
            self._seed(target, weight)
        done: dict[str, str] = {}
        for op in reversed(ops[: last + 1]):
            flow = flows.get(op.uid)
            written = op.write_slots()
            # Of a variable that it names twice the gradient is that of the last place alone.
            places = {name: (slot, i) for slot, names in written.items() for i, name in enumerate(names) if name in self.pending}
            seeds = [] if flow is None else [place for place in flow.outputs if place in places.values()]
            # What the operator writes starts there: no gradient of it goes further back.
            settled = {name: self._settle(name) for names in written.values() for name in names if name in self.pending}
            done.update({name: grad for name, grad in settled.items() if self.wanted is None or name in self.wanted})
            if flow is not None and seeds:
                self._append(op, flow, seeds, settled)
        for name in list(self.pending):
            done[name] = self._settle(name)
        if self.wanted is None:
            return done
        return {name: grad for name, grad in done.items() if name in self.wanted}

    # --- which way gradients flow

    def _flows(self, ops: Sequence[Operator]) -> dict[int, _Flow]:
        """The operators that depend on what gradients are wanted of, with the places where they do."""
        flows: dict[int, _Flow] = {}
        reached: dict[str, bool] = {} if self.wanted is None else dict.fromkeys(self.wanted, True)
        for op in ops:
            flow = _Flow()
            for slot, names in self._readable(op).items():
                flow.inputs += [(slot, i) for i, name in enumerate(names) if self._reached(name, reached)]
            smooth = bool(flow.inputs) and op.kind.differentiable(op)
            for slot, names in op.write_slots().items():
                for i, name in enumerate(names):
                    variable = self.block.var_recursive(name)
                    through = smooth and not self._stops(variable) and variable.has_shape and variable.type.dtype.kind in "fc"
                    reached[name] = through or (self.wanted is not None and name in self.wanted)
                    if through:
                        flow.outputs.append((slot, i))
            if flow.outputs:
                flows[op.uid] = flow
        return flows

    def _readable(self, op: Operator) -> dict[str, list[str]]:
        """The inputs that gradients can flow to; of a gradient operator its forward operator's inputs and the gradients that came in."""
        if not isinstance(op.kind, Gradient):
            constant = op.kind.constant(op)
            return {slot: names for slot, names in op.read_slots().items() if slot not in constant}
        return {slot: names for slot, names in op.inputs.items() if slot in op.data.reads or slot.endswith(GRAD)}

    def _reached(self, name: str, reached: dict[str, bool]) -> bool:
        if name not in reached:
            variable = self.block.var_recursive(name)
            reached[name] = self.wanted is None and not self._stops(variable) and variable.has_shape and variable.type.dtype.kind in "fc"
        return reached[name]

    def _stops(self, variable: Variable) -> bool:
        return variable.name in self.stopped or (variable.stop_gradient and not (self.wanted is not None and variable.name in self.wanted))

    # --- appending

    def _seed(self, target: Variable, weight: Any) -> None:
        name = self._name(target.name)
        if weight is None:
            with self.block.program.role(OpRole.Backward | OpRole.Loss):
                attrs: dict[str, Any] = {"value": 1.0, "dtype": target.dtype.name}
                if any(isinstance(size, Expr) for size in target.type.shape):
                    # No constant of Paddle's has a size that only a run knows.
                    op = self.block.add_operator(
                        "fill_any_like", kind_named("fill_any_like"), {"X": [target.name]}, {"Out": [name]}, attrs
                    )
                else:
                    attrs["shape"] = target.type.shape
                    op = self.block.add_operator("fill_constant", kind_named("fill_constant"), {}, {"Out": [name]}, attrs)
        else:
            op = self.block.add_operator(
                "assign", kind_named("assign"), {"X": [variable_of(weight, self.block).name]}, {"Out": [name]}, {}
            )
        self._gradient_variable(target, name)
        self.pending.setdefault(target.name, []).append((op, "Out", 0))

    def _name(self, name: str) -> str:
        """What the gradient of a variable is called: another pass over the same program takes names of its own."""
        if name not in self.names:
            plain = name + GRAD
            self.names[name] = plain if not self.block.has_var(plain) else unique_name.generate(plain)
        return self.names[name]

    def _gradient_variable(self, like: Variable, name: str) -> None:
        if not self.block.has_var(name):
            self.block.create_var(name, like.type.shape, dtypes.of_scalar(like.type.dtype), persistable=False, stop_gradient=False)
        else:
            self.block.vars[name].set_type(like.type)

    def _append(self, op: Operator, flow: _Flow, seeds: Sequence[tuple[str, int]], settled: dict[str, str]) -> None:
        read, written = op.read_slots(), op.write_slots()
        inputs = {slot: list(names) for slot, names in read.items()}
        inputs |= {slot: list(names) for slot, names in written.items() if slot not in inputs}
        arrived: dict[str, list[str]] = {}
        for slot, i in seeds:
            arrived.setdefault(slot + GRAD, []).append(settled[written[slot][i]])
        inputs |= arrived
        outputs: dict[str, list[str]] = {}
        for slot, i in flow.inputs:
            outputs.setdefault(slot + GRAD, []).append(self._name(read[slot][i]))
        kind, data = op.kind.gradient(op, tuple(flow.inputs), tuple(seeds))
        type = gradient_type(op.type)
        made = Operator(self.block, type, kind, inputs, outputs, self.block.program.role_attributes(), data, op.location)
        made.lines = op.lines
        self.block.place(made, len(self.block.ops))
        counts: dict[str, int] = {}
        for slot, i in flow.inputs:
            name = read[slot][i]
            place = counts.get(slot, 0)
            counts[slot] = place + 1
            self._gradient_variable(self.block.var_recursive(name), self._name(name))
            gradient = self.block.vars[self._name(name)]
            gradient.lod_level = 0 if op.type in NOT_DECLARED else level_to_share(made, slot + GRAD, place, gradient.type)
            if is_read_by_rows(op):
                self.block.vars[self._name(name)].kind = SELECTED_ROWS
            self.pending.setdefault(name, []).append((made, slot + GRAD, place))
        for callback in self.callbacks:
            callback(block=self.block, context={grad: name for name, grad in self.names.items()})

    def _settle(self, name: str) -> str:
        """The gradient of a variable, all contributions summed."""
        parts = self.pending.pop(name)
        grad = self._name(name)
        if len(parts) > 1:
            variable = self.block.var_recursive(name)
            renamed = [f"{grad}@RENAME@block{self.block.idx}@{i}" for i in range(len(parts))]
            renamed = [n if not self.block.has_var(n) else unique_name.generate(n) for n in renamed]
            for (op, slot, place), part in zip(parts, renamed, strict=True):
                op.outputs[slot][place] = part
                self._gradient_variable(variable, part)
                self.block.vars[part].lod_level = self.block.vars[grad].lod_level
                self.block.vars[part].kind = SELECTED_ROWS if getattr(op.data, "of_rows", False) else LOD_TENSOR
            self.block.vars[grad].kind = LOD_TENSOR
            mark_rows(self.block.add_operator("sum", kind_named("sum"), {"X": renamed}, {"Out": [grad]}, {}))
        clip = self.block.var_recursive(name).error_clip
        if clip is not None:
            clip._append_clip_op(self.block, grad)
        return grad

