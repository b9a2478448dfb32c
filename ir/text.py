"""The text format: every module prints as text that parses back to the same module.

The readable form:

    module {
      func @main(%x: tensor<Nx10xf32>, %w: tensor<10x3xf32>) -> tensor<Nx3xf32> attributes {arg_roles = ["input", "param"]} {
        %y = nn.matmul %x, %w : tensor<Nx3xf32>
        %z = nn.softmax %y {axis = 1} : tensor<Nx3xf32>
        return %z
      }
    }

- An op is `results = dialect.op operands {attributes} : result types regions`. Only attributes that differ from their defaults are printed.
  Result types are always printed; the parser infers them where they are left out.
- Operands are a flat list where it can be split one way only. Otherwise there is one entry per declared operand: a group `[%a, %b]` for a
  variadic one, `_` for an absent optional one. An op of which only the name is left is `dialect.op ()`, unless it ends its block.
- A region is `{ (%i: index, %acc: vector<16xf32>) ops }`, its block's arguments first.
- Attribute values: `true`, `3`, `0.5`, `inf`, `"text"`, `[1, 2]`, sizes `2*N+1`, types, `@function`, and constants `dense<[1.0, 2.0]> :
  tensor<2xf32>` (one number when all are equal). Where a constant has the sizes and elements of the op's first result, its type is left
  out. Those of many elements are `dense_resource<name>`, and stand in a section at the end of the text: see `resources.py`.
- Values carry the user's names, `%x_1` for the second `x` of a function; values without a name are numbered.
- A function's argument names are those of its values; `arg_names` is printed when it says otherwise.
- `loc("file":line:column)`, `loc("name"("file":line:column))` end an op when locations are asked for. `//` starts a comment.
- Text with functions but no `module` around them is a module.

The generic form is MLIR's own, for `mlir-opt --allow-unregistered-dialect`: `"polyreme.nn.softmax"(%0) {axis = 1 : i64} : (tensor<?x3xf32,
["N"]>) -> …`. Our ops get the prefix `polyreme.`, because MLIR has dialects of these names; a symbolic size is `?` with its expression in
the type's encoding; buffers are `!polyreme.buffer<…>`; sizes among attributes are `#polyreme.size<"2*N+1">`. The parser reads both forms.
`docs/text_format.md` is the page for users, with what each of our things is to MLIR and why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from polyreme.ir.attributes import Dense, attribute_key
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.diagnostics import InferError, Location
from polyreme.ir.syntax.literals import function_type_text, string_text, symbol_text, type_text, value_text
from polyreme.ir.syntax.resources import Resources
from polyreme.ir.types import BufferType, FunctionType, TensorType, Type

__all__ = ["identity_text", "parse_module", "print_module"]

WIDTH = 120

# The ops that are MLIR's own in the generic form. A call is ours, as it binds the sizes of its callee, where MLIR's wants equal types.
MLIR_OPS = frozenset({"builtin.module", "func.func", "func.return"})

_ODD = re.compile(r"[^A-Za-z0-9_$.]")


def print_module(op: Op, generic: bool = False, locations: bool = False, elide: int | None = None) -> str:
    """The text of a module (or of any op): the readable form, or with `generic` MLIR's; with `locations` each op's place.

    Constants of more than `elide` elements are left out (None: none are), but not those whose elements are all equal. Such text reads well
    on a terminal; the parser refuses it by saying how to print it in full.
    """
    printer = (_Generic if generic else _Readable)(locations, elide, True)
    printer.op(op, 0)
    return "\n".join(printer.lines + printer.resources.lines()) + "\n"


def identity_text(op: Op) -> str:
    """What a module (or any op) means, to tell it from others: modules that mean the same, and differ in what values are called, have the
    same text.

    Values are numbered, and long constants stand as their digests: a network's weights are looked at once, and not written out.
    """
    printer = _Readable(False, None, False)
    printer.op(op, 0)
    return "\n".join(printer.lines + printer.resources.digests()) + "\n"


def parse_module(text: str, filename: str = "<text>") -> Module:
    """As `parser.parse_module`, which is imported on first use: printing needs no parser."""
    from polyreme.ir.syntax.parser import parse_module

    return parse_module(text, filename)


class _Names:
    """What the values of a function are called: the user's names, told apart, and numbers."""

    def __init__(self, hints: bool = True) -> None:
        self.hints = hints
        self.of: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.copies: dict[str, int] = {}
        self.numbers = 0

    def __getitem__(self, value: Value) -> str:
        name = self.of.get(value)
        if name is None:
            name = self.of[value] = "%" + self.fresh(value.name if self.hints else "")
        return name

    def fresh(self, hint: str) -> str:
        base = _ODD.sub("_", hint)
        if not base:
            self.numbers += 1
            return str(self.numbers - 1)
        if base[0].isdigit():
            base = "_" + base
        name = base
        while name in self.taken:
            self.copies[base] = self.copies.get(base, 0) + 1
            name = f"{base}_{self.copies[base]}"
        self.taken.add(name)
        return name


