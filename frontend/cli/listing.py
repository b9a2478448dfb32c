"""What there is to choose from: passes with their options, ops with their signatures. Printed by `polyreme opt --list-passes` and
`--list-ops`.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING
from typing import Any, get_type_hints

from polyreme.cli.own_passes import load_passes
from polyreme.ir.convert import Conversion
from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.ir.python.records import fields_of


def passes_text() -> str:
    """Every pass: its name, the levels it takes and leaves, the stages in which the compiler runs it, what it does in a line, and a line
    per option with type and default.
    """
    from polyreme.ir.passes import PASSES

    load_passes()
    levels = _levels()
    parts = []
    for name in sorted(PASSES):
        made = PASSES[name]
        when = f"run in {' and '.join(levels[name])}" if name in levels else "when asked for"
        parts.append(f"{name}  ({_border(made)}; {when})\n    {_meaning(made)}")
        parts += [f"      {option}" for option in _options(made)]
    return "\n".join(parts) + "\n"


def _border(made: Any) -> str:
    """The levels whose modules a pass takes, and the one that it leaves them at if that is another."""
    known: Any = made if isinstance(made, type) else made()
    taken = " or ".join(known.takes) or "any level"
    return f"{taken} -> {known.leaves}" if known.leaves else taken


def _levels() -> dict[str, list[str]]:
    """The stages of the pipeline that run each pass."""
    from polyreme.lowering.machines.targets import find_target
    from polyreme.lowering.pipeline import pipeline

    found: dict[str, list[str]] = {}
    for stage in pipeline(find_target()):
        for made in stage.passes:
            stages = found.setdefault(made.name, [])
            stages += [stage.name] if stage.name not in stages else []
    return found


def _meaning(made: Any) -> str:
    if isinstance(made, type):
        return " ".join((inspect.getdoc(made) or "").split("\n\n")[0].split())
    conversion = made()
    assert isinstance(conversion, Conversion)
    target = ", ".join(sorted(conversion.target - {"builtin", "func"}))
    return f"Take every op of {', '.join(sorted(conversion.source))} to {target}, by the rules for {len(conversion.rules)} ops."


def _options(made: Any) -> list[str]:
    if not isinstance(made, type):
        return []
    hints = get_type_hints(made)
    lines = []
    for field in fields_of(made):
        kind = getattr(hints[field.name], "__name__", str(hints[field.name]))
        default = "" if field.default is MISSING else f" = {_option_text(field.default)}"
        lines.append(f"{field.name.replace('_', '-')}: {kind}{default}")
    return lines


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def ops_text(prefix: str = "") -> str:
    """The page of the op called `prefix`, or signature and meaning of every op whose name starts with it; `PolyremeError` if there is none.
    """
    from polyreme import dialects
    from polyreme.cli.op_docs.pages import signature, summary
    from polyreme.ir.context import all_ops

    assert dialects.DIALECTS  # importing the room is what makes its ops known
    ops = all_ops()
    if prefix in ops:
        return page_text(prefix)
    found = [cls for name, cls in ops.items() if name.startswith(prefix)]
    if not found:
        raise PolyremeError(f"expected the name of an op, or how one starts, but got '{prefix}'{did_you_mean(prefix, ops)}", code="E0105")
    return "".join(f"{signature(cls)}\n    {summary(cls)}\n" for cls in found)


def page_text(name: str) -> str:
    """The page about an op, in Markdown, without what is for its file only."""
    from polyreme.cli.op_docs.facts import facts_of
    from polyreme.cli.op_docs.pages import MADE, page
    from polyreme.ir.context import all_ops

    return page(facts_of(all_ops()[name])).replace(MADE + "\n\n", "")

