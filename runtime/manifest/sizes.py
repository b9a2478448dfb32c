"""Symbolic sizes at run time: reads the text of a dimension, such as `2*N+1` or `floordiv(N, 2)`, and gives its value.

The text comes from a file, so nothing of it is run as Python: it is parsed into closures, with limits on length and nesting.

    >>> parse_size("2*N+1", {"N"})({"N": 3})
    7
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

Size = Callable[[Mapping[str, int]], int]

MAX_LENGTH = 2000
MAX_DEPTH = 32
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TOKEN = re.compile(r"\s*([0-9]{1,19}|[A-Za-z_][A-Za-z0-9_]*|[-+*(),])")


def _floordiv(a: int, b: int) -> int:
    if b == 0:
        raise ValueError("a size is divided by 0")
    return a // b


def _mod(a: int, b: int) -> int:
    if b == 0:
        raise ValueError("a size is divided by 0")
    return a % b


_FUNCTIONS: dict[str, Callable[[int, int], int]] = {"floordiv": _floordiv, "mod": _mod, "max": max, "min": min}


def parse_size(text: str, names: Collection[str]) -> Size:
    """The function from the values of `names` to the value of `text`; `ValueError` for any other text."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"expected at most {MAX_LENGTH} characters in a size but got {len(text)}")
    return _Parser(text, names).parse()


class _Parser:
    """Recursive descent over `sum := ['-'] product (('+'|'-') product)*`, `product := factor ('*' factor)*`."""

    def __init__(self, text: str, names: Collection[str]):
        self.text, self.names, self.at, self.depth = text, names, 0, 0

    def parse(self) -> Size:
        value = self.sum()
        if self.text[self.at :].strip():
            raise self.expected("the end")
        return value

    def expected(self, what: str) -> ValueError:
        return ValueError(f"expected {what} at column {self.at + 1} of the size {self.text!r}")

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return match.group(1) if match else ""

    def take(self, token: str = "") -> str:
        match = _TOKEN.match(self.text, self.at)
        if match is None or (token and match.group(1) != token):
            raise self.expected(repr(token) if token else "a number or a name")
        self.at = match.end()
        return match.group(1)

    def sum(self) -> Size:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.expected(f"at most {MAX_DEPTH} levels of nesting")
        signs, terms = [], []
        signs.append(-1 if self.peek() == "-" and self.take() else 1)
        terms.append(self.product())
        while self.peek() in ("+", "-"):
            signs.append(1 if self.take() == "+" else -1)
            terms.append(self.product())
        self.depth -= 1
        if len(terms) == 1 and signs[0] == 1:
            return terms[0]
        return lambda values: sum(sign * term(values) for sign, term in zip(signs, terms, strict=True))

    def product(self) -> Size:
        value = self.factor()
        while self.peek() == "*":
            self.take()
            value = _times(value, self.factor())
        return value

    def factor(self) -> Size:
        token = self.take()
        if token.isdigit():
            number = int(token)
            return lambda values: number
        if token == "(":
            value = self.sum()
            self.take(")")
            return value
        if self.peek() == "(":
            return self.call(token)
        if token not in self.names:
            self.at -= len(token)
            raise self.expected(f"one of the sizes {', '.join(sorted(self.names)) or '(none)'}")
        return lambda values: values[token]

    def call(self, name: str) -> Size:
        if name not in _FUNCTIONS:
            raise self.expected(f"one of {', '.join(_FUNCTIONS)}")
        function = _FUNCTIONS[name]
        self.take("(")
        a = self.sum()
        self.take(",")
        b = self.sum()
        self.take(")")
        return lambda values: function(a(values), b(values))


def _times(a: Size, b: Size) -> Size:
    return lambda values: a(values) * b(values)
