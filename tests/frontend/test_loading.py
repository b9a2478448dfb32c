"""`jit.load` of models that were run before: found by their files, read when more is asked of them than to run."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.compiled import kept
from polyreme.jit import reading
from polyreme.jit.reading import ModelFileError
from polyreme.lowering import pipeline
from polyreme.runtime.artifact import HEADER
from polyreme.runtime.cache import HEAD_BYTES, Cache, cache_in
from polyreme.static import InputSpec

SPEC = [InputSpec([None, 4], "float32", "x")]


def net(seed: int = 0) -> Any:
    paddle.seed(seed)
    layer = nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 3))
    layer.eval()
    return layer


def numbers(count: int = 3) -> Any:
    return np.random.default_rng(0).standard_normal((count, 4)).astype("float32")


class Counts:
    """What has been done since: models read, and modules compiled by name."""

    def __init__(self) -> None:
        self.read = 0
        self.compiled: list[str] = []


@pytest.fixture
def counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counts:
    """What is read and compiled, with an empty cache of the test's own."""
    found = Counts()
    read, compile_module = reading.read_model, pipeline.compile_module

    def counted_read(*args: Any) -> Any:
        found.read += 1
        return read(*args)

    def counted_compile(*args: Any, name: str = "model", **kwargs: Any) -> Any:
        found.compiled.append(name)
        return compile_module(*args, name=name, **kwargs)

    monkeypatch.setattr(reading, "read_model", counted_read)
    monkeypatch.setattr(pipeline, "compile_module", counted_compile)
    monkeypatch.setenv("POLYREME_CACHE", str(tmp_path / "cache"))
    forget(monkeypatch)
    return found


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: nothing in memory."""
    monkeypatch.setattr(kept, "_loaded", type(kept._loaded)())
    cache_in.cache_clear()


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that was run, and the cache that has it."""
    folder = tmp_path_factory.mktemp("used")
    layer = net()
    paddle.jit.save(layer, folder / "model", input_spec=SPEC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYREME_CACHE", str(folder / "cache"))
        forget(patch)
        # Sums are added up in another order than by the layers.
        np.testing.assert_allclose(
            result(paddle.jit.load(folder / "model")), layer(paddle.to_tensor(numbers())).numpy(), rtol=1e-5, atol=1e-6
        )
    return folder


@pytest.fixture
def path(used: Path, tmp_path: Path, counts: Counts) -> Path:
    """A saved model that was run before, by another process as it were."""
    shutil.copytree(used, tmp_path, dirs_exist_ok=True)
    return tmp_path / "model"


def result(model: Any) -> Any:
    return model(numbers()).numpy()


def models_kept(tmp_path: Path) -> list[Path]:
    """The entries of whole models in the cache."""
    entries = [p for p in (tmp_path / "cache").glob("??/*") if p.read_bytes()[HEAD_BYTES:].startswith(b"polyreme-model")]
    return sorted(entries)


def test_a_model_that_was_run_before_is_neither_read_nor_compiled(path: Path, counts: Counts) -> None:
    loaded = paddle.jit.load(path)
    np.testing.assert_allclose(result(loaded), net()(paddle.to_tensor(numbers())).numpy(), rtol=1e-5, atol=1e-6)
    assert [str(t) for t in loaded.input_spec] == ["tensor<x_0x4xf32>"] or loaded.input_spec[0].rank == 2
    assert list(loaded.state_dict()) == list(net().state_dict())
    assert [p.shape for p in loaded.parameters()] == [p.shape for p in net().parameters()]
    assert (counts.read, counts.compiled) == (0, [])


def test_to_run_such_a_model_takes_neither_compiler_nor_parser(path: Path) -> None:
    program = f"""
import sys
import numpy as np
import polyreme as paddle
model = paddle.jit.load({str(path)!r})
with paddle.no_grad():
    y = model(paddle.to_tensor(np.ones((2, 4), "float32")))
first = y.numpy()
COMPILER = ("llvmlite.binding", "lark", "polyreme.lowering", "polyreme.dialects")
assert not [name for name in sys.modules if name.startswith(COMPILER)], sorted(sys.modules)
# Methods are there when they are asked for.
assert float((y - first).abs().max()) == 0.0
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def test_what_is_traced_needs_neither_ranks_nor_their_processes() -> None:
    program = """
import sys
import polyreme as paddle
paddle.jit.to_static(lambda x: x * 2)(paddle.ones([2]))
unwanted = ("polyreme.distributed", "concurrent.futures", "multiprocessing")
assert not [name for name in sys.modules if name.startswith(unwanted)], sorted(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def test_weights_are_read_when_they_are_looked_at(path: Path, counts: Counts) -> None:
    loaded = paddle.jit.load(path)
    for name, tensor in loaded.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), net().state_dict()[name].numpy())
    assert counts.read == 1
    result(loaded)
    assert counts.compiled == [], "they are still those of the file"


