"""Results that take the place of arguments: kernels that are given one memory for both give what they give for two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Region, Value
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager
from polyreme.ir.text import parse_module
from polyreme.ir.types import TensorType, f32
from polyreme.ir.verify import verify
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import host
from polyreme.lowering.pipeline import BUILDERS
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants

Gradient = Callable[..., Value]


def adam(b: Builder, gradient: Value, weight: Value, first: Value, second: Value) -> list[Value]:
    """What becomes of the moments and the weight, in this order: the weight's next value is computed from all three."""
    apply = lambda fn, *xs: b(tensor.Map, *xs, fn=fn)
    number = lambda x: b(tensor.Full, value=x, shape=(), dtype=f32)
    first = apply("add", apply("mul", first, number(0.9)), apply("mul", gradient, number(0.1)))
    second = apply("add", apply("mul", second, number(0.99)), apply("mul", apply("mul", gradient, gradient), number(0.01)))
    step = apply("div", first, apply("add", apply("sqrt", second), number(1e-3)))
    return [first, second, apply("sub", weight, apply("mul", step, number(0.1)))]


def a_step(operands: Sequence[tuple[int, ...]], weight: tuple[int, ...], gradient: Gradient) -> Module:
    """`main` of the operands of a gradient, then the weight and its moments, which it updates: one group."""
    types = [TensorType(shape, f32) for shape in (*operands, weight, weight, weight)]
    names = [*(f"x{i}" for i in range(len(operands))), "weight", "first", "second"]
    roles = tuple("state" if i >= len(operands) else "input" for i in range(len(types)))
    results = ("new_first", "new_second", "new_weight")
    said = {"result_names": results, "updates": tuple(f"{name.removeprefix('new_')} -> {name}" for name in results)}
    main = Func.empty("main", types, arg_names=names, arg_roles=roles, **said)
    block = Block(types)
    b = Builder.at_end(block)
    made = gradient(b, *block.args[: len(operands)])
    b.insert(tensor.Yield(adam(b, made, *block.args[len(operands) :])))
    group = tensor.Fused(list(main.args), body=Region(block))
    end = Builder.at_end(main.block)
    end.insert(group)
    end.insert(Return(list(group.results)))
    main.finish()
    module = Module.empty()
    module.block.append(main)
    verify(module)
    return module


def of_images(stride: int = 1, dilated: int = 1) -> Gradient:
    """The gradient of a 3x3 convolution's weights, from a padded image and the results' gradients."""

    def make(b: Builder, image: Value, results: Value) -> Value:
        size = results.type.shape[2]
        windows = b(
            tensor.Window, image, axes=(2, 3), sizes=(size, size), strides=(1, 1), dilations=(stride, stride)
        )
        return b(tensor.Contract, results, windows, spec="NOab,NCmnab->OCmn")

    return make


def contract(spec: str) -> Gradient:
    return lambda b, x, y: b(tensor.Contract, x, y, spec=spec)


CASES = {
    "rows of a product": ([(128, 70), (128, 96)], (70, 96), contract("km,kn->mn")),
    "few rows, and lanes that are left over": ([(40, 7), (40, 37)], (7, 37), contract("km,kn->mn")),
    "a product on the processor's tiles": ([(256, 384), (256, 512)], (384, 512), contract("km,kn->mn")),
    "lanes that are left over beside tiles": ([(256, 320), (256, 500)], (320, 500), contract("km,kn->mn")),
    "products of a batch": ([(3, 33, 20), (3, 33, 24)], (3, 20, 24), contract("bkm,bkn->bmn")),
    "weights of images": ([(2, 24, 10, 10), (2, 40, 8, 8)], (40, 24, 3, 3), of_images()),
    "weights of many channels": ([(4, 128, 4, 4), (4, 130, 2, 2)], (130, 128, 3, 3), of_images()),
    "weights of one pixel": ([(2, 33, 6, 6), (2, 48, 6, 6)], (48, 33, 1, 1), of_images()),
    "a gradient that is there": ([(50, 70)], (50, 70), lambda b, x: b(tensor.Map, x, fn="neg")),
    "a large one": ([(1300, 700)], (1300, 700), lambda b, x: b(tensor.Map, x, fn="neg")),
}


