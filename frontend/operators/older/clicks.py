"""What models of clicks before Paddle 2 have: columns of what was shown and clicked, statistics over all data, rows chosen by tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyreme import dispatch, math, tape
from polyreme.dialects import nn
from polyreme.function_steps import record_function
from polyreme.ir import dims
from polyreme.ir.types import f32, i64
from polyreme.math.common import cast_to, number_like, select
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import REQUIRED, operator, spelled
from polyreme.operators.sequence.pooling import lengths, sequence_of_rows
from polyreme.operators.sequence.repeating import offsets_of
from polyreme.tensor import Tensor

# What is nearer to 0 than this says that nothing was shown.
_NOTHING_SHOWN = 1e-7


def _with_gradient(
    compute: Callable[[], Tensor], inputs: Sequence[Tensor], backward: Callable[[Tensor], Sequence[Tensor]], name: str
) -> Tensor:
    """What `compute()` gives, whose gradient goes to the inputs as `backward` says."""
    with tape.no_grad():
        made = compute()
    recorder = dispatch.active_trace()
    if recorder is not None and tape.is_grad_enabled() and any(not x.stop_gradient for x in inputs):
        (made,) = recorder.custom_gradient([made], inputs, backward, None, name)
    record_function(inputs, [made], backward, name)
    return made


# --- what was shown and clicked


@operator(legacy=spelled("cvm", {"X": "x", "CVM": "counts", "X@LOD": "levels"}, "Y", constant="CVM"))
def cvm(x: Tensor, counts: Tensor, levels: list[Tensor] | None = None, *, use_cvm: bool = True) -> Tensor:
    """Rows whose first two columns are how often something was shown and clicked, as the logarithms of one more than it was shown and of
    how many of these were clicked; or, without `use_cvm`, without these columns. `counts` [sequences or rows, 2] are those of this batch.
    """
    if x.ndim != 2 or counts.ndim != 2 or counts.shape[1] != 2:
        raise UnsupportedError(f"expected rows [N, D] and 'CVM' [N, 2] for 'cvm' but got {list(x.shape)} and {list(counts.shape)}")
    if levels:
        counts = math.gather(counts, sequence_of_rows(levels[-1], x), 0)
    counts = cast_to(counts.detach(), x.type.dtype)

    def made() -> Tensor:
        if not use_cvm:
            return x[:, 2:]
        shown = math.log(x[:, :1] + 1.0)
        return math.concat([shown, math.log(x[:, 1:2] + 1.0) - shown, x[:, 2:]], 1)

    # The columns get what was shown and clicked this time, whatever the gradient of the result is.
    return _with_gradient(made, [x], lambda dy: [math.concat([counts, dy[:, 2:] if use_cvm else dy], 1)], "cvm")


# --- statistics over all data


def _is_shown(x: Tensor, slot: int) -> Tensor:
    """For each number whether the first one of its slot, `slot` columns, says that the slot was shown."""
    rows, columns = x.type.shape
    first = x[:, ::slot]
    shown = math.greater_equal(math.abs(first), number_like(x, _NOTHING_SHOWN))
    each = math.expand(math.unsqueeze(shown, 2), [rows, first.type.shape[1], slot])
    return math.reshape(each, [rows, first.type.shape[1] * slot])[:, :columns]


_STATISTICS = {"X": "x", "BatchSize": "size", "BatchSum": "total", "BatchSquareSum": "squares", "scale_w": "weight", "bias": "bias"}


@operator(
    legacy=spelled("data_norm", _STATISTICS, "Y Means Scales", ignored="sync_stats summary_decay_rate data_layout enable_scale_and_shift")
)
def data_norm(
    x: Tensor,
    size: Tensor,
    total: Tensor,
    squares: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
    slot_dim: int = -1,
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - total / size) * sqrt(size / squares) per column of [N, C], times `weight` plus `bias`; the means and the factors. With a
    `slot_dim` above 0 columns are slots of so many, which are zeros where their first number is.
    """
    if not 0 <= epsilon <= 0.001:
        raise UnsupportedError(f"expected 'epsilon' of 'data_norm' between 0.0 and 0.001 but got {epsilon}")
    if x.ndim != 2:
        raise UnsupportedError(f"expected rows [N, C] for 'data_norm' but got the shape {list(x.shape)}")
    mean, scale = (total / size).detach(), math.sqrt(size / squares).detach()
    shown = _is_shown(x, slot_dim) if slot_dim > 0 else None

    def normed() -> Tensor:
        made = (x - mean) * scale
        return made if shown is None else select(shown, made, number_like(made, 0.0))

    def gradients(dy: Tensor) -> list[Tensor]:
        """What the statistics get is what the batch adds to them; of slots, the sums of a mean row."""
        there = math.ones_like(x) if shown is None else cast_to(shown, x.type.dtype)
        count, more = math.sum(there, 0), math.sum(there, 0) * epsilon
        rows = [count, math.sum(x * there, 0), math.sum(math.square(x - mean) * there, 0)]
        if shown is not None:
            each = math.maximum(count, number_like(count, 1.0))
            rows = [row / each for row in rows]
        return [dy * scale, rows[0], rows[1], rows[2] + more]

    made = _with_gradient(normed, [x, size, total, squares], gradients, "data_norm")
    if weight is not None and bias is not None:
        made = made * weight + bias
        made = made if shown is None else select(shown, made, number_like(made, 0.0))
    return made, mean, scale