class _Printer:
    """What both forms share: lines, indentation, names, locations."""

    generic = False

    def __init__(self, locations: bool, elide: int | None, hints: bool):
        self.locations = locations
        self.elide = elide
        self.hints = hints
        self.lines: list[str] = []
        self.names = _Names(hints)
        self.resources = Resources()

    def op(self, op: Op, indent: int) -> None:
        raise NotImplementedError

    def ops(self, block: Block, indent: int) -> None:
        for op in block:
            self.op(op, indent)

    def line(self, indent: int, text: str) -> None:
        self.lines.append("  " * indent + text)

    def values(self, values: Sequence[Value]) -> str:
        return ", ".join([self.names[v] for v in values])

    def results(self, op: Op) -> str:
        return f"{self.values(op.results)} = " if op.results else ""

    def differs(self, op: Op, name: str, value: Any) -> bool:
        """Whether an attribute has to be printed."""
        declared = op.definition.attributes.get(name)
        if declared is None:
            return value is not None
        return value is not None and value is not declared.default and attribute_key(value) != attribute_key(declared.default)

    def value(self, value: Any, op: Op) -> str:
        """The spelling of an attribute of `op`."""
        hint = op.results[0].name if op.results and self.hints else ""
        return value_text(value, self.generic, self.elide, lambda constant: self.resources.name_of(constant, hint))

    def place(self, op: Op) -> str:
        """The location as the end of a line."""
        return f" {location_text(op.location, self.generic)}" if self.locations else ""


def location_text(location: Location, generic: bool = False) -> str:
    """`loc(…)` as the parser reads it.

    Where a place ends is told by `to :9`, which not all of MLIR's tools read: in the generic form a place is fused of its two ends.
    """
    place = ""
    if location.file:
        # A place without numbers would read as a name.
        start = f"{string_text(location.file)}:{location.line}:{location.column}"
        place = start
        if location.line and location.end_column:
            end = f"{string_text(location.file)}:{location.line}:{location.end_column}"
            place = f"{start} to :{location.end_column}" if not generic else f"fused[{start}, {end}]"
    if location.name:
        place = f"{string_text(location.name)}({place})" if place else string_text(location.name)
    return f"loc({place or 'unknown'})"


