"""The verifier: whether a module keeps every invariant that the rest of the compiler relies on. It reports all faults, not the first.
A fault of invariant 7 has the code E0207, and so on.

Structure
 1. A module holds functions only, whose names differ, and its block takes no arguments. Other ops have the regions they declare, each with
    one block.
 2. Links agree both ways: op and block, block and region, region and op, neighbours in a block, results and arguments with owner and index.
 3. The number of operands fits the declaration, and `segments` splits them as it says.
 4. Use lists are exact: every operand is noted as a use of its value, every noted use is an operand of an op inside the module.
 5. Regions nest at most `MAX_DEPTH` deep.

Values
 6. A value is defined before it is used, in the same block or one around it, and never across an `IsolatedFromAbove` op.
 7. Every block but a module's ends with a terminator, the only one in it; `func.return` ends functions and nothing else.

Meaning
 8. Attributes are those declared, each of its kind and among its choices, in normal form.
 9. Result types are what `infer` gives again.
10. Types are well formed: sizes are from 0 to `MAX_SIZE`, the rank is at most `MAX_RANK`, vectors have lanes.
11. A function's type is that of its arguments and of what it returns; names and roles, where given, are one per argument or result.
12. Calls name a function of the module, and operands and results are what it takes and gives, for some choice of its sizes.
13. Every symbolic size in a function is the size of an axis of one of its arguments, or of a result of an earlier op that `BindsSizes`, in
    the same block or one around it; in a function on buffers it may also be one of `main`'s. An axis of size `8*N+3` tells `N`, too.
14. Calls form no circle: no function calls itself, directly or not.
15. An op that is `Pure` has only pure ops in its regions.

Collectives
16. A value of type `pending` is used by `dist.wait` only, and by at least one; it is no argument and no result of a function.

Kernels
17. A function on buffers takes buffers and, if it is a kernel, index values; it returns nothing.
18. Memory of role "input", "param", "packed" or "constant", and that of `kernel.data`, is not written, neither in the function nor by what
    it calls.
19. Memory of the arena, at offsets that are multiples of 64, and `kernel.data` stand in `main` and `prepare`, local memory in kernels,
    shared memory in kernels that are launched.
20. What asks for a thread's place or for other threads stands in kernels that are launched, and barriers where all threads of a block come:
    not under a condition or in a loop that differs from thread to thread.
21. Not every iteration of a `kernel.parallel` writes to the same place.

Sizes
22. Guards of a function read as `ir/sizes/facts.py` has them, and are about sizes that its arguments tell; its ranges are about its
    arguments.

What 17, 19 and 20 say of where things stand is asked of functions that somebody runs: `main`, `prepare`, and those that are called.

Not checked, since no look at the text can tell: positions lie inside their buffers, memory is written before it is read, iterations of
`kernel.parallel` and threads between two barriers touch different places (beyond 21), buffers that are live together lie apart in the
arena, and all ranks make the same collective calls. The evaluator, the PTX runner and the null device find breaches of these when a module
runs.

Invariants 16 to 21 are their dialects' own: a dialect adds a check by `invariants_of`. It runs where 1 to 8 hold, so that it may rely on
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from polyreme.ir.attributes import SymbolRef
from polyreme.ir.builtin import RESULT_ROLES, Func, Module, Return
from polyreme.ir.core import Block, Op, OpResult, Region, Use, Value
from polyreme.ir.debug.notes import definition_note, operand_notes
from polyreme.ir.define import BindsSizes, IsolatedFromAbove, Pure, Terminator, is_pure
from polyreme.ir.diagnostics import Diagnostic, InferError, VerifyError, did_you_mean
from polyreme.ir.dims import Dim, Expr, line_of, substitute, symbols, told
from polyreme.ir.sizes.facts import Guard
from polyreme.ir.sizes.ranges import Range
from polyreme.ir.types import BufferType, FunctionType, PendingType, TensorType, Type, VectorType, type_symbols

MAX_DEPTH = 64
MAX_RANK = 32
MAX_SIZE = 2**63 - 1

ROLES = ("input", "param", "packed", "constant", "state", *RESULT_ROLES)


class Report(Protocol):
    """Notes a fault of `op`: its code, what was expected and what is there, and notes."""

    def __call__(self, code: str, message: str, op: Op, *notes: Diagnostic) -> None: ...


CheckT = TypeVar("CheckT", bound=Callable[[Op, Report], None])

CHECKS: dict[str, Callable[[Op, Report], None]] = {}
# With faults of these a module cannot be walked and read as its ops declare.
_STRUCTURE = frozenset(f"E02{n:02}" for n in range(1, 9))


def invariants_of(dialect: str) -> Callable[[CheckT], CheckT]:
    """Let the decorated function check the invariants of a dialect's own, in every module (or function) that has ops of it."""

    def add(check: CheckT) -> CheckT:
        CHECKS[dialect] = check
        return check

    return add


