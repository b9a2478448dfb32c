"""Compiled libraries: opened from Python without a compiler, and from C and C++ through the header."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyreme.ir.diagnostics import PolyremeError
from polyreme.lowering.link import linkers
from polyreme.lowering.link.artifact import MAX_INSIDE_BYTES, NATIVES, native_object, write_library
from polyreme.lowering.machines.targets import find_target, host
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.errors import ArtifactError, CallError
from polyreme.runtime.library import TRAILER, load_compiled, read_library
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.runtime.manifest.specs import ConstantSpec, GuardSpec, SizeSpec, TensorSpec
from polyreme.runtime.memory import LARGE_PAGE, LARGE_PAGES_FROM, address_of
from tests.runtime.native import (
    FIXED,
    WEIGHTS,
    fixed_artifact,
    native_code,
    scale_artifact,
    scale_inputs,
    scale_manifest,
    scale_reference,
    this_machine,
)

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
needs_cxx = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler is installed")
needs_ldd = pytest.mark.skipif(shutil.which("ldd") is None, reason="ldd is not installed")


@pytest.fixture(scope="module", params=["inside", "beside"])
def scale_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "scale.so"
    written = write_library(scale_artifact(), path, weights=request.param)
    expected = ["scale.so", "scale.weights", "scale.h"] if request.param == "beside" else ["scale.so", "scale.h"]
    assert [p.name for p in written] == expected
    assert sorted(p.name for p in path.parent.iterdir()) == sorted(expected)
    return path


@pytest.mark.parametrize("n", [0, 1, 17, 4000])
def test_a_library_computes_what_the_artifact_does(scale_path: Path, n: int) -> None:
    x, b = scale_inputs(n)
    np.testing.assert_array_equal(load_compiled(scale_path)(x, b), scale_reference(x, b))


def test_a_library_is_called_and_refuses_like_any_executable(scale_path: Path) -> None:
    library = load_compiled(scale_path, threads=2)
    assert library.pool is not None and library.pool.threads == 2
    assert library.name == "scale"
    with pytest.raises(CallError, match="'scale' expected the input 'x' to be float32\\[N, 4\\] but got float32\\[4\\]"):
        library(np.zeros(4, np.float32), np.zeros(4, np.float32))


def test_a_library_runs_in_a_process_that_never_loads_the_compiler(scale_path: Path) -> None:
    program = textwrap.dedent(f"""
        import sys
        import numpy as np
        from polyreme.runtime.library import load_compiled
        library = load_compiled({str(scale_path)!r})
        print(library(np.ones((2, 4), np.float32), np.zeros(2, np.float32)).tolist())
        compiler = ("polyreme.lowering", "polyreme.ir", "polyreme.dialects")
        unwanted = [m for m in sys.modules if m.split(".")[0] in ("llvmlite", "lark") or m.startswith(compiler)]
        print(unwanted)
    """)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines() == [str([WEIGHTS.tolist()] * 2), "[]"]


@needs_ldd
def test_a_library_needs_the_system_s_own_libraries_only(scale_path: Path, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.so"
    write_library(fixed_artifact(), fixed)
    for path in (scale_path, fixed):
        result = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=60, check=True)
        names = [line.split()[0].rsplit("/", 1)[-1] for line in result.stdout.splitlines() if line.strip()]
        assert all(re.match(r"(linux-vdso|libc|libm|libpthread|ld-linux|ld-musl|statically)", name) for name in names), result.stdout


def test_only_the_documented_functions_are_visible(scale_path: Path) -> None:
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    result = subprocess.run(["nm", "-D", "--defined-only", scale_path], capture_output=True, text=True, timeout=60, check=True)
    visible = {line.split()[-1] for line in result.stdout.splitlines()}
    assert visible - {"polyreme_library"} == {name for name in visible if name.startswith("scale_")}
    header = scale_path.with_suffix(".h").read_text()
    for name in visible - {"polyreme_library", "scale_create_with_weights"}:
        assert f"{name}(" in header, f"{name} is not in the header"


def test_equal_artifacts_give_equal_files(tmp_path: Path) -> None:
    contents = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        NATIVES.clear()
        files = write_library(scale_artifact(), tmp_path / folder / "net.so", weights="beside")
        contents.append([file.read_bytes() for file in files])
    assert contents[0] == contents[1]


def test_a_library_that_is_written_again_is_not_confused_with_the_loaded_one(tmp_path: Path) -> None:
    path = tmp_path / "net.so"
    x, b = scale_inputs(3)
    write_library(scale_artifact(), path)
    first = load_compiled(path)
    write_library(Artifact(scale_artifact().manifest, scale_artifact().code, (WEIGHTS * 2).tobytes()), path)
    second = load_compiled(path)
    np.testing.assert_array_equal(first(x, b), scale_reference(x, b))
    np.testing.assert_array_equal(second(x, b), x * (WEIGHTS * 2) + b[:, None])


def padded_artifact(count: int) -> Artifact:
    """`scale_artifact` with so many bytes of constants more, which nobody reads."""
    manifest = scale_manifest()
    padding = ConstantSpec("unused", "uint8", (count,), 64, count)
    manifest = replace(manifest, constants=(*manifest.constants, padding), arguments=(*manifest.arguments, ("constant", 1)))
    return Artifact(manifest, scale_artifact().code, WEIGHTS.tobytes().ljust(64, b"\0") + bytes(count))


def test_many_weights_go_into_a_file_of_their_own(tmp_path: Path) -> None:
    written = write_library(padded_artifact(MAX_INSIDE_BYTES), tmp_path / "large.so")
    assert [p.name for p in written] == ["large.so", "large.weights", "large.h"]
    assert written[0].stat().st_size < 100_000
    x, b = scale_inputs(3)
    np.testing.assert_array_equal(load_compiled(written[0])(x, b), scale_reference(x, b))


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are asked for on Linux")
@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_constants_that_caches_can_hold_are_copied_to_large_pages(tmp_path: Path, weights: str) -> None:
    artifact = padded_artifact(LARGE_PAGES_FROM)
    library = load_compiled(write_library(artifact, tmp_path / "scale.so", weights=weights)[0])
    constants = library.keep[-1]
    assert address_of(constants) % LARGE_PAGE == 0 and bytes(constants) == bytes(artifact.constants)
    x, b = scale_inputs(3)
    np.testing.assert_array_equal(library(x, b), scale_reference(x, b))


# --- damage


def test_a_truncated_library_is_refused(scale_path: Path, tmp_path: Path) -> None:
    data = scale_path.read_bytes()
    damaged = tmp_path / "damaged.so"
    for length in [0, 1, 100, len(data) // 2, len(data) - TRAILER.size, len(data) - 1]:
        damaged.write_bytes(data[:length])
        with pytest.raises(ArtifactError, match="damaged.so"):
            load_compiled(damaged)


def test_flipped_bits_in_a_library_are_noticed(scale_path: Path, tmp_path: Path) -> None:
    data = scale_path.read_bytes()
    damaged = tmp_path / "damaged.so"
    places = [*range(0, len(data), max(1, len(data) // 60)), *range(len(data) - TRAILER.size, len(data))]
    for place in places:
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        with pytest.raises(ArtifactError, match="damaged.so"):
            load_compiled(damaged)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_compiled(tmp_path / "missing.so")
    (tmp_path / "text.so").write_text("hello")
    with pytest.raises(ArtifactError, match="expected a library written by polyreme"):
        load_compiled(tmp_path / "text.so")


def test_weights_that_are_missing_damaged_or_of_another_library_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.so"
    _, weights, _ = write_library(scale_artifact(), path, weights="beside")
    whole = weights.read_bytes()
    for data in (whole[:-1], b"", whole[:40], whole[:-1] + bytes([whole[-1] ^ 1]), whole[:20] + b"?" + whole[21:], whole + b"\0"):
        weights.write_bytes(data)
        with pytest.raises(ArtifactError, match="net.weights: expected the weights"):
            load_compiled(path)
    weights.unlink()
    with pytest.raises(ArtifactError, match="net.weights: expected the weights of 'net' here"):
        load_compiled(path)
    weights.write_bytes(whole)
    x, b = scale_inputs(2)
    np.testing.assert_array_equal(load_compiled(path)(x, b), scale_reference(x, b))


def test_a_library_for_another_machine_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    if not any(shutil.which(linker) for linker in ("ld.lld", "aarch64-linux-gnu-ld")):
        pytest.skip("no linker for other machines is installed")
    target = find_target("aarch64" if host().arch != "aarch64" else "riscv64")
    data = fixed_artifact().manifest.to_json()
    data["target"] = {"triple": target.triple, "cpu": target.cpu, "features": target.features}
    path = tmp_path / "other.so"
    write_library(Artifact(Manifest.from_json(data), native_object(FIXED, target)), path)
    assert read_library(path).manifest.target.triple == target.triple
    with pytest.raises(ArtifactError, match=f"expected code for {host().arch} but got code for {target.arch}"):
        load_compiled(path)


# --- writing


def test_without_any_linker_the_error_names_all_that_were_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linkers.shutil, "which", lambda name: None)
    monkeypatch.setattr(linkers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PolyremeError) as caught:
        write_library(fixed_artifact(), tmp_path / "net.so")
    for linker in ("ld", "ld.lld", "cc", "ziglang"):
        assert f"{linker}: not installed" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("linker", ["ld", "ld.lld", "cc"])
def test_each_linker_makes_a_library_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linker: str) -> None:
    found = shutil.which(linker)
    if found is None:
        pytest.skip(f"{linker} is not installed")
    monkeypatch.setattr(linkers.shutil, "which", lambda name: found if name == linker else None)
    monkeypatch.setattr(linkers.importlib.util, "find_spec", lambda name: None)
    path = tmp_path / "net.so"
    write_library(scale_artifact(), path)
    x, b = scale_inputs(9)
    np.testing.assert_array_equal(load_compiled(path)(x, b), scale_reference(x, b))


def test_a_linker_that_fails_is_followed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "ld"
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    broken.chmod(0o755)
    which = shutil.which
    monkeypatch.setattr(linkers.shutil, "which", lambda name: str(broken) if name == "ld" else which(name) if name == "cc" else None)
    monkeypatch.setattr(linkers.importlib.util, "find_spec", lambda name: None)
    if which("cc") is None:
        with pytest.raises(PolyremeError, match="ld: no such luck"):
            write_library(fixed_artifact(), tmp_path / "net.so")
    else:
        write_library(fixed_artifact(), tmp_path / "net.so")
        assert load_compiled(tmp_path / "net.so")(np.array([1.0, 2.0]))[1]


def test_names_and_places_are_checked(tmp_path: Path) -> None:
    for name in ("2net", "my-net", "int", "", "a b", "_hidden", "n" * 300):
        with pytest.raises(PolyremeError, match="expected a name that C functions can start with"):
            write_library(fixed_artifact(), tmp_path / "net.so", name=name)
    with pytest.raises(PolyremeError, match="as the place of the weights but got 'nowhere'"):
        write_library(fixed_artifact(), tmp_path / "net.so", weights="nowhere")
    with pytest.raises(PolyremeError, match="expected a folder"):
        write_library(fixed_artifact(), tmp_path / "missing" / "net.so")
    assert list(tmp_path.iterdir()) == []
    write_library(fixed_artifact(), tmp_path / "2-my net.v3.so")
    assert load_compiled(tmp_path / "2-my net.v3.so").name == "model_2_my_net"


def test_odd_names_of_inputs_stay_text(tmp_path: Path) -> None:
    name = 'x*/ "quoted" \\ %s %n\n\u00e9'
    manifest = Manifest(
        "odd", (TensorSpec(name, "float64", (2,)),), (TensorSpec("y", "float64", (2,), "output"), TensorSpec("z", "bool", (), "output")),
        (), (),
        (("input", 0), ("output", 0), ("output", 1)), this_machine(),
    )  # fmt: skip
    path = tmp_path / "odd.so"
    write_library(Artifact(manifest, native_code(FIXED)), path)
    assert load_compiled(path).manifest.inputs[0].name == name
    if shutil.which("cc"):
        build(tmp_path, "#include \"odd.h\"\nint main(void) { return odd_input_count() - 1; }", path)


# --- from C

C_PROGRAM = r"""
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "scale.h"

