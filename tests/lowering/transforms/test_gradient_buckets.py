"""Buckets of gradients, placing of collectives, and the split into compiled regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.compiled.executables import load_schedule
from polyreme.dialects import dist, nn
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.diagnostics import PassError
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.types import TensorType, bf16, f32, f64
from polyreme.ir.verify import verify
from polyreme.lowering.gradients.autodiff import forward_backward
from polyreme.lowering.schedule.regions import split_regions
from polyreme.lowering.transforms.bucket import (
    MB,
    BucketGradients,
    OverlapCollectives,
    assign_buckets,
    buckets_of,
    fingerprint,
    gradient_schedule,
)


def floats(*counts: int) -> list[TensorType]:
    return [TensorType((n,), f32) for n in counts]


@pytest.mark.parametrize(
    "counts, buffer, last, wanted",
    [
        # The first bucket filled is the last to leave, and the small one.
        ([1, 1, 1, 1, 1, 1], 12 / MB, 4 / MB, [(4, 5), (1, 2, 3), (0,)]),
        ([1, 1, 1], 25, 1, [(0, 1, 2)]),
        ([1, 1, 1], 0, 0, [(2,), (1,), (0,)]),
        ([100, 1, 1], 12 / MB, 4 / MB, [(1, 2), (0,)]),
        ([MB // 4, 7 * MB, MB // 2, 3], 25, 1, [(2, 3), (1,), (0,)]),
        ([], 25, 1, []),
    ],
)
def test_buckets_fill_from_the_first_parameter_and_leave_from_the_last(counts: list[int], buffer: float, last: float, wanted: Any) -> None:
    assert assign_buckets(floats(*counts), buffer, last) == wanted


def test_each_dtype_has_buckets_of_its_own() -> None:
    types = [TensorType((4,), t) for t in (f32, bf16, f64, f32, bf16, f64)]
    assert assign_buckets(types) == [(2, 5), (1, 4), (0, 3)]


def random_types(seed: int) -> list[TensorType]:
    rng = np.random.default_rng(seed)
    return [TensorType((int(rng.integers(1, 400_000)),), [f32, f64, f32][rng.integers(3)]) for _ in range(rng.integers(1, 40))]


@pytest.mark.parametrize("seed", range(20))
def test_every_gradient_is_in_one_bucket_of_its_dtype(seed: int) -> None:
    types = random_types(seed)
    buckets = assign_buckets(types, 2.0, 0.5)
    assert sorted(i for b in buckets for i in b) == list(range(len(types)))
    assert all(len({types[i].dtype for i in b}) == 1 and list(b) == sorted(b) for b in buckets)


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(20))
def test_buckets_are_those_of_paddles_reducer(seed: int) -> None:
    paddle = pytest.importorskip("paddle")
    types = random_types(seed)
    tensors = [paddle.zeros([t.shape[0]], {"f32": "float32", "f64": "float64"}[t.dtype.name]) for t in types]
    wanted = paddle.base.core.eager_assign_group_by_size(tensors, [False] * len(types), [MB // 2, 2 * MB])
    assert assign_buckets(types, 2.0, 0.5) == [tuple(b) for b in reversed(wanted)]


def test_a_size_that_is_not_known_has_no_bucket() -> None:
    with pytest.raises(PassError, match="expected a parameter of known size to put into a bucket but got tensor<Nxf32>"):
        assign_buckets([TensorType((symbol("N"),), f32)])


def test_the_fingerprint_tells_plans_apart() -> None:
    plans = [
        gradient_schedule(floats(*counts), [f"p{i}" for i in range(len(counts))], buffer, buffer)
        for counts, buffer in (([4, 5], 1), ([4, 6], 1), ([4, 5], 0))
    ]
    assert len({fingerprint(p) for p in plans}) == 3
    assert fingerprint(plans[0]) == fingerprint(gradient_schedule(floats(4, 5), ["p0", "p1"], 1, 1))
    assert [members for _, members in buckets_of(plans[0].function())] == [(0, 1)]


def chain(layers: int, batch: Any = 6) -> Func:
    """tanh(x w + b), several times over."""
    width = 5
    kinds = [TensorType((width, width), f32), TensorType((width,), f32)] * layers
    func = Func.empty("net", [TensorType((batch, width), f32), *kinds], (), ["x", *(f"{'wb'[i % 2]}{i // 2}" for i in range(2 * layers))])
    b = Builder.at_end(func.block)
    value = func.args[0]
    for i in range(layers):
        value = b(nn.Tanh, b(nn.Linear, value, func.args[1 + 2 * i], func.args[2 + 2 * i]))
    b.insert(Return([value]))
    return func.finish()


def overlapped(func: Func, buffer: float) -> tuple[Func, Func]:
    """The backward of `func` for its parameters, and the same with buckets."""
    backward = forward_backward(func, range(1, len(func.args))).backward
    module = Module.empty()
    module.block.append(copy := backward.clone())
    PassManager([BucketGradients(buffer, buffer), OverlapCollectives()], verify_each=True).run(module)
    copy.detach()
    return backward, copy


def inputs_of(func: Func, batch: int = 6) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=[d if isinstance(d, int) else batch for d in arg.type.shape]).astype(np.float32) for arg in func.args]


def as_module(func: Func) -> Module:
    module = Module.empty()
    copy = func.clone()
    copy.attributes["sym_name"] = "main"
    module.block.append(copy)
    return module


@pytest.mark.parametrize("batch", [6, symbol("N")])
@pytest.mark.parametrize("buffer", [0, 150 / MB, 25])
def test_a_split_backward_computes_what_the_whole_one_does(buffer: float, batch: Any) -> None:
    backward, placed = overlapped(chain(4, batch), buffer)
    module = split_regions(placed)
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    inputs = inputs_of(backward)
    wanted = evaluate(as_module(backward), inputs)
    for found in (evaluate(as_module(placed), inputs), evaluate(module, inputs), load_schedule(module).run(inputs)):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_buckets_change_no_bit_of_a_compiled_backward() -> None:
    bits = set()
    for buffer in (0, 150 / MB, 25):
        _, placed = overlapped(chain(4), buffer)
        found = load_schedule(split_regions(placed)).run(inputs_of(placed))
        bits.add(b"".join(a.tobytes() for a in found))
    assert len(bits) == 1


def test_every_start_has_computing_between_it_and_the_waits() -> None:
    _, placed = overlapped(chain(3), 0)
    names = [op.name for op in split_regions(placed).function().block]
    starts = [i for i, name in enumerate(names) if name == "dist.all_reduce_start"]
    assert len(starts) == 6
    assert all("func.call" in names[a:b] for a, b in zip(starts, starts[1:]))
    assert names.index("dist.wait") > starts[-1]


class Recorded:
    """A group of one that writes down what is started and when it is waited for."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self.events: list[str] = []

    def start(self, kind: str, arrays: Any, detail: str, location: Any = None, **options: Any) -> Any:
        self.events.append(f"start {detail.split(',')[0]}")
        group = self

        class Call:
            def wait(self) -> Any:
                group.events.append("wait")
                return list(arrays)

        return Call()


