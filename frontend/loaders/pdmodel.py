"""Legacy programs: the `.pdmodel` that Paddle 2 writes (and Paddle 3 with `FLAGS_enable_pir_api=0`), beside its `.pdiparams`.

A protobuf `ProgramDesc`: blocks of variables and operators, which read and write variables by name. Writing a name again gives it a new
value, so the table from names to values turns the program into one where each value is made once. Older models are a folder with
`__model__` and the parameters in `__params__` or in a file each.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.control_flow import UNDEFINED, branch
from polyreme.dialects import nn
from polyreme.dtypes import DTYPES, PROTOBUF_DTYPES
from polyreme.ir.diagnostics import did_you_mean
from polyreme.ir.types import TensorType
from polyreme.jit.traced import Traced
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.pdiparams import read_parameters, read_tensor
from polyreme.loaders.program import MAX_OPERATORS, MAX_RANK, ProgramBuilder, check_type
from polyreme.loaders.reader import Cursor, fields, floats, message, number, numbers
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.blocks import BRANCHES, WHILE, run_branch, run_while
from polyreme.operators.table import apply_legacy, find_legacy
from polyreme.static import InputSpec
from polyreme.tensor import Tensor

__all__ = ["OpDesc", "ProgramDesc", "VarDesc", "read_pdmodel", "read_program"]

LOD_TENSOR, FEED_MINIBATCH, FETCH_LIST, RAW = 7, 9, 10, 17
_CONTROL = {"select_output", "recurrent", "run_program"}
MAX_NESTING = 32
MAX_NAME = 4096


@dataclass
class VarDesc:
    """A variable: its kind by Paddle's number, and for dense tensors its dtype and sizes (-1 where free)."""

    name: str = ""
    kind: int = -1
    dtype: int = -1
    dims: list[int] = field(default_factory=list)
    persistable: bool = False
    is_parameter: bool = False
    stop_gradient: bool = False

    @property
    def type(self) -> TensorType | None:
        """The type of a dense tensor."""
        if self.kind != LOD_TENSOR or self.dtype not in PROTOBUF_DTYPES:
            return None
        return TensorType(tuple(self.dims), DTYPES[PROTOBUF_DTYPES[self.dtype]].scalar)


@dataclass
class OpDesc:
    """An operator: variables by slot, attributes as plain values; `at` is its offset in the file."""

    type: str = ""
    inputs: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    has_block: bool = False
    at: int = 0


@dataclass
class BlockDesc:
    """A block's variables and operators."""

    variables: dict[str, VarDesc] = field(default_factory=dict)
    ops: list[OpDesc] = field(default_factory=list)


@dataclass
class ProgramDesc(BlockDesc):
    """Block 0, which is what runs, and the others, `inner`, which operators of it run: number 1 is the first of them."""

    version: int = 0
    blocks: int = 0
    inner: list[BlockDesc] = field(default_factory=list)

    def parameters(self) -> list[str]:
        """Names of the variables that are in the file of parameters."""
        return [v.name for v in self.variables.values() if v.persistable and v.kind not in (FEED_MINIBATCH, FETCH_LIST, RAW)]


# --- the protobuf messages


def read_program(data: bytes | memoryview, file: str = "the program") -> ProgramDesc:
    """The program in the bytes of a `.pdmodel`; a `LoaderError` names the offset and the field."""
    cursor = Cursor(memoryview(data), file, what="ProgramDesc")
    program = ProgramDesc()
    for number_, value, _ in fields(cursor, {1: "blocks", 4: "version"}):
        part = message(value, cursor, "a part of the program")
        if number_ == 4:
            for _, version, _ in fields(part, {1: "version"}):
                program.version = number(version, part, "the version")
        else:
            program.blocks += 1
            if program.blocks > 1:
                program.inner.append(BlockDesc())
            _read_block(part, program.inner[-1] if program.inner else program)
    if not program.blocks:
        cursor.fail("expected a program with a block")
    return program


