"""The `dist` dialect: what ranks that run the same program do together.

An all-reduce that overlaps with computing is two ops: `dist.all_reduce_start` gives values of type `pending`, which only `dist.wait` turns
into tensors, so that reading a result too early is a type error. No op here is pure: all ranks have to make the same calls in the same
order.

Run by the evaluator or eagerly, an op asks the group of ranks set by `with_group`, or else the one that the process belongs to
(`use_default_group`). Without either there is one rank, for which every op is the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.ir.accuracy import SUM
from polyreme.ir.core import Op
from polyreme.ir.define import attr, op, operand, variadic
from polyreme.ir.diagnostics import Location, check, check_attr, check_type
from polyreme.ir.evaluate import EvaluateError
from polyreme.ir.types import PendingType, TensorType, scalar_type
from polyreme.ir.verify import Report, invariants_of

__all__ = [
    "REDUCTIONS", "AllGather", "AllReduce", "AllReduceStart", "Broadcast", "Group", "OneRank", "ReduceScatter", "Wait", "current_group",
    "use_default_group",
    "with_group",
]  # fmt: skip

REDUCTIONS = ("sum", "mean", "max", "min", "prod")


class Group(Protocol):
    """The ranks that an op runs among, seen from one of them."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def start(self, kind: str, arrays: Sequence[Array], detail: str, location: Location = ..., **options: Any) -> Any:
        """Start the collective `kind` ("all_reduce", "broadcast", "all_gather", "reduce_scatter"); `wait()` on what it returns gives its
        arrays.

        `detail` is what has to be equal in all ranks besides.
        """


class _Ready:
    def __init__(self, arrays: list[Array]):
        self.arrays = arrays

    def wait(self) -> list[Array]:
        return self.arrays


class OneRank:
    """A group of one: what comes back is what was given."""

    rank = 0
    size = 1

    def start(self, kind: str, arrays: Sequence[Array], detail: str, location: Location | None = None, **options: Any) -> _Ready:
        return _Ready([a[None] for a in arrays] if kind == "all_gather" else list(arrays))


_group: ContextVar[Group | None] = ContextVar("group", default=None)
_ALONE = OneRank()
_default: Callable[[], Group] = lambda: _ALONE


def use_default_group(provider: Callable[[], Group]) -> None:
    """Let `provider` say among which ranks ops run outside of any `with_group`."""
    global _default
    _default = provider


def current_group() -> Group:
    """The group that ops run among now."""
    return _group.get() or _default()


@contextmanager
def with_group(group: Group) -> Iterator[None]:
    """Run ops among `group` inside the `with`, in this thread."""
    token = _group.set(group)
    try:
        yield
    finally:
        _group.reset(token)


class _Part:
    """One array of several that are under way together."""

    def __init__(self, call: Any, index: int):
        self.call, self.index = call, index

    def wait(self) -> Array:
        return self.call.wait()[self.index]


def arrays_text(arrays: Sequence[Array]) -> str:
    """`3 x f32[10x10 10 1]`: how many arrays, of which dtype and shapes; long lists are cut short."""
    shapes = ["x".join(map(str, a.shape)) or "scalar" for a in arrays]
    shown = " ".join(shapes if len(shapes) <= 6 else [*shapes[:5], f"… {sum(a.size for a in arrays)} elements in all"])
    return f"{len(arrays)} x {scalar_type(arrays[0].dtype)}[{shown}]"


def start_all_reduce(arrays: Sequence[Array], reduce: str, bucket: int | None, location: Location) -> Any:
    """The call that an all-reduce makes."""
    where = "" if bucket is None else f"bucket {bucket}, "
    return current_group().start("all_reduce", list(arrays), f"{reduce} of {where}{arrays_text(arrays)}", location, reduce=reduce)


def _one(kind: str, array: Array, detail: str, **options: Any) -> Array:
    (result,) = current_group().start(kind, [array], detail, **options).wait()
    return result if isinstance(result, np.ndarray) else np.asarray(result)


