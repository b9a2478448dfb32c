"""Numbers rounded to what so many bits can say: what training with eight bits in view leaves in a model.

`fake_quantize_dequantize_*` give numbers again, `fake_quantize_*` whole steps in floats, which `fake_dequantize_*` make numbers of. Scales
are the magnitude of the greatest step. Those of a moving average are given in inference; in training the average goes on.
"""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.dialects.nn.quantize import whole_range
from polyreme.operators.arguments import Sizes, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tape import no_grad
from polyreme.tensor import Tensor

# Scales of nothing but zeros become this.
_LEAST = 1e-30


def _most(bit_length: int) -> int:
    if not 2 <= bit_length <= 16:
        raise UnsupportedError(f"expected 2 to 16 bits but got {bit_length}")
    return whole_range(bit_length)[1]


def _ties(round_type: int) -> str:
    """How halves are rounded: 0 stands for even, 1 for away from 0."""
    if round_type not in (0, 1):
        raise UnsupportedError(f"expected the round_type 0 (halves to even) or 1 (halves away from 0) but got {round_type}")
    return "away" if round_type else "even"


def _axis(x: Tensor, quant_axis: int) -> int:
    if quant_axis not in (0, 1) or quant_axis >= x.ndim:
        raise UnsupportedError(f"expected the channels at axis 0 or 1 of {x.type} but got the axis {quant_axis}")
    return quant_axis


def _peak(x: Tensor, axis: int | None = None) -> Tensor:
    """The largest magnitude, [1], or that of each place along an axis."""
    with no_grad():
        others = [i for i in range(x.ndim) if i != axis]
        found = math.max(math.abs(x), axis=others) if others else math.abs(x)
        return math.reshape(found, [1]) if axis is None else found


def _along(scale: Tensor, x: Tensor, axis: int | None) -> Tensor:
    """A scale that broadcasts to `x`: one number, or one per place along an axis."""
    return math.reshape(scale, [] if axis is None else [-1 if i == axis else 1 for i in range(x.ndim)])


def _rounded(x: Tensor, scale: Tensor, bit_length: int, round_type: int, axis: int | None = None) -> Tensor:
    """`x` at the nearest step; gradients pass as if nothing were rounded."""
    most, ties = _most(bit_length), _ties(round_type)
    flat = math.maximum(math.reshape(scale.detach(), [] if axis is None else [-1]), dispatch.full((), _LEAST, scale.type.dtype))
    step = math.divide(flat, dispatch.full((), most, flat.type.dtype))
    return dispatch.call(nn.FakeQuantize, x, step, axis=axis or 0, bit_length=bit_length, ties=ties)


def _counted(x: Tensor, scale: Tensor, bit_length: int, round_type: int, axis: int | None = None) -> Tensor:
    """How many steps from 0 each element is, in floats. No gradient passes it, as in Paddle."""
    most, ties = _most(bit_length), _ties(round_type)
    with no_grad():
        dtype = x.type.dtype
        greatest = _along(scale, x, axis)
        # As Paddle has it, what nobody gave a scale counts as of one millionth.
        none = math.less_equal(greatest, dispatch.full((), _LEAST, dtype))
        one, divisor = dispatch.full((), 1, dtype), math.where(none, math.scale(greatest, 1.0, 1e-6), greatest)
        kept = x if ties == "even" else math.maximum(math.minimum(x, greatest), math.scale(greatest, -1.0))
        steps = math.multiply(kept, math.multiply(math.divide(one, divisor), dispatch.full((), most, dtype)))
        if ties == "even":
            low, high = dispatch.full((), -most - 1, dtype), dispatch.full((), most, dtype)
            return math.maximum(math.minimum(dispatch.call(nn.Round, steps), high), low)
        whole = math.trunc(steps)
        beyond = math.greater_equal(math.abs(math.subtract(steps, whole)), dispatch.full((), 0.5, dtype))
        return math.add(whole, math.where(beyond, math.sign(steps), dispatch.full((), 0, dtype)))


def _moved(x: Tensor, accum: Tensor | None, state: Tensor | None, rate: float) -> tuple[Tensor, Tensor, Tensor]:
    """The scale, state and sum of a moving average of largest magnitudes, one step on."""
    if accum is None or state is None:
        raise UnsupportedError("expected the sum and state of the moving average in training but the program leaves them out")
    with no_grad():
        state = math.scale(state, rate, 1.0)
        accum = math.add(math.scale(accum, rate), math.reshape(_peak(x), accum.type.shape))
        return math.divide(accum, state), state, accum


# --- rounded, and numbers again

_AVERAGE = {"X": "x", "InScale": "in_scale", "InAccum": "in_accum", "InState": "in_state"}
_AVERAGES = "Out OutScale OutState OutAccum"


