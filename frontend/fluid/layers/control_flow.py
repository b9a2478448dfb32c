"""Branches and loops whose bodies are blocks of the program: `While`, `Switch`, `IfElse`, `StaticRNN`; tensor arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from polyreme.fluid.framework import Program, appending, default_main_program, in_dygraph_mode
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.elementwise import logical_and, logical_not
from polyreme.fluid.layers.nn import stack
from polyreme.fluid.layers.tensor import assign, concat, fill_constant_batch_size_like
from polyreme.names import listed
from polyreme.static import control_flow as functions
from polyreme.static import host_function
from polyreme.static.api import arrays
from polyreme.static.api.print import Print as static_print
from polyreme.static.nested.uses import names_from_outside
from polyreme.static.variable import named_variable
from polyreme.tensor import Tensor
from polyreme.utils import unique_name
from polyreme.utils.shown import Shown

__all__ = [
    "IfElse", "Print", "StaticRNN", "Switch", "While", "array_length", "array_read", "array_write", "autoincreased_step_counter", "case",
    "cond", "create_array", "increment", "lod_rank_table", "max_sequence_len", "py_func",
    "reorder_lod_tensor_by_rank", "switch_case", "tensor_array_to_tensor", "while_loop",
]  # fmt: skip

case, cond = appending(functions.case), appending(functions.cond)
switch_case, while_loop = appending(functions.switch_case), appending(functions.while_loop)
py_func = appending(host_function.py_func)


@appending
def Print(  # noqa: N802 - Paddle's name
    input: Any, first_n: int = -1, message: str | None = None, summarize: int = 20, print_tensor_name: bool = True,
    print_tensor_type: bool = True, print_tensor_shape: bool = True, print_tensor_lod: bool = True, print_phase: str = "both",
) -> Any:  # fmt: skip
    """`input` as it is, whose values a run writes to the standard output, as `paddle.static.Print`."""
    return static_print(
        input, first_n, message, summarize, print_tensor_name, print_tensor_type, print_tensor_shape, True, print_tensor_lod, print_phase
    )  # fmt: skip


# --- numbers and arrays


def increment(x: Any, value: float = 1.0, in_place: bool = True) -> Any:
    """x plus a number, in `x` itself by default."""
    helper = LayerHelper("increment")
    out = x if in_place else helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("increment", {"X": x}, {"Out": out}, {"step": float(value)})
    return out


def autoincreased_step_counter(counter_name: str | None = None, begin: int = 1, step: int = 1) -> Any:
    """A persistable int64 [1] that the first operator of the program raises by `step` at every run, from `begin` - 1 on. In dygraph mode
    each call gives a new one, raised once.
    """
    from polyreme.fluid.initializer import Constant

    helper = LayerHelper("global_step_counter")
    name = "@STEP_COUNTER@" if counter_name is None else counter_name
    counter, fresh = helper.create_or_get_global_variable(name, persistable=True, dtype="int64", shape=[1])
    if fresh:
        helper.set_variable_initializer(counter, Constant(begin - 1, force_cpu=True))
        add = helper.append_op if in_dygraph_mode() else helper.main_program.global_block().prepend_op
        add("increment", {"X": [counter]}, {"Out": [counter]}, {"step": float(step)})
        counter.stop_gradient = True
    return counter


def create_array(dtype: Any) -> Any:
    """An array that tensors are written to, of one shape and this element type. In dygraph mode it is a list."""
    if in_dygraph_mode():
        return arrays.create_array(dtype)
    helper = LayerHelper("array")
    made = helper.create_variable(name=f"{helper.name}.out", dtype=dtype)
    made.is_tensor_array = True
    return made


def array_write(x: Any, i: Any, array: Any = None) -> Any:
    """Let element `i` of an array be `x`; a new array by default."""
    if in_dygraph_mode():
        return arrays.array_write(x, i, array)
    helper = LayerHelper("array_write")
    target = create_array(x.dtype) if array is None else array
    known = isinstance(target, Tensor) and getattr(target, "has_shape", True)
    helper.append_op("write_to_array", {"X": x, "I": i, "Array": target if known else None}, {"Out": target})
    return target


def array_read(array: Any, i: Any) -> Any:
    """Element `i` of an array."""
    if in_dygraph_mode():
        return arrays.array_read(array, i)
    helper = LayerHelper("array_read")
    out = helper.create_variable_for_type_inference(array.dtype)
    helper.append_op("read_from_array", {"X": array, "I": i}, {"Out": out})
    return out


def array_length(array: Any) -> Any:
    """How many elements an array has, int64 [1]; a number in dygraph mode."""
    if in_dygraph_mode():
        return arrays.array_length(array)
    helper = LayerHelper("array_length")
    out = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    helper.append_op("lod_array_length", {"X": array}, {"Out": out}, stop_gradient=True)
    return out


def tensor_array_to_tensor(input: Any, axis: int = 1, name: str | None = None, use_stack: bool = False) -> tuple[Any, Any]:
    """The elements of an array one behind the other along `axis`, or stacked there; and the size along `axis` of each, int32 (int64 in
    dygraph mode).
    """
    if in_dygraph_mode():
        if not isinstance(input, list):
            raise AssertionError("The 'input' in tensor_array_to_tensor must be list")
        sizes = assign(np.array([int(element.shape[axis]) for element in input], "int64"))
        return (stack if use_stack else concat)(input, axis=axis), sizes
    helper = LayerHelper("tensor_array_to_tensor", name=name)
    out = helper.create_variable_for_type_inference(input.dtype)
    sizes = helper.create_variable_for_type_inference("int32", stop_gradient=True)
    attrs = {"axis": axis, "use_stack": use_stack}
    helper.append_op("tensor_array_to_tensor", {"X": input}, {"Out": out, "OutIndex": sizes}, attrs)
    return out, sizes


# --- sequences by their lengths


def lod_rank_table(x: Any, level: int = 0) -> Any:
    """The numbers and the lengths of the sequences of a level of `x`, the longest first."""
    helper = LayerHelper("lod_rank_table")
    table = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    helper.append_op("lod_rank_table", {"X": x}, {"Out": table}, {"level": level}, stop_gradient=True)
    return table


def max_sequence_len(rank_table: Any) -> Any:
    """The length of the longest sequence of a table, int64 [1]."""
    helper = LayerHelper("max_seqence_len")
    out = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    helper.append_op("max_sequence_len", {"RankTable": rank_table}, {"Out": out}, stop_gradient=True)
    return out


def reorder_lod_tensor_by_rank(x: Any, rank_table: Any) -> Any:
    """The rows of `x`, one for each sequence, in the order of a table."""
    helper = LayerHelper("reorder_lod_tensor_by_rank")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("reorder_lod_tensor_by_rank", {"X": x, "RankTable": rank_table}, {"Out": out})
    return out


def lod_tensor_to_array(x: Any, table: Any) -> Any:
    """An array whose element `t` has the rows with number `t` of the sequences `x`, in the order of a table of these."""
    helper = LayerHelper("lod_tensor_to_array")
    array = helper.create_variable(name=unique_name.generate("lod_tensor_to_array"), dtype=x.dtype)
    array.is_tensor_array = True
    helper.append_op("lod_tensor_to_array", {"X": x, "RankTable": table}, {"Out": array})
    return array


def array_to_lod_tensor(x: Any, table: Any) -> Any:
    """The sequences that `lod_tensor_to_array` made the array `x` of."""
    helper = LayerHelper("array_to_lod_tensor")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("array_to_lod_tensor", {"X": x, "RankTable": table}, {"Out": out})
    return out


def shrink_memory(x: Any, i: Any, table: Any) -> Any:
    """The rows of `x`, in the order of a table, of the sequences that have a row with the number `i`."""
    helper = LayerHelper("shrink_memory")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("shrink_rnn_memory", {"X": x, "I": i, "RankTable": table}, {"Out": out})
    return out


# --- blocks


@contextmanager
def _block(program: Program) -> Iterator[Any]:
    """A block under the current one, which is the current one inside the `with`."""
    block = program.create_block()
    try:
        yield block
    finally:
        program.rollback()


class While(Shown):
    """A loop: `with while_op.block():` has the body, which must write the condition, a bool variable of one element.

        i, limit = fluid.layers.fill_constant([1], "int64", 0), fluid.layers.fill_constant([1], "int64", 10)
        again = fluid.layers.less_than(i, limit)
        loop = fluid.layers.While(again)
        with loop.block():
            fluid.layers.increment(i)
            fluid.layers.less_than(i, limit, cond=again)
    """

    def __init__(self, cond: Any, is_test: bool = False, name: str | None = None):
        variable = named_variable(cond)
        if variable is None:
            raise TypeError(f"The type of 'cond' in fluid.layers.While must be Variable, but received {type(cond)}.")
        if variable.has_shape and variable.type.elements != 1:
            raise TypeError(f"the shape of the variable returned by cond should be [1], but given shape as {list(variable.shape)}")
        self.cond_var, self.is_test = cond, is_test

    @contextmanager
    def block(self) -> Iterator[None]:
        """The body of the loop."""
        program = default_main_program()
        with _block(program) as body:
            yield
        parent = program.current_block()
        reads, writes = names_from_outside(body)
        scopes = parent.create_var(unique_name.generate("_generated_var"))
        parent.append_op(
            "while",
            {"X": [name for name in dict.fromkeys([*reads, *writes]) if name != self.cond_var.name], "Condition": [self.cond_var]},
            {"Out": writes, "StepScopes": [scopes]},
            {"sub_block": body, "is_test": self.is_test},
        )


class ConditionalBlock:
    """A block that runs if its condition holds: one bool, or with `is_scalar_condition=False` tensors that have elements."""

    def __init__(self, inputs: Any, is_scalar_condition: bool = False, name: str | None = None):
        self.inputs, self.is_scalar_condition = list(inputs), is_scalar_condition

    @contextmanager
    def block(self) -> Iterator[None]:
        """What runs then."""
        program = default_main_program()
        with _block(program) as body:
            yield
        parent = program.current_block()
        reads, writes = names_from_outside(body)
        conditions = {v.name for v in self.inputs}
        scopes = parent.create_var(unique_name.generate("_generated_var"))
        parent.append_op(
            "conditional_block",
            {"Cond": self.inputs, "Input": [name for name in reads if name not in conditions]},
            {"Out": writes, "Scope": [scopes]},
            {"sub_block": body, "is_scalar_condition": self.is_scalar_condition},
        )


class Switch(Shown):
    """The first case whose condition holds, or else the default:

        with fluid.layers.Switch() as switch:
            with switch.case(first):
                fluid.layers.assign(one, output=rate)
            with switch.default():
                fluid.layers.assign(two, output=rate)
    """

    def __init__(self, name: str | None = None):
        self.inside_scope = False
        self.none_before: Any = None  # that no condition so far holds

    def __enter__(self) -> Switch:
        self.inside_scope = True
        return self

    def __exit__(self, *error: Any) -> None:
        self.inside_scope = False

    def _check(self) -> None:
        if not self.inside_scope:
            raise ValueError("case should be called inside with")

    def case(self, condition: Any) -> Any:
        """Runs if `condition` holds, and none in front of it did."""
        self._check()
        variable = named_variable(condition)
        if variable is None:
            raise TypeError(f"The type of 'condition' in fluid.layers.Switch.case must be Variable, but received {type(condition)}.")
        otherwise = logical_not(condition)
        if self.none_before is None:
            chosen, self.none_before = condition, otherwise
        else:
            before = self.none_before
            self.none_before = logical_and(before, otherwise)
            chosen = logical_and(before, condition)
        return ConditionalBlock([chosen], is_scalar_condition=True).block()

    def default(self) -> Any:
        """Runs if no condition holds."""
        self._check()
        if self.none_before is None:
            raise ValueError("there should be at least one condition")
        return ConditionalBlock([self.none_before], is_scalar_condition=True).block()


class IfElse(Shown):
    """Rows of tensors go one of two ways, as a bool [N, 1] says, and are put together again:

        branches = fluid.layers.IfElse(cond)
        with branches.true_block():
            branches.output(fluid.layers.scale(branches.input(x), 2.0))
        with branches.false_block():
            branches.output(branches.input(x))
        (out,) = branches()
    """

    def __init__(self, cond: Any, name: str | None = None):
        if named_variable(cond) is None:
            raise TypeError(f"The type of 'cond' in fluid.layers.IfElse must be Variable, but received {type(cond)}.")
        self.cond = cond
        self._parts: dict[str, tuple[Any, Any]] = {}
        self._outputs: dict[bool, list[Any]] = {}
        self._way: bool | None = None

    @contextmanager
    def _along(self, way: bool) -> Iterator[None]:
        if self._way is not None:
            raise ValueError("cannot invoke true_block or false_block inside of another")
        self._way = way
        self._outputs[way] = []
        try:
            yield
        finally:
            self._way = None
        if not self._outputs[way]:
            raise ValueError("Must set output inside block")

    def true_block(self) -> Any:
        """What is done with rows where the condition holds."""
        return self._along(True)

    def false_block(self) -> Any:
        """What is done with the other rows."""
        return self._along(False)

    def input(self, x: Any) -> Any:
        """The rows of `x` that go this way; ValueError where these are parts of sequences."""
        if self._way is None:
            raise ValueError("input must in true/false blocks")
        if x.lod_level:
            raise ValueError(
                f"expected rows that go one of two ways but '{x.name}' holds sequences (lod_level {x.lod_level}), which stay whole: "
                "give their sequence_pool, or their parts by sequence_pad"
            )
        if x.name not in self._parts:
            helper = LayerHelper("split_lod_tensor")
            rows = helper.create_variable_for_type_inference(x.dtype), helper.create_variable_for_type_inference(x.dtype)
            attrs = {"level": 0}
            helper.append_op("split_lod_tensor", {"X": x, "Mask": self.cond}, {"OutTrue": rows[0], "OutFalse": rows[1]}, attrs)
            self._parts[x.name] = rows
        return self._parts[x.name][0 if self._way else 1]

    def output(self, *outs: Any) -> None:
        """The rows that this way gives."""
        if self._way is None:
            raise ValueError("output can only be invoked in the sub-block")
        self._outputs[self._way] += outs

    def __call__(self) -> list[Any]:
        """The rows of both ways, in the order of the condition."""
        if self._way is not None:
            raise ValueError("IfElse::__call__ must be out of sub-block")
        ways = [self._outputs[way] for way in (True, False) if way in self._outputs]
        if not ways:
            raise ValueError("Must invoke true_block/false_block before __call__")
        if len(ways) == 1:
            return ways[0]
        if len(ways[0]) != len(ways[1]):
            raise ValueError(f"The out num should be equal in both blocks but got {len(ways[0])} and {len(ways[1])}")
        made = []
        for first, second in zip(*ways, strict=True):
            helper = LayerHelper("merge_lod_tensor")
            out = helper.create_variable_for_type_inference(first.dtype)
            slots = {"X": self.cond, "Mask": self.cond, "InTrue": first, "InFalse": second}
            helper.append_op("merge_lod_tensor", slots, {"Out": out}, {"level": 0})
            made.append(out)
        return made


class StaticRNN(Shown):
    """A body that runs once for each row of its inputs [T, ...], with memories from step to step:

        rnn = fluid.layers.StaticRNN()
        with rnn.step():
            word, before = rnn.step_input(words), rnn.memory(shape=[-1, 20], batch_ref=words)
            hidden = fluid.layers.fc([word, before], size=20, act="tanh")
            rnn.update_memory(before, hidden)
            rnn.step_output(hidden)
        hiddens = rnn()
    """

    _type = "recurrent"

    def __init__(self, name: str | None = None):
        self.helper = LayerHelper("static_rnn", name=name)
        self._static: list[Any] = []
        self._state = "before"
        self._body: Any = None
        self._inputs: list[Any] = []
        self._memories: dict[str, tuple[Any, Any, Any]] = {}  # by the name inside: that variable, the first value, the next one
        self._results: list[Any] = []
        self._outputs: list[Any] = []

    @contextmanager
    def step(self) -> Iterator[None]:
        """The body."""
        if self._state != "before":
            raise ValueError("expected one step() of a StaticRNN")
        program = default_main_program()
        with _block(program) as self._body:
            self._state = "inside"
            yield
        self._state = "after"
        self._complete(program.current_block())

    def _inside(self, what: str) -> None:
        if self._state != "inside":
            raise ValueError(f"You must invoke {what} in rnn block")

    def step_input(self, x: Any) -> Any:
        """A row of `x` [T, ...]."""
        self._inside("step_input")
        if x.type.rank < 1:
            raise ValueError(f"expected an input with rows but '{x.name}' has shape {list(x.shape)}")
        row = self._body.create_var(x.name, None, x.dtype)
        row.set_type(x.type.with_shape(x.type.shape[1:]))
        self._inputs.append(x)
        return row

    def memory(
        self, init: Any = None, shape: Any = None, batch_ref: Any = None, init_value: float = 0.0, init_batch_dim_idx: int = 0,
        ref_batch_dim_idx: int = 1,
    ) -> Any:  # fmt: skip
        """What the step before has put into `update_memory`; in the first step `init`, or `init_value` in the shape `shape` whose batch is
        that of `batch_ref`.
        """
        self._inside("memory")
        if init is None:
            if shape is None or batch_ref is None:
                raise ValueError("if init is None, memory at least need shape and batch_ref")
            program = default_main_program()
            current = program.current_block_idx
            program.current_block_idx = self._body.parent_idx
            try:
                outer = next((x for x in self._inputs if x.name == batch_ref.name), batch_ref)
                ref = ref_batch_dim_idx if outer is not batch_ref or batch_ref.block is not self._body else 0
                init = fill_constant_batch_size_like(outer, list(shape), batch_ref.dtype, init_value, ref, init_batch_dim_idx)
                init.stop_gradient = False
            finally:
                program.current_block_idx = current
        before = self._body.create_var(unique_name.generate(f"{self.helper.name}@mem"), None, init.dtype)
        before.set_type(init.type)
        self._memories[before.name] = (before, init, None)
        return before

    def update_memory(self, mem: Any, var: Any) -> None:
        """Let the memory be `var` in the next step."""
        self._inside("update_memory")
        before, init, _ = self._memories[mem.name]
        self._memories[mem.name] = (before, init, var)

    def step_output(self, o: Any) -> None:
        """A result of the step: the rows of an output."""
        self._inside("step_output")
        # The result goes by the name that it has in the block, which must not be that of a variable outside.
        self._results.append(o if o.name in self._body.vars else assign(o))

    def output(self, *outputs: Any) -> None:
        """Several results."""
        for out in outputs:
            self.step_output(out)

    def _complete(self, parent: Any) -> None:
        for before, _, after in self._memories.values():
            if after is None:
                raise ValueError(f"expected update_memory for each memory of the StaticRNN but '{before.name}' has none")
        if not self._inputs:
            raise ValueError("expected a step_input that says how many steps a StaticRNN has")
        steps = self._inputs[0].type.shape[0]
        for result in self._results:
            out = parent.create_var(result.name, None, result.dtype)
            out.set_type(result.type.with_shape((steps, *result.type.shape)))
            self._outputs.append(out)
        reads = names_from_outside(self._body)[0]
        scopes = parent.create_var(unique_name.generate("_generated_var"))
        slots = {"inputs": self._inputs, "initial_states": [init for _, init, _ in self._memories.values()], "parameters": reads}
        parent.append_op(
            self._type,
            {**slots, "static_inputs": self._static} if self._static else slots,
            {"outputs": self._outputs, "step_scopes": [scopes]},
            {
                "ex_states": list(self._memories), "states": [after.name for _, _, after in self._memories.values()], "reverse": False,
                "sub_block": self._body, "is_train": True, "has_states": bool(self._memories),
            },
        )  # fmt: skip

    def __call__(self) -> Any:
        """The outputs, with a row for each step: one, or a list."""
        if self._state != "after":
            raise ValueError("RNN output can only be retrieved after rnn block")
        if not self._outputs:
            raise ValueError("RNN has no output")
        return self._outputs[0] if len(self._outputs) == 1 else self._outputs


__dir__ = listed(__name__)