static int failures = 0;

static void check(int holds, const char *what) {
  if (!holds) { printf("failed: %s (error text: '%s')\n", what, scale_error()); failures++; }
}

int main(void) {
  const char *error = "unset";
  scale_model *model = scale_create(2, &error);
  if (!model) { printf("cannot create: %s\n", error); return 1; }
  check(error == NULL, "no error text after success");
  check(scale_threads(model) == 2, "two threads");
  check(scale_set_threads(model, 3) == 3 && scale_threads(model) == 3, "three threads");

  check(scale_input_count() == SCALE_INPUTS && SCALE_INPUTS == 2, "two inputs");
  check(scale_output_count() == SCALE_OUTPUTS && SCALE_OUTPUTS == 1, "one output");
  check(!strcmp(scale_input_name(0), "x") && !strcmp(scale_input_name(1), "b") && !strcmp(scale_output_name(0), "y"), "names");
  check(!strcmp(scale_input_dtype(0), "float32") && !strcmp(scale_output_dtype(0), "float32"), "dtypes");
  check(scale_input_rank(0) == 2 && scale_input_rank(1) == 1 && scale_output_rank(0) == 2, "ranks");
  check(scale_input_shape(0)[0] == -1 && scale_input_shape(0)[1] == 4 && scale_output_shape(0)[0] == -1, "shapes");
  check(!scale_input_name(2) && !scale_input_name(-1) && scale_input_rank(2) == -1 && !scale_input_shape(9), "numbers out of range");

  for (int64_t n = 0; n < 3000; n = n * 3 + 1) {
    float *x = malloc(16 * n + 1), *b = malloc(4 * n + 1), *y = malloc(16 * n + 1);
    for (int64_t i = 0; i < 4 * n; i++) x[i] = (float)(i % 13) / 4;
    for (int64_t i = 0; i < n; i++) b[i] = (float)i;
    int64_t x_shape[] = {n, 4}, b_shape[] = {n}, y_shape[2] = {-5, -5};
    const int64_t *shapes[] = {x_shape, b_shape};
    int64_t *output_shapes[] = {y_shape};
    const void *inputs[] = {x, b};
    void *outputs[] = {y};
    check(scale_output_shapes(shapes, output_shapes) == SCALE_OK && y_shape[0] == n && y_shape[1] == 4, "output shapes");
    check(scale_run(model, inputs, shapes, outputs) == SCALE_OK && !*scale_error(), "run");
    const float w[] = {1.0f, -2.0f, 0.5f, 3.0f};
    int right = 1;
    for (int64_t i = 0; i < 4 * n; i++) right &= y[i] == x[i] * w[i % 4] + b[i / 4];
    check(right, "values");
    if (n == 4) for (int i = 0; i < 16; i++) printf("%g\n", y[i]);

    if (n > 0) {
      y[0] = 77;
      int64_t wrong = n + 1, negative[] = {-1, 4}, narrow[] = {n, 3};
      const int64_t *bad[] = {x_shape, &wrong};
      check(scale_run(model, inputs, bad, outputs) == SCALE_BAD_SHAPE, "unequal sizes");
      if (n == 4) printf("%s\n", scale_error());
      bad[1] = b_shape; bad[0] = negative;
      check(scale_run(model, inputs, bad, outputs) == SCALE_BAD_SHAPE, "negative size");
      if (n == 4) printf("%s\n", scale_error());
      bad[0] = narrow;
      check(scale_run(model, inputs, bad, outputs) == SCALE_BAD_SHAPE, "fixed size");
      if (n == 4) printf("%s\n", scale_error());
      bad[0] = NULL;
      check(scale_run(model, inputs, bad, outputs) == SCALE_BAD_SHAPE, "no shape of x");
      if (n == 4) printf("%s\n", scale_error());
      check(scale_run(model, inputs, NULL, outputs) == SCALE_BAD_SHAPE, "no shapes");
      if (n == 4) printf("%s\n", scale_error());
      check(scale_output_shapes(NULL, output_shapes) == SCALE_BAD_SHAPE, "no shapes to ask with");
      check(scale_output_shapes(shapes, NULL) == SCALE_BAD_ARGUMENT, "nowhere to write shapes");
      const void *no_input[] = {x, NULL};
      check(scale_run(model, no_input, shapes, outputs) == SCALE_BAD_ARGUMENT, "no data");
      if (n == 4) printf("%s\n", scale_error());
      void *no_output[] = {NULL};
      check(scale_run(model, inputs, shapes, no_output) == SCALE_BAD_ARGUMENT, "no place for the output");
      if (n == 4) printf("%s\n", scale_error());
      check(scale_run(NULL, inputs, shapes, outputs) == SCALE_BAD_ARGUMENT, "no model");
      check(scale_run(model, NULL, shapes, outputs) == SCALE_BAD_ARGUMENT, "no inputs");
      check(scale_run(model, inputs, shapes, NULL) == SCALE_BAD_ARGUMENT, "no outputs");
      check(y[0] == 77, "outputs untouched by failed runs");
    } else {
      const void *nothing[] = {NULL, NULL};
      void *nowhere[] = {NULL};
      check(scale_run(model, nothing, shapes, nowhere) == SCALE_OK, "no data for no elements");
    }
    free(x); free(b); free(y);
  }
  int64_t huge[] = {(int64_t)1 << 45, 4}, huge_b[] = {(int64_t)1 << 45};
  const int64_t *huge_shapes[] = {huge, huge_b};
  const void *inputs[] = {&model, &model};
  void *outputs[] = {&model};
  check(scale_run(model, inputs, huge_shapes, outputs) == SCALE_NO_MEMORY && *scale_error(), "too large");
  scale_destroy(model);
  scale_destroy(NULL);
  printf("failures: %d\n", failures);
  return failures != 0;
}
"""

EXPECTED_TEXTS = [
    "input 'b': expected N = 4 on axis 0 but got 5",
    "input 'x': expected a size of at least 0 on axis 0 but got -1",
    "input 'x': expected 4 on axis 1 but got 3",
    "expected the shape of input 'x' but got NULL",
    "expected the shapes of the inputs, because some sizes are not fixed",
    "expected data for input 'b' but got NULL",
    "expected data for output 'y' but got NULL",
]


def build(folder: Path, program: str, library: Path, compiler: str = "cc", options: tuple[str, ...] = ()) -> Path:
    source = folder / f"program.{'cpp' if compiler == 'c++' else 'c'}"
    source.write_text(program)
    result = folder / "program"
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{library.parent}"]
    command = [compiler, *flags, str(source), str(library), *options, f"-Wl,-rpath,{library.parent}", "-o", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return result


@needs_cc
def test_a_c_program_runs_the_model_and_is_told_its_mistakes(scale_path: Path, tmp_path: Path) -> None:
    program = build(tmp_path, C_PROGRAM, scale_path, options=("-std=c99",))
    result = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    lines = result.stdout.splitlines()
    assert (result.returncode, lines[-1:]) == (0, ["failures: 0"]), result.stdout + result.stderr
    x = (np.arange(16) % 13 / 4).astype(np.float32).reshape(4, 4)
    b = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(np.array(lines[:16], np.float32).reshape(4, 4), load_compiled(scale_path)(x, b))
    assert lines[16:-1] == EXPECTED_TEXTS


@needs_cxx
@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_the_header_is_cpp_too(scale_path: Path, tmp_path: Path, standard: str) -> None:
    text = (
        '#include "scale.h"\n#include "scale.h"\n'
        'int main() { scale_model *m = scale_create(1, nullptr); int bad = m == nullptr; scale_destroy(m); return bad; }\n'
    )  # fmt: skip
    program = build(tmp_path, text, scale_path, "c++", (f"-std={standard}",))
    assert subprocess.run([program], timeout=60, check=False).returncode == 0


THREADS_PROGRAM = r"""
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "scale.h"

