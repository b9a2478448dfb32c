"""Height and width of a convolution of single pixels become one axis, along which vectors run on over the ends of rows.

A 1x1 convolution of planar images is a matrix product whose lanes are pixels. By rows of 14 pixels, each is a vector of its own with two
lanes in vain, and a tile has one vector for each of its weights. `collapse_axes.py` does the same for groups without a product.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.epilogue import Epilogue, find_epilogue
from polyreme.lowering.kernels.plan import Request


def join_pixels(request: Request) -> Request:
    """The root with its pixels as one axis, whose operands and results are the same memory; as it is where they are none.

    contract(window(x)) : NxOxHxW  ->  contract(x) : NxOx(H*W), where x : NxCxHxW and the window is of one pixel
    """
    found = _find(request)
    return request if found is None else replace(request, func=found.joined())


@dataclass(frozen=True)
class _Pixels:
    """A product of an image whose last axes, `count` of them, are the last ones of the results, and of nothing else."""

    request: Request
    contract: tensor.Contract
    epilogue: Epilogue
    image: BlockArgument
    is_a: bool
    count: int

    def is_apart(self) -> bool:
        """Whether what the image is multiplied by has no part in the rest, which has the rank of the results or none."""
        rest = {self.image, *self.epilogue.args, *self._ends()}
        ranks = {len(shape_of(v)) for v in rest}
        return rest.isdisjoint(_made_of([self._other])) and ranks <= {0, len(self.epilogue.shape)}

    @property
    def _other(self) -> Value:
        return self.contract.b if self.is_a else self.contract.a

    def _shape(self, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """What has the rank of the results, with one axis for the pixels."""
        is_one = len(shape) == len(self.epilogue.shape)
        return (*shape[: -self.count], product(shape[-self.count :])) if is_one else shape

    def joined(self) -> Func:
        """The root's function with one axis for the pixels."""
        func, epilogue = self.request.func, self.epilogue
        joins, ends = {self.image, *epilogue.args}, self._ends()
        types = [a.type.with_shape(self._shape(a.type.shape)) if a in joins else a.type for a in func.args]
        made = Func.empty(func.sym_name, types, arg_names=func.arg_names, loc=func.location)
        b = Builder.at_end(made.block, func.location)
        mapping: dict[Value, Value] = dict(zip(func.args, made.args, strict=True))
        for op in func.block:
            if op is self.contract:
                mapping[op.result] = self._product(b, mapping)
            elif not ends.isdisjoint(op.results):
                copy = op.clone(mapping)
                for result in copy.results:
                    assert isinstance(result.type, TensorType)
                    result.type = result.type.with_shape(self._shape(result.type.shape))
                if "shape" in copy.attributes:
                    copy.attributes = {**copy.attributes, "shape": copy.results[0].type.shape}
                b.insert(copy)
        b.insert(Return([mapping[v] for v in epilogue.values]))
        return made.finish()

    def _ends(self) -> set[Value]:
        """The values that the results are made of, behind the product."""
        return _made_of(self.epilogue.values, self.contract.result) - {self.contract.result}

    def _product(self, b: Builder, mapping: dict[Value, Value]) -> Value:
        """The product with one letter for the pixels, that of the last axis, and letters of one element for the window."""
        contract = self.contract
        spec = tensor.ContractSpec(contract.spec)
        letters, others = (spec.a, spec.b) if self.is_a else (spec.b, spec.a)
        rank = len(shape_of(self.image))
        kept = letters[: rank - self.count] + letters[rank - 1 :]
        image = mapping[self.image]
        assert isinstance(image.type, TensorType)
        pixels = b(tensor.Reshape, image, shape=(*image.type.shape, *[1] * (len(letters) - rank)))
        operands = [(pixels, kept), (self._copied(b, self._other, mapping), others)]
        (x, a), (y, c) = operands if self.is_a else operands[::-1]
        out = spec.out[: -self.count] + spec.out[-1]
        value: Value = b(tensor.Contract, x, y, **{**contract.attributes, "spec": f"{a},{c}->{out}"})
        return value

    def _copied(self, b: Builder, value: Value, mapping: dict[Value, Value]) -> Value:
        """The other operand, which knows nothing of pixels, with what it is made of."""
        if value not in mapping:
            op = value.producer()
            assert op is not None
            for x in op.operands:
                self._copied(b, x, mapping)
            b.insert(op.clone(mapping))
        return mapping[value]


def _find(request: Request) -> _Pixels | None:
    contracts = request.ops(tensor.Contract)
    if len(contracts) != 1 or contracts[0].dtype is not None:
        return None
    (contract,) = contracts
    epilogue = find_epilogue(request, contract)
    if epilogue is None:
        return None
    spec = tensor.ContractSpec(contract.spec)
    for is_a, value, letters, others in ((True, contract.a, spec.a, spec.b), (False, contract.b, spec.b, spec.a)):
        image = _image_of(value)
        if image is None:
            continue
        pairs = [*zip(reversed(letters[: len(shape_of(image))]), reversed(spec.out), strict=False)]
        count = next((n for n, (x, y) in enumerate(pairs) if x != y or x in others), len(pairs))
        found = _Pixels(request, contract, epilogue, image, is_a, count)
        if 1 < count < len(spec.out) and epilogue.is_flat(len(spec.out) - count) and found.is_apart():
            return found
    return None


def _image_of(value: Value) -> BlockArgument | None:
    """The argument that this is, seen by windows of one element if by any."""
    window = value.producer(tensor.Window)
    if window is not None and all(n == 1 for n in (*window.sizes, *window.strides)):
        value = window.x
    return value if isinstance(value, BlockArgument) else None


def _made_of(values: Iterable[Value], end: Value | None = None) -> set[Value]:
    """These values and all that they are made of, up to `end`."""
    found: set[Value] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if value not in found:
            found.add(value)
            todo += value.owner.operands if isinstance(value.owner, Op) and value is not end else ()
    return found
