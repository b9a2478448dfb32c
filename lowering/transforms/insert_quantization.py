"""Products by constants, brought into eight bits: which there are, what goes into them, and the module in which they take integers.

    find_products(main)  ->  observe what goes into them (with_operands_returned)  ->  quantize_products(products, steps)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polyreme.dialects import nn
from polyreme.dialects.nn.quantize import whole_range
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module
from polyreme.ir.core import Op, Value
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import bf16, f32
from polyreme.lowering.transforms.cleanup import Canonicalize, Cse, Dce
from polyreme.lowering.transforms.fold_norm import FoldBatchNorm
from polyreme.lowering.transforms.solve_sizes import SolveDims

Array = np.ndarray[Any, Any]

PRODUCTS = (nn.Conv, nn.ConvTranspose, nn.Linear, nn.MatMul)


@dataclass(frozen=True)
class QuantizedProduct:
    """A product by a constant weight. `axis` is the weight's axis of output channels, `operands` the positions of activation and weight."""

    name: str
    kind: str
    op: Op
    weight: Array
    axis: int
    operands: tuple[int, int] = (0, 1)

    @property
    def x(self) -> Value:
        return self.op.operands[self.operands[0]]


@dataclass(frozen=True)
class LeftOut:
    """A product that stays in floats, and why."""

    name: str
    kind: str
    reason: str


def tidy_for_quantization(module: Module, in_parts: bool = False) -> None:
    """Bring an `nn` module to the form whose products are quantised: weights are constants, and batch norms are part of the products before
    them.

    Weights are rounded to eight bits after that, since a norm changes their range. What runs `in_parts` has sizes that no argument
    tells: each part has its own solved when it is compiled.
    """
    if not in_parts:
        SolveDims().run(module)
    for step in (Canonicalize(), FoldBatchNorm(), Cse(), Dce()):
        step.run(module)


def find_products(func: Func, halves: bool = False) -> tuple[list[QuantizedProduct], list[LeftOut]]:
    """The products by constants of a function, in order and each with a name of its own, and those that cannot be taken: in eight bits, or
    with `halves` with weights of 16 bits.
    """
    found: list[QuantizedProduct] = []
    left: list[LeftOut] = []
    for name, op, position in named_products(func):
        kind = op.name.partition(".")[2]
        if isinstance(op, nn.Gather):
            if halves and (table := constant_of(op.x)) is not None and table.dtype == np.float32:
                found.append(QuantizedProduct(name, kind, op, table, 0, (1, 0)))
        elif position is None:
            if op.operands[1].producer(nn.DequantizeLinear) is not None:
                left.append(LeftOut(name, kind, "it takes integers already"))
            elif not isinstance(op, nn.MatMul):  # the products of attention are of two activations: nothing is missing there
                left.append(LeftOut(name, kind, "its weight is not constant"))
        else:
            weight = constant_of(op.operands[position])
            reason = _why_not(op, position, weight, halves)
            if reason is not None or weight is None:
                left.append(LeftOut(name, kind, reason or ""))
            else:
                found.append(QuantizedProduct(name, kind, op, weight, _output_axis(op), (1 - position, position)))
    return found, left


def named_products(func: Func) -> Iterator[tuple[str, Op, int | None]]:
    """All products of a function's own block, and all rows that are taken from a constant table, in order: a name for each, the op, and
    which of its operands is a constant weight.
    """
    taken: dict[str, int] = {}
    for op in func.block:
        if isinstance(op, nn.Gather) and op.x.type.rank == 2 and op.axis == 0 and isinstance(op.x.producer(), nn.Constant):
            yield _unique(_name_of(op, 0), taken), op, 0
        elif isinstance(op, PRODUCTS):
            position = next((i for i in (1, 0) if constant_of(op.operands[i]) is not None and (i or isinstance(op, nn.MatMul))), None)
            yield _unique(_name_of(op, position), taken), op, position