def test_changed_weights_are_computed_with(path: Path) -> None:
    loaded, other = paddle.jit.load(path), net(seed=5)
    before = result(loaded)
    loaded.set_state_dict(other.state_dict())
    np.testing.assert_allclose(result(loaded), other(paddle.to_tensor(numbers())).numpy(), rtol=1e-5, atol=1e-6)
    # One of them, in place, of a model whose others were never read.
    again = paddle.jit.load(path)
    bias = again.parameters()[-1]
    bias.set_value(np.zeros(bias.shape, "float32"))
    np.testing.assert_allclose(result(again) + net().state_dict()["2.bias"].numpy(), before, rtol=1e-5, atol=1e-6)


def test_a_copy_of_a_model_is_a_model_of_its_own(path: Path) -> None:
    loaded = paddle.jit.load(path)
    twin = copy.deepcopy(loaded.parameters()[0])
    twin.set_value(np.zeros(twin.shape, "float32"))
    np.testing.assert_array_equal(result(loaded), result(paddle.jit.load(path)))


@pytest.mark.parametrize("trains", [False, True])
def test_a_model_that_was_never_read_can_be_trained(path: Path, counts: Counts, trains: bool) -> None:
    loaded, plain = paddle.jit.load(path), net()
    assert not loaded.training
    if trains:
        loaded.train()
    target = paddle.to_tensor(np.ones((3, 3), "float32"))
    for _ in range(3):
        losses = []
        for model in (loaded, plain):
            loss = ((model(paddle.to_tensor(numbers())) - target) ** 2).mean()
            loss.backward()
            losses.append(float(loss))
            sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
            sgd.step()
            sgd.clear_grad()
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for a, b in zip(loaded.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)


def test_gradients_with_weights_that_did_not_give_the_result_are_an_error(path: Path) -> None:
    """As in eager mode: they are changed between the result and the question."""
    for model in (paddle.jit.load(path), net()):
        y = model(paddle.to_tensor(numbers(), stop_gradient=False)).sum()
        model.set_state_dict(net(seed=8).state_dict())
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            y.backward()


def test_results_without_a_question_for_gradients_compile_nothing(path: Path, counts: Counts) -> None:
    y = paddle.jit.load(path)(numbers())
    assert not y.stop_gradient
    assert (counts.read, counts.compiled) == (0, [])


def test_a_model_is_read_whole_where_gradients_are_switched_off(path: Path) -> None:
    """A program says which values have gradients: not where it happens to be read."""
    with paddle.no_grad():
        loaded = paddle.jit.load(path)
        loaded.program()
    loaded(numbers()).sum().backward()
    assert all(float(p.grad.abs().max()) > 0 for p in loaded.parameters())


def test_a_file_with_other_weights_is_another_model(path: Path, counts: Counts) -> None:
    """Of equal size, and with the same time: the content decides."""
    file = Path(f"{path}.polyreme")
    status = file.stat()
    first = result(paddle.jit.load(path))
    paddle.jit.save(net(seed=3), path, input_spec=SPEC)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_size == status.st_size
    np.testing.assert_allclose(result(paddle.jit.load(path)), net(seed=3)(paddle.to_tensor(numbers())).numpy(), rtol=1e-5, atol=1e-6)
    assert counts.read == 1
    paddle.jit.save(net(), path, input_spec=SPEC)
    np.testing.assert_array_equal(result(paddle.jit.load(path)), first)
    assert counts.read == 1, "the first one is known"


def test_what_changed_since_it_was_loaded_is_not_mixed_up(path: Path) -> None:
    loaded = paddle.jit.load(path)
    expected = result(loaded)
    paddle.jit.save(net(seed=3), path, input_spec=SPEC)
    np.testing.assert_array_equal(result(loaded), expected)
    with pytest.raises(ModelFileError, match="changed since: load it again"):
        loaded.parameters()[0].numpy()
    Path(f"{path}.polyreme").unlink()
    with pytest.raises(ModelFileError, match="changed since"):
        loaded.program()


