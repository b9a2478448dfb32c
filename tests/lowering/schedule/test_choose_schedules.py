"""Roots carry their schedules as text, from which the same kernels are written; a file may give others."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.cli.own_passes import OwnPasses
from polyreme.ir.builtin import Module
from polyreme.ir.diagnostics import PassError, PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import make_pass
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify
from polyreme.jit.saving import trace_model
from polyreme.lowering.kernels.plan import structure
from polyreme.lowering.kernels.way import CANDIDATES
from polyreme.lowering.machines.targets import TARGETS
from polyreme.lowering.pipeline import builders, choose_schedules, lower
from polyreme.lowering.schedule.choose_schedules import explain
from polyreme.static import InputSpec

WIDE = TARGETS["x86-64-avx512"]
HEAD = "contract full add -> tensor<4x10xf32>"


class Net(nn.Layer):
    """A convolution that is direct, a second one by Winograd's algorithm, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Conv2D(3, 16, 3), nn.Conv2D(16, 32, 3, padding=1), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.second(nn.functional.relu(self.first(x))).mean([2, 3]))


def fused(frozen: bool = True) -> Module:
    paddle.seed(0)
    net = Net()
    net.eval()
    traced = trace_model(net, [InputSpec([4, 3, 18, 18], "float32", "x")])
    return lower(traced.frozen() if frozen else traced.module(), WIDE, "tensor", prepare="" if frozen else "always")


@pytest.mark.parametrize("frozen", [True, False])
def test_text_with_schedules_is_lowered_to_the_same_kernels(frozen: bool) -> None:
    prepare = "" if frozen else "always"
    module = fused(frozen)
    plain = lower(module, WIDE, prepare=prepare)
    choose_schedules(module, WIDE, prepare)
    verify(module)
    text = print_module(module)
    for kind in ("direct<", "winograd<", "gemm<"):
        assert text.count(f'schedule = "{kind}') == 1
    assert print_module(parse_module(text)) == text
    assert structure(lower(parse_module(text), WIDE, prepare=prepare).block) == structure(plain.block)


def test_a_schedule_that_a_root_carries_is_kept() -> None:
    module = fused()
    choose_schedules(module, WIDE)
    text = print_module(module)
    other = parse_module(text.replace("tile = 4x1", "tile = 2x1"))
    choose_schedules(other, WIDE)
    assert "tile = 2x1" in print_module(other)


