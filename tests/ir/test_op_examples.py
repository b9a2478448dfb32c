"""Every op's docstring has an example that parses, verifies, mentions the op, and prints back to itself.

How examples are written is said in `ir/define.py`.
"""

import inspect
import re
import textwrap

import pytest

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.ir.context import all_ops
from polyreme.ir.dims import symbols
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.types import type_symbols
from polyreme.ir.verify import verify

CODE = re.compile(r"(\s*//.*\n)?\s*(%\w+.* = |[a-z]+\.[a-z_]+ %|(func|module)\b(?!\.))")
VALUE = re.compile(r"%[A-Za-z0-9_$.]+")
TYPE = re.compile(r"(?:tensor|pending|buffer|vector)<[^>]*>|\b(?:index|i1|i8|i16|i32|i64|ui8|ui16|ui32|ui64|f16|bf16|f32|f64)\b")
DECLARED = re.compile(rf"({VALUE.pattern}): ({TYPE.pattern})")


def example_of(cls):
    """The first paragraph of the class's docstring that is code. (Indentation alone does not tell: Python may have removed it.)"""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(cls.__doc__ or ""))
    return next((textwrap.dedent(p) for p in paragraphs if CODE.match(p)), "").strip()


def as_function(example, sizes=""):
    """The example as text of a module: lines of ops get a function around them."""
    if re.match(r"(func|module)\b(?!\.)", example):
        return example
    code = [line.partition("//")[0] for line in example.splitlines()]
    first = next(line for line in code if line.strip())
    declared = dict(DECLARED.findall(" ".join(line.partition("//")[2] for line in example.splitlines())))
    made = {v for line in code if " = " in line.partition("{")[0] for v in VALUE.findall(line.partition(" = ")[0])}
    made |= {name for line in code for name, _ in DECLARED.findall(line)}
    used = [v for line in code for v in VALUE.findall(line) if v not in made]
    result = re.search(rf" : ({TYPE.pattern})", first)
    for value in used:
        if value not in declared:
            assert result, f"the example uses {value} but nothing says of what type it is"
            declared[value] = result.group(1)
    args = [f"{value}: {kind}" for value, kind in declared.items()] + ([f"%sizes: {sizes}"] if sizes else [])
    return f"func @example({', '.join(args)}) {{\n{example}\nreturn\n}}"


def unbound_sizes(module):
    """Names of sizes that no argument binds: an example need not bring an argument for each."""
    (func,) = module.functions
    used = set()
    for op in func.walk():
        used.update(*(type_symbols(r.type) for r in op.results))
        for value in op.attributes.values():
            for item in value if isinstance(value, tuple) else (value,):
                if hasattr(item, "terms"):
                    used |= symbols(item)
    return sorted(used - set().union(*(type_symbols(a.type) for a in func.args)))


def module_of(example):
    module = parse_module(as_function(example))
    if len(list(module.functions)) == 1 and (missing := unbound_sizes(module)):
        module = parse_module(as_function(example, f"tensor<{'x'.join(missing)}xf32>"))
    return module


@pytest.mark.parametrize("name", all_ops())
def test_the_example_of_an_op_parses_and_verifies(name):
    example = example_of(all_ops()[name])
    assert example, f"'{name}' has no example in its docstring"
    module = module_of(example)
    verify(module)
    assert name in {op.name for op in module.walk()}


@pytest.mark.parametrize("generic", [False, True], ids=["readable", "generic"])
@pytest.mark.parametrize("name", all_ops())
def test_the_example_of_an_op_reads_back_as_it_was_printed(name, generic):
    module = module_of(example_of(all_ops()[name]))
    text = print_module(module, generic)
    again = parse_module(text)
    verify(again)
    assert print_module(again, generic) == text
    assert print_module(again) == print_module(module)
