"""Models that Paddle 3.3.1 saved, in both of its formats: they load, compute what Paddle computes, compile, and stay usable as Layers."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command as run
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify
from polyreme.loaders import read_model
from polyreme.loaders.errors import LoaderError
from polyreme.runtime.errors import CallError
from polyreme.static import InputSpec
from tests.frontend.static_mode import static_mode

MODELS = Path(__file__).parents[1] / "fixtures" / "models"
FORMATS = ["pir", "legacy"]
NETWORKS = ["lenet", "mlp", "mobilenet", "resize"]
OPERATORS = ["activations", "arithmetic", "shapes", "layers"]


def expected(name, format_):
    """Inputs, and the outputs that the program of this format has."""
    values = np.load(MODELS / f"{name}.npz")
    inputs = [values[f"x{i}"] for i in range(sum(key.startswith("x") for key in values))]
    return inputs, [values[f"y{i}"] for i in values[format_]]


def assert_agrees(made, wanted, tolerance=1e-5):
    """Within `tolerance` of the largest element, whole numbers and bools exactly."""
    assert made.shape == wanted.shape and made.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(made, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())
    else:
        np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_agrees_with_paddle(name, format_):
    module = read_model(MODELS / format_ / name).frozen()
    verify(module)
    inputs, (y,) = expected(name, format_)
    assert_agrees(evaluate(module, inputs)[0], y)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_compiles_into_a_library_that_agrees(name, format_, tmp_path):
    library = paddle.compile(paddle.jit.load(MODELS / format_ / name), tmp_path / f"{name}.so")
    (x,), (y,) = expected(name, format_)
    for rows in (slice(None), slice(1)):
        assert_agrees(library(x[rows]), y[rows])


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_agrees_with_paddle(name, format_):
    module = read_model(MODELS / format_ / name).frozen()
    verify(module)
    inputs, outputs = expected(name, format_)
    made = evaluate(module, inputs)
    assert len(made) == len(outputs) + len(inputs)
    for array, wanted in zip(made, outputs, strict=False):
        assert_agrees(array, wanted, 1e-6)


def test_sizes_that_must_be_equal_become_one_symbol():
    traced = read_model(MODELS / "pir" / "encoder")
    assert [str(t) for t in traced.inputs] == ["tensor<Nxwords_1xi64>"] * 2
    assert [guard.split(" [")[0] for guard in traced.func.guards] == ["kinds_0 == N", "kinds_1 == words_1"]
    inputs, (y,) = expected("encoder", "pir")
    assert_agrees(evaluate(traced.frozen(), inputs)[0], y)


def test_a_call_whose_sizes_the_program_does_not_take_gets_one_that_is_read_for_them():
    model = paddle.jit.load(MODELS / "pir" / "encoder")
    words = paddle.to_tensor(np.arange(12).reshape(3, 4) % 5)
    kinds, row = words % 2, words[:1] % 2

    def same(a, b):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)

    for scale in (1.0, 2.0):
        # With the weights of the Layer, whatever becomes of these.
        weight = model.parameters()[0]
        weight.set_value(weight * scale)
        same(model(words, row), model(words, row.expand([3, 4])))
        model(words, row).sum().backward()
        got = weight.grad.clone()
        model.clear_gradients()
        model(words, row.expand([3, 4])).sum().backward()
        same(got, weight.grad)
        model.clear_gradients()
    assert model(words, kinds).shape == [3, 4, 8] and len(model._sized) == 1
    with pytest.raises(CallError, match="expected kinds_0 to be equal to N .* but got 2, axis 0 of the input 'kinds', where N is 3"):
        model(words, kinds[:2])


def test_every_free_size_of_an_image_stays_free():
    net = paddle.jit.load(MODELS / "legacy" / "resize")
    assert str(net.input_spec[0]) == "tensor<Nx3x(x_2)x(x_3)xf32>"
    assert list(net(paddle.ones([1, 3, 4, 6])).shape) == [1, 4, 8, 12]


def test_both_formats_become_the_same_program():
    ops = [[op.name for op in read_model(MODELS / format_ / "mlp").func.block.ops] for format_ in FORMATS]
    assert ops[0] == ops[1]


def test_a_loaded_module_reads_back_from_its_text():
    module = read_model(MODELS / "pir" / "lenet").module()
    text = print_module(module)
    assert print_module(parse_module(text)) == text


def test_free_sizes_become_symbols_and_any_batch_runs():
    net = paddle.jit.load(MODELS / "pir" / "mlp.json")
    assert str(net.input_spec[0]) == "tensor<Nx8x8xf32>"
    (x,), (y,) = expected("mlp", "pir")
    assert_agrees(net(paddle.to_tensor(x[:1])).numpy(), y[:1])


def test_a_spec_fixes_a_size_or_names_it():
    named = read_model(MODELS / "legacy" / "mlp.pdmodel", specs=[InputSpec(["rows", 8, 8], "float32")])
    assert str(named.inputs[0]) == "tensor<rowsx8x8xf32>"
    fixed = read_model(MODELS / "pir" / "mlp", specs=[InputSpec([5, 8, 8], "float32", "x")])
    assert str(fixed.func.block.terminator.operands[0].type) == "tensor<5x10xf32>"
    with pytest.raises(LoaderError, match="expected the input .* but got"):
        read_model(MODELS / "pir" / "mlp", specs=[InputSpec([5, 8, 9], "float32", "x")])


def test_ops_say_which_operator_and_layer_they_come_from():
    block = read_model(MODELS / "pir" / "lenet").func.block
    assert str(block.ops[0].location) == "/Sequential/Conv2D/pd_op.conv2d"
    block = read_model(MODELS / "legacy" / "lenet").func.block
    assert str(block.ops[0].location) == "conv2d"


def test_a_loaded_model_trains_further():
    net = paddle.jit.load(MODELS / "pir" / "mlp")
    (x,), (y,) = expected("mlp", "pir")
    weight = net.parameters()[0]
    before = weight.numpy().copy()
    optimizer = paddle.optimizer.SGD(0.5, parameters=net.parameters())
    losses = []
    for _ in range(3):
        loss = ((net(paddle.to_tensor(x)) - paddle.to_tensor(y[::-1].copy())) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    assert losses[2] < losses[0] and not np.array_equal(weight.numpy(), before)


def test_a_loaded_model_is_saved_again_and_becomes_part_of_another(tmp_path):
    net = paddle.jit.load(MODELS / "legacy" / "mlp")
    paddle.jit.save(net, tmp_path / "again")
    (x,), (y,) = expected("mlp", "legacy")
    assert_agrees(paddle.jit.load(tmp_path / "again")(paddle.to_tensor(x)).numpy(), y)
    doubled = paddle.jit.to_static(lambda v: net(v) * 2)
    assert_agrees(doubled(paddle.to_tensor(x)).numpy(), y * 2)


def test_parameters_may_stand_elsewhere_and_in_a_file_each(tmp_path):
    from polyreme.loaders.pdiparams import read_parameters, write_parameters
    from polyreme.loaders.program_desc import read_program

    (x,), (y,) = expected("mlp", "legacy")
    shutil.copy(MODELS / "legacy" / "mlp.pdmodel", tmp_path / "mlp.pdmodel")
    with pytest.raises(FileNotFoundError, match="expected the model's parameters"):
        paddle.jit.load(tmp_path / "mlp")
    moved = paddle.jit.load(tmp_path / "mlp", params_filename=MODELS / "legacy" / "mlp.pdiparams")
    assert_agrees(moved(paddle.to_tensor(x)).numpy(), y)
    folder = tmp_path / "old"
    folder.mkdir()
    program = (MODELS / "legacy" / "mlp.pdmodel").read_bytes()
    (folder / "__model__").write_bytes(program)
    for name, array in read_parameters(MODELS / "legacy" / "mlp.pdiparams", read_program(program).parameters()).items():
        write_parameters(folder / name, {name: array})
    assert_agrees(paddle.jit.load(folder)(paddle.to_tensor(x)).numpy(), y)


# --- the command line


@pytest.mark.parametrize("model", ["pir/mlp.json", "legacy/mlp.pdmodel", "pir/mlp"])
def test_the_command_line_inspects_compiles_and_runs(model, tmp_path, capsys):
    assert run(["inspect", str(MODELS / model)]) == 0
    shown = capsys.readouterr().out
    assert "nn.matmul" in shown and ".w_0: tensor<64x24xf32>" in shown
    library = tmp_path / "mlp.so"
    assert run(["compile", str(MODELS / model), "-o", str(library)]) == 0
    (x,), (y,) = expected("mlp", model.split("/")[0])
    np.save(tmp_path / "x.npy", x)
    for runnable in (MODELS / model, library):
        assert run(["run", str(runnable), "--input", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "y.npy")]) == 0
        assert_agrees(np.load(tmp_path / "y.npy"), y)


def test_the_command_line_names_sizes_of_a_loaded_model(capsys):
    assert run(["inspect", str(MODELS / "pir" / "mlp"), "--input", "x=f32[rows,8,8]"]) == 0
    assert "tensor<rowsx8x8xf32>" in capsys.readouterr().out


def test_the_command_line_reports_a_damaged_model(tmp_path, capsys):
    (tmp_path / "bad.json").write_bytes((MODELS / "pir" / "mlp.json").read_bytes()[:999])
    assert run(["inspect", str(tmp_path / "bad.json")]) == 1
    assert "bad.json: at byte 999: expected JSON" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["branches", "branches_legacy"])
def test_models_with_branches_and_loops_give_what_paddle_gives(tmp_path, name):
    """In process, and as a library, which has no Python."""
    wanted = np.load(MODELS / "control" / f"{name}.npz")
    model = paddle.jit.load(str(MODELS / "control" / name))
    library = paddle.compile(model, tmp_path / "branches.so")
    for k in range(4):
        x, n = wanted[f"x{k}"], wanted[f"n{k}"]
        for y, i in (model(paddle.to_tensor(x), paddle.to_tensor(n)), library.run([x, n])):
            np.testing.assert_allclose(np.asarray(y), wanted[f"y{k}"], rtol=1e-5, atol=1e-5)
            assert np.asarray(i).tolist() == wanted[f"i{k}"].tolist()


def test_a_name_that_only_a_loop_gives_a_value_may_be_declared_as_what_it_becomes(tmp_path):
    """Paddle's translator of Python fills such a variable with a certain number in front of the loop."""
    with static_mode() as (main, _):
        block = main.global_block()
        x = paddle.static.data("x", [-1, 3])
        y, i, n = paddle.assign(x), paddle.full([1], 0, "int64"), paddle.full([1], 2, "int64")
        again = paddle.less_than(i, n)
        made = block.create_var(name="made", dtype="float32", shape=[1])
        block.append_op("assign_value", {}, {"Out": made}, {"dtype": 5, "shape": [1], "fp32_values": [1.77113e27]})
        body = main.create_block()
        body.append_op("scale", {"X": y}, {"Out": made}, {"scale": 2.0})
        body.append_op("assign", {"X": made}, {"Out": y}, {})
        body.append_op("increment", {"X": i}, {"Out": i}, {"step": 1.0})
        body.append_op("less_than", {"X": i, "Y": n}, {"Out": again})
        main.rollback()
        block.append_op("while", {"X": [], "Condition": again}, {"Out": [y, made]}, {"sub_block": body})
        executor, feed = paddle.static.Executor(), np.ones((2, 3), np.float32)
        (found,) = executor.run(main, {"x": feed}, [y])
        paddle.static.save_inference_model(str(tmp_path / "net"), [x], [y], executor, program=main)
    loaded = paddle.jit.load(str(tmp_path / "net.pdmodel"))
    for result in (found, loaded(paddle.to_tensor(feed)).numpy()):
        np.testing.assert_array_equal(result, feed * 4)
