"""The example in an op's docstring, as a module. How examples are written is said in `define.py`.

`tests/ir/test_op_examples.py` parses and verifies each of them; the pages of `docs/ops` show and run them.
"""

from __future__ import annotations

import inspect
import re
import textwrap

from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Expr, symbols
from polyreme.ir.python.records import dataclass
from polyreme.ir.text import parse_module
from polyreme.ir.types import PendingType, type_symbols

_CODE = re.compile(r"(\s*//.*\n)?\s*(%\w+.* = |[a-z]+\.[a-z_]+ %|(func|module)\b(?!\.))")
_WHOLE = re.compile(r"(func|module)\b(?!\.)")
_VALUE = re.compile(r"%[A-Za-z0-9_$.]+")
_TYPE = re.compile(
    r"(?:tensor|pending|buffer|vector)<(?:[^<>]|<[^<>]*>)*>|\b(?:index|i1|i8|i16|i32|i64|ui8|ui16|ui32|ui64|f16|bf16|f32|f64)\b"
)
_DECLARED = re.compile(rf"({_VALUE.pattern}): ({_TYPE.pattern})")


@dataclass(frozen=True)
class Documented:
    """An op's docstring, taken apart: paragraphs of prose (the first says what the op is) and the text of the example."""

    prose: tuple[str, ...]
    example: str

    @property
    def summary(self) -> str:
        """The first sentence of the first paragraph, on one line."""
        first = " ".join(self.prose[0].split()) if self.prose else ""
        return re.split(r"(?<=\.) (?=[A-Z`])", first)[0]


def documentation(cls: type[Op]) -> Documented:
    """The docstring of an op class. (Its paragraphs are told apart by how they read: Python may have removed the indentation.)"""
    paragraphs = [p for p in re.split(r"\n\s*\n", inspect.cleandoc(cls.__doc__ or "")) if p.strip()]
    code = next((i for i, p in enumerate(paragraphs) if _CODE.match(p)), None)
    prose = tuple(textwrap.dedent(p) for i, p in enumerate(paragraphs) if i != code)
    return Documented(prose, "" if code is None else textwrap.dedent(paragraphs[code]).strip())


def example_module(cls: type[Op]) -> Module:
    """The example of an op class as a module; `PolyremeError` when it has none, or one whose values have no types.

    An example that is lines of ops becomes the function `example`: what it uses but does not make are its arguments, what it makes its
    results. Sizes that no argument has are those of a last argument, `sizes`.
    """
    example = documentation(cls).example
    if not example:
        raise PolyremeError(f"expected an example in the docstring of '{cls.name}' but it has none", code="E0310")
    module = parse_module(_as_function(cls, example), f"{cls.name} example")
    if _WHOLE.match(example):
        return module
    missing = _unbound_sizes(module)
    if missing:
        module = parse_module(_as_function(cls, example, f"tensor<{'x'.join(missing)}xf32>"), f"{cls.name} example")
    return _with_results(module)


def _as_function(cls: type[Op], example: str, sizes: str = "") -> str:
    """The example as text of a module: lines of ops get a function around them."""
    if _WHOLE.match(example):
        return example
    code = [line.partition("//")[0] for line in example.splitlines()]
    first = next(line for line in code if line.strip())
    declared = dict(_DECLARED.findall(" ".join(line.partition("//")[2] for line in example.splitlines())))
    made = {v for line in code if " = " in line.partition("{")[0] for v in _VALUE.findall(line.partition(" = ")[0])}
    made |= {name for line in code for name, _ in _DECLARED.findall(line)}
    used = [v for line in code for v in _VALUE.findall(line) if v not in made]
    result = re.search(rf" : ({_TYPE.pattern})", first)
    for value in used:
        if value not in declared:
            if result is None:
                raise PolyremeError(f"expected a comment with the type of {value} in the example of '{cls.name}'", code="E0310")
            declared[value] = result.group(1)
    args = [f"{value}: {kind}" for value, kind in declared.items()] + ([f"%sizes: {sizes}"] if sizes else [])
    return f"func @example({', '.join(args)}) {{\n{example}\nreturn\n}}"


def _unbound_sizes(module: Module) -> list[str]:
    """Names of sizes that no argument binds: an example need not bring an argument for each."""
    func = module.function("example")
    used: set[str] = set()
    for op in func.walk():
        used.update(*(type_symbols(r.type) for r in op.results))
        for value in op.attributes.values():
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Expr):
                    used |= symbols(item)
    return sorted(used - set[str]().union(*(type_symbols(a.type) for a in func.args)))


def _with_results(module: Module) -> Module:
    """The function `example`, which returns nothing, with all that it makes as its results."""
    func: Func = module.function("example")
    last = func.block.terminator
    made = [r for op in func.block for r in op.results if not isinstance(r.type, PendingType)]
    func.block.append(Return(made, loc=last.location))
    last.erase()
    func.finish()
    return module