def test_a_file_that_changes_while_it_is_read_is_not_taken_for_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known under a digest is what was read of it."""
    read = reading.read_model
    paddle.jit.save(net(seed=6), path, input_spec=SPEC)

    def changing(*given: Any) -> Any:
        paddle.jit.save(net(seed=7), path, input_spec=SPEC)
        return read(*given)

    monkeypatch.setattr(reading, "read_model", changing)
    with pytest.raises(ModelFileError, match="changed since"):
        paddle.jit.load(path)
    monkeypatch.setattr(reading, "read_model", read)
    paddle.jit.save(net(seed=6), path, input_spec=SPEC)
    np.testing.assert_allclose(result(paddle.jit.load(path)), net(seed=6)(paddle.to_tensor(numbers())).numpy(), rtol=1e-5, atol=1e-6)


def test_another_version_of_the_package_reads_a_model_anew(path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an operator in a file means is the package's to say."""
    from polyreme.jit import loading

    monkeypatch.setattr(loading, "package_version", lambda: "another")
    result(paddle.jit.load(path))
    assert counts.read == 1 and len(counts.compiled) == 1


@pytest.mark.parametrize("part", [b"nn.linear", b"NUMPY", b"PK\5\6"])
def test_damage_to_a_known_file_is_found(path: Path, part: bytes) -> None:
    file = Path(f"{path}.polyreme")
    data = bytearray(file.read_bytes())
    data[data.rindex(part)] ^= 16
    file.write_bytes(data)
    with pytest.raises(ModelFileError):
        paddle.jit.load(path)


def test_a_known_file_that_was_cut_off_is_refused(path: Path) -> None:
    file = Path(f"{path}.polyreme")
    for size in (file.stat().st_size - 1, 100, 0):
        os.truncate(file, size)
        with pytest.raises(ModelFileError):
            paddle.jit.load(path)


@pytest.mark.parametrize("forks", [True, False])
def test_a_file_that_is_cut_off_while_it_is_compiled_is_an_error(tmp_path: Path, forks: bool) -> None:
    """Whoever reads mapped memory that is no longer there is ended by the system: the process that compiles, never the one of the user."""
    layer = nn.Sequential(*(part for _ in range(10) for part in (nn.Linear(200, 200), nn.ReLU())))
    layer.eval()
    paddle.jit.save(layer, tmp_path / "model", input_spec=[InputSpec([2, 200], "float32", "x")])
    program = f"""
import os
import numpy as np
import polyreme as paddle
from polyreme.jit.reading import ModelFileError
from polyreme.lowering.link import workers
from polyreme.lowering import pipeline
workers._may_fork = lambda: {forks}
compile_module = pipeline.compile_module
def cut_and_compile(*args, **options):
    os.truncate({str(tmp_path / "model.polyreme")!r}, 100)
    return compile_module(*args, **options)
pipeline.compile_module = cut_and_compile
loaded = paddle.jit.load({str(tmp_path / "model")!r})
try:
    loaded(np.zeros((2, 200), "float32"))
except ModelFileError as error:
    print("refused:", error)
"""
    env = {**os.environ, "POLYREME_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=100)
    assert done.returncode == 0 and "refused:" in done.stdout and "changed since" in done.stdout, (done.returncode, done.stderr)


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:40],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: _flipped(data, 3),
        lambda data: _flipped(data, HEAD_BYTES + HEADER.size + 9),  # in the manifest
        lambda data: _flipped(data, len(data) - 5),  # in the weights
        lambda data: bytes(len(data)),
    ],
)
def test_damaged_code_is_compiled_again(path: Path, tmp_path: Path, counts: Counts, damage: Any) -> None:
    (entry,) = models_kept(tmp_path)
    expected = net()(paddle.to_tensor(numbers())).numpy()
    damaged = damage(entry.read_bytes())
    # In a file of its own, as whoever mapped the old one still has it.
    entry.unlink()
    entry.write_bytes(damaged)
    np.testing.assert_allclose(result(paddle.jit.load(path)), expected, rtol=1e-5, atol=1e-6)
    assert len(counts.compiled) == 1
    assert len(models_kept(tmp_path)) == 1, "and kept"


