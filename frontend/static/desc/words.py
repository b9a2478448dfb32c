"""What rules of spelling work with: an operator that static mode has recorded, and the operators of Paddle's that are to stand for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from polyreme.dtypes import PROTOBUF_DTYPES, of_scalar
from polyreme.ir.dims import Dim
from polyreme.ir.types import ScalarType, TensorType, i1
from polyreme.static.operator import Operator, OperatorError

if TYPE_CHECKING:
    from polyreme.static.program import Block

__all__ = ["NUMBERS", "Spelled", "Words"]

# The numbers of dtypes in Paddle's files, by their names.
NUMBERS = {name: number for number, name in PROTOBUF_DTYPES.items()}
Names = Sequence[str] | str


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
        self.say("reshape2", {"X": name}, {"Out": made, "XShape": self.seen_shape(name)}, shape=self.sizes(shape, kind.shape))
        return made

    def expanded(self, name: str, shape: Sequence[Dim], target: str | None = None) -> str:
        """`name` repeated to another shape."""
        kind = self.type(name)
        made = target or self.new(shape, kind.dtype)
        lacking = len(shape) - kind.rank
        sizes = []
        for axis, size in enumerate(shape):
            if isinstance(size, int):
                sizes.append(size)
            elif axis >= lacking and kind.shape[axis - lacking] == size:
                sizes.append(-1)
            else:
                raise self.refuse(f"it repeats to the size {size}, which is known only when the program runs")
        self.say("expand_v2", {"X": name}, {"Out": made}, shape=sizes)
        return made

    def sizes(self, shape: Sequence[Dim], old: Sequence[Dim]) -> list[int]:
        """A shape as numbers: 0 for a size that `old` has on the same axis, and -1 for one other."""
        found = [d if isinstance(d, int) else 0 if i < len(old) and old[i] == d else None for i, d in enumerate(shape)]
        if found.count(None) > 1:
            unknown = ", ".join(str(d) for d, n in zip(shape, found, strict=True) if n is None)
            raise self.refuse(f"its sizes {unknown} are known only when the program runs")
        # A true size of 0 would be taken for an old one.
        if any(d == 0 for d in shape):
            raise self.refuse("it has an axis without elements")
        return [-1 if n is None else n for n in found]

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
        """A variable that has a size, and on which axis: one that the operators in front write, or an input."""
        for name, variable in self.block.vars.items():
            if variable.is_data and variable.has_shape and size in variable.type.shape:
                return name, variable.type.shape.index(size)
        raise self.refuse(f"it needs the size {size}, which no input has")


def _slots(given: Mapping[str, Names]) -> dict[str, list[str]]:
    return {slot: [names] if isinstance(names, str) else list(names) for slot, names in given.items()}


def number_of(dtype: ScalarType) -> int:
    """Paddle's number of a dtype."""
    return NUMBERS[of_scalar(dtype).name]
