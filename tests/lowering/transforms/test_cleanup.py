"""Each canonical form where it applies and where it must not, and the passes on whole modules of every level."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, nn
from polyreme.dialects import tensor as tt
from polyreme.ir.attributes import attribute_key
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.diagnostics import PassError
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import parse_passes
from polyreme.ir.text import parse_module
from polyreme.ir.types import BufferType, TensorType, bf16, f16, f32, f64, i1, i32, i64, index
from polyreme.ir.verify import verify
from polyreme.lowering.transforms.cleanup import CANONICAL, Canonicalize, Cse, Dce
from polyreme.lowering.transforms.solve_sizes import SolveDims, specialize
from tests.strategies import LEVELS, modules

N = symbol("N")


def cleaned(types, body, passes=None):
    """The ops that are left of a function, canonical or after `passes`, and the function."""
    func = Func.empty("main", types, (), [f"x{i}" for i in range(len(types))])
    b = Builder.at_end(func.block)
    made = body(b, *func.args)
    b(Return, list(made) if isinstance(made, tuple) else [made])
    module = Module.empty()
    module.block.append(func.finish())
    verify(module)
    for step in passes or [Canonicalize()]:
        step.run(module)
        verify(module)
    (func,) = module.functions
    return [op.name for op in func.block][:-1], func


X = TensorType((N, 4), f32)


def number(b, value, dtype=f32):
    return b(tt.Full, value=value, dtype=dtype)


def mapped(fn, value, dtype=f32):
    return lambda b, x: b(tt.Map, x, number(b, value, dtype), fn=fn)


FIRES = {
    "multiply by 1": ([X], mapped("mul", 1.0), []),
    "1 times": ([X], lambda b, x: b(tt.Map, number(b, 1.0), x, fn="mul"), []),
    "divide by 1": ([X], mapped("div", 1.0), []),
    "subtract 0": ([X], mapped("sub", 0.0), []),
    "integers plus 0": ([TensorType((3,), i32)], mapped("add", 0, i32), []),
    "nn multiply by 1": ([X], lambda b, x: b(nn.Mul, x, b(nn.Full, value=1, dtype=f32)), []),
    "neg of neg": ([X], lambda b, x: b(tt.Map, b(tt.Map, x, fn="neg"), fn="neg"), []),
    "max of equals": ([X], lambda b, x: b(tt.Map, x, x, fn="max"), []),
    "choice that is known": ([X, X], lambda b, x, y: b(tt.Map, b(tt.Full, value=True, dtype=i1), x, y, fn="select"), []),
    "choice of equals": ([TensorType((N, 4), i1), X], lambda b, c, x: b(nn.Where, c, x, x), []),
    "cast to the same": ([X], lambda b, x: b(nn.Cast, x, dtype=f32), []),
    "cast up and down": ([X], lambda b, x: b(nn.Cast, b(nn.Cast, x, dtype=f64), dtype=f32), []),
    "cast of integers through float64": ([TensorType((2,), i32)], lambda b, x: b(nn.Cast, b(nn.Cast, x, dtype=f64), dtype=i32), []),
    "known size": ([X], lambda b, x: b(tt.DimValue, size=7, dtype=f32), ["tensor.full"]),
    "two transposes": ([TensorType((2, 3, 4), f32)], lambda b, x: b(nn.Transpose, b(nn.Transpose, x, perm=(1, 2, 0)), perm=(2, 0, 1)), []),
    "transpose of a row": ([TensorType((1, 3), f32)], lambda b, x: b(tt.Transpose, x, perm=(1, 0)), ["tensor.reshape"]),
    "two reshapes": ([X], lambda b, x: b(nn.Reshape, b(nn.Reshape, x, shape=(4 * N,)), shape=(N, 2, 2)), ["nn.reshape"]),
    "reshape there and back": ([X], lambda b, x: b(nn.Reshape, b(nn.Reshape, x, shape=(4 * N,)), shape=(N, 4)), []),
    "broadcast of a number": (
        [X],
        lambda b, x: b(tt.Broadcast, b(tt.Full, value=2, shape=(1, 1), dtype=f32), shape=(N, 4)),
        ["tensor.full"],
    ),
    "broadcast in a map": (
        [X, TensorType((1, 4), f32)],
        lambda b, x, y: b(tt.Map, x, b(tt.Broadcast, y, shape=(N, 4)), fn="add"),
        ["tensor.map"],
    ),
    "slice of all": ([X], lambda b, x: b(tt.Slice, x, starts=(0, 0), stops=(N, 4), strides=(1, 1)), []),
    "two slices": (
        [TensorType((9,), f32)],
        lambda b, x: b(tt.Slice, b(tt.Slice, x, starts=(1,), stops=(9,), strides=(2,)), starts=(1,), stops=(4,), strides=(2,)),
        ["tensor.slice"],
    ),
    "one of two that are joined": (
        [X, X],
        lambda b, x, y: b(tt.Slice, b(tt.Concat, [x, y], axis=1), starts=(0, 5), stops=(2, 7), strides=(1, 1)),
        ["tensor.slice"],
    ),
    "two flips": ([X], lambda b, x: b(nn.Flip, b(nn.Flip, x, axes=(0, 1)), axes=(-1, -2)), []),
    "pad by nothing": ([X], lambda b, x: b(nn.Pad, x, padding=(0, 0, 0, 0)), []),
    "concat of one": ([X], lambda b, x: b(nn.Concat, [x], axis=0), []),
    "concat with nothing": ([X, TensorType((N, 0), f32)], lambda b, x, y: b(tt.Concat, [y, x, x], axis=1), ["tensor.concat"]),
    "concat in a concat": ([X, X], lambda b, x, y: b(nn.Concat, [x, b(nn.Concat, [y, x], axis=-1), y], axis=1), ["nn.concat"]),
    "sum along sizes of 1": ([TensorType((N, 1), f32)], lambda b, x: b(tt.Reduce, x, fn="add", axes=(1,)), ["tensor.reshape"]),
    "relu twice": ([X], lambda b, x: b(nn.Relu, b(nn.Relu, x)), ["nn.relu"]),
    "dropout of nothing": ([X, X], lambda b, x, d: b(nn.Dropout, x, d, p=0.0), []),
    "divide by 8": ([X], mapped("div", 8.0), ["tensor.full", "tensor.map"]),
    "view of one number": ([X], lambda b, x: b(tt.Reshape, b(tt.Full, value=2, shape=(2, 3), dtype=f32), shape=(6,)), ["tensor.full"]),
    "constants": ([], lambda b: b(tt.Map, b(tt.Iota, shape=(3,), axis=0, dtype=f32), number(b, 0.5), fn="mul"), ["tensor.constant"]),
    "constants that become one number": (
        [],
        lambda b: b(nn.Add, b(nn.Full, value=1, dtype=f32), b(nn.Full, value=2, dtype=f32)),
        ["nn.full"],
    ),
}


@pytest.mark.parametrize(("types", "body", "left"), FIRES.values(), ids=FIRES.keys())
def test_canonical_form(types, body, left):
    assert cleaned(types, body)[0] == left


STAYS = {
    "floats plus 0, which turns -0 into 0": ([X], mapped("add", 0.0), 2),
    "minus -0, which turns -0 into 0": ([X], mapped("sub", -0.0), 2),
    "times 1 that repeats": (
        [TensorType((1, 4), f32)],
        lambda b, x: b(tt.Map, x, b(tt.Full, value=1.0, shape=(3, 4), dtype=f32), fn="mul"),
        2,
    ),
    "1 divided by": ([X], lambda b, x: b(tt.Map, number(b, 1.0), x, fn="div"), 2),
    "exp of exp": ([X], lambda b, x: b(tt.Map, b(tt.Map, x, fn="exp"), fn="exp"), 2),
    "max of different ones": ([X, X], lambda b, x, y: b(tt.Map, x, y, fn="max"), 1),
    "choice not known": ([TensorType((N, 4), i1), X, X], lambda b, c, x, y: b(nn.Where, c, x, y), 1),
    "cast down and up": ([X], lambda b, x: b(nn.Cast, b(nn.Cast, x, dtype=f16), dtype=f32), 2),
    "bfloat16 through float16": ([TensorType((2,), bf16)], lambda b, x: b(nn.Cast, b(nn.Cast, x, dtype=f16), dtype=bf16), 2),
    "integers through float32": ([TensorType((2,), i32)], lambda b, x: b(nn.Cast, b(nn.Cast, x, dtype=f32), dtype=i32), 2),
    "divide by 3": ([X], mapped("div", 3.0), 2),
    "transpose": ([X], lambda b, x: b(nn.Transpose, x, perm=(1, 0)), 1),
    "broadcast that gives a map its shape": (
        [TensorType((1, 4), f32), TensorType((N, 1), f32)],
        lambda b, x, y: b(tt.Map, b(tt.Broadcast, x, shape=(2, 4)), number(b, 1.5), fn="add"),
        3,
    ),
    "slices of unknown extent": (
        [TensorType((N,), f32)],
        lambda b, x: b(tt.Slice, b(tt.Slice, x, starts=(0,), stops=(N,), strides=(2,)), starts=(0,), stops=((N + 1) // 2,), strides=(3,)),
        2,
    ),
    "some of both that are joined": (
        [X, X],
        lambda b, x, y: b(tt.Slice, b(tt.Concat, [x, y], axis=1), starts=(0, 3), stops=(2, 7), strides=(1, 1)),
        2,
    ),
    "flip": ([X], lambda b, x: b(nn.Flip, x, axes=(0,)), 1),
    "dropout": ([X, X], lambda b, x, d: b(nn.Dropout, x, d, p=0.5), 1),
    "one reshape": ([X], lambda b, x: b(nn.Reshape, x, shape=(4 * N,)), 1),
    "pad by something": ([X], lambda b, x: b(nn.Pad, x, padding=(0, 0, 0, 1)), 1),
    "concat of two": ([X], lambda b, x: b(nn.Concat, [x, x], axis=0), 1),
    "concat along another axis": (
        [X, X],
        lambda b, x, y: b(nn.Concat, [b(nn.Concat, [x, y], axis=0), b(nn.Concat, [y, x], axis=0)], axis=1),
        3,
    ),
    "sum along a size of 4": ([X], lambda b, x: b(tt.Reduce, x, fn="add", axes=(1,)), 1),
    "relu of tanh": ([X], lambda b, x: b(nn.Relu, b(nn.Tanh, x)), 2),
    "size not known": ([X], lambda b, x: b(nn.DimValue, size=N, dtype=f32), 1),
}


@pytest.mark.parametrize(("types", "body", "count"), STAYS.values(), ids=STAYS.keys())
def test_no_canonical_form_where_it_would_be_wrong(types, body, count):
    assert len(cleaned(types, body)[0]) == count


def test_every_pattern_states_its_equation():
    assert all("->" in (p.rewrite.__doc__ or "") for p in CANONICAL)


def test_division_by_a_power_of_two_becomes_a_product():
    _, func = cleaned([X], mapped("div", 8.0))
    product = func.block.terminator.operands[0].producer(tt.Map)
    assert product.fn == "mul" and product.xs[1].producer(tt.Full).value == 0.125


def test_two_slices_take_the_same_elements():
    _, func = cleaned(*FIRES["two slices"][:2])
    assert evaluate(func, [np.arange(9, dtype=np.float32)])[0].tolist() == [3, 7]


def test_constants_beyond_the_limit_are_not_folded():
    body = lambda b: b(tt.Map, b(tt.Iota, shape=(100,), axis=0, dtype=f32), number(b, 0.5), fn="mul")
    assert cleaned([], body, [Canonicalize(fold_limit=99)])[0] == ["tensor.iota", "tensor.full", "tensor.map"]
    assert cleaned([], body, [Canonicalize(fold_limit=100)])[0] == ["tensor.constant"]


def test_folded_constants_keep_every_bit():
    body = lambda b: b(tt.Concat, [b(tt.Full, value=v, shape=(1,), dtype=f32) for v in (0.0, -0.0)], axis=0)
    names, func = cleaned([], body)
    assert names == ["tensor.constant"]
    assert np.signbit(evaluate(func, [])[0]).tolist() == [False, True]


# --- cse and dce


def test_equal_ops_are_merged():
    body = lambda b, x, y: b(tt.Map, b(tt.Map, x, y, fn="add"), b(tt.Map, y, x, fn="add"), fn="mul")
    names, func = cleaned([X, X], body, [Cse()])
    assert names == ["tensor.map", "tensor.map"]
    product = func.block.terminator.operands[0].producer()
    assert product.operands[0] is product.operands[1]


@pytest.mark.parametrize(
    "body",
    [
        lambda b, x, y: (b(tt.Map, x, y, fn="sub"), b(tt.Map, y, x, fn="sub")),
        lambda b, x, y: (b(nn.LeakyRelu, x, alpha=0.1), b(nn.LeakyRelu, x, alpha=0.2)),
        lambda b, x, y: (b(tt.Full, value=0.0, dtype=f32), b(tt.Full, value=-0.0, dtype=f32)),
        lambda b, x, y: (b(tt.Full, value=1, dtype=f32), b(tt.Full, value=1, dtype=i64)),
        lambda b, x, y: (b(nn.Cast, x, dtype=f64), b(nn.Cast, x, dtype=f16)),
    ],
    ids=["order of operands", "attributes", "sign of zero", "type", "result"],
)
def test_different_ops_are_not_merged(body):
    assert len(cleaned([X, X], body, [Cse()])[0]) == 2


@pytest.mark.parametrize(
    ("a", "b"), [((0.0,), (-0.0,)), ((1,), (True,)), ((1, (2.0,)), (1, (2,)))], ids=["signs of zeros", "kinds", "kinds in lists"]
)
def test_lists_that_compare_equal_are_told_apart_by_what_is_in_them(a, b):
    assert attribute_key(a) == attribute_key(a) != attribute_key(b)


def test_ops_without_use_are_erased_with_what_only_they_use():
    body = lambda b, x: (b(nn.Exp, b(nn.Neg, x)), x)[1]
    assert cleaned([X], body, [Dce()])[0] == []


KERNEL = """
func @main(%x: buffer<8xf32>, %y: buffer<8xf32>) attributes {arg_roles = ["input", "output"]} {
  %zero = kernel.constant {value = 0, dtype = index} : index
  %eight = kernel.constant {value = 8, dtype = index} : index
  kernel.for %zero, %eight { (%i: index)
    %one = kernel.constant {value = 1.0, dtype = f32} : f32
    %two = kernel.apply %one, %one {fn = "add"} : f32
    %unused = kernel.apply %two {fn = "exp"} : f32
    %a = kernel.load %x, %i : f32
    %b = kernel.apply %a, %two {fn = "mul"} : f32
    %c = kernel.apply %a, %two {fn = "mul"} : f32
    %d = kernel.apply %b, %c {fn = "add"} : f32
    kernel.store %d, %y, %i
    kernel.yield
  }
  return
}
"""


def test_kernels_are_cleaned_up_inside_their_loops():
    module = parse_module(KERNEL)
    verify(module)
    x = np.arange(8, dtype=np.float32)
    before = evaluate(module, [x])[0]
    for step in (Canonicalize(), Cse(), Dce()):
        step.run(module)
        verify(module)
    names = [op.name for op in module.walk()]
    assert names.count("kernel.apply") == 2 and names.count("kernel.store") == 1 and names.count("kernel.load") == 1
    np.testing.assert_array_equal(evaluate(module, [x])[0], before)


def test_loads_are_not_merged_across_stores():
    func = Func.empty("main", [BufferType((4,), f32)], arg_roles=("output",))
    b = Builder.at_end(func.block)
    at = b(kernel.Constant, value=0, dtype=index)
    first = b(kernel.Load, func.args[0], at)
    b(kernel.Store, b(kernel.Apply, first, fn="neg"), func.args[0], at)
    b(kernel.Store, b(kernel.Load, func.args[0], at), func.args[0], at)
    b(Return, [])
    module = Module.empty()
    module.block.append(func.finish())
    Cse().run(module)
    assert [op.name for op in func.block].count("kernel.load") == 2


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_cleaning_up_keeps_every_bit_of_what_random_modules_compute(level, data):
    sample = data.draw(modules(level))
    before = evaluate(sample.module, sample.inputs)
    module = sample.module.clone()
    for step in (Canonicalize(), Cse(), Dce()):
        step.run(module)
        verify(module)
    for got, wanted in zip(evaluate(module, sample.inputs), before, strict=True):
        np.testing.assert_array_equal(got, wanted)


# --- sizes

SIZED = """
func @main(%x: tensor<Nx4xf32>) -> tensor<(4*N)xf32> {
  %y = nn.reshape %x {shape = [4*N]} : tensor<(4*N)xf32>
  return %y
}
"""


def test_sizes_that_are_given_are_replaced_everywhere():
    module = parse_module(SIZED)
    (step,) = parse_passes("solve-dims{sizes=N=3}")
    step.run(module)
    verify(module)
    func = module.function()
    assert func.function_type.inputs[0].shape == (3, 4) and func.block.first.shape == (12,)


def test_specialize_may_rename_a_size():
    module = parse_module(SIZED)
    specialize(module, {"N": symbol("B") * 2})
    assert str(module.function().block.terminator.operands[0].type) == "tensor<(8*B)xf32>"


def test_size_that_no_argument_tells_is_an_error_at_its_op():
    func = Func.empty("main", [TensorType((3,), f32)])
    b = Builder.at_end(func.block)
    b(Return, [b(nn.Full, value=0, shape=(N,), dtype=f32)])
    module = Module.empty()
    module.block.append(func.finish())
    with pytest.raises(PassError, match="expected the size 'N' in the shape of an argument"):
        SolveDims().run(module)


def test_option_that_is_no_size_is_an_error():
    with pytest.raises(PassError, match="expected 'name=number' for the pass 'solve-dims' but got 'N'"):
        SolveDims(sizes="N").run(Module.empty())
