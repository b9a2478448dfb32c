"""Modules of WebAssembly: what they export, what their JavaScript takes and says, and a page in a browser. `pytest -m toolchain`, with Node
and lld; the page with Chromium.

That they compute what libraries do is tested for all targets in `test_machines.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command
from polyreme.ir.diagnostics import PolyremeError
from polyreme.runtime.errors import ArtifactError, CallError
from polyreme.runtime.library import load_compiled, read_library

nn = paddle.nn
Spec = paddle.static.InputSpec

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed"),
]


def module(net: Any, spec: list[Any], folder: Path, **options: Any) -> Path:
    """The model as `net.wasm`, with `net.mjs` beside it."""
    path = folder / "net.wasm"
    assert paddle.compile(net, path, input_spec=spec, **options) is None
    assert path.with_suffix(".mjs").is_file()
    return path


def node(folder: Path, code: str) -> Any:
    """What JavaScript with a loaded `net` gives to `tell`, as JSON has it."""
    head = """
import { load, Model, ModelError } from "./net.mjs";
import { readFileSync } from "node:fs";
const told = [];
const tell = (value) => told.push(value);
const of = ({ name, code, message }) => [name, code, message];
const fails = (call) => { try { call(); return "nothing"; } catch (error) { return of(error); } };
const failsLater = async (call) => { try { await call(); return "nothing"; } catch (error) { return of(error); } };
const plain = (x) => JSON.parse(JSON.stringify(x, (_, v) => ArrayBuffer.isView(v) ? Array.from(v, Number) : v));
"""
    (folder / "main.mjs").write_text(f"{head}\n{code}\nconsole.log(JSON.stringify(told));\n")
    done = subprocess.run(["node", "main.mjs"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def linear() -> Any:
    net = nn.Linear(3, 2)
    net.eval()
    return net


LINEAR = [Spec([None, 3], "float32", "x")]


def test_a_module_imports_nothing_and_exports_what_a_library_has(tmp_path: Path) -> None:
    module(linear(), LINEAR, tmp_path)
    imports, exports = node(tmp_path, """
const compiled = new WebAssembly.Module(readFileSync("net.wasm"));
tell(WebAssembly.Module.imports(compiled));
tell(WebAssembly.Module.exports(compiled).map(({ name }) => name));
""")  # fmt: skip
    assert imports == []
    functions = "create destroy run run_sized output_shapes error threads set_threads check_weights allocate free".split()
    functions.append("create_with_weights")
    fields = [f"{side}_{field}" for side in ("input", "output") for field in ("count", "name", "dtype", "rank", "shape")]
    assert sorted(exports) == sorted(["memory", *(f"net_{name}" for name in (*functions, *fields))])


def test_inputs_are_typed_arrays_with_or_without_a_shape(tmp_path: Path) -> None:
    net = linear()
    module(net, LINEAR, tmp_path)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    expected = net(paddle.to_tensor(x)).numpy().ravel()
    inputs, outputs, *found = node(tmp_path, """
const net = await load();
tell(net.inputs); tell(net.outputs);
const x = Float32Array.from({ length: 12 }, (_, i) => i);
const rows = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]];
for (const given of [{ x }, [x], { x: { data: x, shape: [4, 3] } }, { x: Array.from(x) }, { x: rows }])
  tell(plain(net.run(given)));
tell(net.outputShapes({ x }));
""")  # fmt: skip
    assert inputs == [{"name": "x", "dtype": "float32", "shape": [-1, 3]}]
    name = outputs[0]["name"]
    assert found.pop() == {name: [4, 2]}
    for result in found:
        assert result[name]["shape"] == [4, 2]
        assert result[name]["dtype"] == "float32"
        np.testing.assert_allclose(result[name]["data"], expected, rtol=1e-5, atol=1e-6)


def test_mistakes_are_exceptions_with_the_text_of_the_module(tmp_path: Path) -> None:
    module(linear(), LINEAR, tmp_path)
    found = node(tmp_path, """
