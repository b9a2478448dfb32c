"""A page about each op, made from the op table: `docs/ops/NAME.md`, and what `polyreme opt --list-ops NAME` prints.

`pages()` are all pages by file name. A test compares them with the files and says how to write them anew.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from polyreme.cli.op_docs.facts import SIZE, OpFacts, facts_of, shape_word
from polyreme.dialects import DIALECTS
from polyreme.ir.attributes import kind_text
from polyreme.ir.context import all_ops
from polyreme.ir.core import Op
from polyreme.ir.define import AttrDef
from polyreme.ir.scalar import FUNCTIONS
from polyreme.ir.syntax.literals import value_text
from polyreme.ir.types import SCALARS, ScalarType, element_type, scalar_type

MADE = "<!-- Made from the op table: `pytest tests/cli/test_op_pages.py --update-golden` writes this folder anew. -->"
ARITY = {"one": "", "optional": "may be absent", "variadic": "any number"}
KINDS = {"f": "float", "i": "int", "u": "uint", "b": "i1", "c": "complex", "x": "index"}
KIND_WORDS = {
    "str": "text", "int": "a whole number", "bool": "true or false", "float": "a number", "ScalarType": "an element type",
    "SymbolRef": "the name of a function",
    "Dense": "an array", "FunctionType": "a function's type", "a list of a size": "sizes", "a list of int": "whole numbers",
    "a list of str": "texts",
}  # fmt: skip
MOST_SHOWN = 40
"""How many elements of an array are shown."""
FIRST_SHOWN = 20
"""How many elements of a row that is longer."""
MOST_LINES = 60
"""How many lines of IR are shown."""


def pages() -> dict[str, str]:
    """Every page by its file name in `docs/ops`."""
    made = {f"{name}.md": page(facts_of(cls)) for name, cls in all_ops().items()}
    return {"README.md": index_page(), "scalar_functions.md": functions_page(), **made}


# --- one op


def page(facts: OpFacts) -> str:
    """The page of an op, in Markdown."""
    cls = facts.cls
    prose = facts.documented.prose
    parts = [f"# {cls.name}", MADE, _prose(prose[0]), _code(facts.documented.example), *map(_prose, prose[1:]), f"`{signature(cls)}`"]
    parts += [_operands(facts), _attributes(facts), _regions(facts), _results(facts)]
    parts += [_facts(facts), _special(facts), _example_run(facts), _lowered(facts), _gradient(facts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def signature(cls: type[Op]) -> str:
    """One line: results, operands (`[…]` any number, `?` may be absent), attributes (with their defaults) and regions."""
    definition = cls.definition
    marks = {"one": "%{}", "optional": "%{}?", "variadic": "[%{}…]"}
    operands = ", ".join(marks[o.arity].format(o.name) for o in definition.operands)
    attributes = ", ".join(f"{a.name}{'' if a.required else ' = ' + _value(a.default)}" for a in definition.attributes.values())
    regions = " ".join(f"{{ {r.name} }}" for r in definition.regions)
    return " ".join(part for part in (cls.name, operands, f"{{{attributes}}}" if attributes else "", regions) if part)


def summary(cls: type[Op]) -> str:
    """What the op is, in one line."""
    return facts_of(cls).documented.summary


def _operands(facts: OpFacts) -> str:
    rows = []
    op = facts.shown
    values = facts.definition.split(op.operands, op.segments)
    for part, value, types in zip(facts.definition.operands, values, facts.element_types, strict=True):
        first = value[0] if isinstance(value, tuple) and value else value
        what = shape_word(first.type) if first is not None and not isinstance(first, tuple) else ""
        rows.append(
            (
                f"`{part.name}`",
                ", ".join(x for x in (what, ARITY[part.arity]) if x),
                _types_text(types) if facts.infers else _in_example(types),
            )
        )
    return _table(("operand", "is", "element types"), rows)


def _in_example(types: list[ScalarType]) -> str:
    return f"{_types_text(types)} in the example" if types else ""


def _attributes(facts: OpFacts) -> str:
    rows = [
        (f"`{a.name}`", _kind(a), "must be given" if a.required else f"`{_value(a.default)}`") for a in facts.definition.attributes.values()
    ]
    return _table(("attribute", "is", "default"), rows)


def _kind(part: AttrDef) -> str:
    if part.choices is not None:
        return "one of " + ", ".join(f"`{_value(c)}`" for c in part.choices)
    return KIND_WORDS.get(kind_text(part.kind), kind_text(part.kind))


def _value(value: Any) -> str:
    return "none" if value is None else value_text(value)


def _regions(facts: OpFacts) -> str:
    return _table(("region",), [(f"`{r.name}`",) for r in facts.definition.regions])


def _results(facts: OpFacts) -> str:
    op = facts.shown
    rows = [
        (
            f"`{r.name or i}`" if r.name else str(i),
            shape_word(r.type),
            facts.result_type(i) if facts.infers else _in_example([element_type(r.type)]),
        )
        for i, r in enumerate(op.results)
    ]
    return _table(("result", "is", "element type"), rows)


def _facts(facts: OpFacts) -> str:
    cls = facts.cls
    lines = [f"- {trait.name}: {trait.doc}." for trait in facts.definition.traits]
    if facts.accuracy:
        lines.append(f"- Accuracy of floats: within {facts.accuracy} of exact arithmetic ([how to read it](README.md#accuracy)).")
    if facts.gradient:
        lines.append(f"- Gradient: {'see below' if facts.gradient == 'rule' else 'none flows through it'}.")
    if cls.dialect in ("nn", "tensor", "kernel"):
        lines.append(f"- Compiles for {' and '.join(facts.compiles_for)}." if facts.compiles_for else "- Has no machine code of its own.")
    lines += [f"- Simplified by `{s.name}`: {_prose(s.equation)}" for s in facts.simplifications]
    lines.append(f"- In Python `{_python_name(cls)}`, declared in `{_source(cls)}`.")
    return "\n".join(lines)


def _python_name(cls: type[Op]) -> str:
    home = DIALECTS.get(cls.dialect, cls.__module__)
    return f"{home}.{cls.__qualname__}"


def _source(cls: type[Op]) -> str:
    return cls.__module__.removeprefix("polyreme.").replace(".", "/") + ".py"


def _special(facts: OpFacts) -> str:
    if not facts.special_values:
        return ""
    given, made = zip(*facts.special_values, strict=True)
    return "## Special values\n\n" + _table(("x", *map(_number, given)), [("result", *map(_number, made))])


def _example_run(facts: OpFacts) -> str:
    run = facts.run
    if not run.inputs and not run.results:
        return ""
    said = [f"Every symbolic size is {SIZE}."] if facts.is_symbolic else []
    said += [f"Run {run.where}."] if run.where else []
    lines = [f"%{name}: {array_text(array)}" for name, array in run.inputs]
    lines += [f"%{name} = {array_text(array)}" for name, array in run.results]
    return "\n\n".join(["## The example on random inputs", *([" ".join(said)] if said else []), _code("\n".join(lines))])


def _lowered(facts: OpFacts) -> str:
    if not facts.lowered_text:
        return ""
    equation = facts.lowering_equation
    return "\n\n".join(p for p in ("## At the tensor level", _sentence(equation), _code(_cut(facts.lowered_text))) if p)


def _gradient(facts: OpFacts) -> str:
    if not facts.gradient_text:
        return ""
    return "\n\n".join(p for p in ("## Gradient", _sentence(facts.gradient_equation), _code(_cut(facts.gradient_text))) if p)


def _prose(text: str) -> str:
    """Prose as Markdown, where stars would be taken for emphasis."""
    return "`".join(part if i % 2 else part.replace("*", "\\*") for i, part in enumerate(text.split("`")))


def _sentence(text: str) -> str:
    return _prose(text if not text or text.endswith(".") else text + ".")


# --- the pages around them


def index_page() -> str:
    """All ops, by dialect and by what they are about."""
    parts = [
        "# Ops",
        MADE,
        "Every op of every dialect, from the op table. Each page has the op's meaning, an example (parsed, "
        "verified and run by the tests), what it takes and gives, what it makes of special values, what it becomes at the next level, "
        "and its gradient. The same in a terminal: `polyreme opt --list-ops nn.softmax`.",
        "Element types: `float` is f16, bf16, f32 and f64; `int` is i8 to i64; `uint` is ui8 to ui64; "
        "`complex` is complex<f32> and complex<f64>; `any` is all of these, i1 and index. "
        "They are what the op's inference accepts in the example, operands of other element types left as they are there.",
        '<a id="accuracy"></a>Accuracy: `0.5 ulp` is half the distance between neighbouring floats at the result, `1 eps` that distance at '
        '1, and `eps * sqrt(n) * magnitude` is for sums of n'
        " terms, whose magnitude is the op's result on the magnitudes of its operands. `ir/accuracy.py` says more. Ops without a bound "
        "move numbers, or give integers or truths.",
        "What `fn` may be in `tensor.map` and `kernel.apply`: [scalar functions](scalar_functions.md).",
    ]
    for prefix, ops in _by_dialect().items():
        module = sys.modules[DIALECTS.get(prefix, "polyreme.ir.builtin")]
        parts += [f"## {prefix}", _prose(inspect.getdoc(module) or "")] if prefix in DIALECTS else [f"## {prefix}"]
        for subject, rows in _by_subject(ops).items():
            parts += ([f"### {subject}"] if len(_by_subject(ops)) > 1 else []) + [_table(("op", "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def _by_dialect() -> dict[str, list[type[Op]]]:
    found: dict[str, list[type[Op]]] = {}
    for name, cls in all_ops().items():
        found.setdefault(name.split(".")[0], []).append(cls)
    order = [*DIALECTS, "builtin", "func"]
    return {prefix: found[prefix] for prefix in sorted(found, key=order.index)}


def _by_subject(ops: Iterable[type[Op]]) -> dict[str, list[tuple[str, str]]]:
    """Rows of a table by the file that declares the ops, which is about one subject."""
    found: dict[str, list[tuple[str, str]]] = {}
    for cls in ops:
        doc = inspect.getdoc(sys.modules[cls.__module__]) or ""
        subject = " ".join(doc.strip().split("\n\n")[0].split()).rstrip(".")
        found.setdefault(subject, []).append((f"[{cls.name}]({cls.name}.md)", _prose(summary(cls))))
    return found


def functions_page() -> str:
    """The scalar functions."""
    rows = []
    for row in FUNCTIONS.values():
        types = _types_text([t for t in SCALARS.values() if t.kind in row.all_kinds])
        result = {"same": "as the operands", "bool": "i1", "attr": "`dtype`"}[row.result]
        rows.append((f"`{row.name}`", str(row.arity), _prose(row.doc), types, result))
    text = (
        "# Scalar functions\n\n"
        + MADE
        + "\n\nWhat `fn` of [tensor.map](tensor.map.md) and [kernel.apply](kernel.apply.md) may be; "
        "a is the first operand, b the second, c the third. "
        "Operands have equal element types. They are declared in `ir/scalar.py`.\n\n"
    )
    return text + _table(("fn", "operands", "meaning", "element types", "result"), rows) + "\n"


# --- Markdown


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    rows = list(rows)
    if not rows:
        return ""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _code(text: str) -> str:
    return f"```mlir\n{text.strip()}\n```" if text.strip() else ""


def _cut(text: str) -> str:
    lines = text.strip().splitlines()
    return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], f"… {len(lines) - MOST_LINES} more lines"])


def _types_text(types: list[ScalarType]) -> str:
    """A kind's name where all of its types are meant, else theirs."""
    if len(types) == len(SCALARS):
        return "any"
    parts = []
    for kind, name in KINDS.items():
        whole = [t for t in SCALARS.values() if t.kind == kind]
        mine = [t for t in types if t.kind == kind]
        parts += [name] if mine == whole else [t.name for t in mine]
    return ", ".join(parts)


def _number(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    return f"{value:.4g}"


def array_text(array: Any) -> str:
    """Type and elements of an array, four digits of each; only the type of a long one."""
    array = np.asarray(array)
    kind = scalar_type(array.dtype).name + (f"[{', '.join(map(str, array.shape))}]" if array.ndim else "")
    if array.size <= MOST_SHOWN:
        return f"{_elements(array)} : {kind}"
    return kind if array.ndim > 1 else f"{_elements(array[:FIRST_SHOWN])[:-1]}, …] : {kind}"


def _elements(array: Any) -> str:
    if array.ndim == 0:
        value = array[()]
        return _number(value.item() if array.dtype.kind != "V" else float(value))
    return "[" + ", ".join(_elements(part) for part in array) + "]"
