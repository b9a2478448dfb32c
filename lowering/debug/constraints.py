"""A report of a function's constraints on its sizes: who tells each size, what is needed of it, by which line, and which sizes follow."""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.ir.builtin import Func, Module
from polyreme.ir.dims import Dim, Expr, line_of
from polyreme.ir.python.records import dataclass
from polyreme.ir.sizes.facts import Guard
from polyreme.lowering.transforms.solve_sizes import SolveDims


@dataclass(frozen=True, slots=True)
class Source:
    """A size, and the axis of an argument that tells its value: `size` stands there."""

    name: str
    argument: str
    axis: int
    size: Dim

    def __str__(self) -> str:
        told = "" if str(self.size) == self.name else f", which is {self.size}"
        return f"axis {self.axis} of '{self.argument}'{told}"


@dataclass(frozen=True, slots=True)
class Derived:
    """A size that follows from others, and the op that makes it first."""

    size: Dim
    value: str
    axis: int
    op: str
    place: str

    def __str__(self) -> str:
        return f"axis {self.axis} of %{self.value}, {self.op}" + (f" at {self.place}" if self.place else "")


@dataclass(frozen=True, slots=True)
class Constraints:
    """All that a function says of its symbolic sizes; `str` of it is the report."""

    sizes: tuple[Source, ...]
    guards: tuple[Guard, ...]
    derived: tuple[Derived, ...]

    def __str__(self) -> str:
        parts = [
            ("sizes", [(s.name, str(s)) for s in self.sizes]),
            ("guards", [(f"expects {g.words}", g.origin) for g in self.guards]),
            ("derived", [(str(d.size), str(d)) for d in self.derived]),
        ]
        return "".join(f"{title}\n{_columns(rows)}" for title, rows in parts)


def _columns(rows: Sequence[tuple[str, str]]) -> str:
    width = max((len(left) for left, _ in rows), default=0)
    return "".join(f"  {left.ljust(width)}  {right}\n" for left, right in rows) or "  none\n"


def constraints_of(module: Module, function: str = "main") -> Constraints:
    """The constraints of a function of `module`, those among them that compiling would add; the module is left as it is."""
    copy: Module = module.clone()
    SolveDims().run(copy)
    func = copy.function(function)
    return Constraints(tuple(_sources(func)), tuple(map(Guard.parse, func.guards)), tuple(_derived(func)))


def _sources(func: Func) -> list[Source]:
    """The axes that tell sizes: of each size the first that is just it, or else the first that is a line in it."""
    found: dict[str, Source] = {}
    for i, arg in enumerate(func.args):
        name = func.arg_names[i] if i < len(func.arg_names) else arg.name or f"arg{i}"
        for axis, size in enumerate(getattr(arg.type, "shape", ())):
            line = line_of(size)
            if line is not None and (line[0] not in found or (str(size) == line[0] != str(found[line[0]].size))):
                found[line[0]] = Source(line[0], name, axis, size)
    return list(found.values())


def _derived(func: Func) -> list[Derived]:
    given = {size for arg in func.args for size in getattr(arg.type, "shape", ())}
    found: dict[Dim, Derived] = {}
    number = 0
    for op in func.block:
        for result in op.results:
            # Values without a name print as numbers, in order.
            name, number = (result.name, number) if result.name else (str(number), number + 1)
            for axis, size in enumerate(getattr(result.type, "shape", ())):
                if isinstance(size, Expr) and size not in given:
                    found.setdefault(size, Derived(size, name, axis, op.name, str(op.location) if op.location else ""))
    return list(found.values())
