"""Facts about free sizes: found while tracing, solved into the types, kept by passes, checked by whatever runs the program."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command
from polyreme.ir.diagnostics import InferError, PassError
from polyreme.ir.evaluate import EvaluateError, evaluate
from polyreme.ir.sizes.facts import Guard
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import find_faults, verify
from polyreme.lowering.pipeline import lower
from polyreme.lowering.transforms.solve_sizes import SolveDims
from polyreme.runtime.errors import CallError
from polyreme.runtime.library import load_compiled
from polyreme.static import InputSpec

DOCS = Path(__file__).resolve().parents[2] / "docs" / "symbolic_sizes.md"
SPECS = [InputSpec([None, 6], "float32", "x"), InputSpec(["M", 6], "float32", "y")]


def by_rows_and_sum(x, y):
    return paddle.reshape(x, [-1, 8]) * 2, x + y


def module_of(function, specs):
    module = paddle.inspect(function, specs).module
    verify(module)
    return module


def needs(module):
    return [Guard.parse(text).need for text in module.function().guards]


def types(module):
    kind = module.function().function_type
    return [str(t) for t in (*kind.inputs, *kind.results)]


def rows(n):
    return np.arange(n * 6, dtype=np.float32).reshape(n, 6)


def test_facts_are_solved_into_the_types_and_name_the_users_line():
    module = module_of(by_rows_and_sum, SPECS)
    assert types(module) == ["tensor<(4*N_4)x6xf32>"] * 2 + ["tensor<(3*N_4)x8xf32>", "tensor<(4*N_4)x6xf32>"]
    assert needs(module) == ["N % 4 == 0", "M == N"]
    line = by_rows_and_sum.__code__.co_firstlineno + 1
    assert all(f"{Path(__file__).name}:{line}:" in text for text in module.function().guards)


def concat_and_add(x, y, z):
    return paddle.concat([x, y], axis=0) + z


def by_hand(x, y):
    n = x.shape[0]
    return paddle.concat([x.reshape([n // 4, 4, 6]), y.reshape([-1, 4, 6])], axis=2)


def product(x, y):
    return paddle.matmul(x, y)


def one_more(x):
    return paddle.concat([x, x[:1]], axis=0).reshape([-1, 8])


@pytest.mark.parametrize(
    ("function", "shapes", "inputs", "wanted"),
    [
        (concat_and_add, [["N", 6], ["M", 6], ["T", 6]], ["Nx6", "Mx6", "(M+N)x6"], ["T == M+N"]),
        (by_hand, [["N", 6], ["M", 6]], ["(4*N_4)x6"] * 2, ["N % 4 == 0", "M % 4 == 0", "M_4 == N_4"]),
        (product, [["N", "K"], ["L", 5]], ["NxK", "Kx5"], ["L == K"]),
        (by_rows_and_sum, [["T+1", 8], ["M", 8]], ["(T+1)x8"] * 2, ["M == T+1"]),
    ],
    ids=lambda v: v.__name__ if callable(v) else "",
)
def test_each_kind_of_fact_is_found(function, shapes, inputs, wanted):
    module = module_of(function, [InputSpec(shape, "float32", f"x{i}") for i, shape in enumerate(shapes)])
    assert types(module)[: len(inputs)] == [f"tensor<{shape}xf32>" for shape in inputs]
    assert needs(module) == wanted


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, y: x + y, [["N", 6], ["N+1", 6]]),
        (lambda x, y: x + y, [["2*N+2", 6], [3, 6]]),
        (lambda x, y: x + y[1:], [["2*N", 6], ["2*M", 6]]),
    ],
)
def test_what_never_holds_stays_the_error_that_it_is(function, shapes):
    with pytest.raises(InferError, match="expected"):
        module_of(function, [InputSpec(shape, "float32", f"x{i}") for i, shape in enumerate(shapes)])


def test_what_is_known_of_a_size_may_be_said():
    module = module_of(lambda x: x.reshape([-1, 8]), [InputSpec(["8*B", "T"], "float32", "x")])
    assert types(module) == ["tensor<(8*B)xTxf32>", "tensor<(B*T)x8xf32>"] and needs(module) == []


PAIRS = {(8, 8): "", (0, 0): "", (6, 6): "expected N to be divisible by 4", (4, 8): "expected M to be equal to N"}


@pytest.mark.parametrize("pair", PAIRS)
def test_every_way_to_run_checks_the_guards(pair, tmp_path_factory):
    inputs = [rows(n) for n in pair]
    specs = [InputSpec(spec.shape, "float32", spec.name) for spec in SPECS]
    static = paddle.jit.to_static(by_rows_and_sum, input_spec=specs)
    module = module_of(by_rows_and_sum, specs)
    library = tmp_path_factory.getbasetemp() / "by_rows.so"
    if not library.exists():
        paddle.compile(static, library)
    ways = {
        "to_static": lambda: [t.numpy() for t in static(*map(paddle.to_tensor, inputs))],
        "nn": lambda: evaluate(module, inputs),
        "tensor": lambda: evaluate(lower(module, to="tensor"), inputs),
        "kernel": lambda: evaluate(lower(module, to="kernel"), inputs),
        "library": lambda: load_compiled(library).run(inputs),
    }
    for way, run in ways.items():
        if PAIRS[pair]:
            with pytest.raises((CallError, EvaluateError), match=re.escape(PAIRS[pair])) as error:
                run()
            assert f"{Path(__file__).name}:{by_rows_and_sum.__code__.co_firstlineno + 1}:" in str(error.value), way
        else:
            first, second = run()
            np.testing.assert_array_equal(first, inputs[0].reshape(-1, 8) * 2, err_msg=way)
            np.testing.assert_array_equal(second, inputs[0] * 2, err_msg=way)


def narrowed(image, weight):
    return paddle.nn.functional.conv2d(image, weight)[:, :, 1:, :].sum()


IMAGE = [InputSpec([1, 3, "H", "W"], "float32", "image"), InputSpec([4, 3, 3, 3], "float32", "weight")]


def test_bounds_are_placed_where_a_size_could_become_negative_and_only_the_strongest_stay():
    module = module_of(narrowed, IMAGE)
    assert needs(module) == []
    SolveDims().run(module)
    assert needs(module) == ["W >= 2", "H >= 3"]
    before = print_module(module)
    SolveDims().run(module)
    assert print_module(module) == before
    lowered = lower(module, to="kernel")
    assert needs(lowered) == needs(module)
    compiled = paddle.jit.to_static(narrowed, input_spec=IMAGE)
    weight = paddle.ones([4, 3, 3, 3])
    assert compiled(paddle.ones([1, 3, 4, 3]), weight).item() == 4 * 27
    # As in eager mode, where an image is smaller than the window.
    with pytest.raises(InferError, match="expected at least 3 elements for the kernel but got 2"):
        compiled(paddle.ones([1, 3, 2, 3]), weight)


def test_gradients_hold_under_guards():
    def loss(x, y):
        return (paddle.reshape(x * y, [-1, 8]) ** 2).sum()

    x, y = (paddle.to_tensor(rows(n) / 50, stop_gradient=False) for n in (8, 8))
    paddle.jit.to_static(loss, input_spec=SPECS)(x, y).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * y.numpy() ** 2, rtol=1e-5)


def test_guards_are_part_of_a_saved_model(tmp_path):
    paddle.jit.save(paddle.jit.to_static(by_rows_and_sum, input_spec=SPECS), tmp_path / "net")
    loaded = paddle.jit.load(tmp_path / "net")
    with pytest.raises(CallError, match="expected N to be divisible by 4"):
        loaded(paddle.to_tensor(rows(6)), paddle.to_tensor(rows(6)))
    doubled = module_of(lambda x, y: loaded(x, y)[0] * 2, [InputSpec(["4*B", 6], "float32", "x"), InputSpec(["4*B", 6], "float32", "y")])
    assert types(doubled)[-1] == "tensor<(3*B)x8xf32>"


def test_a_number_for_a_solved_name_is_checked_at_once():
    module = module_of(by_rows_and_sum, SPECS)
    SolveDims(sizes="N=8").run(module)
    verify(module)
    assert types(module)[0] == "tensor<8x6xf32>" and needs(module) == []
    with pytest.raises(PassError, match=r"E0411.*expected N to be divisible by 4 \(nn\.reshape at .*\) but got 6"):
        SolveDims(sizes="N=6").run(module_of(by_rows_and_sum, SPECS))


@pytest.mark.parametrize("guard", ["N >= 2", "N >= 2 [M-2] nn.conv"])
def test_the_verifier_refuses_guards_that_say_nothing(guard):
    module = parse_module(f'func @main(%x: tensor<Nxf32>) -> tensor<Nxf32> attributes {{guards = ["{guard}"]}} {{\n  return %x\n}}')
    assert [fault.code for fault in find_faults(module)] == ["E0222"]


def test_the_page_shows_what_its_example_prints(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```(python|text)\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    program, shown = blocks[0][1], [text for language, text in blocks if language == "text"]
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(program, encoding="utf-8")
    scope: dict[str, object] = {"__name__": "__main__"}
    exec(compile(program, "net.py", "exec"), scope)
    assert capsys.readouterr().out.startswith(shown[0].rstrip())
    exec(compile(blocks[2][1], "page.py", "exec"), scope)
    assert capsys.readouterr().out.startswith(shown[1].rstrip())
    with pytest.raises(CallError) as error:
        exec(compile(blocks[4][1], "page.py", "exec"), scope)
    assert str(error.value) == shown[2].rstrip()
    assert run_command(["inspect", "net.py:Net", "--constraints"]) == 0
    assert "expects N to be divisible by 4  nn.reshape at " in capsys.readouterr().out
    (place,) = (i for i, (_, text) in enumerate(blocks) if "def doubled_if_many" in text)
    Path("net.py").write_text(blocks[place][1], encoding="utf-8")
    linecache.checkcache()
    exec(compile(blocks[place][1], "net.py", "exec"), scope)
    assert capsys.readouterr().out == blocks[place + 1][1]
