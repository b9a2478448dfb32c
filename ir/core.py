"""The one mutable graph: operations, values, blocks and regions.

An operation (op) uses values and makes values. It stands in a block, blocks stand in regions, and regions belong to
ops, so a whole program is one op: the module. Every value knows its uses, and a block is a linked list, so that replacing and
moving are constant time. Control flow is structured: a region has one block, whose last op is its terminator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from polyreme.ir.diagnostics import UNKNOWN, Location
from polyreme.ir.types import Type

OpT = TypeVar("OpT", bound="Op")


class Use(NamedTuple):
    """Operand number `index` of `op`."""

    op: Op
    index: int  # type: ignore[assignment]  # hides tuple.index, which nothing asks of a use


# `_tuple(Use, (op, index))` is `Use(op, index)` without a call in Python; making ops makes more uses than anything else.
_tuple = tuple.__new__


class Value:
    """What an op makes or a block takes. `name` is the user's name for it, a hint for printing only."""

    __slots__ = ("name", "type", "uses")

    # Which kind of type it is depends on the level; whoever handles the value knows.
    type: Any

    def __init__(self, type: Type, name: str = ""):
        self.type = type
        self.name = name
        self.uses: dict[Use, None] = {}

    @property
    def owner(self) -> Op | Block:
        raise NotImplementedError

    @property
    def users(self) -> list[Op]:
        """The ops that use the value, each once, in order of their first use."""
        return list(dict.fromkeys(use.op for use in self.uses))

    def producer(self, kind: type[OpT] | None = None) -> Any:
        """The op that makes the value, if it is of `kind`; None for block arguments and other kinds."""
        return None

    def replace_all_uses_with(self, other: Value, unless: Callable[[Use], bool] | None = None) -> None:
        """Point every use (but those for which `unless` holds) to `other`."""
        for use in list(self.uses):
            if unless is None or not unless(use):
                use.op.set_operand(use.index, other)
        if not other.name:
            other.name = self.name

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


class OpResult(Value):
    """Result number `index` of `op`."""

    __slots__ = ("index", "op")

    def __init__(self, type: Type, op: Op, index: int, name: str = ""):
        self.type = type
        self.name = name
        self.uses = {}
        self.op = op
        self.index = index

    @property
    def owner(self) -> Op:
        return self.op

    def producer(self, kind: type[OpT] | None = None) -> Any:
        return self.op if kind is None or isinstance(self.op, kind) else None


class BlockArgument(Value):
    """Argument number `index` of `block`."""

    __slots__ = ("block", "index")

    def __init__(self, type: Type, block: Block, index: int, name: str = ""):
        super().__init__(type, name)
        self.block = block
        self.index = index

    @property
    def owner(self) -> Block:
        return self.block


class _OpClass(type):
    """Ops have no attributes but those declared: `op.typo = 1` is an error, and no op carries a dictionary for it."""

    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **_: Any) -> dict[str, object]:
        return {"__slots__": ()}


