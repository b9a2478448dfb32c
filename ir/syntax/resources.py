"""The section of constants at the end of a text, MLIR's own: what is too long to stand in a line, or what no decimals can tell.

    {-#
      dialect_resources: {
        builtin: {
          weight: "0x400000000000803F00000040"
        }
      }
    #-}

An op says `dense_resource<weight> : tensor<2xf32>`. The string is a blob in hex: four bytes of alignment, little end first, then the
elements as they lie in memory, row-major and little end first; a bool takes a byte. `__elided__` is MLIR's name for a constant that was
left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from polyreme.ir.attributes import Dense
from polyreme.ir.syntax.literals import ELIDED, LiteralError, element_bytes, parse_string

# Bytes to which a reader should align a blob: a cache line, which every vector load of ours is content with.
ALIGNMENT = 64

_START = re.compile(r"^[ \t]*\{-#", re.MULTILINE)
_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_TOKEN = re.compile(r'(?P<mark>#-\}|[{}:,])|(?P<word>[A-Za-z_][A-Za-z0-9_$.-]*)|(?P<string>"[^"\\\n]*(?:\\.[^"\\\n]*)*")')
_ODD = re.compile(r"[^A-Za-z0-9_$.]")


class Resources:
    """The constants of a module that is being printed, each once, under a name of its own."""

    def __init__(self) -> None:
        self.names: dict[Dense, str] = {}
        self.taken: set[str] = {ELIDED}

    def name_of(self, value: Dense, hint: str = "") -> str:
        """The name under which the section tells `value`; `hint` is what the value is called where it is met first."""
        name = self.names.get(value)
        if name is None:
            base = _ODD.sub("_", hint) or "constant"
            base = base if base[0].isalpha() or base[0] == "_" else "_" + base
            name, copies = base, 0
            while name in self.taken:
                copies += 1
                name = f"{base}_{copies}"
            self.names[value] = name
            self.taken.add(name)
        return name

    def lines(self) -> list[str]:
        """The section; nothing where there are no constants in it."""
        if not self.names:
            return []
        header = ALIGNMENT.to_bytes(4, "little")
        blobs = [f'      {name}: "0x{(header + element_bytes(value.array)).hex().upper()}",' for value, name in self.names.items()]
        blobs[-1] = blobs[-1][:-1]
        return ["", "{-#", "  dialect_resources: {", "    builtin: {", *blobs, "    }", "  }", "#-}"]

    def digests(self) -> list[str]:
        """What tells the constants of the section from others, without their elements."""
        return [f"{name}: {value.digest.hex()}" for value, name in self.names.items()]


def split_resources(text: str) -> tuple[str, dict[str, str]]:
    """A text without the section, and its resources by name, each a blob as written, in hex.

    `LiteralError`, whose offset is in the whole text, for a section that is misspelt. Sections for other tools are passed over.
    """
    start = _START.search(text)
    if start is None:
        return text, {}
    return text[: start.start()], _Section(text, start.end()).resources()


class _Section:
    """Reads `{-# section: { dialect: { name: "0x…", … }, … }, … #-}`."""

    def __init__(self, text: str, at: int):
        self.text, self.at = text, at

    def resources(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self._entries(("#-}",), [], found)
        end = _SPACE.match(self.text, self.at)
        if end is not None and end.end() < len(self.text):
            raise LiteralError("expected nothing after the section of resources", end.end())
        return found

    def _entries(self, closing: Sequence[str], path: list[str], found: dict[str, str]) -> None:
        """Entries up to the closing mark, which is taken; `path` says in which groups they stand."""
        kind, token = self._next()
        while token not in closing:
            if kind not in ("word", "string"):
                self._fail("a name", token)
            key = parse_string(token) if kind == "string" else token
            self._expect(":")
            kind, token = self._next()
            if token == "{" and len(path) < 2:
                self._entries(("}",), [*path, key], found)
            elif kind == "mark":
                self._fail("a string" if len(path) == 2 else "'{'", token)
            elif path == ["dialect_resources", "builtin"]:
                if key in found:
                    self._fail(f"another name, as '{key}' is taken", token)
                found[key] = token
            kind, token = self._next()
            if token == ",":
                kind, token = self._next()
            elif token not in closing:
                self._fail(f"',' or '{closing[0]}'", token)

    def _next(self) -> tuple[str, str]:
        space = _SPACE.match(self.text, self.at)
        at = space.end() if space is not None else self.at
        match = _TOKEN.match(self.text, at)
        if match is None or match.lastgroup is None:
            got = f"'{self.text[at]}'" if at < len(self.text) else "the end"
            at = min(at, len(self.text.rstrip()))
            raise LiteralError(f"expected a name, a string or '#-}}' in the section of resources but got {got}", at)
        self.at = match.end()
        return match.lastgroup, match.group()

    def _expect(self, mark: str) -> None:
        _, token = self._next()
        if token != mark:
            self._fail(f"'{mark}'", token)

    def _fail(self, expected: str, got: str) -> NoReturn:
        shown = got if len(got) <= 40 else got[:39] + "…"
        raise LiteralError(f"expected {expected} in the section of resources but got '{shown}'", self.at - len(got))