class Layers(nn.Layer):
    """A recurrent layer and an attention."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.attention = nn.LSTM(16, 32), nn.MultiHeadAttention(32, 2)

    def forward(self, x: Any) -> Any:
        return self.attention(self.recurrent(x)[0])


def layers() -> Module:
    paddle.seed(0)
    net = Layers()
    net.eval()
    return lower(trace_model(net, [InputSpec([2, 40, 16], "float32", "x")]).frozen(), WIDE, "tensor")


def test_layers_with_schedules_are_lowered_to_the_same_kernels() -> None:
    module = layers()
    plain = lower(module, WIDE)
    choose_schedules(module, WIDE)
    text = print_module(module)
    assert text.count('schedule = "recurrent<') == 1 and text.count('schedule = "attention<') == 1
    assert structure(lower(parse_module(text), WIDE).block) == structure(plain.block)


def test_other_blocks_of_keys_give_the_same_attention() -> None:
    module = layers()
    choose_schedules(module, WIDE)
    text = print_module(module)
    (keys,) = re.findall(r'"attention<lanes = 16, keys = (\d+)', text)
    assert int(keys) > 12
    other = lower(parse_module(text.replace(f"keys = {keys}", "keys = 12")), WIDE)
    plain = lower(parse_module(text), WIDE)
    assert structure(other.block) != structure(plain.block)
    x = np.random.default_rng(0).standard_normal((2, 40, 16)).astype(np.float32)
    np.testing.assert_allclose(evaluate(other, [x])[0], evaluate(plain, [x])[0], rtol=0, atol=1e-5)
    with pytest.raises(PolyremeError, match="expected a schedule like attention<"):
        lower(parse_module(text.replace(f"keys = {keys}", "keys = 13")), WIDE)


def alone(op: str, result: str, target: str) -> tuple[str, Module, Module]:
    """Text of a module of one op with its schedule, and its kernels with and without."""
    module = parse_module(f"func @main(%x: tensor<128x300xf32>) -> {result} {{\n  %y = {op} : {result}\n  return %y\n}}")
    machine = TARGETS[target]
    plain = lower(module, machine)
    choose_schedules(module, machine)
    text = print_module(module)
    return text, lower(parse_module(text), machine), plain


@pytest.mark.parametrize(
    ("op", "result", "target", "schedule"),
    [
        ('tensor.cumulate %x {fn = "add", axis = 1}', "tensor<128x300xf32>", "x86-64-avx2",
         "cumulate<lanes = 8, masked>"),
        ('tensor.cumulate %x {fn = "max", axis = 0}', "tensor<128x300xf32>", "x86-64-avx512",
         "cumulate<lanes = 16, masked, columns = 300>"),
        ('tensor.cumulate %x {fn = "add", axis = 1}', "tensor<128x300xf32>", "x86-64",
         "cumulate<lanes = 4, nest = nest<axes = 1, grain = 23>>"),
    ],
)  # fmt: skip
def test_single_ops_carry_schedules_as_groups(op: str, result: str, target: str, schedule: str) -> None:
    text, again, plain = alone(op, result, target)
    assert f'tensor.fused %x {{schedule = "{schedule}"}}' in text
    assert structure(again.block) == structure(plain.block)


def test_a_nest_has_another_grain_but_no_other_axes() -> None:
    text, _, plain = alone('tensor.cumulate %x {fn = "add", axis = 1}', "tensor<128x300xf32>", "x86-64")
    other = lower(parse_module(text.replace("grain = 23", "grain = 4")), TARGETS["x86-64"])
    assert structure(other.block) != structure(plain.block)
    x = np.arange(128 * 300, dtype=np.float32).reshape(128, 300) % 7
    np.testing.assert_array_equal(evaluate(other, [x])[0], evaluate(plain, [x])[0])
    with pytest.raises(PolyremeError, match="expected a schedule like cumulate<"):
        lower(parse_module(text.replace("axes = 1", "axes = 2")), TARGETS["x86-64"])


def with_file(text: str, tmp_path: Path) -> Module:
    file = tmp_path / "schedules.txt"
    file.write_text(text, encoding="utf-8")
    paddle.seed(0)
    with OwnPasses((), (), file).in_the_pipeline():
        net = Net()
        net.eval()
        return lower(trace_model(net, [InputSpec([4, 3, 18, 18], "float32", "x")]).frozen(), WIDE)


def own() -> str:
    """The schedule of the product."""
    module = fused()
    choose_schedules(module, WIDE)
    (text,) = [op.schedule for op in module.function("main").block if getattr(op, "schedule", "").startswith("gemm")]
    return str(text)


def test_a_file_gives_roots_other_schedules(tmp_path: Path) -> None:
    same = with_file(f"# the product\n\n{HEAD}: {own()}\n", tmp_path)
    assert structure(same.block) == structure(lower(fused(), WIDE).block)
    assert "tile = 4x1" in own()
    other = with_file(f"{HEAD}: {own().replace('tile = 4x1', 'tile = 2x1')}\n", tmp_path)
    assert structure(other.block) != structure(same.block)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("contract full add: gemm<>", "schedules.txt:1:1: .*expected a line such as"),
        (f"{HEAD.replace('x10', 'x11')}: gemm<>", r"schedules.txt:1:1: .*expected a root of the model \(.*\) but got .*did you mean"),
        (f"{HEAD}: gem<>", "expected a schedule of a kind known here"),
        (f"{HEAD}: winograd<cuts = []>", "expected a root that 'winograd' is for but got 'contract full add'"),
        (f"{HEAD}: gemm<sizes = 4x32x11, tile = 4x1, lanes = 16>", "expected a schedule for sizes = 4x32x10"),
        (f"{HEAD}: a\n{HEAD}: b", "schedules.txt:2:1: .*expected each root once"),
    ],
)
def test_a_line_that_does_not_fit_is_an_error(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PolyremeError, match=f"(?s){message}"):
        with_file(line, tmp_path)


def test_overriding_without_a_file_is_an_error() -> None:
    with pytest.raises(PassError, match="expected a file of schedules"):
        make_pass("override-schedules").run(Module.empty())


def test_every_way_says_why() -> None:
    told = explain(fused().function("main"), WIDE, builders(WIDE), "")
    assert f"{HEAD} at " in told
    for line in ("takes it: winograd<", "takes it: direct<", "takes it: gemm<", "could: direct<", "refuses: strassen: ", "cycles"):
        assert line in told, told
    assert told.count("takes it: ") == told.count(" -> ")


def test_every_way_that_could_take_a_root_says_its_cycles() -> None:
    told = explain(fused().function("main"), WIDE, builders(WIDE), "").splitlines()
    able = [line for line in told if line.startswith(("  takes it: ", "  could: "))]
    assert len(able) > 3 and all(re.search(r", estimated [1-9]\d* cycles$", line) for line in able), told


def test_other_schedules_of_the_one_that_takes_a_root_are_shown() -> None:
    told = explain(fused().function("main"), WIDE, builders(WIDE), "").splitlines()
    product = told[told.index(next(line for line in told if line.startswith(HEAD))) :]
    taken = next(i for i, line in enumerate(product) if line.startswith("  takes it: gemm<"))
    others = list(takewhile(lambda line: line.startswith("    or: "), product[taken + 1 :]))
    assert all(re.fullmatch(r"    or: gemm<.*>, estimated [1-9]\d* cycles", line) for line in others)
    assert 1 < len(set(others)) == len(others) < CANDIDATES
