"""The C++ header of a library: it compiles without a warning, and models, arrays and errors behave. `pytest -m toolchain`, with g++."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.text import parse_module

nn = paddle.nn
Spec = paddle.static.InputSpec

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
STRICT = "-Wall -Wextra -Werror -Wpedantic -Wshadow -Wconversion -Wsign-conversion".split()


def run(folder: Path, program: str, *options: str, libraries: tuple[str, ...] = ("net.so",), standard: str = "c++17") -> list[str]:
    """The lines that a program prints."""
    (folder / "main.cpp").write_text(program)
    command = [str(COMPILER), f"-std={standard}", *STRICT, *options, "main.cpp", *libraries, "-Wl,-rpath,$ORIGIN", "-pthread", "-o", "main"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([folder / "main"], cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


class Two(nn.Layer):  # type: ignore[misc]
    """Two inputs of free sizes, two results, one of which is of whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Any, offset: Any) -> Any:
        y = self.fc(x) + offset.astype("float32").unsqueeze(1)
        return y, y.argmax(1)


def two(folder: Path, suffix: str = ".so") -> tuple[Any, list[str]]:
    net = Two()
    net.eval()
    spec = [Spec([None, 3], "float32", "x"), Spec([None], "int64", "offset")]
    paddle.compile(net, folder / f"net{suffix}", input_spec=spec, cpp=True)
    header = (folder / "net.hpp").read_text()
    struct = header[header.index("struct Results {") :]
    return net, [line.split("> ")[1].split(";")[0] for line in struct.splitlines()[1:3]]


PROGRAM = """
#include "net.hpp"

#include <cstdio>
#include <thread>
#include <type_traits>

static_assert(!std::is_copy_constructible_v<net::Model> && std::is_nothrow_move_constructible_v<net::Model>);

static void show(const net::Results &found) {
  for (float value : found.FIRST.data) std::printf("%.9g ", static_cast<double>(value));
  for (std::int64_t value : found.SECOND.data) std::printf("%lld ", static_cast<long long>(value));
  std::printf("| %lld %lld\\n", static_cast<long long>(found.FIRST.shape[0]), static_cast<long long>(found.SECOND.shape[0]));
}

template <class Call>
static void fails(Call call) {
  try {
    call();
    std::puts("nothing");
  } catch (const net::Error &error) {
    std::printf("%d: %s\\n", error.code(), error.what());
  }
}

int main() {
  net::Model model(1);
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const std::array<std::int64_t, 2> offset{10, -10};
  show(model.run({x, {2, 3}}, {offset, {2}}));
  net::Results kept;
  model.run({x, {2, 3}}, {offset, {2}}, kept);
  const float *place = kept.FIRST.data.data();
  model.run({x.data(), {1, 3}}, {offset.data(), {1}}, kept);
  std::puts(place == kept.FIRST.data.data() ? "same memory" : "other memory");
  show(kept);
  fails([&] { model.run({x, {3, 2}}, {offset, {2}}); });
  fails([&] { model.run({x, {2, 3}}, {offset.data(), {1}}); });
  fails([&] { model.run({x, {4, 3}}, {offset, {2}}); });
  net::Results none;
  std::printf("%d\\n", model.try_run({x, {3, 2}}, {offset, {2}}, none));

  net::Model other(std::move(model));
  std::puts(model ? "still there" : "moved");
  fails([&] { model.run({x, {2, 3}}, {offset, {2}}); });
  model = std::move(other);
  model.check_weights();
  std::vector<std::thread> threads;
  std::array<net::Results, 4> found;
  for (net::Results &one : found)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; i++) model.run({x, {2, 3}}, {offset, {2}}, one);
    });
  for (std::thread &thread : threads) thread.join();
  for (const net::Results &one : found) show(one);
  const char *error = "untouched";
  std::puts(net::Model::attempt(2, &error) ? "made" : error);
  const std::int32_t before = model.threads();
  std::printf("%d thread, then %d\\n", before, model.set_threads(2));
  return 0;
}
"""


