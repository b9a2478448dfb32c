"""Libraries whose results have sizes that only a run tells: in parts, from Python and from C."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module
from polyreme.ir.verify import verify
from polyreme.lowering.link.artifact import write_library
from polyreme.lowering.pipeline import compile_module
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.errors import ArtifactError, CallError
from polyreme.runtime.library import load_compiled
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.runtime.manifest.specs import StepSpec
from tests.runtime.test_library import build, needs_cc

# Places, what stands there times a weight of its column, the numbers below a sum of rows: both kinds of steps, weights in two parts.
PLACES = """
    func @main(%x: tensor<Nx4xf32>) -> (tensor<Kx2xi64>, tensor<Kxf32>, tensor<Lxi64>, tensor<Nx4xf32>) {
      %zero = nn.full {value = 0.0, shape = [], dtype = f32} : tensor<f32>
      %w = nn.constant {value = dense<[3.0, 0.5, 7.0, -2.0]>} : tensor<4xf32>
      %v = nn.constant {value = dense<[-3.0, 2.5, 9.0, 4.0]>} : tensor<4xf32>
      %twice = nn.mul %x, %w : tensor<Nx4xf32>
      %mask = nn.greater %x, %zero : tensor<Nx4xi1>
      %places = host.nonzero %mask {count = K} : tensor<Kx2xi64>
      %flat = nn.reshape %x {shape = [4*N]} : tensor<(4*N)xf32>
      %rows = nn.slice %places {starts = [0, 0], stops = [K, 1], strides = [1, 1]} : tensor<Kx1xi64>
      %columns = nn.slice %places {starts = [0, 1], stops = [K, 2], strides = [1, 1]} : tensor<Kx1xi64>
      %column = nn.reshape %columns {shape = [K]} : tensor<Kxi64>
      %weights = nn.gather %v, %column : tensor<Kxf32>
      %found = nn.gather %flat, %column : tensor<Kxf32>
      %scaled = nn.mul %found, %weights : tensor<Kxf32>
      %total = nn.sum %rows {axis = [0, 1]} : tensor<i64>
      %numbers = host.range %total {count = L} : tensor<Lxi64>
      return %places, %scaled, %numbers, %twice
    }"""


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    made: Artifact = compile_module(parse_module(PLACES)).artifact
    return made


@pytest.fixture(scope="module", params=["inside", "beside"])
def path(artifact: Artifact, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "places.so"
    write_library(artifact, path, weights=request.param)
    return path


def image(rows: int, kept: str) -> Any:
    x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
    return {"some": x, "all": abs(x) + 1, "none": -abs(x)}[kept]


@pytest.mark.parametrize("kept", ["some", "all", "none"])
@pytest.mark.parametrize("rows", [3, 0, 50])
def test_a_library_gives_results_as_large_as_the_run_tells(path: Path, rows: int, kept: str) -> None:
    library, x = load_compiled(path), image(rows, kept)
    given, expected = library(x), evaluate(parse_module(PLACES), [x])
    assert len(given) == len(expected) == 4 and given[0].shape == (np.count_nonzero(x > 0), 2)
    for one, other in zip(given, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_a_library_in_parts_refuses_like_any_other(path: Path) -> None:
    library = load_compiled(path)
    with pytest.raises(CallError, match=r"expected the input 'x' to be float32\[N, 4\] but got float64\[2, 3\]"):
        library(np.zeros((2, 3)))
    with pytest.raises(CallError, match="expected 2 axes but got 1"):
        library(np.zeros(3, np.float32))


def test_a_manifest_in_parts_is_read_back(artifact: Artifact) -> None:
    manifest = artifact.manifest
    assert [step.kind for step in manifest.steps] == ["part", "first", "part", "range"]
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest
    assert str(manifest.outputs[0]) == "places: int64[K, 2]"


@pytest.mark.parametrize(
    "number, step, message",
    [
        (0, StepSpec("part", (0,), (1, 2, 3), 7), "step 0 to run one of 2 parts but got part 7"),
        (0, StepSpec("part", (0, 0), (1, 2, 3), 0), r"step 0 to take and give \(1, 3\) values but got 2, 3"),
        (1, StepSpec("first", (1, 99), (4,), 0, ("K",)), "step 1 to take values that are there"),
        (1, StepSpec("first", (1, 2), (0,), 0, ("K",)), "step 1 to take values that are there and to give others"),
    ],
)
def test_steps_that_do_not_fit_are_refused(artifact: Artifact, number: int, step: StepSpec, message: str) -> None:
    steps = [*artifact.manifest.steps[:number], step, *artifact.manifest.steps[number + 1 :]]
    with pytest.raises(ArtifactError, match=message):
        dataclasses.replace(artifact.manifest, steps=tuple(steps))


# A table that is looked into before the size is known, guards of the whole and of a part, and a number that is fed.
FED = """
    func @main(%ids: tensor<Nxi64>, %k: tensor<i32>) -> (tensor<Kxf32>, tensor<Nxf32>) attributes {
        guards = ["N >= 2 [N-2] nn.slice /builder/net.py:3:4"], ranges = ["ids from 0 below 4 at /builder/net.py:5:6"]} {
      %table = nn.constant {value = dense<[3.0, 0.5, 7.0, -2.0]>} : tensor<4xf32>
      %rows = nn.gather %table, %ids : tensor<Nxf32>
      %zero = nn.full {value = 0, shape = [], dtype = i32} : tensor<i32>
      %fits = nn.greater %k, %zero : tensor<i1>
      %told = host.size %k, %fits {count = K, need = "'k' to be at least 1"} : tensor<Kx0xi64>
      %first = nn.slice %rows {starts = [0], stops = [K], strides = [1]} : tensor<Kxf32>
      return %first, %rows
    }"""


def test_positions_numbers_and_sizes_are_checked_and_no_folder_is_told(tmp_path: Path) -> None:
    path = tmp_path / "fed.so"
    write_library(compile_module(parse_module(FED)).artifact, path)
    assert b"/builder" not in path.read_bytes()
    library = load_compiled(path)
    ids = np.array([1, 3, 0])
    first, rows = library(ids, np.int32(2))
    assert (first.tolist(), rows.tolist()) == ([0.5, -2], [0.5, -2, 3])
    with pytest.raises(CallError, match="the input 'ids' to hold positions .* from 0 to 3 but got 1 to 4"):
        library(np.array([1, 4]), np.int32(2))
    with pytest.raises(CallError, match="'fed' expected 'k' to be at least 1 but got 0"):
        library(ids, np.int32(0))
    with pytest.raises(CallError, match="'fed' expected K-N to be at most 0 .* but got 1"):
        library(ids, np.int32(4))
    with pytest.raises(CallError, match=r"expected N to be at least 2 \(nn.slice at net.py:3:4\) but got 1"):
        library(ids[:1], np.int32(1))
    run = from_c(path, "fed", [3, 3])
    outcome, sizes, outputs = run([ids, np.array(2, np.int32)])
    assert outcome == 0 and [size[0] for size in sizes] == [2, 3] and outputs[0].view(np.float32)[:2].tolist() == [0.5, -2]
    assert [run([i, np.array(k, np.int32)])[0] for i, k in ((np.array([1, 4]), 2), (ids, 4), (ids, 0), (ids, -5))] == [5, 2, 2, 2]


# A loop that grows what it carries, swaps two values and drops what is negative, a branch in it, and a branch with results of two sizes.
LOOP = """
    func @main(%x: tensor<Nxf32>, %n: tensor<i64>) -> (tensor<Axf32>, tensor<Bxf32>, tensor<i64>, tensor<Rxf32>) {
      %zero = nn.full {value = 0, shape = [], dtype = i64} : tensor<i64>
      %i, %y, %z, %rounds = nn.while [%zero, %x, %x], [%n, %x] : tensor<i64>, tensor<Axf32>, tensor<Bxf32>, tensor<i64>
          { (%k: tensor<i64>, %a: tensor<Axf32>, %b: tensor<Bxf32>, %last: tensor<i64>, %w: tensor<Nxf32>)
        %c = nn.less %k, %last : tensor<i1>
        nn.yield %c
      } { (%k: tensor<i64>, %a: tensor<Axf32>, %b: tensor<Bxf32>, %last: tensor<i64>, %w: tensor<Nxf32>)
        %one = nn.full {value = 1, shape = [], dtype = i64} : tensor<i64>
        %next = nn.add %k, %one : tensor<i64>
        %none = nn.full {value = 0.0, shape = [], dtype = f32} : tensor<f32>
        %longer = nn.concat %b, %w {axis = 0} : tensor<(B+N)xf32>
        %mask = nn.greater %longer, %none : tensor<(B+N)xi1>
        %places = host.nonzero %mask {count = K} : tensor<Kx1xi64>
        %at = nn.reshape %places {shape = [K]} : tensor<Kxi64>
        %kept = nn.gather %longer, %at : tensor<Kxf32>
        %total = nn.sum %kept {axis = [0]} : tensor<f32>
        %large = nn.greater %total, %none : tensor<i1>
        %half = nn.if %large, [%kept, %w] {sizes = [H]} : tensor<Hxf32> { (%u: tensor<Kxf32>, %v: tensor<Nxf32>)
          %s = nn.add %u, %u : tensor<Kxf32>
          nn.yield %s
        } { (%u: tensor<Kxf32>, %v: tensor<Nxf32>)
          nn.yield %v
        }
        nn.yield %next, %half, %a
      }
      %count = nn.sum %y {axis = [0]} : tensor<f32>
      %limit = nn.full {value = 20.0, shape = [], dtype = f32} : tensor<f32>
      %much = nn.greater %count, %limit : tensor<i1>
      %r = nn.if %much, [%y, %z] {sizes = [R]} : tensor<Rxf32> { (%u: tensor<Axf32>, %v: tensor<Bxf32>)
        %both = nn.concat %u, %v {axis = 0} : tensor<(A+B)xf32>
        nn.yield %both
      } { (%u: tensor<Axf32>, %v: tensor<Bxf32>)
        nn.yield %v
      }
      return %y, %z, %rounds, %r
    }"""


def test_branches_and_loops_with_sizes_of_their_own_run_in_the_library(tmp_path: Path) -> None:
    module = parse_module(LOOP)
    verify(module)
    path = tmp_path / "loop.so"
    write_library(compile_module(module).artifact, path)
    library = load_compiled(path)
    assert Manifest.from_bytes(library.manifest.to_bytes()) == library.manifest
    in_c = from_c(path, "loop", [10000] * 4)
    for values in ([1, -2, 3], [-1, -2], [0.5], []):
        for rounds in (0, 1, 2, 5):
            inputs = [np.array(values, np.float32), np.array(rounds)]
            expected = evaluate(module, inputs)
            code, sizes, results = in_c(inputs)
            assert code == 0 and [tuple(s[: e.ndim]) for s, e in zip(sizes, expected, strict=True)] == [e.shape for e in expected]
            made = library(*inputs)
            assert not any(np.may_share_memory(one, other) for i, one in enumerate(made) for other in (*inputs, *made[:i]))
            for one, native, other in zip(made, results, expected, strict=True):
                np.testing.assert_array_equal(one, other)
                np.testing.assert_array_equal(native.view(other.dtype)[: other.size], other.reshape(-1))


def test_a_manifest_nests_branches_so_deep_and_no_deeper(artifact: Artifact) -> None:
    data = artifact.manifest.to_json()
    step: dict[str, Any] = {"kind": "if", "takes": [0], "gives": [], "part": 0, "names": [], "need": "", "bodies": []}
    for _ in range(40):
        body = {"steps": [step], "yields": []}
        step = {**step, "bodies": [body, {"steps": [], "yields": []}]}
    with pytest.raises(ArtifactError, match="at most 32 branches and loops in one another"):
        Manifest.from_json({**data, "steps": [step]})


# In each step the rows of x that are larger than what the steps before found; the last step first, and of an inner loop the rounds as well.
STEPS = """
    func @main(%x: tensor<Nx3xf32>, %n: tensor<i64>) -> (tensor<f32>, tensor<Nx2xf32>) {{
      %zero = nn.full {{value = 0.0, shape = [], dtype = f32}} : tensor<f32>
      %last, %all = nn.scan [%x], [%zero], [%n] {{steps = N{reverse}}} : tensor<f32>, tensor<Nx2xf32>
          {{ (%row: tensor<3xf32>, %h: tensor<f32>, %rounds: tensor<i64>)
        %mask = nn.greater %row, %h : tensor<3xi1>
        %places = host.nonzero %mask {{count = K}} : tensor<Kx1xi64>
        %at = nn.reshape %places {{shape = [K]}} : tensor<Kxi64>
        %kept = nn.gather %row, %at : tensor<Kxf32>
        %total = nn.sum %kept {{axis = [0]}} : tensor<f32>
        %h2 = nn.scan [], [%total], [%rounds] {{steps = 2}} : tensor<f32> {{ (%t: tensor<f32>, %r: tensor<i64>)
          %numbers = host.range %r {{count = L}} : tensor<Lxi64>
          %sum = nn.sum %numbers {{axis = [0]}} : tensor<i64>
          %more = nn.cast %sum {{dtype = f32}} : tensor<f32>
          %next = nn.add %t, %more : tensor<f32>
          nn.yield %next
        }}
        %one = nn.reshape %h {{shape = [1]}} : tensor<1xf32>
        %two = nn.reshape %h2 {{shape = [1]}} : tensor<1xf32>
        %both = nn.concat %one, %two {{axis = 0}} : tensor<2xf32>
        nn.yield %h2, %both
      }}
      return %last, %all
    }}"""


@pytest.mark.parametrize("reverse", ["", ", reverse = true"])
def test_steps_with_sizes_of_their_own_run_in_the_library(reverse: str, tmp_path: Path) -> None:
    module = parse_module(STEPS.format(reverse=reverse))
    verify(module)
    path = tmp_path / "steps.so"
    write_library(compile_module(module).artifact, path)
    library = load_compiled(path)
    for rows in (4, 1, 0):
        for number in (3, 0):
            inputs = [np.random.default_rng(rows).integers(-4, 9, (rows, 3)).astype(np.float32), np.array(number)]
            for one, other in zip(library(*inputs), evaluate(module, inputs), strict=True):
                np.testing.assert_array_equal(one, other)


# What is carried loses two elements in a round.
SHRINKING = """
    func @main(%x: tensor<Nxf32>, %n: tensor<i64>) -> (tensor<Axf32>, tensor<i64>) {
      %y, %i, %rounds = nn.while [%x, %n], [] : tensor<Axf32>, tensor<i64>, tensor<i64> { (%a: tensor<Axf32>, %k: tensor<i64>)
        %zero = nn.full {value = 0, shape = [], dtype = i64} : tensor<i64>
        %c = nn.greater %k, %zero : tensor<i1>
        nn.yield %c
      } { (%a: tensor<Axf32>, %k: tensor<i64>)
        %one = nn.full {value = 1, shape = [], dtype = i64} : tensor<i64>
        %next = nn.sub %k, %one : tensor<i64>
        %rest = nn.slice %a {starts = [2], stops = [A], strides = [1]} : tensor<(A-2)xf32>
        nn.yield %rest, %next
      }
      return %y, %rounds
    }"""


def test_what_needs_python_is_named_where_a_loop_would_be_cut() -> None:
    module = parse_module(f"""
    func @main(%x: tensor<Nxf32>, %n: tensor<i64>, %s: tensor<313xui64>) -> (tensor<Axf32>, tensor<5xi64>) {{
      {SHRINKING[SHRINKING.index("%y, %i") : SHRINKING.index("return")]}
      %v, %next = host.permutation %s {{count = 5}} : tensor<5xi64>, tensor<313xui64>
      return %y, %v
    }}""")
    verify(module)
    with pytest.raises(PolyremeError, match="'host.permutation' runs on the host, in Python"):
        _ = compile_module(module).artifact


def test_a_size_that_a_round_cannot_have_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "shrinking.so"
    write_library(compile_module(parse_module(SHRINKING)).artifact, path)
    library, x = load_compiled(path), np.arange(5, dtype=np.float32)
    assert [value.tolist() for value in library(x, np.array(2))] == [[4], 2]
    with pytest.raises(CallError, match="'shrinking' expected A to be at least 2 .* but got 1"):
        library(x, np.array(3))
    run = from_c(path, "shrinking", [5, 1])
    assert [run([x, np.array(rounds)])[0] for rounds in (2, 3, 2)] == [0, 2, 0]
    # Too little room for what the loop gives: nothing is written, and the size is told.
    too_small, sizes, results = from_c(path, "shrinking", [2, 1])([x, np.array(1)])
    assert too_small == 6 and sizes[0][0] == 3 and not any(result.any() for result in results)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads how much memory the process has")
def test_rounds_give_their_memory_back(tmp_path: Path) -> None:
    path = tmp_path / "loop.so"
    write_library(compile_module(parse_module(LOOP)).artifact, path)
    run = from_c(path, "loop", [1 << 16] * 4)
    resident = lambda: int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    x = -np.ones(2000, np.float32)
    assert run([x, np.array(10)])[0] == 0
    before = resident()
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda _: run([x, np.array(1000)])[:2], range(4)))
    assert outcomes == [(0, outcomes[0][1])] * 4 and resident() - before < 50e6


@pytest.mark.parametrize(
    "change, message",
    [
        ({"takes": (0, 1)}, "to take and give"),
        ({"bodies": ()}, "expected two bodies"),
        ({"first": (0,)}, "to read whole numbers or flags but got float32 of 1 axes"),
        ({"second": (1, 2, 0)}, "to lead to values of the same types"),
        ({"second": (0,)}, "a body of step 1 to yield 3 values"),
        ({"second": (0, 1, 999)}, "a body of step 1 to yield 3 values"),
    ],
)
def test_a_loop_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    manifest = loop_manifest()
    place, step = next((i, step) for i, step in enumerate(manifest.steps) if step.kind == "while")
    condition, body = step.bodies
    first, second = change.get("first", condition.yields), change.get("second", body.yields)
    bodies = change.get("bodies", (condition._replace(yields=first), body._replace(yields=second)))
    changed = step._replace(takes=change.get("takes", step.takes), bodies=bodies)
    with pytest.raises(ArtifactError, match=message):
        dataclasses.replace(manifest, steps=(*manifest.steps[:place], changed, *manifest.steps[place + 1 :]))


@functools.cache
def loop_manifest() -> Manifest:
    made: Manifest = compile_module(parse_module(LOOP)).artifact.manifest
    return made


def from_c(path: Path, name: str, room: list[int]) -> Any:
    """A function of a list of arrays that runs the library by its C interface: the code of the outcome, the sizes, memory of results."""
    code = ctypes.CDLL(str(path))
    create, run = getattr(code, f"{name}_create"), getattr(code, f"{name}_run_sized")
    create.restype = ctypes.c_void_p
    model = ctypes.c_void_p(create(1, None))
    place = lambda array: array.ctypes.data_as(ctypes.c_void_p)
    pointers = lambda arrays: (ctypes.c_void_p * len(arrays))(*map(place, arrays))

    def call(inputs: list[Any]) -> tuple[int, list[Any], list[Any]]:
        shapes = [np.array(array.shape, np.int64) for array in inputs]
        outputs, sizes = [np.zeros(count, np.int64).view(np.uint8) for count in room], [np.zeros(8, np.int64) for _ in room]
        outcome = run(model, pointers(inputs), pointers(shapes), pointers(outputs), place(np.array(room)), pointers(sizes))
        return outcome, [size.tolist() for size in sizes], outputs

    return call


C_PROGRAM = r"""
#include <inttypes.h>
#include <stdio.h>
#include "places.h"