def verify(op: Op, source: str | None = None) -> None:
    """Raise `VerifyError` with every fault of `op` and what is in it; `source` is the text it was read from, for the excerpts."""
    faults = find_faults(op)
    if faults:
        raise VerifyError(_with_source(f, op.location.file, source) for f in faults)


def _with_source(fault: Diagnostic, file: str, source: str | None) -> Diagnostic:
    notes = tuple(_with_source(n, file, source) for n in fault.notes)
    return replace(fault, notes=notes, source=source if fault.location.file == file else None)


def find_faults(op: Op) -> list[Diagnostic]:
    """The faults of `op` and what is in it, in order of the text."""
    verifier = _Verifier(op)
    verifier.op(op, set(), 0)
    verifier.uses()
    verifier.dialects()
    return list(dict.fromkeys(verifier.faults))


class _Verifier:
    def __init__(self, root: Op):
        self.root = root
        self.faults: list[Diagnostic] = []
        self.met: dict[Op, None] = {}
        self.sound: set[tuple[Any, ...]] = set()  # what is known in this function to fit its declaration, see `_likeness`
        self.checked: list[Op] = []  # the ops that were found to fit it, or not, by looking
        self.calls: list[tuple[Op, str]] = []
        self.has_ring = False
        self.has_circle = False
        self.is_cut = False

    def fault(self, code: str, message: str, op: Op, *notes: Diagnostic) -> None:
        """Note a fault; its code is `E02` and the number of the invariant."""
        self.faults.append(Diagnostic(message, op.location, notes, code=code))

    # --- the walk

    def op(self, op: Op, visible: set[Value], depth: int) -> None:
        self.met[op] = None
        if op.definition is None:
            self.fault("E0201", f"expected a declared op but got an instance of {type(op).__name__}", op)
            return
        self.links(op, visible)
        if op.regions or op.definition.regions:
            self.nested(op, visible, depth)
        else:
            likeness = _likeness(op)
            if likeness is None or likeness not in self.sound:
                before = len(self.faults)
                if self.declared(op):
                    self.inferred(op)
                if likeness is not None and len(self.faults) == before:
                    self.sound.add(likeness)
        if depth >= MAX_DEPTH:
            self.fault("E0205", f"expected regions to nest at most {MAX_DEPTH} deep", op)
            self.is_cut = True

    def nested(self, op: Op, visible: set[Value], depth: int) -> None:
        """An op with regions, and what is in them."""
        first = len(self.checked)
        well_formed = self.declared(op) & self.regions(op)
        if depth >= MAX_DEPTH:
            return
        if isinstance(op, Func):
            self.sound.clear()
        inside = set() if op.has(IsolatedFromAbove) else visible
        for region in op.regions:
            for block in region.blocks:
                self.block(op, block, inside, depth)
        if self.has_ring:
            # What follows walks over the ops and would not come back.
            return
        if well_formed:
            # Only now, because `infer` may read the regions.
            self.inferred(op)
        if op.has(Pure):
            self.purity(op)
        if isinstance(op, Module) and op.regions:
            self.module(op)
        elif isinstance(op, Func):
            self.func(op, self.checked[first:])

    def purity(self, op: Op) -> None:
        for inner in op.walk():
            if inner is not op and not is_pure(inner) and not inner.has(Terminator):
                self.fault("E0215", f"expected only pure ops in '{op.name}' but got '{inner.name}'", inner)

    def block(self, op: Op, block: Block, visible: set[Value], depth: int) -> None:
        defined: list[Value] = list(block.args)
        visible.update(block.args)
        for i, arg in enumerate(block.args):
            if arg.block is not block or arg.index != i:
                self.fault("E0202", f"argument {i} of a block of '{op.name}' does not know its place", op)
            self.type(arg.type, op, f"argument {i} of a block of")
        before: Op | None = None
        inner = block.first
        while inner is not None:
            if inner in self.met:
                self.fault("E0202", f"the ops in a block of '{op.name}' form a ring", op)
                self.has_ring = True
                break
            if inner.parent is not block:
                self.fault("E0202", f"'{inner.name}' does not know the block it stands in", inner)
            if inner.prev is not before:
                self.fault("E0202", f"'{inner.name}' does not know the op before it", inner)
            if inner is not block.last and inner.has(Terminator):
                self.fault("E0207", f"expected '{inner.name}' to end its block but more ops follow", inner)
            self.op(inner, visible, depth + 1)
            visible.update(inner.results)
            defined += inner.results
            before = inner
            inner = inner.next
        if before is not block.last:
            self.fault("E0202", f"a block of '{op.name}' does not know its last op", op)
        self.terminator(op, block)
        visible.difference_update(defined)

    def terminator(self, op: Op, block: Block) -> None:
        last = block.last
        if isinstance(op, Module):
            return
        if last is None or not last.has(Terminator):
            got = f"it ends with '{last.name}'" if last is not None else "it is empty"
            self.fault("E0207", f"expected a block of '{op.name}' to end with a terminator but {got}", last or op)
        elif isinstance(last, Return) != isinstance(op, Func):
            wanted = "'func.return'" if isinstance(op, Func) else "a terminator of its own dialect"
            self.fault("E0207", f"expected '{op.name}' to end with {wanted} but got '{last.name}'", last)

    # --- parts of an op

    def links(self, op: Op, visible: set[Value]) -> None:
        """What no other op can vouch for: the values that this one uses, and those it makes."""
        if not visible.issuperset(op._operands):
            for i, value in enumerate(op._operands):
                if value in visible:
                    continue
                self.fault("E0206", f"operand {i} of '{op.name}', {value!r}, {self.why_hidden(value, op)}", op, *definition_note(value))
        for i, result in enumerate(op.results):
            if not isinstance(result, OpResult) or result.op is not op or result.index != i:
                self.fault("E0202", f"result {i} of '{op.name}' does not know its place", op)

    def declared(self, op: Op) -> bool:
        """Whether operands, attributes and results are as the op declares them."""
        self.checked.append(op)
        return self.operands(op) & self.attributes(op) & self.results(op)

    def operands(self, op: Op) -> bool:
        definition = op.definition
        count = len(op.operands)
        fits = True
        if op.segments is None:
            if not definition.plain or count != len(definition.operands):
                fits = False
        elif len(op.segments) != len(definition.operands) or sum(op.segments) != count or min(op.segments, default=0) < 0:
            fits = False
        else:
            most = {"one": (1, 1), "optional": (0, 1), "variadic": (0, count)}
            fits = all(most[o.arity][0] <= n <= most[o.arity][1] for o, n in zip(definition.operands, op.segments, strict=True))
        if not fits:
            split = f", split as {list(op.segments)}" if op.segments is not None else ""
            self.fault("E0203", f"expected operands ({_signature(definition)}) for '{op.name}' but got {count}{split}", op)
        return fits

    def why_hidden(self, value: Value, op: Op) -> str:
        owner = value.owner
        at: Op | None = owner if isinstance(owner, Op) else owner.parent_op
        top = at
        while top is not None and top is not self.root and top.parent_op is not None:
            top = top.parent_op
        if at is None or top is not self.root:
            return "is not defined in the module"
        block = owner.parent if isinstance(owner, Op) else owner
        for around in _around(op):
            if around is not op and around.has(IsolatedFromAbove) and _is_within(around, block):
                return f"is defined outside of '{around.name}', which uses nothing from outside"
            if around.parent is block:
                return "is used before it is defined"
        if _function_of(op) is not _function_of(at):
            return "is defined in another function"
        return "is defined in a region that does not enclose this use"

    def attributes(self, op: Op) -> bool:
        before = len(self.faults)
        callee = op.attributes.get("callee")
        if isinstance(callee, SymbolRef):
            self.calls.append((op, callee.name))
        declared = op.definition.attributes
        for name in op.attributes:
            if name not in declared:
                self.fault("E0208", f"'{op.name}' has no attribute '{name}'{did_you_mean(name, declared)}", op)
        for name, part in declared.items():
            if name not in op.attributes:
                self.fault("E0208", f"expected an attribute '{name}' for '{op.name}'", op)
                continue
            value = op.attributes[name]
            try:
                normal = part.bind(value)
            except InferError as error:
                self.fault("E0208", f"'{op.name}': {error.diagnostics[0].message}", op)
                continue
            if type(normal) is not type(value) or (normal != value and normal == normal):
                self.fault("E0208", f"expected the attribute '{name}' of '{op.name}' in the form {normal!r} but got {value!r}", op)
        return len(self.faults) == before

    def results(self, op: Op) -> bool:
        before = len(self.faults)
        for i, result in enumerate(op.results):
            self.type(result.type, op, f"result {i} of")
        return len(self.faults) == before

    def type(self, kind: Type, op: Op, what: str) -> None:
        if isinstance(kind, (TensorType, PendingType, BufferType)):
            if len(kind.shape) > MAX_RANK:
                self.fault("E0210", f"expected a rank of at most {MAX_RANK} for {what} '{op.name}' but got {len(kind.shape)}", op)
            if any(isinstance(d, int) and not 0 <= d <= MAX_SIZE for d in kind.shape):
                self.fault("E0210", f"expected sizes from 0 to {MAX_SIZE} for {what} '{op.name}' but got {kind}", op)
        elif isinstance(kind, VectorType) and kind.lanes < 1:
            self.fault("E0210", f"expected a vector with lanes for {what} '{op.name}' but got {kind}", op)

    def regions(self, op: Op) -> bool:
        before = len(self.faults)
        declared = len(op.definition.regions)
        if len(op.regions) != declared:
            self.fault("E0201", f"expected {declared} regions for '{op.name}' but got {len(op.regions)}", op)
        for region in op.regions:
            if not isinstance(region, Region) or region.parent is not op:
                self.fault("E0202", f"a region of '{op.name}' does not know its op", op)
            if len(region.blocks) != 1:
                self.fault("E0201", f"expected one block in each region of '{op.name}' but got {len(region.blocks)}", op)
            if any(block.parent is not region for block in region.blocks):
                self.fault("E0202", f"a block of '{op.name}' does not know its region", op)
        return len(self.faults) == before

    def inferred(self, op: Op) -> None:
        if not op.definition.infers:
            return
        try:
            wanted = op.definition.infer(op.operands, op.segments, op.attributes, op.regions)
        except InferError as error:
            self.fault("E0209", error.diagnostics[0].message, op, *operand_notes(op.operands))
            return
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # An inference that trips is a fault of this op like any other, and must not hide those of the rest.
            self.fault(
                "E0209", f"the types of '{op.name}' cannot be inferred: {type(error).__name__}: {error}", op, *operand_notes(op.operands)
            )
            return
        got = tuple(r.type for r in op.results)
        if got != wanted:
            self.fault("E0209", f"expected '{op.name}' to result in {_list(wanted)} but got {_list(got)}", op, *operand_notes(op.operands))

    # --- what dialects add

    def dialects(self) -> None:
        if self.has_circle or any(fault.code in _STRUCTURE for fault in self.faults):
            return
        for dialect in dict.fromkeys(op.dialect for op in self.met):
            if dialect in CHECKS:
                CHECKS[dialect](self.root, self.fault)

    # --- use lists

    def uses(self) -> None:
        """That use lists are exact. Every noted use that holds is an operand of its own, so as many of them as there are operands are all
        there are.
        """
        if self.is_cut:
            return  # uses in what was left out would seem to be missing
        noted = 0
        for op in self.met:
            values: list[Value] = op.results  # type: ignore[assignment]
            if op.regions:
                values = [*values, *(a for r in op.regions for b in r.blocks for a in b.args)]
            for value in values:
                for user, index in value.uses:
                    if not 0 <= index < len(user._operands) or user._operands[index] is not value:
                        self.fault("E0204", f"{value!r} notes a use by '{user.name}' that is not there", op)
                    elif user not in self.met:
                        self.fault("E0204", f"{value!r} is used by '{user.name}', which is not in the module", op)
                    else:
                        noted += 1
        if noted == sum(len(op._operands) for op in self.met):
            return
        for op in self.met:
            for i, value in enumerate(op._operands):
                if Use(op, i) not in value.uses:
                    self.fault("E0204", f"operand {i} of '{op.name}' is not in the use list of {value!r}", op)

    # --- modules, functions, calls

    def module(self, module: Module) -> None:
        if module.block.args:
            self.fault("E0201", f"expected no arguments of a module but got {_list(a.type for a in module.block.args)}", module)
        found: dict[str, Func] = {}
        for op in module.block:
            if not isinstance(op, Func):
                self.fault("E0201", f"expected only functions in a module but got '{op.name}'", op)
            elif op.attributes.get("sym_name") in found:
                self.fault(
                    "E0201",
                    f"the function '@{op.sym_name}' is defined twice",
                    op,
                    Diagnostic("the other one is here", found[op.sym_name].location),
                )
            else:
                found[op.attributes.get("sym_name", "")] = op
        for op, name in self.calls:
            self.call(op, name, found)
        self.circles(found)

    def call(self, op: Op, name: str, functions: dict[str, Func]) -> None:
        if name not in functions:
            self.fault("E0212", f"'{op.name}' calls '@{name}', which is no function of the module{did_you_mean(name, functions)}", op)
            return
        kind = functions[name].attributes.get("function_type")
        if not isinstance(kind, FunctionType):
            return
        sizes: dict[str, Dim] = {}
        given = [v.type for v in op.operands]
        if len(given) != len(kind.inputs):
            self.fault("E0212", f"expected {len(kind.inputs)} arguments for '@{name}' but got {len(given)}", op)
            return
        for wanted, got in zip(kind.inputs, given, strict=True):
            _bind(wanted, got, sizes)
        for i, (wanted, got) in enumerate(zip(kind.inputs, given, strict=True)):
            if _with_sizes(wanted, sizes) != got:
                self.fault("E0212", f"expected argument {i} of '@{name}' to be {wanted} but got {got}", op)
        results = tuple(_with_sizes(t, sizes) for t in kind.results)
        got_results = tuple(r.type for r in op.results)
        if results != got_results:
            self.fault("E0212", f"expected the call of '@{name}' to result in {_list(results)} but got {_list(got_results)}", op)

    def circles(self, functions: dict[str, Func]) -> None:
        """That calls form no circle; each circle is reported once, at the call that closes it."""
        calls: dict[str, list[tuple[Op, str]]] = {}
        for op, name in self.calls:
            caller = _function_of(op)
            if name in functions and isinstance(caller, Func):
                calls.setdefault(caller.attributes.get("sym_name", ""), []).append((op, name))
        done: set[str] = set()
        for start in calls:
            # Depth first, with the path on a stack of our own: chains of calls may be long.
            path, pending = [start], [iter(calls[start])]
            while pending:
                call = next(pending[-1], None)
                if call is None:
                    done.add(path.pop())
                    pending.pop()
                    continue
                op, name = call
                if name in path:
                    self.has_circle = True
                    circle = " calls ".join(f"'@{n}'" for n in [*path[path.index(name) :], name])
                    self.fault("E0214", f"expected calls without a circle but {circle}", op)
                elif name not in done:
                    path.append(name)
                    pending.append(iter(calls.get(name, ())))
            done.add(start)

    def func(self, func: Func, checked: Sequence[Op]) -> None:
        kind = func.attributes.get("function_type")
        if not isinstance(kind, FunctionType) or len(func.regions) != 1 or len(func.regions[0].blocks) != 1:
            return
        name = f"'@{func.attributes.get('sym_name')}'"
        args = tuple(a.type for a in func.args)
        if kind.inputs != args:
            self.fault("E0211", f"the type of {name} says that it takes {_list(kind.inputs)} but it takes {_list(args)}", func)
        last = func.block.last
        if isinstance(last, Return):
            returned = tuple(v.type for v in last.operands)
            if kind.results != returned:
                self.fault("E0211", f"the type of {name} says that it returns {_list(kind.results)} but it returns {_list(returned)}", last)
        for attribute, count in (("arg_names", len(args)), ("arg_roles", len(args)), ("result_names", len(kind.results))):
            given = func.attributes.get(attribute, ())
            if given and len(given) != count:
                self.fault("E0211", f"expected {count} entries in '{attribute}' of {name} but got {len(given)}", func)
        for role in func.attributes.get("arg_roles", ()):
            if role not in ROLES:
                self.fault(
                    "E0211", f"expected the roles of {name} to be of {', '.join(ROLES)} but got '{role}'{did_you_mean(role, ROLES)}", func
                )
        self.sizes(func, name, checked)

    def sizes(self, func: Func, name: str, checked: Sequence[Op]) -> None:
        """That all sizes are bound; of ops that are alike, the first one in `checked` speaks for the others."""
        bound = _sizes_of(func.args)
        self.guards(func, name, bound)
        self.ranges(func, name)
        if any(isinstance(a.type, BufferType) for a in func.args):
            module = func.parent_op
            if isinstance(module, Module):
                bound |= {s for f in module.functions if f.attributes.get("sym_name") == "main" for s in _sizes_of(f.args)}
        reported: set[str] = set()
        inside: dict[Block | None, set[str]] = {}  # what is learnt in a body is known in it only
        for op, used in _sizes_used(func, checked):
            if op.has(BindsSizes):
                inside.setdefault(op.parent, set()).update(_sizes_of(op.results))
            known = bound.union(*(inside[at.parent] for at in _around(op) if at.parent in inside)) if inside else bound
            for size in sorted(used - known - reported):
                reported.add(size)
                self.fault("E0213", f"the size '{size}' is not the size of an axis of any argument of {name}", op)


    def ranges(self, func: Func, name: str) -> None:
        known = func.arg_names or tuple(arg.name or f"arg{i}" for i, arg in enumerate(func.args))
        for text in func.attributes.get("ranges", ()):
            try:
                argument = Range.parse(text).argument
            except ValueError as error:
                self.fault("E0222", f"{error}, in {name}", func)
                continue
            if argument not in known:
                self.fault("E0222", f"the range {text!r} of {name} is about '{argument}', which is no argument", func)

    def guards(self, func: Func, name: str, bound: set[str]) -> None:
        for text in func.attributes.get("guards", ()):
            try:
                used = symbols(Guard.parse(text).size)
            except ValueError as error:
                self.fault("E0222", f"{error}, in {name}", func)
                continue
            for size in sorted(used - bound):
                self.fault(
                    "E0222",
                    f"the guard {text!r} of {name} is about the size '{size}', which is not the size of an axis of any argument",
                    func,
                )