static scale_model *shared;

static int use(scale_model *model, int seed) {
  enum { N = 300 };
  static _Thread_local float x[N * 4], b[N], y[N * 4];
  for (int round = 0; round < 200; round++) {
    int64_t n = 1 + (seed * 37 + round * 11) % N, x_shape[] = {n, 4}, b_shape[] = {n};
    for (int i = 0; i < n * 4; i++) x[i] = (float)((i * seed + round) % 17);
    for (int i = 0; i < n; i++) b[i] = (float)(seed + i);
    const void *inputs[] = {x, b};
    const int64_t *shapes[] = {x_shape, b_shape};
    void *outputs[] = {y};
    if (scale_run(model, inputs, shapes, outputs)) { printf("%s\n", scale_error()); return 1; }
    const float w[] = {1.0f, -2.0f, 0.5f, 3.0f};
    for (int i = 0; i < n * 4; i++) if (y[i] != x[i] * w[i % 4] + b[i / 4]) { printf("wrong value\n"); return 1; }
  }
  return 0;
}

static void *on_shared(void *seed) { return (void *)(intptr_t)use(shared, (int)(intptr_t)seed); }

static void *on_own(void *seed) {
  scale_model *model = scale_create(2, NULL);
  int failed = !model || use(model, (int)(intptr_t)seed);
  scale_destroy(model);
  return (void *)(intptr_t)failed;
}