static int failures = 0;

static void check(int holds, const char *what) {
  if (!holds) { printf("failed: %s (error text: '%s')\n", what, places_error()); failures++; }
}

int main(void) {
  const char *error = "unset";
  places_model *model = places_create(2, &error);
  if (!model) { printf("cannot create: %s\n", error); return 1; }
  float x[12], found[12], twice[12];
  for (int i = 0; i < 12; i++) x[i] = (float)(i % 3 - 1);
  int64_t x_shape[] = {3, 4}, places[24], numbers[64];
  const int64_t *shapes[] = {x_shape};
  const void *inputs[] = {x};
  void *outputs[] = {places, found, numbers, twice};
  int64_t room[] = {24, 12, 64, 12}, p[2], f[1], n[1];
  int64_t *sizes[] = {p, f, n, NULL};

  check(places_output_shapes(shapes, (int64_t *[]){p, f, n, p}) == PLACES_OK && f[0] == -1 && p[0] == 3 && p[1] == 4, "sizes before");
  check(places_run(model, inputs, shapes, outputs) == PLACES_BAD_ARGUMENT, "a run without room");
  printf("%s\n", places_error());
  check(places_run_sized(model, inputs, shapes, outputs, room, sizes) == PLACES_OK && !*places_error(), "run");
  check(p[0] == 4 && p[1] == 2 && f[0] == 4 && n[0] == 5, "sizes after");
  check(places[0] == 0 && places[1] == 2 && places[6] == 2 && places[7] == 3 && twice[0] == -3 && found[1] == 0, "values");
  check(numbers[0] == 0 && numbers[4] == 4, "numbers");

  places[0] = 77;
  p[0] = 0;
  room[0] = 7;
  check(places_run_sized(model, inputs, shapes, outputs, room, sizes) == PLACES_TOO_SMALL, "too little room");
  printf("%s\n", places_error());
  check(p[0] == 4 && places[0] == 77, "sizes are told and outputs untouched");
  check(places_run_sized(model, inputs, shapes, outputs, NULL, sizes) == PLACES_BAD_ARGUMENT, "no room told");
  check(places_run_sized(NULL, inputs, shapes, outputs, room, sizes) == PLACES_BAD_ARGUMENT, "no model");
  int64_t negative[] = {-1, 4};
  const int64_t *bad[] = {negative};
  check(places_run_sized(model, inputs, bad, outputs, room, NULL) == PLACES_BAD_SHAPE, "negative size");
  printf("%s\n", places_error());

  for (int i = 0; i < 12; i++) x[i] = -1;
  int64_t none[] = {0, 0, 0, 12};
  void *nowhere[] = {NULL, NULL, NULL, twice};
  check(places_run_sized(model, inputs, shapes, nowhere, none, sizes) == PLACES_OK && p[0] == 0 && f[0] == 0, "nothing kept");
  x_shape[0] = 0;
  check(places_run_sized(model, inputs, shapes, nowhere, none, sizes) == PLACES_OK && p[0] == 0, "no elements");
  places_destroy(model);
  printf("failures: %d\n", failures);
  return failures != 0;
}
"""


@needs_cc
def test_a_c_program_is_told_the_sizes_after_the_run(path: Path, tmp_path: Path) -> None:
    program = build(tmp_path, C_PROGRAM, path, options=("-std=c99",))
    result = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout.splitlines()) == (
        0,
        [
            "expected a call that takes sizes of results after the run (the function that ends in _run_sized)",
            "output 'places': expected room for 8 elements but got room for 7",
            "input 'x': expected a size of at least 0 on axis 0 but got -1",
            "failures: 0",
        ],
    ), result.stdout + result.stderr


LINKED = """
#include "one.h"
#include "two.h"

int main(void) {
  one_model *one = one_create(1, 0);
  two_model *two = two_create(1, 0);
  one_destroy(one);
  two_destroy(two);
  return one == 0 || two == 0;
}
"""


@needs_cc
def test_archives_and_objects_in_parts_meet_in_one_program(tmp_path: Path) -> None:
    spec = [paddle.static.InputSpec([None, 3], "float32", "x")]
    for name in ("one.a", "two.o"):
        paddle.compile(lambda x: x[x > 0], tmp_path / name, input_spec=spec)
    program = build(tmp_path, LINKED, tmp_path / "one.a", options=(str(tmp_path / "two.o"), "-lm"))
    assert subprocess.run([program], timeout=60, check=False).returncode == 0
