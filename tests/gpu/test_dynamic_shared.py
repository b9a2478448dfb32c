"""Shared memory beyond what a kernel has by itself: its launch says how much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.text import parse_module
from polyreme.lowering.emit.ptx.emit_module import emit_ptx
from polyreme.lowering.link.artifact import load
from polyreme.lowering.link.gpu import build_gpu_artifact
from polyreme.lowering.machines.gpu import GPU_DEVICES
from polyreme.lowering.machines.targets import GPU_TARGETS, find_target
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.gpu.drivers import EmulatedDriver, GpuError, open_driver
from polyreme.runtime.gpu.plan import GpuPlan
from polyreme.runtime.ptx.parser import PtxError
from tests.gpu.cuda_stand_in import CudaStandIn
from tests.gpu.grids import both, ptx_of
from tests.gpu.ptxas import ARCHITECTURES, assemble, needs_ptxas
from tests.gpu.running import DEVICES, driver


def turning(floats: int, launches: int = 1):
    """A kernel that turns 64 elements around in shared memory, behind `floats` others, on every block of 64 elements."""
    work = f"""
  %u = kernel.alloc {{shape = [{floats}], dtype = f32, space = "shared"}} : buffer<{floats}xf32>
  %s = kernel.alloc {{shape = [64], dtype = f32, space = "shared"}} : buffer<64xf32>
  %t = kernel.thread_id : index
  %b = kernel.block_id : index
  %c64 = kernel.constant {{value = 64, dtype = index}} : index
  %c63 = kernel.constant {{value = 63, dtype = index}} : index
  %o = kernel.apply %b, %c64 {{fn = "mul"}} : index
  %i = kernel.apply %o, %t {{fn = "add"}} : index
  %v = kernel.load %x, %i : f32
  kernel.store %v, %s, %t
  kernel.store %v, %u, %t
  kernel.barrier ()
  %r = kernel.apply %c63, %t {{fn = "sub"}} : index
  %w = kernel.load %s, %r : f32
  %a = kernel.load %u, %t : f32
  %z = kernel.apply %w, %a {{fn = "sub"}} : f32
  kernel.store %z, %y, %i
  return"""
    args = "%x: buffer<256xf32>, %y: buffer<256xf32>"
    calls = "\n".join(["  kernel.launch %x, %y {callee = @work, grid = [4], block = [64]}"] * launches)
    module = parse_module(f"func @work({args}) {{{work}\n}}\nfunc @main({args}) {{\n{calls}\n  return\n}}")
    module.function("main").attributes["arg_roles"] = ("input", "output")
    return module


X = np.arange(256, dtype=np.float32)
TURNED = (X.reshape(4, 64)[:, ::-1] - X.reshape(4, 64)).reshape(-1)
SMALL, LARGE = (48 << 10) // 4 - 64, (48 << 10) // 4 - 32


def artifact_of(floats: int, sm: int = 90, launches: int = 1) -> Artifact:
    made = build_gpu_artifact(turning(floats, launches), find_target(f"cuda:sm_{sm}"), "turning", {})
    return Artifact.from_bytes(made.to_bytes())


@pytest.mark.parametrize("floats", [64, SMALL, LARGE, 40_000])
def test_small_memory_is_the_kernels_own_and_large_memory_the_launchs(floats):
    code = ptx_of(turning(floats), 90)
    known = code.kernels["work"]
    needed = -(-floats * 4 // 64) * 64 + 256
    assert known.shared_bytes == needed and known.dynamic == (needed > 48 << 10)
    assert known.launch_bytes == (needed if known.dynamic else 0)
    assert (".extern .shared .align 1024 .b8 dynamic_shared[];" in code.ptx) == known.dynamic
    for got, meant in zip(*both(turning(floats), [X], [np.zeros_like(X)], 90), strict=True):
        np.testing.assert_array_equal(got, meant)
        np.testing.assert_array_equal(got, TURNED)


@DEVICES
@pytest.mark.parametrize("launches", [1, 4], ids=["a launch", "a graph"])
def test_an_artifact_tells_its_launches(launches, device):
    artifact = artifact_of(20_000, launches=launches)
    (shared,) = {launch.shared for launch in GpuPlan.of(artifact.manifest).launches}
    assert shared == 80_000 + 256
    made = load(artifact, driver(device))
    for _ in range(3):
        np.testing.assert_array_equal(made.run([X])[0], TURNED)


def test_graphs_of_a_driver_tell_it_too(monkeypatch):
    stand_in = CudaStandIn(monkeypatch)
    made = load(artifact_of(20_000, launches=4), open_driver("gpu"))
    for _ in range(3):
        np.testing.assert_array_equal(made.run([X])[0], TURNED)
    assert stand_in.calls["cuGraphLaunch"] == 2 and stand_in.calls["launch"] == 4


def test_a_plan_without_shared_memory_is_as_it_was():
    artifact = artifact_of(64)
    assert "shared" not in next(iter(artifact.manifest.extra.values()))
    assert GpuPlan.of(artifact.manifest).launches[0].shared == 0


def test_a_device_with_less_is_refused_before_anything_is_loaded(monkeypatch):
    found = EmulatedDriver()
    monkeypatch.setattr(found, "shared_bytes", 99 << 10)
    load(artifact_of(20_000, 80), found)
    with pytest.raises(ArtifactError, match="expected a GPU whose blocks have 120256 bytes of shared memory for 'turning' but those of"):
        load(artifact_of(30_000, 80), found)


@pytest.mark.parametrize(("sm", "most"), [(75, 64 << 10), (80, 163 << 10), (86, 99 << 10), (90, 227 << 10)])
def test_each_target_has_its_most(sm, most):
    target = find_target(f"cuda:sm_{sm}")
    assert target.shared_bytes == most
    floats = most // 4 - 64
    assert emit_ptx(turning(floats), target).kernels["work"].shared_bytes == most
    with pytest.raises(PolyremeError, match=f"expected at most {most} bytes of shared memory in 'work' but got {most + 64}"):
        emit_ptx(turning(floats + 16), target)


def test_every_target_has_a_device():
    assert list(dict.fromkeys(t.sm for t in GPU_TARGETS.values())) == list(GPU_DEVICES)


def test_the_runner_is_as_strict_as_a_device():
    found = open_driver("gpu-emulated")
    code = ptx_of(turning(20_000), 90)
    module, address = found.load_module(code.ptx), found.allocate(2048)
    for shared, message in ((80_256, "expected at most 49152 bytes of shared memory in a launch of 'work'"), (1024, "is out of bounds")):
        with pytest.raises(PtxError, match=message):
            found.launch(module.function("work"), (4,), (64,), [address, address + 1024], shared)
    with pytest.raises(GpuError, match="expected at most 232448 bytes of shared memory for 'work' but got 240000"):
        module.function("work", 240_000)
    found.launch(module.function("work", 80_256), (4,), (64,), [address, address + 1024], 80_256)


@needs_ptxas
@pytest.mark.parametrize("sm", list(GPU_DEVICES))
def test_it_is_assembled(sm, tmp_path):
    code = ptx_of(turning(GPU_DEVICES[sm].shared_block // 4 - 64), sm)
    for architecture in ARCHITECTURES[sm]:
        assert assemble(code.ptx, architecture, tmp_path)["work"].shared == 0


@pytest.mark.parametrize(
    ("sm", "threads", "registers", "shared", "blocks"),
    [
        (80, 128, 128, 40 << 10, 4),  # shared memory
        (80, 128, 255, 16 << 10, 2),  # registers
        (80, 256, 32, 1 << 10, 8),  # threads
        (75, 32, 16, 0, 16),  # blocks
        (90, 128, 168, 113 << 10, 2),
        (80, 128, 64, 163 << 10, 1),
    ],
)
def test_how_many_blocks_a_multiprocessor_holds(sm, threads, registers, shared, blocks):
    assert GPU_DEVICES[sm].blocks_at_once(threads, registers, shared) == blocks
    assert replace(GPU_DEVICES[sm], blocks=1).blocks_at_once(threads, registers, shared) == 1