class Op(metaclass=_OpClass):
    """An operation. Subclasses are declared with `define.op`, which fills in the class attributes.

    Called with operands and attributes, a subclass infers the result types; `build` is the same with everything given.
    """

    name: ClassVar[str] = ""
    dialect: ClassVar[str] = ""
    traits: ClassVar[frozenset[Any]] = frozenset()
    definition: ClassVar[Any] = None

    __slots__ = ("_operands", "attributes", "location", "next", "parent", "prev", "regions", "results", "segments")

    def __init__(self, *operands: Any, loc: Location = UNKNOWN, **named: Any):
        definition = self.definition
        values, segments = definition.bind_operands(operands)
        attributes = definition.bind_attributes(named)
        regions = definition.bind_regions(named)
        result_types = definition.infer(values, segments, attributes, regions)
        self._set(values, segments, attributes, regions, result_types, loc)

    @classmethod
    def build(
        cls: type[OpT],
        operands: Sequence[Value] = (),
        attributes: dict[str, Any] | None = None,
        regions: Sequence[Region] = (),
        result_types: Sequence[Type] = (),
        loc: Location = UNKNOWN,
        segments: tuple[int, ...] | None = None,
    ) -> OpT:
        """An op with exactly these parts: nothing is inferred or checked (the verifier does that)."""
        op = cls.__new__(cls)
        op._set(operands, segments, dict(attributes or {}), list(regions), result_types, loc)
        return op

    @classmethod
    def with_parts(
        cls: type[OpT],
        operands: Sequence[Value],
        attributes: dict[str, Any],
        result_types: Sequence[Type],
        loc: Location,
        segments: tuple[int, ...] | None,
    ) -> OpT:
        """As `build`, of an op without regions, which has `attributes` for its own from now on."""
        op = cls.__new__(cls)
        op._set(operands, segments, attributes, [], result_types, loc)
        return op

    def _set(
        self,
        operands: Sequence[Value],
        segments: tuple[int, ...] | None,
        attributes: dict[str, Any],
        regions: list[Region],
        result_types: Sequence[Type],
        loc: Location,
    ) -> None:
        self._operands = list(operands)
        i = 0
        for value in self._operands:
            value.uses[_tuple(Use, (self, i))] = None
            i += 1
        self.segments = segments
        self.attributes = attributes
        self.regions = regions
        if regions:
            for region in regions:
                region.parent = self
        if len(result_types) == 1:
            self.results = [OpResult(result_types[0], self, 0)]
        else:
            self.results = [OpResult(t, self, i) for i, t in enumerate(result_types)]
        self.location = loc
        self.parent: Block | None = None
        self.prev: Op | None = None
        self.next: Op | None = None

    # --- operands and results

    @property
    def operands(self) -> tuple[Value, ...]:
        return tuple(self._operands)

    def set_operand(self, index: int, value: Value) -> None:
        use = _tuple(Use, (self, index))
        del self._operands[index].uses[use]
        self._operands[index] = value
        value.uses[use] = None

    def set_operands(self, values: Sequence[Value], segments: tuple[int, ...] | None = None) -> None:
        """Replace all operands; `segments` as in `build`."""
        self.drop_operands()
        self._operands = list(values)
        self.segments = segments
        for i, value in enumerate(self._operands):
            value.uses[_tuple(Use, (self, i))] = None

    def drop_operands(self) -> None:
        for i, value in enumerate(self._operands):
            del value.uses[_tuple(Use, (self, i))]
        self._operands = []

    @property
    def result(self) -> OpResult:
        """The only result."""
        (result,) = self.results
        return result

    @property
    def is_used(self) -> bool:
        for result in self.results:
            if result.uses:
                return True
        return False

    def has(self, trait: Any) -> bool:
        return trait in self.traits

    # --- regions

    @property
    def block(self) -> Block:
        """The only block of the only region."""
        (region,) = self.regions
        return region.block

    @property
    def parent_op(self) -> Op | None:
        region = self.parent.parent if self.parent is not None else None
        return region.parent if region is not None else None

    def walk(self) -> Iterator[Op]:
        """This op, then all ops inside it in order. The op just given may be erased or replaced meanwhile."""
        yield self
        # One generator however deep ops lie in one another; what is still to come is read as late as it can be.
        waiting: list[Op | Block | None] = [block for region in reversed(self.regions) for block in reversed(region.blocks)]
        while waiting:
            at = waiting.pop()
            op = at.first if isinstance(at, Block) else at
            while op is not None:
                following = op.next
                yield op
                if op.regions:
                    waiting.append(following)
                    waiting.extend(block for region in reversed(op.regions) for block in reversed(region.blocks))
                    break
                op = following

    # --- changing the graph

    def detach(self) -> None:
        """Take the op out of its block, keeping operands and uses."""
        if self.parent is not None:
            self.parent._unlink(self)

    def erase(self) -> None:
        """Remove the op and everything in it. Its results must have no uses left."""
        for result in self.results:
            if result.uses:
                raise ValueError(f"cannot erase '{self.name}': its result {result!r} is still used by '{result.users[0].name}'")
        self.detach()
        for inner in self.walk() if self.regions else (self,):
            inner.drop_operands()

    def replace_with(self, *values: Value) -> None:
        """Let `values` take the place of the results, and erase the op."""
        if len(values) != len(self.results):
            raise ValueError(f"expected {len(self.results)} values in place of '{self.name}' but got {len(values)}")
        for old, new in zip(self.results, values, strict=True):
            old.replace_all_uses_with(new)
        self.erase()

    def clone(self, mapping: dict[Value, Value] | None = None) -> Any:
        """A detached deep copy. Operands found in `mapping` are replaced; results and arguments are added to it."""
        mapping = {} if mapping is None else mapping
        regions = [region.clone(mapping) for region in self.regions]
        operands = [mapping.get(v, v) for v in self._operands]
        types = [r.type for r in self.results]
        copy = self.__class__.__new__(self.__class__)
        copy._set(operands, self.segments, self.attributes.copy(), regions, types, self.location)
        for old, new in zip(self.results, copy.results):
            new.name = old.name
            mapping[old] = new
        return copy

    # --- meaning

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        """The results on numpy arrays, through the class's `reference`; ops with regions override this.

        `run_region(region, args)` gives the values that the region's terminator passes on.
        """
        definition = self.definition
        result = definition.call_reference(args, self.segments, self.attributes)
        return result if isinstance(result, (tuple, list)) else (result,)

    def __repr__(self) -> str:
        attributes = ", ".join(f"{k} = {v}" for k, v in self.attributes.items())
        operands = ", ".join(map(repr, self._operands))
        return f"<{self.name} {operands} {{{attributes}}} : {', '.join(str(r.type) for r in self.results)}>"


class Block:
    """A list of ops under some arguments."""

    __slots__ = ("args", "first", "last", "parent")

    def __init__(self, arg_types: Iterable[Type] = (), arg_names: Iterable[str] = ()):
        names = list(arg_names)
        self.args = [
            BlockArgument(t, self, i, names[i] if i < len(names) else "") for i, t in enumerate(arg_types)
        ]
        self.first: Op | None = None
        self.last: Op | None = None
        self.parent: Region | None = None

    def __repr__(self) -> str:
        return f"<block of {sum(1 for _ in self)} ops ({', '.join(map(repr, self.args))})>"

    def __iter__(self) -> Iterator[Op]:
        op = self.first
        while op is not None:
            # Read before the yield, so that the caller may erase or replace the op it was given.
            following = op.next
            yield op
            op = following

    def __reversed__(self) -> Iterator[Op]:
        op = self.last
        while op is not None:
            preceding = op.prev
            yield op
            op = preceding

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def ops(self) -> list[Op]:
        return list(self)

    @property
    def terminator(self) -> Op:
        """The last op."""
        if self.last is None:
            raise ValueError("expected a terminator but the block is empty")
        return self.last

    @property
    def parent_op(self) -> Op | None:
        return self.parent.parent if self.parent is not None else None

    def add_arg(self, type: Type, name: str = "") -> BlockArgument:
        self.args.append(BlockArgument(type, self, len(self.args), name))
        return self.args[-1]

    def erase_arg(self, index: int) -> None:
        """Remove an argument that has no uses."""
        if self.args[index].uses:
            raise ValueError(f"cannot erase the block argument {self.args[index]!r}: it is still used")
        del self.args[index]
        for i, arg in enumerate(self.args):
            arg.index = i

    def append(self, op: OpT) -> OpT:
        return self.insert(op, None)

    def insert(self, op: OpT, before: Op | None) -> OpT:
        """Link `op` in front of `before`, or at the end for None."""
        if op.parent is not None:
            raise ValueError(f"cannot insert '{op.name}': it stands in a block already; detach it first")
        op.parent = self
        op.next = before
        op.prev = before.prev if before is not None else self.last
        if op.prev is None:
            self.first = op
        else:
            op.prev.next = op
        if before is None:
            self.last = op
        else:
            before.prev = op
        return op

    def _unlink(self, op: Op) -> None:
        if op.prev is None:
            self.first = op.next
        else:
            op.prev.next = op.next
        if op.next is None:
            self.last = op.prev
        else:
            op.next.prev = op.prev
        op.parent = op.prev = op.next = None


class Region:
    """The body of an op: a list of blocks, in this IR always one."""

    __slots__ = ("blocks", "parent")

    def __init__(self, *blocks: Block):
        self.blocks = list(blocks)
        for block in blocks:
            block.parent = self
        self.parent: Op | None = None

    @property
    def block(self) -> Block:
        (block,) = self.blocks
        return block

    def add_block(self, block: Block) -> Block:
        block.parent = self
        self.blocks.append(block)
        return block

    def clone(self, mapping: dict[Value, Value]) -> Region:
        copy = Region()
        for block in self.blocks:
            new = copy.add_block(Block([a.type for a in block.args], [a.name for a in block.args]))
            mapping.update(zip(block.args, new.args, strict=True))
            for op in block:
                new.append(op.clone(mapping))
        return copy