def _check_ranks(ranks: int) -> None:
    if current_group().size != ranks:
        raise EvaluateError(f"expected a group of {ranks} ranks, as when the program was made, but got {current_group().size}")


def _check_reduced(xs: Sequence[TensorType], reduce: str) -> None:
    check(len(xs) > 0, "expected at least one tensor but got none", code="E0305")
    check(
        all(x.dtype == xs[0].dtype for x in xs),
        f"expected tensors of one element type but got {', '.join(dict.fromkeys(str(x.dtype) for x in xs))}",
    )
    check_type(xs[0].dtype.kind != "b", "expected numbers but got i1")
    check_type(reduce != "mean" or xs[0].dtype.kind in "fc", f"expected floats to take the mean of but got {xs[0].dtype}")
    check_type(reduce not in ("max", "min") or xs[0].dtype.kind != "c", f"expected ordered elements but got {xs[0].dtype}")


class _Reducing(Op):
    """Ops that combine tensors of one element type over all ranks, in one call."""

    __slots__ = ()


@op("dist.all_reduce", accuracy=SUM)
class AllReduce(_Reducing):
    """Each element combined over all ranks by `reduce`, in the order of the ranks.

        %total = dist.all_reduce %x {reduce = "mean"} : tensor<4x4xf32>      // %x: tensor<4x4xf32>

    Any number of tensors of one element type, numbers; the results have the operands' types and are equal in all ranks, bit for bit.
    `bucket` is a number for messages. Means want floats; max and min want ordered elements.
    """

    xs = variadic()
    reduce = attr(str, default="sum", choices=REDUCTIONS)
    bucket = attr(int, default=None)

    @staticmethod
    def infer(xs: tuple[TensorType, ...], *, reduce: str, bucket: int | None) -> tuple[TensorType, ...]:
        _check_reduced(xs, reduce)
        return tuple(xs)

    @staticmethod
    def reference(xs: tuple[Array, ...], *, reduce: str, bucket: int | None) -> tuple[Array, ...]:
        return tuple(start_all_reduce(xs, reduce, bucket, Location()).wait())


@op("dist.all_reduce_start", accuracy=SUM)
class AllReduceStart(_Reducing):
    """The start of an all-reduce: the tensors are copied together into one buffer and sent on their way.

        %p = dist.all_reduce_start %x {reduce = "mean", bucket = 0} : pending<2x2xf32>      // %x: tensor<2x2xf32>
        %y = dist.wait %p : tensor<2x2xf32>

    `dist.wait` gives the results, and what comes between overlaps with the transfer. Operands as `dist.all_reduce` has them. `reduce` says
    how elements are combined, and `bucket` is a number for messages.
    """

    xs = variadic()
    reduce = attr(str, default="sum", choices=REDUCTIONS)
    bucket = attr(int, default=None)

    @staticmethod
    def infer(xs: tuple[TensorType, ...], *, reduce: str, bucket: int | None) -> tuple[PendingType, ...]:
        _check_reduced(xs, reduce)
        return tuple(PendingType(x.shape, x.dtype) for x in xs)

    def evaluate(self, args: Sequence[Any], run: Any) -> Sequence[Any]:
        call = start_all_reduce(args, self.reduce, self.bucket, self.location)
        return [_Part(call, i) for i in range(len(args))]


@op("dist.wait")
class Wait(Op):
    """The tensors of an all-reduce, once they have arrived.

        %p = dist.all_reduce_start %x : pending<2x2xf32>      // %x: tensor<2x2xf32>
        %y = dist.wait %p : tensor<2x2xf32>

    Takes any number of values of type `pending`, of one start or of several, and gives a tensor for each. Waiting twice for a value gives
    the same tensor.
    """

    pending = variadic()

    @staticmethod
    def infer(pending: tuple[PendingType, ...]) -> tuple[TensorType, ...]:
        check(len(pending) > 0, "expected at least one value to wait for but got none", code="E0305")
        check(
            all(isinstance(p, PendingType) for p in pending),
            f"expected values that are pending but got {', '.join(map(str, pending))}",
            code="E0305",
        )
        return tuple(p.tensor for p in pending)

    def evaluate(self, args: Sequence[Any], run: Any) -> Sequence[Any]:
        return [part.wait() for part in args]


