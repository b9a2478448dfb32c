"""Writing one LLVM function: names of values, positions, addresses, sizes, and the walk over ops.

Positions are kept as a base plus a known offset until they are used. A base address is computed once per block, so the loads of an unrolled
loop share one register and differ in the displacement of the instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from polyreme.ir.builtin import Func, Module
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim, Expr, symbol
from polyreme.ir.types import BufferType, ScalarType, Type, VectorType, i32, index, is_index, type_symbols
from polyreme.lowering.analysis.program import Program
from polyreme.lowering.emit.llvm.facts import gather_facts
from polyreme.lowering.emit.llvm.libm import LIBM, LIBM_FLOAT32
from polyreme.lowering.emit.llvm.same_code import SameCode
from polyreme.lowering.emit.llvm.scalar_functions import apply_code, element, memory_element
from polyreme.lowering.emit.llvm.text import Lane, TextCode, comment_text, symbol_text
from polyreme.lowering.machines.targets import Target

T = TypeVar("T")
EmitOp = Callable[["FunctionEmitter", Any], Any]

# Functions that code generation itself may call or define.
RESERVED_FUNCTIONS = (
    "polyreme_parallel",
    "polyreme_parallel_rounds",
    "polyreme_pool_threads",
    "clock_gettime",
    "memcpy",
    "memset",
    "memmove",
    "fmod",
    "fmodf",
    "power.i8",
    "power.i16",
    "power.i32",
    "power.i64",
)
# Parameters and blocks that are not named after a value.
RESERVED_VALUES = ("entry", "pool", "buffers", "sizes", "arena", "out", "context")


def size_names(main: Func) -> tuple[str, ...]:
    """The names of the sizes that `main`'s arguments mention, in the order in which their values are passed: by name."""
    return tuple(sorted(frozenset().union(*(type_symbols(arg.type) for arg in main.args))))


class Emission:
    """One module on its way to text: what its functions share.

    With `split` the functions end up in several texts, each compiled alone. Kernels then have names that nothing outside of the module has.
    Values are numbered and no comment gives their source, so that a text depends on nothing but its machine code.

    `main` reads sizes by name. A kernel has an array of its own, of what it reads alone (`Facts.sizes`), which its callers fill.
    """

    def __init__(
        self,
        module: Module | Program,
        target: Target,
        name: str,
        table: Mapping[type[Op], EmitOp],
        split: bool = False,
        kernels: str = "",
        same: SameCode | None = None,
    ):
        """`kernels` begins the names of kernels, where several modules are linked into one library. With `same`, kernels that are one code
        are emitted once.
        """
        self.split = split
        self.loops = 0  # how many have a note for LLVM
        self.kernels = kernels or "kernel"
        self.module = module
        self.table = table
        self.target = target
        self.name = name
        self.main = module.function("main")
        self.facts = gather_facts(module.functions, same.known if same is not None else None)
        self._same = same
        if same is not None:
            self._join_promises(same)
        self.sizes = {size: i for i, size in enumerate(size_names(self.main))}
        exported = (f"{name}_run", f"{name}_arena_bytes", f"{name}_output_shapes")
        self.taken = {*exported, *RESERVED_FUNCTIONS, *LIBM, *LIBM_FLOAT32}
        self.symbols: dict[str, str] = {}
        self.functions: list[str] = []
        self.called: dict[str, Func] = {}
        self.by_name = {func.sym_name: func for func in module.functions}
        self.emitted = tuple(func for func in module.functions if self.code_of(func) is func)
        if split:
            # All at once, so that names do not depend on which text is written first.
            for func in self.emitted:
                self.symbol(func)

    def code_of(self, func: Func) -> Func:
        """The function whose code a function is."""
        return func if self._same is None or func is self.main else self._same.first(func, self.facts[func.sym_name].ops)

    def _join_promises(self, same: SameCode) -> None:
        """One code promises of its arguments what holds wherever it is called."""
        for func in self.module.functions:
            facts, code = self.facts[func.sym_name], self.facts[self.code_of(func).sym_name]
            code.shared |= facts.shared

    def symbol(self, func: Func) -> str:
        """The LLVM name of a kernel."""
        name = func.sym_name
        if name not in self.symbols:
            self.symbols[name] = self.unique(f"{self.kernels}.{name}" if self.split else name)
        return self.symbols[name]

    def unique(self, name: str) -> str:
        """A name for an internal function that no other one has, also after odd characters are replaced."""
        plain = symbol_text(name)
        fresh, count = plain, 0
        while fresh in self.taken or fresh.startswith("llvm."):
            count += 1
            fresh = f"{self.kernels}.{plain}" if count == 1 else f"{self.kernels}.{plain}.{count}"
        self.taken.add(fresh)
        return fresh

    def finish(self, emitter: FunctionEmitter, head: str, func: Func | None = None) -> None:
        """Add the function that `emitter` has written under the line `head`."""
        comment = []
        if func is not None and not self.split:
            comment = [comment_text(f"@{func.sym_name}" + (f", {func.location}" if func.location else ""))]
        code = emitter.code
        self.functions.append("\n".join([*comment, f"{head} #0 {{", "entry:", *code.entry, *code.lines, "}"]))


