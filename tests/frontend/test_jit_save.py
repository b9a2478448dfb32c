"""`jit.save` and `jit.load`: one file, data only, checked."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.ir.diagnostics import PolyremeError
from polyreme.jit import reading
from polyreme.jit.reading import ModelFileError
from polyreme.static import InputSpec

SPEC = [InputSpec([None, 4], "float32", "x")]


def net(seed: int = 0) -> Any:
    paddle.seed(seed)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 2))


def images(count: int = 3) -> Any:
    return paddle.to_tensor(np.random.default_rng(0).standard_normal((count, 4)).astype("float32"))


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Any, Path]:
    layer = net()
    paddle.jit.save(layer, tmp_path / "model", input_spec=SPEC)
    return layer, tmp_path / "model"


def test_a_loaded_model_computes_what_the_saved_one_does_in_evaluation(saved: tuple[Any, Path]) -> None:
    layer, path = saved
    assert layer.training, "saving leaves the mode as it was"
    layer.eval()
    loaded = paddle.jit.load(path)
    for count in (3, 1, 0):
        np.testing.assert_allclose(loaded(images(count)).numpy(), layer(images(count)).numpy(), rtol=1e-5, atol=1e-6)


def test_parameters_keep_their_names(saved: tuple[Any, Path]) -> None:
    layer, path = saved
    loaded = paddle.jit.load(path)
    assert list(loaded.state_dict()) == list(layer.state_dict())
    other = net(seed=9)
    loaded.set_state_dict(other.state_dict())
    other.eval()
    np.testing.assert_allclose(loaded(images()).numpy(), other(images()).numpy(), rtol=1e-5, atol=1e-6)


def test_a_loaded_model_can_be_trained(saved: tuple[Any, Path]) -> None:
    loaded = paddle.jit.load(saved[1])
    sgd = paddle.optimizer.SGD(0.1, parameters=loaded.parameters())
    losses = []
    for _ in range(5):
        loss = nn.functional.cross_entropy(loaded(images()), paddle.to_tensor([0, 1, 1]))
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < losses[0]


def test_a_loaded_model_can_be_saved_again(saved: tuple[Any, Path], tmp_path: Path) -> None:
    loaded = paddle.jit.load(saved[1])
    paddle.jit.save(loaded, tmp_path / "again")
    np.testing.assert_array_equal(paddle.jit.load(tmp_path / "again")(images()).numpy(), loaded(images()).numpy())


def test_a_loaded_model_can_be_part_of_another(saved: tuple[Any, Path]) -> None:
    loaded = paddle.jit.load(saved[1])
    function = paddle.jit.to_static(lambda x: loaded(x * 2) + 1)
    np.testing.assert_allclose(function(images()).numpy(), (loaded(images() * 2) + 1).numpy(), rtol=1e-5, atol=1e-6)


def test_equal_models_give_equal_files(saved: tuple[Any, Path], tmp_path: Path) -> None:
    paddle.jit.save(saved[0], tmp_path / "twin", input_spec=SPEC)
    assert (tmp_path / "twin.polyreme").read_bytes() == (tmp_path / "model.polyreme").read_bytes()


def test_functions_are_saved_with_the_nesting_of_their_results(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return {"double": x * 2, "rest": [x + 1, "text", (x,)]}

    paddle.jit.save(paddle.jit.to_static(function, input_spec=SPEC), tmp_path / "f")
    result = paddle.jit.load(tmp_path / "f")(images())
    np.testing.assert_allclose(result["double"].numpy(), images().numpy() * 2)
    assert result["rest"][1] == "text" and isinstance(result["rest"][2], tuple)


def test_the_text_inside_is_the_nn_module(saved: tuple[Any, Path]) -> None:
    with zipfile.ZipFile(f"{saved[1]}.polyreme") as archive:
        text = archive.read("module.tir").decode()
    assert "nn.linear" in text and "nn.dropout" not in text
    assert paddle.jit.load(saved[1]).program() == text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing.polyreme"):
        paddle.jit.load(tmp_path / "nothing")


def change(path: Path, part: str, edit: Callable[[bytes], bytes | None]) -> None:
    """Rewrite the archive with one part changed, or left out for None."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    edited = edit(parts.pop(part))
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
        if edited is not None:
            archive.writestr(part, edited)


