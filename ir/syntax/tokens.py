"""The tokens of IR text for those who colour it: editors and terminals share this one table.

Unlike the terminals of `grammar.lark`, which are coarse so that reading is fast, these look into types, constants and places. A table is
tried in order at each place of a line; what nothing matches is plain. A token with an `end` spans from its `regex` to there, over lines
too, and has a table of its own between. These are the semantics of TextMate grammars, so `textmate()` is the same table in another form;
its regular expressions keep to what Python's `re` and Oniguruma both read.

    for start, end, token in scan(line_of_text): …
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from polyreme.ir.python.records import dataclass

SCOPE = "source.polyreme"


@dataclass(frozen=True, slots=True)
class Token:
    """`name` is what a colour scheme calls it, `scope` what an editor's theme does; `inside` names the table between `regex` and `end`."""

    name: str
    scope: str
    regex: str
    end: str = ""
    inside: str = ""


_COMMENT = Token("comment", "comment.line.double-slash", r"//.*$")
_STRING = Token("string", "string.quoted.double", r'"(?:[^"\\]|\\.)*"')
_BITS = Token("number", "constant.numeric.hex", r"0x[0-9A-Fa-f]+")
_FLOAT = Token("number", "constant.numeric.float", r"-?\b[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)|-?\b(?:inf|nan)\b")
_INTEGER = Token("number", "constant.numeric.integer", r"-?\b[0-9]+\b")
_TRUTH = Token("constant", "constant.language", r"\b(?:true|false)\b")
_SCALAR_NAMES = r"(?:bf16|f16|f32|f64|i1|i8|i16|i32|i64|ui8|ui16|ui32|ui64|index|complex<f(?:32|64)>)"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"

TABLES: dict[str, tuple[Token, ...]] = {
    "ir": (
        _COMMENT,
        Token("resources", "meta.resources", r"\{-#", r"#-\}", "resources"),
        # Places first: their strings are no names of ops.
        Token("location", "meta.location", r"\bloc\s*\(", r"\)", "place"),
        Token("alias", "variable.other.constant.alias", rf"#{_NAME}(?![\w.])"),
        Token("type", "support.type.shaped", r"(?:!polyreme\.)?\b(?:tensor|pending|buffer|vector)<", r">", "type"),
        Token("constant", "meta.constant.array", r"\b(?:dense|array)<", r">", "elements"),
        Token("constant", "support.constant.resource", r'\bdense_resource<(?:[\w.$-]+|"(?:[^"\\]|\\.)*")>'),
        Token("size", "constant.other.size", r'#polyreme\.size<"[^"]*">'),
        Token("op", "entity.name.function.op", r'"[A-Za-z_][\w.]*\.\w+"(?=\s*\()'),
        _STRING,
        Token("value", "variable.other.value", r"%[A-Za-z0-9_$.]+(?:#[0-9]+)?"),
        Token("symbol", "entity.name.function.symbol", r'@(?:[A-Za-z_$.][\w$.-]*|"(?:[^"\\]|\\.)*")'),
        Token("label", "entity.name.label", r"\^[A-Za-z0-9_]+"),
        Token("op", "entity.name.function.op", rf"\b{_NAME}(?:\.{_NAME})+"),
        Token("scalar", "storage.type.scalar", rf"\b{_SCALAR_NAMES}(?![\w.]|\s*=)"),
        Token("attribute", "entity.other.attribute-name", rf"\b{_NAME}(?=\s*=)"),
        Token("keyword", "keyword.other", r"\b(?:func|module|return|attributes)\b(?!\.)"),
        _TRUTH,
        _BITS,
        _FLOAT,
        _INTEGER,
        Token("absent", "constant.language.absent", r"\b_\b"),
        Token("function", "support.function.size", rf"\b{_NAME}(?=\s*\()"),
        Token("size", "constant.other.size", rf"\b{_NAME}\b"),
        Token("punctuation", "keyword.operator", r"->|[=+*:-]"),
        Token("punctuation", "punctuation.section", r"[{}\[\]()<>,]"),
    ),
    # Between the brackets of a shaped type: sizes, an `x` between them, the element type. A name with an x in it stands in parentheses.
    "type": (
        Token("size", "constant.other.size", r'"[^"]*"'),
        Token("scalar", "storage.type.scalar", rf"{_SCALAR_NAMES}(?=\s*[,>])"),
        Token("punctuation", "keyword.operator.by", r"x(?=[A-Za-z0-9_?(])"),
        Token("size", "constant.other.size", r"[A-Za-wyz_][A-Za-wyz0-9_]*"),
        Token("number", "constant.numeric.integer", r"[0-9]+|\?"),
        Token("size", "meta.size", r"\(", r"\)", "size"),
        Token("punctuation", "punctuation.section", r"[,\[\]]"),
    ),
    "size": (
        Token("size", "meta.size", r"\(", r"\)", "size"),
        Token("function", "support.function.size", rf"{_NAME}(?=\s*\()"),
        Token("size", "constant.other.size", _NAME),
        Token("number", "constant.numeric.integer", r"[0-9]+"),
        Token("punctuation", "keyword.operator", r"[-+*,]"),
    ),
    "elements": (
        _COMMENT,
        _STRING,
        Token("scalar", "storage.type.scalar", rf"\b{_SCALAR_NAMES}\b"),
        _TRUTH,
        _BITS,
        _FLOAT,
        _INTEGER,
        Token("punctuation", "punctuation.section", r"[\[\](),:]|\.\.\."),
    ),
    "place": (
        _COMMENT,
        Token("location", "meta.location", r"\(", r"\)", "place"),
        Token("location", "string.quoted.double.place", r'"(?:[^"\\]|\\.)*"'),
        Token("location", "constant.numeric.integer.place", r"[0-9]+"),
        Token("location", "keyword.other.place", r"\b(?:unknown|to|at|fused|callsite)\b"),
        Token("alias", "variable.other.constant.alias", rf"#{_NAME}"),
        Token("location", "punctuation.section.place", r"[:,\[\]]"),
    ),
    "resources": (
        _COMMENT,
        _STRING,
        Token("attribute", "entity.other.attribute-name", r"[\w.$-]+(?=\s*:)"),
        Token("punctuation", "punctuation.section", r"[{}:,]"),
    ),
}

