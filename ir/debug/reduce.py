"""Making a module smaller while it still shows what one looks for.

    small = reduce_module(module, lambda m: crashes(m))

A step tries a small edit at every op: drop a result, an argument, a function; let an op's result be one of its operands, an argument, a
constant; put the inside of a region in the region's place; make a size smaller. An edit is kept when the module is still valid, still
fails, and costs less than before by `cost`, which has no infinite descent: so reduction ends. Edits are tried in a fixed order: so it is
deterministic. Steps are tried on many ops at a time first, then on fewer, as in delta debugging (Zeller and Hildebrandt, 2002).

The steps of this file know no dialect. Who knows more adds steps of its own, as `lowering/debug/reducer.py` does for kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from polyreme.ir.accuracy import Array
from polyreme.ir.attributes import Dense, SymbolRef
from polyreme.ir.builtin import RESULT_ROLES, Func, Module, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.define import ConstantLike, Terminator
from polyreme.ir.diagnostics import InferError, PolyremeError
from polyreme.ir.dims import Dim, Expr, substitute
from polyreme.ir.evaluate import TooManyRounds, at_most_rounds, bind_sizes, evaluate
from polyreme.ir.python.records import dataclass
from polyreme.ir.rewrite import erase_unused
from polyreme.ir.types import BufferType, TensorType, Type, substitute_type, type_symbols
from polyreme.ir.verify import find_faults

MAX_CHECKS = 4000
# Of a loop in a module that is being made smaller.
MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class Case:
    """A module and, where what it computes matters, inputs for its `main`."""

    module: Module
    inputs: tuple[Array, ...] | None = None


StillFails = Callable[[Case], bool]


class Trial:
    """A copy of a case that a step may change."""

    def __init__(self, case: Case):
        self.module: Module = case.module.clone()
        self.inputs = None if case.inputs is None else list(case.inputs)

    @property
    def main(self) -> Func | None:
        return next((f for f in self.module.functions if f.sym_name == "main"), None)

    @property
    def case(self) -> Case:
        return Case(self.module, None if self.inputs is None else tuple(self.inputs))

    def cut(self, value: Value, array: Array | None) -> None:
        """Let a new argument of `main` take the place of `value`."""
        main = self.main
        assert main is not None
        if self.inputs is not None:
            assert array is not None
            self.inputs.append(np.array(array))
        new = main.block.add_arg(value.type, value.name)
        named = value.name if value.name and value.name not in main.arg_names else f"{value.name or 'cut'}_{new.index}"
        for name, entry in (("arg_names", named), ("arg_roles", "input")):
            if main.attributes[name]:
                main.attributes[name] = (*main.attributes[name], entry)
        value.replace_all_uses_with(new)

    def drop_argument(self, func: Func, index: int) -> None:
        """Erase an unused argument, and what calls pass for it."""
        func.block.erase_arg(index)
        for name in ("arg_names", "arg_roles"):
            entries = func.attributes[name]
            func.attributes[name] = entries[:index] + entries[index + 1 :]
        for op in self.module.walk():
            if op.attributes.get("callee") == SymbolRef(func.sym_name):
                left = [v for i, v in enumerate(op.operands) if i != index]
                op.set_operands(left, (len(left),) if op.segments is not None else None)


@dataclass(frozen=True)
class Step:
    """`count(op)` says in how many ways the step could change a module at `op`; `apply(trial, op, way, values)` does it, or says False.

    `values` are what the op makes when the module runs on the case's inputs, for steps with `needs_values`.
    """

    name: str
    count: Callable[[Op], int]
    apply: Callable[[Trial, Op, int, Sequence[Array]], bool]
    needs_values: bool = False
    alone: bool = False  # applied to one op at a time


def reduce_module(
    module: Module, still_fails: Callable[[Module], bool], steps: Sequence[Step] | None = None, max_checks: int = MAX_CHECKS
) -> Module:
    """The smallest module that the steps lead to for which `still_fails` holds; it has to hold for `module`, which is left as it is."""
    return reduce_case(Case(module), lambda case: still_fails(case.module), steps, max_checks).module


def reduce_case(case: Case, still_fails: StillFails, steps: Sequence[Step] | None = None, max_checks: int = MAX_CHECKS) -> Case:
    """As `reduce_module`, with inputs that follow the arguments. After `max_checks` calls of `still_fails` the smallest case so far is it.
    """
    if not still_fails(case):
        raise PolyremeError("expected a module that fails to begin with, but it does not", code="E0412")
    return _Reducer(case, still_fails, STEPS if steps is None else steps, max_checks).run()


def cost(case: Case) -> tuple[int, ...]:
    """What reduction makes smaller: ops that compute first, then ops and arguments, then elements, then attributes that differ from their
    defaults, and the numbers in lists.
    """
    computing = parts = elements = unusual = numbers = 0
    for op in case.module.walk():
        parts += 1 + len(op.operands)
        computing += not (op.has(ConstantLike) or op.has(Terminator) or isinstance(op, (Module, Func)))
        elements += sum(_elements(r.type) for r in op.results)
        numbers += sum(abs(n) for value in op.attributes.values() if isinstance(value, tuple) for n in value if isinstance(n, int))
        unusual += sum(
            part.default != op.attributes.get(name) for name, part in op.definition.attributes.items() if not isinstance(op, Func)
        )
        for region in op.regions:
            for block in region.blocks:
                parts += len(block.args)
                elements += sum(_elements(a.type) for a in block.args)
    return computing, parts, elements, unusual, numbers


def _elements(kind: Type) -> int:
    shape = getattr(kind, "shape", ())
    count = 1
    for dim in shape:
        # A size with a name is worse than any number that is likely.
        count *= dim if isinstance(dim, int) else 1 << 20
    return count


class _Reducer:
    def __init__(self, case: Case, still_fails: StillFails, steps: Sequence[Step], max_checks: int):
        self.case, self.still_fails, self.steps = case, still_fails, steps
        self.left = max_checks
        self.cost = cost(case)
        self.values: dict[int, Sequence[Array]] | None = None

    def run(self) -> Case:
        before = None
        while before is not self.case and self.left > 0:
            before = self.case
            for step in self.steps:
                self.exhaust(step)
        return self.case

    def exhaust(self, step: Step) -> None:
        """Apply the step wherever it helps, at as many places at once as possible."""
        places = self.places(step)
        size = 1 if step.alone else len(places)
        while size and self.left > 0:
            at = 0
            while at < len(places) and self.left > 0:
                if self.attempt(step, places[at : at + size]):
                    # Positions have moved: look again from the same place on.
                    places = self.places(step)
                else:
                    at += size
            size //= 2

    def places(self, step: Step) -> list[tuple[int, int]]:
        """(position of an op in a walk, way), later ops first: what they use is freed by them."""
        found = [(i, way) for i, op in enumerate(self.case.module.walk()) for way in range(step.count(op))]
        return found if step.alone else found[::-1]

    def attempt(self, step: Step, places: Sequence[tuple[int, int]]) -> bool:
        trial = Trial(self.case)
        ops = list(trial.module.walk())
        values = self.known_values() if step.needs_values and self.case.inputs is not None else {}
        changed = False
        try:
            for at, way in places:
                op = ops[at]
                if _is_inside(op, trial.module):
                    changed |= step.apply(trial, op, way, values.get(at, ()))
        except (InferError, ValueError):
            return False
        if not changed:
            return False
        tidy(trial.module)
        case = trial.case
        smaller = cost(case)
        if smaller >= self.cost or find_faults(case.module):
            return False
        self.left -= 1
        with at_most_rounds(MOST_ROUNDS):
            if not self._ends(case) or not self.still_fails(case):
                return False
        self.case, self.cost, self.values = case, smaller, None
        return True

    def _ends(self, case: Case) -> bool:
        """Whether the loops of a module end, as far as can be told: one that is changed may have a condition that always holds."""
        if case.inputs is None or not any(op.name.endswith(".while") for op in case.module.walk()):
            return True
        try:
            evaluate(case.module, case.inputs)
        except TooManyRounds:
            return False
        except PolyremeError:
            pass
        return True

    def known_values(self) -> dict[int, Sequence[Array]]:
        """What the ops in `main` make, by their positions; nothing when the module does not run."""
        if self.values is None:
            made: dict[Op, Sequence[Array]] = {}

            def watch(op: Op, _: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
                if all(isinstance(r.type, TensorType) for r in op.results) and isinstance(op.parent_op, Func):
                    made[op] = [np.asarray(r) for r in results]
                return results

            assert self.case.inputs is not None
            try:
                evaluate(self.case.module, self.case.inputs, watch=watch)
            except PolyremeError:
                made = {}
            self.values = {i: made[op] for i, op in enumerate(self.case.module.walk()) if op in made}
        return self.values


def _is_inside(op: Op, module: Module) -> bool:
    at: Op | None = op
    while at is not None and at is not module:
        at = at.parent_op
    return at is module


def tidy(module: Module) -> None:
    """Erase pure ops that nothing uses and bring the functions' types in line with what they take and return."""
    for func in module.functions:
        erase_unused(func)
        if isinstance(func.block.last, Return):
            func.finish()
            if len(func.attributes["result_names"]) != len(func.block.terminator.operands):
                func.attributes["result_names"] = ()