def constant_of(value: Value) -> Array | None:
    """The elements of a constant, seen through what only moves them."""
    op = value.producer()
    if isinstance(op, nn.Constant):
        array: Array = op.value.array
        return array
    if isinstance(op, (nn.Transpose, nn.Reshape, nn.Slice)) and value.type.is_static:
        inner = constant_of(op.operands[0])
        if inner is not None:
            (array,) = op.evaluate([inner], _no_regions)
            return array
    return None


def _no_regions(*_: Any) -> Any:
    raise AssertionError("an op that moves elements has no regions")


def _why_not(op: Op, position: int, weight: Array | None, halves: bool) -> str | None:
    assert weight is not None
    if weight.dtype != np.float32:
        return f"its weight is of {weight.dtype}, where {'16' if halves else 'eight'} bits stand for float32"
    if halves:
        return _why_not_narrow(op, weight)
    if isinstance(op, nn.ConvTranspose):
        return "transposed convolutions are not computed in integers"
    if isinstance(op, nn.Conv) and op.groups > 1 and weight.shape[1] == 1:
        return "depthwise: its time goes into moving numbers, and one channel's few products hide no rounding"
    if isinstance(op, nn.MatMul) and (position != 1 or weight.ndim != 2):
        return "its weight is no matrix on the right"
    if not np.isfinite(weight).all():
        return "its weight has elements that are not finite"
    return None


def _why_not_narrow(op: Op, weight: Array) -> str | None:
    if isinstance(op, nn.ConvTranspose):
        return "transposed convolutions are computed in parts, whose weights are put together in 32 bits"
    if isinstance(op, nn.Conv) and op.groups > 1:
        return "depthwise: its weights are few" if weight.shape[1] == 1 else "its channels are in groups"
    if isinstance(op, nn.MatMul) and weight.ndim != 2:
        return "its weight is no matrix"
    return None


def _output_axis(op: Op) -> int:
    return 0 if isinstance(op, nn.Conv) or (isinstance(op, nn.MatMul) and op.transpose_y) else 1


def _name_of(op: Op, position: int | None) -> str:
    """The layer that a weight is named for, or the op itself."""
    value = None if position is None else op.operands[position]
    while value is not None and not value.name:
        producer = value.producer()
        value = producer.operands[0] if producer is not None and producer.operands else None
    name = "" if value is None else value.name
    return name.removesuffix(".weight").removesuffix("_weight") or op.result.name or op.name.partition(".")[2]


def _unique(name: str, taken: dict[str, int]) -> str:
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else f"{name}#{taken[name]}"


def with_operands_returned(module: Module, products: Sequence[QuantizedProduct]) -> tuple[Module, list[int]]:
    """A copy of a module whose `main` also returns what goes into the products, and which of these results each product takes; what several
    take is returned once.
    """
    values = list(dict.fromkeys(p.x for p in products))
    return with_values_returned(module, values), [values.index(p.x) for p in products]


def with_values_returned(module: Module, values: Sequence[Value]) -> Module:
    """A copy of a module whose `main` also returns these values of it."""
    mapping: dict[Value, Value] = {}
    copy = Module.empty(loc=module.location)
    func = module.function().clone(mapping)
    copy.block.append(func)
    terminator = func.block.terminator
    returned = [*terminator.operands, *(mapping.get(v, v) for v in values)]
    terminator.set_operands(returned, (len(returned),))
    names = list(func.attributes["result_names"])
    if names:
        func.attributes["result_names"] = (*names, *(f"_observed_{i}" for i in range(len(values))))
    func.finish()
    return copy


def quantize_weight(weight: Array, thresholds: Array, axis: int, bits: int = 8) -> tuple[Array, Array]:
    """A weight in integers, and the step of each: one number, or one per place along `axis`. The threshold of a step is what its greatest
    integer stands for.
    """
    step = steps_of(thresholds, bits)
    counts = nn.QuantizeLinear.reference(weight, step, None, axis=axis, bit_length=bits)
    return counts, step


