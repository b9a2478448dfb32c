"""What a library is written as, and what it asks before it computes: of the processor, of its weights, of the sizes."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.compiled.compilation import runs_here
from polyreme.ir import config
from polyreme.ir.diagnostics import PolyremeError
from polyreme.jit.saving import trace_model
from polyreme.lowering.link import linkers, shared_library
from polyreme.lowering.link.artifact import check_form, linked, native_object, write_library
from polyreme.lowering.link.multi import level_targets, write_multi
from polyreme.lowering.link.processor import base_features
from polyreme.lowering.link.relocatable import defined, link_object
from polyreme.lowering.machines.targets import find_target, host
from polyreme.lowering.pipeline import compile_module
from polyreme.runtime import library as library_module
from polyreme.runtime.checksum import SUM_LANES, weights_sum
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.library import load_compiled, read_library
from polyreme.runtime.manifest.specs import GuardSpec, TargetSpec
from tests.runtime.native import fixed_artifact, scale_artifact

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
QEMU = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")

TWO_MODELS = """
#include "one.h"
#include "two.h"
#include <stdio.h>
int main(void) {
  const char *error = 0;
  one_model *one = one_create(1, &error);
  two_model *two = two_create(1, &error);
  if (!one || !two) { puts(error ? error : "?"); return 9; }
  return one_check_weights(one) | two_check_weights(two) | (one_input_count() != two_input_count());
}
"""


@needs_cc
@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_two_models_in_one_program(tmp_path: Path, weights: str) -> None:
    one, *_ = write_library(scale_artifact(), tmp_path / "one.o", weights=weights)
    two, *_ = write_library(scale_artifact(), tmp_path / "two.a", weights=weights)
    assert two.read_bytes()[:8] == b"!<arch>\n"
    assert all(name.startswith("one_") for name in defined(one.read_bytes()))
    (tmp_path / "main.c").write_text(TWO_MODELS)
    command = ["cc", "-Wall", "-Werror", "main.c", "one.o", "two.a", "-lm", "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "main"], cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_an_archive_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = (write_library(scale_artifact(), tmp_path / name / "net.a") for name in ("a", "b") if (tmp_path / name).mkdir() is None)
    assert first[0].read_bytes() == second[0].read_bytes()


@pytest.mark.parametrize(
    ("file", "form", "message"),
    [
        ("net.dll", None, r"suffix \.so \(shared\), \.a \(static\), \.o \(object\), \.wasm \(wasm\) for a library but got 'net.dll'"),
        ("net", None, r"but got 'net'"),
        ("net.so", "object", r"a file of suffix \.o for a library but got 'net.so'"),
        ("net.so", "shard", r"did you mean 'shared'"),
        ("net.wasm", None, "a module of WebAssembly .* for the target wasm32, and only for it, but got 'net.wasm' for"),
    ],
)
def test_a_file_of_another_name_is_not_written(tmp_path: Path, file: str, form: str | None, message: str) -> None:
    with pytest.raises(PolyremeError, match=message):
        write_library(fixed_artifact(), tmp_path / file, form=form)
    assert not list(tmp_path.iterdir())


def test_the_form_is_that_of_the_suffix() -> None:
    assert [check_form(Path(f"net{suffix}"), host()) for suffix in (".so", ".a", ".o")] == ["shared", "static", "object"]
    assert check_form(Path("/dev/null"), host(), "object") == "object"
    assert check_form(Path("/dev/null"), find_target("wasm32")) == check_form(Path("net.wasm"), find_target("wasm32")) == "wasm"


# --- weights


def opened(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    library.net_create.restype = ctypes.c_void_p
    library.net_error.restype = ctypes.c_char_p
    return library


def test_a_flipped_bit_of_the_weights_is_found(tmp_path: Path) -> None:
    path, weights, _ = write_library(scale_artifact(), tmp_path / "net.so", weights="beside")
    library = opened(path)
    model = ctypes.c_void_p(library.net_create(1, None))
    assert library.net_check_weights(model) == 0
    library.net_destroy(model)
    data = bytearray(weights.read_bytes())
    data[-3] ^= 64
    weights.write_bytes(data)
    model = ctypes.c_void_p(library.net_create(1, None))
    assert library.net_check_weights(model) == 4
    assert b"the weights are damaged: their checksum is " in library.net_error()
    assert library.net_check_weights(None) == 1
    library.net_destroy(model)


@pytest.mark.parametrize("count", [0, 5, 8 * SUM_LANES, 8 * SUM_LANES + 9, 24 * SUM_LANES])
def test_each_bit_counts_in_the_checksum(count: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, count, np.uint8)
    right = weights_sum(data.data)
    for place in {0, count // 3, count // 2, count - 1} if count else ():
        for bit in (0, 7):
            data[place] ^= 1 << bit
            assert weights_sum(data.data) != right
            data[place] ^= 1 << bit
    assert weights_sum(data.tobytes() + b"\0") != right


# --- sizes


def test_sizes_whose_product_has_more_than_63_bits_are_refused(tmp_path: Path) -> None:
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.Linear(8, 4), paddle.nn.Softmax(1))
    paddle.compile(net, tmp_path / "net.so", input_spec=[paddle.static.InputSpec([None, None, 4], "float32", "x")])
    library = opened(tmp_path / "net.so")
    model = ctypes.c_void_p(library.net_create(1, None))
    data = (ctypes.c_float * 64)()

    def code(*sizes: int) -> int:
        shape = (ctypes.c_int64 * 3)(*sizes)
        return int(
            library.net_run(
                model, (ctypes.c_void_p * 1)(ctypes.addressof(data)), (ctypes.c_void_p * 1)(ctypes.addressof(shape)),
                (ctypes.c_void_p * 1)(ctypes.addressof(data)),
            )
        )  # fmt: skip

    assert code(2, 2, 4) == 0
    for n, m in ((2**31, 2**31), (2**33, 2**59), (2**47, 2**47), (2**48, 2**16)):
        assert code(n, m, 4) == 2
    assert b"the sizes are too large together" in library.net_error() or b"expected a size" in library.net_error()
    # The input can be counted, working memory cannot.
    assert code(2**28, 2**30, 4) == 3
    assert b"the sizes are too large: -1 bytes of working storage" in library.net_error()
    assert code(2, 2, 4) == 0
    library.net_destroy(model)


# --- places


def test_the_builders_folder_is_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    artifact = scale_artifact()
    guards = tuple(
        GuardSpec(artifact.manifest.sizes[0].name, f"N to be at least 0 (nn.slice at {place})", "bound", 0)
        for place in ("/home/me and (you)/net.py:9:16", "net.py:9:16", r"C:\me\net.py:9", "fc.0")
    )
    artifact = replace(artifact, manifest=replace(artifact.manifest, guards=guards))
    for folders in (False, True):
        path, header = write_library(artifact, tmp_path / "net.so", folders=folders)
        for file in (path, header):
            assert (b"/home/me" in file.read_bytes()) == folders
        told = [guard.what.split(" at ")[-1] for guard in read_library(path).manifest.guards]
        assert told == ([g.what.split(" at ")[-1] for g in guards] if folders else ["net.py:9:16)", "net.py:9:16)", "net.py:9)", "fc.0)"])


# --- the processor


def test_what_create_asks_of_the_processor() -> None:
    def asked(name: str, cpu: str | None = None) -> list[str]:
        target = find_target(name, cpu)
        return base_features(TargetSpec(target.triple, target.cpu, target.features))

    assert asked("x86-64") == [] == asked("aarch64") == asked("riscv64")
    assert {"sse4.2", "popcnt"} <= set(asked("x86-64-v2")) < set(asked("x86-64-v3")) < set(asked("x86-64-v4"))
    assert asked("x86-64", "x86-64-v3") == asked("x86-64-v3")
    assert "avx2" not in base_features(TargetSpec("x86_64-unknown-linux-gnu", "x86-64-v3", "-avx2"))


OLD = """
#include "net.h"
#include <stdio.h>
int main(void) {
  const char *error = 0;
  net_model *model = net_create(1, &error);
  if (model) return net_check_weights(model);
  puts(error);
  return 3;
}
"""


@pytest.mark.qemu
@needs_cc
@pytest.mark.skipif(QEMU is None, reason="qemu-user is not installed")
@pytest.mark.parametrize(
    ("target", "cpu", "lacks"),
    [
        ("x86-64-v2", "Nehalem", ""), ("x86-64-v2", "qemu64", "ssse3"), ("x86-64-v3", "Nehalem", "fma"), ("x86-64-v3", "Haswell", ""),
        ("x86-64-v3", "max", ""), ("x86-64-v4", "max", "avx512"), ("x86-64", "qemu64", ""),
    ],
)  # fmt: skip
def test_an_older_processor_is_told_and_not_killed(tmp_path: Path, target: str, cpu: str, lacks: str) -> None:
    net = paddle.nn.Linear(8, 4)
    paddle.compile(net, tmp_path / "net.so", target=target, input_spec=[paddle.static.InputSpec([None, 8])])
    (tmp_path / "main.c").write_text(OLD)
    command = ["cc", "main.c", str(tmp_path / "net.so"), f"-Wl,-rpath,{tmp_path}", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert QEMU is not None
    done = subprocess.run([QEMU, "-cpu", cpu, tmp_path / "main"], capture_output=True, text=True, check=False)
    assert (done.returncode, lacks in done.stdout) == (3 if lacks else 0, True), done.stdout + done.stderr


# --- several levels in one library

SUMS = """
#include "net.h"
#include <stdio.h>
int main(void) {
  const char *error = 0;
  net_model *model = net_create(1, &error);
  if (!model) { puts(error); return 3; }
  float x[24], y[12];
  for (int i = 0; i < 24; i++) x[i] = (float)(i % 7);
  int64_t sizes[2] = {3, 8};
  const int64_t *shapes[1] = {sizes};
  const void *inputs[1] = {x};
  void *outputs[1] = {y};
  int32_t code = net_run(model, inputs, shapes, outputs);
  for (int i = 0; i < 12; i++) printf("%.5f ", y[i]);
  code |= net_check_weights(model);
  sizes[1] = 9;
  code |= net_run(model, inputs, shapes, outputs) != NET_BAD_SHAPE;
  net_destroy(model);
  return code;
}
"""


def one_for_several(folder: Path, file: str = "net.so", weights: str = "auto") -> tuple[Any, np.ndarray[Any, Any]]:
    net = paddle.nn.Linear(8, 4)
    spec = [paddle.static.InputSpec([None, 8], "float32", "x")]
    traced = trace_model(net, spec)
    artifacts = [compile_module(traced.frozen(), target, name="net").artifact.settled() for target in level_targets()]
    write_multi(artifacts, folder / file, weights=weights)
    x = (np.arange(24) % 7).astype("float32").reshape(3, 8)
    return x, net(paddle.to_tensor(x)).numpy()


@pytest.mark.skipif(host().arch != "x86_64", reason="levels are of x86-64")
@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_a_library_for_several_processors_takes_the_best_level_here(tmp_path: Path, weights: str) -> None:
    x, wanted = one_for_several(tmp_path, weights=weights)
    library = load_compiled(tmp_path / "net.so")
    np.testing.assert_allclose(library(x), wanted, rtol=1e-5, atol=1e-6)
    best = [t for t in level_targets() if runs_here(t)][-1]
    assert library.manifest.target.cpu == best.cpu
    assert (tmp_path / "net.weights").exists() == (weights == "beside")
    native = opened(tmp_path / "net.so")
    assert not hasattr(native, "net__v3_create"), "only NAME_… is there for programs"
    model = ctypes.c_void_p(native.net_create(1, None))
    assert native.net_check_weights(model) == 0
    native.net_destroy(model)
    if weights == "beside":
        data = bytearray((tmp_path / "net.weights").read_bytes())
        data[-2] ^= 1
        (tmp_path / "net.weights").write_bytes(data)
        with pytest.raises(ArtifactError, match="the file is damaged"):
            load_compiled(tmp_path / "net.so")


class Kept(paddle.nn.Layer):
    """A model in parts: a mask tells a size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = paddle.nn.Linear(8, 4), paddle.nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        return self.second(paddle.gather(y, paddle.nonzero(x[:, 0] > 0)[:, 0]))


