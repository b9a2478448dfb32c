"""Declaring ops: what one class statement becomes.

    @op("nn.softmax", Pure)
    class Softmax(Op):
        '''One sentence of meaning, then an example that the tests parse.

            %y = nn.softmax %x {axis = -1} : tensor<8x128xf32>
        '''

        x = operand()
        axis = attr(int, default=-1)

        @staticmethod
        def infer(x, *, axis): ...        # result type(s) from operand types; raises through `check`

        @staticmethod
        def reference(x, *, axis): ...    # result array(s) from operand arrays

The example is the indented paragraph of the class docstring, which `ir/debug/examples.py` reads; tests parse, verify and run it for every
op. It is either text that starts with `func` or `module`, taken whole (ops with terminators, callees or buffers of their own), or lines of
ops that the test wraps in a function. Values that such lines use but do not make become arguments: a comment gives their types, and without
one they have the first result's type:

    %y = nn.linear %x, %w : tensor<Nx3xf32>      // %x: tensor<Nx10xf32>, %w: tensor<10x3xf32>

Symbolic sizes need no declaration. The text format is described in `ir/text.py`.

`infer` gets types where `reference` gets arrays: a plain operand is one, a `variadic` operand a tuple, an absent `optional` one None. An op
with regions gets them by name in `infer` too, and overrides `Op.evaluate` in place of `reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from polyreme.ir.accuracy import EXACT, Accuracy
from polyreme.ir.attributes import Dense, Number, normalize
from polyreme.ir.core import Op, Region, Value
from polyreme.ir.diagnostics import InferError, PolyremeError, check, did_you_mean
from polyreme.ir.dims import Dim, Expr, symbols
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, Type, VectorType, type_symbols

OpClass = TypeVar("OpClass", bound=type[Op])

# How exact an op is, for those that depend on an attribute a function of the attributes.
AccuracyOf = Accuracy | Callable[[Mapping[str, Any]], Accuracy]


@dataclass(frozen=True, slots=True, eq=False)
class Trait:
    """A yes-or-no fact about an op; `doc` says what may rely on it. Each is one object, so that asking an op for a trait is quick."""

    name: str
    doc: str

    def __repr__(self) -> str:
        return self.name


Pure = Trait("Pure", "no effects: equal operands and attributes give equal results; may be removed, merged or moved")
Commutative = Trait("Commutative", "the first two operands may be swapped")
Terminator = Trait("Terminator", "ends a block; passes its operands on")
IsolatedFromAbove = Trait("IsolatedFromAbove", "its regions use no value from outside")
ConstantLike = Trait("ConstantLike", "no operands; its value stands in its attributes")
Elementwise = Trait("Elementwise", "each result element depends on the operand elements at the same place, after broadcasting")
BindsSizes = Trait(
    "BindsSizes", "sizes that stand alone as axes of its results, and that no argument of the function has, are known once it has run"
)
ControlFlow = Trait(
    "ControlFlow", "its regions are programs of their own, which passes over functions go into; it is pure if all that is in them is"
)
View = Trait("View", "moves elements without computing: its result may share its operand's memory")

_REQUIRED: Any = object()
# Types of values inside of kernels, and kinds of attributes, by which result types are remembered.
_OF_KERNELS = frozenset({ScalarType, VectorType, BufferType})
_ALIKE = (bool, int, str, ScalarType, tuple[int, ...], tuple[bool, ...])
MOST_INFERRED = 4096


def is_pure(op: Op) -> bool:
    """Whether an op has no effects: by its declaration, or by that of all that is in its regions."""
    if Pure in op.traits:
        return True
    if ControlFlow not in op.traits:
        return False
    return all(Terminator in inner.traits or is_pure(inner) for region in op.regions for block in region.blocks for inner in block)


def size_names(op: Op) -> frozenset[str]:
    """The names of sizes in an op: in its types and attributes, and in the arguments of its bodies."""
    values = (*op.operands, *op.results, *(a for region in op.regions for block in region.blocks for a in block.args))
    found: frozenset[str] = frozenset().union(*(type_symbols(v.type) for v in values))
    for attribute in op.attributes.values():
        for dim in attribute if isinstance(attribute, tuple) else (attribute,):
            if isinstance(dim, Expr):
                found |= symbols(dim)
    return found


def tells_sizes(op: Op) -> bool:
    """Whether a later op speaks of sizes that are known only once this one, a branch or loop, has run: it is of use by them alone."""
    if ControlFlow not in op.traits or op.parent is None:
        return False
    known: frozenset[str] = frozenset().union(*(type_symbols(v.type) for v in op.operands))
    steps = op.attributes.get("steps")
    if isinstance(steps, Expr):
        known |= symbols(steps)  # which another op has told
    told = frozenset().union(*(type_symbols(r.type) for r in op.results)) - known
    if (own := op.attributes.get("sizes")) is not None:
        told &= frozenset().union(*map(symbols, own))
    if not told:
        return False
    ops = op.parent.ops
    return any(told & size_names(inner) for later in ops[ops.index(op) + 1 :] for inner in later.walk())


@dataclass(slots=True)
class OperandDef:
    """A named operand: "one", "optional" (may be None) or "variadic" (a sequence)."""

    arity: str
    name: str = ""
    index: int = 0
    single: bool = True  # it is one operand, and so are those before it: the position is `index`

    def __get__(self, op: Any, owner: type | None = None) -> Any:
        if op is None:
            return self
        if self.single:
            return op._operands[self.index]
        segments = op.segments
        if segments is None:
            return op._operands[self.index]
        at, size = sum(segments[: self.index]), segments[self.index]
        if self.arity == "variadic":
            return tuple(op._operands[at : at + size])
        return op._operands[at] if size else None


@dataclass(slots=True)
class AttrDef:
    """A named attribute of a kind that `attributes.normalize` knows; None as default makes it optional."""

    kind: Any
    default: Any
    choices: tuple[Any, ...] | None = None
    name: str = ""
    exact: Any = None  # values of this very class are taken as they are
    plain: frozenset[Any] = frozenset()  # or of one of these
    items: frozenset[Any] = frozenset()  # and so are tuples of items of these very classes

    def __post_init__(self) -> None:
        if self.choices is None:
            if self.kind in (bool, int, float, str, ScalarType, Dense):
                self.exact = self.kind
            elif self.kind in (tuple[int, ...], tuple[bool, ...], tuple[str, ...]):
                self.items = frozenset(get_args(self.kind)[:1])
            elif self.kind == tuple[Dim, ...]:
                self.items = frozenset((int, Expr))
            elif self.kind == Number:
                self.plain = frozenset((bool, int, float))
            elif self.kind == Dim:
                self.plain = frozenset((int, Expr))

    def __get__(self, op: Any, owner: type | None = None) -> Any:
        return self if op is None else op.attributes[self.name]

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is _REQUIRED

    def bind(self, value: Any) -> Any:
        if value.__class__ in self.plain:
            return value
        if value is None and self.default is None:
            return None
        if self.items and value.__class__ is tuple and self.items.issuperset(map(type, value)):
            return value
        value = normalize(self.kind, value, f"'{self.name}'")
        if self.choices is not None and value not in self.choices:
            hint = did_you_mean(value, self.choices) if isinstance(value, str) else ""
            raise InferError(
                f"expected '{self.name}' to be one of {', '.join(map(str, self.choices))} but got {value!r}{hint}", code="E0303"
            )
        return value


@dataclass(slots=True)
class RegionDef:
    """A named region."""

    name: str = ""
    index: int = 0

    def __get__(self, op: Any, owner: type | None = None) -> Any:
        return self if op is None else op.regions[self.index]


def operand() -> Any:
    """One operand."""
    return OperandDef("one")


def optional() -> Any:
    """An operand that may be left out (None)."""
    return OperandDef("optional")


def variadic() -> Any:
    """Any number of operands, given as a sequence."""
    return OperandDef("variadic")


def attr(kind: Any, default: Any = _REQUIRED, choices: Sequence[Any] | None = None) -> Any:
    """An attribute; without a default it must be given."""
    return AttrDef(kind, default, None if choices is None else tuple(choices))


def region() -> Any:
    """A region."""
    return RegionDef()


class Definition:
    """The declared parts of an op class, in order of declaration."""

    def __init__(self, cls: type[Op], name: str, traits: tuple[Trait, ...], accuracy: AccuracyOf = EXACT):
        self.cls = cls
        self.name = name
        self.traits = traits
        self.accuracy = accuracy
        self.operands: list[OperandDef] = []
        self.attributes: dict[str, AttrDef] = {}
        self.regions: list[RegionDef] = []
        for key, part in vars(cls).items():
            if isinstance(part, OperandDef):
                part.name, part.index = key, len(self.operands)
                self.operands.append(part)
            elif isinstance(part, AttrDef):
                part.name = key
                self.attributes[key] = part
            elif isinstance(part, RegionDef):
                part.name, part.index = key, len(self.regions)
                self.regions.append(part)
        self.plain = all(o.arity == "one" for o in self.operands)
        # Whether result types follow from the operands; ops such as calls state them.
        self.infers = hasattr(cls, "infer")
        for i, part in enumerate(self.operands):
            part.single = all(o.arity == "one" for o in self.operands[: i + 1])
        # Whether equal attributes are alike: 1, 1.0 and True are equal numbers.
        self.repeats = not self.regions and all(a.kind in _ALIKE for a in self.attributes.values())
        self._inferred: dict[Any, tuple[Type, ...]] = {}

    # --- construction

    def bind_operands(self, given: Sequence[Any]) -> tuple[list[Value], tuple[int, ...] | None]:
        """Flat operand values, and how many belong to each declared operand (None when all are plain)."""
        if len(given) != len(self.operands):
            missing = self.operands[len(given) :]
            check(bool(missing) and all(o.arity == "optional" for o in missing), self._count_message(len(given)), "E0305")
            given = [*given, *([None] * len(missing))]
        if self.plain:
            return list(given), None
        values: list[Value] = []
        segments = []
        for part, value in zip(self.operands, given, strict=True):
            group = list(value) if part.arity == "variadic" else [] if value is None else [value]
            if not group and part.arity == "one":
                raise InferError(f"expected an operand '{part.name}' for '{self.name}' but got None", code="E0305")
            values += group
            segments.append(len(group))
        return values, tuple(segments)

    def _count_message(self, got: int) -> str:
        names = ", ".join(o.name for o in self.operands)
        return f"expected {len(self.operands)} operands ({names}) for '{self.name}' but got {got}"

    def bind_attributes(self, named: dict[str, Any]) -> dict[str, Any]:
        """All attributes, defaults filled in."""
        attributes = {}
        left = len(named)
        for name, part in self.attributes.items():
            if name in named:
                value = named[name]
                left -= 1
            else:
                value = part.default
                if value is _REQUIRED:
                    raise InferError(f"expected an attribute '{name}' for '{self.name}'", code="E0304")
            attributes[name] = value if value.__class__ is part.exact else part.bind(value)
        unknown = [k for k in named if k not in self.attributes and all(r.name != k for r in self.regions)] if left else ()
        if unknown:
            hint = did_you_mean(unknown[0], self.attributes)
            raise InferError(f"'{self.name}' has no attribute '{unknown[0]}'{hint}", code="E0304")
        return attributes

    def bind_regions(self, named: dict[str, Any]) -> list[Region]:
        for part in self.regions:
            check(isinstance(named.get(part.name), Region), f"expected a region '{part.name}' for '{self.name}'", "E0305")
        return [named[part.name] for part in self.regions]

    # --- readings of the declaration

    def accuracy_of(self, attributes: Mapping[str, Any]) -> Accuracy:
        """How exact an op with these attributes is."""
        return self.accuracy if isinstance(self.accuracy, Accuracy) else self.accuracy(attributes)

    def segments_of(self, count: int) -> tuple[int, ...] | None:
        """The segments of `count` flat operands when they can only be split one way; `InferError` otherwise."""
        if self.plain:
            check(count == len(self.operands), self._count_message(count), "E0305")
            return None
        fixed = sum(o.arity == "one" for o in self.operands)
        loose = [o for o in self.operands if o.arity != "one"]
        extra = count - fixed
        if len(loose) == 1 or all(o.arity == "optional" for o in loose):
            # Optional operands are taken from the left: whoever leaves out an inner one writes segments.
            check(extra >= 0 and (loose[0].arity == "variadic" or extra <= len(loose)), self._count_message(count), "E0305")
            sizes = []
            for part in self.operands:
                size = 1 if part.arity == "one" else extra if part.arity == "variadic" else min(extra, 1)
                extra -= size if part.arity != "one" else 0
                sizes.append(size)
            return tuple(sizes)
        raise InferError(f"expected 'operandSegmentSizes' for '{self.name}', whose operands can be split in several ways", code="E0305")

    def split(self, items: Sequence[Any], segments: tuple[int, ...] | None) -> list[Any]:
        """Flat per-operand `items` as one entry per declared operand."""
        if segments is None:
            return list(items)
        parts: list[Any] = []
        at = 0
        for part, size in zip(self.operands, segments, strict=True):
            group = tuple(items[at : at + size])
            at += size
            parts.append(group if part.arity == "variadic" else group[0] if group else None)
        return parts

    def infer(
        self,
        operands: Sequence[Value],
        segments: tuple[int, ...] | None,
        attributes: dict[str, Any],
        regions: Sequence[Region] = (),
    ) -> tuple[Type, ...]:
        """Result types; `InferError` says what is wrong, with the op's name in front."""
        if not operands or not self.repeats or operands[0].type.__class__ not in _OF_KERNELS:
            return self.infer_types(self.split([v.type for v in operands], segments), attributes, regions)
        # A kernel has thousands of ops that differ in nothing that their types depend on.
        flat = [v.type for v in operands]
        key = (*flat, segments, *attributes.values())
        known = self._inferred.get(key)
        if known is None:
            known = self.infer_types(self.split(flat, segments), attributes)
            if len(self._inferred) >= MOST_INFERRED:
                self._inferred.clear()
            self._inferred[key] = known
        return known

    def infer_types(self, types: Sequence[Any], attributes: dict[str, Any], regions: Sequence[Region] = ()) -> tuple[Type, ...]:
        """Result types from one type (or tuple, or None) per declared operand."""
        named = {part.name: r for part, r in zip(self.regions, regions, strict=True)}
        try:
            result = self.cls.infer(*types, **attributes, **named)  # type: ignore[attr-defined]
        except InferError as error:
            fault = error.diagnostics[0]
            raise InferError(
                fault.message if fault.message.startswith("'") else f"'{self.name}' {fault.message}", code=fault.code
            ) from None
        return tuple(result) if isinstance(result, (tuple, list)) else () if result is None else (result,)

    def call_reference(self, args: Sequence[Any], segments: tuple[int, ...] | None, attributes: dict[str, Any]) -> Any:
        reference = getattr(self.cls, "reference", None)
        if reference is None:
            raise PolyremeError(f"'{self.name}' has no reference meaning to evaluate", code="E0306")
        return reference(*(args if segments is None else self.split(args, segments)), **attributes)


OPS: dict[str, type[Op]] = {}


def op(name: str, *traits: Trait, accuracy: AccuracyOf = EXACT) -> Callable[[OpClass], OpClass]:
    """Declare an op class under `dialect.name` and register it. `accuracy` says how far a result may be from the exact one; see
    `accuracy.py`.
    """

    def declare(cls: OpClass) -> OpClass:
        if name in OPS and OPS[name].__qualname__ != cls.__qualname__:
            raise ValueError(f"the op '{name}' is declared twice: {OPS[name]} and {cls}")
        cls.name = name
        cls.dialect = name.split(".")[0]
        cls.traits = frozenset(traits)
        cls.definition = Definition(cls, name, traits, accuracy)
        OPS[name] = cls
        return cls

    return declare