const net = await load();
const x = new Float32Array(6);
tell(fails(() => net.run({ x: { data: x, shape: [3, 2] } })));
tell(fails(() => net.run({ x: { data: x, shape: [2, 4] } })));
tell(fails(() => net.run({ x: new Float64Array(6) })));
tell(fails(() => net.run({ x: new Float32Array(7) })));
tell(fails(() => net.run({})));
tell(fails(() => net.run({ x, y: x })));
tell(fails(() => net.run([])));
tell(fails(() => net.run({ x: { data: x, shape: [6] } })));
tell(fails(() => net.run({ x: { data: new Float32Array(0), shape: [0, 3] } })));
tell(Object.values(net.run({ x })).map(({ shape }) => shape));
net.checkWeights();
net.destroy();
tell(fails(() => net.run({ x })));
""")  # fmt: skip
    assert found == [
        ["ModelError", "BAD_SHAPE", "input 'x': expected 3 on axis 1 but got 2"],
        ["ModelError", "BAD_ARGUMENT", "input 'x': expected 8 elements ([2,4]) but got 6"],
        ["ModelError", "BAD_ARGUMENT", "input 'x': expected Float32Array (float32) but got Float64Array"],
        ["ModelError", "BAD_ARGUMENT", "input 'x': expected a multiple of 3 elements ([-1,3]) but got 7"],
        ["ModelError", "BAD_ARGUMENT", "input 'x': expected data but got none"],
        ["ModelError", "BAD_ARGUMENT", "expected the inputs x but got 'y'"],
        ["ModelError", "BAD_ARGUMENT", "expected 1 inputs (x) but got 0"],
        ["ModelError", "BAD_ARGUMENT", "input 'x': expected 2 sizes ([-1,3]) but got 1 ([6])"],
        "nothing",
        [[2, 2]],
        ["ModelError", "BAD_ARGUMENT", "expected a model but got NULL"],
    ]


class Words(nn.Layer):  # type: ignore[misc]
    """A small encoder of words with attention."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 32)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu"), 2)
        self.head = nn.Linear(32, 5)

    def forward(self, ids: Any) -> Any:
        return paddle.nn.functional.softmax(self.head(self.encoder(self.table(ids)).mean(1)))


def test_words_of_any_number_and_an_id_outside_of_the_table(tmp_path: Path) -> None:
    net = Words()
    net.eval()
    module(net, [Spec([None, None], "int64", "ids")], tmp_path)
    ids = np.arange(22).reshape(2, 11) * 4 % 100
    expected = net(paddle.to_tensor(ids)).numpy()
    found, outside, whole, two = node(tmp_path, f"""
const net = await load();
const ids = {{ data: {ids.ravel().tolist()}, shape: [2, 11] }};
tell(plain(Object.values(net.run({{ ids }}))[0]));
tell(fails(() => net.run({{ ids: {{ data: BigInt64Array.of(3n, 100n), shape: [1, 2] }} }})));
tell(fails(() => net.run({{ ids: {{ data: [3, 1.5], shape: [1, 2] }} }})));
tell(fails(() => net.run({{ ids: BigInt64Array.of(3n) }})));
""")  # fmt: skip
    assert found["shape"] == [2, 5]
    assert np.abs(np.reshape(found["data"], [2, 5]) - expected).max() < 1e-5 * np.abs(expected).max()
    assert outside[1] == "BAD_DATA" and "from 0 to 99 but got 100" in outside[2]
    assert whole[0] == "RangeError"
    assert two[1:] == ["BAD_ARGUMENT", "input 'ids': expected { data, shape }, because more than one of the sizes [-1,-1] is free"]


def positive(x: Any) -> Any:
    """As many numbers as are positive, which only a run tells."""
    return paddle.masked_select(x, x > 0) * 2


def test_results_of_sizes_that_a_run_tells(tmp_path: Path) -> None:
    module(positive, [Spec([None], "float32", "x")], tmp_path)
    few, many, shapes = node(tmp_path, """
const net = await load();
tell(plain(Object.values(net.run([[-1, 2, -3, 4, 5]]))[0]));
const x = Float32Array.from({ length: 5000 }, (_, i) => i % 2 ? i : -i);
const { data, shape } = Object.values(net.run([x]))[0];
tell([shape, data.length, data[2499], data[0]]);
tell(Object.values(net.outputShapes([x])));
""")  # fmt: skip
    assert few["data"] == [4, 8, 10] and few["shape"] == [3]
    assert many == [[2500], 2500, 9998, 2]
    assert shapes == [[-1]]