def _read_block(block: Cursor, program: BlockDesc) -> None:
    for number_, value, at in fields(block, {3: "vars", 4: "ops"}):
        part = message(value, block, "a variable or an operator")
        if number_ == 3:
            variable = _read_variable(part)
            if variable.name in program.variables:
                block.fail(f"the variable '{variable.name}' is declared twice", at)
            program.variables[variable.name] = variable
        else:
            program.ops.append(_read_op(part))
        if len(program.ops) + len(program.variables) > MAX_OPERATORS:
            block.fail(f"expected at most {MAX_OPERATORS} operators and variables")


def _text(value: int | Cursor, owner: Cursor, what: str) -> str:
    part = message(value, owner, what)
    if part.left > MAX_NAME:
        part.fail(f"expected at most {MAX_NAME} bytes of text but got {part.left}")
    return part.text()


def _read_variable(var: Cursor) -> VarDesc:
    made = VarDesc()
    for number_, value, _ in fields(var, {1: "name", 2: "type", 3: "persistable", 5: "is_parameter", 6: "stop_gradient"}):
        if number_ == 1:
            made.name = _text(value, var, "the name")
        elif number_ == 2:
            _read_type(message(value, var, "the type"), made)
        else:
            flag = bool(number(value, var, "a flag"))
            setattr(made, {3: "persistable", 5: "is_parameter", 6: "stop_gradient"}[number_], flag)
    return made


def _read_type(part: Cursor, made: VarDesc) -> None:
    for number_, value, _ in fields(part, {1: "type", 3: "lod_tensor"}):
        if number_ == 1:
            made.kind = number(value, part, "the kind")
            continue
        holder = message(value, part, "a tensor")
        for _, tensor, _ in fields(holder, {1: "tensor"}):
            desc = message(tensor, holder, "a tensor's description")
            for key, item, _ in fields(desc, {1: "data_type", 2: "dims"}):
                if key == 1:
                    made.dtype = number(item, desc, "the data type")
                else:
                    made.dims += numbers(item, desc, "sizes")
                if len(made.dims) > MAX_RANK:
                    desc.fail(f"expected at most {MAX_RANK} sizes")
            # A product with a free size is negative too: the sizes [-1, 4] flattened are [-4].
            made.dims = [max(d, -1) for d in made.dims]


def _read_op(op: Cursor) -> OpDesc:
    made = OpDesc(at=op.at)
    for number_, value, _ in fields(op, {1: "inputs", 2: "outputs", 3: "type", 4: "attrs"}):
        if number_ == 3:
            made.type = _text(value, op, "the type")
        elif number_ == 4:
            _read_attribute(message(value, op, "an attribute"), made)
        else:
            part = message(value, op, "a slot")
            slot, names = "", []
            for key, item, _ in fields(part, {1: "parameter", 2: "arguments"}):
                text = _text(item, part, "a name")
                if key == 1:
                    slot = text
                else:
                    names.append(text)
            (made.inputs if number_ == 1 else made.outputs)[slot] = names
    return made


_ATTRIBUTES = {
    1: "name", 2: "type", 3: "i", 4: "f", 5: "s", 6: "ints", 7: "floats", 8: "strings", 10: "b", 11: "bools", 12: "block_idx", 13: "l",
    14: "blocks_idx",
    15: "longs", 16: "float64s", 17: "var_name", 18: "vars_name", 19: "float64", 20: "scalar", 21: "scalars",
}  # fmt: skip
_LISTS = {3: "ints", 4: "floats", 5: "strings", 7: "bools", 11: "longs", 12: "float64s", 14: "vars", 17: "scalars"}
_BLOCK_KINDS = (8, 10)
_VAR_KINDS = (13, 14)


