"""One library in a process of its own: it prepares a model when told, then times calls in short turns.

Started by `inference.py` as `python -m benchmarks.workers LIBRARY THREADS`; speaks JSON lines on standard input and output. Every
library takes a numpy array and gives a numpy array, so that what is timed is what a user of each would call.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.models import MODELS, Model, inputs, with_weights, write_onnx
from benchmarks.processes import answer

Call = Callable[[Any], Any]


def prepare_polyreme(model: Model, batch: int, threads: int, folder: Path) -> Call:
    """Compiled ahead of time into a library, loaded without the compiler."""
    import polyreme as paddle

    layer = with_weights(model, paddle)
    path = folder / f"{model.name.split()[0].lower()}.so"
    spec = [paddle.static.InputSpec([batch, *model.shape], "float32", "x")]
    paddle.compile(layer, str(path), input_spec=spec)
    library = paddle.load_compiled(str(path), threads=threads)
    return lambda x: library(x)


def prepare_onnxruntime(model: Model, batch: int, threads: int, folder: Path) -> Call:
    """All graph optimisations, sequential execution, the asked number of threads, free sizes fixed."""
    import onnxruntime

    path = folder / "model.onnx"
    shapes = json.loads((folder.parent / f"{model.name}.json").read_text())
    write_onnx(model, shapes, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_free_dimension_override_by_name("N", batch)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def prepare_paddle(model: Model, batch: int, threads: int, folder: Path) -> Call:
    """Paddle Inference with its optimisations and oneDNN where it runs the model; the predictor's handles are kept."""
    import paddle
    from paddle import inference

    layer = with_weights(model, paddle)
    spec = [paddle.static.InputSpec([batch, *model.shape], "float32", "x")]
    paddle.jit.save(paddle.jit.to_static(layer, full_graph=True), str(folder / "model"), input_spec=spec)
    best: tuple[float, Call] | None = None
    x = inputs(model, batch)
    for onednn in (True, False):
        config = inference.Config(str(folder / "model.json"), str(folder / "model.pdiparams"))
        config.disable_gpu()
        config.disable_glog_info()
        config.set_cpu_math_library_num_threads(threads)
        config.switch_ir_optim(True)
        if onednn:
            config.enable_mkldnn()
        else:
            config.disable_mkldnn()
        try:
            call = _paddle_call(inference.create_predictor(config))
            seconds = min(_time(call, x, 20))
        except Exception as error:  # a peer's own failure in one of its configurations: the other one counts
            print(f"paddle with onednn={onednn}: {error}", file=sys.stderr)
            continue
        if best is None or seconds < best[0]:
            best = (seconds, call)
    assert best is not None, "neither configuration of Paddle Inference runs the model"
    return best[1]


def _paddle_call(predictor: Any) -> Call:
    source = predictor.get_input_handle(predictor.get_input_names()[0])
    result = predictor.get_output_handle(predictor.get_output_names()[0])

    def call(x: Any) -> Any:
        source.copy_from_cpu(x)
        predictor.run()
        return result.copy_to_cpu()

    return call


LIBRARIES: dict[str, Callable[[Model, int, int, Path], Call]] = {
    "polyreme": prepare_polyreme,
    "onnxruntime": prepare_onnxruntime,
    "paddle": prepare_paddle,
}


def _time(call: Call, x: Any, count: int) -> list[float]:
    clock = time.perf_counter
    seconds = []
    for _ in range(count):
        start = clock()
        call(x)
        seconds.append(clock() - start)
    return seconds


def _time_for(call: Call, x: Any, seconds: float) -> list[float]:
    """Timings of as many calls as fit in `seconds`, after three that are not counted."""
    _time(call, x, 3)
    count = max(5, int(seconds / max(min(_time(call, x, 3)), 1e-7)))
    return _time(call, x, count)


def main() -> None:
    library, threads = sys.argv[1], int(sys.argv[2])
    call: Call | None = None
    x: Any = None

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal call, x
        if request["do"] == "time":
            assert call is not None
            return {"seconds": _time_for(call, x, request["seconds"])}
        model = MODELS[request["model"]]
        folder = Path(request["folder"]) / f"{library}-{threads}-{request['batch']}-{Path(scratch).name}"
        folder.mkdir(parents=True)
        x = inputs(model, request["batch"])
        call = LIBRARIES[library](model, request["batch"], threads, folder)
        return {"y": np.asarray(call(x)).tolist()}

    with tempfile.TemporaryDirectory() as scratch:
        answer(handle)


if __name__ == "__main__":
    main()
