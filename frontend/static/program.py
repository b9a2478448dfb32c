"""Programs and blocks: named variables and the operators on them, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from polyreme import dtypes
from polyreme.ir.diagnostics import caller_location, did_you_mean
from polyreme.ir.types import TensorType, type_symbols
from polyreme.loaders.program_desc import LOD_TENSOR, LOD_TENSOR_ARRAY, SELECTED_ROWS, OpDesc, ProgramDesc, VarDesc, write_program
from polyreme.loaders.program_text import text_of_block, text_of_program, type_name
from polyreme.static.kinds import OperatorKind, gradient_of
from polyreme.static.operator import Operator, OpRole, RunError
from polyreme.static.variable import Parameter, Variable, VariableError, check_flags, named_variable
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["LABELS", "Block", "Program"]

# Attributes of all operators that are being appended: the part of the program that they are of, and their device.
LABELS: dict[str, Any] = {}


class Block:
    """Variables by name and operators in order. A child block sees the variables of its parents."""

    def __init__(self, program: Program, idx: int, parent_idx: int = -1):
        self.program = program
        self.idx = idx
        self.parent_idx = parent_idx
        self.forward_block_idx = -1
        self.vars: dict[str, Variable] = {}
        self.ops: list[Operator] = []

    # --- variables


    def create_var(
        self,
        name: str | None = None,
        shape: Any = None,
        dtype: Any = None,
        type: Any = None,
        persistable: bool | None = None,
        **fields: Any,
    ) -> Variable:
        """A new variable; without a name it gets one. A name of this block is refused with another shape or dtype, and otherwise the
        variable that has it. `type` is a member of `VarDesc.VarType`: a dense tensor by default.
        """
        if isinstance(name, str) and name in self.vars:
            return self._same(self.vars[name], shape, dtype)
        # Sequence levels, channel capacities and the like are taken for compatibility; what they say does not matter here.
        for ignored in ("capacity", "belong_to_optimizer", "error_clip", "block"):
            fields.pop(ignored, None)
        if name is not None and not isinstance(name, str):
            raise TypeError(f"expected the name of a variable to be str but got {name!r}")
        number = _number_of_type(type)
        if number not in (None, *_HOLDING_NUMBERS) and (shape is not None or dtype is not None):
            message = f"expected neither shape nor dtype of '{name}', which is of type {type_name(number)}, but got {shape} and {dtype}"
            raise VariableError(message, caller_location())
        if number == LOD_TENSOR_ARRAY:  # whose elements' shape the first one tells
            shape = None
        made = Variable(self, name or unique_name.generate("_generated_var"), shape, dtype, bool(persistable), **fields)
        made.is_tensor_array = number == LOD_TENSOR_ARRAY
        if number is not None and not made.is_tensor_array:
            made.kind = number
        return self._add(made)

    def _same(self, known: Variable, shape: Any, dtype: Any) -> Variable:
        if dtype is not None and known.dtype is not dtypes.as_dtype(dtype):
            raise VariableError(
                f"expected '{known.name}' to keep the dtype {known.dtype.name} but it is created again with {dtype}", caller_location()
            )
        if shape is not None and known.has_shape and list(known.shape) != [-1 if s is None else s for s in shape]:
            raise VariableError(
                f"expected '{known.name}' to keep the shape {list(known.shape)} but it is created again with {list(shape)}",
                caller_location(),
            )
        return known


    def create_parameter(
        self, name: str | None = None, shape: Any = (), dtype: Any = None, initializer: Any = None, **fields: Any
    ) -> Parameter:
        """A new parameter in the program's first block. One of that name and shape is shared."""
        block = self.program.global_block()
        if shape is None:
            raise VariableError("expected the shape of a parameter but got None", caller_location())
        name = name or unique_name.generate("_generated_param")
        known = block.vars.get(name)
        if known is not None:
            if not isinstance(known, Parameter):
                raise VariableError(f"expected a new name for a parameter but '{name}' is a variable already", caller_location())
            self._same(known, shape, dtype)
            return known
        fields.pop("gradient_clip_attr", None)
        made = Parameter(block, name, shape, dtype, **fields)
        block._add(made)
        if initializer is not None:
            from polyreme.static.startup import initialize

            initialize(made, initializer, block)
        return made

    def _add(self, variable: Any) -> Any:
        self.vars[variable.name] = variable
        self.program.touch()
        return variable

    def var(self, name: str) -> Variable:
        """The variable of this name in this block; `ValueError` when there is none."""
        if not isinstance(name, str):
            raise TypeError(f"var require string as parameter, but get {type(name).__name__} instead.")
        if name not in self.vars:
            raise VariableError(
                f"expected a variable of block {self.idx} but got '{name}'{did_you_mean(name, self.vars)}", caller_location(), code="E0602"
            )
        return self.vars[name]

    def has_var(self, name: str) -> bool:
        return name in self.vars

    def var_recursive(self, name: str) -> Variable:
        """The variable of this name here or in a parent block; `ValueError` when there is none."""
        found = self._find_var_recursive(name)
        if found is None:
            known = {n for block in self._chain() for n in block.vars}
            raise VariableError(
                f"expected a variable of block {self.idx} or its parents but got '{name}'{did_you_mean(str(name), known)}",
                caller_location(),
                code="E0602",
            )
        return found

    _var_recursive = var_recursive

    def _find_var_recursive(self, name: str) -> Variable | None:
        return next((block.vars[name] for block in self._chain() if name in block.vars), None)

    def has_var_recursive(self, name: str) -> bool:
        return self._find_var_recursive(name) is not None

    def _chain(self) -> Iterator[Block]:
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent_block

    @property
    def parent_block(self) -> Block | None:
        return None if self.parent_idx < 0 else self.program.block(self.parent_idx)

    def rename_var(self, name: Any, new_name: str) -> Variable:
        """Rename a variable, in the operators that use it too; returns it. `ValueError` when it is not here, or the new name is taken."""
        variable = self.var(name)
        if new_name in self.vars:
            raise VariableError(f"expected a new name for '{name}' but '{new_name}' is a variable already", caller_location())
        self.vars = {new_name if key == name else key: value for key, value in self.vars.items()}
        variable._name = new_name
        for block in self.program.blocks:
            if self in block._chain():
                for op in block.ops:
                    op.rename_input(name, new_name)
                    op.rename_output(name, new_name)
        if name in self.program.captured:
            self.program.captured[new_name] = self.program.captured.pop(name)
        self.program.touch()
        return variable

    _rename_var = rename_var

    def _remove_var(self, name: str) -> None:
        del self.vars[name]
        self.program.touch()

    def clone_variable(self, var: Variable, force_persistable: bool = True) -> Variable:
        """A variable of the same name, shape and dtype in this block (of another program)."""
        return self._add(_copied(var, self, var.persistable or force_persistable))

    _clone_variable = clone_variable

    def copy_param_info_from(self, other: Block) -> None:
        """Take over what only parameters have (rates, regularizers) from a block with the same parameters; `ValueError` when it has others.
        """
        if not isinstance(other, Block):
            raise VariableError(f"expected a Block but got {type(other).__name__}")
        for parameter in other.iter_parameters():
            known = self.vars.get(parameter.name)
            if known is None:
                raise VariableError(f"expected a block of the same topology but '{parameter.name}' is not in this one")
            self.vars[parameter.name] = _copied(parameter, self, True)
        self.program.touch()

    _copy_param_info_from = copy_param_info_from

    def iter_parameters(self) -> Iterator[Parameter]:
        return (v for v in self.vars.values() if isinstance(v, Parameter))

    def all_parameters(self) -> list[Parameter]:
        return list(self.iter_parameters())

    # --- operators


    def append_op(
        self, type: str | None = None, inputs: Any = None, outputs: Any = None, attrs: Any = None, stop_gradient: bool = False, **extra: Any
    ) -> Operator:
        """A new operator at the end, by Paddle's name of its type. Slots take variables, names, or lists of them."""
        return self._insert(len(self.ops), type, inputs, outputs, attrs)

    def prepend_op(self, type: str | None = None, inputs: Any = None, outputs: Any = None, attrs: Any = None, **extra: Any) -> Operator:
        """A new operator at the front."""
        return self._insert(0, type, inputs, outputs, attrs)

    _prepend_op = prepend_op


    def insert_op(
        self, index: int, type: str | None = None, inputs: Any = None, outputs: Any = None, attrs: Any = None, **extra: Any
    ) -> Operator:
        """A new operator in front of number `index`."""
        return self._insert(index, type, inputs, outputs, attrs)

    _insert_op = insert_op

    def _insert(self, index: int, type: str | None, inputs: Any, outputs: Any, attrs: Any) -> Operator:
        from polyreme.static.inference import appended

        if not isinstance(type, str):
            raise ValueError(f"`type` to initialized an Operator can not be {type!r}.")
        op = appended(self, type, inputs or {}, outputs or {}, attrs or {})
        self.place(op, index)
        return op

    def add_operator(
        self,
        type: str,
        kind: OperatorKind,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        attrs: Mapping[str, Any],
        data: Any = None,
        index: int | None = None,
    ) -> Operator:
        """A new operator whose variables are there already, marked with the program's current role."""
        op = Operator(self, type, kind, inputs, outputs, {**attrs, **self.program.role_attributes()}, data)
        self.place(op, len(self.ops) if index is None else index)
        return op

    def place(self, op: Operator, index: int) -> None:
        self.ops.insert(index, op)
        for name in op.written_names():
            variable = self._find_var_recursive(name)
            if variable is not None:
                variable.op = op
        self.program.touch()

    def remove_op(self, index: int, sync: bool = True) -> None:
        """Take an operator out."""
        del self.ops[index]
        self.program.touch()

    _remove_op = remove_op

    def slice_ops(self, start: int, end: int) -> list[Operator]:
        """The operators from `start` up to but without `end`."""
        return self.ops[start:end]

    _slice_ops = slice_ops

    @property
    def backward_block_idx(self) -> int:
        """The block that is backward of this one, -1 for none."""
        return next((block.idx for block in self.program.blocks if block.forward_block_idx == self.idx), -1)

    def set_forward_block_idx(self, idx: int) -> None:
        """Say whose backward block this is."""
        self.forward_block_idx = idx

    _set_forward_block_idx = set_forward_block_idx

    def sync_with_cpp(self) -> None:
        """Paddle keeps a second form of a block; here there is none to bring in line."""

    _sync_with_cpp = sync_with_cpp

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """The block's `BlockDesc` as protobuf's text, as `Program.to_string` has it; `ValueError` when `throw_on_error` and a variable has
        no shape.
        """
        check_flags(throw_on_error, with_details)
        if throw_on_error:
            for variable in self.vars.values():
                variable.check_shape()
        desc = self.program._printed_desc().blocks[self.idx]
        return text_of_block(desc, self.program._details if with_details else lambda block, name: [])

    def _shown(self) -> str:
        """All variables, then all operators."""
        lines = [*(f"    {v!r}" for v in self.vars.values()), "", *(f"    {op!r}" for op in self.ops)]
        places = f"parent_idx:{self.parent_idx}  forward_idx:{self.forward_block_idx}  backward_idx:{self.backward_block_idx}"
        return "\n".join([f"{{ // block_idx:{self.idx}  {places}", *lines, "}"])

    def __repr__(self) -> str:
        return self._shown()

    __str__ = __repr__