def typed_lane(code: TextCode, type: Type, ref: str) -> Lane:
    """The value called `ref` as a `Lane` of the type; a buffer is a pointer."""
    if isinstance(type, BufferType):
        return Lane(code, "ptr", 1, ref)
    if isinstance(type, VectorType):
        return Lane(code, element(type.dtype), type.lanes, ref)
    if isinstance(type, ScalarType):
        return Lane(code, element(type), 1, ref)
    raise PolyremeError(f"expected a buffer, a scalar or a vector but got {type}", code="E0408")


def scalar_of(value: Value) -> ScalarType:
    """The element type of a scalar, vector or buffer."""
    type = value.type
    if type.__class__ is ScalarType:
        scalar: ScalarType = type
        return scalar
    assert isinstance(type, (VectorType, BufferType))
    return type.dtype


class EmittedPosition:
    """An index: `base` (None for 0) plus a known number. It is not changed."""

    __slots__ = ("base", "offset")

    def __init__(self, base: Lane | None, offset: int):
        self.base = base
        self.offset = offset


class FunctionEmitter:
    """One LLVM function: what values are called, and what was computed already where the code now stands.

    `index` is the LLVM type of index values, which a kernel for a GPU may have narrower than elsewhere.
    """

    index = "i64"

    def __init__(self, module: Emission, name: str):
        target = module.target
        self.module = module
        self.target = target
        self.name = name
        self.code = TextCode(target.fma, target.has("avx512f") and target.vector_bytes == 64, module.split, target.half_width_vectors)
        for reserved in RESERVED_VALUES:
            self.code.name(reserved)
        self.values: dict[Value, Any] = {}
        self.pool = self.size_array = self.arena = None  # type: Lane | None
        self._known: dict[Any, Any] = {}
        self._scopes: list[list[Any]] = []
        self._place = ""
        # where the function is a round of a loop: the iterations of its one parallel loop that it makes
        self.part: tuple[Lane, Lane] | None = None
        self.streams = False  # whether some store goes past the caches
        # where a kernel finds what it reads of sizes; None: by name
        self.own_sizes: Mapping[Expr, int] | None = None

    def loop_note(self, op: Op, rounds: int | None) -> str:
        """What stands behind the branch at the end of a loop of so many rounds."""
        return ""

    # --- values

    def bind(self, value: Value, lane: Any) -> None:
        """Let `value` stand for a `Lane` (a scalar index becomes a `EmittedPosition`)."""
        if isinstance(lane, Lane) and is_index(value.type):
            lane = EmittedPosition(None, int(lane.known)) if lane.known is not None else EmittedPosition(lane, 0)
        self.values[value] = lane

    def get(self, value: Value) -> Lane:
        """The value in a register."""
        found = self.values[value]
        return self.lane(found) if found.__class__ is EmittedPosition else found

    def lane(self, position: EmittedPosition) -> Lane:
        """A position as one number."""
        base, offset = position.base, position.offset
        if base is None:
            return Lane(self.code, self.index, 1, str(offset), offset)
        if offset == 0:
            return base
        return self.once(("+", base.ref, offset), lambda: base + offset)

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """What `compute` gives, computed at most once per block that sees it."""
        found: T | None = self._known.get(key)
        if found is None:
            found = self._known[key] = compute()
            if self._scopes:
                self._scopes[-1].append(key)
        return found

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed inside is forgotten at the end: it does not dominate what follows."""
        self._scopes.append([])
        yield
        for key in self._scopes.pop():
            del self._known[key]

    def named(self, type: Type, ref: str) -> Lane:
        """The value called `ref` as a `Lane` of the type."""
        dtype = type.dtype if isinstance(type, VectorType) else type
        return (
            Lane(self.code, self.index, type.lanes if isinstance(type, VectorType) else 1, ref)
            if dtype == index
            else typed_lane(self.code, type, ref)
        )

    def number(self, value: Value) -> ScalarType:
        """The element type of a scalar or vector; of index values the integers that stand for them."""
        dtype = scalar_of(value)
        return i32 if dtype == index and self.index == "i32" else dtype

    # --- positions and addresses

    def add(self, a: EmittedPosition, b: EmittedPosition) -> EmittedPosition:
        if a.base is None or b.base is None:
            return EmittedPosition(a.base or b.base, a.offset + b.offset)
        x, y = sorted((a.base, b.base), key=lambda lane: lane.ref)
        return EmittedPosition(self.once(("add", x.ref, y.ref), lambda: x.emit("add nsw", y, hint="i")), a.offset + b.offset)

    def subtract(self, a: EmittedPosition, b: EmittedPosition) -> EmittedPosition:
        if b.base is None:
            return EmittedPosition(a.base, a.offset - b.offset)
        x, y = a.base, b.base
        if x is not None and x.ref == y.ref:
            return EmittedPosition(None, a.offset - b.offset)
        minuend = x if x is not None else Lane(self.code, self.index, 1, "0", 0)
        return EmittedPosition(self.once(("sub", minuend.ref, y.ref), lambda: minuend.emit("sub nsw", y, hint="i")), a.offset - b.offset)

    def multiply(self, a: EmittedPosition, b: EmittedPosition) -> EmittedPosition:
        if a.base is None:
            a, b = b, a
        if b.base is None:
            factor, base = b.offset, a.base
            if base is None or factor == 0:
                return EmittedPosition(None, a.offset * factor)
            if factor == 1:
                return a
            return EmittedPosition(self.once(("mul", base.ref, factor), lambda: base.emit("mul nsw", factor, hint="i")), a.offset * factor)
        x, y = sorted((self.lane(a), self.lane(b)), key=lambda lane: lane.ref)
        return EmittedPosition(self.once(("mul", x.ref, y.ref), lambda: x.emit("mul nsw", y, hint="i")), 0)

    def address(self, buffer: Value, position: Value, inbounds: bool = True) -> Lane:
        """A pointer to an element. The part that is not known ahead is added first, and shared."""
        elem = memory_element(scalar_of(buffer))
        pointer, at = self.get(buffer), self.values[position]
        if at.base is not None:
            # Not inbounds: the base alone may lie outside when the offset brings it back.
            pointer = self._moved("getelementptr", elem, pointer, at.base.typed)
        if at.offset == 0:
            return pointer
        word = "getelementptr inbounds" if inbounds and at.base is None else "getelementptr"
        return self._moved(word, elem, pointer, f"i64 {at.offset}")

    def _moved(self, word: str, elem: str, start: Lane, by: str) -> Lane:
        """A pointer so many elements further, as `once` has it."""
        key = "gep", start.ref, elem, by
        found: Lane | None = self._known.get(key)
        if found is None:
            found = self.once(key, lambda: self.code.value(start.elem, 1, f"{word} {elem}, {start.typed}, {by}", "at"))
        return found

    def dim(self, dim: Dim) -> EmittedPosition:
        """A size from the model's sizes; names are read once."""
        if isinstance(dim, int):
            return EmittedPosition(None, dim)
        if (own := self.own_sizes) is not None:
            return EmittedPosition(self.once(("size", dim), lambda: self._load_size(own[dim], "size")), 0)
        return self.once(("dim", dim), lambda: self._sum_of(dim))

    def _sum_of(self, dim: Expr) -> EmittedPosition:
        total = EmittedPosition(None, 0)
        for monomial, coefficient in dim.terms:
            term = EmittedPosition(None, coefficient)
            for atom in monomial:
                term = self.multiply(term, self.atom(atom))
            total = self.add(total, term)
        return total

    def atom(self, atom: Any) -> EmittedPosition:
        if not atom.fn:
            return EmittedPosition(self.once(("size", atom.args[0]), lambda: self.read_size(atom.args[0])), 0)
        a, b = (self.lane(self.dim(arg)) for arg in atom.args)
        fn = {"floordiv": "floor_divide"}.get(atom.fn, atom.fn)
        return EmittedPosition(self.once((fn, a.ref, b.ref), lambda: apply_code(fn, [a, b], index, index, self.target)), 0)

    def read_size(self, name: str) -> Lane:
        if name not in self.module.sizes:
            known = ", ".join(self.module.sizes) or "none"
            raise PolyremeError(f"expected a size that an argument of '@main' has ({known}) but got '{name}'", code="E0409")
        return self._load_size(self.module.sizes[name], symbol_text(name))

    def _load_size(self, number: int, hint: str) -> Lane:
        return self.code.value("i64", 1, f"load i64, ptr {self._size_place(number).ref}", hint)

    def _size_place(self, number: int) -> Lane:
        assert self.size_array is not None
        if number == 0:
            return self.size_array
        return self.code.value("ptr", 1, f"getelementptr inbounds i64, ptr {self.size_array.ref}, i64 {number}", "at")

    def sizes_for(self, wanted: Sequence[Expr]) -> Lane:
        """The array of these sizes, for a kernel that is called: a part of the one that this function has, or one on the stack."""
        number = self._number_of(wanted[0])
        if number is not None and all(self._number_of(size) == number + i for i, size in enumerate(wanted)):
            return self.once(("sizes", number), lambda: self._size_place(number))
        return self.once(("sizes", tuple(wanted)), lambda: self._new_sizes(wanted))

    def _number_of(self, size: Expr) -> int | None:
        """Where a size stands in this function's array, if it does."""
        if self.own_sizes is not None:
            return self.own_sizes[size]
        return next((number for name, number in self.module.sizes.items() if symbol(name) == size), None)

    def _new_sizes(self, wanted: Sequence[Expr]) -> Lane:
        array = self.code.name("sizes")
        self.code.entry.append(f"  {array} = alloca [{len(wanted)} x i64]")
        for i, size in enumerate(wanted):
            value = self.lane(self.dim(size))
            place = array if i == 0 else self.code.value("ptr", 1, f"getelementptr inbounds i64, ptr {array}, i64 {i}", "at").ref
            self.code.line(f"store {value.typed}, ptr {place}")
        return Lane(self.code, "ptr", 1, array)

    # --- ops

    def leave(self) -> None:
        """Return. Stores past the caches keep no order with others until a fence: whoever is told that the function is done must find them.
        """
        if self.streams:
            self.code.line("call void @llvm.x86.sse.sfence()")
        self.code.line("ret void")

    def run_block(self, block: Block) -> list[Any]:
        """Write the ops of a block; what its terminator passes on."""
        table, plain, values = self.module.table, self.module.split, self.values
        op = block.first
        while op is not None:
            emit = table.get(op.__class__)
            if emit is None:
                raise PolyremeError(f"'{op.name}' has no machine code: expected an op of the kernel level", op.location, code="E0408")
            if not plain:
                self._name_after(op)
            results = emit(self, op)
            if results.__class__ is EmittedPosition or (results.__class__ is Lane and not is_index(op.results[0].type)):
                # Most ops by far: one result, in the form that it is kept in.
                (value,) = op.results
                values[value] = results
            elif results is not None:
                if len(op.results) == 1 and not isinstance(results, list):
                    results = [results]
                for result, lane in zip(op.results, results, strict=True):
                    self.bind(result, lane)
            op = op.next
        return [self.values[v] for v in block.terminator.operands]

    def _name_after(self, op: Op) -> None:
        """Say where the op comes from, and let what it computes be called after it."""
        if op.location and (place := str(op.location)) != self._place:
            self._place = place
            self.code.lines.append("  " + comment_text(place))
        named = op.results[0].name if op.results else ""
        self.code.hint = symbol_text(named) if named else op.attributes.get("fn") or op.name.rpartition(".")[2]

    def run_region(self, region: Region) -> list[Any]:
        with self.scope():
            return self.run_block(region.block)

    def hint(self, value: Value, otherwise: str) -> str:
        return symbol_text(value.name) if value.name and not self.module.split else otherwise