def steps_of(thresholds: Any, bits: int = 8) -> Array:
    """The steps in which numbers up to `thresholds` are counted; what is 0 everywhere has a step that finds 0 again."""
    return (np.maximum(np.asarray(thresholds, np.float32), np.float32(1e-30)) / np.float32(whole_range(bits)[1])).astype(np.float32)


def steps_between(least: float, greatest: float, bits: int = 8) -> tuple[Array, int]:
    """The step of numbers from `least` to `greatest`, and the integer that stands for 0: all integers lie between the two, which are
    brought to either side of 0.
    """
    low, high = whole_range(bits)
    least, greatest = min(least, 0.0), max(greatest, 0.0)
    step = np.asarray(max(greatest - least, 1e-30) / (high - low), np.float32)
    return step, int(np.clip(np.rint(low - least / float(step)), low, high))


@dataclass(frozen=True)
class QuantizedSteps:
    """How a product's operands are counted: the step of the activation and the integer that stands for its 0, the weight in integers and
    its steps, the activation's bits.
    """

    activation: Array
    zero_point: int
    counts: Array
    weight: Array
    bits: int = 8


def quantize_products(products: Sequence[QuantizedProduct], steps: Mapping[str, QuantizedSteps]) -> None:
    """product(x, W)  ->  product(dequantize(quantize(x, s)), dequantize(W in integers, t))

    In place, for each product that `steps` has. A value that several products take in the same steps is brought into eight bits once. An
    image that a convolution takes in them is added to others so as well: the sums of a residual network then move a quarter of the memory.
    """
    made: dict[tuple[Value, bytes, int, int], Value] = {}
    for product in products:
        found = steps.get(product.name)
        if found is None:
            continue
        x = product.x
        key = x, found.activation.tobytes(), found.zero_point, found.bits
        if key not in made:
            b = _behind(x)
            scale = b(nn.Constant, value=Dense(found.activation))
            zero = b(nn.Constant, value=Dense(np.array(found.zero_point, np.int8))) if found.zero_point else None
            made[key] = b(nn.DequantizeLinear, b(nn.QuantizeLinear, x, scale, zero, bit_length=found.bits), scale, zero)
        b = Builder.before_op(product.op)
        weight = b(nn.Constant, value=Dense(found.counts))
        weight.name = f"{product.name}.weight_int8"
        scale = b(nn.Constant, value=Dense(found.weight))
        scale.name = f"{product.name}.weight_scale"
        restored = b(nn.DequantizeLinear, weight, scale, axis=product.axis if found.weight.ndim else 0)
        product.op.set_operand(product.operands[0], made[key])
        product.op.set_operand(product.operands[1], restored)
        if isinstance(product.op, nn.Conv):
            x.replace_all_uses_with(made[key], unless=lambda use: not isinstance(use.op, nn.Add))


def narrow_weights(products: Sequence[QuantizedProduct]) -> None:
    """product(x, W)  ->  product(x, cast(W rounded to bfloat16))
    gather(W, i)   ->  cast(gather(W rounded to bfloat16, i))

    In place. Products stay those of float32.
    """
    made: dict[Value, Value] = {}
    for product in products:
        op, weight = product.op, product.op.operands[product.operands[1]]
        if weight not in made:
            made[weight] = _behind(weight)(nn.Constant, value=Dense(product.weight.astype(bf16.np)))
            made[weight].name = f"{product.name}.weight"
        b = Builder.before_op(op)
        if isinstance(op, nn.Gather):
            op.replace_with(b(nn.Cast, b(nn.Gather, made[weight], op.index, axis=op.axis), dtype=f32))
        else:
            op.set_operand(product.operands[1], b(nn.Cast, made[weight], dtype=f32))


def _behind(x: Value) -> Builder:
    """Where `x` is there for the first time."""
    if isinstance(x.owner, Op):
        return Builder.after_op(x.owner)
    return Builder.before_op(x.owner.ops[0])