def grows(x: Any, rounds: Any) -> Any:
    """A loop whose value has another size in each round."""
    i = paddle.zeros([1], "int64")
    while i < rounds:
        x = paddle.concat([x, x[x > 0] * 0.5]) if x.sum() < 50 else x * 2
        i = i + 1
    return x, paddle.nonzero(x)


def kept_boxes(corners: Any, scores: Any) -> Any:
    kept = paddle.vision.ops.nms(corners, 0.5, scores)
    return paddle.gather(corners, kept), kept


def test_loops_and_the_end_of_a_detector_give_what_the_library_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    corners = rng.random((40, 4)).astype(np.float32)
    corners[:, 2:] += corners[:, :2] + 0.1
    cases = [
        (grows, [Spec([None], "float32", "x"), Spec([1], "int64", "rounds")], [np.array([1, -2, 3, 4], np.float32), np.array([4])]),
        (kept_boxes, [Spec([None, 4], "float32", "b"), Spec([None], "float32", "s")], [corners, rng.random(40).astype(np.float32)]),
    ]
    for function, spec, arrays in cases:
        found = load_compiled(module(function, spec, tmp_path))(*arrays)
        expected = paddle.compile(function, tmp_path / "net.so", input_spec=spec)(*arrays)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6)


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 256))
    net.eval()
    path = module(net, [Spec([1, 1024], "float32", "x")], tmp_path)
    weights = path.with_suffix(".weights")
    assert path.stat().st_size < 100_000 and weights.stat().st_size > 8 << 20
    x = np.sin(np.arange(1024)).astype(np.float32)
    expected = net(paddle.to_tensor(x[None])).numpy().ravel()
    found, short, other, flipped = node(tmp_path, """
const net = await load();
const x = Float32Array.from({ length: 1024 }, (_, i) => Math.sin(i));
tell(plain(Object.values(net.run({ x }))[0]).data);
const bytes = new Uint8Array(readFileSync("net.weights"));
tell(await failsLater(() => load({ weights: bytes.slice(0, -4) })));
const changed = (at) => { const copy = bytes.slice(); copy[at] ^= 1; return copy; };
tell(await failsLater(() => load({ weights: changed(20) })));
const damaged = await load({ weights: changed(5_000_000), module: readFileSync("net.wasm") });
tell(fails(() => damaged.checkWeights()));
net.checkWeights();
""")  # fmt: skip
    assert np.abs(np.array(found) - expected).max() < 1e-5 * np.abs(expected).max()
    assert short[1] == "BAD_WEIGHTS" and "net.weights has" in short[2]
    assert other[1:] == ["BAD_WEIGHTS", "the file of the weights does not belong to this library, or is damaged: net.weights"]
    assert flipped[1] == "BAD_WEIGHTS" and "the weights are damaged: their checksum is" in flipped[2]


