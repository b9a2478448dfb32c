"""Quantised models beside their peers: each library quantises the same float32 weights after training, on the same calibration data, as its
users would.

Ours is `quantize_model`; ONNX Runtime's is its own static quantisation (QDQ, activations in uint8, weights in int8 per channel, after its
own preparation of the graph), whose model OpenVINO reads as well. Beside them runs our own float32. In the Python that has ONNX Runtime:

    python -m benchmarks.int8 FOLDER        # float32/model.onnx, calibration.npz and check.npz to model.onnx and agreement_onnxruntime.json
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo import Model, draw_inputs, draw_weights, load_weights

CALIBRATION_BATCHES, CHECK_BATCHES = 8, 16
# Relative to the largest value of an output: models in eight bits are near what they were, no more, and libraries round in different
# places.
LARGEST_DIFFERENCE = 0.25
IN_TURNS = ("polyreme", "onnxruntime", "openvino")


def libraries_of(libraries: Mapping[str, str]) -> dict[str, str]:
    """Those that run quantised models, and our own float32."""
    return {**{name: python for name, python in libraries.items() if name in IN_TURNS}, "polyreme_float32": libraries["polyreme"]}


def make_files(model: Model, batch: int, place: Path, libraries: Mapping[str, str]) -> None:
    """The model in float32 in a folder of its own, and quantised by whoever takes part. Calibration and comparison run on single samples,
    whatever the batch.
    """
    import polyreme as paddle
    from polyreme.compiled.executables import load_module
    from polyreme.compiled.inspection import model_module
    from polyreme.peers.files import write_files
    from polyreme.quantization import quantize_model
    from polyreme.quantization.reports import measure_agreement

    inner = place / "float32"
    inner.mkdir(exist_ok=True)
    layer = model.build(paddle)
    load_weights(layer, draw_weights({name: tuple(p.shape) for name, p in layer.state_dict().items()}), paddle)
    spec = [paddle.static.InputSpec(shape, dtype, name) for name, shape, dtype in model.shapes(batch)]
    paddle.jit.save(layer, str(inner / "model"), input_spec=spec)
    inputs = list(draw_inputs(model, batch).values())
    exact = model_module(layer, spec, freeze=True)
    write_files(exact, inputs, inner, [name for name in libraries if name in IN_TURNS])
    np.savez(place / "inputs.npz", *inputs)
    np.savez(place / "reference.npz", *load_module(exact).run(inputs))
    calibration = [list(draw_inputs(model, batch, seed=100 + i).values()) for i in range(max(CALIBRATION_BATCHES // batch, 1))]
    check = [list(draw_inputs(model, batch, seed=200 + i).values()) for i in range(max(CHECK_BATCHES // batch, 1))]
    quantised = quantize_model(layer, calibration, input_spec=spec)
    paddle.jit.save(quantised, str(place / "model"))
    programs = [load_module(module) for module in (exact, model_module(quantised, None, freeze=True))]
    found = measure_agreement(*([program.run(arrays) for arrays in check] for program in programs))
    _write_agreement(place, "polyreme", found.top1, found.db)
    if "onnxruntime" in libraries:
        for name, batches in (("calibration", calibration), ("check", check)):
            np.savez(place / f"{name}.npz", **{f"{i}_{j}": array for i, arrays in enumerate(batches) for j, array in enumerate(arrays)})
        done = subprocess.run([libraries["onnxruntime"], "-m", "benchmarks.int8", str(place)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"ONNX Runtime does not quantise {model.name}:\n{done.stderr[-2000:]}")
        for name in ("calibration", "check"):
            (place / f"{name}.npz").unlink()
    (place / "complete").touch()


def reference(place: Path) -> tuple[list[Any], float]:
    """What the model in float32 gives, and how far from it quantised ones may be."""
    with np.load(place / "reference.npz") as stored:
        return [stored[key] for key in stored.files], LARGEST_DIFFERENCE


def agreements(place: Path) -> dict[str, Any]:
    """Of each library that quantises, how often its answer is that of float32, and the ratio of signal to noise of its outputs."""
    files = sorted(place.glob("agreement_*.json"))
    return {"agreement": {file.stem.removeprefix("agreement_"): json.loads(file.read_text()) for file in files}}


def _write_agreement(place: Path, library: str, top1: float | None, db: float) -> None:
    (place / f"agreement_{library}.json").write_text(json.dumps({"top1": top1, "db": db}))


def columns(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """The head and the lines of a table of quantised models: milliseconds, ratios, and how near answers are to those of float32."""
    head = [
        "model",
        "batch",
        "threads",
        *(f"{name} ms" for name in IN_TURNS),
        "float32 ms",
        "best peer / ours",
        "our float32 / ours",
        "same top-1, dB of ours",
        "of ONNX Runtime",
    ]
    lines = []
    for row in rows:
        times, near = row["latencies"], row.get("agreement", {})
        ours, exact = times["polyreme"]["p10"], times["polyreme_float32"]["p10"]
        cells = [f"{times[name]['p10'] * 1e3:.4g}" if name in times else "" for name in (*IN_TURNS, "polyreme_float32")]
        lines.append(
            [
                row["model"],
                row["batch"],
                row["threads"],
                *cells,
                f"**{row['ratio']:.2f}**",
                f"{exact / ours:.2f}",
                *(_near(near.get(name)) for name in IN_TURNS[:2]),
            ]
        )
    return head, lines


def _near(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    return f"{found['db']:.1f} dB" if found["top1"] is None else f"{found['top1']:.1%}, {found['db']:.1f} dB"


# --- in the Python that has ONNX Runtime


def quantize_by_onnxruntime(place: Path) -> None:
    """ONNX Runtime's static quantisation, with the settings that its documentation has for processors with VNNI, and weights per channel as
    ours are.
    """
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    before, prepared, after = place / "float32" / "model.onnx", place / "prepared.onnx", place / "model.onnx"
    quant_pre_process(str(before), str(prepared), skip_symbolic_shape=True)  # all sizes are known
    sessions = [onnxruntime.InferenceSession(str(before), providers=["CPUExecutionProvider"])]
    names = [i.name for i in sessions[0].get_inputs()]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(_batches(place / "calibration.npz"))

        def get_next(self) -> Any:
            arrays = next(self.left, None)
            return None if arrays is None else dict(zip(names, arrays, strict=True))

    quantize_static(
        str(prepared),
        str(after),
        Reader(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    prepared.unlink()
    sessions.append(onnxruntime.InferenceSession(str(after), providers=["CPUExecutionProvider"]))
    exact, found = (
        [session.run(None, dict(zip(names, arrays, strict=True)))[0] for arrays in _batches(place / "check.npz")] for session in sessions
    )
    noise = sum(float(np.square(a - b).sum()) for a, b in zip(exact, found, strict=True))
    signal = sum(float(np.square(a.astype(np.float64)).sum()) for a in exact)
    same = [a.argmax(-1) == b.argmax(-1) for a, b in zip(exact, found, strict=True)] if exact[0].ndim == 2 else None
    _write_agreement(
        place, "onnxruntime", None if same is None else float(np.concatenate(same).mean()), 10 * float(np.log10(signal / noise))
    )


def _batches(file: Path) -> list[list[Any]]:
    with np.load(file) as stored:
        count = 1 + max(int(key.split("_")[0]) for key in stored.files)
        return [[stored[key] for key in stored.files if key.startswith(f"{i}_")] for i in range(count)]


if __name__ == "__main__":
    quantize_by_onnxruntime(Path(sys.argv[1]))
