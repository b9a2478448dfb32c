"""Reading the text format: Lark takes the text apart by `grammar.lark`, and a reader makes ops of the pieces.

The pieces (`pieces.py`) are plain, so deep nesting costs no Python stack until the reader, which has a limit. What the grammar does not
allow ends the reading; of the other faults a `ParseError` has all, up to `MAX_FAULTS`, each at its place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn, get_args, get_origin

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from polyreme.ir.attributes import Dense, Number, SymbolRef, normalize
from polyreme.ir.builtin import Func, Module
from polyreme.ir.context import lookup_op
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.debug.notes import operand_notes
from polyreme.ir.define import IsolatedFromAbove
from polyreme.ir.diagnostics import Diagnostic, InferError, Location, ParseError, PolyremeError, did_you_mean
from polyreme.ir.dims import Dim
from polyreme.ir.syntax.literals import LiteralError, parse_bits, parse_dense, parse_size, parse_string, parse_symbol, parse_type
from polyreme.ir.syntax.pieces import OpText, Tagged, ValueText, grammar, terminal_text
from polyreme.ir.syntax.resources import split_resources
from polyreme.ir.types import BufferType, FunctionType, ScalarType, TensorType, Type
from polyreme.ir.verify import MAX_DEPTH

PREFIX = "polyreme."


def parse_module(text: str, filename: str = "<text>") -> Module:
    """The module that the text spells, in either form; functions without a `module` around them make one.

    Ops without a `loc(…)` are located in the text itself, as `filename`. `ParseError` for text that is no module.
    """
    return _Reader(text, filename).module()


# A text with more faults than this is rather another kind of text.
MAX_FAULTS = 20


class _GivenUp(Exception):
    """An op cannot be made of its piece; its faults are noted, and reading goes on behind it."""


class _FaultsAt:
    """See `_Reader.faults_at`; a class, because one is entered for every word of the text."""

    __slots__ = ("reader", "token")

    def __init__(self, reader: _Reader, token: Token | None):
        self.reader = reader
        self.token = token

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, LiteralError):
            self.reader.fail("E0102", str(error), self.token, error.offset)
        if isinstance(error, PolyremeError) and not isinstance(error, ParseError):
            first = error.diagnostics[0]
            self.reader.fail(first.code, first.message, self.token, notes=first.notes)


class _Reader:
    def __init__(self, text: str, filename: str):
        self.text = text
        self.filename = filename
        self.faults: list[Diagnostic] = []
        self.given_up = 0  # how many ops
        self.named: dict[Value, Token] = {}  # where values get their names
        self.scopes: list[dict[str, Value | None]] = []  # None: the op that defines it is faulty
        self.depth = 0
        self.at: Token | None = None  # the op that is being read
        self.result_type: Token | None = None  # of the op whose attributes are being read
        self.resources: dict[str, str] = {}
        self.aliases: dict[str, Any] = {}  # of places, as written, until they are asked for
        self.places: dict[str, Location] = {}

    # faults

    def place(self, token: Token | None, offset: int = 0) -> Location:
        """Where a token stands; for what has none, such as an empty list, where the op stands that it is part of."""
        token = token if token is not None else self.at
        if token is None or token.line is None:
            return Location(self.filename)
        column, end = token.column or 1, token.end_column or 0
        if token.end_line != token.line:
            end = column + 1
        return Location(self.filename, token.line, column + offset, max(end, column + offset + 1))

    def place_of(self, value: Value) -> Location:
        return self.place(self.named.get(value))

    def fail(self, code: str, message: str, at: Token | None, offset: int = 0, notes: Sequence[Diagnostic] = ()) -> NoReturn:
        """Give up the op that is being read."""
        self.note(code, message, at, offset, notes)
        raise _GivenUp

    def note(self, code: str, message: str, at: Token | None, offset: int = 0, notes: Sequence[Diagnostic] = ()) -> None:
        """Keep a fault; with `MAX_FAULTS` of them the text is not read on."""
        self.faults.append(Diagnostic(message, self.place(at, offset), tuple(notes), self.text, code))
        if len(self.faults) >= MAX_FAULTS:
            raise ParseError(self.faults)

    def faults_at(self, token: Token | None) -> _FaultsAt:
        """A context in which errors of literals, attributes and inference become faults at `token`."""
        return _FaultsAt(self, token)

    # entry

    def module(self) -> Module:
        try:
            return self.whole_module()
        except _GivenUp:
            raise ParseError(self.faults) from None

    def whole_module(self) -> Module:
        pieces = self.pieces()
        if len(pieces) == 1 and self.name_of(pieces[0]) == "builtin.module":
            module = self.op(pieces[0])
            assert isinstance(module, Module)
            return module
        module = Module.empty(loc=Location(self.filename))
        for piece in pieces:
            try:
                if self.name_of(piece) != "func.func":
                    self.fail("E0106", f"expected a function or one module but got '{self.name_of(piece)}'", piece.at)
                module.block.append(self.op(piece))
            except _GivenUp:
                continue
        if self.faults:
            raise _GivenUp
        return module

    def give_up(self, piece: OpText) -> None:
        """Go on behind a faulty op. Its results are known as values that nobody can use: their uses are no faults of their own.

        One name stands for all of its parts, since a text may claim any number of them.
        """
        self.given_up += 1
        for token, _ in piece.results:
            self.scopes[-1].setdefault(str(token), None)

    def pieces(self) -> list[OpText]:
        try:
            ops, self.resources = split_resources(self.text)
        except LiteralError as error:
            line, column = self.text.count("\n", 0, error.offset) + 1, error.offset - self.text.rfind("\n", 0, error.offset)
            raise ParseError(
                Diagnostic(str(error), Location(self.filename, line, column, column + 1), source=self.text, code="E0102")
            ) from None
        try:
            items: list[Any] = grammar().parse(ops)  # type: ignore[assignment]
        except UnexpectedToken as error:
            self.unexpected(f"'{error.token}'" if error.token.type != "$END" else "the end", error, error.accepts or error.expected)
        except UnexpectedCharacters as error:
            self.unexpected(f"'{self.text[error.pos_in_stream or 0]}'", error, error.allowed or ())
        except VisitError as error:
            raise error.orig_exc from error
        for name, place in (item for item in items if isinstance(item, Tagged)):
            if name in self.aliases:
                self.fail("E0104", f"the alias '{name}' is defined twice", name)
            self.aliases[name] = place
        return [item for item in items if isinstance(item, OpText)]

    def unexpected(self, got: str, error: UnexpectedInput, expected: Any) -> NoReturn:
        names = sorted({terminal_text(name) for name in expected})
        wanted = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else "the end"
        if got == "the end":
            rows = self.text.rstrip().split("\n")
            line, column, width = len(rows), len(rows[-1]) + 1, 1
        else:
            line, column, width = max(error.line, 1), max(error.column, 1), len(got) - 2
        if len(got) > 42:
            got = got[:40] + "…'"
        raise ParseError(
            Diagnostic(
                f"expected {wanted} but got {got}",
                Location(self.filename, line, column, column + max(width, 1)),
                source=self.text,
                code="E0101",
            )
        )

    # ops

    def name_of(self, piece: OpText) -> str:
        if piece.form == "readable":
            return str(piece.at)
        if piece.form == "generic":
            with self.faults_at(piece.at):
                return parse_string(piece.at).removeprefix(PREFIX)
        return {"return": "func.return", "func": "func.func", "module": "builtin.module"}[piece.form]

    def op(self, piece: OpText) -> Op:
        self.at = piece.at
        location = self.place(piece.at) if piece.location is None else self.location(piece.location)
        if piece.form == "func":
            return self.func(piece, location)
        with self.faults_at(piece.at):
            cls = lookup_op(self.name_of(piece))
        named = self.attributes(piece, cls)
        segments = self.explicit_segments(piece, cls, named)
        operands = self.operands(piece)
        with self.faults_at(piece.at):
            if segments is None:
                segments = cls.definition.segments_of(len(operands))
            if piece.form == "module" and piece.at.type == "SYMBOL":
                named["sym_name"] = parse_symbol(piece.at)
            regions = self.regions(piece, cls)
            attributes = cls.definition.bind_attributes(named)
            types = self.result_types(piece, cls, operands, segments, attributes, regions)
        op = cls.build(operands, attributes, regions, types, location, segments)
        self.name_results(piece, op)
        if isinstance(op, Func):
            _name_arguments(op)
        return op

    def attributes(self, piece: OpText, cls: type[Op]) -> dict[str, Any]:
        declared = cls.definition.attributes
        named: dict[str, Any] = {}
        before = len(self.faults)
        self.result_type = next(iter(piece.result_types or ()), None)
        for key, value in piece.attributes:
            name = str(key)
            if name in named:
                self.fail("E0104", f"the attribute '{name}' is given twice", key)
            if name == "operandSegmentSizes" and piece.form == "generic":
                with self.faults_at(key):
                    named[name] = normalize(tuple[int, ...], self.value(value, tuple[int, ...], 0), f"'{name}'")
                continue
            if name not in declared:
                self.note("E0304", f"'{cls.name}' has no attribute '{name}'{did_you_mean(name, declared)}", key)
                continue
            try:
                with self.faults_at(value.at if value.at is not None else key):
                    named[name] = declared[name].bind(self.value(value, declared[name].kind, 0))
            except _GivenUp:
                continue
        if len(self.faults) > before:
            raise _GivenUp
        return named

    def explicit_segments(self, piece: OpText, cls: type[Op], named: dict[str, Any]) -> tuple[int, ...] | None:
        """Segments that the text states; None when they follow from the number of operands."""
        if piece.form == "generic":
            stated = named.pop("operandSegmentSizes", None)
            if stated is not None and (
                sum(stated) != len(piece.operands) or len(stated) != len(cls.definition.operands) or min(stated) < 0
            ):
                self.fail(
                    "E0106",
                    f"expected the segments {list(stated)} to split {len(piece.operands)} operands into {len(cls.definition.operands)}",
                    piece.at,
                )
            return stated
        if all(isinstance(o, Token) and o.type == "VALUE" for o in piece.operands):
            return None
        declared = cls.definition.operands
        if len(declared) != len(piece.operands):
            self.fail(
                "E0106",
                f"expected {len(declared)} operands for '{cls.name}' where groups are written but got {len(piece.operands)}",
                piece.at,
            )
        for part, given in zip(declared, piece.operands, strict=True):
            if isinstance(given, tuple) != (part.arity == "variadic") or (
                not isinstance(given, tuple) and given.type == "ABSENT" and part.arity != "optional"
            ):
                self.fail("E0106", f"expected {_OPERAND_SPELLING[part.arity]} for the operand '{part.name}' of '{cls.name}'", piece.at)
        if cls.definition.plain:
            return None
        return tuple(len(o) if isinstance(o, tuple) else int(o.type == "VALUE") for o in piece.operands)

    def operands(self, piece: OpText) -> list[Value]:
        tokens: list[Token] = []
        for given in piece.operands:
            tokens += given if isinstance(given, tuple) else [given] if given.type == "VALUE" else []
        values: list[Value] = [v for v in map(self.lookup, tokens) if v is not None]
        if len(values) < len(tokens):
            raise _GivenUp
        if piece.operand_types is not None:
            if len(piece.operand_types) != len(values):
                self.fail("E0107", f"expected {len(values)} operand types but got {len(piece.operand_types)}", piece.at)
            for token, value in zip(piece.operand_types, values, strict=True):
                kind = self.type(token)
                if kind is not value.type and kind != value.type:
                    self.fail("E0107", f"expected {value!r} but got the type {token}", token)
        return values

    def result_types(
        self,
        piece: OpText,
        cls: type[Op],
        operands: Sequence[Value],
        segments: tuple[int, ...] | None,
        attributes: dict[str, Any],
        regions: Sequence[Region],
    ) -> tuple[Type, ...]:
        if piece.result_types is not None:
            types = tuple(self.type(t) for t in piece.result_types)
        elif cls.definition.infers:
            types = self.inferred(piece, cls, operands, segments, attributes, regions)
        else:
            types = ()
        named = sum(count for _, count in piece.results)
        if named != len(types) and (named or piece.form == "readable"):
            self.fail("E0106", f"expected {len(types)} results of '{cls.name}' to be named but got {named} names", piece.at)
        return types

    def inferred(
        self,
        piece: OpText,
        cls: type[Op],
        operands: Sequence[Value],
        segments: tuple[int, ...] | None,
        attributes: dict[str, Any],
        regions: Sequence[Region],
    ) -> tuple[Type, ...]:
        try:
            return cls.definition.infer(operands, segments, attributes, regions)
        except InferError as error:
            first = error.diagnostics[0]
            self.fail(first.code, first.message, piece.at, notes=operand_notes(operands, self.text, self.place_of))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # Operands so far off that the op's own checks trip over them: as much the text's fault as any other.
            self.fail("E0301", f"the types of '{cls.name}' cannot be inferred: {type(error).__name__}: {error}", piece.at)

    def name_results(self, piece: OpText, op: Op) -> None:
        results = iter(op.results)
        for token, count in piece.results:
            for i, result in zip(range(count), results, strict=False):
                self.define(token, result, i)

    def func(self, piece: OpText, location: Location) -> Func:
        if piece.results:
            self.fail("E0106", "expected a function to have no name for results", piece.results[0][0])
        named = self.attributes(piece, Func)
        if "sym_name" in named:
            self.fail("E0106", "expected the function's name after 'func' only", piece.at)
        [(labelled, body)] = piece.regions
        if labelled:
            self.fail("E0106", "expected the function's arguments after its name only", labelled[0][0])
        kind = FunctionType(tuple(self.type(t) for _, t in piece.args), tuple(self.type(t) for t in piece.result_types or ()))
        names = tuple(_user_name(v) for v, _ in piece.args)
        named = {"arg_names": names if any(names) else (), "function_type": kind, **named}
        with self.faults_at(piece.at):
            attributes = Func.definition.bind_attributes({**named, "sym_name": parse_symbol(piece.at)})
            region = self.region(piece.args, body, isolated=True)
        return Func.build((), attributes, [region], (), location)

    # values and regions

    def define(self, token: Token, value: Value, part: int = 0) -> None:
        """Let `token` name the value, or with `part` a further one under the same name, such as `%x#1`."""
        name = f"{token}#{part}" if part else str(token)
        if any(name in scope for scope in self.scopes):
            self.fail("E0104", f"the value '{name}' is defined twice", token)
        if not self.scopes:
            self.fail("E0106", "expected a function around the op", token)
        if "#" in token:
            self.fail("E0106", "expected '#' only where a value is used", token)
        self.scopes[-1][name] = value
        self.named[value] = token
        value.name = _user_name(token)

    def lookup(self, token: Token) -> Value | None:
        """The value that is meant; None when there is none, which is noted here, or was noted where it should have been made."""
        name = str(token).removesuffix("#0")
        whole = name.partition("#")[0]
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
            if whole in scope and scope[whole] is None:
                return None
        known = [name for scope in self.scopes for name in scope]
        self.note("E0103", f"the value '{token}' is not defined here{did_you_mean(str(token), known)}", token)
        return None

    def regions(self, piece: OpText, cls: type[Op]) -> list[Region]:
        if len(piece.regions) != len(cls.definition.regions):
            self.fail("E0106", f"expected {len(cls.definition.regions)} regions for '{cls.name}' but got {len(piece.regions)}", piece.at)
        return [self.region(args, ops, cls.traits >= {IsolatedFromAbove}) for args, ops in piece.regions]

    def region(self, args: list[tuple[Token, Token]], ops: list[OpText], isolated: bool) -> Region:
        if self.depth >= MAX_DEPTH:
            self.fail("E0205", f"expected regions to nest at most {MAX_DEPTH} deep", None)
        outer, before = self.scopes, self.given_up
        self.depth += 1
        self.scopes = [{}] if isolated else [*outer, {}]
        try:
            block = Block()
            for token, kind in args:
                self.define(token, block.add_arg(self.type(kind)))
            for piece in ops:
                try:
                    block.append(self.op(piece))
                except _GivenUp:
                    self.give_up(piece)
        finally:
            self.scopes = outer
            self.depth -= 1
        if self.given_up > before:
            # What a region without these ops would lack is no fault of the text.
            raise _GivenUp
        return Region(block)

    # attributes, types, locations

    def type(self, token: Token) -> Type:
        with self.faults_at(token):
            return parse_type(str(token))

    def value(self, value: ValueText, kind: Any, depth: int) -> Any:
        """The value as `kind` would have it; whether it is of that kind at all is for `AttrDef.bind` to say."""
        if depth > MAX_DEPTH:
            self.fail("E0102", f"expected lists to nest at most {MAX_DEPTH} deep", value.at)
        with self.faults_at(value.at):
            match value.kind:
                case "list":
                    item = get_args(kind)[0] if get_origin(kind) is tuple else None
                    return tuple(self.value(v, item, depth + 1) for v in value.items)
                case "string":
                    return parse_string(value.text)
                case "symbol":
                    return SymbolRef(parse_symbol(value.text))
                case "dense":
                    return self.dense(value)
                case "type":
                    return parse_type(value.text)
                case "function_type":
                    inputs, results = (tuple(self.type(t) for t in types) for types in value.items)
                    return FunctionType(inputs, results)
                case "array":
                    return tuple(int(n) for n in value.text[len("array<") : -1].partition(":")[2].split(",") if n.strip())
                case "float":
                    return float(value.text)
                case "bits":
                    return parse_bits(value.text)
                case "size_attribute":
                    return parse_size(value.text.partition('"')[2].rpartition('"')[0])
                case _:
                    start, end = value.items
                    return _size_or_keyword(self.text[start:end], kind)

    def dense(self, value: ValueText) -> Dense:
        if value.type is not None:
            return parse_dense(value.text, self.type(value.type), self.resources)
        if self.result_type is None:
            self.fail("E0107", "expected ':' and the type of the constant", value.at)
        kind = self.type(self.result_type)
        return parse_dense(value.text, TensorType(kind.shape, kind.dtype) if isinstance(kind, BufferType) else kind, self.resources)

    def location(self, place: Any, depth: int = 0) -> Location:
        if isinstance(place, Token):
            if depth > 2:
                self.fail("E0102", "expected at most a name and a place in a location", place)
            return Location() if place.type == "UNKNOWN" else self.aliased(place, depth)
        if isinstance(place, Tagged):
            return self.fused(place, depth)
        text, *rest = place
        if depth > 2:
            self.fail("E0102", "expected at most a name and a place in a location", text)
        with self.faults_at(text):
            name = parse_string(text)
        if len(rest) == 1:
            inner = self.location(rest[0], depth + 1)
            return Location(inner.file, inner.line, inner.column, inner.end_column, name)
        if not rest:
            return Location(name=name)
        for number in rest:
            if len(number) > 9:
                self.fail("E0102", "expected a smaller number in a location", number)
        line, column, end = [*map(int, rest), 0][:3]
        # A line of no file is no place, and only what has a line ends in it.
        return Location(name, line, column, end if line else 0) if name else Location()

    def aliased(self, alias: Token, depth: int) -> Location:
        """What an alias stands for, found once; none is part of itself."""
        if alias not in self.places:
            if alias not in self.aliases:
                self.fail("E0106", f"expected a place called '{alias}'{did_you_mean(alias, self.aliases)}", alias)
            place = self.aliases.pop(alias)
            self.places[str(alias)] = self.location(place, depth + isinstance(place, Token))
        return self.places[alias]

    def fused(self, places: Tagged, depth: int) -> Location:
        """Two places in one line are the ends of one; of others, which only passes of MLIR's tools fuse, the first counts."""
        if depth > 2:
            self.fail("E0102", "expected at most a name and a place in a location", None)
        first, *others = (self.location(p, depth + 1) for p in places)
        if len(others) == 1 and (others[0].file, others[0].line) == (first.file, first.line):
            return Location(first.file, first.line, first.column, others[0].column if first.line else 0, first.name)
        return first