def _sizes_of(values: Iterable[Value]) -> set[str]:
    shapes = (v.type.shape for v in values if isinstance(v.type, (TensorType, BufferType)))
    return {found[0] for shape in shapes for d in shape if (found := line_of(d)) is not None}


def _sizes_used(func: Func, ops: Iterable[Op]) -> Iterator[tuple[Op, frozenset[str]]]:
    for op in ops:
        found = [type_symbols(r.type) for r in op.results]
        found += [type_symbols(a.type) for region in op.regions for block in region.blocks for a in block.args]
        if op is not func:  # its type says nothing that its arguments and what it returns do not say
            found += [_symbols_in(value) for value in op.attributes.values()]
        yield op, frozenset().union(*found)


def _symbols_in(value: Any) -> frozenset[str]:
    if isinstance(value, Expr):
        return symbols(value)
    if isinstance(value, tuple):
        return frozenset().union(*map(_symbols_in, value))
    if isinstance(value, (TensorType, BufferType, FunctionType)):
        return type_symbols(value)
    return frozenset()


def _bind(wanted: Type, got: Type, sizes: dict[str, Dim]) -> None:
    """Note which of the callee's sizes stand for which of the caller's."""
    if isinstance(wanted, (TensorType, BufferType)) and isinstance(got, (TensorType, BufferType)):
        for dim, size in zip(wanted.shape, got.shape, strict=False):
            if (found := told(dim, size)) is not None:
                sizes.setdefault(*found)


