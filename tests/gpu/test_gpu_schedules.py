"""Schedules of a GPU's products as values: printed, chosen anew from a file, tuned on a device."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import polyreme as paddle
from polyreme.compiled.inspection import model_module
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.text import parse_module
from polyreme.lowering.kernels.gpu import GPU_BUILDERS
from polyreme.lowering.kernels.schedule import parse_schedule
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.link import tune
from polyreme.lowering.link.artifact import load
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.machines.timing import TIMING
from polyreme.lowering.pipeline import builders, choose_schedules, compile_module, lower
from polyreme.lowering.schedule.choose_schedules import OverrideSchedules, root_key, roots
from polyreme.nn import functional as F
from polyreme.runtime.gpu.drivers import EmulatedDriver, GpuError

SM80, SM90 = (find_target(f"cuda:sm_{n}") for n in (80, 90))
WAYS = {way.schedule: way for way in GPU_BUILDERS if isinstance(way, Way)}


class Block(paddle.nn.Layer):
    """Of ResNet-50."""

    def __init__(self):
        super().__init__()
        self.reduce = paddle.nn.Conv2D(256, 64, 1)
        self.middle = paddle.nn.Conv2D(64, 64, 3, padding=1)
        self.widen = paddle.nn.Conv2D(64, 256, 1)

    def forward(self, x):
        return F.relu(self.widen(F.relu(self.middle(F.relu(self.reduce(x))))) + x)


def mlp():
    return paddle.nn.Sequential(paddle.nn.Linear(784, 512), paddle.nn.ReLU(), paddle.nn.Linear(512, 10))


def feed_forward():
    return paddle.nn.Sequential(paddle.nn.Linear(768, 3072), paddle.nn.GELU(), paddle.nn.Linear(3072, 768))


# A network, its input, and its number type.
NETWORKS = {
    "mlp, 128": (mlp, [128, 784], "float32"),
    "mlp, 128, bf16": (mlp, [128, 784], "bfloat16"),
    "mlp, any, bf16": (mlp, [None, 784], "bfloat16"),
    "feed forward, 2048, f16": (feed_forward, [2048, 768], "float16"),
    "block, 1, bf16": (Block, [1, 256, 56, 56], "bfloat16"),
    "block, 32, bf16": (Block, [32, 256, 56, 56], "bfloat16"),
}


def chosen(module, target):
    """The schedules of a module's products, a line for each."""
    made = lower(module, target, to="tensor")
    choose_schedules(made, target)
    found = [(request, op.attributes.get("schedule", "")) for op, request in roots(made.function("main"), target, "")]
    return [f"{root_key(request)}: {said}" for request, said in found if said]


@pytest.mark.parametrize("target", [SM80, SM90], ids=["sm_80", "sm_90"])
def test_schedules_of_networks(target, golden):
    lines = []
    for name, (make, shape, dtype) in NETWORKS.items():
        net = make()
        net.to(dtype=dtype)
        net.eval()
        lines += [f"# {name}", *chosen(model_module(net, [paddle.static.InputSpec(shape, dtype, "x")]), target), ""]
    for line in lines:
        if ": " in line:
            text = line.partition(": ")[2]
            assert str(parse_schedule(text, WAYS)) == text
    golden(f"networks.sm_{target.sm}.schedules", "\n".join(lines))


TEXT = "func @main(%x: tensor<128x64xbf16>, %y: tensor<64x128xbf16>) -> tensor<128x128xbf16> { %z = nn.matmul %x, %y  return %z }"
KEY = "contract -> tensor<128x128xbf16>"


@pytest.mark.parametrize("schedule", ["mma<tile = 64x128x16, warps = 2x2, stages = 2>", "widened<tile = 32x32x16, thread = 4x4>"])
def test_a_file_says_another_schedule(schedule, tmp_path):
    file = tmp_path / "schedules.txt"
    file.write_text(f"# another tile\n{KEY}: {schedule}\n")
    module = lower(parse_module(TEXT), SM80, to="tensor")
    OverrideSchedules(str(file)).run(module)
    made = load(compile_module(module, SM80).artifact, EmulatedDriver())
    assert made.plan.launches[0].block == ((128,) if "mma" in schedule else (64,))
    x, y = (np.random.default_rng(i).standard_normal(s).astype(ml_dtypes.bfloat16) for i, s in enumerate([(128, 64), (64, 128)]))
    exact = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_allclose(made.run([x, y])[0].astype(np.float64), exact, rtol=8e-3, atol=8e-3 * np.abs(exact).max())