@pytest.mark.toolchain
@needs_compiler
@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_models_run_move_and_fail_in_cpp(tmp_path: Path, suffix: str) -> None:
    net, (first, second) = two(tmp_path, suffix)
    lines = run(tmp_path, PROGRAM.replace("FIRST", first).replace("SECOND", second), libraries=(f"net{suffix}", "-lm"))
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    y, best = (t.numpy() for t in net(paddle.to_tensor(x), paddle.to_tensor(np.array([10, -10]))))

    def numbers(line: str) -> list[float]:
        return [float(v) for v in line.split("|")[0].split()]

    np.testing.assert_allclose(numbers(lines[0]), [*y.ravel(), *best], rtol=1e-5)
    assert lines[0].endswith("| 2 2")
    assert lines[1] == "same memory"
    np.testing.assert_allclose(numbers(lines[2]), [*y[0], best[0]], rtol=1e-5)
    assert lines[3] == "2: input 'x': expected 3 on axis 1 but got 2"
    assert lines[4].startswith("2: input 'offset': expected N = 2 on axis 0 but got 1")
    assert lines[5] == "1: expected as many elements as the shape has"
    assert lines[6] == "2"
    assert lines[7:9] == ["moved", "1: expected a model but got NULL"]
    assert lines[9:13] == [lines[0]] * 4
    assert lines[13:] == ["made", "1 thread, then 2"]


def positive(x: Any, flags: Any) -> Any:
    return paddle.masked_select(x, flags), x.astype("float16"), x.sum()


SIZES = """
#include "net.hpp"

#include <cstdio>
#include <span>

int main() {
  const std::array<float, 6> x{1, 2, 3, 4, 5, 6};
  std::vector<std::uint8_t> flags{1, 0, 1, 1, 1, 0};
  net::Model model;
  net::Results found;
  for (int round = 0; round < 3; round++) {
    model.run({std::span(x), {6}}, {flags, {6}}, found);
    for (float value : found.A.data) std::printf("%g ", static_cast<double>(value));
    for (std::uint16_t value : found.B.data) std::printf("%x ", static_cast<unsigned>(value));
    std::printf("%g | ", static_cast<double>(found.C.data.at(0)));
    std::printf("%zu %zu\\n", static_cast<std::size_t>(found.A.shape[0]), found.C.shape.size());
    flags.assign(6, static_cast<std::uint8_t>(round));
  }
  return 0;
}
"""


@pytest.mark.toolchain
@needs_compiler
def test_sizes_that_a_run_tells_and_other_types(tmp_path: Path) -> None:
    spec = [Spec([None], "float32", "x"), Spec([None], "bool", "flags")]
    paddle.compile(positive, tmp_path / "net.so", input_spec=spec, cpp=True)
    header = (tmp_path / "net.hpp").read_text()
    struct = header[header.index("struct Results {") :]
    names = [line.split("> ")[1].split(";")[0] for line in struct.splitlines()[1:4]]
    program = SIZES
    for letter, name in zip("ABC", names, strict=True):
        program = program.replace(f"found.{letter}.", f"found.{name}.")
    halves = "3c00 4000 4200 4400 4500 4600"
    lines = run(tmp_path, program, standard="c++20")
    assert lines == [f"1 3 4 5 {halves} 21 | 4 0", f"{halves} 21 | 0 0", f"1 2 3 4 5 6 {halves} 21 | 6 0"]


@pytest.mark.toolchain
@needs_compiler
def test_without_exceptions_codes_tell(tmp_path: Path) -> None:
    two(tmp_path)
    program = """
#include "net.hpp"
#include <cstdio>
int main() {
  const char *error = nullptr;
  const net::Model model = net::Model::attempt(1, &error);
  if (!model) return 1;
  const std::vector<float> x(6);
  net::Results found;
  std::printf("%d %s\\n", model.try_run({x, {3, 2}}, {nullptr, {3}}, found), net_error());
  return 0;
}
"""
    assert run(tmp_path, program, "-fno-exceptions") == ["2 input 'x': expected 3 on axis 1 but got 2"]


