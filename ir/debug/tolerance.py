"""What a program should compute, and how far a correct compilation of it may be from that.

    wanted = expect(module, inputs)
    for misfit in wanted.misfits(results):
        print(misfit)
        # result 0 at [1, 2]: expected 0.25 but got 0.75, which is 0.5 away with 3e-07 allowed; 12 of 64 elements are wrong

Values are those of the same module evaluated in float64. The distance allowed is found by what is known as Monte Carlo arithmetic (Parker,
1997; Denis, de Oliveira Castro and Petit, "Verificarlo", 2016): the float64 evaluation runs a few times more, each time with every op's
result moved up or down by the bound that the op table declares for it (`ir/accuracy.py`). How far the results move is what correct
roundings can do to this program on these inputs, whatever cancels, grows or flips in it; `SAFETY` times that is allowed. So the tolerance
is wide where a program is ill-conditioned and tight where it is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polyreme.ir.accuracy import Array, terms_of, ulp_of
from polyreme.ir.builtin import Module
from polyreme.ir.core import Op
from polyreme.ir.define import ConstantLike
from polyreme.ir.evaluate import evaluate
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import (
    BufferType,
    FunctionType,
    PendingType,
    ScalarType,
    TensorType,
    Type,
    VectorType,
    c128,
    element_type,
    f64,
    scalar_type,
)

# How many times further than in the trial runs a result may be: trials are few, and a lowering has more steps than the op that it stands
# for.
SAFETY = 4.0
RUNS = 3


@dataclass(frozen=True)
class Misfit:
    """A result that is not what it should be: where it is furthest off for what is allowed there, and how many elements are."""

    result: int
    at: tuple[int, ...]
    expected: Any
    got: Any
    allowed: float
    count: int
    size: int

    def __str__(self) -> str:
        place = f" at {list(self.at)}" if self.at else ""
        share = f"; {self.count} of {self.size} elements are wrong" if self.size > 1 else ""
        return f"result {self.result}{place}: expected {_number(self.expected)} but got {_number(self.got)}{self._distance()}{share}"

    def _distance(self) -> str:
        if isinstance(self.expected, (tuple, str)) or not np.isfinite(self.expected) or not np.isfinite(self.got):
            return ""
        return f", which is {abs(complex(self.got) - complex(self.expected)):.3g} away with {self.allowed:.3g} allowed"


def _number(value: Any) -> str:
    if isinstance(value, (tuple, str)):
        return str(value)
    return f"{value:.9g}" if isinstance(value, (float, np.floating)) else str(value)


@dataclass(frozen=True)
class Expected:
    """`given`: the results in the module's own types; `values`: the same in float64; `allowed`: the distance from `values` at each element.
    """

    given: list[Array]
    values: list[Array]
    allowed: list[Array]

    def misfits(self, results: Sequence[Any]) -> list[Misfit]:
        """The results that differ by more than is allowed, in shape or in type; none when all is well."""
        found = []
        for i, (given, value, allowed, result) in enumerate(zip(self.given, self.values, self.allowed, results, strict=True)):
            misfit = _misfit(i, given, value, allowed, np.asarray(result))
            if misfit is not None:
                found.append(misfit)
        return found


def _misfit(index: int, given: Array, value: Array, allowed: Array, got: Array) -> Misfit | None:
    if got.shape != given.shape or got.dtype != given.dtype:
        wanted, made = (f"{scalar_type(a.dtype)}{list(a.shape)}" for a in (given, got))
        return Misfit(index, (), wanted, made, 0.0, given.size, given.size)
    with np.errstate(all="ignore"):
        wide = got.astype(value.dtype)
        distance = np.abs(wide - value) if value.dtype.kind in "fc" else np.abs(wide.astype(np.float64) - value.astype(np.float64))
        # What is infinite or no number in the module's own type has to stay that.
        same = (given == got) | ((given != given) & (got != got))
        wrong = ~(same | (np.isfinite(wide) & (distance <= allowed)))
        if not wrong.any():
            return None
        excess = np.where(wrong, np.where(np.isfinite(distance), distance, np.inf) / np.maximum(allowed, 1e-300), -1.0)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), got.shape))
    expected = value[at] if np.isfinite(given[at]) else given[at]
    return Misfit(index, at, expected, got[at], float(allowed[at]), int(wrong.sum()), got.size)


def expect(module: Module, inputs: Sequence[Any], function: str = "main", runs: int = RUNS, seed: int = 0) -> Expected:
    """What `function` of the module should give on `inputs`; `runs` trials, whose signs are drawn by `seed`, say how far from it is
    allowed.
    """
    given = evaluate(module, inputs, function)
    wide, narrow = _widened(module)
    wide_inputs = [_widened_array(np.asarray(x)) for x in inputs]
    # A function on buffers writes into its arguments.
    run = lambda watch: [r.copy() for r in evaluate(wide, [x.copy() for x in wide_inputs], function, watch)]
    with np.errstate(all="ignore"):
        values = run(_Watch(narrow, None))
        rng = np.random.default_rng(seed)
        trials = [run(_Watch(narrow, rng)) for _ in range(runs)]
        allowed = [_allowed(g, v, [t[i] for t in trials]) for i, (g, v) in enumerate(zip(given, values, strict=True))]
    return Expected([np.asarray(g) for g in given], values, allowed)


def _allowed(given: Array, value: Array, trials: Sequence[Array]) -> Array:
    """The distance allowed at each element. A jump in a trial (an integer or truth that differs) allows that jump there."""
    moved = np.max([np.zeros(value.shape), *(np.abs(_real(t) - _real(value)) for t in trials)], axis=0)
    moved = np.where(np.isfinite(moved), moved, 0.0)
    if given.dtype.kind in "iub":
        return np.asarray(moved)
    off = np.abs(_real(given) - _real(value))
    own = ulp_of(value, scalar_type(given.dtype))
    own = np.where(np.isfinite(own), own, 0.0)
    return SAFETY * (moved + _typical(moved, own)) + np.where(np.isfinite(off), off, 0.0) + own


def _typical(moved: Array, own: Array) -> Array:
    """How far an element may move that happened to move little in a few trials: as far as others do, or as many of its units in the last
    place as others do of theirs, whichever is less. So neither a large element nor one in which terms cancel makes room for all.
    """
    if not moved.size:
        return moved
    rms = lambda x: float(np.sqrt(np.mean(np.square(x))))
    return np.minimum(rms(moved), own * rms(moved / np.maximum(own, 1e-300)))


def _real(values: Array) -> Array:
    return values if values.dtype.kind in "fc" and values.dtype.name != "bfloat16" else values.astype(np.float64)


# --- a module in float64


def _widened(module: Module) -> tuple[Module, Mapping[Op, Op]]:
    """A copy of the module in which all floats are float64, and for each of its ops the one it was made from."""
    wide: Module = module.clone()
    narrow = dict(zip(wide.walk(), module.walk(), strict=True))
    for op in narrow:
        # Constants, and what draws random bits, mean numbers of their own type: they are made as they are, and widened after.
        if op.regions or any(_is_narrow(v.type) for v in narrow[op].operands) or (not op.operands and not op.has(ConstantLike)):
            op.attributes = {name: _widened_value(value) for name, value in op.attributes.items()}
        for result in op.results:
            result.type = _widened_type(result.type)
        for region in op.regions:
            for block in region.blocks:
                for arg in block.args:
                    arg.type = _widened_type(arg.type)
    return wide, narrow


_WIDE: dict[str, ScalarType] = {"f16": f64, "bf16": f64, "f32": f64, "complex<f32>": c128}


def _widened_type(kind: Type) -> Type:
    if isinstance(kind, ScalarType):
        return _WIDE.get(kind.name, kind)
    if isinstance(kind, FunctionType):
        return FunctionType(tuple(map(_widened_type, kind.inputs)), tuple(map(_widened_type, kind.results)))
    if isinstance(kind, VectorType):
        return VectorType(kind.lanes, _WIDE.get(kind.dtype.name, kind.dtype))
    return kind.__class__(kind.shape, _WIDE.get(kind.dtype.name, kind.dtype))


def _is_narrow(kind: Type) -> bool:
    return _widened_type(kind) != kind


def _widened_value(value: Any) -> Any:
    return _widened_type(value) if isinstance(value, (ScalarType, TensorType, BufferType, PendingType, VectorType, FunctionType)) else value


def _widened_array(array: Array) -> Array:
    dtype = _WIDE.get(scalar_type(array.dtype).name)
    return array if dtype is None else array.astype(dtype.np)


class _Watch:
    """Widens what ops of narrow types make and, with `rng`, moves every result by its op's bound in one direction or the other."""

    def __init__(self, narrow: Mapping[Op, Op], rng: np.random.Generator | None):
        self.narrow = narrow
        self.rng = rng

    def __call__(self, op: Op, args: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        made = [_as_type(value, result.type) for value, result in zip(results, op.results, strict=True)]
        if self.rng is None:
            return made
        for i, (value, bound) in enumerate(zip(made, bounds_of(op, args, made, [r.type for r in self.narrow[op].results]), strict=True)):
            if bound is not None:
                made[i] = _as_type(value + bound * self.rng.choice((-1.0, 1.0), np.shape(value)), op.results[i].type)
        return made


def bounds_of(op: Op, args: Sequence[Any], results: Sequence[Any], types: Sequence[Type]) -> list[Array | None]:
    """How far each of `results`, which `op` makes of `args`, may be from the exact ones when they are of `types`; None for what is exact.

    Operands and results may be of a wider type than what they stand for.
    """
    accuracy = op.definition.accuracy_of(op.attributes)
    if accuracy.is_exact:
        return [None] * len(results)
    magnitudes: Sequence[Any] = [0.0] * len(results)
    terms = 1.0
    if accuracy.summed:
        magnitudes = op.evaluate([np.abs(x) if _is_float(x) else x for x in args], _no_region)
        terms = terms_of([x for x in args if _is_float(x)], results[0])
    kinds = [None if isinstance(t, (PendingType, FunctionType)) else element_type(t) for t in types]
    return [
        accuracy.bound(value, kind, magnitude, terms) if kind is not None and kind.kind in "fc" and _is_float(value) else None
        for value, magnitude, kind in zip(results, magnitudes, kinds, strict=True)
    ]


def _no_region(*_: Any) -> Any:
    raise AssertionError("an op with regions has no roundings of its own")


def _is_float(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fc"


def _as_type(value: Any, kind: Type) -> Any:
    """The value in the type's element type; what is on its way from elsewhere is left as it is."""
    if isinstance(kind, (PendingType, FunctionType)) or not isinstance(value, (np.ndarray, np.generic)):
        return value
    dtype = element_type(kind).np
    return value if value.dtype == dtype else value.astype(dtype)