_OPERAND_SPELLING = {"one": "a value", "optional": "a value or '_'", "variadic": "a group such as '[%x, %y]'"}
_CONSTANTS = {"true": True, "false": False}
_FLOATS = ("inf", "-inf", "nan")


def _size_or_keyword(text: str, kind: Any) -> Any:
    """A piece such as `N`, `2*N+1`, `-1`, `true` or `f32`: which it is depends on the attribute's kind."""
    if kind == Dim:
        return parse_size(text)
    if kind in (ScalarType, Type) and text.isidentifier():
        return parse_type(text)
    if kind in (bool, Number) and text in _CONSTANTS:
        return _CONSTANTS[text]
    if kind in (float, Number) and text in _FLOATS:
        return float(text)
    size = parse_size(text)
    if isinstance(size, int) or kind is not None:
        return size
    return _CONSTANTS.get(text, size)


def _user_name(token: Token) -> str:
    """The name without its sign; numbers stand for values without a name."""
    return "" if token[1:].isdecimal() else str(token[1:])


_NUMBERED = re.compile(r"arg[0-9]+")


def _name_arguments(func: Func) -> None:
    """MLIR's tools number arguments, `%arg0`, and not always from 0: these get back the names that the function has for them."""
    if all(_NUMBERED.fullmatch(arg.name) for arg in func.args):
        for arg, name in zip(func.args, func.attributes["arg_names"], strict=False):
            arg.name = name
