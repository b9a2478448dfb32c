"""The pieces that Lark takes a text apart into, by `grammar.lark`: what each op, value and region says, nothing yet about what it means.

Pieces are tokens, tuples and small records, made bottom up while the text is read, so deep nesting costs no Python stack here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from lark import Lark, Token

from polyreme.ir.python.records import dataclass
from polyreme.ir.syntax.grammar import parser_of_text

__all__ = ["OpText", "Tagged", "ValueText", "grammar", "terminal_text"]


@dataclass(slots=True)
class ValueText:
    """An attribute's value: `kind` is the grammar's word for it, `at` its first token, `text` or `items` what it says."""

    kind: str
    at: Token
    text: str = ""
    items: Sequence[Any] = ()
    type: Any = None


@dataclass(slots=True)
class OpText:
    """One op as written; `at` is the token that names it."""

    form: str
    at: Token
    operands: list[Any] = field(default_factory=list)
    attributes: list[tuple[Token, ValueText]] = field(default_factory=list)
    operand_types: list[Token] | None = None
    result_types: list[Token] | None = None
    regions: list[tuple[list[tuple[Token, Token]], list[Any]]] = field(default_factory=list)
    args: list[tuple[Token, Token]] = field(default_factory=list)
    results: list[tuple[Token, int]] = field(default_factory=list)  # each with how many results it names
    location: Any = None


class Tagged(list[Any]):
    """A piece whose rule's name is still needed where it is put together."""

    def __init__(self, tag: str, items: Sequence[Any]):
        super().__init__(items)
        self.tag = tag


def _tag(name: str) -> Callable[[Any, list[Any]], Tagged]:
    return lambda self, items: Tagged(name, items)


