"""Choosing a device, looking at PTX, and models for GPUs as files."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import polyreme as paddle
from polyreme.device import driver_of
from polyreme.ir.diagnostics import PolyremeError
from polyreme.lowering.link.artifact import load
from polyreme.lowering.machines.targets import find_target, gpu_target
from polyreme.lowering.pipeline import compile_module
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.errors import ArtifactError, CallError
from polyreme.runtime.gpu.copies import DeviceCopies
from polyreme.runtime.gpu.drivers import EmulatedDriver
from polyreme.runtime.gpu.executable import GpuExecutable
from polyreme.runtime.gpu.plan import GpuPlan
from polyreme.runtime.gpu.versions import ptx_of
from polyreme.runtime.manifest.manifest import GPU_PLAN
from tests.gpu.running import driver, forget_devices, loaded

SPEC = [paddle.static.InputSpec([None, 4], "float32", "x")]


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = paddle.nn.Linear(4, 3)

    def forward(self, x):
        return F.softmax(self.fc(x))


F = paddle.nn.functional


@pytest.fixture(autouse=True)
def _on_the_cpu_afterwards():
    yield
    paddle.set_device("cpu")


def artifact(target="cuda:sm_80"):
    paddle.seed(1)
    return compile_module(paddle.inspect(Net(), SPEC).module, find_target(target)).artifact


# --- devices


def test_the_device_that_is_set_is_the_current_one():
    assert paddle.get_device() == "cpu"
    place = paddle.set_device("gpu-emulated")
    assert place.is_gpu_place() and paddle.get_device() == "gpu-emulated"
    assert paddle.set_device("cpu").is_cpu_place() and paddle.get_device() == "cpu"


@pytest.mark.skipif(importlib.util.find_spec("pycuda") is not None, reason="pycuda is installed")
def test_a_gpu_without_pycuda_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="pycuda"):
        paddle.set_device("gpu")
    assert paddle.get_device() == "cpu" and not paddle.is_compiled_with_cuda()


def test_a_function_runs_where_the_device_says_each_time_it_is_called():
    function = paddle.jit.to_static(lambda x: F.softmax(x * 2))
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal((3, 5)).astype("float32"))
    expected = function(x).numpy()
    paddle.set_device("gpu-emulated")
    np.testing.assert_allclose(function(x).numpy(), expected, rtol=1e-6)
    paddle.set_device("cpu")
    assert function(x).numpy().tobytes() == expected.tobytes()


def test_targets_by_capability():
    own = {75: 75, 79: 75, 80: 80, 86: 86, 87: 86, 89: 86, 90: 90, 100: 90, 103: 90, 120: 86, 121: 86}
    assert {sm: gpu_target(sm).sm for sm in own} == own
    with pytest.raises(PolyremeError, match=r"7\.5 or newer but got 7\.0"):
        gpu_target(70)
    # What only devices of 9.0 have is for drivers that know it.
    assert [gpu_target(90, ptx).name for ptx in (78, 80, 86)] == ["cuda:sm_90", "cuda:sm_90a", "cuda:sm_90a"]
    assert [ptx_of(cuda) for cuda in (11080, 11090, 12000, 13000, 9000)] == [78, 78, 80, 86, 0]
    names = {"sm_87": "sm_86", "sm_89": "sm_86", "sm_90a": "sm_90a", "sm_100": "sm_90", "sm_120": "sm_86"}
    assert {name: find_target(f"cuda:{name}").name for name in names} == {name: f"cuda:{found}" for name, found in names.items()}
    with pytest.raises(PolyremeError, match=r"7\.5 or newer but got 7\.0"):
        find_target("cuda:sm_70")
    with pytest.raises(PolyremeError, match="expected a GPU target .* but got 'cuda:sm_800'; did you mean 'cuda:sm_80'"):
        find_target("cuda:sm_800")


def test_an_artifact_for_a_newer_device_is_an_error_that_says_so():
    older = EmulatedDriver()
    older.sm = 75
    with pytest.raises(ArtifactError, match=r"expected a GPU of compute capability 8\.0 or newer for '\w+' but 'numpy' has 7\.5"):
        load(artifact(), older)
    newer = EmulatedDriver()
    newer.sm = 100
    load(artifact(), newer)
    with pytest.raises(ArtifactError, match=r"expected a GPU of compute capability 9\.0 and no other for '\w+' but 'numpy' has 10\.0"):
        load(artifact("cuda:sm_90a"), newer)


def test_memory_that_is_not_enough_is_an_error_that_says_what_holds_it(monkeypatch):
    forget_devices(monkeypatch)
    place = paddle.set_device("gpu-emulated")
    driver_of(place).total_memory = 8 << 20
    held = [paddle.full([256, 1024], 1.5) for _ in range(4)] + [paddle.full([512, 512], 2.5)]
    weights = paddle.to_tensor(np.ones((100, 512), "float32"))
    weights + 1.0
    gone = [paddle.full([100, 1024], i) for i in range(3)]
    del gone  # what is idle is taken again
    with pytest.raises(MemoryError) as caught:
        held += [x * 2.0 for x in held]
    told = str(caught.value)
    assert "expected memory of the device for an array: could not allocate 1048576 bytes" in told
    assert "arrays take 7.2 MiB of 8.0 MiB" in told
    assert "6.0 MiB: 6 of float32[256, 1024]" in told and "0.2 MiB: 1 of float32[100, 512], of main memory" in told
    del held[2:], caught
    np.testing.assert_array_equal((held[0] * 2.0).numpy(), np.full((256, 1024), 3.0))


def test_an_error_of_a_call_is_not_taken_for_one_of_memory():
    function = paddle.jit.to_static(lambda x: x * 2, input_spec=[paddle.static.InputSpec([None, 4], "float32")])
    paddle.set_device("gpu-emulated")
    function(paddle.ones([2, 4]))
    idle = paddle.device.cuda.memory_reserved() - paddle.device.cuda.memory_allocated()
    with pytest.raises(ValueError):
        function(paddle.ones([2, 5]))
    assert paddle.device.cuda.memory_reserved() - paddle.device.cuda.memory_allocated() >= idle
    with pytest.raises(PolyremeError, match="did you mean 'cuda:sm_90'"):
        find_target("cuda:sm_91")


# --- levels


def test_ptx_is_a_level():
    seen = paddle.inspect(Net(), SPEC, target="cuda:sm_90")
    assert ".target sm_90" in seen.ptx and ".entry contract_add" in seen.ptx and seen.ptx == seen.asm == seen.level("ptx")
    assert "kernel.launch" in seen.kernel and "nvptx64" in seen.llvm
    with pytest.raises(PolyremeError, match="expected a GPU as the target of PTX"):
        _ = paddle.inspect(Net(), SPEC).ptx


# Layouts and groups that only kernels for processors make use of; on a GPU sequences are written out step by step instead, and no pad is
# written.
OF_ONE_KIND = {
    "join-products", "group-inverted-residuals", "group-padded-windows", "group-adaptive-pooling", "channels-last",
    "stack-rows", "tile-batch", "extremes-in-two-passes", "patch-products",
    "reduce-rows-first", "reduce-whole-images", "group-turned-convolutions", "integer-products",
    "recompute", "widen-halves", "hoist-from-loops", "hoist-from-scans", "unroll-scans", "move-pads",
}  # fmt: skip


def test_the_passes_up_to_the_kernels_are_those_of_the_cpu_but_for_layouts_and_groups_of_its_own():
    made = {t: [(s.stage, s.name) for s in paddle.inspect(Net(), SPEC, target=t).passes if s.stage != "kernel"] for t in ("cuda", "native")}
    shared = [list(dict.fromkeys(p for p in passes if p[1] not in OF_ONE_KIND)) for passes in made.values()]
    assert shared[0] == shared[1]
    assert {name for _, name in made["cuda"]} & OF_ONE_KIND == {"unroll-scans", "move-pads"}


# --- files


def test_a_compiled_artifact_runs_on_the_current_gpu(tmp_path):
    paddle.seed(1)
    net = Net()
    path = tmp_path / "net.cubin"
    assert paddle.compile(net, path, target="cuda:sm_80", input_spec=SPEC) is None
    paddle.set_device("gpu-emulated")
    loaded = paddle.load_compiled(path)
    x = np.random.default_rng(0).standard_normal((5, 4)).astype("float32")
    np.testing.assert_allclose(loaded(x), net(paddle.to_tensor(x)).numpy(), rtol=1e-5)
    assert loaded.output_shapes((5, 4)) == [(5, 3)]


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("net.cubin", {"small": True}, "expected no choice of small weights for cuda:sm_80"),
        ("net.cubin", {"small": False}, "expected no choice of small weights for cuda:sm_80"),
        ("net.cubin", {"form": "shared"}, "expected a file of suffix .so for a library but got 'net.cubin'"),
        ("net.cubin", {"cpp": True}, "for a header of C\\+\\+"),
    ],
)
def test_what_is_for_libraries_alone_is_refused_for_an_artifact(tmp_path, name, options, message):
    with pytest.raises(PolyremeError, match=message):
        paddle.compile(Net(), tmp_path / name, target="cuda:sm_80", input_spec=SPEC, **options)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("folders", [False, True])
def test_an_artifact_names_the_file_of_its_model_without_its_folder(tmp_path, folders):
    def rows(x, i):
        return paddle.gather(x, i + 1)

    specs = [*SPEC, paddle.static.InputSpec([None], "int64", "i")]
    paddle.compile(rows, tmp_path / "net.cubin", target="cuda:sm_80", input_spec=specs, folders=folders)
    (look,) = Artifact.load(tmp_path / "net.cubin").manifest.looks
    assert "test_devices.py:" in look.what and ("/" in look.what) == folders


def test_calls_check_their_arrays_and_free_what_they_took():
    device = driver("gpu-emulated")
    made = GpuExecutable(artifact(), device)
    w, b = np.ones((4, 3), "float32"), np.zeros(3, "float32")
    names = [t.name for t in made.manifest.inputs]
    given = {"x": np.ones((2, 4), "float32"), **dict(zip([n for n in names if n != "x"], (w, b), strict=True))}
    outputs = made.run([given[n] for n in names])
    np.testing.assert_allclose(outputs[0], np.full((2, 3), 1 / 3), rtol=1e-6)
    target = np.zeros((3, 2), "float32").T
    assert made.run([given[n] for n in names], [target])[0] is target
    np.testing.assert_array_equal(target, outputs[0])
    with pytest.raises(CallError, match="expected float32 but got float64"):
        made.run([given[n].astype("float64") for n in names])
    with pytest.raises(CallError, match="expected 4 on axis 1 but got 5"):
        made.run([np.ones((2, 5), "float32") if n == "x" else given[n] for n in names])
    made.release_memory()
    assert made.run([given[n] for n in names])[0].tobytes() == outputs[0].tobytes()


def test_timings_are_of_the_kernels_of_each_call():
    made = GpuExecutable(artifact(), driver("gpu-emulated"))
    given = [np.ones([2 if d == "N" else d for d in t.shape] if t.name == "x" else t.shape, "float32") for t in made.manifest.inputs]
    times = made.timings(given, seconds=0, fewest=5)
    assert len(times) == 8 and all(t > 0 for t in times)
    with pytest.raises(CallError, match="inputs"):
        made.timings([])


def _with_map(place, value, plan):
    """A tensor map in the first launch, with another value in one of its fields."""
    fields = ["buffer", 0, "bf16", 0, [64, 8], [64], [64, 8]]
    fields[place] = value
    plan["launches"][0]["maps"] = [fields]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.pop("arena"), "expected the launches to have the fields"),
        (lambda p: p["launches"][0].update(block=[2000]), "at most 1024 threads"),
        (lambda p: p["launches"][0].update(grid=["N*Q"]), "launch 0"),
        (lambda p: p["launches"][0].update(arguments=[["buffer", 99]]), "expected the number of one of"),
        (lambda p: p["launches"][0].update(arguments=[["pointer", 1]]), "expected a kind"),
        (lambda p: p.update(arena=[-1]), "expected a size in the arena"),
        (lambda p: p["launches"][0].update(shared=-1), "expected at most 232448 bytes of shared memory in launch 0 but got -1"),
        (lambda p: p["launches"][0].update(shared=True), "bytes of shared memory in launch 0 but got True"),
        (lambda p: p["launches"][0].update(shared=1 << 20), "bytes of shared memory in launch 0 but got 1048576"),
        (lambda p: p["launches"][0].update(shared="N"), "bytes of shared memory in launch 0 but got 'N'"),
        *(
            (partial(_with_map, place, value), message)
            for place, value, message in (
                (0, "size", "expected memory \\(buffer, arena\\) for a tensor map of launch 0"),
                (0, "stack", "expected a kind"),
                (1, 99, "expected the number of one of"),
                (2, "f32", "expected bf16 or f16 as the element type of a tensor map of launch 0 but got 'f32'"),
                (3, "Q", "tensor map of launch 0"),
                (3, -8, "expected a size"),
                (4, [64], "from 2 to 5 axes"),
                (4, [64, "Q"], "tensor map of launch 0"),
                (5, [64, 64], "from 2 to 5 axes"),
                (5, [None], "expected a size"),
                (6, [64, 257], "boxes of 1 to 256 elements .* but got 257"),
                (6, [64, True], "but got True"),
                (6, [64], "from 2 to 5 axes"),
                (6, 64, "to be a list"),
            )
        ),
        (lambda p: p["launches"][0].update(maps=[["buffer", 0]]), "expected a kind, a value, an element type, a start"),
        (lambda p: p["launches"][0].update(maps={}), "to be a list"),
    ],
)
def test_a_wrong_plan_is_refused(change, message):
    whole = artifact()
    plan = json.loads(whole.manifest.extra[GPU_PLAN])
    change(plan)
    with pytest.raises(ArtifactError, match=message):
        GpuPlan.of(replace(whole.manifest, extra={GPU_PLAN: json.dumps(plan)}))


def test_a_plan_reads_back():
    whole = Artifact.from_bytes(artifact().to_bytes())
    plan = GpuPlan.of(whole.manifest)
    assert plan.to_text() == whole.manifest.extra[GPU_PLAN] and len(plan.launches) == 2


def test_a_static_program_runs_on_the_place_of_its_executor():
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [None, 6])
            y = F.softmax(x * 3)
        given = np.random.default_rng(0).standard_normal((5, 6)).astype("float32")
        emulated = paddle.static.Executor(paddle.set_device("gpu-emulated"))
        paddle.set_device("cpu")
        results = [executor.run(main, {"x": given}, [y])[0] for executor in (paddle.static.Executor(), emulated, paddle.static.Executor())]
    finally:
        paddle.disable_static()
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
    assert results[0].tobytes() == results[2].tobytes()


# --- positions


def test_positions_outside_of_their_axis_are_errors_of_the_run():
    executable = loaded(
        """func @main(%x: tensor<4x2xf32>, %i: tensor<3xi32>) -> tensor<3x2xf32> attributes {ranges = ["i from -2 below 2 at net.py:2:1"]} {
          %j = nn.add %i, %i
          %k = nn.within %j {size = 3, wraps = true, place = "net.py:3:4"}
          %y = nn.gather %x, %k {axis = 0}
          return %y
        }""",
        "gpu-emulated",
    )
    x = np.arange(8, dtype="float32").reshape(4, 2)
    run = lambda *at: executable.run([x, np.array(at, "int32")])[0]
    np.testing.assert_array_equal(run(0, 1, -1), x[[0, 2, -2]])
    with pytest.raises(CallError, match=r"expected positions \(rows at net.py:3:4\) from -3 to 2 but computed -4 to 0"):
        run(0, -2, -1)
    with pytest.raises(CallError, match="expected the input 'i' to hold positions"):
        run(0, 2, 0)
    kept = [x, np.array([0, -2, 0], "int32")]
    with pytest.raises(CallError, match="but computed -4 to 0"):
        executable.run_kept(kept, DeviceCopies(executable.driver))
    np.testing.assert_array_equal(run(0, 1, -1), x[[0, 2, -2]])


@pytest.mark.parametrize("wrong", [5, -6])
def test_the_body_and_the_condition_of_a_loop_tell_of_positions(wrong):
    table = paddle.to_tensor(np.arange(10, dtype="float32").reshape(5, 2))

    def steps(x, n):
        step = lambda i, y: [i + 1, y + table[i + n - 1]]
        return paddle.static.nn.while_loop(lambda i, y: table[i + n][0] < 8, step, [paddle.zeros([], "int64"), x])[1]

    paddle.set_device("gpu-emulated")
    run = paddle.jit.to_static(steps, full_graph=True)
    assert run(paddle.ones([2]), paddle.to_tensor(1)).tolist() == [7, 10]
    with pytest.raises(CallError, match=f"from -5 to 4 but computed {wrong} to {wrong}"):
        run(paddle.ones([2]), paddle.to_tensor(wrong))
