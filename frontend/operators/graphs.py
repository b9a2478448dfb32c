"""Rows of graphs: gathered along edges, and reduced by segments and by where edges end."""

from __future__ import annotations

from collections.abc import Callable

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import i32, i64
from polyreme.math.common import cast_to, check_within
from polyreme.math.fed import sizes as fed_sizes
from polyreme.operators.arguments import FedSizes, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

_MESSAGES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "ADD": math.add, "SUB": math.subtract, "MUL": math.multiply, "DIV": math.divide,
}  # fmt: skip


@operator("segment_pool", legacy=spelled("segment_pool", {"X": "x", "SegmentIds": "segment_ids"}, "Out SummedIds"))
def segment_pool(x: Tensor, segment_ids: Tensor, *, pooltype: str = "SUM") -> tuple[Tensor, None]:
    """The rows of each segment reduced; there are as many segments as the last row's number says."""
    ids = cast_to(segment_ids, i64)
    last = math.max(math.concat([ids, dispatch.full((1,), -1, i64)]))
    fits = math.all(math.greater_equal(ids, dispatch.full((), 0, i64)))
    count = fed_sizes.as_size(math.add(last, dispatch.full((), 1, i64)), fits, "numbers of segments of 0 or more to count")
    return _reduced(x, ids, count, pooltype)[0], None


@operator(
    "send_u_recv",
    legacy=spelled(
        "graph_send_recv",
        {"X": "x", "Src_index": "src_index", "Dst_index": "dst_index", "Out_size": "out_size"},
        "Out Dst_count",
        types={"out_size": "LONGS"},
    ),
)
def send_u_recv(
    x: Tensor, src_index: Tensor, dst_index: Tensor, out_size: FedSizes = (0,), *, reduce_op: str = "SUM"
) -> tuple[Tensor, None]:
    """The rows at which edges begin, reduced by where they end: as many rows as `x` has, or `out_size`."""
    return _received(math.gather(x, src_index, 0), x, dst_index, out_size, reduce_op)


@operator(
    "send_ue_recv",
    legacy=spelled(
        "graph_send_ue_recv",
        {"X": "x", "Y": "y", "Src_index": "src_index", "Dst_index": "dst_index", "Out_size": "out_size"},
        "Out Dst_count",
        types={"out_size": "LONGS"},
    ),
)
def send_ue_recv(
    x: Tensor,
    y: Tensor,
    src_index: Tensor,
    dst_index: Tensor,
    out_size: FedSizes = (0,),
    *,
    message_op: str = "ADD",
    reduce_op: str = "SUM",
) -> tuple[Tensor, None]:
    """As `send_u_recv`, of rows that are joined with those of the edges, `y`."""
    return _received(_message(math.gather(x, src_index, 0), y, message_op), x, dst_index, out_size, reduce_op)


@operator("send_uv", legacy=spelled("graph_send_uv", {"x": "x", "y": "y", "src_index": "src_index", "dst_index": "dst_index"}, "out"))
def send_uv(x: Tensor, y: Tensor, src_index: Tensor, dst_index: Tensor, *, message_op: str = "ADD") -> Tensor:
    """The rows of `x` at which edges begin joined with those of `y` at which they end."""
    return _message(math.gather(x, src_index, 0), math.gather(y, dst_index, 0), message_op)


def _message(x: Tensor, y: Tensor, message_op: str) -> Tensor:
    if message_op.upper() not in _MESSAGES:
        raise UnsupportedError(f"expected a message of {', '.join(_MESSAGES)} but got '{message_op}'")
    return _MESSAGES[message_op.upper()](x, y)


def _received(rows: Tensor, x: Tensor, ends: Tensor, out_size: FedSizes, reduce_op: str) -> tuple[Tensor, None]:
    count: Dim = x.type.shape[0]
    for size in out_size:
        if isinstance(size, Tensor):
            number = fed_sizes.as_number(size)
            is_given = math.greater_than(number, dispatch.full((), 0, i64))
            count = fed_sizes.extent(math.where(is_given, number, fed_sizes.as_number(count)), "out_size")
        elif not isinstance(size, int) or size > 0:
            count = size
    return _reduced(rows, cast_to(ends, i64), count, reduce_op)


def _reduced(x: Tensor, ids: Tensor, count: Dim, kind: str) -> tuple[Tensor, None]:
    """The rows of each number from 0 to `count`, reduced; 0 where there are none. How many there are of each is for gradients."""
    ids = check_within(
        ids,
        count,
        lambda low, high, size: IndexError(f"expected numbers of rows in [0, {size}) but got values from {low} to {high}"),
        wraps=False,
        by_op=True,
    )
    if kind.upper() in ("SUM", "MEAN"):
        made = dispatch.call(nn.ScatterAdd, x, ids, axis=0, size=count)
        if kind.upper() == "SUM":
            return made, None
        ones = dispatch.call(nn.BroadcastTo, dispatch.full((), 1, i32), shape=ids.type.shape)
        counts = dispatch.call(nn.ScatterAdd, ones, ids, axis=0, size=count)
        divisor = math.maximum(counts, dispatch.full((), 1, i32))
        return math.divide(made, cast_to(math.reshape(divisor, [count, *[1] * (x.ndim - 1)]), x.type.dtype)), None
    if kind.upper() not in ("MAX", "MIN"):
        raise UnsupportedError(f"expected a reduction SUM, MEAN, MAX or MIN but got '{kind}'")
    # In ascending order, or descending, the last one that is written is the extreme.
    row = product(x.type.shape[1:])
    columns = dispatch.call(nn.Iota, shape=(x.type.shape[0], row), axis=1, dtype=i64)
    places = math.reshape(math.add(math.multiply(math.unsqueeze(ids, 1), fed_sizes.as_number(row)), columns), [-1])
    values = dispatch.call(nn.Reshape, x, shape=(product(x.type.shape),))
    order = dispatch.call(nn.Argsort, values, axis=0, descending=kind.upper() == "MIN")
    flat = dispatch.full((count * row,), 0, x.type.dtype)
    ordered, at = (dispatch.call(nn.Gather, v, order, axis=0) for v in (values, places))
    made = dispatch.call(nn.Scatter, flat, ordered, at, axis=0)
    return dispatch.call(nn.Reshape, made, shape=(count, *x.type.shape[1:])), None