@pytest.mark.toolchain
@needs_compiler
def test_two_models_with_weights_beside_them_in_one_program(tmp_path: Path) -> None:
    for name in ("one", "std"):
        net = nn.Linear(1500, 1500)
        paddle.compile(net, tmp_path / f"{name}.so", input_spec=[Spec([1, 1500], "float32", "class")], cpp=True)
        assert (tmp_path / f"{name}.weights").is_file()
    program = """
#include "one.hpp"
#include "std.hpp"
#include <cstdio>
int main() {
  const std::vector<float> x(1500, 1.0f);
  const one::Model first(1);
  const std_::Model second(FOLDER "/std.weights", 1);
  std::printf("%zu %zu\\n", one::detail::elements(first.run({x, {1, 1500}}).RESULT.shape), sizeof second);
  try {
    const one::Model none(FOLDER "/std.weights");
  } catch (const one::Error &error) {
    std::printf("%d %s\\n", error.code(), error.what());
  }
  return 0;
}
"""
    header = (tmp_path / "one.hpp").read_text()
    result = header[header.index("struct Results {") :].splitlines()[1].split("> ")[1].split(";")[0]
    lines = run(tmp_path, program.replace("RESULT", result), f'-DFOLDER="{tmp_path}"', libraries=("one.so", "std.so"))
    assert lines[0] == "1500 8"
    assert lines[1].startswith("0 the file of the weights does not belong to this library")


def test_the_header_is_for_libraries_that_programs_use(tmp_path: Path) -> None:
    with pytest.raises(PolyremeError, match=r"expected a library that C\+\+ programs use"):
        paddle.compile(nn.Linear(2, 2), tmp_path / "net.wasm", input_spec=[Spec([1, 2], "float32", "x")], cpp=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.toolchain
@needs_compiler
def test_tensors_may_be_called_as_the_header_calls_things(tmp_path: Path) -> None:
    names = ["View", "Array", "Results", "Model", "Error", "detail", "run", "try_run", "get", "model_", "π", "output_shapes", "capacities"]
    names += ["attempt", "threads", "net_error", "NET_OK", "class", "x-y", "1a", "elements", "this"]
    takes, quoted = ", ".join(f"%a{i}: tensor<2xf32>" for i in range(len(names))), ", ".join(f'"{name}"' for name in names)
    body = "\n".join(f"  %r{i} = nn.neg %a{i} : tensor<2xf32>" for i in range(len(names)))
    gives, types = ", ".join(f"%r{i}" for i in range(len(names))), ", ".join(["tensor<2xf32>"] * len(names))
    named = f"attributes {{arg_names = [{quoted}], result_names = [{quoted}]}}"
    module = parse_module(f"func @main({takes}) -> ({types}) {named} {{\n{body}\n  return {gives}\n}}")
    paddle.compile(module, tmp_path / "net.so", cpp=True)
    given = ", ".join(f"{{x{i}, {{2}}}}" for i in range(len(names)))
    arrays = "\n".join(f"  const float x{i}[2] = {{{i}.0f, 1.0f}};" for i in range(len(names)))
    header = (tmp_path / "net.hpp").read_text()
    fields = [line.split("> ")[1].split(";")[0] for line in header.split("struct Results {\n")[1].splitlines()[: len(names)]]
    shown = "\n".join(f'  std::printf("%g ", static_cast<double>(found.{field}.data[0]));' for field in fields)
    program = f"{arrays}\n  net::Model model;\n  auto found = model.run({given});\n{shown}"
    (line,) = run(tmp_path, f'#include "net.hpp"\n#include <cstdio>\nint main() {{\n{program}\n}}\n')
    assert [-float(number) for number in line.split()] == list(range(len(names)))


def test_the_command_names_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    paddle.jit.save(nn.Linear(3, 2), "net", input_spec=[Spec([None, 3], "float32", "x")])
    assert run_command(["compile", "net", "-o", "net.so", "--c++"]) == 0
    assert capsys.readouterr().err.startswith("net.so, net.h and net.hpp: ") and (tmp_path / "net.hpp").is_file()
