"""`paddle.inference`: what Paddle 3.3.1 and 2.6.2 said of the same model (`fixtures/make_inference.py`), and what is refused."""

from __future__ import annotations

import inspect
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import inference

FIXTURES = Path(__file__).parents[1] / "fixtures"
SAID = json.loads((FIXTURES / "inference.json").read_text())
MODELS = {"3.3.1": ("serving", ".json"), "2.6.2": ("serving_legacy", ".pdmodel")}


def config_of(version: str = "3.3.1") -> inference.Config:
    name, suffix = MODELS[version]
    return inference.Config(str(FIXTURES / "models" / (name + suffix)), str(FIXTURES / "models" / f"{name}.pdiparams"))


def given(version: str = "3.3.1") -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.array(SAID[version]["x"], "float32"), np.array(SAID[version]["ids"], "int64")


@pytest.mark.parametrize("version", MODELS)
def test_serving_code_runs_with_the_import_changed(version: str) -> None:
    config, said = config_of(version), SAID[version]
    config.disable_glog_info()
    config.enable_memory_optim()
    config.switch_ir_optim(True)
    config.switch_use_feed_fetch_ops(False)
    config.switch_specify_input_names(True)
    config.enable_mkldnn()
    config.disable_gpu()
    predictor = inference.create_predictor(config)
    assert (predictor.get_input_names(), predictor.get_output_names()) == (said["inputs"], said["outputs"])
    x, ids = given(version)
    handle = predictor.get_input_handle("x")
    handle.reshape([2, 4])
    handle.copy_from_cpu(x)
    predictor.get_input_handle("ids").copy_from_cpu(ids)
    x[:] = 0  # the handle has a copy
    assert predictor.run() is None
    outputs = [predictor.get_output_handle(name) for name in predictor.get_output_names()]
    for output, wanted in zip(outputs, said["values"], strict=True):
        np.testing.assert_allclose(output.copy_to_cpu(), wanted, rtol=1e-6)
    assert [output.shape() for output in outputs] == [[2, 3], [2]]
    assert [output.type() for output in outputs] == [inference.DataType.FLOAT32, inference.DataType.INT64]
    assert outputs[0].lod() == []
    # The other form, and other sizes.
    first, second = predictor.run([paddle.to_tensor(given(version)[0]), paddle.to_tensor(ids)])
    np.testing.assert_allclose(first.numpy(), said["values"][0], rtol=1e-6)
    assert second.numpy().tolist() == said["values"][1] and first.stop_gradient
    handle.copy_from_cpu(np.ones((5, 4), "float32"))
    predictor.get_input_handle("ids").copy_from_cpu(np.zeros(5, "int32"))  # fewer bits than the model's
    predictor.run()
    assert outputs[0].copy_to_cpu().shape == (5, 3)


@pytest.mark.parametrize("version", MODELS)
def test_all_names_of_paddle_are_here(version: str) -> None:
    for kind, names in SAID[version]["names"].items():
        ours = set(dir(getattr(inference, kind))) | ({"name", "value"} if kind.endswith("Type") else set())
        assert not set(names) - ours, kind
    assert {m.name: m.value for m in inference.DataType}["BFLOAT16"] == 8 and int(inference.DataType.INT64) == 1
    assert str(inference.DataType.FLOAT32) == "PaddleDType.FLOAT32" and inference.Config.Precision is inference.PrecisionType
    # A switch has Paddle's parameters, and holds a call to them.
    assert list(inspect.signature(inference.Config.switch_ir_debug).parameters) == ["self", "x", "passes"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        config_of().enable_memory_optim(y=1)


def test_what_was_set_is_told() -> None:
    config = config_of()
    assert (config.ir_optim(), config.mkldnn_enabled(), config.use_gpu(), config.cpu_math_library_num_threads()) == (True, True, False, 1)
    config.switch_ir_optim(False)
    config.disable_onednn()
    assert (config.ir_optim(), config.mkldnn_enabled(), config.onednn_enabled()) == (False, False, False)
    assert "serving.json" in config.summary() and config.prog_file().endswith("serving.json")
    builder = config.pass_builder()
    builder.append_pass("fc_fuse_pass")
    config.delete_pass("fc_fuse_pass")
    assert config.pass_builder().all_passes() == []
    assert inference.get_version() == f"version: {paddle.__version__}\n" and inference.get_trt_compile_version() == (0, 0, 0)
    assert [inference.get_num_bytes_of_data_type(t) for t in (inference.DataType.BOOL, inference.DataType.BFLOAT16)] == [1, 2]


def test_a_model_is_named_by_its_files_its_folder_or_its_bytes(tmp_path: Path) -> None:
    for end in (".json", ".pdiparams"):
        shutil.copy(FIXTURES / "models" / f"serving{end}", tmp_path / f"net{end}")
    shutil.copy(tmp_path / "net.pdiparams", tmp_path / "other.bin")
    data = [(tmp_path / f"net{end}").read_bytes() for end in (".json", ".pdiparams")]
    in_memory, by_parts = inference.Config(), inference.Config()
    in_memory.set_model_buffer(data[0] + b"more", len(data[0]), data[1], len(data[1]))
    by_parts.set_prog_file(str(tmp_path / "net.json"))
    by_parts.set_params_file(str(tmp_path / "other.bin"))
    assert in_memory.model_from_memory() and not by_parts.model_from_memory()
    x, ids = given()
    for config in (inference.Config(str(tmp_path), "net"), inference.Config(str(tmp_path / "net")), in_memory, by_parts):
        (scores, _) = inference.create_predictor(config).run([paddle.to_tensor(x), paddle.to_tensor(ids)])
        np.testing.assert_allclose(scores.numpy(), SAID["3.3.1"]["values"][0], rtol=1e-6)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda c, p: c.enable_use_gpu(100, 0), r"without enable_use_gpu\(\): predictors run on the processor"),
        (lambda c, p: c.enable_tensorrt_engine(precision_mode=inference.PrecisionType.Half), "TensorRT is not here"),
        (lambda c, p: c.enable_mkldnn_int8({"conv2d"}), "polyreme quantize"),
        (lambda c, p: inference.create_predictor(inference.Config()), "expected a model in the configuration"),
        (lambda c, p: inference.create_predictor(inference.Config("no.json", "no.pdiparams")), "there is no 'no.json'"),
        (lambda c, p: p.get_input_handle("y"), r"expected an input \(x, ids\) but got 'y'"),
        (lambda c, p: p.get_output_handle("y"), "expected an output"),
        (lambda c, p: p.get_output_handle("fetch_name_0").copy_to_cpu(), r"expected run\(\) of its predictor before"),
        (lambda c, p: p.get_output_handle("fetch_name_0").reshape([1]), "is an output"),
        (lambda c, p: p.run(), r"expected data for the input 'x': call copy_from_cpu\(\)"),
        (lambda c, p: p.run([paddle.ones([2, 4])]), r"expected 2 inputs \(x, ids\) but got 1"),
        (lambda c, p: p.run([paddle.ones([2, 4]), paddle.ones([2])]), "expected int64 for the input 'ids' but got float32"),
        (lambda c, p: p.run([paddle.ones([2, 3]), paddle.to_tensor([0, 1])]), "expected 4 on axis 1 but got 3"),
        (lambda c, p: p.run([paddle.ones([2, 4]), paddle.to_tensor([0, 6])]), "from 0 to 5 but got 0 to 6"),
        (lambda c, p: p.get_input_handle("x").reshape([2, -1]), "expected sizes from 0 on"),
        (lambda c, p: p.get_input_handle("x").copy_from_cpu(["a"]), "but got texts"),
        (lambda c, p: p.register_output_hook(print), "operators are fused"),
        (lambda c, p: inference.PredictorPool(c, 0), "at least one predictor"),
        (lambda c, p: inference.PredictorPool(c, 2).retrieve(2), "from 0 to 1 but got 2"),
    ],
)
def test_what_is_wrong_is_told(what: Any, message: str) -> None:
    config = config_of()
    with pytest.raises(inference.InferenceError, match=message):
        what(config, inference.create_predictor(config))


