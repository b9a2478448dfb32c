"""Legacy programs: the `.pdmodel` that Paddle 2 writes (and Paddle 3 with `FLAGS_enable_pir_api=0`), beside its `.pdiparams`.

A protobuf `ProgramDesc`: blocks of variables and operators, which read and write variables by name. Writing a name again gives it a new
value, so the table from names to values turns the program into one where each value is made once. Older models are a folder with
`__model__` and the parameters in `__params__` or in a file each.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.control_flow import UNDEFINED
from polyreme.dialects import nn
from polyreme.dtypes import PROTOBUF_DTYPES
from polyreme.ir.diagnostics import did_you_mean
from polyreme.jit.traced import Traced
from polyreme.loaders.attribute_kinds import VAR, VARS
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.pdiparams import read_parameters, read_tensor
from polyreme.loaders.program import ProgramBuilder, check_type
from polyreme.loaders.program_desc import LOD_TENSOR_ARRAY, BlockDesc, OpDesc, ProgramDesc, read_program
from polyreme.loaders.reader import Cursor
from polyreme.loaders.unsupported import Faults, Use, refuse_unsupported
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.control.arrays import empty_arrays
from polyreme.operators.control.blocks import BRANCHES, WHILE, has_no_value, run_branch, run_while
from polyreme.operators.slicing import EARLIER_SLICE
from polyreme.operators.table import apply_legacy, fault_of_legacy, find_legacy
from polyreme.static import InputSpec
from polyreme.tensor import Tensor

__all__ = ["legacy_uses", "read_pdmodel"]

_CONTROL = {"recurrent", "run_program"}
MAX_NESTING = 32
MOST_TIMES = 30  # that an operator is applied, on the average


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
    refuse_unsupported(str(file), _uses(program))
    names = program.parameters()
    arrays: dict[str, Any] = {}
    if names and (parameters is not None or file is given):
        arrays = read_parameters(Path(parameters) if parameters is not None else file.with_suffix(".pdiparams"), names, mapped)
    elif names and (file.parent / "__params__").is_file():
        arrays = read_parameters(file.parent / "__params__", names, mapped)
    elif names:
        arrays = {name: read_parameter_in(file.parent, name) for name in names}
    with ProgramBuilder(str(file), given.stem) as builder:
        return _ProtoReader(builder, program, arrays, specs).run()


def legacy_uses(path: str | os.PathLike[str]) -> list[Use]:
    """The operators of a program, with what is wrong with each."""
    given = Path(path)
    file = given / "__model__" if given.is_dir() else given
    return list(_uses(read_program(file.read_bytes(), str(file))))


def _uses(program: ProgramDesc) -> Iterator[Use]:
    fault_of = Faults(fault_of_legacy)
    for number, block in enumerate(program.blocks):
        for i, op in enumerate(block.ops):
            if op.type in ("feed", "fetch"):
                continue
            if op.type in BRANCHES or op.type == WHILE:
                fault = ""
            elif op.type in _CONTROL or op.has_block:
                fault = f"control flow ('{op.type}') is not supported yet"
            else:
                fault = fault_of(op.type)
            where = f"at byte {op.at}, blocks[{number}].ops[{i}] ('{op.type}')"
            yield Use(op.type, where, str(op.attrs.get("op_namescope", "")).rstrip("/") or where, fault)


def read_parameter_in(folder: Path, name: str) -> np.ndarray[Any, Any]:
    """The values of one variable in a file of their own beside `__model__`."""
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
        self.block = program.blocks[0]
        self.values: dict[str, Tensor] = {}
        for name, array in arrays.items():
            variable = self.block.variables[name]
            tensor = builder.parameter(name, array, variable.is_parameter and not variable.stop_gradient)
            refuse = lambda text, name=name: builder.fail(f"the parameter '{name}'", text)
            check_type(tensor.type, variable.type, refuse)
            self.values[name] = tensor
        self.uncomputed: dict[str, str] = {}  # results that nobody computes here, with the operator that should
        # Variables of which the program declares another type than operators are found to make, and what is made of these.
        self.misdeclared: set[str] = set()
        self.variables = dict(self.block.variables)
        # Of variables that a loop writes anew, the sizes of the last write are declared: `ids`, to which each round adds a column.
        written = Counter(n for block in program.blocks for op in block.ops if not op.has_block for ns in op.outputs.values() for n in ns)
        self.rewritten = {name for name, count in written.items() if count > 1}
        self.nesting = 0
        # Loops are looked at more than once, and blocks may be run by several operators; each by two, 30 blocks would be run 2**30 times.
        self.left = 1000 + MOST_TIMES * sum(len(block.ops) for block in program.blocks)

    def run(self) -> Traced:
        feeds = sorted((op for op in self.block.ops if op.type == "feed"), key=lambda op: self._column(op))
        names = [self._single(op, op.outputs, "Out") for op in feeds]
        stand_ins = self.builder.add_inputs([self._input(name) for name in names], self.specs)
        self.values |= zip(names, stand_ins, strict=True)
        fetched: dict[int, tuple[str, Tensor]] = {}
        for i, op in enumerate(self.block.ops):
            where = f"at byte {op.at}, blocks[0].ops[{i}] ('{op.type}')"
            if op.type == "feed":
                continue
            if op.type == "fetch":
                name = self._single(op, op.inputs, "X")
                column = self._column(op)
                if column in fetched:
                    raise self.builder.fail(where, f"expected the fetch of one variable into a column of its own but got {column} twice")
                fetched[column] = (name, self._value(name, where))
            else:
                self._operator(op, where)
        return self.builder.finish([fetched[column] for column in sorted(fetched)])

    def _operator(self, op: OpDesc, where: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise self.builder.fail(where, "expected blocks that run a few times each but got ones that run each other without end")
        if op.type in BRANCHES:
            self._branch(op, where)
        elif op.type == WHILE:
            self._loop(op, where)
        elif op.type in _CONTROL or op.has_block:
            raise self.builder.fail(where, f"control flow ('{op.type}') is not supported yet")
        else:
            self._apply(op, where)

    # --- branches and loops

    def _sub_block(self, op: OpDesc, where: str) -> tuple[int, BlockDesc]:
        number = op.attrs.get("sub_block")
        if not isinstance(number, int) or not 1 <= number < len(self.program.blocks):
            raise self.builder.fail(
                where, f"expected the number of a block as 'sub_block', below {len(self.program.blocks)}, but got {number!r}"
            )
        return number, self.program.blocks[number]

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

        def run(wanted: Sequence[str], known: Mapping[str, Any]) -> list[Any]:
            return self._run_block(number, block, wanted, known)

        arrays = [name for name in names if name not in self.values and self._is_array(name)]
        with self.builder.operator(where, op.type):
            made = run_while(condition, names, {**self.values, **empty_arrays(arrays, self.values, run)}, run)
        self._write(names, made)

    def _write(self, names: Sequence[str], values: Sequence[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            if isinstance(value, Tensor):
                self.values[name] = self.builder.named(value, name)

    def _apply(self, op: OpDesc, where: str) -> None:
        attrs = dict(op.attrs)
        for name, kind in op.kinds.items():
            if kind in (VAR, VARS):
                given = op.attrs[name]
                attrs[name] = [self._value(str(v), where) for v in (given if isinstance(given, (list, tuple)) else [given])]
        inputs = {slot: [self._value(name, where) for name in names] for slot, names in op.inputs.items()}
        if op.type == "write_to_array":
            # It writes in place, and names what it writes to as its result alone.
            inputs["Array"] = [self.values[name] for name in op.outputs.get("Out", ()) if name in self.values]
        with self.builder.operator(where, op.type, str(op.attrs.get("op_namescope", ""))):
            made = apply_legacy(self._meant(op), inputs, attrs)
            operator, spelling = find_legacy(op.type)
            read = (name for names in op.inputs.values() for name in names)
            misdeclared = operator.misdeclared or not self.misdeclared.isdisjoint(read)
            for slot, names in op.outputs.items():
                results = made.get(slot)
                if results is None:
                    self.uncomputed |= dict.fromkeys(names, op.type)
                    continue
                if len(results) != len(names):
                    raise UnsupportedError(f"expected {len(names)} results in '{slot}' but got {len(results)}")
                # What training alone needs is declared in other shapes by different versions.
                checked = slot == spelling.outputs[0] and not misdeclared
                for name, result in zip(names, results, strict=True):
                    self.values[name] = self.builder.named(self._agreeing(result, name, where, checked), name)
                    if misdeclared or not checked and self._is_misdeclared(result, name):
                        self.misdeclared.add(name)

    def _meant(self, op: OpDesc) -> str:
        """The operator's name, which means something else in programs of earlier versions."""
        return EARLIER_SLICE if op.type == "strided_slice" and self.program.version < 3_000_000 else op.type

    def _is_misdeclared(self, result: Tensor, name: str) -> bool:
        """Whether the program declares another element type, as those of 1.8 do for the places that operators find."""
        variable = self.variables.get(name)
        declared = variable.type if variable is not None and not self._is_array(name) and isinstance(result, Tensor) else None
        return declared is not None and not has_no_value(result) and declared.dtype != result.type.dtype

    def _agreeing(self, result: Tensor, name: str, where: str, first: bool) -> Tensor:
        """The result as the program declares it: programs older than 0-D tensors have one element where there is now none of the axes."""
        variable = self.variables.get(name)
        declared = variable.type if variable is not None and first and not self._is_array(name) else None
        if declared is not None and declared.rank == 1 and declared.shape in ((1,), (-1,)) and result.ndim == 0:
            result = dispatch.call(nn.Reshape, result, shape=(1,))
        if declared is not None and name in self.rewritten:
            declared = declared.with_shape((-1,) * declared.rank)
        if not has_no_value(result):
            check_type(result.type, declared, lambda text: self.builder.fail(where, f"the variable '{name}': {text}"))
        return result

    def _is_array(self, name: str) -> bool:
        variable = self.variables.get(name)
        return variable is not None and variable.kind == LOD_TENSOR_ARRAY

    def _value(self, name: str, where: str) -> Tensor:
        if name in self.values:
            return self.values[name]
        if name in self.uncomputed:
            raise self.builder.fail(where, f"the variable '{name}' is a result of '{self.uncomputed[name]}' that is not computed here")
        raise self.builder.fail(
            where, f"expected a variable that is written before it is read but got '{name}'{did_you_mean(name, self.values)}"
        )

    def _input(self, name: str) -> tuple[str, str, list[int]]:
        variable = self.block.variables.get(name)
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