def test_memory_stays_as_it_is_over_many_shapes(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2D(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2D(8, 8, 3, stride=2, padding=1))
    net.eval()
    module(net, [Spec([1, 3, None, None], "float32", "x")], tmp_path)
    before, after = node(tmp_path, """
const instances = [];
const Instance = WebAssembly.Instance;
WebAssembly.Instance = class extends Instance { constructor(...given) { super(...given); instances.push(this); } };
const net = await load();
const go = (h, w) => net.run({ x: { data: new Float32Array(3 * h * w), shape: [1, 3, h, w] } });
for (let i = 0; i < 40; i++) go(8 + 5 * (i * 7 % 40), 8 + 3 * (i * 11 % 40));
tell(instances[0].exports.memory.buffer.byteLength);
for (let i = 0; i < 400; i++) go(8 + 5 * (i * 7 % 40), 8 + 3 * (i * 11 % 40));
tell(instances[0].exports.memory.buffer.byteLength);
""")  # fmt: skip
    assert before == after < 32 << 20


def test_sizes_that_are_too_large_are_told(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2D(1, 64, 3, padding=1), nn.ReLU(), nn.Conv2D(64, 1, 3, padding=1))
    module(net, [Spec([None, 1, None, None], "float32", "x")], tmp_path)
    (found,) = node(tmp_path, """
const net = await load();
tell(fails(() => net.run({ x: { data: new Float32Array(1 << 24), shape: [1, 1, 1 << 12, 1 << 12] } })));
""")  # fmt: skip
    assert found[1] == "NO_MEMORY"


def angles(x: Any, y: Any) -> list[Any]:
    return [paddle.sin(x), paddle.cos(x), paddle.tan(x), paddle.remainder(x, y), paddle.atan2(x, y), paddle.floor_mod(y, x)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_angles_and_remainders_of_any_size(tmp_path: Path, dtype: str) -> None:
    """Where a library calls the C library, of which a module has none."""
    rng = np.random.default_rng(3)
    most = 300 if dtype == "float64" else 37
    x = (rng.standard_normal(4096) * 10.0 ** rng.uniform(-5, most, 4096)).astype(dtype)
    y = (rng.standard_normal(4096) * 10.0 ** rng.uniform(-5, 9, 4096)).astype(dtype)
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 2.0**30, -(2.0**31)]
    y[:8] = [-0.0, 0.0, 1.0, np.inf, 1.0, 0.0, 3.0, np.finfo(dtype).tiny / 8]
    spec = [Spec([None], dtype, name) for name in "xy"]
    module(angles, spec, tmp_path)
    x.tofile(tmp_path / "x")
    y.tofile(tmp_path / "y")
    kind = "Float32Array" if dtype == "float32" else "Float64Array"
    node(tmp_path, f"""
import {{ writeFileSync }} from "node:fs";
const net = await load();
const read = (name) => new {kind}(new Uint8Array(readFileSync(name)).buffer);
Object.values(net.run([read("x"), read("y")])).forEach(({{ data }}, i) => writeFileSync(`out${{i}}`, data));
""")  # fmt: skip
    found = [np.fromfile(tmp_path / f"out{i}", dtype) for i in range(6)]
    with np.errstate(all="ignore"):
        expected = [np.sin(x.astype("float64")), np.cos(x.astype("float64")), np.tan(x.astype("float64"))]
        expected += [np.mod(x, y), np.arctan2(x.astype("float64"), y), np.mod(y, x)]
    for got, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, right.astype(dtype), rtol=4 * float(np.finfo(dtype).eps), atol=0)


def test_a_damaged_module_and_one_without_its_engine_are_told(tmp_path: Path) -> None:
    path = module(linear(), LINEAR, tmp_path)
    assert read_library(path).manifest.name == "net"
    (found,) = node(tmp_path, """
const bytes = new Uint8Array(readFileSync("net.wasm"));
bytes[40] ^= 255;
tell(await failsLater(() => load({ module: bytes })));
""")  # fmt: skip
    assert found[1] == "BAD_MODULE"
    assert "net.wasm cannot be compiled: it is damaged, or this engine has no WebAssembly with SIMD" in found[2]
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match="damaged"):
        read_library(path)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    net = linear()
    found = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        found.append(module(net, LINEAR, tmp_path / folder).read_bytes())
    assert found[0] == found[1]


def test_python_runs_a_module_in_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = linear()
    path = module(net, LINEAR, tmp_path)
    loaded = load_compiled(path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(loaded(x), net(paddle.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(CallError, match="'net' in Node: input 'x': expected 3 on axis 1 but got 2"):
        loaded(x.reshape(3, 2))
    with pytest.raises(CallError, match="expected float32 but got float64"):
        loaded(x.astype("float64"))
    np.save(tmp_path / "x.npy", x)
    paddle.jit.save(net, str(tmp_path / "saved"), input_spec=LINEAR)
    assert run_command(["verify", str(tmp_path / "saved"), str(path), "--input", f"x={tmp_path / 'x.npy'}"]) == 0
    assert run_command(["run", str(path), "--input", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "y.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), loaded(x))
    assert run_command(["bench", str(path)]) == 1
    path.with_suffix(".mjs").unlink()
    with pytest.raises(ArtifactError, match=r"expected 'net\.mjs' beside it, which loads it"):
        load_compiled(path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ArtifactError, match="runs in Node, which is not installed, or in a browser"):
        load_compiled(path)


def test_another_target_is_refused(tmp_path: Path) -> None:
    for file, target in (("net.wasm", "aarch64"), ("net.so", "wasm32"), ("net.o", "wasm32")):
        with pytest.raises(PolyremeError, match=r"expected a module of WebAssembly \(\.wasm\) for the target wasm32, and only for it"):
            paddle.compile(linear(), tmp_path / file, target=target, input_spec=LINEAR)