@pytest.mark.skipif(host().arch != "x86_64", reason="levels are of x86-64")
@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_a_model_in_parts_is_for_several_processors_too(tmp_path: Path, monkeypatch: Any, weights: str) -> None:
    net = Kept()
    traced = trace_model(net, [paddle.static.InputSpec([None, 8], "float32", "x")])
    artifacts = [compile_module(traced.frozen(), target, name="net").artifact.settled() for target in level_targets()]
    write_multi(artifacts, tmp_path / "net.so", weights=weights)
    x = (np.arange(32) % 7 - 2).astype("float32").reshape(4, 8)
    check = library_module.check_runs_here
    for best in [target for target in level_targets() if runs_here(target)]:

        def up_to(target: Any, name: str, best: Any = best) -> None:
            if target.cpu > best.cpu:
                raise ArtifactError("another level")
            check(target, name)

        monkeypatch.setattr(library_module, "check_runs_here", up_to)
        library = load_compiled(tmp_path / "net.so")
        assert library.manifest.target.cpu == best.cpu and library.manifest.steps
        np.testing.assert_allclose(library(x), net(paddle.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    native = opened(tmp_path / "net.so")
    model = ctypes.c_void_p(native.net_create(1, None))
    room, sizes = np.zeros((4, 3), "float32"), (ctypes.c_int64 * 2)()
    pointers, shape = ctypes.c_void_p * 1, (ctypes.c_int64 * 2)(4, 8)
    count = (ctypes.c_int64 * 1)(12)
    assert native.net_check_weights(model) == 0
    inputs, shapes, outputs = (pointers(at) for at in (x.ctypes.data, ctypes.addressof(shape), room.ctypes.data))
    assert native.net_run_sized(model, inputs, shapes, outputs, count, pointers(ctypes.addressof(sizes))) == 0
    np.testing.assert_allclose(room[: sizes[0]], net(paddle.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    native.net_destroy(model)


@needs_cc
@pytest.mark.skipif(host().arch != "x86_64", reason="levels are of x86-64")
@pytest.mark.parametrize("file", ["net.so", "net.a", "net.o"])
def test_programs_call_it_as_any_other(tmp_path: Path, file: str) -> None:
    _, wanted = one_for_several(tmp_path, file)
    (tmp_path / "main.c").write_text(SUMS)
    subprocess.run(["cc", "main.c", file, f"-Wl,-rpath,{tmp_path}", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    np.testing.assert_allclose([float(v) for v in done.stdout.split()], wanted.reshape(-1), atol=1e-4)
    if QEMU is not None:
        done = subprocess.run([QEMU, "-cpu", "Nehalem", tmp_path / "main"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.qemu
@needs_cc
@pytest.mark.skipif(QEMU is None, reason="qemu-user is not installed")
@pytest.mark.parametrize("cpu", ["Nehalem", "Haswell", "max"])
def test_each_processor_gets_code_that_it_runs(tmp_path: Path, cpu: str) -> None:
    _, wanted = one_for_several(tmp_path)
    (tmp_path / "main.c").write_text(SUMS)
    subprocess.run(["cc", "main.c", "net.so", f"-Wl,-rpath,{tmp_path}", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    assert QEMU is not None
    done = subprocess.run([QEMU, "-cpu", cpu, tmp_path / "main"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    np.testing.assert_allclose([float(v) for v in done.stdout.split()], wanted.reshape(-1), atol=1e-4)


def test_several_levels_are_for_x86_64_and_for_libraries(tmp_path: Path) -> None:
    spec = [paddle.static.InputSpec([2, 8], "float32", "x")]
    for target in ("aarch64", find_target("aarch64")):
        with pytest.raises(PolyremeError, match=r"of x86-64 for a library of several levels \(cpu 'multi'\) but got 'aarch64'"):
            paddle.compile(paddle.nn.ReLU(), tmp_path / "net.so", target=target, cpu="multi", input_spec=spec)
    with pytest.raises(PolyremeError, match=r"no level of x86-64 for a library of several .* but got 'x86-64-avx2'; leave out one"):
        paddle.compile(paddle.nn.ReLU(), tmp_path / "net.so", target="x86-64-v3", cpu="multi", input_spec=spec)
    if host().arch == "x86_64":
        # Of one level, and of several, one after the other in one file: what the system has open by that name is the first.
        plain = paddle.compile(paddle.nn.Sigmoid(), tmp_path / "net.so", input_spec=spec)
        assert plain(np.zeros((2, 8), "float32")).max() == 0.5
    library = paddle.compile(paddle.nn.ReLU(), tmp_path / "net.so", cpu="multi", input_spec=spec)
    if host().arch == "x86_64":
        assert library(np.full((2, 8), -1, "float32")).max() == 0


def test_refusals_name_the_target(tmp_path: Path) -> None:
    spec = [paddle.static.InputSpec([2, 8], "float32", "x")]
    for path, kind, wanted in (
        ("net.cubin", {}, "an artifact for a GPU has a target such as 'cuda:sm_80'"),
        ("net.cubin", {"target": "cuda:sm_80", "cpp": True}, r"header of C\+\+ but got the artifact '.*net.cubin'"),
        ("net.wasm", {"target": "cuda:sm_80"}, r"WebAssembly \(.wasm\) for the target wasm32, and only for it, but got 'net.wasm'"),
    ):
        with pytest.raises(PolyremeError, match=wanted):
            paddle.compile(paddle.nn.ReLU(), tmp_path / path, input_spec=spec, **kind)


# --- linkers


def without_linkers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linkers.shutil, "which", lambda name: None)
    monkeypatch.setattr(linkers.importlib.util, "find_spec", lambda name: None)


@needs_cc
@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_archives_and_objects_need_no_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str) -> None:
    with monkeypatch.context() as patch:
        without_linkers(patch)
        write_library(scale_artifact(), tmp_path / "one.o", weights=weights)
        write_library(scale_artifact(), tmp_path / "two.a", weights=weights)
        with pytest.raises(PolyremeError) as caught:
            write_library(scale_artifact(), tmp_path / "three.so", weights=weights)
    assert "pip install ziglang); an archive (.a) and an object file (.o) need none" in str(caught.value)
    # What another linker makes of the object is one, too.
    done = subprocess.run(["cc", "-r", "-nostdlib", "-o", "whole.o", "one.o"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (tmp_path / "main.c").write_text(TWO_MODELS)
    for one in ("one.o", "whole.o"):
        command = ["cc", "-Wall", "-Werror", "main.c", one, "two.a", "-lm", "-o", "main"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert subprocess.run([tmp_path / "main"], cwd="/", capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", ["x86-64", "aarch64", "riscv64"])
def test_objects_are_joined_for_every_machine(tmp_path: Path, name: str) -> None:
    """Each name once, defined where one of the objects does, and relocations that name the same symbols as before."""
    target = find_target(name)
    parts = [f"""
define internal i32 @own() noinline nounwind {{
  ret i32 {i}
}}

define weak hidden i32 @shared() nounwind {{
  ret i32 9
}}

declare i32 @f{1 - i}(i32)

define i32 @f{i}(i32 %x) nounwind {{
  %a = call i32 @own()
  %b = call i32 @f{1 - i}(i32 %a)
  %c = call i32 @shared()
  %d = add i32 %b, %c
  ret i32 %d
}}
""" for i in (0, 1)]  # fmt: skip
    objects = {f"{i}.o": native_object(text, target) for i, text in enumerate(parts)}
    whole = link_object(objects)
    assert sorted(defined(whole)) == ["f0", "f1", "shared"]
    assert whole == link_object(objects)
    # The joined object is one that can be joined.
    assert sorted(defined(link_object({"a.o": whole}))) == ["f0", "f1", "shared"]
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("readelf is not installed")
    (tmp_path / "whole.o").write_bytes(whole)
    told = subprocess.run([readelf, "-W", "-S", "-s", "-r", "whole.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Warning" not in told.stderr + told.stdout and "Error" not in told.stderr
    relocated = re.findall(r"R_\w*(?:PLT32|CALL26|CALL_PLT|PC32)\S*\s+\S+\s+(\w+)", told.stdout)
    assert sorted(relocated)[:2] == ["f0", "f1"] and relocated.count("shared") == 2
    assert len(re.findall(r"\bown$", told.stdout, re.MULTILINE)) >= 2


def test_a_package_with_its_own_compiler_is_announced_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where `ziglang` has no lld."""
    without_linkers(monkeypatch)
    monkeypatch.setattr(shared_library.importlib.util, "find_spec", lambda name: name == "ziglang")
    asked: list[tuple[Any, Any]] = []

    def run(command: list[str], timeout: float | None, **_: Any) -> Any:
        asked.append((command[3], timeout))
        return subprocess.CompletedProcess(command, 1, "", "no such command")

    monkeypatch.setattr(linkers.subprocess, "run", run)
    with pytest.raises(PolyremeError, match="ziglang cc: no such command"):
        write_library(scale_artifact(), tmp_path / "net.so")
    assert asked == [("ld.lld", config.compile_seconds())] * 2 + [("cc", None)]
    assert "the package 'ziglang', which makes files of its own the first time" in capsys.readouterr().err
    asked.clear()
    assert linked(scale_artifact()).manifest.objects == scale_artifact().manifest.objects
    assert ("cc", None) not in asked


@pytest.mark.toolchain
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="the package ziglang is not installed")
@pytest.mark.parametrize("file", ["net.so", "net.wasm"])
def test_with_ziglang_no_program_of_the_system_is_needed(tmp_path: Path, file: str) -> None:
    code = (
        "import polyreme as paddle; "
        f"paddle.compile(paddle.nn.Linear(4, 2), {file!r}, input_spec=[paddle.static.InputSpec([1, 4], 'float32', 'x')])"
    )
    (tmp_path / "bin").mkdir()
    environment = {**os.environ, "PATH": str(tmp_path / "bin"), "POLYREME_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert read_library(tmp_path / file).manifest.name == "net"


# --- small


def test_small_libraries_have_weights_in_no_larger_form(tmp_path: Path) -> None:
    net, spec = paddle.nn.Linear(768, 512), [paddle.static.InputSpec([128, 768], "float32", "x")]
    weights = 4 * sum(p.size for p in net.parameters())
    found = {}
    for small in (None, True):
        library = paddle.compile(net, tmp_path / f"{small}.so", target="x86-64-v2", input_spec=spec, small=small)
        x = np.random.default_rng(0).standard_normal((128, 768)).astype(np.float32)
        expected = net(paddle.to_tensor(x)).numpy()
        assert np.abs(np.asarray(library(x)) - expected).max() < 1e-5 * np.abs(expected).max()
        found[small] = read_library(tmp_path / f"{small}.so").manifest.constant_bytes
    assert found[True] < 1.05 * weights < 1.5 * weights < found[None]


@pytest.mark.toolchain
def test_modules_of_webassembly_are_small_unless_they_are_not_to_be(tmp_path: Path) -> None:
    net, spec = paddle.nn.Linear(768, 512), [paddle.static.InputSpec([128, 768], "float32", "x")]
    found = {}
    for target in ("native", "wasm32-unknown-unknown"):
        for small in (None, True, False):
            paddle.compile(net, tmp_path / "net.wasm", target=target, input_spec=spec, small=small)
            found[small] = read_library(tmp_path / "net.wasm").manifest.constant_bytes
        assert found[None] == found[True] < found[False] / 1.5