class _Readable(_Printer):
    def op(self, op: Op, indent: int) -> None:
        if isinstance(op, Module):
            name = f" {symbol_text(op.sym_name)}" if op.attributes.get("sym_name") is not None else ""
            self.line(indent, f"module{name} {{")
            for region in op.regions:
                for block in region.blocks:
                    self.ops(block, indent + 1)
            self.line(indent, "}" + self.place(op))
        elif isinstance(op, Func) and len(op.regions) == 1 and len(op.regions[0].blocks) == 1:
            self.func(op, indent)
        elif isinstance(op, Return) and not op.results and not op.regions:
            self.line(indent, f"return {self.values(op.operands)}".rstrip() + self.place(op))
        else:
            self.plain(op, indent)

    def func(self, op: Func, indent: int) -> None:
        outer, self.names = self.names, _Names(self.hints)
        kind = op.attributes.get("function_type")
        args = [f"{self.names[a]}: {a.type}" for a in op.args]
        shown = {k: v for k, v in op.attributes.items() if self.differs(op, k, v) and k not in ("sym_name", "arg_names", "function_type")}
        names = tuple("" if self.names[a][1:].isdecimal() else self.names[a][1:] for a in op.args)
        if op.attributes.get("arg_names") != (names if any(names) else ()):
            shown = {"arg_names": op.attributes.get("arg_names"), **shown}
        results = ""
        if isinstance(kind, FunctionType):
            if kind.inputs != tuple(a.type for a in op.args):
                shown["function_type"] = kind
            if kind.results:
                results = " ->" + function_type_text(FunctionType((), kind.results), generic=False).removeprefix("() ->")
        attributes = f" attributes {self.attributes(shown, op)}" if shown else ""
        head, tail = f"func {symbol_text(str(op.attributes.get('sym_name')))}(", f"){results}{attributes} {{"
        if 2 * indent + len(head) + len(tail) + sum(len(a) + 2 for a in args) <= WIDTH or len(args) < 2:
            self.line(indent, head + ", ".join(args) + tail)
        else:
            self.line(indent, head)
            for i, arg in enumerate(args):
                self.line(indent + 2, arg + ("," if i + 1 < len(args) else ""))
            self.line(indent, tail)
        self.ops(op.block, indent + 1)
        self.line(indent, "}" + self.place(op))
        self.names = outer

    def plain(self, op: Op, indent: int) -> None:
        parts = [self.results(op) + op.name]
        if op._operands:
            parts.append(self.operands(op))
        shown = {k: v for k, v in op.attributes.items() if self.differs(op, k, v)}
        if shown:
            parts.append(self.attributes(shown, op))
        if op.results:
            parts.append(": " + ", ".join([str(r.type) for r in op.results]))
        if len(parts) == 1 and not op.regions and op.next is not None:
            parts.append("()")
        head = " ".join(parts)
        for region in op.regions:
            block = region.blocks[0] if region.blocks else Block()
            args = f" ({', '.join(f'{self.names[a]}: {a.type}' for a in block.args)})" if block.args else ""
            self.line(indent, f"{head} {{{args}")
            self.ops(block, indent + 1)
            head = "}"
        self.line(indent, head + self.place(op))

    def operands(self, op: Op) -> str:
        definition = op.definition
        try:
            flat = op.segments == definition.segments_of(len(op._operands))
        except InferError:
            flat = op.segments is None
        if flat or op.segments is None or len(op.segments) != len(definition.operands):
            return self.values(op._operands)
        entries = []
        for part, values in zip(definition.operands, definition.split(op._operands, op.segments), strict=True):
            if part.arity == "variadic":
                entries.append(f"[{self.values(values)}]")
            else:
                entries.append("_" if values is None else self.names[values])
        return ", ".join(entries)

    def attributes(self, shown: dict[str, Any], op: Op) -> str:
        parts = []
        for name, value in shown.items():
            text = self.value(value, op)
            if isinstance(value, Dense) and op.results and _same_elements(op.results[0].type, value.type):
                text = text.removesuffix(f" : {value.type}")
            parts.append(f"{name} = {text}")
        return "{" + ", ".join(parts) + "}"


def _same_elements(kind: Type, of: TensorType) -> bool:
    """Whether a tensor or buffer of type `kind` has the elements of a constant of type `of`."""
    return isinstance(kind, (TensorType, BufferType)) and (kind.shape, kind.dtype) == (of.shape, of.dtype)


class _Generic(_Printer):
    generic = True

    def op(self, op: Op, indent: int) -> None:
        outer = self.names
        if isinstance(op, Func):
            self.names = _Names(self.hints)
        prefix = "" if op.name in MLIR_OPS else "polyreme."
        text = f'{self.results(op)}"{prefix}{op.name}"({self.values(op.operands)})'
        opening = " ("
        for region in op.regions:
            self.line(indent, f"{text}{opening}{{")
            for number, block in enumerate(region.blocks):
                if block.args or number or block.first is None:
                    args = ", ".join([f"{self.names[a]}: {type_text(a.type, generic=True)}" for a in block.args])
                    self.line(indent, f"^bb{number}({args}):" if args else f"^bb{number}:")
                self.ops(block, indent + 1)
            text, opening = "}", ", "
        attributes = {k: v for k, v in op.attributes.items() if v is not None and (v != () or self.differs(op, k, v))}
        parts = [f"{k} = {self.value(v, op)}" for k, v in attributes.items()]
        if op.segments is not None and len(op.definition.operands) > 1:
            parts.append(f"operandSegmentSizes = array<i32: {', '.join(map(str, op.segments))}>")
        shown = f" {{{', '.join(parts)}}}" if parts else ""
        kind = FunctionType(tuple(v.type for v in op.operands), tuple(r.type for r in op.results))
        self.line(indent, f"{text}{')' if op.regions else ''}{shown} : {function_type_text(kind, generic=True)}{self.place(op)}")
        self.names = outer
