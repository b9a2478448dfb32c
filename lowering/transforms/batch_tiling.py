"""Batch tiling: the first layers of a network run image by image, each image on one thread.

A layer on a whole batch writes more than the caches hold, and the next layer reads it from memory again. If an image's intermediates are
large beside the weights, all such layers in a row run on one image before the next image begins. Threads take whole images, and wait for
each other once in place of once per layer. Later layers, with weights large beside their images, stay as they are, and read their weights
once for all images.

Shapes alone tell what one image needs. A value is *batched* if its first axis is the batch, or begins with it (`16*112*112` rows), and
element i of the batch depends on element i of other batched values only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, BlockArgument, Op, Region, Value
from polyreme.ir.dims import Dim, floordiv, product
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType, element_type
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.machines.rooms import ROOMS
from polyreme.lowering.transforms.fuse import is_free

# What the next layers read is at most this part of what the layers themselves hand on to each other.
MOST_GIVEN = 4


@register_pass
@dataclass(frozen=True)
class TileBatch(FuncPass):
    """y = late(early(x))  ->  y = late(scan(x) { early of one image })

    Before and after: `tensor` ops.  The scan hands nothing from step to step, so its steps may run at the same time. `cache` is the size of
    L2. Runs after layouts are chosen, which look at whole networks, and before fusion, since the ops of an image fuse
    as others do.
    """

    name: ClassVar[str] = "tile-batch"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    cache: int = 1 << 20

    def run_on(self, func: Func) -> None:
        for batch in _batches(func):
            tiling = _Tiling(func, batch)
            if tiling.is_worth(self.cache):
                tiling.rewrite()
                return


def _batches(func: Func) -> list[Dim]:
    """The first sizes of the inputs, that of the largest first; 1 and 0 are none."""
    roles = func.arg_roles or ("input",) * len(func.args)
    inputs = [
        a for a, role in zip(func.args, roles, strict=True) if role == "input" and len(shape_of(a)) > 1 and shape_of(a)[0] not in (0, 1)
    ]
    inputs.sort(key=lambda a: prod(n for n in shape_of(a)[1:] if isinstance(n, int)), reverse=True)
    return list(dict.fromkeys(shape_of(a)[0] for a in inputs))


class _Tiling:
    """The ops of `func` that are done image by image, for a batch of `batch`."""

    def __init__(self, func: Func, batch: Dim):
        self.func, self.batch = func, batch
        # Rows of one image along the first axis of each batched value.
        self.rows: dict[Value, int] = {}
        self.ops: list[Op] = []
        self.inputs: list[BlockArgument] = []
        self._find()

    # --- which ops

    def _find(self) -> None:
        roles = self.func.arg_roles or ("input",) * len(self.func.args)
        for arg, role in zip(self.func.args, roles, strict=True):
            first, *others = shape_of(arg) or (1,)
            if role == "input" and others and first == self.batch and all(isinstance(n, int) for n in others):
                self.rows[arg] = 1
        beyond: set[Value] = set()
        for op in self.func.block.ops[:-1]:
            if not any(v in self.rows or v in beyond for v in op.operands):
                continue
            rows = None if any(v in beyond for v in op.operands) else self._rows_of(op)
            if rows is None:
                beyond.update(op.results)
                continue
            self.ops.append(op)
            self.rows[op.result] = rows

    def _rows_of(self, op: Op) -> int | None:
        """The rows of one image in the op's result, if that is batched; None where it is not."""
        rule = _RULES.get(type(op))
        if rule is None or len(op.results) != 1 or not rule(op, self):
            return None
        shape = shape_of(op.result)
        rows = self.divided(shape[0]) if shape else None
        return rows if all(isinstance(n, int) for n in shape[1:]) else None

    def divided(self, size: Dim) -> int | None:
        """A size by the batch, if that is a number."""
        quotient = floordiv(size, self.batch)
        return quotient if isinstance(quotient, int) and quotient > 0 and quotient * self.batch == size else None

    def fits(self, x: Value, rank: int) -> bool:
        """Whether `x`, an operand of an elementwise op of that rank, is batched, the same for all images, or can be made for one image
        alone.
        """
        shape = shape_of(x)
        if x in self.rows or len(shape) < rank or shape[0] == 1:
            return True
        op = x.producer()
        return isinstance(op, tensor.Full) or (isinstance(op, tensor.Broadcast) and shape_of(op.x)[0] == 1)

    # --- whether

    def is_worth(self, cache: int) -> bool:
        """Whether what an image leaves behind is large, and what comes of it small; keeps the ops up to the first one with large weights.
        """
        for i, op in enumerate(self.ops):
            if isinstance(op, tensor.Contract):
                # Weights are read again for each image: fewer of floats, which Winograd's algorithm may make larger, than of bytes, whose
                # sums are four times as large as they are.
                weights = sum(_bytes(v) for v in op.operands if v not in self.rows)
                moved = sum(self._bytes_of_image(_memory(v)) for v in (*op.operands, op.result) if v in self.rows)
                if weights > max(moved, cache * (ROOMS.weights if op.dtype is None else 1)):
                    self.ops = self.ops[:i]
                    break
        inside = set(self.ops)
        for op in reversed(self.ops):
            # What leaves the scan is memory; views of it are for who reads them: windows would be many times as large.
            if (is_free(op) or isinstance(op, tensor.Reshape)) and not any(user in inside for user in op.result.users):
                inside.remove(op)
        self.ops = [op for op in self.ops if op in inside]
        made = [op.result for op in self.ops if not is_free(op) and not isinstance(op, tensor.Reshape)]
        if all(isinstance(reader, tensor.Map) for v in made for reader in self._readers(v, inside)):
            # Elementwise ops fuse with what they read: what they are handed never is in memory.
            return False
        images = self.batch if isinstance(self.batch, int) else 2
        if images * max(self._bytes_of_image(v) for v in made) < ROOMS.batch * cache:
            return False
        given = sum(self._bytes_of_image(v) for v in self._given(inside))
        return given * MOST_GIVEN <= sum(self._bytes_of_image(v) for v in made)

    def _readers(self, value: Value, inside: set[Op]) -> Iterator[Op]:
        """The ops inside that compute with a value or a view of it."""
        for user in value.users:
            if user in inside and (is_free(user) or isinstance(user, tensor.Reshape)):
                yield from self._readers(user.result, inside)
            elif user in inside:
                yield user

    def _bytes_of_image(self, value: Value) -> int:
        shape = shape_of(value)
        size = product([self.rows[value], *shape[1:]]) * element_type(value.type).bytes
        assert isinstance(size, int)
        return size

    def _given(self, inside: set[Op]) -> list[Value]:
        """What other ops read of what the ops make."""
        return [op.result for op in self.ops if any(user not in inside for user in op.result.users)]

    # --- the rewriting

    def rewrite(self) -> None:
        """Put the ops into a scan over the batch."""
        inside = set(self.ops)
        given = self._given(inside)
        last = self.ops[-1]
        taken = [a for a in self.func.args if a in self.rows and any(user in inside for user in a.users)]
        shared = self._shared()
        block = Block([*(_with_shape(a, shape_of(a)[1:]) for a in taken), *(v.type for v in shared)], [v.name for v in (*taken, *shared)])
        b = Builder.at_end(block, last.location)
        made: dict[Value, Value] = dict(zip(shared, block.args[len(taken) :], strict=True))
        for arg, part in zip(taken, block.args, strict=False):
            made[arg] = b(tensor.Reshape, part, shape=(1, *shape_of(part)))
        for op in self.ops:
            b.loc = op.location
            made[op.result] = self._on_one(op, made, b)
            made[op.result].name = op.result.name
        b(tensor.Yield, [made[v] for v in given])
        results = [_with_shape(v, (self.batch, *self._shape(v))) for v in given]
        attributes = {"steps": self.batch, "reverse": False, "schedule": ""}
        scan = tensor.Scan.build([*taken, *shared], attributes, [Region(block)], results, last.location, (len(taken), 0, len(shared)))
        outside = self._behind(last, inside)
        outside.insert_op(scan)
        for old, new in zip(given, scan.results, strict=True):
            whole = outside(tensor.Reshape, new, shape=shape_of(old))
            whole.name = new.name = old.name
            old.replace_all_uses_with(whole)
        for op in reversed(self.ops):
            op.erase()

    def _behind(self, last: Op, inside: set[Op]) -> Builder:
        """Where `last` ends, with the other ops that read what the ops make moved behind it."""
        block, after = self.func.block, last.next
        readers: list[Op] = []
        late = {op.result for op in self.ops}
        for op in block:
            if op is last:
                break
            if op not in inside and any(v in late for v in op.operands):
                readers.append(op)
                late.update(op.results)
        for op in readers:
            op.detach()
            block.insert(op, after)
        return Builder(block, readers[0] if readers else after, last.location)

    def _shared(self) -> list[Value]:
        """What the ops read that is the same for all images, as it lies in memory: views of it are made inside."""
        found: dict[Value, None] = {}
        pending = [v for op in self.ops for v in op.operands if v not in self.rows]
        while pending:
            value = pending.pop()
            op = value.producer()
            if op is not None and (is_free(op) or isinstance(op, tensor.Reshape)):
                pending += op.operands
            else:
                found[value] = None
        return list(found)

    def _on_one(self, op: Op, made: dict[Value, Value], b: Builder) -> Value:
        """The op for one image."""
        attributes = dict(op.attributes)
        if isinstance(op, (tensor.Reshape, tensor.Broadcast)):
            attributes["shape"] = self._shape(op.result)
        elif isinstance(op, tensor.Slice):
            attributes["stops"] = (self.rows[op.result], *op.stops[1:])
        operands = [self._operand(v, op, made, b) for v in op.operands]
        copy = type(op).build(operands, attributes, [], [_with_shape(op.result, self._shape(op.result))], op.location, op.segments)
        return b.insert_op(copy).result

    def _operand(self, value: Value, op: Op, made: dict[Value, Value], b: Builder) -> Value:
        """What the op for one image reads in the place of `value`."""
        if value in self.rows:
            return made[value]
        shape = shape_of(value)
        if isinstance(op, (tensor.Map, tensor.Concat)) and len(shape) == len(shape_of(op.result)) and shape[0] != 1:
            # As many rows as the image has.
            made_here: Value
            source = value.producer()
            shape = (self.rows[op.result], *shape[1:])
            if isinstance(source, tensor.Full):
                made_here = b(tensor.Full, value=source.value, shape=shape, dtype=source.dtype)
            else:
                assert isinstance(source, tensor.Broadcast)
                made_here = b(tensor.Broadcast, self._copied(source.x, made, b), shape=shape)
            return made_here
        return self._copied(value, made, b)

    def _copied(self, value: Value, made: dict[Value, Value], b: Builder) -> Value:
        """What is the same for all images, made inside."""
        if value not in made:
            op = value.producer()
            assert op is not None
            for operand in op.operands:
                self._copied(operand, made, b)
            made[value] = b.insert_op(op.clone(made)).result
        return made[value]

    def _shape(self, value: Value) -> tuple[Dim, ...]:
        """The shape of a batched value for one image."""
        return (self.rows[value], *shape_of(value)[1:])