@pytest.mark.parametrize(
    ("text", "schedule", "message"),
    [
        (TEXT, "tiles<tile = 64x64x16, thread = 8x4>", "expected a root that 'tiles' is for but got 'contract'"),
        (TEXT, "mma<tile = 64x64x32, warps = 2x2, stages = 40>", "shared memory"),
        (TEXT.replace("bf16", "f32"), "tiles<tile = 64x64x16, thread = 16x16>", "at most 128 sums"),
        (TEXT.replace("bf16", "f32"), "tiles<tile = 64x64x64, thread = 8x4>", "expected two tiles in 49152 bytes"),
        (TEXT.replace("bf16", "f32"), "tiles<tile = 64x64x16, thread = 8x4, parts = 9>", "expected parts of at least 16 steps"),
        (TEXT.replace("bf16", "f32"), "tiles<tile = 64x64x0, thread = 8x4>", "expected positive numbers"),
        (TEXT.replace("bf16", "f32"), "tiles<tile = 96x64x16, thread = 8x4>", "fill lines of rows, columns and steps evenly"),
    ],
)
def test_a_file_that_says_what_cannot_be_is_refused(text, schedule, message, tmp_path):
    key = KEY if text is TEXT else KEY.replace("bf16", "f32")
    file = tmp_path / "schedules.txt"
    file.write_text(f"{key}: {schedule}\n")
    module = lower(parse_module(text), SM80, to="tensor")
    OverrideSchedules(str(file)).run(module)
    with pytest.raises(PolyremeError, match=message):
        compile_module(module, SM80).lowered  # noqa: B018


def test_why_says_cycles_and_what_else_there_is():
    def product(x, y):
        return paddle.matmul(x, y)

    spec = [paddle.static.InputSpec(shape, "bfloat16", name) for name, shape in (("x", [512, 512]), ("y", [512, 512]))]
    seen = paddle.inspect(product, spec, target="cuda:sm_80")
    lines = seen.why.splitlines()
    assert lines[1].startswith("  takes it: mma<") and lines[1].endswith(" cycles") and lines[2].startswith("    or: mma<")
    assert any(line.startswith("  could: widened<") for line in lines)
    assert "mma<tile = " in seen.schedules


# --- tuning


@pytest.fixture
def device(monkeypatch, tmp_path):
    """A machine whose GPU is the emulated one, of compute capability 8.0."""
    found = EmulatedDriver()
    monkeypatch.setattr(found, "sm", 80)
    monkeypatch.setenv("POLYREME_TUNE", "1")
    monkeypatch.setenv("POLYREME_CACHE", str(tmp_path))
    monkeypatch.setattr(tune, "_this_gpu", lambda: found)
    return found


def test_schedules_are_timed_on_the_device_and_the_answer_is_kept(device, monkeypatch):
    monkeypatch.setattr(tune, "TIMING", replace(TIMING, gpu_candidates=2, gpu_rounds=1))
    times = []
    time_on = tune._time_on

    def counted(*args):
        times.append(time_on(*args))
        return times[-1]

    monkeypatch.setattr(tune, "_time_on", counted)
    for _ in range(2):
        made = load(compile_module(parse_module(TEXT), SM80).artifact, device)
    assert len(times) == 1 and len(times[0]) == 2 and all(0 < seconds < 60 for seconds in times[0].values())
    best = min(times[0], key=times[0].get)
    assert chosen(parse_module(TEXT), SM80) == [f"{KEY}: {best}"]
    assert made.plan.launches[0].block == (best.threads,)


def test_a_product_of_turned_operands_is_timed_with_its_copies(device, monkeypatch):
    monkeypatch.setattr(tune, "TIMING", replace(TIMING, gpu_candidates=2, gpu_rounds=1))
    text = """func @main(%x: tensor<1x64x16x12xbf16>, %w: tensor<64x64x3x3xbf16>) -> tensor<1x64x16x12xbf16> {
      %z = nn.conv %x, %w {padding = [1, 1, 1, 1]}  return %z }"""
    module = lower(parse_module(text), SM80, to="tensor")
    ((_, request),) = roots(module.function("main"), SM80, "")
    (way,) = [way for way in WAYS.values() if way.name == "tensor_core"]
    candidates = way.candidates(way.find(request))[:2]
    assert set(tune.time_schedules(request, way, candidates)) == set(candidates)


def test_code_for_other_devices_is_not_tuned(device, monkeypatch):
    assert builders(SM90) == GPU_BUILDERS and builders(SM80) != GPU_BUILDERS
    monkeypatch.setattr(tune, "_this_gpu", lambda: None)
    assert builders(SM80) == GPU_BUILDERS


def test_without_a_device_nothing_is_tuned(monkeypatch):
    def none():
        raise GpuError("expected a CUDA device")

    monkeypatch.setattr(tune, "gpu_driver", none)
    tune._this_gpu.cache_clear()
    assert tune.tuning_driver(SM80) is None
    tune._this_gpu.cache_clear()
