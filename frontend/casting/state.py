"""Automatic casts: which dtype an operator computes in inside `paddle.amp.auto_cast`, in each thread. `operators.py` casts.

Operators of neither list are cast to the widest of their inputs. Outside of such regions dispatch looks at one number, `REGIONS.count`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from polyreme.device import current_place
from polyreme.ir import config
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, bf16, f16, f32

WHITE = frozenset({
    "conv2d", "einsum", "flash_attn", "fused_gemm_epilogue", "fused_rotary_position_embedding", "linear_v2", "matmul", "matmul_v2",
    "max_pool2d_with_index", "mul",
})  # fmt: skip
"""Operators that compute in the lower precision, by the names that Paddle 3.3.1 has in its lists."""
WHITE_OF_FLOAT16 = frozenset({
    "fake_quantize_dequantize_abs_max", "fake_quantize_dequantize_moving_average_abs_max", "fused_attention", "fused_feedforward",
})  # fmt: skip
BLACK = frozenset({
    "acos", "asin", "atanh", "c_softmax_with_cross_entropy", "c_softmax_with_multi_label_cross_entropy", "cosh", "cross_entropy",
    "cross_entropy2", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1", "frobenius_norm", "group_norm", "hsigmoid_loss", "huber_loss",
    "layer_norm", "log", "log10", "log2", "log_loss", "log_softmax", "margin_cross_entropy", "mean", "nll_loss", "pnorm", "pow",
    "reciprocal", "reduce_mean", "reduce_prod", "reduce_sum", "renorm", "rsqrt", "sigmoid_cross_entropy_with_logits", "sinh", "softmax",
    "softmax_with_cross_entropy", "softmin", "softplus", "square", "tan", "tanh_shrink", "triplet_margin_loss",
})  # fmt: skip
"""Operators that compute in float32 at level O1."""
ALWAYS_BLACK = frozenset({
    "bicubic_interp_v2", "bilinear_interp_v2", "linear_interp_v2", "lookup_table", "lookup_table_v2", "nearest_interp_v2", "scatter",
    "trilinear_interp_v2",
})  # fmt: skip
"""Operators that do so at O2, too."""
LEVELS = ("O0", "OD", "O1", "O2")
HALVES = {"float16": f16, "bfloat16": bf16}
CAST = frozenset({f16, bf16, f32})
# Of these the first input alone says in what they compute, and alone is cast to half precision: their kernels take statistics and weights
# in float32 there.
BY_FIRST = frozenset({"batch_norm", "layer_norm"})

@dataclass(frozen=True, eq=False)
class Casting:
    """What a region casts, and to what. Regions that do the same share one object: it stands for them in the keys of compiled calls."""

    level: str
    dtype: ScalarType
    white: frozenset[str]
    black: frozenset[str]
    promotes: bool

    def wanted(self, name: str, tensors: Sequence[Any]) -> ScalarType | None:
        """The dtype that an operator's floating inputs become; None where nothing changes. Inputs are tensors, None, or lists of them."""
        given = _given(tensors[:1] if name in BY_FIRST else tensors)
        if not given:
            return None
        wanted = self.dtype
        if name in self.black:
            wanted = f32
        elif name in self.white:
            pass
        elif self.level == "OD" or (self.promotes or name == "batch_norm") and f32 in given:
            wanted = f32
        if name in BY_FIRST and wanted is f32:
            given = _given(tensors)  # in float32 all are cast
        return None if given == [wanted] else wanted


def _given(tensors: Sequence[Any]) -> list[ScalarType]:
    """The dtypes of inputs that may be cast."""
    return [dtype for dtype in dict.fromkeys(t.type.dtype for t in _flat(tensors)) if dtype in CAST]


class OperatorWatch(Protocol):
    """Who is told of each operator that a thread calls (`amp/debugging.py`)."""

    def called(self, name: str, operands: Sequence[Any]) -> None:
        """An operator is called with these inputs."""

    def made(self, name: str, results: Sequence[Any]) -> None:
        """It gave these results."""