@operator(
    "fake_quantize_dequantize_moving_average_abs_max",
    legacy=spelled("fake_quantize_dequantize_moving_average_abs_max", _AVERAGE, _AVERAGES),
)
def fake_quantize_dequantize_moving_average_abs_max(
    x: Tensor, in_scale: Tensor, in_accum: Tensor | None = None, in_state: Tensor | None = None, *,
    moving_rate: float = 0.9, bit_length: int = 8, is_test: bool = False, round_type: int = 1,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    if is_test:
        return _rounded(x, in_scale, bit_length, round_type), None, None, None
    scale, state, accum = _moved(x, in_accum, in_state, moving_rate)
    return _rounded(x, scale, bit_length, round_type), scale, state, accum


@operator("fake_quantize_dequantize_abs_max", legacy=spelled("fake_quantize_dequantize_abs_max", outputs="Out OutScale"))
def fake_quantize_dequantize_abs_max(x: Tensor, *, bit_length: int = 8, round_type: int = 1) -> tuple[Tensor, Tensor]:
    scale = _peak(x)
    return _rounded(x, scale, bit_length, round_type), scale


@operator(
    "fake_channel_wise_quantize_dequantize_abs_max",
    legacy=spelled("fake_channel_wise_quantize_dequantize_abs_max", outputs="Out OutScale"),
)
def fake_channel_wise_quantize_dequantize_abs_max(
    x: Tensor, *, bit_length: int = 8, round_type: int = 1, quant_axis: int = 0
) -> tuple[Tensor, Tensor]:
    axis = _axis(x, quant_axis)
    scale = _peak(x, axis)
    return _rounded(x, scale, bit_length, round_type, axis), scale


# --- rounded to whole steps


@operator(
    "fake_quantize_moving_average_abs_max", legacy=spelled("fake_quantize_moving_average_abs_max", _AVERAGE, _AVERAGES)
)
def fake_quantize_moving_average_abs_max(
    x: Tensor, in_scale: Tensor, in_accum: Tensor | None = None, in_state: Tensor | None = None, *,
    moving_rate: float = 0.9, bit_length: int = 8, is_test: bool = False, round_type: int = 1,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    if is_test:
        return _counted(x, in_scale, bit_length, round_type), None, None, None
    scale, state, accum = _moved(x, in_accum, in_state, moving_rate)
    return _counted(x, scale, bit_length, round_type), scale, state, accum


@operator(
    "fake_quantize_range_abs_max",
    legacy=spelled("fake_quantize_range_abs_max", {"X": "x", "InScale": "in_scale", "Iter": "iter"}, "Out OutScale OutScales"),
)
def fake_quantize_range_abs_max(
    x: Tensor, in_scale: Tensor, iter: Tensor | None = None, *,
    window_size: int = 10000, bit_length: int = 8, is_test: bool = False, round_type: int = 1,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    if not is_test:
        raise UnsupportedError("expected 'fake_quantize_range_abs_max' in inference: in training it keeps a window of scales")
    return _counted(x, in_scale, bit_length, round_type), None, None


@operator("fake_quantize_abs_max", legacy=spelled("fake_quantize_abs_max", outputs="Out OutScale"))
def fake_quantize_abs_max(x: Tensor, *, bit_length: int = 8, round_type: int = 1) -> tuple[Tensor, Tensor]:
    scale = _peak(x)
    return _counted(x, scale, bit_length, round_type), scale


@operator("fake_channel_wise_quantize_abs_max", legacy=spelled("fake_channel_wise_quantize_abs_max", outputs="Out OutScale"))
def fake_channel_wise_quantize_abs_max(
    x: Tensor, *, bit_length: int = 8, round_type: int = 1, quant_axis: int = 0, is_test: bool = False
) -> tuple[Tensor, Tensor]:
    if is_test:
        raise UnsupportedError("expected 'fake_channel_wise_quantize_abs_max' to find its scales, not to read them (is_test)")
    axis = _axis(x, quant_axis)
    scale = _peak(x, axis)
    return _counted(x, scale, bit_length, round_type, axis), scale


# --- numbers of whole steps


@operator("fake_dequantize_max_abs", legacy=spelled("fake_dequantize_max_abs", {"X": "x", "Scale": "scale"}))
def fake_dequantize_max_abs(x: Tensor, scale: Tensor, *, max_range: float) -> Tensor:
    return math.divide(math.multiply(x, _along(scale, x, None)), dispatch.full((), max_range, x.type.dtype))


@operator("fake_channel_wise_dequantize_max_abs", legacy=spelled("fake_channel_wise_dequantize_max_abs", {"X": "x", "Scales": "scales"}))
def fake_channel_wise_dequantize_max_abs(
    x: Tensor, scales: list[Tensor], *, quant_bits: Sizes = (8,), quant_axis: int = 0, x_num_col_dims: int = 1
) -> Tensor:
    """One scale per channel; or two, of the channels at `x_num_col_dims` and of all that went into the product."""
    if len(scales) not in (1, 2) or len(quant_bits) < len(scales):
        raise UnsupportedError(f"expected one or two scales with their bits but got {len(scales)} with {list(quant_bits)}")
    most = 1
    for bits in quant_bits[: len(scales)]:
        most *= _most(int(bits))
    axis = quant_axis if len(scales) == 1 else x_num_col_dims
    found = math.multiply(x, _along(scales[0], x, axis))
    if len(scales) == 2:
        found = math.multiply(found, _along(scales[1], x, None))
    return math.divide(found, dispatch.full((), most, x.type.dtype))


@operator(
    "moving_average_abs_max_scale",
    legacy=spelled("moving_average_abs_max_scale", {"X": "x", "InAccum": "in_accum", "InState": "in_state"}, _AVERAGES),
)
def moving_average_abs_max_scale(
    x: Tensor, in_accum: Tensor | None = None, in_state: Tensor | None = None, *, moving_rate: float = 0.9, is_test: bool = False
) -> tuple[Tensor | None, ...]:
    """`x`, watched in training."""
    if is_test:
        return x, None, None, None
    return x, *_moved(x, in_accum, in_state, moving_rate)
