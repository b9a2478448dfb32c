"""The epilogue of a contract in a group: elementwise ops and at most one pooling, on the contract's elements while they are in registers.

Builders of matrix products and convolutions compute a tile of the contract; those of poolings, of a reduction. An `Epilogue` makes the
group's results from it. If each result needs one element of the contract it works on registers, else on a scratch tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyreme.dialects import tensor
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, buffer_leaf, linear, store
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.positions import Position


@dataclass(frozen=True)
class Epilogue:
    """The group's results as functions of the contract's elements.

    `values` are the results before their final reshapes, all of one `shape` and of the contract's rank. Result element `y` of an axis needs
    the contract's elements from `y * step` on, `reach` of them: both 1 without pooling. Where it is `turned` there is one result, with the
    last axis, the channels, in second place.
    """

    contract: tensor.Contract | tensor.Reduce
    values: tuple[Value, ...]
    shape: tuple[Dim, ...]
    steps: tuple[Dim, ...]
    reaches: tuple[Dim, ...]
    turned: bool = False

    @property
    def pools(self) -> bool:
        return any(s != 1 for s in self.steps) or any(r != 1 for r in self.reaches)

    @property
    def args(self) -> list[BlockArgument]:
        """The arguments of the group that the ops after the contract read."""
        found: dict[Value, None] = {}
        todo: list[Value] = list(self.values)
        while todo:
            value = todo.pop()
            if value in found:
                continue
            found[value] = None
            if isinstance(value.owner, Op) and value.owner is not self.contract:
                todo += value.owner.operands
        return sorted((v for v in found if isinstance(v, BlockArgument)), key=lambda v: v.index)

    @property
    def residuals(self) -> list[BlockArgument]:
        """The arguments with the shape of the results, such as a residual connection."""
        return [arg for arg in self.args if arg.type.shape == self.shape]

    @property
    def updates(self) -> tuple[tuple[int, int], ...]:
        """Pairs of an operand and a result that may be the same memory, as `KernelPlan` has them: where each element of the result is
        computed once, from the operand's element at its own place, and no sum reads the operand.
        """
        sizes = (n for v in self.values for n in shape_of(v))
        if self.pools or not all(isinstance(n, int) for n in sizes):
            return ()
        summed: set[Value] = set()
        todo: list[Value] = list(self.contract.operands)
        while todo:
            value = todo.pop()
            if value not in summed:
                summed.add(value)
                todo += value.owner.operands if isinstance(value.owner, Op) else ()
        alone = [
            arg
            for arg in self.residuals
            if arg not in summed and all(isinstance(user, tensor.Map) and shape_of(user.result) == self.shape for user in arg.users)
        ]
        return tuple((arg.index, r) for arg in alone for r, v in enumerate(self.values) if v.type == arg.type)

    def is_flat(self, axis: int) -> bool:
        """Whether results can be made as if the axes from this one on were one: they go element by element, and whatever is read is either
        as large as they are along all of these axes, or has one element along each.
        """
        todo: list[Value] = list(self.values)
        while todo:
            value = todo.pop()
            sizes = shape_of(value)
            flat = sizes[axis:] == self.shape[axis:] or all(n == 1 for n in sizes[axis:])
            if sizes and (len(sizes) != len(self.shape) or not flat):
                return False
            if isinstance(value.owner, Op) and value.owner is not self.contract:
                if value.owner.operands and not isinstance(value.owner, tensor.Map):
                    return False
                todo += value.owner.operands
        return not self.pools

    def emitter(self, code: Code, buffers: Mapping[Value, Value], leaf: Leaf) -> ElementEmitter:
        """Gives elements of the results, the contract's own by `leaf` and the arguments' from `buffers`."""
        leaves: dict[Value, Leaf] = {arg: buffer_leaf(code, buffers[arg], arg.type.shape) for arg in self.args}
        return ElementEmitter(code, {**leaves, self.contract.result: leaf})


    def prefetch(
        self,
        code: Code,
        buffers: Mapping[Value, Value],
        places: Sequence[Position],
        outputs: Sequence[Value] = (),
        to: Sequence[Position] | None = None,
    ) -> None:
        """Ask for what `residuals` have at `places`, and for the lines there of `outputs`, or those at `to`, to write them."""
        for arg in self.residuals:
            code.prefetch(buffers[arg], linear(code, places, self.shape).scalar(code))
        for buffer in outputs:
            code.prefetch(buffer, linear(code, to or places, self.shape).scalar(code), write=True)


    def write(
        self,
        emitter: ElementEmitter,
        outputs: Sequence[Value],
        places: Sequence[Position],
        lanes: int,
        mask: Value | None,
        to: Sequence[Position] | None = None,
        aligned: bool = False,
    ) -> None:
        """Store the results' elements at `places`; where those at `to` would be, if that is given. `aligned`: they begin at multiples of
        `lanes`, in memory that begins at more.

        All are computed before one is stored: a result may be where another one's operand is.
        """
        code = emitter.code
        made = [emitter.at(value, places, lanes, mask) for value in self.values]
        for element, buffer in zip(made, outputs, strict=True):
            align = lanes * element_type(element.type).bytes if aligned else None
            store(code, element, buffer, linear(code, to or places, self.shape), mask, align)


def position_at(base: Index, plus: Dim = 0, step: Dim = 0) -> Position:
    """The position `base + plus`, with lanes `step` apart."""
    if isinstance(base, Value):
        return Position(plus, ((base, 1),), step)
    return Position(base + plus, (), step)


def find_epilogue(request: Request, contract: tensor.Contract | tensor.Reduce, turned: bool = False) -> Epilogue | None:
    """The epilogue of a group, or None when something other than elementwise ops, one pooling and final reshapes follows the contract; with
    `turned` also a transpose, which puts channels in front of pixels, as the last op.
    """
    shape = shape_of(contract.result)
    rank = len(shape)
    before: dict[Value, None] = {contract.result: None}
    after: dict[Value, None] = {}
    reshaped: dict[Value, Value] = {}
    window: tensor.Window | None = None
    turn = request.results[0].producer(tensor.Transpose) if turned and len(request.results) == 1 else None
    if turn is not None and turn.perm != channels_first(rank):
        return None
    for op in request.ops():
        if op is turn:
            continue
        touched = [v for v in op.operands if v in before or v in after or v in reshaped or (window is not None and v is window.result)]
        if not touched:
            continue
        if isinstance(op, tensor.Reshape):
            reshaped[op.result] = reshaped.get(op.x, op.x)
            continue
        if isinstance(op, tensor.Map):
            stage = before if touched[0] in before else after
            if any(v not in stage or shape_of(v) != shape_of(op.result) for v in touched):
                return None
            stage[op.result] = None
        elif isinstance(op, tensor.Window) and window is None and op.x in before:
            window = op
        elif isinstance(op, tensor.Reduce) and window is not None and op.x is window.result and not after:
            if op.axes != tuple(range(rank, _rank(op.x))) or op.keepdims:
                return None
            after[op.result] = None
        else:
            return None
    ends = request.results if turn is None else [turn.x]
    values = tuple(reshaped.get(v, v) for v in ends)
    stage = after if window is not None else before
    if not values or any(v not in stage for v in values):
        return None
    steps: list[Dim] = [1] * rank
    reaches: list[Dim] = [1] * rank
    if window is not None:
        for axis, size, stride, dilation in zip(window.axes, window.sizes, window.strides, window.dilations, strict=True):
            steps[axis] = stride
            reaches[axis] = (size - 1) * dilation + 1
    return Epilogue(contract, values, shape_of(values[0]), tuple(steps), tuple(reaches), turn is not None)


def channels_first(rank: int) -> tuple[int, ...]:
    """The order of axes that puts the last one, the channels, in second place."""
    return (0, rank - 1, *range(1, rank - 1))


def _rank(value: Value) -> int:
    return len(shape_of(value))
