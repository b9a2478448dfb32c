"""IR text in colours: the one scheme, and the option of commands that print it.

What the tokens of our own text are says `ir/syntax/tokens.py`; LLVM IR, assembly and PTX have small tables here. The scheme uses the
terminal's own sixteen colours, so that it goes with light and dark ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import click
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from polyreme.ir.syntax.tokens import TABLES, Token, scan

SCHEME = {
    "op": "bold blue",
    "keyword": "bold magenta",
    "symbol": "bold cyan",
    "value": "cyan",
    "label": "magenta",
    "type": "green",
    "scalar": "green",
    "size": "yellow",
    "function": "yellow",
    "number": "bright_magenta",
    "constant": "bright_magenta",
    "string": "red",
    "attribute": "italic",
    "comment": "dim",
    "location": "dim",
    "alias": "dim",
    "absent": "dim",
    "resources": "dim",
    "punctuation": "",
}
"""A style of `rich` for each kind of token."""


def _table(*rows: tuple[str, str]) -> tuple[Token, ...]:
    return tuple(Token(name, "", regex) for name, regex in rows)


_LLVM = _table(
    ("comment", r";.*$"),
    ("string", r'c?"[^"]*"'),
    ("value", r"%[\w.$-]+"),
    ("symbol", r"@[\w.$-]+"),
    ("label", r"^[\w.$-]+:"),
    ("attribute", r"[#!][\w.]+|![{]"),
    (
        "keyword",
        r"\b(?:define|declare|target|datalayout|triple|source_filename|attributes"
        r"|ret|br|switch|unreachable|private|internal|constant|global)\b",
    ),
    ("type", r"\b(?:i[0-9]+|half|bfloat|float|double|ptr|void|label|metadata|x)\b"),
    ("number", r"(?<![\w.])-?(?:0x[0-9A-Fa-f]+|[0-9]+(?:\.[0-9]+(?:e[-+]?[0-9]+)?)?)\b"),
    ("constant", r"\b(?:true|false|null|undef|poison|zeroinitializer)\b"),
    ("op", r"(?<== )(?:(?:tail|musttail|notail) )?[a-z]+|^\s+(?:(?:tail )?call|store|fence)\b"),
)
_ASSEMBLY = _table(
    ("comment", r"(?:#|//|;\s).*$"),
    ("string", r'"[^"]*"'),
    ("label", r"^\s*[\w.$]+:"),
    ("keyword", r"^\s+\.[\w.]+"),
    ("value", r"%[\w.]+"),
    ("op", r"^\s+[a-z][\w.]*"),
    ("number", r"(?<![\w.])[$#]?-?(?:0x[0-9A-Fa-f]+|[0-9]+)\b"),
)
_PTX = _table(
    ("comment", r"//.*$"),
    ("string", r'"[^"]*"'),
    ("label", r"^\$?[\w$]+:"),
    (
        "keyword",
        r"^\s*\.(?:version|target|address_size|visible|entry|extern|func|reg|shared"
        r"|global|const|param|maxntid|minnctapersm|loc|file)\b[.\w]*",
    ),
    ("op", r"^\s+(?:@!?%\w+\s+)?[a-z][a-z0-9_]*(?:\.[a-z0-9_:]+)*"),
    ("type", r"\.(?:pred|[bsuf][0-9]+|align|ptr|param|shared|global|v[24])\b"),
    ("value", r"%[\w.]+"),
    ("number", r"(?<![\w.])-?(?:0[xfdFD][0-9A-Fa-f]+|[0-9]+)\b"),
)
LANGUAGES: dict[str, dict[str, tuple[Token, ...]]] = {
    "ir": TABLES,
    "llvm": {"ir": _LLVM},
    "asm": {"ir": _ASSEMBLY},
    "ptx": {"ir": _PTX},
}
"""The tables of tokens for each kind of text that commands print."""


def color_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--color` to a command, which gets it as `color`."""
    help = "Colours in the printed text: auto means on a terminal, unless NO_COLOR is set."
    return click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True, help=help)(command)


def print_text(text: str, color: str = "auto", language: str = "ir") -> None:
    """Print text of a language of `LANGUAGES`, in colours if `color` ("auto", "always" or "never") means so here."""
    system = color_system(color)
    if not text.endswith("\n"):
        text += "\n"
    # What the text is in is decided here, so click must not take the colours out again.
    click.echo(text if system is None else coloured(text, language, system), nl=False, color=system is not None)


def print_listing(text: str) -> None:
    """Print a list as it is, and a page in Markdown laid out where a person reads it."""
    if text.startswith("# ") and color_system("auto") is not None:
        from rich.markdown import Markdown

        Console().print(Markdown(text, hyperlinks=False))
    else:
        click.echo(text, nl=False)


def color_system(color: str) -> ColorSystem | None:
    """Which colours standard output is given; None for none. A terminal, NO_COLOR, FORCE_COLOR and TERM are read as `rich` reads them."""
    if color == "never":
        return None
    console = Console(file=sys.stdout, force_terminal=True if color == "always" else None, no_color=False if color == "always" else None)
    known = {"256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.TRUECOLOR}
    if color == "always":
        return known.get(console.color_system or "", ColorSystem.STANDARD)
    if console.no_color or not console.is_terminal or console.color_system is None:
        return None
    return known.get(console.color_system, ColorSystem.STANDARD)


def coloured(text: str, language: str = "ir", system: ColorSystem = ColorSystem.STANDARD) -> str:
    """`text` with the codes that colour it on a terminal; without them it is what it was."""
    parts: list[str] = []
    at = 0
    for start, end, token in scan(text, LANGUAGES[language]):
        before, after = _codes(SCHEME[token.name], system)
        parts += [text[at:start], before, text[start:end], after]
        at = end
    return "".join([*parts, text[at:]])


@cache
def _codes(style: str, system: ColorSystem) -> tuple[str, str]:
    """What goes before and after text of this style."""
    before, _, after = Style.parse(style).render("\0", color_system=system).partition("\0") if style else ("", "", "")
    return before, after