NAMES = tuple(dict.fromkeys(token.name for table in TABLES.values() for token in table))
"""What a colour scheme gives a colour to."""


def scan(text: str, tables: dict[str, tuple[Token, ...]] = TABLES, start: str = "ir") -> Iterator[tuple[int, int, Token]]:
    """The tokens of `text` in order, as positions; what is between them is plain. The brackets of a spanning token are tokens of its kind.
    """
    stack: list[tuple[str, Token | None]] = [(start, None)]
    at = 0
    for line in text.split("\n"):
        place, body = 0, line.rstrip("\r")
        while place < len(body):
            name, opened = stack[-1]
            regex, tokens = _alternatives(tuple(tables[name]), opened.end if opened is not None else "")
            match = regex.search(body, place)
            if match is None:
                break
            first, place = match.span()
            token = tokens[int((match.lastgroup or "t0")[1:])]
            if token is None:
                assert opened is not None
                stack.pop()
                token = opened
            elif token.end:
                stack.append((token.inside, token))
            yield at + first, at + place, token
        at += len(line) + 1


@cache
def _alternatives(table: tuple[Token, ...], end: str) -> tuple[re.Pattern[str], tuple[Token | None, ...]]:
    """One expression for a table, whose group `t<i>` is entry i of the tokens; None is the end of what is open, which comes first."""
    tokens: tuple[Token | None, ...] = (None, *table) if end else table
    parts = [end if token is None else token.regex for token in tokens]
    return re.compile("|".join(f"(?P<t{i}>{part})" for i, part in enumerate(parts))), tokens


def textmate() -> dict[str, Any]:
    """The tables as a TextMate grammar, to be written as JSON."""
    return {
        "name": "Polyreme IR",
        "scopeName": SCOPE,
        "fileTypes": ["tir"],
        "patterns": [{"include": "#ir"}],
        "repository": {name: {"patterns": [_rule(token) for token in table]} for name, table in TABLES.items()},
    }


def _rule(token: Token) -> dict[str, Any]:
    scope = f"{token.scope}.polyreme"
    if not token.end:
        return {"name": scope, "match": token.regex}
    return {"name": scope, "begin": token.regex, "end": token.end, "patterns": [{"include": f"#{token.inside}"}]}