int main(void) {
  shared = scale_create(3, NULL);
  pthread_t threads[8];
  int failed = 0;
  for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, i % 2 ? on_own : on_shared, (void *)(intptr_t)(i + 1));
  for (int i = 0; i < 8; i++) { void *result; pthread_join(threads[i], &result); failed |= result != NULL; }
  pid_t child = fork();
  if (child == 0) {
    int bad = scale_threads(shared) != 1 || use(shared, 5);
    scale_destroy(shared);
    _exit(bad);
  }
  int status;
  waitpid(child, &status, 0);
  failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  failed |= use(shared, 6);
  scale_destroy(shared);
  printf("failed: %d\n", failed);
  return failed;
}
"""


@needs_cc
def test_c_threads_share_a_handle_have_their_own_and_fork(scale_path: Path, tmp_path: Path) -> None:
    program = build(tmp_path, THREADS_PROGRAM, scale_path, options=("-std=c11", "-pthread"))
    result = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (0, "failed: 0\n"), result.stderr


WEIGHTS_PROGRAM = r"""
#include <stdio.h>
#include "net.h"

int main(int count, char **arguments) {
  const char *error = NULL;
  net_model *model = count > 1 ? net_create_with_weights(arguments[1], 1, &error) : net_create(1, &error);
  if (!model) { printf("%s\n", error); return 1; }
  float x[4] = {1, 1, 1, 1}, b[1] = {0}, y[4];
  int64_t x_shape[] = {1, 4}, b_shape[] = {1};
  const void *inputs[] = {x, b};
  const int64_t *shapes[] = {x_shape, b_shape};
  void *outputs[] = {y};
  if (net_run(model, inputs, shapes, outputs)) return 2;
  printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
  net_destroy(model);
  return 0;
}
"""


@needs_cc
def test_a_c_program_finds_the_weights_or_says_why_not(tmp_path: Path) -> None:
    library, weights, _ = write_library(scale_artifact(), tmp_path / "net.so", weights="beside")
    program = build(tmp_path, WEIGHTS_PROGRAM, library)

    def run(*arguments: str) -> tuple[int, str]:
        result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False, cwd="/")
        return result.returncode, result.stdout.strip()

    assert run() == (0, "1 -2 0.5 3")
    moved = weights.rename(tmp_path / "elsewhere")
    assert run() == (1, f"cannot open the file of the weights: {weights}")
    assert run(str(moved)) == (0, "1 -2 0.5 3")
    whole = moved.read_bytes()
    for data in (whole[:-1], b"", whole[:20] + b"?" + whole[21:]):
        weights.write_bytes(data)
        assert run() == (1, f"the file of the weights does not belong to this library, or is damaged: {weights}")


@needs_cc
def test_two_libraries_live_in_one_program(tmp_path: Path) -> None:
    write_library(scale_artifact(), tmp_path / "one.so")
    doubled = Artifact(scale_artifact().manifest, scale_artifact().code, (WEIGHTS * 2).tobytes())
    write_library(doubled, tmp_path / "two.so")
    text = '#include <stdio.h>\n#include "one.h"\n#include "two.h"\nint main(void) {\n'
    for name in ("one", "two"):
        text += f"""
          {{ {name}_model *model = {name}_create(2, NULL);
            float x[4] = {{1, 1, 1, 1}}, b[1] = {{0}}, y[4];
            int64_t x_shape[] = {{1, 4}}, b_shape[] = {{1}};
            const void *inputs[] = {{x, b}}; const int64_t *shapes[] = {{x_shape, b_shape}}; void *outputs[] = {{y}};
            if ({name}_run(model, inputs, shapes, outputs)) return 1;
            printf("%g %g\\n", y[1], y[3]); {name}_destroy(model); }}"""
    program = build(tmp_path, text + "\nreturn 0; }\n", tmp_path / "one.so", options=(str(tmp_path / "two.so"),))
    result = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "-2 3\n-4 6\n"


@needs_cc
def test_sizes_that_are_expressions_are_checked_in_c_as_in_python(tmp_path: Path) -> None:
    shapes = [
        "N",
        "2*N+1",
        "floordiv(N, 3)",
        "mod(N, 3)",
        "max(N, 4)",
        "min(N, 4)",
        "N*N-N",
        "floordiv(12, N)",
        "mod(7, N)",
        "floordiv(-N, 2)+N",
    ]
    inputs = tuple(TensorSpec(f"x{i}", "int8", (size,)) for i, size in enumerate(shapes))
    code = """