@op("dist.broadcast")
class Broadcast(Op):
    """The tensor of rank `root`, in all ranks.

        %y = dist.broadcast %x {root = 0} : tensor<2x2xf32>

    Every rank brings a tensor of the same type. A rank that does not exist is an error when the program runs.
    """

    x = operand()
    root = attr(int)

    @staticmethod
    def infer(x: TensorType, *, root: int) -> TensorType:
        check_attr(root >= 0, f"expected the number of a rank but got {root}")
        return x

    @staticmethod
    def reference(x: Array, *, root: int) -> Array:
        if root >= current_group().size:
            raise EvaluateError(f"expected the number of a rank below {current_group().size} but got {root}")
        return _one("broadcast", x, f"from rank {root}, {arrays_text([x])}", root=root)


@op("dist.all_gather")
class AllGather(Op):
    """The tensors of all `ranks`, laid along a new first axis.

        %y = dist.all_gather %x {ranks = 2} : tensor<2x4xf32>      // %x: tensor<4xf32>

    Every rank brings a tensor of the same type. A group of another number of ranks than `ranks` is an error when the program runs.
    """

    x = operand()
    ranks = attr(int)

    @staticmethod
    def infer(x: TensorType, *, ranks: int) -> TensorType:
        check_attr(ranks > 0, f"expected at least one rank but got {ranks}")
        return x.with_shape((ranks, *x.shape))

    @staticmethod
    def reference(x: Array, *, ranks: int) -> Array:
        _check_ranks(ranks)
        return _one("all_gather", x, arrays_text([x]))


@op("dist.reduce_scatter", accuracy=SUM)
class ReduceScatter(Op):
    """Each element combined over all `ranks` by `reduce`, of which every rank keeps its share of the first axis.

        %y = dist.reduce_scatter %x {reduce = "sum", ranks = 2} : tensor<2x2xf32>      // %x: tensor<4x2xf32>

    The first axis is known and a multiple of `ranks`; rank r gets the r-th part.
    """

    x = operand()
    reduce = attr(str, default="sum", choices=REDUCTIONS)
    ranks = attr(int)

    @staticmethod
    def infer(x: TensorType, *, reduce: str, ranks: int) -> TensorType:
        _check_reduced((x,), reduce)
        check_attr(ranks > 0, f"expected at least one rank but got {ranks}")
        check(
            x.rank > 0 and isinstance(x.shape[0], int) and x.shape[0] % ranks == 0,
            f"expected a first axis that {ranks} ranks can share but got {x}",
        )
        return x.with_shape((x.shape[0] // ranks, *x.shape[1:]))

    @staticmethod
    def reference(x: Array, *, reduce: str, ranks: int) -> Array:
        _check_ranks(ranks)
        return _one("reduce_scatter", x, f"{reduce} of {arrays_text([x])}", reduce=reduce)


@invariants_of("dist")
def check_pending(root: Op, report: Report) -> None:
    """Invariant 16 of the list in `ir/verify.py`: what is on its way is waited for, and nothing else is done with it."""
    for at in root.walk():
        for region in at.regions:
            for arg in region.block.args:
                if isinstance(arg.type, PendingType):
                    report("E0216", f"expected tensors to enter a region of '{at.name}' but {arg!r} is on its way: wait for it first", at)
        for result in at.results:
            if not isinstance(result.type, PendingType):
                continue
            if not result.uses:
                report("E0216", f"expected a 'dist.wait' for {result!r} but nothing uses it", at)
            for user in result.users:
                if not isinstance(user, Wait):
                    report("E0216", f"expected only 'dist.wait' to use {result!r} but '{user.name}' does", user)
