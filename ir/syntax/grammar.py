"""The parser that Lark makes of `grammar.lark`.

Lark takes a quarter of a second to work out a parser's tables and a twentieth of that to read them. So who reads texts in many processes
may keep them from one to the next (`keep_tables`): as JSON, which is data and nothing that could be run. Tables that Lark cannot read are
worked out anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from lark import Lark, __version__
from lark.exceptions import LarkError
from lark.grammar import Rule
from lark.lexer import TerminalDef

__all__ = ["keep_tables", "parser_of_text"]

# What is kept under a description, or else is made and then kept.
Kept = Callable[[str, Callable[[], bytes]], bytes]
_kept: Kept | None = None


def keep_tables(kept: Kept) -> None:
    """Keep the tables of parsers with `kept` from now on."""
    global _kept
    _kept = kept


def parser_of_text(pieces: Any) -> Lark:
    """A parser of the text format; `pieces` has a method for each rule that becomes something of its own."""
    text = files("polyreme.ir.syntax").joinpath("grammar.lark").read_text(encoding="utf-8")
    if _kept is None:
        return _worked_out(text, pieces)
    # Patterns are Python's own, and how tables are written is Lark's.
    what = f"parser, Lark {__version__}, Python {sys.version_info[:2]}\n{text}"
    try:
        return _read(_kept(what, lambda: _tables(_worked_out(text, None))), pieces)
    except (LarkError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        return _worked_out(text, pieces)


def _worked_out(text: str, pieces: Any) -> Lark:
    return Lark(text, parser="lalr", lexer="contextual", transformer=pieces, maybe_placeholders=False)


def _tables(parser: Lark) -> bytes:
    """What Lark's own `save` writes, which would be Python's pickle there."""
    return json.dumps(parser.memo_serialize([TerminalDef, Rule]), separators=(",", ":")).encode()


def _read(tables: bytes, pieces: Any) -> Lark:
    # States, words and rules are numbered; JSON's keys are texts.
    data, memo = json.loads(tables, object_hook=lambda found: {int(key) if key.isdigit() else key: value for key, value in found.items()})
    return Lark._load_from_dict(data, memo, transformer=pieces)