@pytest.mark.parametrize("case", CASES)
def test_weights_are_updated_where_they_stand_as_apart(case: str) -> None:
    operands, weight, gradient = CASES[case]
    module = a_step(operands, weight, gradient)
    draw = np.random.default_rng(5)
    inputs = [draw.standard_normal(shape).astype(np.float32) for shape in (*operands, weight, weight)]
    inputs.append(draw.random(weight).astype(np.float32))
    lowered = PassManager([TensorToKernel(host(), BUILDERS)]).run(module.clone())
    verify(lowered)
    made = load(build_artifact(lowered, host(), constants=outline_constants(lowered)))
    places = len(operands) + np.array([1, 2, 0])
    assert sorted(made.manifest.updates) == sorted((place, i) for i, place in enumerate(places.tolist()))
    apart = made.run(inputs)
    for found, expected in zip(apart, evaluate(module, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    given = [x.copy() for x in inputs]
    together = made.run(given, memory={i: given[place] for i, place in enumerate(places)})
    for i, place in enumerate(places):
        assert together[i] is given[place]
        np.testing.assert_array_equal(together[i], apart[i])
    for i in range(len(operands)):
        np.testing.assert_array_equal(given[i], inputs[i])


def updates_of(body: str, said: str = "") -> tuple[str, ...]:
    """What `main` of a square weight `w` and an input may update once it is lowered."""
    text = (
        f'func @main(%x: tensor<32x32xf32>, %ok: tensor<i1>, %w: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>, tensor<i1>) '
        f'attributes {{arg_roles = ["input", "input", "state"], result_names = ["seen", "next", "told"], updates = ["w -> next"]{said}}} '
        f"{{\n{body}\n}}\n"
    )
    made: Any = PassManager([TensorToKernel(host(), BUILDERS)], verify_each=True).run(parse_module(text))
    found: tuple[str, ...] = made.function().updates
    return found


MAP = "tensor.map %{} {{fn = \"{}\"}} : tensor<32x32xf32>"


@pytest.mark.parametrize(
    ("why", "body", "found"),
    [
        ("nobody reads it afterwards", """  %s = tensor.map %w {fn = "exp"} : tensor<32x32xf32>
  %n = tensor.map %w, %x {fn = "add"} : tensor<32x32xf32>
  %t = tensor.map %ok {fn = "not"} : tensor<i1>
  return %s, %n, %t""", ("w -> next",)),
        ("it is read afterwards", """  %n = tensor.map %w, %x {fn = "add"} : tensor<32x32xf32>
  %s = tensor.map %w {fn = "exp"} : tensor<32x32xf32>
  %t = tensor.map %ok {fn = "not"} : tensor<i1>
  return %s, %n, %t""", ()),
        ("it is read afterwards under another shape", """  %n = tensor.map %w, %x {fn = "add"} : tensor<32x32xf32>
  %r = tensor.reshape %w {shape = [1024]} : tensor<1024xf32>
  %e = tensor.map %r {fn = "exp"} : tensor<1024xf32>
  %s = tensor.reshape %e {shape = [32, 32]} : tensor<32x32xf32>
  %t = tensor.map %ok {fn = "not"} : tensor<i1>
  return %s, %n, %t""", ()),
        ("it is a result as it was", """  %n = tensor.map %w, %x {fn = "add"} : tensor<32x32xf32>
  %t = tensor.map %ok {fn = "not"} : tensor<i1>
  return %w, %n, %t""", ()),
        ("elements go elsewhere", """  %s = tensor.map %w {fn = "exp"} : tensor<32x32xf32>
  %n = tensor.transpose %w {perm = [1, 0]} : tensor<32x32xf32>
  %t = tensor.map %ok {fn = "not"} : tensor<i1>
  return %s, %n, %t""", ()),
        ("sums read it", """  %s = tensor.map %w {fn = "exp"} : tensor<32x32xf32>
  %n = tensor.fused %x, %w : tensor<32x32xf32> { (%a: tensor<32x32xf32>, %b: tensor<32x32xf32>)
    %p = tensor.contract %a, %b {spec = "mk,kn->mn"} : tensor<32x32xf32>
    %q = tensor.map %p, %b {fn = "add"} : tensor<32x32xf32>
    tensor.yield %q
  }
  %t = tensor.map %ok {fn = "not"} : tensor<i1>
  return %s, %n, %t""", ()),
        ("sums read what is computed of it", """  %s = tensor.map %w {fn = "exp"} : tensor<32x32xf32>
  %n = tensor.fused %x, %w : tensor<32x32xf32> { (%a: tensor<32x32xf32>, %b: tensor<32x32xf32>)
    %c = tensor.map %b {fn = "neg"} : tensor<32x32xf32>
    %p = tensor.contract %a, %c {spec = "mk,kn->mn"} : tensor<32x32xf32>
    %q = tensor.map %p, %b {fn = "add"} : tensor<32x32xf32>
    tensor.yield %q
  }
  %t = tensor.map %ok {fn = "not"} : tensor<i1>
  return %s, %n, %t""", ()),
    ],
)  # fmt: skip
def test_an_argument_is_updated_where_nothing_reads_it_as_it_was(why: str, body: str, found: tuple[str, ...]) -> None:
    assert updates_of(body) == found, why


def test_nothing_is_updated_before_it_is_told_whether() -> None:
    body = """  %s = tensor.map %w {fn = "exp"} : tensor<32x32xf32>
  %n = tensor.map %w, %x {fn = "add"} : tensor<32x32xf32>
  %t = tensor.map %ok {fn = "not"} : tensor<i1>
  return %s, %n, %t"""
    text = (
        'func @main(%x: tensor<32x32xf32>, %ok: tensor<i1>, %w: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>, tensor<i1>) '
        'attributes {arg_roles = ["input", "input", "state"], result_names = ["seen", "next", "told"], updates = ["w -> next"], '
        f'proceeds = "told"}} {{\n{body}\n}}\n'
    )
    lowered: Any = PassManager([TensorToKernel(host(), BUILDERS)], verify_each=True).run(parse_module(text))
    names = [op.name for op in lowered.function().block]
    assert lowered.function().updates == ("w -> next",) and names.index("kernel.return_unless") < names.index("kernel.call", 3)
    made = load(build_artifact(lowered, host(), constants=outline_constants(lowered)))
    x, w = (np.full((32, 32), n, np.float32) for n in (1, 2))
    for stops in (True, False):
        given = w.copy()
        made.run([x, np.array(stops), given], memory={1: given})
        np.testing.assert_array_equal(given, w if stops else w + x)
    outputs = [np.full((32, 32), 9, np.float32), np.full((32, 32), 9, np.float32), np.array(True)]
    evaluate(lowered, [x, np.array(True), w, *outputs])
    assert not outputs[2] and (outputs[1] == 9).all()