define void @polyreme_model_run(ptr %pool, ptr %buffers, ptr %sizes, ptr %arena) {
  ret void
}
define i64 @polyreme_model_arena_bytes(ptr %sizes) {
  ret i64 0
}
define void @polyreme_model_output_shapes(ptr %sizes, ptr %out) {
  ret void
}
"""
    manifest = Manifest("sizes", inputs, (), (), (SizeSpec("N", 0, 0),), tuple(("input", i) for i in range(len(inputs))), this_machine())
    path = tmp_path / "sizes.so"
    write_library(Artifact(manifest, native_code(code)), path)
    model = load_compiled(path)
    n = 5
    right = [n, 2 * n + 1, n // 3, n % 3, max(n, 4), min(n, 4), n * n - n, 12 // n, 7 % n, -n // 2 + n]
    assert model.run([np.zeros(size, np.int8) for size in right]) == []
    values = ", ".join(map(str, right))
    text = f"""
#include <stdio.h>
#include "sizes.h"
int main(void) {{
  int64_t sizes[] = {{{values}}};
  char data[64] = {{0}};
  const int64_t *shapes[{len(right)}]; const void *inputs[{len(right)}];
  for (int i = 0; i < {len(right)}; i++) {{ shapes[i] = &sizes[i]; inputs[i] = data; }}
  sizes_model *model = sizes_create(1, NULL);
  printf("%d\\n", sizes_run(model, inputs, shapes, NULL));
  for (int i = 1; i < {len(right)}; i++) {{
    sizes[i]++;
    printf("%d\\n", sizes_run(model, inputs, shapes, NULL));
    sizes[i]--;
  }}
  sizes[0] = 0;
  printf("%d\\n", sizes_run(model, inputs, shapes, NULL));
  sizes_destroy(model);
  return 0;
}}
"""
    result = subprocess.run([build(tmp_path, text, path)], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.split() == ["0"] + ["2"] * len(right)


@needs_cc
def test_sizes_that_are_multiples_and_guards_are_checked_in_c_as_in_python(tmp_path: Path) -> None:
    inputs = (TensorSpec("x", "int8", ("8*K+3",)), TensorSpec("y", "int8", ("8*K+3",)), TensorSpec("z", "int8", (4,)))
    code = """
