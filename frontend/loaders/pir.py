"""PIR programs: the `.json` that Paddle 3 writes by default, beside its `.pdiparams`.

    {"base_code": {"magic": "pir", "version": 4, …}, "program": {"regions": [{"blocks": [{"args": [], "ops": […]}]}]}}

An op is `{"#": "1.relu", "I": operands, "O": results, "A": attributes, "OA": result attributes}`; a parameter is written shorter, as `"p"`.
Value 0 is an absent operand. The file is data: it is parsed as JSON, every part is checked for its kind, and operators it does not know are
errors.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.control_flow import UNDEFINED, branch, loop
from polyreme.dtypes import DTYPES
from polyreme.ir.python.garbage import without_collections
from polyreme.ir.types import SCALARS, ScalarType, TensorType
from polyreme.jit.traced import Traced
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.pdiparams import read_parameters
from polyreme.loaders.program import ProgramBuilder, check_type
from polyreme.loaders.program_desc import MAX_OPERATORS, MAX_RANK
from polyreme.loaders.unsupported import Faults, Use, refuse_unsupported
from polyreme.operators.table import LONGEST_NAME, apply_pir, fault_of_pir, is_misdeclared
from polyreme.static import InputSpec
from polyreme.tensor import Tensor

__all__ = ["pir_uses", "read_pir"]

MAX_BYTES = 1 << 30
MAX_ATTRIBUTE_DEPTH = 8
_NOT_SAVED = "__non_persistable"  # ends the names of states that operators keep between runs, such as that of dropout
DIALECTS = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "dist"}

_ELEMENTS = {
    "0.t_f16": "f16", "0.t_bf16": "bf16", "0.t_f32": "f32", "0.t_f64": "f64", "0.t_i8": "i8", "0.t_i16": "i16", "0.t_i32": "i32",
    "0.t_i64": "i64",
    "0.t_ui8": "ui8", "0.t_bool": "i1", "0.t_c64": "complex<f32>", "0.t_c128": "complex<f64>",
}  # fmt: skip
_NOT_FINITE = {
    "INF": math.inf,
    "-INF": -math.inf,
    "NaN": math.nan,
    "NAN": math.nan,
    "-NaN": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "nan": math.nan,
}
_CONTROL = {"if", "while"}
MAX_NESTING = 32


class _Json:
    """A part of the file with its place, such as `ops[3].A[0]`; asking for a part of the wrong kind is a `LoaderError`."""

    __slots__ = ("file", "path", "value")

    def __init__(self, value: Any, file: str, path: str = ""):
        self.value, self.file, self.path = value, file, path

    def fail(self, message: str) -> LoaderError:
        return LoaderError(f"{self.file}: {self.path or 'the file'}: {message}")

    def has(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def get(self, key: str) -> _Json:
        if not isinstance(self.value, dict) or key not in self.value:
            raise self.fail(f"expected an object with '{key}' but got {_short(self.value)}")
        return _Json(self.value[key], self.file, f"{self.path}.{key}" if self.path else key)

    def items(self) -> list[_Json]:
        if not isinstance(self.value, list):
            raise self.fail(f"expected a list but got {_short(self.value)}")
        return [_Json(v, self.file, f"{self.path}[{i}]") for i, v in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.fail(f"expected text but got {_short(self.value)}")
        return self.value

    def whole(self) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or abs(self.value) >= 1 << 63:
            raise self.fail(f"expected a whole number but got {_short(self.value)}")
        return self.value


def _short(value: Any) -> str:
    text = reprlib.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def read_pir(
    path: str | os.PathLike[str], parameters: str | os.PathLike[str] | None = None, specs: Sequence[InputSpec] = (), mapped: bool = False
) -> Traced:
    """The program in a PIR `.json`, its parameters from the `.pdiparams` beside it or at `parameters`.

    `specs` may name or fix sizes that the file leaves open; `mapped` is that of `read_parameters`. A missing file is a `FileNotFoundError`,
    anything else wrong a `LoaderError`.
    """
    file = Path(path)
    root = _parse(file)
    ops = _operators(root)
    refuse_unsupported(str(file), _uses(ops))
    arrays = {}
    declared = {op.get("A").items()[3].text(): op for op in ops if op.get("#").value == "p" and len(op.get("A").items()) > 3}
    if declared:
        beside = Path(parameters) if parameters is not None else file.with_suffix(".pdiparams")
        arrays = _read_parameters(beside, list(declared), mapped)
    with ProgramBuilder(str(file), file.stem) as builder:
        return _PirReader(builder, ops, arrays, specs).run()


def _read_parameters(file: Path, names: list[str], mapped: bool) -> dict[str, Any]:
    """The arrays of a `.pdiparams`. States that operators keep between runs are in it when a static program was saved, and not when a Layer
    was.
    """
    saved = [name for name in names if not name.endswith(_NOT_SAVED)]
    if len(saved) < len(names):
        try:
            return read_parameters(file, names, mapped)
        except LoaderError:
            pass  # the number of tensors says which it is; what else is wrong with the file is told below
    return read_parameters(file, saved, mapped)


def _parse(file: Path) -> _Json:
    if not file.is_file():
        raise FileNotFoundError(f"there is no file '{file}'")
    name = str(file)
    data = file.read_bytes()
    if len(data) > MAX_BYTES:
        raise LoaderError(f"{name}: expected at most {MAX_BYTES} bytes but the file has {len(data)}")
    try:
        with without_collections():
            root = _Json(json.loads(data), name)
    except json.JSONDecodeError as error:
        raise LoaderError(f"{name}: at byte {error.pos}: expected JSON but {error.msg[:1].lower()}{error.msg[1:]}") from None
    except UnicodeDecodeError as error:
        raise LoaderError(f"{name}: at byte {error.start}: expected JSON in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise LoaderError(f"{name}: expected JSON but {error}") from None
    return root


def _operators(root: _Json) -> list[_Json]:
    header = root.get("base_code")
    if header.get("magic").value != "pir":
        raise header.fail(f"expected the magic 'pir' but got {_short(header.get('magic').value)}")
    if header.get("version").whole() < 0:
        raise header.fail("expected a version of 0 or more")
    regions = root.get("program").get("regions").items()
    blocks = regions[0].get("blocks").items() if len(regions) == 1 else []
    if len(blocks) != 1:
        raise root.get("program").fail("expected one region with one block")
    ops = blocks[0].get("ops").items()
    if len(ops) > MAX_OPERATORS:
        raise blocks[0].fail(f"expected at most {MAX_OPERATORS} operators but got {len(ops)}")
    return ops


def pir_uses(path: str | os.PathLike[str]) -> list[Use]:
    """The operators of a program, with what is wrong with each."""
    return list(_uses(_operators(_parse(Path(path)))))


def _uses(ops: Sequence[_Json], nesting: int = 0, fault_of: Callable[[str], str] | None = None) -> Iterator[Use]:
    """Those of inner blocks too. Parts of a wrong kind are passed over: whoever reads the operator tells them with their place."""
    fault_of = fault_of or Faults(fault_of_pir)
    for op in ops:
        code = op.value.get("#") if isinstance(op.value, dict) else None
        dialect, _, name = code.partition(".") if isinstance(code, str) else ("", "", "")
        if dialect not in DIALECTS or dialect in "02" or (dialect == "1" and name in ("data", "feed", "fetch")):
            continue
        full = f"{DIALECTS[dialect]}.{name[:LONGEST_NAME]}"
        has_regions = op.has("regions")
        if dialect != "1":
            fault = f"operators of the dialect '{DIALECTS[dialect]}' are not supported"
        elif has_regions and name not in _CONTROL:
            fault = f"the operator '{full}' is not supported: of operators with regions only 'pd_op.if' and 'pd_op.while' are"
        else:
            fault = "" if name in _CONTROL else fault_of(name)
        where = f"{op.path.rpartition('.')[2]} ('{full}')"
        yield Use(full, where, _layer_of(op) or where, fault)
        if has_regions and nesting < MAX_NESTING:
            for region in _list(op.value["regions"]):
                for block in _list(region.get("blocks") if isinstance(region, dict) else None):
                    inner = _list(block.get("ops") if isinstance(block, dict) else None)
                    yield from _uses([_Json(o, op.file, f"{op.path}.regions.ops[{i}]") for i, o in enumerate(inner)], nesting + 1, fault_of)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _layer_of(op: _Json) -> str:
    for entry in _list(op.value.get("A")):
        if isinstance(entry, dict) and entry.get("N") == "struct_name" and isinstance(entry.get("AT"), dict):
            name = entry["AT"].get("D")
            return name.rstrip("/") if isinstance(name, str) else ""
    return ""


def _column(op: _Json) -> int:
    column = _attributes(op).get("col") if op.get("#").value == "1.feed" else None
    return column if isinstance(column, int) else 0


class _PirReader:
    """Applies the operators in order. Values are tensors, lists of them, or None where a result is not computed."""

    def __init__(self, builder: ProgramBuilder, ops: Sequence[_Json], arrays: dict[str, Any], specs: Sequence[InputSpec]):
        self.builder, self.ops, self.arrays, self.specs = builder, ops, arrays, specs
        self.values: dict[int, Any] = {}
        self.misdeclared: set[int] = set()
        self.fetched: dict[int, tuple[str, Tensor]] = {}
        self.nesting = 0
        self.undefined: set[int] = set()

    def run(self) -> Traced:
        self._inputs()
        for op in self.ops:
            name = op.get("#").text()
            if name == "p":
                self._parameter(op)
            elif name not in ("1.data", "1.feed"):
                self._operator(op, name)
        return self.builder.finish([self.fetched[col] for col in sorted(self.fetched)])

    def _inputs(self) -> None:
        """Inputs come first among the program's arguments, wherever they stand in the file: `pd_op.data` in the file's order,
        `pd_op.feed`, of programs that were translated, by their columns.
        """
        feeds = sorted((op for op in self.ops if op.get("#").value in ("1.data", "1.feed")), key=_column)
        described = []
        for op in feeds:
            attributes = _attributes(op)
            results = op.get("O").items()
            if len(results) != 1 or not isinstance(attributes.get("name"), str):
                raise op.fail("expected an input with a name and one result")
            kind = _tensor_type(results[0].get("TT"))
            if kind is None:
                raise results[0].fail("expected an input that is a dense tensor")
            dtype = next(d.name for d in DTYPES.values() if d.scalar == kind.dtype)
            described.append((attributes["name"], dtype, [int(d) for d in kind.shape]))
        for op, tensor in zip(feeds, self.builder.add_inputs(described, self.specs), strict=True):
            self._define(op.get("O").items()[0], tensor)

    def _define(self, result: _Json, value: Any) -> None:
        number = result.get("%").whole()
        if number in self.values or number < 1:
            raise result.fail(f"expected the number of a new value but got {number}")
        self.values[number] = value

    def _parameter(self, op: _Json) -> None:
        facts, result = op.get("A").items(), op.get("O")
        if len(facts) < 4:
            raise op.get("A").fail("expected four facts about a parameter")
        name = facts[3].text()
        declared = _tensor_type(result.get("TT"))
        if name not in self.arrays:
            array = (
                np.zeros(tuple(map(int, declared.shape)), declared.dtype.np)
                if declared is not None and declared.is_static
                else np.zeros(())
            )
        else:
            array = self.arrays[name]
        flags = [v.value for v in op.get("OA").items()] if op.has("OA") else []
        tensor = self.builder.parameter(name, array, trainable=len(flags) < 3 or bool(flags[2]) and not flags[1])
        if declared is None or declared != tensor.type:
            raise op.fail(
                f"expected {declared or 'a dense tensor'} for the parameter '{name}', which the program declares, but its file has "
                f"{tensor.type}"
            )
        self._define(result, tensor)

    def _operand(self, operand: _Json) -> Any:
        number = operand.get("%").whole()
        if number == 0:
            return None
        if number not in self.values:
            raise operand.fail(f"expected a value that is defined before but got %{number}")
        value = self.values[number]
        if value is UNDEFINED:
            raise operand.fail(f"the value %{number} has none before the loop that it is carried through")
        if value is None:
            raise operand.fail(f"the value %{number} is a result that is not computed here, such as a mask of dropout")
        return value

    def _operator(self, op: _Json, code: str) -> None:
        if code == "p":
            raise op.fail("expected parameters in the outermost block only: those of inner blocks are not in the file of parameters")
        dialect, dot, name = code.partition(".")
        where = f"{op.path.rpartition('.')[2]} ('{DIALECTS.get(dialect, dialect)}.{name[:LONGEST_NAME]}')"
        if not dot or dialect not in DIALECTS:
            raise op.fail(f"expected an operator of a known dialect but got {_short(code)}")
        if op.has("regions") and (dialect != "1" or name not in _CONTROL):
            raise op.fail(
                f"the operator '{DIALECTS[dialect]}.{name}' is not supported: of operators with regions only 'pd_op.if' and 'pd_op.while' "
                f"are"
            )
        if name != "while" and any(v.get("%").whole() in self.undefined for v in op.get("I").items()):
            raise op.get("I").fail("expected values of the types that the file declares but got one that has none before a loop")
        operands = [self._operand(v) for v in op.get("I").items()]
        results = op.get("O").items()
        # What is made of something that is declared wrongly is declared wrongly, too.
        misdeclared = is_misdeclared(name) or any(v.get("%").value in self.misdeclared for v in op.get("I").items())
        if misdeclared:
            self.misdeclared.update(result.get("%").whole() for result in results)
        if dialect == "0":
            made = _builtin(name, operands, op)
        elif name == "fetch":
            self._fetch(op, operands)
            return
        elif dialect == "1":
            attributes = _attributes(op)
            path = attributes.pop("struct_name", "")
            with self.builder.operator(where, f"pd_op.{name}", path if isinstance(path, str) else ""):
                made = self._control(op, name, operands) if name in _CONTROL else apply_pir(name, operands, attributes)
        else:
            raise op.fail(f"operators of the dialect '{DIALECTS[dialect]}' are not supported")
        if (
            name == "full"
            and len(results) == 1
            and made[0].type.rank == 0
            and (kind := _tensor_type(results[0].get("TT"))) is not None
            and kind != made[0].type
        ):
            # What Paddle writes for a variable that has no value before a loop: a number, under the type that the loop gives it.
            self.undefined.add(results[0].get("%").whole())
            self._define(results[0], made[0])
            return
        for i, result in enumerate(results):
            value = made[i] if i < len(made) else None
            declared = _tensor_type(result.get("TT")) if isinstance(value, Tensor) and not misdeclared else None
            for tensor in value if isinstance(value, list) else [value]:
                if tensor is not None:
                    check_type(tensor.type, declared, lambda message: self.builder.fail(where, message))
            self._define(result, value)

    # --- branches and loops

    def _control(self, op: _Json, name: str, operands: list[Any]) -> tuple[Any, ...]:
        """What an `if` or a `while` gives. Their blocks read values from outside by their numbers, and yield what they give; a loop's block
        takes the carried values, and yields first whether there is another round.
        """
        blocks = []
        for region in op.get("regions").items():
            found = region.get("blocks").items()
            if len(found) != 1:
                raise region.fail(f"expected one block but got {len(found)}")
            blocks.append(found[0])
        if not operands or not all(isinstance(v, Tensor) for v in operands):
            raise op.get("I").fail("expected tensors, of which the first one is the condition")
        if name == "if":
            if len(operands) != 1 or len(blocks) != 2:
                raise op.fail(f"expected one operand and two regions of an 'if' but got {len(operands)} and {len(blocks)}")
            first, second = blocks
            return tuple(branch(operands[0], lambda: self._block(first, ()), lambda: self._block(second, ())))
        if len(blocks) != 1:
            raise op.fail(f"expected one region of a 'while' but got {len(blocks)}")
        given = [UNDEFINED if v.get("%").whole() in self.undefined else x for v, x in zip(op.get("I").items(), operands, strict=True)]
        return tuple(loop(lambda again, *_: again, lambda _, *carried: self._block(blocks[0], carried), given)[1:])

    def _block(self, block: _Json, given: Sequence[Any]) -> list[Any]:
        """What the block of a branch or loop yields when it is given these values. Values that it defines are seen in it only."""
        outside = dict(self.values)
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise block.fail(f"expected blocks nested at most {MAX_NESTING} deep")
        try:
            args = block.get("args").items()
            if len(args) != len(given):
                raise block.get("args").fail(f"expected {len(given)} arguments, one for each carried value, but got {len(args)}")
            for arg, value in zip(args, given, strict=True):
                self.values[arg.get("#").whole()] = value
            *ops, last = block.get("ops").items() or [block]
            for inner in ops:
                self._operator(inner, inner.get("#").text())
            if not last.has("#") or last.get("#").value != "2.yield":
                raise block.fail("expected a block of a branch or loop to end with 'cf.yield'")
            return [UNDEFINED if v.get("%").whole() in self.undefined else self._operand(v) for v in last.get("I").items()]
        finally:
            self.nesting -= 1
            self.values = outside

    def _fetch(self, op: _Json, operands: list[Any]) -> None:
        attributes = _attributes(op)
        column = attributes.get("col", len(self.fetched))
        if len(operands) != 1 or not isinstance(operands[0], Tensor) or not isinstance(column, int) or column in self.fetched:
            raise op.fail("expected the fetch of one tensor into a column of its own")
        name = str(attributes.get("name", f"fetch_name_{column}"))
        self.fetched[column] = (name, self.builder.named(operands[0], name))


def _builtin(name: str, operands: list[Any], op: _Json) -> tuple[Any, ...]:
    """Vectors of values are made and taken apart by operators of their own."""
    if name == "combine":
        if not all(isinstance(v, Tensor) for v in operands):
            raise op.fail("expected tensors to combine")
        return (operands,)
    if name in ("split", "slice") and len(operands) == 1 and isinstance(operands[0], list):
        if name == "split":
            return tuple(operands[0])
        index = _attributes(op).get("index")
        if not isinstance(index, int) or not 0 <= index < len(operands[0]):
            raise op.fail(f"expected an index below {len(operands[0])} but got {_short(index)}")
        return (operands[0][index],)
    raise op.fail(f"the operator 'builtin.{name}' is not supported")


# --- types and attributes


def _tensor_type(part: _Json) -> TensorType | None:
    """The type of a dense tensor, -1 for sizes that are free; None for any other type."""
    if part.get("#").value != "0.t_dtensor":
        return None
    facts = part.get("D").items()
    if len(facts) < 2:
        raise part.fail("expected an element type and sizes")
    element = _ELEMENTS.get(facts[0].get("#").text())
    if element is None:
        raise facts[0].fail(f"expected the code of an element type but got {_short(facts[0].value)}")
    # A product with a free size is negative too: the sizes [-1, 4] flattened are [-4].
    sizes = [max(d.whole(), -1) for d in facts[1].items()]
    if len(sizes) > MAX_RANK:
        raise facts[1].fail(f"expected at most {MAX_RANK} sizes but got {len(sizes)}")
    return TensorType(tuple(sizes), SCALARS[element])


def _attributes(op: _Json) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in op.get("A").items():
        found[entry.get("N").text()] = _attribute(entry.get("AT"), 0)
    return found


def _attribute(part: _Json, depth: int) -> Any:
    """An attribute as a plain value: number, text, list, ScalarType; None for what computes nothing (a place, a layout)."""
    if depth > MAX_ATTRIBUTE_DEPTH:
        raise part.fail(f"expected at most {MAX_ATTRIBUTE_DEPTH} levels of nesting")
    kind = part.get("#").text()
    if part.has("VD"):
        name = part.get("VD").text()
        if name not in _NOT_FINITE:
            raise part.fail(f"expected INF, -INF or NaN but got {_short(name)}")
        return _NOT_FINITE[name]
    if kind in ("1.a_place", "1.a_layout", "0.a_type", "0.a_symbol"):
        return None
    data = part.get("D")
    if kind == "0.a_bool":
        if data.value not in (True, False):
            raise data.fail(f"expected true or false but got {_short(data.value)}")
        return bool(data.value)
    if kind in ("0.a_i32", "0.a_i64", "0.a_index"):
        return data.whole()
    if kind in ("0.a_f32", "0.a_f64"):
        return _number(data)
    if kind == "0.a_str":
        return data.text()
    if kind == "0.a_array":
        return [_attribute(v, depth + 1) for v in data.items()]
    if kind == "1.a_intarray":
        return [v.whole() for v in data.items()]
    if kind == "1.a_dtype":
        return _dtype(data)
    if kind == "1.a_scalar":
        # [element type, value]
        parts = data.items()
        return _number(parts[-1]) if parts else None
    raise part.fail(f"expected an attribute of a known kind but got {_short(kind)}")


def _number(part: _Json) -> float | int:
    if isinstance(part.value, str) and part.value in _NOT_FINITE:
        return _NOT_FINITE[part.value]
    if not isinstance(part.value, (int, float)):
        raise part.fail(f"expected a number but got {_short(part.value)}")
    return float(part.value) if isinstance(part.value, float) else int(part.value)


def _dtype(part: _Json) -> ScalarType | None:
    name = part.text()
    if name.lower().startswith("undefined"):
        return None
    if name not in DTYPES:
        raise part.fail(f"expected the name of a dtype but got {_short(name)}")
    return DTYPES[name].scalar