def _copied(variable: Variable, block: Block, persistable: bool) -> Any:
    """The same variable for another block."""
    made: Variable
    if isinstance(variable, Parameter):
        fields = {f: getattr(variable, f) for f in ("optimize_attr", "regularizer", "need_clip", "do_model_average", "is_distributed")}
        made = Parameter(block, variable.name, variable.shape, variable.dtype, variable.trainable, location=variable.location, **fields)
    else:
        flags = {f: getattr(variable, f) for f in ("stop_gradient", "is_data", "need_check_feed", "lod_level", "location")}
        made = Variable(block, variable.name, None, variable.dtype, persistable, **flags)
        for kept in ("_type", "kind", "desc_kept", "error_clip", "is_tensor_array", "level_kinds"):
            setattr(made, kept, getattr(variable, kept))
    return made


class Program:
    """Blocks of operators, of which block 0 is run. `random_seed` other than 0 seeds the random operators added after it is set."""

    def __init__(self) -> None:
        self.blocks = [Block(self, 0)]
        self.current_block_idx = 0
        self.captured: dict[str, Tensor] = {}  # eager tensors that operators use, by the name of their variable
        self.schedules: dict[str, Any] = {}  # functions that give the learning rate before each run, by the name of its variable
        self.plans: dict[Any, Any] = {}  # what an executor has made of the program as it stands
        self.known: dict[Any, Any] = {}  # what else it knows: errors of plans that cannot be made, what is looked up
        self.of_first_paddle = False  # whether its inputs are those of `fluid`: operators of Python then align operands as in Paddle 1
        self._seed = 0
        self._role = OpRole.Forward
        self._role_vars: list[str] = []

    def touch(self) -> None:
        """The program has changed: what was compiled of it no longer holds."""
        self.plans.clear()
        self.known.clear()

    # --- blocks

    def global_block(self) -> Block:
        return self.blocks[0]

    def block(self, index: int) -> Block:
        return self.blocks[index]

    def current_block(self) -> Block:
        """Where functions append operators."""
        return self.blocks[self.current_block_idx]

    def create_block(self, parent_idx: int | None = None) -> Block:
        """A new block under the current one (or under `parent_idx`), which becomes the current one."""
        self.blocks.append(Block(self, len(self.blocks), self.current_block_idx if parent_idx is None else parent_idx))
        self.current_block_idx = self.blocks[-1].idx
        return self.blocks[-1]

    _create_block = create_block

    def add_blocks(self, parents: Sequence[int]) -> None:
        """Make the program one of empty blocks with these parents."""
        self.blocks = [Block(self, idx, parent) for idx, parent in enumerate(parents)]
        self.current_block_idx = 0
        self.touch()

    def rollback(self) -> None:
        """Go back to the parent of the current block."""
        parent = self.current_block().parent_idx
        if parent < 0:
            raise ValueError("expected a block with a parent to roll back from but block 0 is the current one")
        self.current_block_idx = parent

    _rollback = rollback

    @property
    def num_blocks(self) -> int:
        return len(self.blocks)

    def list_vars(self) -> Iterator[Variable]:
        """Every variable of every block."""
        for block in self.blocks:
            yield from block.vars.values()

    def all_parameters(self) -> list[Parameter]:
        return [p for block in self.blocks for p in block.iter_parameters()]

    # --- randomness and roles

    @property
    def random_seed(self) -> int:
        return self._seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise ValueError(f"Program.random_seed's input seed must be an integer, but received {type(seed).__name__}.")
        self._seed = seed

    @property
    def op_role(self) -> int:
        """The role that appended operators get, one of `OpRole`."""
        return self._role

    @op_role.setter
    def op_role(self, role: int) -> None:
        self._role = role

    def set_op_role(self, role: int) -> None:
        self._role = role

    @property
    def op_role_var(self) -> list[str]:
        """The parameter and its gradient that appended operators are about."""
        return self._role_vars

    @op_role_var.setter
    def op_role_var(self, names: Iterable[str]) -> None:
        self._role_vars = [names] if isinstance(names, str) else list(names)

    def set_op_role_var(self, names: Iterable[str]) -> None:
        self.op_role_var = names

    def role_attributes(self) -> dict[str, Any]:
        return {"op_role": self._role, "op_role_var": list(self._role_vars), **LABELS}

    @contextmanager
    def role(self, role: int, variables: Sequence[Any] = ()) -> Iterator[None]:
        """Operators appended inside have this role."""
        saved = self._role, self._role_vars
        self._role, self._role_vars = role, [v if isinstance(v, str) else v.name for v in variables]
        try:
            yield
        finally:
            self._role, self._role_vars = saved

    def optimized_guard(self, var: Any) -> Any:
        """Operators appended inside belong to the optimizer and are about `var`, one variable or a list."""
        return self.role(OpRole.Optimize, list(var) if isinstance(var, (list, tuple)) else [var])

    _optimized_guard = optimized_guard

    def _lr_schedule_guard(self, is_with_opt: bool = False) -> Any:
        return self.role(OpRole.LRSched | (OpRole.Optimize if is_with_opt else 0))

    # --- copies

    def clone(self, for_test: bool = False) -> Program:
        """A copy. For tests, operators that behave otherwise in training (dropout) get `is_test`, and those of backward and optimizer are
        left out.
        """
        copy = Program()
        copy._seed, copy.current_block_idx, copy.of_first_paddle = self._seed, self.current_block_idx, self.of_first_paddle
        copy.captured, copy.schedules = dict(self.captured), dict(self.schedules)
        copy.blocks = [Block(copy, block.idx, block.parent_idx) for block in self.blocks]
        for old, new in zip(self.blocks, copy.blocks, strict=True):
            new.forward_block_idx = old.forward_block_idx
            for variable in old.vars.values():
                new.vars[variable.name] = _copied(variable, new, variable.persistable)
            for op in old.ops:
                new.place(op.copy_into(new), len(new.ops))
        if for_test:
            copy._set_test()
        return copy

    def _set_test(self) -> None:
        trained = OpRole.Backward | OpRole.Optimize
        for block in self.blocks:
            block.ops = [op for op in block.ops if not op.attrs.get("op_role", 0) & trained]
            draws: set[str] = set()
            for op in block.ops:
                if "is_test" in op.attrs:
                    op.attrs["is_test"] = True
                    draws.update(op.inputs.pop("Draws", ()))
            # What only dropout reads is not drawn.
            draws -= {name for op in block.ops for name in op.input_arg_names}
            block.ops = [op for op in block.ops if not op.output_arg_names or not draws.issuperset(op.output_arg_names)]
        self._drop_unused_variables()
        self.schedules = {name: schedule for name, schedule in self.schedules.items() if self.global_block().has_var(name)}
        self.touch()

    def _drop_unused_variables(self) -> None:
        used = {name for block in self.blocks for op in block.ops for name in (*op.read_names(), *op.written_names())}
        for block in self.blocks:
            block.vars = {name: v for name, v in block.vars.items() if name in used or v.is_data or isinstance(v, Parameter)}

    def inference_optimize(self, prune_read_op: bool = True) -> Program:
        """A copy with `is_test` set everywhere."""
        return self.clone(for_test=True)

    _inference_optimize = inference_optimize

    def prune(self, targets: Any) -> Program:
        """A new program with only what the targets, variables or operators, need."""
        return self._prune_with_input([], targets)

    _prune = prune

    def _prune_with_input(self, feeded_var_names: Sequence[str], targets: Any) -> Program:
        """As `prune`, but what computes the variables that are fed is left out."""
        wanted: set[str] = set()
        kept_uids: set[int] = set()
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if isinstance(target, Operator):
                kept_uids.add(target.uid)
            elif isinstance(target, str) or named_variable(target) is not None:
                wanted.add(target if isinstance(target, str) else target.name)
            else:
                raise ValueError(f"expected variables or operators to prune for but got {type(target).__name__}")
        copy = self.clone()
        block = copy.global_block()
        unknown = sorted(name for name in wanted if name not in block.vars)
        if unknown:
            raise VariableError(f"expected variables of the program to prune for but it has no '{unknown[0]}'", caller_location())
        kept: list[Operator] = []
        origins, sizes = _origins_of_sizes(block), set[str]()
        for op in reversed(block.ops):
            writes = [name for name in op.written_names() if name in wanted and name not in feeded_var_names]
            if not writes and op.uid not in kept_uids:
                continue
            kept.append(op)
            # Written over: only an operator that also reads it needs what it was before.
            wanted.difference_update(writes)
            wanted.update(op.read_names())
            forward = gradient_of(op)
            if forward is not None:
                kept_uids.add(forward)
            # A size that its inputs do not tell comes from elsewhere.
            sizes |= _sizes_of(block, op.written_names()) - _sizes_of(block, op.read_names())
            kept_uids.update(origins[size].uid for size in sizes if size in origins)
        block.ops = kept[::-1]
        used = {name for op in kept for name in (*op.read_names(), *op.written_names())} | wanted
        for size in sorted(sizes - _sizes_of(block, used)):
            used.update([name for name, v in block.vars.items() if v.is_data and size in _sizes_of(block, [name])][:1])
        block.vars = {name: v for name, v in block.vars.items() if name in used}
        copy.schedules = {name: schedule for name, schedule in copy.schedules.items() if name in used}
        copy.touch()
        return copy

    # --- what Paddle keeps in a second form

    def copy_param_info_from(self, other: Program) -> None:
        """Take over what only parameters have from a program with the same parameters."""
        if not isinstance(other, Program):
            raise TypeError(f"expected a Program but got {type(other).__name__}")
        self.global_block().copy_param_info_from(other.global_block())

    _copy_param_info_from = copy_param_info_from

    def copy_data_info_from(self, other: Program) -> None:
        """Take over which variables are inputs."""
        for variable in other.list_vars():
            if variable.is_data and self.global_block().has_var(variable.name):
                mine = self.global_block().var(variable.name)
                mine.is_data, mine.stop_gradient = True, variable.stop_gradient

    _copy_data_info_from = copy_data_info_from

    def sync_with_cpp(self) -> None:
        """Paddle keeps a second form of a program; here there is none to bring in line."""

    _sync_with_cpp = sync_with_cpp

    # --- state

    def state_dict(self, mode: str = "all", scope: Any = None) -> dict[str, Any]:
        """Values of persistable variables in a scope by name: "param", "opt" (the others) or "all"."""
        from polyreme.static.scope import global_scope

        if mode not in ("all", "param", "opt"):
            raise ValueError(f"`mode` string should be 'param', 'opt' or 'all', but received {mode}.")
        found: dict[str, Any] = {}
        for variable in self.list_vars():
            if variable.persistable and (mode == "all" or isinstance(variable, Parameter) == (mode == "param")):
                stored = (scope or global_scope()).find_var(variable.name)
                if stored is not None and stored.array is not None:
                    found[variable.name] = Tensor._wrap(stored.array)
        return found

    def set_state_dict(self, state_dict: Mapping[str, Any], scope: Any = None) -> None:
        """Give persistable variables the values in `state_dict`; names that the program does not have are passed over with a warning."""
        import warnings

        known = {v.name: v for v in self.list_vars() if v.persistable}
        for name, value in state_dict.items():
            if name not in known:
                warnings.warn(f"Variable with name '{name}' is not in the program{did_you_mean(name, known)}", stacklevel=2)
            else:
                known[name].set_value(value, scope)

    def module(self, fetch_list: Sequence[Any] = (), feed: Sequence[str] | None = None) -> Any:
        """What an executor compiles for these fetches, as an `nn` module: `paddle.inspect(program.module([loss]))` shows all that becomes
        of it.

        `feed` are names, by default those of all inputs. Host operators are `host.call` ops in it. A program in which nothing is computed
        is a `RunError`.
        """
        from polyreme.static.plan import make_plan

        block = self.global_block()
        names = [v.name for v in block.vars.values() if v.is_data] if feed is None else list(feed)
        fetches = [item if isinstance(item, str) else item.name for item in fetch_list]
        plan = make_plan(self, {name: block.var(name).type for name in names}, fetches)
        if plan.module is None:
            raise RunError(
                "expected a program that computes something for these fetches but it only hands on what it is given", code="E0607"
            )
        return plan.module

    # --- bytes

    def serialize_to_string(self) -> bytes:
        """The program as Paddle's own bytes, a `ProgramDesc`: Paddle reads them, and so does `parse_from_string`.

        Operators that functions of the API recorded are written as Paddle's. One that it lacks, such as a call of a Python function, is an
        `OperatorError` (a `ValueError`) at its line. Values of variables are no part of a program.
        """
        from polyreme.static.desc.write import describe

        return write_program(describe(self))

    @property
    def desc(self) -> ProgramDesc:
        """The program as Paddle's `ProgramDesc` has it: blocks of variables and operators, as plain values."""
        return self.get_desc()

    def get_desc(self) -> ProgramDesc:
        """The same; changes to it leave the program as it is. What cannot be written is refused as by `serialize_to_string`."""
        from polyreme.static.desc.write import describe

        return describe(self)

    def _printed_desc(self) -> ProgramDesc:
        """The same, with what cannot be written as it stands."""
        from polyreme.static.desc.write import describe

        return describe(self, strict=False)

    def _printed_operators(self, op: Operator) -> list[OpDesc]:
        """The same of one operator."""
        from polyreme.static.desc.write import operators_of

        return operators_of(op)

    def _printed_variable(self, variable: Variable) -> VarDesc:
        """The same of a variable."""
        from polyreme.static.desc.write import variable_desc

        return variable_desc(variable)

    @staticmethod
    def parse_from_string(binary_str: bytes) -> Program:
        """The program in Paddle's bytes. Parameters are such where the bytes say so, as those of Paddle 2 do; else persistable variables.

        Damaged bytes are a `LoaderError` (a `ValueError`), which says where. Operators that are not supported stay in the program, and are
        refused when it runs.
        """
        from polyreme.static.desc.read import fill_program

        if not isinstance(binary_str, (bytes, bytearray, memoryview)):
            raise TypeError(f"expected the bytes of a program but got {type(binary_str).__name__}")
        program = Program()
        fill_program(program, bytes(binary_str))
        return program

    # --- text

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """The program's `ProgramDesc` as protobuf's text, as Paddle prints it; with details also what variables have besides.

        `ValueError` when `throw_on_error` and a variable has no shape. `str` of a program is shorter.
        """
        check_flags(throw_on_error, with_details)
        if throw_on_error:
            for variable in self.list_vars():
                variable.check_shape()
        return text_of_program(self._printed_desc(), self._details if with_details else lambda block, name: [])

    def _details(self, block: int, name: str) -> list[str]:
        """What only a Program knows of a variable, as lines."""
        # Bodies of branches and loops are blocks of the description only.
        variable = self.blocks[block].vars.get(name) if block < len(self.blocks) else None
        return [] if variable is None else variable.details()

    def _shown(self) -> str:
        return "".join(f"{block._shown()}\n" for block in self.blocks)

    def __repr__(self) -> str:
        return self._shown()

    __str__ = __repr__


# What a variable of numbers may be.
_HOLDING_NUMBERS = (LOD_TENSOR, SELECTED_ROWS, LOD_TENSOR_ARRAY)


def _number_of_type(type: Any) -> int | None:
    """What a variable is, by its number in program files; None where nobody says it. `type` may be another variable's `type`."""
    kind = getattr(type, "kind", LOD_TENSOR if isinstance(type, TensorType) else type)
    if kind is None or isinstance(kind, int):
        return kind
    raise TypeError(f"expected a member of VarDesc.VarType as the type of a variable but got {type!r}")


def _sizes_of(block: Block, names: Iterable[str]) -> set[str]:
    """The free sizes of variables."""
    variables = (block.vars[name] for name in names if name in block.vars)
    return {size for variable in variables if variable.has_shape for size in type_symbols(variable.type)}


def _origins_of_sizes(block: Block) -> dict[str, Operator]:
    """The operators whose runs tell free sizes that no input has."""
    known = _sizes_of(block, [name for name, variable in block.vars.items() if variable.is_data])
    found: dict[str, Operator] = {}
    for op in block.ops:
        for size in _sizes_of(block, op.written_names()) - known:
            found.setdefault(size, op)
    return found