# --- chosen by tags

_TAGGED = {"Ins": "x", "Ins_tag": "tags", "Filter_tag": "wanted", "Ins@LOD": "own", "Ins_tag@LOD": "of_tags"}


@operator(
    legacy=spelled("filter_by_instag", _TAGGED, "Out LossWeight IndexMap Out@LOD LossWeight@LOD", constant="Ins_tag Filter_tag")
)
def filter_by_instag(
    x: Tensor,
    tags: Tensor,
    wanted: Tensor,
    own: list[Tensor] | None = None,
    of_tags: list[Tensor] | None = None,
    *,
    is_lod: bool = REQUIRED,
    out_val_if_empty: int = 0,
) -> tuple[Tensor, Tensor, None, list[Tensor], list[Tensor]]:
    """The instances, sequences of `x` with `is_lod` and rows otherwise, one of whose tags is a wanted one, and a weight of 1 for each.
    Where there are none, one row of `out_val_if_empty` with the weight 0.
    """
    if x.ndim != 2:
        raise UnsupportedError(f"expected rows [N, D] as 'Ins' of 'filter_by_instag' but got the shape {list(x.shape)}")
    meant = math.any(math.equal(math.reshape(tags, [-1, 1]), math.reshape(wanted, [1, -1])), 1)
    if of_tags:
        hits = dispatch.full((of_tags[-1].type.shape[0] - 1,), 0, i64)
        hits = math.index_add(hits, sequence_of_rows(of_tags[-1], tags), 0, cast_to(meant, i64))
        meant = math.greater_than(hits, number_like(hits, 0))
    chosen = math.reshape(math.nonzero(meant), [-1])
    if is_lod and own:
        rows = math.reshape(math.nonzero(math.gather(meant, sequence_of_rows(own[-1], x), 0)), [-1])
        sizes = math.gather(lengths(own[-1]), chosen, 0)
    else:
        rows, sizes = chosen, math.ones_like(chosen)
    count = chosen.type.shape[0]
    none = 1 - dims.minimum(count, 1)
    made = math.concat([math.gather(x, rows, 0), dispatch.full((none, x.type.shape[1]), out_val_if_empty, x.type.dtype)], 0)
    weight = math.concat([dispatch.full((count, 1), 1, f32), dispatch.full((none, 1), 0, f32)], 0)
    one = dispatch.full((none,), 1, i64)
    each = dispatch.call(nn.Iota, shape=(count + none + 1,), axis=0, dtype=i64)
    return made, weight, None, [offsets_of(math.concat([sizes, one], 0))], [each]