class _Pieces:
    """What each rule of the grammar becomes while the text is being read."""

    results = _tag("results")
    values = _tag("values")
    operands = _tag("operands")
    attributes = _tag("attributes")
    types = _tag("types")
    block_args = _tag("block_args")
    location = _tag("location")

    def start(self, items: list[Any]) -> list[Any]:
        return items

    def type_name(self, items: list[Any]) -> Any:
        return items[0]

    def result_types(self, items: list[Any]) -> Any:
        inner = items[0] if items else []
        return Tagged("result_types", [inner] if isinstance(inner, Token) else inner)

    def operand(self, items: list[Any]) -> Any:
        return items[0]

    def group(self, items: list[Any]) -> Any:
        return tuple(items)

    def result(self, items: list[Any]) -> Any:
        return (items[0], int(items[1][:100]) if len(items) > 1 else 1)

    def attribute(self, items: list[Any]) -> Any:
        return (items[0], items[1])

    def properties(self, items: list[Any]) -> Any:
        return items[0]

    def block_arg(self, items: list[Any]) -> Any:
        return (items[0], items[1])

    def block_label(self, items: list[Any]) -> Any:
        return next((i for i in items if isinstance(i, Tagged)), Tagged("block_args", ()))

    def region(self, items: list[Any]) -> Any:
        labelled = bool(items) and isinstance(items[0], Tagged)
        return Tagged("region", [(list(items[0]) if labelled else [], items[1:] if labelled else items)])

    # ops

    def readable(self, items: list[Any]) -> OpText:
        piece = OpText("readable", items[0])
        for item in items[1:]:
            if item.tag == "types":
                piece.result_types = list(item)
            elif item.tag == "region":
                piece.regions += item
            else:
                setattr(piece, item.tag, list(item))
        return piece

    def generic(self, items: list[Any]) -> OpText:
        piece = OpText("generic", items[0], operand_types=[])
        for item in items[1:]:
            if item.tag == "values":
                piece.operands = list(item)
            elif item.tag == "types":
                piece.operand_types = list(item)
            elif item.tag == "result_types":
                piece.result_types = list(item)
            elif item.tag == "region":
                piece.regions += item
            else:
                piece.attributes += item
        return piece

    def func(self, items: list[Any]) -> OpText:
        piece = OpText("func", items[1], result_types=[])
        for item in items[2:]:
            if isinstance(item, Token):
                continue
            if item.tag == "block_args":
                piece.args = list(item)
            elif item.tag == "result_types":
                piece.result_types = list(item)
            elif item.tag == "region":
                piece.regions += item
            else:
                piece.attributes += item
        return piece

    def module(self, items: list[Any]) -> OpText:
        named = len(items) == 3
        return OpText("module", items[1] if named else items[0], regions=list(items[-1]))

    def op(self, items: list[Any]) -> OpText:
        piece: OpText
        if isinstance(items[0], OpText):
            piece = items[0]
        else:
            piece = items[1]
            piece.results = list(items[0])
        if isinstance(items[-1], Tagged) and items[-1].tag == "location":
            piece.location = items[-1][-1]
        return piece

    # attribute values

    def string(self, items: list[Any]) -> ValueText:
        return ValueText("string", items[0], items[0])

    def list_value(self, items: list[Any]) -> ValueText:
        first = items[0].at if items else None
        return ValueText("list", first, items=items)  # type: ignore[arg-type]

    def symbol(self, items: list[Any]) -> ValueText:
        return ValueText("symbol", items[0], items[0])

    def dense(self, items: list[Any]) -> ValueText:
        return ValueText("dense", items[0], items[0], type=items[1] if len(items) > 1 else None)

    def type_value(self, items: list[Any]) -> ValueText:
        return ValueText("type", items[0], items[0])

    def function_type(self, items: list[Any]) -> ValueText:
        inputs = items[0] if items[0].tag == "types" else []
        results = items[-1]
        first = next(iter([*inputs, *results]), None)
        return ValueText("function_type", first, items=(list(inputs), list(results)))  # type: ignore[arg-type]

    def array(self, items: list[Any]) -> ValueText:
        return ValueText("array", items[0], items[0])

    def float_value(self, items: list[Any]) -> ValueText:
        return ValueText("float", items[0], items[0])

    def bits(self, items: list[Any]) -> ValueText:
        return ValueText("bits", items[0], items[0])

    def size(self, items: list[Any]) -> ValueText:
        first, last = items[0]
        return ValueText("size", first, items=(first.start_pos, last.end_pos))

    def size_attribute(self, items: list[Any]) -> ValueText:
        return ValueText("size_attribute", items[0], items[0])

    def sum(self, items: list[Any]) -> tuple[Token, Token]:
        return (_first(items[0]), _last(items[-1]))

    def call(self, items: list[Any]) -> tuple[Token, Token]:
        return (items[0], items[-1])

    def place(self, items: list[Any]) -> Any:
        return tuple(items)

    def fused(self, items: list[Any]) -> Any:
        return Tagged("fused", items)

    def callsite(self, items: list[Any]) -> Any:
        return items[0]

    def alias(self, items: list[Any]) -> Any:
        return Tagged("alias", (items[0], items[1][-1]))


# `return` is no name that a method may have in a class statement.
setattr(_Pieces, "return", lambda self, items: OpText("return", items[0], operands=list(items[1]) if len(items) > 1 else []))


def _first(item: Any) -> Token:
    return item if isinstance(item, Token) else item[0]


def _last(item: Any) -> Token:
    return item if isinstance(item, Token) else item[1]


@lru_cache(maxsize=1)
def grammar() -> Lark:
    return parser_of_text(_Pieces())


# What messages call the terminals of the grammar; punctuation is quoted as it is.
_TERMINALS = {
    "VALUE": "a value such as '%x'", "OPNAME": "an op", "STRING": "a string", "SYMBOL": "a name such as '@main'", "TYPE": "a type",
    "WORD": "a word",
    "INT": "a number", "FLOAT": "a number", "BITS": "a number", "SIGN": "'+' or '-'", "STAR": "'*'", "END_CALL": "')'",
    "RETURN": "'return'",
    "FUNC": "'func'", "MODULE": "'module'", "ATTRIBUTES": "'attributes'", "LOC": "'loc'", "UNKNOWN": "'unknown'", "LABEL": "a block label",
    "ABSENT": "'_'", "DENSE": "a constant", "ARRAY": "an array", "SIZE": "a size", "ALIAS": "a name such as '#loc1'", "$END": "the end",
}  # fmt: skip


def terminal_text(name: str) -> str:
    if name in _TERMINALS:
        return _TERMINALS[name]
    found = next((t for t in grammar().terminals if t.name == name), None)
    return f"'{found.pattern.value}'" if found is not None else name