# --- steps


def _in_main(op: Op) -> bool:
    func = op.parent_op
    return isinstance(func, Func) and func.sym_name == "main"


def _makes_tensors(op: Op) -> bool:
    return _in_main(op) and bool(op.results) and all(isinstance(r.type, TensorType) for r in op.results)


def _isolate(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """main = one op: its operands become arguments, its results what is returned."""
    main = trial.main
    assert main is not None
    main.block.terminator.set_operands(op.results, (len(op.results),))
    return True


def _cut(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """op(…) -> an argument with the same value"""
    if trial.inputs is not None and len(values) != len(op.results):
        return False
    for result, array in zip(op.results, values or [None] * len(op.results), strict=True):  # type: ignore[list-item]
        if result.uses:
            trial.cut(result, array)
    return True


def _return_one(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """return a, b, c -> return b"""
    op.set_operands([op.operands[way]], (1,))
    return True


def _return_operand(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """return op(a, b) -> return a"""
    value = _operands_of_results(op)[way]
    op.set_operands([value], (1,))
    return True


def _operands_of_results(op: Op) -> list[Value]:
    found = [v for result in op.operands for v in getattr(result.producer(), "operands", ())]
    return [v for v in dict.fromkeys(found) if isinstance(v.type, TensorType)]


def _forward(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """op(a, b) -> a, where the types are equal"""
    op.results[0].replace_all_uses_with(_equal_operands(op)[way])
    return True


def _equal_operands(op: Op) -> list[Value]:
    return [v for v in dict.fromkeys(op.operands) if v.type == op.results[0].type]


def _erase(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """An op whose results nothing uses goes, whatever else it does."""
    if op.is_used:
        return False
    op.erase()
    return True


def _inline(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """op { ops } -> ops, once"""
    return inline_region(op, way)


def inline_region(op: Op, region: int, arguments: Sequence[Value] | None = None) -> bool:
    """Put what is in a region of `op` in its place, if operands of it fit the region's arguments and what the region passes on fits the
    results.
    """
    block = op.regions[region].block
    given = _fitting(op.operands, [a.type for a in block.args]) if arguments is None else arguments
    last = block.last
    if given is None or last is None or [v.type for v in last.operands] != [r.type for r in op.results]:
        return False
    for arg, value in zip(block.args, given, strict=True):
        arg.replace_all_uses_with(value)
    passed = list(last.operands)
    last.erase()
    assert op.parent is not None
    for inner in block:
        inner.detach()
        op.parent.insert(inner, op)
    op.replace_with(*passed)
    return True


def _fitting(values: Sequence[Value], wanted: Sequence[Type]) -> list[Value] | None:
    """The first of `values` that have the types `wanted`, in order."""
    found: list[Value] = []
    for value in values:
        if len(found) < len(wanted) and value.type == wanted[len(found)]:
            found.append(value)
    return found if len(found) == len(wanted) else None


def _drop_function(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """A function that nothing calls goes."""
    assert isinstance(op, Func)
    if any(o.attributes.get("callee") == SymbolRef(op.sym_name) for o in trial.module.walk()):
        return False
    op.erase()
    return True


def _drop_argument(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """An argument that nothing uses goes."""
    assert isinstance(op, Func)
    if op.args[way].uses or op.arg_roles[way : way + 1] and op.arg_roles[way] in RESULT_ROLES and op.sym_name == "main":
        return False
    if op.sym_name == "main" and trial.inputs is not None:
        del trial.inputs[way - sum(role in RESULT_ROLES for role in op.arg_roles[:way])]
    trial.drop_argument(op, way)
    return True


def _default(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """An attribute takes its default."""
    name = _unusual(op)[way]
    op.attributes[name] = op.definition.attributes[name].default
    _infer_again(trial.module)
    return True


def _unusual(op: Op) -> list[str]:
    if isinstance(op, (Module, Func)):
        return []
    return [
        n
        for n, part in op.definition.attributes.items()
        if isinstance(part.default, (bool, int, float, str, tuple)) and op.attributes[n] != part.default
    ]


# --- sizes

_SMALLER: tuple[Callable[[int], int], ...] = (lambda d: 1, lambda d: 2, lambda d: d // 2, lambda d: d - 1)
# Which elements of an axis stay: the first ones, or the last ones.
_WAYS = [(smaller, end) for smaller in _SMALLER for end in (False, True)]


def _sizes(op: Op) -> list[int]:
    """The sizes above 1 in the types of `main`'s arguments and ops, in order."""
    if not isinstance(op, Module):
        return []
    found: dict[int, None] = {}
    for inner in op.walk():
        values: list[Value] = [*inner.results, *(a for r in inner.regions for b in r.blocks for a in b.args)]
        for value in values:
            for dim in getattr(value.type, "shape", ()):
                if isinstance(dim, int) and dim > 1:
                    found[dim] = None
    return list(found)


def size_change(op: Op, way: int) -> tuple[int, int, bool]:
    """The size that a way of shrinking changes, what to, and whether the last elements stay, not the first."""
    old = _sizes(op)[way // len(_WAYS)]
    smaller, end = _WAYS[way % len(_WAYS)]
    return old, smaller(old), end


def _shrink(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """A size becomes smaller wherever it stands: in types, in attributes that hold sizes, in constants and inputs."""
    old, new, end = size_change(op, way)
    if not 0 < new < old:
        return False
    if trial.inputs is not None:
        main = trial.main
        assert main is not None
        given = [a for a, role in zip(main.args, main.arg_roles or ("input",) * len(main.args), strict=True) if role not in RESULT_ROLES]
        trial.inputs = [x[_corner(a.type.shape, old, new, end)] for a, x in zip(given, trial.inputs, strict=True)]
    _map_types(trial.module, lambda kind: _smaller_type(kind, old, new))
    for inner in trial.module.walk():
        for name, part in inner.definition.attributes.items():
            value = inner.attributes[name]
            if isinstance(value, Dense):
                inner.attributes[name] = Dense(np.ascontiguousarray(value.array[_corner(value.array.shape, old, new, end)]))
            elif part.kind == Dim and value == old:
                inner.attributes[name] = new
            elif Dim in get_args(part.kind) and isinstance(value, tuple):
                inner.attributes[name] = tuple(new if d == old else d for d in value)
    _infer_again(trial.module)
    return True


def _corner(shape: Sequence[Any], old: int, new: int, end: bool) -> tuple[slice, ...]:
    kept = slice(old - new, old) if end else slice(0, new)
    return tuple(kept if d == old else slice(None) for d in shape)


def _smaller_type(kind: Type, old: int, new: int) -> Type:
    if isinstance(kind, (TensorType, BufferType)):
        return replace(kind, shape=tuple(new if d == old else d for d in kind.shape))
    return kind


def _known_sizes(trial: Trial, op: Op, way: int, values: Sequence[Array]) -> bool:
    """Sizes with names become what they are for the inputs, or 2 where there are none."""
    main = trial.main
    sizes: dict[str, Dim] = dict.fromkeys(_names(trial.module), 2)
    if trial.inputs is not None and main is not None:
        roles = main.arg_roles or ("input",) * len(main.args)
        given = [i for i, role in enumerate(roles) if role not in RESULT_ROLES]
        sizes.update(bind_sizes(main, dict(zip(given, trial.inputs, strict=True))))
    _map_types(trial.module, lambda kind: substitute_type(kind, sizes))
    for inner in trial.module.walk():
        inner.attributes = {name: _known(value, sizes) for name, value in inner.attributes.items()}
    _infer_again(trial.module)
    return True


def _names(module: Module) -> list[str]:
    """The names of sizes in the types of functions' arguments."""
    return sorted(frozenset().union(*(type_symbols(a.type) for f in module.functions for a in f.args)))


def _known(value: Any, sizes: dict[str, Dim]) -> Any:
    if isinstance(value, Expr):
        return substitute(value, sizes)
    if isinstance(value, tuple):
        return tuple(_known(v, sizes) for v in value)
    return substitute_type(value, sizes) if isinstance(value, (TensorType, BufferType)) else value


def _map_types(module: Module, change: Callable[[Type], Type]) -> None:
    for op in module.walk():
        for result in op.results:
            result.type = change(result.type)
        for region in op.regions:
            for block in region.blocks:
                for arg in block.args:
                    arg.type = change(arg.type)


def _infer_again(module: Module) -> None:
    """Give every result the type that follows from the operands; `InferError` where none does."""
    for op in module.walk():
        if op.results and op.definition.infers and not op.regions:
            for result, kind in zip(op.results, op.definition.infer(op.operands, op.segments, op.attributes, op.regions), strict=True):
                result.type = kind


def _computes(op: Op) -> bool:
    return not op.has(ConstantLike) and not op.has(Terminator)


KNOWN_SIZES = Step("known-sizes", lambda op: int(isinstance(op, Module) and bool(_names(op))), _known_sizes, alone=True)
ISOLATE = Step("isolate", lambda op: int(_makes_tensors(op) and _computes(op)), _isolate, alone=True)
CUT = Step("cut", lambda op: int(_makes_tensors(op) and _computes(op)), _cut, needs_values=True)
SHRINK = Step("shrink", lambda op: len(_sizes(op)) * len(_WAYS), _shrink, alone=True)
STEPS: tuple[Step, ...] = (
    KNOWN_SIZES,
    Step(
        "return-one",
        lambda op: len(op.operands) if isinstance(op, Return) and len(op.operands) > 1 and _in_main(op) else 0,
        _return_one,
        alone=True,
    ),
    Step(
        "return-operand",
        lambda op: len(_operands_of_results(op)) if isinstance(op, Return) and _in_main(op) else 0,
        _return_operand,
        alone=True,
    ),
    CUT,
    ISOLATE,
    Step("drop-function", lambda op: int(isinstance(op, Func) and op.sym_name != "main"), _drop_function),
    Step("erase", lambda op: int(not isinstance(op, (Module, Func)) and not op.has(Terminator)), _erase),
    Step("forward", lambda op: len(_equal_operands(op)) if len(op.results) == 1 else 0, _forward),
    Step("inline", lambda op: len(op.regions) if not isinstance(op, (Module, Func)) else 0, _inline),
    Step("drop-argument", lambda op: len(op.args) if isinstance(op, Func) else 0, _drop_argument),
    SHRINK,
    Step("default", lambda op: len(_unusual(op)), _default),
)