class _CastState(threading.local):
    def __init__(self) -> None:
        # What was cast before each region that is open, the outermost first, and whether the region counts.
        self.before: list[tuple[Casting | None, bool]] = []

    casting: Casting | None = None
    watch: OperatorWatch | None = None
    dtype = "float32"  # what the last region was for


class _Regions:
    """How many regions are open that cast or watch, in all threads, and whether one on a CPU casts."""

    __slots__ = ("count", "lock", "on_cpu")

    def __init__(self) -> None:
        self.count, self.lock, self.on_cpu = 0, threading.Lock(), config.amp_on_cpu()

    def add(self, by: int) -> None:
        with self.lock:
            self.count += by


REGIONS = _Regions()
_state = _CastState()
_known: dict[Any, Casting] = {}


def takes_effect() -> bool:
    """Whether mixed precision changes anything on the current device: on a GPU, and on a CPU by the flag `FLAGS_amp_on_cpu`."""
    return REGIONS.on_cpu or current_place().is_gpu_place()


def lists(level: str, dtype: str) -> tuple[frozenset[str], frozenset[str]]:
    """The white and the black list of a level."""
    if level == "O0":
        return frozenset(), frozenset()
    white = WHITE | WHITE_OF_FLOAT16 if dtype == "float16" else WHITE
    return white, {"OD": frozenset[str](), "O1": BLACK | ALWAYS_BLACK, "O2": ALWAYS_BLACK}[level]


def casting(level: str, dtype: str, white: frozenset[str], black: frozenset[str], promotes: bool) -> Casting:
    """The one object that says so."""
    key = level, dtype, white, black, promotes or level != "O2"
    return _known.setdefault(key, Casting(level, HALVES[dtype], *key[2:]))


def current() -> Casting | None:
    """What the region of this thread casts; None outside of such."""
    return _state.casting if REGIONS.count else None


def call_key() -> Any:
    """What compiled code for a call depends on."""
    return (_state.casting if REGIONS.count else None), REGIONS.on_cpu


def enter(found: Casting | None) -> None:
    """Let this thread cast so from now on, until `leave`; None casts nothing."""
    counts = found is not None or _state.casting is not None
    _state.before.append((_state.casting, counts))
    _state.casting = found
    REGIONS.add(counts)


def leave() -> None:
    """End what `enter` began last in this thread."""
    _state.casting, counted = _state.before.pop()
    REGIONS.add(-counted)


@contextmanager
def within(found: Casting | None) -> Iterator[None]:
    """Cast so inside the `with`, as `current` once said: a part of a model that runs again, outside of its region, computes as it did."""
    enter(found)
    try:
        yield
    finally:
        leave()


def last_dtype() -> str:
    """The dtype of the region that was entered last in this thread, whether it had an effect or not; "float32" before the first."""
    return _state.dtype


def note_dtype(dtype: str) -> None:
    """Remember for which dtype a region is entered."""
    _state.dtype = dtype


def watching() -> OperatorWatch | None:
    """Who watches the operators of this thread."""
    return _state.watch


def watch(found: OperatorWatch | None) -> None:
    """Tell `found` of the operators of this thread from now on, and nobody with None."""
    REGIONS.add((found is not None) - (_state.watch is not None))
    _state.watch = found


def attends() -> bool:
    """Whether operators of this thread are cast or watched."""
    return _state.casting is not None or _state.watch is not None


@contextmanager
def suspended() -> Iterator[None]:
    """Nothing is cast or watched inside the `with`: gradients and updates have the dtypes of what they are of."""
    before, _state.casting, _state.watch = (_state.casting, _state.watch), None, None
    try:
        yield
    finally:
        _state.casting, _state.watch = before


def _flat(tensors: Sequence[Any]) -> Iterator[Any]:
    for tensor in tensors:
        if isinstance(tensor, (list, tuple)):
            yield from _flat(tensor)
        elif tensor is not None:
            yield tensor
