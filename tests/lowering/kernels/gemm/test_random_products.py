"""Matrix products of random shapes, layouts and endings: machine code against float64 and against itself on another number of threads."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from polyreme.dialects import tensor
from polyreme.ir.types import ScalarType, TensorType, f32, f64
from polyreme.lowering.kernels.microkernel import Registers, choose_tile
from polyreme.lowering.machines.targets import TARGETS
from polyreme.lowering.pipeline import assembly_text
from tests.lowering.products import Array, check_evaluated, check_native, root_of, to_kernels

# Operands, result; b is a batch, l a second contracted axis.
SPECS = [
    "mk,kn->mn",
    "mk,nk->mn",
    "km,kn->mn",
    "km,nk->nm",
    "bmk,bkn->bmn",
    "bmk,bnk->bmn",
    "bmk,kn->bmn",
    "mkl,nkl->mn",
    "mbk,nbk->bmn",
    "mkl,lkn->mn",
]
ENDINGS = ["none", "bias relu", "residual", "two readers"]
# Around the sizes of lanes, tiles, blocks and pieces, where the code changes.
SIZES = st.one_of(st.integers(1, 20), st.sampled_from([31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 97, 100, 130]))
LONG = st.one_of(SIZES, st.sampled_from([384, 511, 1025]))


def product_of(
    spec: str, sizes: dict[str, int], dtype: ScalarType, constant: bool, ending: str, seed: int = 0
) -> tuple[Any, list[Array], Array]:
    """A group around one contract, its inputs, and the expected result in float64."""
    rng = np.random.default_rng(seed)
    (left, right), out = spec.split("->")[0].split(","), spec.split("->")[1]
    a, b = (rng.standard_normal([sizes[c] for c in letters]).astype(dtype.np) for letters in (left, right))
    whole = rng.standard_normal([sizes[c] for c in out]).astype(dtype.np)
    bias = rng.standard_normal([1] * (len(out) - 1) + [sizes[out[-1]]]).astype(dtype.np)
    expected = np.einsum(spec, a.astype(np.float64), b.astype(np.float64))
    inputs, extra = [a] if constant else [a, b], {"bias relu": [bias], "residual": [whole]}.get(ending, [])
    expected = {"bias relu": lambda y: np.maximum(y + bias, 0), "residual": lambda y: y + whole, "two readers": lambda y: y * y + y}.get(
        ending, lambda y: y
    )(expected)

    def make(build: Any, *args: Any) -> Any:
        x, w, rest = (args[0], args[-1], args[1:-1]) if constant else (args[0], args[1], args[2:])
        y = build(tensor.Contract, x, w, spec=spec)
        if ending == "two readers":
            return build(tensor.Map, build(tensor.Map, y, y, fn="mul"), y, fn="add")
        for value in rest:
            y = build(tensor.Map, y, value, fn="add")
        return build(tensor.Map, y, build(tensor.Full, value=0.0, shape=(), dtype=dtype), fn="max") if ending == "bias relu" else y

    types = [TensorType(x.shape, dtype) for x in (*inputs, *extra)]
    return root_of(types, make, [b] if constant else []), [*inputs, *extra], expected


CASES = {"spec": st.sampled_from(SPECS), "constant": st.booleans(), "ending": st.sampled_from(ENDINGS)}
QUICK = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(**CASES, m=SIZES, n=SIZES, k=LONG, dtype=st.sampled_from([f32, f32, f64]))
@example(spec="mk,kn->mn", constant=False, ending="residual", m=130, n=1100, k=1100, dtype=f32)
@example(spec="mk,kn->mn", constant=False, ending="residual", m=130, n=100, k=70, dtype=f32)
@example(spec="mk,kn->mn", constant=False, ending="residual", m=129, n=100, k=70, dtype=f32)
@example(spec="mk,nk->mn", constant=False, ending="bias relu", m=100, n=97, k=2100, dtype=f32)
@example(spec="bmk,bnk->bmn", constant=False, ending="none", m=49, n=65, k=64, dtype=f32)
def test_machine_code_gives_the_sums_of_float64_on_any_number_of_threads(
    spec: str, constant: bool, ending: str, m: int, n: int, k: int, dtype: ScalarType
) -> None:
    module, inputs, expected = product_of(spec, {"m": m, "n": n, "k": k, "l": 3, "b": 2}, dtype, constant, ending)
    check_native(module, inputs, expected, dtype)


@pytest.mark.slow
@settings(QUICK, max_examples=300)
@given(**CASES, m=LONG, n=LONG, k=LONG, dtype=st.sampled_from([f32, f64]))
def test_machine_code_gives_the_sums_of_float64_for_many_more_shapes(
    spec: str, constant: bool, ending: str, m: int, n: int, k: int, dtype: ScalarType
) -> None:
    module, inputs, expected = product_of(spec, {"m": m, "n": n, "k": k, "l": 5, "b": 3}, dtype, constant, ending)
    check_native(module, inputs, expected, dtype)


@settings(QUICK, max_examples=8)
@given(
    **CASES,
    m=st.integers(1, 60),
    n=st.integers(1, 40),
    k=st.one_of(st.integers(1, 40), st.just(70)),
    target=st.sampled_from(["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"]),
)
@example(spec="mk,kn->mn", constant=False, ending="none", m=131, n=8, k=70, target="x86-64")
def test_kernels_of_every_target_stay_inside_of_their_buffers(
    spec: str, constant: bool, ending: str, m: int, n: int, k: int, target: str
) -> None:
    module, inputs, expected = product_of(spec, {"m": m, "n": n, "k": k, "l": 2, "b": 2}, f32, constant, ending)
    check_evaluated(module, inputs, expected, f32, TARGETS[target])


@pytest.mark.parametrize("target", ["x86-64-avx512", "x86-64-avx2"])
@pytest.mark.parametrize(
    ("m", "k", "n", "constant"),
    [(512, 512, 512, True), (128, 768, 3072, False), (49, 512, 200, True), (66, 129, 257, True), (1, 768, 768, True)],
    ids=str,
)
def test_the_loops_of_a_product_keep_their_sums_in_registers(m: int, k: int, n: int, constant: bool, target: str) -> None:
    """No vector goes to the stack and back beside the multiply-adds; these tiles were chosen to fit."""
    machine = TARGETS[target]
    module, _, _ = product_of("mk,kn->mn", {"m": m, "k": k, "n": n}, f32, constant, "none")
    lowered, _ = to_kernels(module, machine)
    rows, vectors = choose_tile(m, n, k, Registers.of(machine, f32))
    loops = [loop for loop in innermost_loops(assembly_text(lowered, machine)) if len(MULTIPLY_ADD.findall(loop)) >= rows * vectors]
    assert loops
    for loop in loops:
        assert not VECTOR_ON_STACK.search(loop), loop


MULTIPLY_ADD = re.compile(r"\bvfmadd\w+ps")
# What has an index is a panel that the task has packed.
VECTOR_ON_STACK = re.compile(r"\bv(?:mov|fmadd)\w+ps\s.*\(%rsp\)")


def innermost_loops(text: str) -> list[str]:
    """The bodies that a backward jump closes and that have no such body inside."""
    lines = text.splitlines()
    labels: dict[str, int] = {}
    ends: dict[int, int] = {}
    for i, line in enumerate(lines):
        if label := re.match(r"(\.L\w+):", line):
            labels[label[1]] = i
        if (jump := re.match(r"\s+j\w+\s+(\.L\w+)", line)) and jump[1] in labels:
            ends[labels[jump[1]]] = i
    return ["\n".join(lines[start + 1 : end]) for start, end in ends.items() if not any(start < other < end for other in ends)]