def _with_shape(value: Value, shape: tuple[Dim, ...]) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type.with_shape(shape)


def _memory(value: Value) -> Value:
    """What a batched value is a view of."""
    while (op := value.producer()) is not None and (is_free(op) or isinstance(op, tensor.Reshape)) and op.operands:
        value = op.operands[0]
    return value


def _bytes(value: Value) -> int:
    """Of a value of known sizes; others count as large."""
    size = product(shape_of(value)) * element_type(value.type).bytes
    return size if isinstance(size, int) else 1 << 62


# --- which ops do with one image what they do with each of many; asked when some operand is batched


def _elementwise(op: tensor.Map, t: _Tiling) -> bool:
    return all(t.fits(x, len(shape_of(op.result))) for x in op.xs)


def _concat(op: tensor.Concat, t: _Tiling) -> bool:
    return op.axis != 0 and all(x in t.rows or isinstance(x.producer(), tensor.Full) for x in op.xs)


def _contract(op: tensor.Contract, t: _Tiling) -> bool:
    spec = tensor.ContractSpec(op.spec)
    along = spec.out[:1]
    return along != "" and all(
        (letters[0] == along) if x in t.rows else along not in letters for x, letters in ((op.a, spec.a), (op.b, spec.b))
    )


def _pad(op: tensor.Pad, t: _Tiling) -> bool:
    return op.low[0] == 0 and op.high[0] == 0 and op.interior[0] == 0


def _slice(op: tensor.Slice, t: _Tiling) -> bool:
    return op.starts[0] == 0 and op.strides[0] == 1 and shape_of(op.result)[0] == shape_of(op.x)[0]


_RULES: dict[type[Op], Callable[..., bool]] = {
    tensor.Map: _elementwise,
    tensor.Concat: _concat,
    tensor.Contract: _contract,
    tensor.Pad: _pad,
    tensor.Slice: _slice,
    tensor.Reshape: lambda op, t: True,
    tensor.Broadcast: lambda op, t: True,
    tensor.Window: lambda op, t: 0 not in op.axes,
    tensor.Transpose: lambda op, t: op.perm[0] == 0,
    tensor.Reverse: lambda op, t: 0 not in op.axes,
    tensor.Reduce: lambda op, t: 0 not in op.axes,
}
