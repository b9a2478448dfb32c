"""Facts about a machine decide how the work is cut, never what is computed: networks of random sizes, for machines of random facts, against
what their ops mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import polyreme as paddle
from polyreme.compiled.inspection import model_module
from polyreme.ir.evaluate import evaluate
from polyreme.lowering.machines.targets import Target, host
from polyreme.lowering.pipeline import compile_module
from polyreme.runtime.threads import get_num_threads, set_num_threads

nn, F = paddle.nn, paddle.nn.functional
SIZES = st.one_of(st.integers(1, 20), st.sampled_from([31, 32, 33, 48, 49, 64, 65, 100, 130, 256]))
PLACES = st.sampled_from([1, 4, 7, 8, 9, 14, 15, 16, 28, 33])
KB = 1 << 10


@st.composite
def machines(draw: st.DrawFn) -> Target:
    """This one with other facts. LLVM cuts vectors that are too wide for it, and caches are small enough for small sizes to be far."""
    width = draw(st.sampled_from([16, 32, 64]))
    flags = {
        name: draw(st.booleans())
        for name in ("spare_adders", "hardware_prefetch", "half_width_vectors", "separate_l3", "winograd", "strassen", "bf16_terms")
    }
    return replace(
        host(),
        vector_bytes=width,
        vector_registers=draw(st.sampled_from([16, 32])) if width < 64 else 32,
        masked=width > 16 or draw(st.booleans()),
        caches=draw(
            st.sampled_from(
                [
                    host().caches,
                    (8 * KB, 64 * KB, 16384 * KB),
                    (16 * KB, 128 * KB, 1024 * KB),
                    (4 * KB, 16 * KB, 64 * KB),
                    (48 * KB, 2048 * KB, 16384 * KB),
                ]
            )
        ),
        l3_bytes_per_cycle=draw(st.sampled_from([9.5, 20.0])),
        memory_bytes_per_cycle=draw(st.sampled_from([4.0, 10.0])),
        memory_streams=draw(st.sampled_from([1, 8])),
        multiply_adds=draw(st.sampled_from([1, 2])),
        load_cycles=draw(st.sampled_from([0.0, 0.01])),
        **flags,
    )


class Network(nn.Layer):
    def __init__(self, run: Any, *parts: nn.Layer):
        super().__init__()
        self.parts, self.run = nn.LayerList(list(parts)), run

    def forward(self, *inputs: Any) -> Any:
        return self.run(self.parts, *inputs)


Drawn = tuple[Network, list[tuple[int, ...]]]


def _activation(draw: st.DrawFn) -> Any:
    return draw(st.sampled_from([F.relu, F.gelu, F.silu, F.hardswish, lambda y: y]))


def _linear(draw: st.DrawFn) -> Drawn:
    rows, depth, hidden, out = (draw(SIZES) for _ in range(4))
    f = _activation(draw)
    return Network(lambda parts, x: parts[1](f(parts[0](x))), nn.Linear(depth, hidden), nn.Linear(hidden, out)), [(rows, depth)]


def _einsum(draw: st.DrawFn) -> Drawn:
    """Letters in any order, several of them contracted or at both sides."""
    letters = "abcdef"
    sizes = {c: draw(st.sampled_from([1, 2, 3, 7, 8, 9, 17, 33, 50])) for c in letters}
    left, right = (draw(st.lists(st.sampled_from(letters), min_size=2, max_size=most, unique=True)) for most in (4, 3))
    out = draw(st.permutations([c for c in letters if (c in left) != (c in right)] or left[:1]))
    spec = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    return Network(lambda _, x, y: paddle.einsum(spec, x, y)), [tuple(sizes[c] for c in side) for side in (left, right)]


def _convolution(draw: st.DrawFn) -> Drawn:
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    channels, out = (groups * draw(SIZES) for _ in range(2))
    taps, stride, dilation = (
        draw(st.sampled_from([1, 1, 2, 3, 3, 3, 5, 7])),
        draw(st.sampled_from([1, 1, 2, 3])),
        draw(st.sampled_from([1, 1, 2])),
    )
    high, wide = (max(draw(PLACES), (taps - 1) * dilation + 1) for _ in range(2))
    conv = nn.Conv2D(channels, out, taps, stride, draw(st.sampled_from([0, taps // 2])), dilation, groups)
    f, pools = _activation(draw), draw(st.booleans())
    return Network(
        lambda parts, x: (lambda y: F.adaptive_avg_pool2d(y, 1) if pools else y)(f(parts[1](parts[0](x)))), conv, nn.BatchNorm2D(out)
    ), [(draw(st.integers(1, 3)), channels, high, wide)]


def _separable(draw: st.DrawFn) -> Drawn:
    given, wide, out = (draw(SIZES) for _ in range(3))
    taps, f = draw(st.sampled_from([3, 5])), _activation(draw)
    parts = (
        nn.Conv2D(given, wide, 1),
        nn.Conv2D(wide, wide, taps, draw(st.sampled_from([1, 2])), taps // 2, groups=wide),
        nn.Conv2D(wide, out, 1),
    )
    return Network(lambda parts, x: parts[2](f(parts[1](f(parts[0](x))))), *parts), [
        (draw(st.integers(1, 2)), given, draw(PLACES), draw(PLACES))
    ]


def _attention(draw: st.DrawFn) -> Drawn:
    heads, size = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([8, 16, 24, 64]))
    encoder = nn.TransformerEncoderLayer(heads * size, heads, draw(SIZES), dropout=0.0)
    return Network(lambda parts, x: parts[0](x), encoder), [(draw(st.integers(1, 2)), draw(SIZES), heads * size)]


def _recurrent(draw: st.DrawFn) -> Drawn:
    kind, given = draw(st.sampled_from([nn.LSTM, nn.GRU])), draw(SIZES)
    layer = kind(given, draw(SIZES), direction=draw(st.sampled_from(["forward", "bidirect"])))
    return Network(lambda parts, x: parts[0](x)[0], layer), [(draw(st.integers(1, 5)), draw(st.integers(1, 6)), given)]


KINDS = [_linear, _einsum, _convolution, _convolution, _separable, _attention, _recurrent]


def check(data: st.DataObject) -> None:
    machine, open_batch, dtype = (
        data.draw(machines()),
        data.draw(st.booleans()),
        data.draw(st.sampled_from(["float32", "float32", "float64"])),
    )
    kind = data.draw(st.sampled_from(KINDS))
    paddle.seed(0)
    network, shapes = data.draw(st.composite(kind)())
    network.eval()
    network.to(dtype=dtype)
    open_batch &= kind is not _einsum
    spec = [
        paddle.static.InputSpec([None if open_batch and not axis else size for axis, size in enumerate(shape)], dtype) for shape in shapes
    ]
    module = model_module(network, spec, freeze=True)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    executable = compile_module(module, machine).load()
    before = get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            set_num_threads(threads)
            results.append([np.array(y) for y in executable.run(inputs)])
    finally:
        set_num_threads(before)
    for one, two, meant in zip(*results, evaluate(module, inputs), strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(
            one, meant, rtol=0, atol=max(1.0, np.abs(meant).max(initial=0)) * (1e-4 if dtype == "float32" else 1e-11)
        )


SEVERAL = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


@SEVERAL
@given(st.data())
def test_facts_about_a_machine_do_not_change_what_is_computed(data: st.DataObject) -> None:
    check(data)


@pytest.mark.slow
@settings(SEVERAL, max_examples=400)
@given(st.data())
def test_facts_about_a_machine_do_not_change_what_is_computed_in_many_more_networks(data: st.DataObject) -> None:
    check(data)
