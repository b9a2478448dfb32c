"""Loops over several axes on threads: what iterations of free sizes share."""

from __future__ import annotations

import numpy as np
import pytest

from polyreme.dialects import kernel
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import Dim, substitute, symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, TensorType, f32
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.elements import linear
from polyreme.lowering.kernels.loop_nest import each
from polyreme.lowering.kernels.packing import PlanParts
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.machines.targets import host
from tests.lowering.kernel_modules import assert_same

N, H = symbol("N"), symbol("H")
# Of an iteration: few enough to do several together, and so many that a few hundred of them are worth a thread.
CYCLES = 400


def copy_of(sizes: tuple[Dim, ...]) -> Module:
    """A kernel that copies element by element, in the loops of `each`."""
    func = Func.empty("main", [BufferType(sizes, f32)] * 2, arg_names=["x", "y"], arg_roles=("input", "output"))
    code = Code(Builder.at_end(func.block))
    x, y = func.args

    def body(places: list[Position]) -> None:
        at = linear(code, places, sizes).scalar(code)
        code.store(code.load(x, at), y, at)

    each(code, host(), sizes, CYCLES, body)
    code.b(Return, ())
    module = Module.empty()
    module.block.append(func.finish())
    return module


@pytest.mark.parametrize("sizes", [(N, 64, H), (32, N, H), (16, H, N, H)], ids=str)
def test_iterations_that_are_done_together_divide_once(sizes: tuple[Dim, ...]) -> None:
    module = copy_of(sizes)
    (parallel,) = [op for op in module.walk() if isinstance(op, kernel.Parallel)]
    (together,) = [op for op in parallel.block if isinstance(op, kernel.For)]
    divisions = [[x for x in op.walk() if isinstance(x, kernel.Apply) and x.fn == "div"] for op in (parallel, together)]
    assert divisions[0] and not divisions[1]


def test_few_iterations_of_free_sizes_are_plain_loops() -> None:
    """Without a division, and without a place to count on for each axis."""
    module = copy_of((32, N, H))
    (few, many) = [op for op in module.walk() if isinstance(op, kernel.If)]
    (outer,) = [op for op in few.regions[0].block if isinstance(op, kernel.For)]
    assert len(outer.block.args) == 1
    assert not any(isinstance(x, kernel.Parallel) or (isinstance(x, kernel.Apply) and x.fn == "div") for x in few.walk())
    assert any(isinstance(x, kernel.Parallel) for x in many.walk())


@pytest.mark.parametrize("sizes", [(N, 64, H), (32, N, H), (16, H, N, H), (N, H)], ids=str)
@pytest.mark.parametrize(("n", "h"), [(1, 1), (3, 5), (7, 8), (17, 2)])
def test_every_place_is_visited(sizes: tuple[Dim, ...], n: int, h: int) -> None:
    shape = tuple(substitute(size, {"N": n, "H": h}) for size in sizes)
    assert_same(copy_of(sizes), [np.arange(np.prod(shape), dtype=np.float32).reshape(shape)])


@pytest.mark.parametrize("sizes", [(N, 64, H), (32, N, H), (2, N)], ids=str)
@pytest.mark.parametrize(("n", "h"), [(1, 1), (3, 5), (17, 2)])
def test_a_plan_that_is_part_of_another_runs_where_it_is_meant_to(sizes: tuple[Dim, ...], n: int, h: int) -> None:
    """Its tasks, and the plain loops where these are few, as where a convolution has kernels of its own for small images."""
    root = Func.empty("root", [TensorType(sizes, f32)])
    root.block.append(Return([root.args[0]]))
    root.finish()
    (copy,) = (op for op in copy_of(sizes).walk() if isinstance(op, Func))
    for meant in (True, False):
        parts = PlanParts(Request(root, host()))
        plan = KernelPlan((Step(copy.clone(), (operand(0), result(0))),))
        parts.include(plan, lambda code, tasks, meant=meant: tasks if meant else code.value(0))
        (step,) = parts.plan("copies").steps
        module = Module.empty()
        module.block.append(step.func)
        shape = tuple(substitute(size, {"N": n, "H": h}) for size in sizes)
        x = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
        y = np.zeros_like(x)
        evaluate(module, [x, y])
        np.testing.assert_array_equal(y, x if meant else 0)