def test_code_that_is_gone_is_compiled_again(path: Path, tmp_path: Path, counts: Counts) -> None:
    for entry in (tmp_path / "cache").glob("??/*"):
        entry.unlink()
    result(paddle.jit.load(path))
    assert counts.read == 1 and len(counts.compiled) == 1


def test_code_whose_linked_form_is_gone_is_linked_again(path: Path, tmp_path: Path, counts: Counts) -> None:
    for entry in (tmp_path / "cache").glob("??/*"):
        if entry.read_bytes()[HEAD_BYTES:].startswith(b"\x7fELF"):
            entry.unlink()
    result(paddle.jit.load(path))
    assert counts.compiled == []


def test_without_a_folder_models_are_read_and_run(path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = result(paddle.jit.load(path))
    monkeypatch.setenv("POLYREME_CACHE", "off")
    forget(monkeypatch)
    np.testing.assert_allclose(result(paddle.jit.load(path)), expected, rtol=1e-6)
    assert counts.read == 1


def test_a_model_too_large_for_the_folder_is_compiled_each_time(
    path: Path, tmp_path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = result(paddle.jit.load(path))
    (entry,) = models_kept(tmp_path)
    monkeypatch.setenv("POLYREME_CACHE_LIMIT", str(entry.stat().st_size - 1))
    entry.unlink()
    forget(monkeypatch)
    np.testing.assert_array_equal(result(paddle.jit.load(path)), expected)
    assert len(counts.compiled) == 1 and models_kept(tmp_path) == []


def test_of_a_model_with_weights_too_large_for_the_folder_its_code_is_kept(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    layer = nn.Linear(4, 100_000)
    paddle.jit.save(layer, tmp_path / "wide", input_spec=SPEC)
    monkeypatch.setenv("POLYREME_CACHE_LIMIT", "1MB")
    for _ in range(2):
        forget(monkeypatch)
        with paddle.no_grad():
            np.testing.assert_allclose(
                result(paddle.jit.load(tmp_path / "wide")), layer(paddle.to_tensor(numbers())).numpy(), rtol=1e-5, atol=1e-6
            )
    # Weights are drawn by compiled code, too, where nothing was drawn before.
    assert counts.compiled.count("Linear") == 1 and sum(p.stat().st_size for p in (tmp_path / "cache").glob("??/*")) < 1_000_000


def test_the_cache_tells_what_is_kept_of_a_model(path: Path) -> None:
    from polyreme.cli.cache import what
    from polyreme.ir import config

    kinds = {what(entry)[0] for entry in cache_in(config.cache_folder()).entries()}
    assert {"model", "linked", "program"} <= kinds and "unknown" not in kinds


def test_processes_that_load_a_model_at_once_give_the_same(tmp_path: Path) -> None:
    paddle.jit.save(net(), tmp_path / "model", input_spec=SPEC)
    program = f"""
import sys
import numpy as np
import polyreme as paddle
x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
sys.stdout.write(paddle.jit.load({str(tmp_path / "model")!r})(x).numpy().tobytes().hex())
"""
    env = {**os.environ, "POLYREME_CACHE": str(tmp_path / "cache")}
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=env) for _ in range(3)]
    results = [process.communicate(timeout=100)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(set(results)) == 1
    expected = net()(paddle.to_tensor(numbers())).numpy()
    np.testing.assert_allclose(np.frombuffer(bytes.fromhex(results[0]), "float32").reshape(3, 3), expected, rtol=1e-5, atol=1e-6)
    assert len(models_kept(tmp_path)) == 1


def test_models_of_paddles_are_known_too(counts: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from polyreme import loaders

    folder = Path(__file__).parents[1] / "fixtures" / "models" / "pir"
    for suffix in (".json", ".pdiparams"):
        (tmp_path / f"mlp{suffix}").write_bytes((folder / f"mlp{suffix}").read_bytes())
    x = np.random.default_rng(0).standard_normal((2, 8, 8)).astype("float32")
    first = paddle.jit.load(tmp_path / "mlp")(x).numpy()
    forget(monkeypatch)
    read = loaders.read_model
    monkeypatch.setattr(loaders, "read_model", lambda *_, **__: pytest.fail("there was no need to read it"))
    loaded = paddle.jit.load(tmp_path / "mlp")
    np.testing.assert_array_equal(loaded(x).numpy(), first)
    monkeypatch.setattr(loaders, "read_model", read)
    (loaded(x) ** 2).sum().backward()
    assert any(float(p.grad.abs().max()) > 0 for p in loaded.parameters())
    # Other parameters are another model.
    data = bytearray((tmp_path / "mlp.pdiparams").read_bytes())
    for at in range(1, 600, 4):
        data[-at] ^= 1
    (tmp_path / "mlp.pdiparams").write_bytes(data)
    assert not np.array_equal(paddle.jit.load(tmp_path / "mlp")(x).numpy(), first)


def test_a_second_compilation_of_a_network_is_found_as_a_whole(counts: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = paddle.compile(net(), tmp_path / "first.so", input_spec=SPEC)
    assert len(counts.compiled) == 1
    forget(monkeypatch)
    started = time.perf_counter()
    second = paddle.compile(net(), tmp_path / "second.so", input_spec=SPEC)
    assert time.perf_counter() - started < 60 and len(counts.compiled) == 1
    np.testing.assert_array_equal(first(numbers()), second(numbers()))
    assert second.name != first.name, "it has its own names"
    paddle.compile(net(seed=1), tmp_path / "other.so", input_spec=SPEC)
    assert len(counts.compiled) == 2


def test_the_library_of_a_loaded_model_is_made_of_what_runs_it(path: Path, counts: Counts, tmp_path: Path) -> None:
    loaded = paddle.jit.load(path)
    library = paddle.compile(loaded, tmp_path / "model.so")
    assert (counts.read, counts.compiled) == (0, [])
    np.testing.assert_array_equal(library(numbers()), result(loaded))
    loaded.set_state_dict(net(seed=4).state_dict())
    other = paddle.compile(loaded, tmp_path / "model.so")
    np.testing.assert_allclose(other(numbers()), net(seed=4)(paddle.to_tensor(numbers())).numpy(), rtol=1e-5, atol=1e-6)


def test_the_executable_of_a_model_has_the_weights_it_has_now(path: Path, counts: Counts) -> None:
    loaded = paddle.jit.load(path)
    np.testing.assert_array_equal(loaded.executable().run([numbers()])[0], result(loaded))
    assert counts.compiled == []
    loaded.set_state_dict(net(seed=4).state_dict())
    np.testing.assert_allclose(
        loaded.executable().run([numbers()])[0], net(seed=4)(paddle.to_tensor(numbers())).numpy(), rtol=1e-5, atol=1e-6
    )


def test_a_model_that_changes_while_it_is_compiled_is_not_kept(counts: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its weights are read where they lie: what came of a file that was written to meanwhile is neither run nor found again."""
    path = tmp_path / "model"
    paddle.jit.save(net(seed=1), path, input_spec=SPEC)
    compile_module = pipeline.compile_module

    def writing(*args: Any, **kwargs: Any) -> Any:
        # In place, as whoever does not use a new file.
        with open(f"{path}.polyreme", "r+b") as file:
            file.seek(-300, os.SEEK_END)
            file.write(b"another")
        return compile_module(*args, **kwargs)

    loaded = paddle.jit.load(path)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "compile_module", writing)
        with pytest.raises(ModelFileError, match="changed since: load it again"):
            result(loaded)
    assert models_kept(tmp_path) == []
    paddle.jit.save(net(seed=1), path, input_spec=SPEC)
    np.testing.assert_allclose(result(paddle.jit.load(path)), net(seed=1)(paddle.to_tensor(numbers())).numpy(), rtol=1e-5, atol=1e-6)


def test_weights_that_are_looked_at_are_not_those_of_the_file_any_more(counts: Counts, tmp_path: Path) -> None:
    """Whoever writes over the file afterwards does not change them."""
    path = tmp_path / "model"
    paddle.jit.save(net(), path, input_spec=SPEC)
    loaded = paddle.jit.load(path)
    weights = [p.numpy() for p in loaded.parameters()]
    with open(f"{path}.polyreme", "r+b") as file:
        file.write(bytes(os.path.getsize(file.name)))
    for tensor, weight, expected in zip(loaded.parameters(), weights, net().parameters(), strict=True):
        np.testing.assert_array_equal(weight, expected.numpy())
        np.testing.assert_array_equal(tensor.numpy(), expected.numpy())


def test_contents_begin_at_whole_cache_lines_of_the_file(tmp_path: Path) -> None:
    layer = nn.Sequential(nn.Linear(3, 7), nn.LayerNorm(7), nn.Linear(7, 5))
    paddle.jit.save(layer, tmp_path / "net", input_spec=[InputSpec([None, 3], "float32", "x")])
    mapped, read = (reading.read_model(tmp_path / "net", how) for how in (True, False))
    for a, b in zip(mapped.captured, read.captured, strict=True):
        assert a._value.ctypes.data % 64 == 0 and not a._value.flags.writeable
        np.testing.assert_array_equal(a._value, b._value)


def test_a_model_that_was_packed_by_another_program_is_read_all_the_same(counts: Counts, tmp_path: Path) -> None:
    paddle.jit.save(net(), tmp_path / "model", input_spec=SPEC)
    with (
        zipfile.ZipFile(tmp_path / "model.polyreme") as old,
        zipfile.ZipFile(tmp_path / "packed.polyreme", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    np.testing.assert_allclose(
        result(paddle.jit.load(tmp_path / "packed")), net()(paddle.to_tensor(numbers())).numpy(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root can write to")
def test_a_folder_that_nobody_can_write_to_is_done_without(path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = result(paddle.jit.load(path))
    monkeypatch.setenv("POLYREME_CACHE", "/proc/polyreme")
    forget(monkeypatch)
    with pytest.warns(RuntimeWarning, match="the cache folder '/proc/polyreme' is unusable"):
        np.testing.assert_array_equal(result(paddle.jit.load(path)), expected)
    assert len(counts.compiled) == 1


def test_an_entry_that_is_gone_before_it_is_mapped_is_made_again(
    path: Path, tmp_path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may clear the folder between the moment in which it took the entry and that in which it is looked for."""
    expected = result(paddle.jit.load(path))
    (entry,) = models_kept(tmp_path)
    entry.unlink()
    forget(monkeypatch)
    keep = Cache.keep

    def keep_and_clear(cache: Cache, *args: Any) -> bool:
        kept = keep(cache, *args)
        cache.clear()
        return kept

    monkeypatch.setattr(Cache, "keep", keep_and_clear)
    np.testing.assert_array_equal(result(paddle.jit.load(path)), expected)
    assert len(counts.compiled) == 2 and models_kept(tmp_path) == []


def test_a_disk_that_is_full_costs_time_only(tmp_path: Path) -> None:
    """Nothing of more than 256 KiB can be written, where the packed weights are 1.6 MB."""
    layer = nn.Sequential(*(part for _ in range(10) for part in (nn.Linear(200, 200), nn.ReLU())))
    layer.eval()
    paddle.jit.save(layer, tmp_path / "model", input_spec=[InputSpec([2, 200], "float32", "x")])
    program = f"""
import resource, sys, warnings
import numpy as np
import polyreme as paddle
resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, 256 << 10))
x = np.random.default_rng(0).standard_normal((2, 200)).astype("float32")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    y = paddle.jit.load({str(tmp_path / "model")!r})(x).numpy()
sys.stdout.write(y.tobytes().hex() + " " + "; ".join(str(w.message) for w in told))
"""
    env = {**os.environ, "POLYREME_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=100, check=True)
    found, told = done.stdout.split(" ", 1)
    x = np.random.default_rng(0).standard_normal((2, 200)).astype("float32")
    np.testing.assert_allclose(
        np.frombuffer(bytes.fromhex(found), "float32").reshape(2, 200), layer(paddle.to_tensor(x)).numpy(), rtol=1e-4, atol=1e-6
    )
    assert "is unusable, compiled code" in told
    assert models_kept(tmp_path) == [] and not list((tmp_path / "cache").rglob("*.tmp"))


def test_the_memory_report_of_a_loaded_model_is_of_the_code_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from polyreme.cli import run_command

    monkeypatch.setenv("POLYREME_CACHE", str(tmp_path / "cache"))
    layer = nn.Sequential(nn.Conv2D(3, 20, 3), nn.BatchNorm2D(20), nn.ReLU(), nn.Conv2D(20, 8, 3), nn.BatchNorm2D(8))
    layer.eval()
    paddle.jit.save(layer, tmp_path / "model", input_spec=[InputSpec([1, 3, 20, 20], "float32", "x")])
    loaded = paddle.jit.load(tmp_path / "model")
    report = paddle.inspect(loaded).memory
    assert report.arena_bytes == loaded.executable()._native_arena_bytes(0)
    # Of batch norms nothing is left, nor are weights arguments.
    assert set(report.arguments) == {"input", "constant", "output"}
    assert run_command(["inspect", str(tmp_path / "model"), "--memory"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == str(report).rstrip("\n")