define void @polyreme_model_run(ptr %pool, ptr %buffers, ptr %sizes, ptr %arena) {
  ret void
}
define i64 @polyreme_model_arena_bytes(ptr %sizes) {
  ret i64 0
}
define void @polyreme_model_output_shapes(ptr %sizes, ptr %out) {
  ret void
}
"""
    guards = (
        GuardSpec("8*K+3", "N to leave 3 when divided by 8 (nn.reshape at net.py:12)", "divisor"),
        GuardSpec("8*K+3", "M to be equal to N (nn.add at net.py:13)", "equal"),
        GuardSpec("8*K+3", "N to be at least 5 (nn.conv at net.py:14)", "bound", low=5),
        GuardSpec("8*K+3", "N to be at most 36 (nn.pad at net.py:15)", "bound", high=36),
        GuardSpec("2*floordiv(K, 4)-floordiv(K, 2)", "no difference between a and b (nn.add at net.py:16)", "bound", 0, 0),
        GuardSpec("4", "axis 0 of 'z' to be 4 (nn.linear at net.py:17)", "fixed"),
    )
    arguments = (("input", 0), ("input", 1), ("input", 2))
    manifest = Manifest("guarded", inputs, (), (), (SizeSpec("K", 0, 0, 8, 3),), arguments, this_machine(), guards=guards)
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest
    path = tmp_path / "guarded.so"
    write_library(Artifact(manifest, native_code(code)), path)
    triples = [(11, 11, 4), (35, 35, 4), (12, 12, 4), (2, 2, 4), (11, 19, 4), (3, 3, 4), (43, 43, 4), (19, 19, 4), (11, 11, 5)]
    text = """