def test_what_runs_is_the_printed_order() -> None:
    _, placed = overlapped(chain(3), 0)
    module = split_regions(placed)
    printed = [line for line in print_module(module).splitlines() if "dist." in line]
    group = Recorded()
    with dist.with_group(group):
        load_schedule(module).run(inputs_of(placed))
    wanted = [f"start mean of bucket {line.split('bucket = ')[1].split('}')[0]}" if "start" in line else "wait" for line in printed]
    assert group.events == wanted


def test_constants_are_made_where_they_are_used_and_alone_when_the_host_takes_them() -> None:
    text = """
        func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
          %c = nn.full {value = 3.0, shape = [2], dtype = f32} : tensor<2xf32>
          %s = dist.all_reduce %c {reduce = "sum"} : tensor<2xf32>
          %y = nn.add %x, %c : tensor<2xf32>
          %z = nn.mul %y, %s : tensor<2xf32>
          return %z, %s
        }"""
    module = split_regions(parse_module(text).function())
    verify(module)
    assert [f.sym_name for f in module.functions] == ["main", "region_0", "region_1"]
    for found in (evaluate(module, [np.ones(2, np.float32)]), load_schedule(module).run([np.ones(2, np.float32)])):
        assert [a.tolist() for a in found] == [[12, 12], [3, 3]]
