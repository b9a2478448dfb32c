"""Gradients of every case that has some, three ways: `python -m tests.api.gradients [--compiled] [TEXT ...]`.

differences  eager gradients in float64 against differences of the function, along a direction of each input and parameter
compiled     gradients of the same call as a compiled program against eager ones, in the dtype of the case; None where those are None

Of a case that differs a line is printed, and in the end how many cases there were, how many of them no program can be made of, and how
many inputs stand at a kink, where left and right differ and no difference is a gradient. `ON_PURPOSE` says which gradients are others.
TEXT selects cases by what their ids begin with.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme.ir.diagnostics import InferError, PolyremeError
from polyreme.ir.dims import UnknownSize
from polyreme.jit.capture.trace import trace
from polyreme.jit.program import TracedProgram
from polyreme.random import default_generator
from tests.api.table import Array, Built, Call, Case, Inputs, Recipe, Rng, _like, _once, _tensors, load, resolve

STEP = 1e-5
CLOSE = 2e-5  # relative to what could have come out; of second order terms
SEED = 2026
TOLERANCES = {"float64": (1e-7, 1e-9), "complex128": (1e-7, 1e-9)}
SINGLE = (2e-4, 2e-5)
# What a case begins with whose gradient is on purpose not that of the function, as in Paddle; and why.
ON_PURPOSE = {
    "paddle.nn.functional.embedding(": "with scale_grad_by_freq the gradient is divided, not the function",
    "paddle.nn.functional.ctc_loss(f32[7,2,5], int32 [[4, 4, 4], [1, 2, 1]], int64 [7, 6], int64 [3, 3], norm_by_times": "gradients alone",
    "paddle.nn.CTCLoss(3, 'sum', True)(f32[5,2,4], int32 [[1, 2], [0, 0]], int64 [5, 4], int64 [2, 1], norm_by_times": "gradients alone",
    "paddle.nn.functional.cross_entropy(input=f32[3,5": "a label gets a gradient through its weight, and none through the loss",
    "paddle.nn.functional.sigmoid_focal_loss(logit=f32[2,3]": "a label gets no gradient through the cross entropy",
    "paddle.nn.functional.hsigmoid_loss(f32[2,3]*100.0": "scores are cut off at 40, gradients pass",
    "paddle.cast(f32[2,3]*2.0, 'float16')": "a function with steps",
    "paddle.cast(f64[2,3]*2.0, 'float16')": "a function with steps",
    "paddle.median(float32 [2.0, 9.0, 2.0, 2.0], mode='min')": "of equal elements the first one has the gradient",
    "paddle.nn.SpectralNorm(": "the vectors of the power iteration are taken for constants",
    "paddle.std: paddle.std(x, unbiased=False) where x=f32[1]": "the root of 0",
}


class Leaves(Inputs):
    """Inputs whose leaves are given, in their order, or drawn as ever; others are drawn once and then the same."""

    def __init__(self, rng: Rng, convert: Callable[[Recipe], Recipe] = lambda recipe: recipe):
        super().__init__(paddle, rng, with_grad=True)
        self.convert = convert
        self.given: Iterator[Any] | None = None
        self.kept: list[Any] = []
        self.again: Iterator[Any] | None = None

    def tensor(self, recipe: Recipe) -> Any:
        if self.given is None or self.again is None:
            before = len(self.leaves)
            made = super().tensor(self.convert(recipe))
            self.kept.append(None if len(self.leaves) > before else made)
            return made
        made = next(self.again)
        return made if made is not None else self._seen(recipe, next(self.given))

    def _seen(self, recipe: Recipe, leaf: Any) -> Any:
        """What the recipe makes of its leaf."""
        if not recipe.is_strided:
            return leaf
        if sum(n > 1 for n in recipe.shape) == 1:
            return leaf[(slice(None),) * recipe.shape.index(max(recipe.shape)) + (slice(None, None, 2),)]
        return leaf.transpose(list(range(len(recipe.shape)))[::-1])

    def replay(self, leaves: Sequence[Any]) -> None:
        """Give these instead of the leaves, from the first on."""
        self.given, self.again = iter(leaves), iter(self.kept)


@dataclass
class Subject:
    """A case made ready: `call(leaves)` gives its outputs that have gradients, with inputs and parameters of a Layer replaced."""

    leaves: list[Any]
    call: Callable[[Sequence[Any]], list[Any]]
    named: dict[str, Any] = field(default_factory=dict)


def _double(recipe: Recipe) -> Recipe:
    """In double precision."""
    wide = {"float32": "float64", "complex64": "complex128"}
    return replace(recipe, dtype=wide.get(recipe.dtype, recipe.dtype))


def subject_of(case: Case, *, double: bool) -> Subject:
    """The case on leaves of its own."""
    body: Call | Built = case.body.__self__  # type: ignore[attr-defined]
    inputs = Leaves(case.rng(), _double if double else lambda recipe: recipe)
    if isinstance(body, Call):
        inputs(body.args), inputs(body.kwargs)

        def run(leaves: Sequence[Any]) -> Any:
            inputs.replay(leaves)
            args, kwargs = inputs(body.args), inputs(body.kwargs)
            if body.expression:
                result = eval(body.expression, {"paddle": paddle, "F": paddle.nn.functional, "np": np, **kwargs})
            else:
                result = resolve(paddle, body.name)(*args, **kwargs)
            return result if body.out is None else body.out(result)

        return Subject(inputs.leaves, lambda leaves: outputs_of(_with_default("float64" if double else "float32", lambda: run(leaves))))
    made = Inputs(paddle, case.rng(), with_grad=True)
    default = "float64" if double else body.default

    def built() -> Any:
        paddle.seed(SEED)
        layer = resolve(paddle, body.name)(*made(body.args), **made(body.kwargs))
        return layer.to(dtype="float64") if double else layer

    layer = _with_default(default, built)
    inputs.rng = made.rng
    inputs(body.inputs), inputs(body.keywords)
    parameters = [p for p in layer.parameters() if not p.stop_gradient]
    # What a call writes to is as it was before each.
    state = {id(t): t for t in (*layer.parameters(), *layer.buffers()) if t is not None and t.stop_gradient and t._is_initialized()}
    starts = [(t, t.clone()) for t in state.values()]

    def run_layer(leaves: Sequence[Any]) -> Any:
        count = len(inputs.leaves)
        for held, start in starts:
            if isinstance(held._value, np.ndarray):
                held.set_value(start)
        for parameter, value in zip(parameters, leaves[count:], strict=True):
            if value is not parameter:
                parameter.set_value(value.detach())
        inputs.replay(leaves[:count])
        return layer(*inputs(body.inputs), **inputs(body.keywords))

    return Subject(
        [*inputs.leaves, *parameters],
        lambda leaves: outputs_of(_with_default(default, lambda: run_layer(leaves))),
        dict(layer.named_parameters()) | dict(layer.named_buffers()),
    )


def _with_default(dtype: str, run: Callable[[], Any]) -> Any:
    """What `run()` gives where this is the default dtype."""
    paddle.set_default_dtype(dtype)
    try:
        return run()
    finally:
        paddle.set_default_dtype("float32")


def outputs_of(result: Any) -> list[Any]:
    """The tensors of a result that have gradients, each once."""
    kinds = ("float", "complex")
    return [t for t in _once(_tensors(paddle, result)) if not t.stop_gradient and any(kind in str(t.dtype) for kind in kinds)]


def has_gradients(case: Case) -> bool:
    """Whether the case is a call or a layer that is asked for gradients, of numbers that are not of half precision."""
    held = getattr(case.body, "__self__", None)
    return (
        isinstance(held, (Call, Built))
        and case.body.__name__ == "run"
        and not case.raises
        and "gradient" in case.traits
        and not case.traits & {"float16", "bfloat16"}
    )


def _value(outputs: Sequence[Any], cotangents: Sequence[Array]) -> float:
    """The sum of the real parts of products with fixed numbers, by numpy."""
    with np.errstate(all="ignore"):
        return float(sum((np.asarray(t.numpy()) * np.conj(c)).real.sum() for t, c in zip(outputs, cotangents, strict=True)))


def _drawn(outputs: Sequence[Any]) -> list[Any]:
    drawing = np.random.default_rng(8)
    return [_like(paddle, t, drawing) for t in outputs]


def _direction(gradient: Array, drawing: Rng) -> Array:
    """Of each element some way up along its gradient, so that what is wrong with one does not cancel; any way where that is 0."""
    drawn = drawing.standard_normal(gradient.shape)
    sizes = np.abs(gradient)
    known = np.isfinite(sizes) & (sizes > 0)
    return np.abs(drawn) * np.where(known, gradient / np.where(known, sizes, 1), np.sign(drawn))


def by_differences(case: Case, count: Counter[str]) -> list[str]:
    """Where gradients are not those that differences show."""
    subject = subject_of(case, double=True)
    paddle.seed(SEED)
    try:
        outputs = subject.call(subject.leaves)
    except InferError:
        count["cases of dtypes for which there is no function"] += 1
        return []
    if not outputs or not subject.leaves:
        return []
    cotangents = _drawn(outputs)
    found = paddle.grad(outputs, subject.leaves, cotangents, allow_unused=True)
    fixed = [c.numpy() for c in cotangents]
    drawing = np.random.default_rng(7)
    faults = []
    before = [leaf.detach().clone() for leaf in subject.leaves]
    for leaf in before:
        leaf.stop_gradient = False
    for number, (leaf, gradient) in enumerate(zip(before, found, strict=True)):
        if leaf.size == 0:
            continue
        count["inputs"] += 1
        if gradient is None:
            count["inputs without a gradient"] += 1
            continue
        direction = _direction(gradient.numpy(), drawing)

        def at(step: float, number: int = number, leaf: Any = leaf, direction: Array = direction) -> float:
            moved = paddle.to_tensor(leaf.numpy() + step * direction, dtype=leaf.dtype, stop_gradient=False)
            paddle.seed(SEED)
            return _value(subject.call([*before[:number], moved, *before[number + 1 :]]), fixed)

        along = float((np.conj(gradient.numpy()) * direction).real.sum())
        size = float((np.abs(gradient.numpy()) * np.abs(direction)).sum())
        ahead, here, behind = at(STEP), at(0.0), at(-STEP)
        left, right = (here - behind) / STEP, (ahead - here) / STEP
        both = (ahead - behind) / (2 * STEP)
        if not np.isfinite([left, right]).all():
            count["inputs next to which nothing is finite"] += 1
            continue
        allowed = CLOSE * max(size, abs(both), 1.0) + 1e-10 * abs(here) / STEP
        if abs(along - both) <= allowed:
            continue
        # Beside 1e9, which stands for infinity in masks, differences have few digits.
        further = (at(64 * STEP) - at(-64 * STEP)) / (128 * STEP)
        if abs(along - further) <= 4 * allowed:
            continue
        nearer = (at(STEP / 16) - at(-STEP / 16)) / (STEP / 8)  # a kink, or a bend, that the step went over
        if abs(along - nearer) <= 4 * allowed:
            continue
        if abs(right - left) > 100 * STEP * max(size, abs(both), 1.0):
            count["inputs at kinks"] += 1
            continue
        if case.id.startswith(tuple(ON_PURPOSE)):
            count["inputs whose gradients are others on purpose"] += 1
            continue
        faults.append(f"{case.id}: input {number}: {along!r} but differences are {both!r}")
    return faults


def by_a_program(case: Case, count: Counter[str]) -> list[str]:
    """Where gradients of the case as a compiled program are not those of eager mode."""
    subject = subject_of(case, double=False)
    paddle.seed(SEED)
    try:
        outputs = subject.call(subject.leaves)
    except InferError:
        count["cases of dtypes for which there is no function"] += 1
        return []
    if not outputs or not subject.leaves:
        return []
    cotangents = _drawn(outputs)
    wanted = paddle.grad(outputs, subject.leaves, cotangents, allow_unused=True)
    after = default_generator().state.numpy().copy()
    paddle.seed(SEED)
    count["cases"] += 1
    named = {"random_state": default_generator().state} | subject.named
    held = {id(p) for p in subject.named.values()}
    free = [leaf for leaf in subject.leaves if id(leaf) not in held]
    parameters = subject.leaves[len(free) :]
    inputs = [(leaf.type, f"x{i}", False) for i, leaf in enumerate(free)]
    try:
        traced = trace(lambda *leaves: subject.call([*leaves, *parameters]), lambda given: (tuple(given), {}), inputs, named)
        found = TracedProgram(traced, "case")(free)
    except (PolyremeError, UnknownSize) as error:
        count["cases that are no program"] += 1
        count[f"no program: {str(error).splitlines()[0][:110]}"] += 1
        return []
    got = paddle.grad(found, subject.leaves, cotangents, allow_unused=True)
    faults = []
    if not np.array_equal(after, default_generator().state.numpy()):
        faults.append(f"{case.id}: random numbers go on from elsewhere")
    kinds = [("result", a, b) for a, b in zip(outputs, found, strict=True)]
    kinds += [(f"gradient {i}", a, b) for i, (a, b) in enumerate(zip(wanted, got, strict=True))]
    for what, one, other in kinds:
        count["gradients"] += what != "result"
        if one is None or other is None:
            if one is not other:
                has = ("some", "none") if other is None else ("none", "some")
                faults.append(f"{case.id}: {what}: expected {has[0]} but got {has[1]}")
            continue
        a, b = one.numpy(), other.numpy()
        relative, absolute = TOLERANCES.get(str(a.dtype), SINGLE)
        if case.rtol is not None:
            relative = max(relative, 10 * case.rtol)
        largest = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
        if a.shape != b.shape or a.dtype != b.dtype:
            faults.append(f"{case.id}: {what}: expected {a.dtype}{list(a.shape)} but got {b.dtype}{list(b.shape)}")
        elif not np.allclose(b, a, rtol=relative, atol=absolute * max(largest, 0.1), equal_nan=True):
            faults.append(f"{case.id}: {what}: {np.abs(a - b).max()!r} apart, of {largest!r}")
    return faults


def by_name(*starts: str) -> dict[str, list[Case]]:
    """The cases of each name that have gradients."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case in load().values():
        if has_gradients(case) and (not starts or case.id.startswith(starts)):
            found[case.names[0]].append(case)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--most", type=int, default=1 << 30, help="cases of each name")
    parser.add_argument("starts", nargs="*")
    options = parser.parse_args()
    count: Counter[str] = Counter()
    compared = by_a_program if options.compiled else by_differences
    with warnings.catch_warnings(action="ignore"):
        for cases in by_name(*options.starts).values():
            count["names"] += 1
            for case in cases[: options.most]:
                count["cases looked at"] += 1
                try:
                    faults = compared(case, count)
                except Exception as error:
                    faults = [f"{case.id}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"]
                for fault in faults:
                    count["faults"] += 1
                    print(fault, flush=True)
    for what, number in count.items():
        print(f"{number:6} {what}")
    sys.exit(bool(count["faults"]))


if __name__ == "__main__":
    main()