def array_bytes(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    "part, edit, message",
    [
        ("manifest.json", lambda data: None, "wrong or missing part"),
        ("manifest.json", lambda data: data[: len(data) // 2], "wrong or missing part"),
        ("manifest.json", lambda data: json.dumps({**json.loads(data), "format": 99}).encode(), "format 99"),
        ("manifest.json", lambda data: json.dumps({**json.loads(data), "sources": [0]}).encode(), "a source for each"),
        ("manifest.json", lambda data: json.dumps({**json.loads(data), "outputs": {"value": 1}}).encode(), "outputs"),
        ("manifest.json", lambda data: b"[]", "wrong or missing part"),
        ("manifest.json", lambda data: b"\xff" + data, "text in UTF-8"),
        ("module.tir", lambda data: None, "wrong or missing part"),
        ("module.tir", lambda data: data.replace(b"nn.relu", b"nn.rellu"), "did you mean"),
        ("tensors/0.npy", lambda data: None, "wrong or missing part"),
        ("tensors/0.npy", lambda data: data[:-8], "wrong or missing part"),
        ("tensors/0.npy", lambda data: array_bytes(np.zeros((4, 6), "float32")), "expected a tensor of type"),
        ("tensors/0.npy", lambda data: array_bytes(np.zeros((4, 5), "float64")), "expected float32"),
        ("tensors/0.npy", lambda data: array_bytes(np.array([print], dtype=object)), "wrong or missing part"),
    ],
)
def test_damage_is_found_and_named(saved: tuple[Any, Path], part: str, edit: Any, message: str) -> None:
    file = Path(f"{saved[1]}.polyreme")
    change(file, part, edit)
    with pytest.raises(PolyremeError, match=message):
        paddle.jit.load(saved[1])


def test_a_failure_of_the_reader_is_not_told_as_damage(saved: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        return int("a fault of ours")

    monkeypatch.setattr(reading, "array_in", fails)
    with pytest.raises(ValueError, match="a fault of ours") as caught:
        reading.read_model(saved[1])
    assert not isinstance(caught.value, PolyremeError)


@pytest.mark.parametrize("size", [0, 10, 200, -1])
def test_a_truncated_file_is_refused(saved: tuple[Any, Path], size: int) -> None:
    file = Path(f"{saved[1]}.polyreme")
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ModelFileError, match="damaged"):
        paddle.jit.load(saved[1])


def test_a_changed_byte_is_refused(saved: tuple[Any, Path]) -> None:
    """Anywhere in the parts: the archive has a checksum of each."""
    file = Path(f"{saved[1]}.polyreme")
    whole = file.read_bytes()
    at = whole.index(b"nn.relu")
    file.write_bytes(whole[:at] + b"X" + whole[at + 1 :])
    with pytest.raises(PolyremeError):
        paddle.jit.load(saved[1])


def test_a_failed_save_leaves_the_old_file(saved: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(f"{saved[1]}.polyreme")
    before = file.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        paddle.jit.save(net(seed=4), saved[1], input_spec=SPEC)
    assert file.read_bytes() == before
    assert [p.name for p in file.parent.iterdir()] == [file.name]


def test_unknown_options_are_refused(saved: tuple[Any, Path]) -> None:
    with pytest.raises(ValueError, match="'colour'"):
        paddle.jit.save(saved[0], saved[1], input_spec=SPEC, colour="red")


@pytest.mark.parametrize("compiled", [False, True])
def test_hooks_of_the_saved_layer_are_part_of_what_is_saved(tmp_path: Path, compiled: bool) -> None:
    layer = nn.Linear(2, 2, weight_attr=nn.initializer.Constant(0.5))
    layer.register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1,))
    layer.register_forward_post_hook(lambda layer, inputs, output: output * 10)
    if compiled:
        layer = paddle.jit.to_static(layer)
    expected = layer(paddle.ones([3, 2]))
    paddle.jit.save(layer, tmp_path / "hooked", input_spec=[InputSpec([None, 2], "float32")])
    assert paddle.jit.load(tmp_path / "hooked")(paddle.ones([3, 2])).tolist() == expected.tolist() == [[20.0, 20.0]] * 3


def test_a_layer_that_was_called_is_saved_without_a_spec_as_it_was_called_last(tmp_path: Path) -> None:
    class Scaled(nn.Layer):
        def forward(self, x: Any, pair: Any, factor: float = 1.0) -> Any:
            return {"y": x * factor + pair["shift"]}

    layer = paddle.jit.to_static(Scaled())
    with pytest.raises(PolyremeError, match="expected an input_spec"):
        paddle.jit.save(layer, tmp_path / "called")
    layer(paddle.ones([4]), {"shift": paddle.ones([4])})
    layer(paddle.ones([3]), {"shift": paddle.ones([3])}, factor=5.0)
    paddle.jit.save(layer, tmp_path / "called")
    loaded = paddle.jit.load(tmp_path / "called")
    assert loaded(paddle.ones([3]), {"shift": paddle.ones([3]) * 2})["y"].tolist() == [7.0, 7.0, 7.0]


class Flagged(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("flag", paddle.ones([], "bool"))

    def forward(self, x: Any) -> Any:
        if self.flag:
            x = x * 2
        return x + 0


def test_a_buffer_decides_in_a_saved_model_as_it_is_then(tmp_path: Path) -> None:
    paddle.jit.save(Flagged(), tmp_path / "model", input_spec=SPEC)
    loaded = paddle.jit.load(tmp_path / "model")
    for flag, factor in ((True, 2), (False, 1), (True, 2)):
        loaded.set_state_dict({"flag": paddle.to_tensor(flag)})
        np.testing.assert_array_equal(loaded(images()).numpy(), images().numpy() * factor)


class Scaled(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.scale = self.create_parameter([1])
        self.norm = nn.BatchNorm1D(4)

    def forward(self, x: Any) -> Any:
        return self.norm(x) * float(self.scale)


def test_it_is_said_that_a_saved_model_does_not_follow_a_parameter(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="polyreme.jit"):
        paddle.jit.save(net(), tmp_path / "plain", input_spec=SPEC)
        assert not caplog.records
        paddle.jit.save(Scaled(), tmp_path / "model", input_spec=SPEC)
    (said,) = caplog.messages
    assert said.startswith(f"{__file__}:") and "float() of 'scale': the program has what that is now" in said


def test_a_loaded_model_of_free_rows_trains_through_a_sum(tmp_path: Path) -> None:
    """The gradient of a sum is one number for all rows: a side of the product that has no stride along them."""

    class Words(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.linear = paddle.nn.Embedding(5, 3), paddle.nn.Linear(3, 2)

        def forward(self, ids: Any) -> Any:
            return self.linear(self.table(ids)).sum()

    net = Words()
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=[InputSpec([None, 4], "int64", "ids")])
    loaded = paddle.jit.load(str(tmp_path / "net"))
    ids = paddle.to_tensor([[0, 1, 2, 4], [4, 4, 0, 3]])
    for layer in (net, loaded):
        layer.train()
        layer(ids).backward()
    own = {name: p.grad.numpy() for name, p in net.named_parameters()}
    for name, parameter in loaded.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), own[name], rtol=1e-5)