def _read_attribute(part: Cursor, op: OpDesc) -> None:
    name, kind = "", -1
    single: Any = None
    found: list[Any] = []
    for number_, value, _ in fields(part, _ATTRIBUTES):
        key = _ATTRIBUTES[number_]
        if key == "name":
            name = _text(value, part, "the name")
        elif key == "type":
            kind = number(value, part, "the kind")
        elif key in ("i", "l", "block_idx"):
            single = number(value, part, key)
        elif key == "b":
            single = bool(number(value, part, key))
        elif key in ("f", "float64"):
            single = _one(floats(value, part, key, 4 if key == "f" else 8), part)
        elif key in ("s", "var_name"):
            single = _text(value, part, key)
        elif key in ("ints", "longs", "blocks_idx"):
            found += numbers(value, part, key)
        elif key == "bools":
            found += [bool(v) for v in numbers(value, part, key)]
        elif key in ("scalar", "scalars"):
            found.append(_scalar(message(value, part, key)))
            single = found[0]
        elif key in ("floats", "float64s"):
            found += floats(value, part, key, 4 if key == "floats" else 8)
        else:
            found.append(_text(value, part, key))
    op.has_block |= kind in _BLOCK_KINDS
    if kind in _VAR_KINDS:
        raise LoaderError(f"{part.file}: at byte {part.at}: the attribute '{name}' of '{op.type}' is a variable, which is not supported")
    op.attrs[name] = found if kind in _LISTS else single


def _scalar(part: Cursor) -> Any:
    """A number that says which of its fields holds it: a bool, a whole number or a double."""
    kind, held = 0, {1: 0, 2: 0, 3: 0.0}
    for number_, value, _ in fields(part, {1: "type", 2: "b", 3: "i", 4: "r"}):
        if number_ == 1:
            kind = number(value, part, "the kind")
        elif number_ == 4:
            held[3] = _one(floats(value, part, "r", 8), part)
        else:
            held[number_ - 1] = number(value, part, "a number")
    if kind not in held:
        part.fail(f"expected a real number but got one of kind {kind}")
    return bool(held[kind]) if kind == 1 else held[kind]


def _one(values: list[float], part: Cursor) -> float:
    if len(values) != 1:
        part.fail(f"expected one number but got {len(values)}")
    return values[0]


# --- from the program to ours


def read_pdmodel(
    path: str | os.PathLike[str], parameters: str | os.PathLike[str] | None = None, specs: Sequence[InputSpec] = (), mapped: bool = False
) -> Traced:
    """The program in a `.pdmodel`, its parameters from the `.pdiparams` beside it or at `parameters`; or that in a folder with `__model__`.

    `specs` may name or fix sizes that the file leaves open; `mapped` is that of `read_parameters`. A missing file is a `FileNotFoundError`,
    anything else wrong a `LoaderError`.
    """
    given = Path(path)
    file = given / "__model__" if given.is_dir() else given
    if not file.is_file():
        raise FileNotFoundError(f"there is no file '{file}'")
    program = read_program(file.read_bytes(), str(file))
    names = program.parameters()
    arrays: dict[str, Any] = {}
    if names and (parameters is not None or file is given):
        arrays = read_parameters(Path(parameters) if parameters is not None else file.with_suffix(".pdiparams"), names, mapped)
    elif names and (file.parent / "__params__").is_file():
        arrays = read_parameters(file.parent / "__params__", names, mapped)
    elif names:
        arrays = {name: _read_one(file.parent, name) for name in names}
    return _ProtoReader(ProgramBuilder(str(file), given.stem), program, arrays, specs).run()


def _read_one(folder: Path, name: str) -> np.ndarray[Any, Any]:
    # A name from the file must not lead out of the model's folder.
    if name != os.path.basename(name) or name in ("", ".", ".."):
        raise LoaderError(f"{folder / '__model__'}: expected a parameter whose name is that of a file but got {name!r}")
    if not (folder / name).is_file():
        raise FileNotFoundError(f"expected the parameter '{name}' but there is no file {folder / name}")
    cursor = Cursor(memoryview((folder / name).read_bytes()), str(folder / name), what=f"the parameter '{name}'")
    array = read_tensor(cursor).copy()
    if cursor.left:
        cursor.fail(f"expected the end of the file but {cursor.left} bytes are left")
    return array


class _ProtoReader:
    """Applies the operators of block 0 in order; `values` says what each variable holds by now."""

    def __init__(self, builder: ProgramBuilder, program: ProgramDesc, arrays: dict[str, Any], specs: Sequence[InputSpec]):
        self.builder, self.program, self.specs = builder, program, specs
        self.values: dict[str, Tensor] = {}
        for name, array in arrays.items():
            variable = program.variables[name]
            tensor = builder.parameter(name, array, variable.is_parameter and not variable.stop_gradient)
            refuse = lambda text, name=name: builder.fail(f"the parameter '{name}'", text)
            check_type(tensor.type, variable.type, refuse)
            self.values[name] = tensor
        self.uncomputed: dict[str, str] = {}  # results that nobody computes here, with the operator that should
        self.variables = dict(program.variables)
        self.nesting = 0

    def run(self) -> Traced:
        feeds = sorted((op for op in self.program.ops if op.type == "feed"), key=lambda op: self._column(op))
        names = [self._single(op, op.outputs, "Out") for op in feeds]
        stand_ins = self.builder.add_inputs([self._input(name) for name in names], self.specs)
        self.values |= zip(names, stand_ins, strict=True)
        fetched: dict[int, tuple[str, Tensor]] = {}
        for i, op in enumerate(self.program.ops):
            where = f"at byte {op.at}, blocks[0].ops[{i}] ('{op.type}')"
            if op.type == "feed":
                continue
            if op.type == "fetch":
                name = self._single(op, op.inputs, "X")
                fetched[self._column(op)] = (name, self._value(name, where))
            else:
                self._operator(op, where)
        return self.builder.finish([fetched[column] for column in sorted(fetched)])

    def _operator(self, op: OpDesc, where: str) -> None:
        if op.type in BRANCHES:
            self._branch(op, where)
        elif op.type == WHILE:
            self._loop(op, where)
        elif op.type == "select_input":
            self._choice(op, where)
        elif op.type in _CONTROL or op.has_block:
            raise self.builder.fail(where, f"control flow ('{op.type}') is not supported yet")
        else:
            self._apply(op, where)

    # --- branches and loops

    def _sub_block(self, op: OpDesc, where: str) -> tuple[int, BlockDesc]:
        number = op.attrs.get("sub_block")
        if not isinstance(number, int) or not 1 <= number <= len(self.program.inner):
            raise self.builder.fail(
                where, f"expected the number of a block as 'sub_block', below {1 + len(self.program.inner)}, but got {number!r}"
            )
        return number, self.program.inner[number - 1]

    def _run_block(self, number: int, block: BlockDesc, names: Sequence[str], given: Mapping[str, Any]) -> list[Any]:
        """What variables hold after the operators of a block, which start with what they hold outside, but for those `given`; `UNDEFINED`
        for one that is never written.
        """
        outside = self.values, self.uncomputed, self.variables
        self.values, self.uncomputed, self.variables = (
            {**self.values, **given},
            dict(self.uncomputed),
            {**self.variables, **block.variables},
        )
        self.nesting += 1
        try:
            if self.nesting > MAX_NESTING:
                raise self.builder.fail(f"blocks[{number}]", f"expected blocks nested at most {MAX_NESTING} deep")
            for i, op in enumerate(block.ops):
                self._operator(op, f"at byte {op.at}, blocks[{number}].ops[{i}] ('{op.type}')")
            return [self.values.get(name, UNDEFINED) for name in names]
        finally:
            self.nesting -= 1
            self.values, self.uncomputed, self.variables = outside

    def _written(self, block: BlockDesc) -> dict[str, None]:
        """The variables that the operators of a block write to, also by blocks of theirs."""
        found: dict[str, None] = {}
        for op in block.ops:
            found |= dict.fromkeys(name for slot, names in op.outputs.items() if slot not in ("Scope", "StepScopes") for name in names)
        return found

    def _branch(self, op: OpDesc, where: str) -> None:
        """A block that runs if a condition holds: what it writes is what it was before if it does not, and zeros if it was nothing."""
        number, block = self._sub_block(op, where)
        condition = self._value(self._single(op, op.inputs, "Cond"), where)
        names = [n for n in self._written(block) if n in self.values or n in op.outputs.get("Out", ())]
        with self.builder.operator(where, op.type):
            made = run_branch(condition, names, self.values, lambda wanted, known: self._run_block(number, block, wanted, {}))
        self._write(names, made)

    def _loop(self, op: OpDesc, where: str) -> None:
        """A block that runs as long as a variable, which it writes to, holds: what it reads in the next round is carried."""
        number, block = self._sub_block(op, where)
        condition = self._single(op, op.inputs, "Condition")
        outside = [n for n in self._written(block) if n != condition and (n in self.values or n in op.outputs.get("Out", ()))]
        names = [condition, *outside]
        self._value(condition, where)
        with self.builder.operator(where, op.type):
            made = run_while(condition, names, self.values, lambda wanted, known: self._run_block(number, block, wanted, known))
        self._write(names, made)

    def _choice(self, op: OpDesc, where: str) -> None:
        """One of two variables, by the number that a third one holds."""
        names = op.inputs.get("X", [])
        if len(names) != 2:
            raise self.builder.fail(where, f"expected two variables to choose from but got {len(names)}")
        first, second = (self._value(n, where) for n in names)
        mask = self._value(self._single(op, op.inputs, "Mask"), where)
        with self.builder.operator(where, op.type):
            self._write([self._single(op, op.outputs, "Out")], [branch(mask, lambda: second, lambda: first)])

    def _write(self, names: Sequence[str], values: Sequence[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            if isinstance(value, Tensor):
                self.values[name] = self.builder.named(value, name)

    def _apply(self, op: OpDesc, where: str) -> None:
        inputs = {slot: [self._value(name, where) for name in names] for slot, names in op.inputs.items()}
        with self.builder.operator(where, op.type, str(op.attrs.get("op_namescope", ""))):
            made = apply_legacy(op.type, inputs, op.attrs)
            for slot, names in op.outputs.items():
                results = made.get(slot)
                if results is None:
                    self.uncomputed |= dict.fromkeys(names, op.type)
                    continue
                if len(results) != len(names):
                    raise UnsupportedError(f"expected {len(names)} results in '{slot}' but got {len(results)}")
                first = slot == find_legacy(op.type)[1].outputs[0]
                for name, result in zip(names, results, strict=True):
                    # What training alone needs is declared in other shapes by different versions.
                    self.values[name] = self.builder.named(self._agreeing(result, name, where, first), name)

    def _agreeing(self, result: Tensor, name: str, where: str, first: bool) -> Tensor:
        """The result as the program declares it: programs older than 0-D tensors have one element where there is now none of the axes."""
        variable = self.variables.get(name)
        declared = variable.type if variable is not None and first else None
        if declared is not None and declared.rank == 1 and declared.shape in ((1,), (-1,)) and result.ndim == 0:
            result = dispatch.call(nn.Reshape, result, shape=(1,))
        check_type(result.type, declared, lambda text: self.builder.fail(where, f"the variable '{name}': {text}"))
        return result

    def _value(self, name: str, where: str) -> Tensor:
        if name in self.values:
            return self.values[name]
        if name in self.uncomputed:
            raise self.builder.fail(where, f"the variable '{name}' is a result of '{self.uncomputed[name]}' that is not computed here")
        raise self.builder.fail(
            where, f"expected a variable that is written before it is read but got '{name}'{did_you_mean(name, self.values)}"
        )

    def _input(self, name: str) -> tuple[str, str, list[int]]:
        variable = self.program.variables.get(name)
        if variable is None or variable.type is None:
            raise self.builder.fail(f"the input '{name}'", "expected a variable that is a dense tensor")
        return name, PROTOBUF_DTYPES[variable.dtype], variable.dims

    def _column(self, op: OpDesc) -> int:
        column = op.attrs.get("col", 0)
        if not isinstance(column, int):
            raise self.builder.fail(f"at byte {op.at}, '{op.type}'", f"expected a whole number as 'col' but got {column!r}")
        return column

    def _single(self, op: OpDesc, slots: dict[str, list[str]], slot: str) -> str:
        names = slots.get(slot, [])
        if len(names) != 1:
            raise self.builder.fail(f"at byte {op.at}, '{op.type}'", f"expected one variable in '{slot}' but got {len(names)}")
        return names[0]
