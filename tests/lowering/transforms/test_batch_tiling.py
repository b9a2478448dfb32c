"""Image by image: the first layers of a network become a scan over the batch where that pays, and compute the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from polyreme.dialects import kernel, nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import ScalarType, TensorType, f32, i32, u8
from polyreme.ir.verify import verify
from polyreme.lowering.debug.memory_report import memory_report
from polyreme.lowering.machines.targets import host
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.transforms.batch_tiling import _batches, _Tiling
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.strategies import modules

# So small a cache that the networks here are large.
TARGET = replace(host(), caches=(32 << 10, 8 << 10, 8 << 20))


class Net:
    """A network of `nn` ops on `batch` images of 3 x 20 x 20, written step by step; weights are constants."""

    def __init__(self, batch: Any):
        self.main = Func.empty("main", [TensorType((batch, 3, 20, 20), f32)], arg_names=["x"], arg_roles=("input",))
        self.b = Builder.at_end(self.main.block)
        self.rng = np.random.default_rng(3)
        self.x: Value = self.main.args[0]

    def constant(self, *shape: int) -> Value:
        return self.b(nn.Constant, value=self.rng.standard_normal(shape, np.float32))  # type: ignore[no-any-return]

    def conv(self, x: Value, out: int, taps: int = 3, stride: int = 1, groups: int = 1) -> Value:
        channels = x.type.shape[1]  # type: ignore[union-attr]
        weight, bias = self.constant(out, channels // groups, taps, taps), self.constant(out)
        padding = (taps // 2,) * 4
        return self.b(nn.Conv, x, weight, bias, strides=(stride, stride), padding=padding, groups=groups)  # type: ignore[no-any-return]

    def module(self, *results: Value) -> Module:
        self.b.insert(Return(list(results)))
        module = Module.empty()
        module.block.append(self.main.finish())
        verify(module)
        return module


def network(batch: Any) -> Module:
    """Convolutions, a depthwise one, a residual, a pooling, a scale of each channel by its mean, and a product with large weights at the
    end.
    """
    net = Net(batch)
    b = net.b
    x = b(nn.Relu, net.conv(net.x, 16))
    y = b(nn.Relu, net.conv(b(nn.Relu, net.conv(x, 16, groups=16)), 16, 1))
    x = b(nn.MaxPool, b(nn.Add, x, y), kernel=(2, 2), strides=(2, 2), padding=(0, 0, 0, 0))
    scale = b(nn.Sigmoid, b(nn.Mean, x, axis=(2, 3), keepdims=True))
    x = b(nn.Mul, x, scale)
    flat = b(nn.Reshape, x, shape=(batch, 1600))
    return net.module(b(nn.MatMul, flat, net.constant(1600, 10)))


def scans(module: Module) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, tensor.Scan)]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules("tensor", symbolic=False))
def test_ops_put_into_a_scan_over_the_batch_compute_the_same(sample):
    module = sample.module.clone()
    func = module.function()
    for batch in _batches(func):
        tiling = _Tiling(func, batch)
        if tiling.ops:
            tiling.rewrite()
            break
    verify(module)
    for got, want in zip(evaluate(module, sample.inputs), evaluate(sample.module, sample.inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_the_first_layers_run_image_by_image_and_those_with_large_weights_on_the_whole_batch():
    module = lower(network(6), TARGET, "tensor", verify=True)
    (scan,) = scans(module)
    assert scan.steps == 6 and not scan.inits
    inside = {id(op) for op in scan.walk()}
    late = [op for op in module.walk() if isinstance(op, tensor.Contract) and id(op) not in inside]
    early = [op for op in scan.walk() if isinstance(op, tensor.Contract)]
    assert len(early) == 3 and len(late) == 1


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("batch", [2, 5, 19])
def test_results_are_those_of_the_meaning_and_do_not_depend_on_threads(batch: int, threads: int) -> None:
    module = network(batch)
    x = np.random.default_rng(batch).standard_normal((batch, 3, 20, 20)).astype(np.float32)
    executable = compile_module(module, TARGET).load()
    before = get_num_threads()
    try:
        set_num_threads(1)
        (alone,) = executable.run([x])
        set_num_threads(threads)
        (got,) = executable.run([x])
    finally:
        set_num_threads(before)
    np.testing.assert_array_equal(got, alone)
    (wanted,) = evaluate(module, [x])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * float(np.abs(wanted).max()))


def test_the_kernel_level_is_valid_and_means_the_same():
    module = network(2)
    x = np.random.default_rng(1).standard_normal((2, 3, 20, 20)).astype(np.float32)
    made = lower(module, TARGET, "kernel", verify=True)
    assert any(isinstance(op, kernel.Threads) for op in made.function("main").walk())
    np.testing.assert_allclose(evaluate(made, [x])[0], evaluate(module, [x])[0], rtol=1e-3, atol=1e-3)


def test_what_an_image_leaves_has_memory_by_task_and_not_by_image():
    few, many = (memory_report(lower(network(batch), TARGET, "kernel")).arena_bytes for batch in (16, 160))
    # 400 bytes of each image are handed on to the last product.
    assert many - few <= 144 * 1600 * 4 + 4096


def test_a_batch_of_any_size_is_cut_the_same_way():
    module = lower(network(symbol("N")), TARGET, "tensor", verify=True)
    assert [str(scan.steps) for scan in scans(module)] == ["N"]
    executable = compile_module(network(symbol("N")), TARGET).load()
    for batch in (1, 3, 7):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 20, 20)).astype(np.float32)
        (wanted,) = evaluate(network(batch), [x])
        np.testing.assert_allclose(executable.run([x])[0], wanted, rtol=1e-4, atol=1e-4 * float(np.abs(wanted).max()))


def tiles(module: Module, cache: int = 8 << 10) -> bool:
    """Whether the pass does anything with the module as it is lowered."""
    return bool(scans(lower(module, replace(host(), caches=(32 << 10, cache, 8 << 20)), "tensor")))


def test_a_batch_stays_whole_where_it_fits_the_cache_or_there_is_one_image_only():
    assert tiles(network(6)) and not tiles(network(6), 1 << 20) and not tiles(network(1))


@pytest.mark.parametrize("dtype", [u8, f32], ids=str)
def test_weights_that_are_bytes_are_read_again_for_each_image_sooner_than_floats(dtype: ScalarType) -> None:
    main = Func.empty("main", [TensorType((16, 8, 64), dtype)], arg_roles=("input",))
    b = Builder.at_end(main.block)
    weights = b(tensor.Constant, value=np.ones((64, 64), np.int8 if dtype == u8 else np.float32))
    y = b(tensor.Contract, main.args[0], weights, spec="Nrc,co->Nro", **({"dtype": i32} if dtype == u8 else {}))
    b.insert(Return([b(tensor.Reduce, y, fn="max", axes=(1, 2))]))
    assert _Tiling(main.finish(), 16).is_worth(8 << 10) == (dtype == u8)


def test_a_batch_stays_whole_where_most_of_what_is_made_is_wanted():
    net = Net(6)
    x = net.b(nn.Relu, net.conv(net.x, 16))
    y = net.b(nn.Relu, net.conv(x, 16))
    assert not tiles(net.module(x, y))


def test_elementwise_ops_alone_fuse_and_stay_whole() -> None:
    net = Net(6)
    x = net.x
    for _ in range(4):
        x = net.b(nn.Sigmoid, net.b(nn.Mul, net.b(nn.Add, x, net.constant(1, 3, 1, 1)), net.x))
    assert not tiles(net.module(x))


def test_one_convolution_and_what_fuses_with_it_stay_whole_and_two_do_not() -> None:
    net = Net(6)
    x = net.conv(net.x, 16)
    alone = net.b(nn.Relu, net.b(nn.Add, net.b(nn.Mul, x, net.constant(1, 16, 1, 1)), net.constant(1, 16, 1, 1)))
    assert not tiles(net.module(alone))
    net = Net(6)
    x = net.b(nn.Relu, net.conv(net.b(nn.Relu, net.conv(net.x, 16)), 16))
    assert tiles(net.module(net.b(nn.MaxPool, x, kernel=(2, 2), strides=(2, 2), padding=(0, 0, 0, 0))))


def test_a_long_elementwise_chain_over_rows_is_one_kernel_that_is_called_once() -> None:
    main = Func.empty("main", [*[TensorType((1 << 14, 1024), f32)] * 2, *[TensorType((1024,), f32)] * 2], arg_roles=("input",) * 4)
    b = Builder.at_end(main.block)
    x, y, s, t = main.args
    b.insert(Return([b(nn.Add, b(nn.Relu, b(nn.Add, b(nn.Mul, x, s), t)), y)]))
    module = Module.empty()
    module.block.append(main.finish())
    (call,) = [op for op in lower(module, host(), "kernel").function("main").walk() if isinstance(op, kernel.Call)]
    assert call.parent_op is not None and isinstance(call.parent_op, Func)


def test_what_images_share_or_mix_stays_outside():
    net = Net(6)
    x = net.b(nn.Relu, net.conv(net.conv(net.conv(net.x, 16), 16), 16))
    mean = net.b(nn.Mean, x, axis=(0,), keepdims=True)
    module = net.module(net.b(nn.Mean, net.b(nn.Sub, x, mean), axis=(1, 2, 3)))
    data = np.random.default_rng(0).standard_normal((6, 3, 20, 20)).astype(np.float32)
    made = lower(module, TARGET, "tensor", verify=True)
    for got, want in zip(evaluate(made, [data]), evaluate(module, [data]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_what_leaves_the_scan_are_pixels_and_not_windows_of_them():
    net = Net(8)
    x = net.b(nn.Relu, net.conv(net.b(nn.Relu, net.conv(net.x, 16)), 24))
    x = net.conv(x, 200, stride=2)  # weights that are not read again for each image
    lowered = lower(net.module(net.b(nn.Mean, x, axis=(2, 3))), TARGET, "tensor")
    (scan,) = scans(lowered)
    assert [v.type.shape for v in scan.results] == [(8, 1, 20, 20, 24)]


def test_inputs_whose_rows_have_an_unknown_size_are_left_alone() -> None:
    main = Func.empty(
        "main", [TensorType((symbol("N"),), f32), TensorType((2, symbol("N")), f32)], arg_names=["x", "w"], arg_roles=("input", "input")
    )
    b = Builder.at_end(main.block)
    b.insert(Return([b(tensor.Map, b(tensor.Contract, main.args[1], main.args[0], spec="ma,a->m"), fn="tanh")]))
    func = main.finish()
    assert _batches(func) == [2]
    tiling = _Tiling(func, 2)
    assert not tiling.rows and not tiling.is_worth(0)