def test_a_shared_tensor_is_read_when_the_model_runs() -> None:
    predictor = inference.create_predictor(config_of())
    x, ids = map(paddle.to_tensor, given())
    handle = predictor.get_input_handle("x")
    handle.share_external_data(x)
    predictor.get_input_handle("ids").share_external_data(ids)
    assert handle.shape() == [2, 4] and handle.type() is inference.DataType.FLOAT32
    x[:] = 0.5
    predictor.run()
    (expected, _) = predictor.run([paddle.full([2, 4], 0.5), ids])
    np.testing.assert_array_equal(predictor.get_output_handle("fetch_name_0").copy_to_cpu(), expected.numpy())
    handle.copy_from_cpu(np.zeros((2, 4), "float32"))
    assert not handle.copy_to_cpu().any() and x.numpy().all()


def test_a_wrong_id_is_told_at_once() -> None:
    predictor = inference.create_predictor(config_of())
    predictor._model.read_for = lambda specs: pytest.fail("the model was read again for these sizes")
    for ids in ([0, 6], [-1, 0]):
        with pytest.raises(inference.InferenceError, match="from 0 to 5"):
            predictor.run([paddle.ones([2, 4]), paddle.to_tensor(ids)])


def test_levels_of_detail_are_kept_and_not_passed_over() -> None:
    predictor = inference.create_predictor(config_of())
    for name, array in zip(("x", "ids"), given(), strict=True):
        predictor.get_input_handle(name).copy_from_cpu(array)
    predictor.get_input_handle("x").set_lod([[0, 1, 2]])
    assert predictor.get_input_handle("x").lod() == [[0, 1, 2]]
    with pytest.raises(inference.InferenceError, match="expected no levels of detail on 'x'"):
        predictor.run()


def test_clones_run_at_the_same_time_over_many_shapes() -> None:
    pool = inference.PredictorPool(config_of(), 4)
    assert pool.retrieve(0)._model is pool.retrive(3)._model
    layer = paddle.jit.load(str(FIXTURES / "models" / "serving"))
    wanted = {}
    for rows in range(1, 8):
        x, ids = np.full((rows, 4), rows, "float32"), np.arange(rows) % 6
        wanted[rows] = x, ids, layer(paddle.to_tensor(x), paddle.to_tensor(ids))[0].numpy()
    faults: list[Any] = []

    def serve(number: int) -> None:
        try:
            predictor = pool.retrieve(number)
            for i in range(60):
                x, ids, scores = wanted[1 + (i * (number + 1)) % 7]
                predictor.get_input_handle("x").copy_from_cpu(x)
                predictor.get_input_handle("ids").copy_from_cpu(ids)
                predictor.run()
                np.testing.assert_array_equal(predictor.get_output_handle("fetch_name_0").copy_to_cpu(), scores)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults
