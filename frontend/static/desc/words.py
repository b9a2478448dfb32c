"""What rules of spelling work with: an operator that static mode has recorded, and the operators of Paddle's that are to stand for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from polyreme.dtypes import PROTOBUF_DTYPES, of_scalar
from polyreme.ir.dims import Atom, Dim, symbol
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, TensorType, i1, i32
from polyreme.static.nested.uses import blocks_of
from polyreme.static.operator import Operator, OperatorError

if TYPE_CHECKING:
    from polyreme.static.program import Block
    from polyreme.static.variable import Variable

__all__ = ["NUMBERS", "Spelled", "Words"]

# The numbers of dtypes in Paddle's files, by their names.
NUMBERS = {name: number for number, name in PROTOBUF_DTYPES.items()}
Names = Sequence[str] | str
# What operators on numbers are called, by how sizes are joined.
_AMOUNTS = {"floordiv": "floordiv", "mod": "mod", "max": "max", "min": "min"}


@dataclass
class Spelled:
    """One operator of Paddle's. Blocks among the attributes are blocks, or numbers of those that are only written."""

    type: str
    inputs: dict[str, list[str]]
    outputs: dict[str, list[str]]
    attrs: dict[str, Any]
    kinds: dict[str, int] = field(default_factory=dict)


class Words:
    """A recorded operator, and what is said in its place so far. Variables that only that needs are in `made`, by name."""

    def __init__(self, op: Operator, block: Block):
        self.op, self.block = op, block
        self.said: list[Spelled] = []
        self.made: dict[str, TensorType] = {}
        self._amounts: dict[Dim, str] = {}

    # --- the operator

    @property
    def attrs(self) -> dict[str, Any]:
        """Its attributes."""
        return self.op.attrs

    def names(self, slot: str) -> list[str]:
        """The names in one of its input slots."""
        return self.op.inputs.get(slot, [])

    def one(self, slot: str) -> str:
        """The one name in an input slot."""
        (name,) = self.names(slot)
        return name

    @property
    def out(self) -> str:
        """Its one result."""
        (name,) = self.op.outputs["Out"]
        return name

    def type(self, name: str) -> TensorType:
        """The type of a variable."""
        return self.made[name] if name in self.made else self.block.var_recursive(name).type

    def refuse(self, why: str) -> OperatorError:
        """The error that it cannot be written."""
        message = f"expected an operator that Paddle's programs have but '{self.op.type}' cannot be written as one: {why}"
        return OperatorError(message, self.op.location, "E0702")

    # --- what stands for it

    def say(self, type: str, inputs: Mapping[str, Names], outputs: Mapping[str, Names], **attrs: Any) -> None:
        """Another operator, behind those said before."""
        self.said.append(Spelled(type, _slots(inputs), _slots(outputs), attrs))

    def new(self, shape: Sequence[Dim], dtype: ScalarType) -> str:
        """A variable for a result on the way."""
        result = self.op.output_arg_names[0] if self.op.output_arg_names else self.op.type
        name = f"{result}.part_{len(self.made)}"
        self.made[name] = TensorType(tuple(shape), dtype)
        return name

    def like(self, name: str) -> str:
        """A variable of the type of another one."""
        kind = self.type(name)
        return self.new(kind.shape, kind.dtype)

    def seen_shape(self, name: str) -> str:
        """What operators that change a shape keep of the old one."""
        kind = self.type(name)
        return self.new((0, *kind.shape), kind.dtype)

    def reshaped(self, name: str, shape: Sequence[Dim], target: str | None = None) -> str:
        """`name` in another shape, as a new variable unless the `target` is given."""
        kind = self.type(name)
        made = target or self.new(shape, kind.dtype)
        if not shape:
            # 1.8.5 refuses to reshape to rank 0, which it does not have; what reduces all axes is a number in every Paddle.
            reducing = "reduce_any" if kind.dtype == i1 else "reduce_sum"
            self.say(reducing, {"X": name}, {"Out": made}, dim=[0], keep_dim=False, reduce_all=True)
            return made
        numbers = self.sizes(shape, kind.shape)
        given = {"ShapeTensor": self.amounts(shape)} if numbers.count(-1) > 1 else {}
        self.say("reshape2", {"X": name, **given}, {"Out": made, "XShape": self.seen_shape(name)}, shape=numbers)
        return made

    def expanded(self, name: str, shape: Sequence[Dim], target: str | None = None) -> str:
        """`name` repeated to another shape."""
        kind = self.type(name)
        made = target or self.new(shape, kind.dtype)
        lacking = len(shape) - kind.rank
        sizes = [size if isinstance(size, int) else -1 for size in shape]
        kept = all(n != -1 or axis >= lacking and kind.shape[axis - lacking] == shape[axis] for axis, n in enumerate(sizes))
        given = {} if kept else {"expand_shapes_tensor": self.amounts(shape)}
        self.say("expand_v2", {"X": name, **given}, {"Out": made}, shape=sizes)
        return made

    def sizes(self, shape: Sequence[Dim], old: Sequence[Dim]) -> list[int]:
        """A shape as numbers: 0 for a size that `old` has on the same axis, and -1 for others."""
        found = [d if isinstance(d, int) else 0 if i < len(old) and old[i] == d else None for i, d in enumerate(shape)]
        # A true size of 0 would be taken for an old one.
        if any(d == 0 for d in shape):
            raise self.refuse("it has an axis without elements")
        return [-1 if n is None else n for n in found]

    def amounts(self, shape: Sequence[Dim]) -> list[str]:
        """Variables that hold sizes, a number of rank 1 each."""
        return [self.amount(size) for size in shape]

    def amount(self, size: Dim) -> str:
        """A variable that holds a size: int32 [1], computed of the sizes of inputs."""
        if size not in self._amounts:
            self._amounts[size] = self._amount(size)
        return self._amounts[size]

    def _amount(self, size: Dim) -> str:
        if isinstance(size, int):
            made = self.new((1,), i32)
            self.say("fill_constant", {}, {"Out": made}, shape=[1], dtype=number_of(i32), value=float(size), str_value=str(size))
            return made
        parts = []
        for monomial, times in size.terms:
            factors = [self._atom(atom) for atom in monomial]
            parts.append(self._joined("mul", factors if times == 1 and factors else [*factors, self.amount(times)]))
        return self._joined("add", parts)

    def _atom(self, atom: Atom) -> str:
        if atom.fn:
            return self._joined(_AMOUNTS[atom.fn], [self.amount(a) for a in atom.args if not isinstance(a, str)])
        (name,) = atom.args
        there, axis = self.carrier(symbol(str(name)))
        sizes, made = self.new((self.type(there).rank,), i32), self.new((1,), i32)
        self.say("shape", {"Input": there}, {"Out": sizes})
        self.say("slice", {"Input": sizes}, {"Out": made}, axes=[0], starts=[axis], ends=[axis + 1], decrease_axis=[])
        return made

    def _joined(self, fn: str, names: list[str]) -> str:
        first, *others = names
        for other in others:
            made = self.new((1,), i32)
            self.say(f"elementwise_{fn}", {"X": first, "Y": other}, {"Out": made}, axis=-1)
            first = made
        return first

    def numbers(self, shape: Sequence[Dim], what: str = "its sizes") -> list[int]:
        """Sizes that have to be numbers."""
        for size in shape:
            if not isinstance(size, int):
                raise self.refuse(f"expected numbers as {what} but got {size}, which is known only when the program runs")
        return [int(size) for size in shape]

    def only_beside_larger(self, name: str) -> bool:
        """Whether a variable is only read element by element, beside others that have axes, and gets no gradient, or is one."""
        readers = [op for block in self.block.program.blocks for op in block.ops if name in op.input_arg_names]
        for op in readers:
            if any(name in names for slot, names in op.inputs.items() if slot.endswith("@GRAD")):
                continue
            others = [n for slot in ("X", "Y") for n in op.inputs.get(slot, ()) if n != name]
            variables = [op.block._find_var_recursive(n) for n in others]
            larger = bool(others) and all(v is not None and v.has_shape and v.type.rank > 0 for v in variables)
            if not op.type.startswith(("elementwise_", "less_", "greater_", "equal", "not_equal")) or not larger:
                return False
            if any(n.startswith(name + "@GRAD") for n in op.output_arg_names):
                return False
        return bool(readers)

    def carrier(self, size: Dim) -> tuple[str, int]:
        """A variable that has a size, and on which axis: an input, or what an operator in front of this one has written. Of sequences
        Paddle takes their number for that of the rows.
        """
        for name, variable in self.block.vars.items():
            if variable.is_data and variable.has_shape and size in variable.type.shape:
                axis = variable.type.shape.index(size)
                if axis or not variable.lod_level:
                    return name, axis
        for variable in self._written_before():
            if variable.has_shape and size in variable.type.shape and not variable.is_tensor_array:
                return variable.name, variable.type.shape.index(size)
        raise self.refuse(f"it needs the size {size}, which no variable in front of it has")

    def _written_before(self) -> Iterator[Variable]:
        """What operators have written in front of this one, in its block and those around it."""
        here: Block | None = self.block
        last: Operator | None = self.op
        while here is not None:
            for op in here.ops:
                if op is last:
                    break
                yield from (here.vars[name] for name in op.output_arg_names if name in here.vars)
            inner, parent = here, here.parent_idx
            here = here.program.block(parent) if parent >= 0 else None
            last = next((op for op in here.ops if inner in blocks_of(op)), None) if here is not None else None


def _slots(given: Mapping[str, Names]) -> dict[str, list[str]]:
    return {slot: [names] if isinstance(names, str) else list(names) for slot, names in given.items()}


def number_of(dtype: ScalarType) -> int:
    """Paddle's number of a dtype."""
    return NUMBERS[of_scalar(dtype).name]