#include <stdio.h>
#include "guarded.h"
int main(void) {
  char data[64] = {0};
  const void *inputs[3] = {data, data, data};
  guarded_model *model = guarded_create(1, NULL);
  int64_t sizes[][3] = {TRIPLES};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const int64_t *shapes[3] = {&sizes[i][0], &sizes[i][1], &sizes[i][2]};
    int code = guarded_run(model, inputs, shapes, NULL);
    printf("%d %s\\n", code, guarded_error());
  }
  guarded_destroy(model);
  return 0;
}
""".replace("TRIPLES", ", ".join(f"{{{a}, {b}, {c}}}" for a, b, c in triples))
    result = subprocess.run([build(tmp_path, text, path)], capture_output=True, text=True, timeout=60, check=True)
    in_c = result.stdout.splitlines()
    assert in_c == [
        "0 ",
        "0 ",
        "2 input 'x': expected N to leave 3 when divided by 8 (nn.reshape at net.py:12) but got 12 on axis 0",
        "2 input 'x': expected N to leave 3 when divided by 8 (nn.reshape at net.py:12) but got 2 on axis 0",
        "2 input 'y': expected 8*K+3 = 11 on axis 0 but got 19; expected M to be equal to N (nn.add at net.py:13)",
        "2 expected N to be at least 5 (nn.conv at net.py:14) but got 3",
        "2 expected N to be at most 36 (nn.pad at net.py:15) but got 43",
        "2 expected no difference between a and b (nn.add at net.py:16) but got -1",
        "2 input 'z': expected 4 on axis 0 but got 5; expected axis 0 of 'z' to be 4 (nn.linear at net.py:17)",
    ]
    model = load_compiled(path)
    for triple, line in zip(triples, in_c, strict=True):
        arrays = [np.zeros(n, np.int8) for n in triple]
        if line == "0 ":
            assert model.run(arrays) == []
        else:
            words = line.split("expected ")[-1].split(" but got")[0]
            with pytest.raises(CallError, match=re.escape(words)):
                model.run(arrays)


FIXED_PROGRAM = r"""
#include <math.h>
#include <stdio.h>
#include "fixed.h"

