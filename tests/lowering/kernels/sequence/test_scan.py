"""Loops over steps: scans as kernels, recurrent layers among them, on random shapes; and the passes that move ops out of scans and take
them apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.dialects import nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.debug.tolerance import expect
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.types import TensorType, f32, f64, i64
from polyreme.ir.verify import verify
from polyreme.lowering.analysis.costs import cost_of
from polyreme.lowering.kernels.microkernel import Registers
from polyreme.lowering.kernels.plan import request_of, structure
from polyreme.lowering.kernels.sequence.recurrent_plan import choose_tile
from polyreme.lowering.machines.targets import Target, find_target, host
from polyreme.lowering.pipeline import choose_schedules, compile_module, lower
from polyreme.lowering.transforms.scan_steps import HoistFromScans, UnrollScans
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.strategies import map_one, modules, scan

SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
GATES = {nn.LSTM: 4, nn.GRU: 3, nn.SimpleRNN: 1}
TARGETS = ["x86-64", "x86-64-avx2", "aarch64"]


def layer(kind: Any, steps: Any, batch: Any, units: int, dtype: Any, lengths: bool, backward: bool, reverse: bool) -> Module:
    """A module of one op: a recurrent layer, or what its backward needs. Sizes may be symbolic."""
    gates = GATES[kind] * units
    states, gate, state = (steps, batch, units), (steps, batch, gates), (batch, units)
    weight = (gates, units)
    shapes: dict[Any, list[tuple[Any, ...]]] = {
        nn.LSTM: [gate, weight, state, state], nn.GRU: [gate, weight, state, (gates,)], nn.SimpleRNN: [gate, weight, state],
        nn.LSTMGradient: [gate, weight, state, state, states, states, states, states],
        nn.GRUGradient: [gate, weight, state, states, states, (gates,)],
        nn.SimpleRNNGradient: [weight, states, states],
    }  # fmt: skip
    cls = {nn.LSTM: nn.LSTMGradient, nn.GRU: nn.GRUGradient, nn.SimpleRNN: nn.SimpleRNNGradient}[kind] if backward else kind
    types = [TensorType(s, dtype) for s in shapes[cls]] + [TensorType((batch,), i64)] * lengths
    func = Func.empty("main", types, arg_names=[f"x{i}" for i in range(len(types))], arg_roles=("input",) * len(types))
    b = Builder.at_end(func.block)
    op = b.insert_op(cls(*func.args, reverse=reverse))
    b.insert(Return(op.results))
    module = Module.empty()
    module.block.append(func.finish())
    return module


def numbers(module: Module, sizes: dict[str, int], seed: int) -> list[Any]:
    """Inputs: moderate numbers, weights that keep sums so, and lengths from 0 to more steps than there are."""
    rng = np.random.default_rng(seed)
    found = []
    for arg in module.function().args:
        shape = tuple(d if isinstance(d, int) else sizes[str(d)] for d in arg.type.shape)
        if arg.type.dtype == i64:
            found.append(rng.integers(0, sizes["T"] + 2, shape))
        else:
            scale = 1 / np.sqrt(shape[1]) if len(shape) == 2 and shape[0] >= shape[1] else 1.0
            found.append((rng.uniform(-1, 1, shape) * scale).astype(arg.type.dtype.np))
    return found


def run_on_threads(module: Module, inputs: list[Any], target: Target | None = None) -> list[Any]:
    """The results of machine code, bit for bit the same on one, two and three threads."""
    executable = compile_module(module, target).load()
    before = get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            set_num_threads(threads)
            results.append([np.array(x) for x in executable.run(inputs)])
    finally:
        set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    return results[0]


def assert_near(results: list[Any], expected: list[Any], dtype: Any) -> None:
    for got, wanted in zip(results, expected, strict=True):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=scale * (3e-5 if dtype == f32 else 1e-12))


layers = st.fixed_dictionaries({
    "kind": st.sampled_from(list(GATES)), "dtype": st.sampled_from([f32, f32, f64]), "lengths": st.booleans(), "backward": st.booleans(),
    "reverse": st.booleans(),
})  # fmt: skip


def symbolic(dims: dict[str, int], names: set[str]) -> dict[str, Any]:
    from polyreme.ir.dims import symbol

    return {"steps": symbol("T") if "T" in names else dims["T"], "batch": symbol("N") if "N" in names else dims["N"]}


@settings(SETTINGS, max_examples=7)
@given(layers, st.integers(0, 6), st.integers(1, 9), st.integers(1, 70), st.sets(st.sampled_from(["T", "N"])), st.integers(0, 99))
def test_recurrent_layers_become_machine_code_that_gives_what_their_ops_mean(made, steps, batch, units, free, seed):
    sizes = {"T": steps, "N": batch}
    module = layer(units=units, **symbolic(sizes, free), **made)
    inputs = numbers(module, sizes, seed)
    assert_near(run_on_threads(module, inputs), evaluate(module, inputs), made["dtype"])


@pytest.mark.parametrize("target", TARGETS)
@settings(SETTINGS, max_examples=4)
@given(layers, st.integers(0, 3), st.integers(1, 4), st.integers(1, 21), st.sets(st.sampled_from(["T", "N"])), st.integers(0, 99))
def test_the_kernels_of_recurrent_layers_touch_no_memory_but_their_own_on_any_machine(target, made, steps, batch, units, free, seed):
    """The evaluator checks every access, and starts all memory as nan."""
    sizes = {"T": steps, "N": batch}
    module = layer(units=units, **symbolic(sizes, free), **made)
    inputs = numbers(module, sizes, seed)
    lowered = lower(module, find_target(target), verify=True)
    assert any(f.sym_name.startswith("recurrence") for f in lowered.functions)
    assert_near(evaluate(lowered, inputs), evaluate(module, inputs), made["dtype"])


@pytest.mark.parametrize("kind", list(GATES))
def test_wide_layers_share_their_panels_between_threads(kind):
    """Two panels and more in a step, and enough of them to wake another thread."""
    for backward in (False, True):
        module = layer(kind, 5, 1, 160, f32, False, backward, True)
        inputs = numbers(module, {"T": 5}, 3)
        assert_near(run_on_threads(module, inputs), evaluate(module, inputs), f32)


def test_more_steps_make_no_more_code():
    def sizes(steps: int) -> list[int]:
        lowered = lower(layer(nn.LSTM, steps, 1, 32, f32, False, True, False))
        return [sum(1 for _ in f.walk()) for f in lowered.functions if f.sym_name.startswith("recurrence")]

    (few,), (many,) = sizes(3), sizes(64)
    assert abs(many - few) <= 4, "but for the numbers themselves"


def test_the_operations_of_a_step_count_for_every_step():
    def operations(steps: int) -> Any:
        lowered = lower(layer(nn.SimpleRNN, steps, 2, 8, f32, False, False, False), to="tensor")
        (loop,) = [op for op in lowered.walk() if isinstance(op, tensor.Scan)]
        return cost_of(request_of(loop, find_target()).func).operations

    assert operations(1) == 2 * 2 * 8 * 8 + 2 * (2 * 8) and operations(12) == 12 * operations(1)


def test_a_step_of_an_lstm_reads_few_vectors_a_round_in_panels_of_even_number():
    registers = Registers(32, 16)
    tile = choose_tile(256, 4, 1, registers)
    assert tile is not None and tile.rows == 1 and tile.panels % 2 == 0 and 4 * tile.vectors <= 16
    wide = choose_tile(256, 4, 64, registers)
    assert wide is not None and wide.rows * 4 * wide.vectors in range(16, 25)
    assert choose_tile(8, 40, 1, registers) is None


def test_where_loads_count_a_panel_of_one_row_is_as_wide_as_a_round_may_be():
    """One element of the state serves twice as many vectors, but no vector is made in vain."""
    counting = Registers(32, 16, 0.01)
    tiles = [choose_tile(units, blocks, 1, counting) for units, blocks in ((256, 4), (256, 3), (64, 4), (160, 4))]
    assert [tile and tile.vectors for tile in tiles] == [4, 4, 2, 2]
    narrow = choose_tile(256, 4, 1, Registers(32, 16))
    assert narrow is not None and narrow.vectors == 2


@pytest.mark.parametrize(("kind", "dtype"), [(nn.LSTM, f32), (nn.GRU, f32), (nn.LSTM, f64), (nn.SimpleRNN, f32)])
def test_panels_of_any_width_give_the_same_bits_where_weights_are_read_for_one_step(kind, dtype):
    module = layer(kind, 5, 1, 256, dtype, True, False, True)
    inputs = numbers(module, {"T": 5}, 7)
    wide, narrow = (run_on_threads(module, inputs, replace(host(), caches=(8 << 20,) * 3, load_cycles=cycles)) for cycles in (0.01, 0.0))
    assert_near(wide, evaluate(module, inputs), dtype)
    for a, b in zip(wide, narrow, strict=True):
        np.testing.assert_array_equal(a, b)


# --- any other scan


@settings(SETTINGS, max_examples=10)
@given(modules("tensor", max_ops=3, symbolic=False, rules=[scan, scan, map_one]))
def test_scans_of_any_body_become_machine_code_that_gives_what_they_mean(sample):
    expected = expect(sample.module, sample.inputs)
    assert not expected.misfits(run_on_threads(sample.module, sample.inputs))


@settings(SETTINGS, max_examples=25)
@given(modules("tensor", max_ops=3, symbolic=False, rules=[scan, scan, map_one]), st.sampled_from([HoistFromScans, UnrollScans]))
def test_moving_ops_out_of_scans_and_taking_them_apart_change_nothing(sample, kind):
    module = sample.module.clone()
    kind().run(module)
    verify(module)
    assert kind is HoistFromScans or not any(isinstance(op, tensor.Scan) for op in module.walk())
    for got, wanted in zip(evaluate(module, sample.inputs), evaluate(sample.module, sample.inputs), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


SWAPPING = """
func @main(%x: tensor<Tx2xf32>, %a: tensor<2xf32>, %b: tensor<2xf32>, %n: tensor<i64>, %w: tensor<2x2xf32>)
    -> (tensor<2xf32>, tensor<2xf32>, tensor<i64>, tensor<Tx2xf32>, tensor<Tx2x2xf32>) {
  %la, %lb, %ln, %old, %grid = tensor.scan [%x], [%a, %b, %n], [%w] {steps = T, reverse = true}
      : tensor<2xf32>, tensor<2xf32>, tensor<i64>, tensor<Tx2xf32>, tensor<Tx2x2xf32> {
    (%xt: tensor<2xf32>, %ca: tensor<2xf32>, %cb: tensor<2xf32>, %cn: tensor<i64>, %cw: tensor<2x2xf32>)
    %c = tensor.constant {value = dense<[[1.0, 2.0], [3.0, 4.0]]>} : tensor<2x2xf32>
    %both = tensor.map %c, %cw {fn = "add"} : tensor<2x2xf32>
    %u = tensor.contract %ca, %both {spec = "k,kn->n"} : tensor<2xf32>
    %v = tensor.map %u, %xt {fn = "add"} : tensor<2xf32>
    %bounded = tensor.map %v {fn = "tanh"} : tensor<2xf32>
    %one = tensor.full {value = 1, dtype = i64} : tensor<i64>
    %count = tensor.map %cn, %one {fn = "add"} : tensor<i64>
    %outer = tensor.contract %bounded, %cb {spec = "i,j->ij"} : tensor<2x2xf32>
    tensor.yield %cb, %bounded, %count, %ca, %outer
  }
  return %la, %lb, %ln, %old, %grid
}
"""


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_values_may_be_handed_on_in_other_places_than_they_came_in(steps):
    module = parse_module(SWAPPING)
    verify(module)
    rng = np.random.default_rng(steps)
    x, a, b, w = (rng.uniform(-1, 1, s).astype("float32") for s in ((steps, 2), 2, 2, (2, 2)))
    weight = w + np.array([[1, 2], [3, 4]], "float32")
    old, grid = np.empty((steps, 2), "float32"), np.empty((steps, 2, 2), "float32")
    state, other = a, b
    for t in reversed(range(steps)):
        bounded = np.tanh(state @ weight + x[t])
        old[t], grid[t] = state, np.outer(bounded, other)
        state, other = other, bounded
    inputs = [x, a, b, np.array(7), w]
    for results in (evaluate(module, inputs), run_on_threads(module, inputs), evaluate(lower(module), inputs)):
        for got, wanted in zip(results, [state, other, np.array(7 + steps), old, grid], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)


def test_what_is_the_same_in_all_steps_is_made_once():
    module = parse_module(SWAPPING)
    HoistFromScans().run(module)
    verify(module)
    (loop,) = [op for op in module.walk() if isinstance(op, tensor.Scan)]
    assert [op.fn for op in module.function().block if isinstance(op, tensor.Map)] == ["add"]
    assert not any(isinstance(op, tensor.Constant) for op in loop.block) and len(loop.shared) == 2
    text = str(loop)
    HoistFromScans().run(module)
    assert str(loop) == text, "nothing is left to move"


UNREAD = """
func @main(%x: tensor<3x2x4xf32>, %first: tensor<2x4xf32>) -> tensor<3x2x4xf32> {
  %last, %unread, %all = tensor.scan [%x], [%first], [] {steps = 3} : tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>
      { (%xt: tensor<2x4xf32>, %h: tensor<2x4xf32>)
    %next = tensor.map %h, %xt {fn = "add"} : tensor<2x4xf32>
    %more = tensor.map %next {fn = "exp"} : tensor<2x4xf32>
    tensor.yield %next, %more, %next
  }
  return %all
}
"""


def test_what_steps_give_and_nobody_reads_is_not_made():
    module = parse_module(UNREAD)
    x, first = np.arange(24, dtype=np.float32).reshape(3, 2, 4), np.ones((2, 4), np.float32)
    expected = evaluate(module, [x, first])
    HoistFromScans().run(module)
    verify(module)
    (loop,) = [op for op in module.walk() if isinstance(op, tensor.Scan)]
    assert len(loop.results) == 2 and [op.fn for op in loop.block if isinstance(op, tensor.Map)] == ["add"]
    np.testing.assert_array_equal(evaluate(module, [x, first])[0], expected[0])


# A step in which some rows do not count: what they hand on is what they were handed, or their product is of zeros, which is made in front.
RUNNING = {
    "behind": """
        %m = nn.matmul %s, %v : tensor<Nx20xf32>
        %z = nn.add %m, %a : tensor<Nx20xf32>
        %t = nn.tanh %z : tensor<Nx20xf32>
        %next = nn.where %on, %t, %s : tensor<Nx20xf32>
        nn.yield %next, %next""",
    "in front": """
        %zero = nn.full {value = 0, dtype = f32} : tensor<f32>
        %f = nn.add %s, %a : tensor<Nx20xf32>
        %z = nn.where %on, %f, %zero : tensor<Nx20xf32>
        %m = nn.matmul %z, %v : tensor<Nx20xf32>
        %next = nn.add %m, %s : tensor<Nx20xf32>
        nn.yield %next, %z""",
}


@pytest.mark.parametrize("way", RUNNING)
@pytest.mark.parametrize("reverse", ["false", "true"])
def test_rows_that_do_not_run_are_passed_over(way: str, reverse: str) -> None:
    """Their products are not even looked at: of weights that are no numbers nothing comes to them."""
    module = parse_module(
        f"""func @main(%x: tensor<TxNx20xf32>, %r: tensor<TxNx1xi1>, %h: tensor<Nx20xf32>, %w: tensor<20x20xf32>)
            -> (tensor<Nx20xf32>, tensor<TxNx20xf32>) {{
          %last, %all = nn.scan [%x, %r], [%h], [%w] {{steps = T, reverse = {reverse}}} : tensor<Nx20xf32>, tensor<TxNx20xf32>
              {{ (%a: tensor<Nx20xf32>, %on: tensor<Nx1xi1>, %s: tensor<Nx20xf32>, %v: tensor<20x20xf32>)
            {RUNNING[way]}
          }}
          return %last, %all
        }}"""
    )
    kernels = lower(module, host())
    assert any(func.sym_name.startswith("recurrence") for func in kernels.functions)
    run = compile_module(module, host()).load().run
    for rows, counts in ((1, [3]), (19, [0] * 19), (19, [4] * 19), (19, [4] * 7 + [2] * 5 + [1] + [0] * 6), (8, [0, 4, 0, 1, 2, 0, 0, 3])):
        draws = np.random.default_rng(rows)
        x, h, w = (draws.uniform(-1, 1, shape).astype("f") for shape in ((4, rows, 20), (rows, 20), (20, 20)))
        runs = np.arange(4)[:, None, None] < np.array(counts)[None, :, None]
        arrays = [x, runs, h, w]
        for got, wanted in zip(run(arrays), evaluate(module, arrays), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        if not any(counts):
            last, _ = run([x, runs, h, np.full_like(w, np.nan)])
            np.testing.assert_array_equal(last, h)


def test_a_scan_says_how_each_root_of_a_step_is_computed_and_another_schedule_of_one_gives_the_same() -> None:
    wide = find_target("x86-64-avx512")
    module = lower(parse_module(SWAPPING), wide, "tensor")
    plain = lower(module, wide)
    choose_schedules(module, wide)
    text = print_module(module)
    assert 'schedule = "scan<roots = [gemm<sizes = 1x2x2, tile = 1x1, ' in text and ">>, loops, gemm<sizes = 2x1x2, tile = 2x1, " in text
    assert structure(lower(parse_module(text), wide).block) == structure(plain.block)
    other = lower(parse_module(text.replace("tile = 2x1", "tile = 1x1")), wide)
    assert structure(other.block) != structure(plain.block)
    rng = np.random.default_rng(3)
    inputs = [*(rng.uniform(-1, 1, s).astype("float32") for s in ((4, 2), 2, 2)), np.array(7), rng.uniform(-1, 1, (2, 2)).astype("float32")]
    for got, wanted in zip(evaluate(other, inputs), evaluate(plain, inputs), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (", loops", "", "expected a schedule like scan<roots = .* for the 3 roots of a step but got"),
        ("loops", "random<lanes = 4>", "expected a root of a step that 'random' is for but got 'full add'"),
        ("sizes = 2x1x2", "sizes = 2x1x3", "expected a schedule for sizes = 2x1x2"),
        ("loops", "sort", "expected a schedule of a kind known here"),
    ],
)
def test_a_schedule_that_does_not_fit_the_roots_of_a_step_is_refused(old: str, new: str, message: str) -> None:
    wide = find_target("x86-64-avx512")
    module = lower(parse_module(SWAPPING), wide, "tensor")
    choose_schedules(module, wide)
    with pytest.raises(PolyremeError, match=message):
        lower(parse_module(print_module(module).replace(old, new)), wide)