def _with_sizes(kind: Type, sizes: dict[str, Dim]) -> Type:
    if isinstance(kind, (TensorType, BufferType)):
        return kind.__class__(tuple(substitute(d, sizes) for d in kind.shape), kind.dtype)
    return kind


_PLAIN = frozenset((bool, int, str, type(None)))


def _likeness(op: Op) -> tuple[Any, ...] | None:
    """What decides whether an op without regions fits its declaration: ops with equal answers fit alike. None where that is not worth
    knowing.

    Types are told by identity, which is quick; the module keeps them alive meanwhile. Attributes are told with their classes, since 1
    equals True.
    """
    operands = op._operands
    if not operands:
        return None
    told: list[Any] = [op.__class__, op.segments, len(operands), *[id(v.type) for v in operands], *[id(r.type) for r in op.results]]
    for name, value in op.attributes.items():
        told += (name, value, value.__class__)
        if value.__class__ is tuple:
            kinds = tuple(map(type, value))
            told.append(kinds)
            if not _PLAIN.issuperset(kinds):
                return None
        elif value.__class__ not in _PLAIN:
            return None
    return tuple(told)


def _around(op: Op) -> Iterator[Op]:
    """The op and the ops it is inside of, from the inside out."""
    at: Op | None = op
    while at is not None:
        yield at
        at = at.parent_op


def _function_of(op: Op) -> Op | None:
    return next((a for a in _around(op) if isinstance(a, Func)), None)


def _is_within(op: Op, block: Block | None) -> bool:
    """Whether the op stands in the block, at any depth."""
    return any(a.parent is block for a in _around(op))


def _signature(definition: Any) -> str:
    marks = {"one": "", "optional": "?", "variadic": "…"}
    return ", ".join(o.name + marks[o.arity] for o in definition.operands) or "none"


def _list(types: Iterable[Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"