int main(void) {
  fixed_model *model = fixed_create(1, NULL);
  double x[2] = {0.5, 2}, y[2] = {0, 0};
  unsigned char z = 9;
  int64_t right[] = {2}, wrong[] = {3};
  const int64_t *shapes[] = {right}, *bad[] = {wrong};
  const void *inputs[] = {x};
  void *outputs[] = {y, &z};
  int64_t y_shape[1] = {-1};
  int64_t *output_shapes[] = {y_shape, NULL};
  if (fixed_run(model, inputs, NULL, outputs)) return 1;
  printf("%.17g %.17g %d\n", y[0], y[1], z);
  if (fixed_run(model, inputs, shapes, outputs)) return 2;
  if (fixed_run(model, inputs, bad, outputs) != FIXED_BAD_SHAPE) return 3;
  printf("%s\n", fixed_error());
  if (fixed_output_shapes(NULL, output_shapes) || y_shape[0] != 2) return 4;
  if (fixed_output_rank(1) != 0 || fixed_output_shape(1) != NULL || fixed_input_shape(0)[0] != 2) return 5;
  fixed_destroy(model);
  return 0;
}
"""


@needs_cc
def test_shapes_may_be_left_out_when_all_sizes_are_fixed(tmp_path: Path) -> None:
    path = tmp_path / "fixed.so"
    write_library(fixed_artifact(), path)
    result = subprocess.run([build(tmp_path, FIXED_PROGRAM, path)], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout
    values, error = result.stdout.splitlines()
    y, z = load_compiled(path)(np.array([0.5, 2.0]))
    assert [float(v) for v in values.split()] == [*y, float(z)]
    assert error == "input 'x': expected 2 on axis 0 but got 3"


def test_constants_without_elements_are_no_trouble(tmp_path: Path) -> None:
    data = fixed_artifact().manifest.to_json()
    data["constants"] = [{"name": "none", "dtype": "float32", "shape": [0], "offset": 0, "bytes": 0}]
    data["arguments"].append(["constant", 0])
    path = tmp_path / "net.so"
    write_library(Artifact(Manifest.from_json(data), native_code(FIXED)), path)
    assert load_compiled(path).manifest.constants == (ConstantSpec("none", "float32", (0,), 0, 0),)
