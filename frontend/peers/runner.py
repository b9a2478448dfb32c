"""One library in a process of its own: it prepares the model in a folder when told, then times calls in short turns.

Started by path, so that a Python that has the library and numpy is enough: `python runner.py LIBRARY THREADS`. It speaks JSON lines:
requests on standard input, answers on standard output.

    {"do": "prepare", "folder": F, "cache": C}    files as `files.py` writes them, and a folder for what compilers keep  → seconds and MiB
    {"do": "time", "seconds": S}                  calls for about S seconds  → {"seconds": [...]}

Every library takes numpy arrays and gives numpy arrays, so what is timed is what a user of each would call.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Arrays = Sequence[Any]
Call = Callable[[], Arrays]
# What a reader of the figures should know beside them.
NOTES: list[str] = []

INPUTS = "inputs.npz"
LIBRARY = "model.so"
FLOAT32 = "float32"  # the folder of a quantised model's own float32


def ours(folder: Path, cache: Path, threads: int, inputs: Arrays) -> Call:
    """The saved model as `jit.load` gives it, which keeps compiled code in `cache`; or else the library in the folder."""
    if (folder / LIBRARY).exists():
        from polyreme.runtime.library import load_compiled

        library = load_compiled(folder / LIBRARY, threads=threads)
        return lambda: library.run(inputs)
    os.environ["POLYREME_CACHE"] = str(cache)
    os.environ["POLYREME_THREADS"] = str(threads)
    from polyreme.jit import load

    executable = load(str(folder / "model")).executable()
    return lambda: executable.run(inputs)


def ours_in_float32(folder: Path, cache: Path, threads: int, inputs: Arrays) -> Call:
    """The model that the one in the folder was before it was quantised."""
    return ours(folder / FLOAT32, cache, threads, inputs)


def onnxruntime(folder: Path, cache: Path, threads: int, inputs: Arrays) -> Call:
    """All graph optimisations, sequential execution."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    feeds = {i.name: x for i, x in zip(session.get_inputs(), inputs)}
    return lambda: session.run(None, feeds)


def openvino(folder: Path, cache: Path, threads: int, inputs: Arrays) -> Call:
    """One stream for latency, float32 arithmetic, no copies of inputs and outputs."""
    import openvino as ov

    core = ov.Core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "CACHE_DIR": str(cache),
    }
    request = core.compile_model(str(folder / "model.onnx"), "CPU", settings).create_infer_request()
    feeds = dict(enumerate(inputs))

    def call() -> Arrays:
        results = request.infer(feeds, share_inputs=True, share_outputs=True)
        return [results[i] for i in range(len(results))]

    return call


def torch(folder: Path, cache: Path, threads: int, inputs: Arrays) -> Call:
    """`torch.compile` by inductor with frozen weights."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    import torch as framework
    import torch._inductor.config as inductor

    inductor.freezing = True
    framework.set_num_threads(threads)
    spec = importlib.util.spec_from_file_location("model_for_torch", folder / "model_torch.py")
    assert spec is not None and spec.loader is not None
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    model = framework.compile(source.load(folder / "model_torch.npz").eval())
    tensors = [framework.from_numpy(x) for x in inputs]

    def call() -> Arrays:
        with framework.no_grad():
            results = model(*tensors)
        return [y.numpy() for y in results]

    return call


def paddle(folder: Path, cache: Path, threads: int, inputs: Arrays) -> Call:
    """Paddle Inference with its optimisations, by oneDNN or by its own kernels: whichever is faster here."""
    from paddle import inference

    file = next(path for path in (folder / "paddle.json", folder / "paddle.pdmodel") if path.exists())
    found: list[tuple[float, Call]] = []
    faults = []
    for onednn in (True, False):
        config = inference.Config(str(file), str(folder / "paddle.pdiparams"))
        config.disable_gpu()
        config.disable_glog_info()
        config.set_cpu_math_library_num_threads(threads)
        config.switch_ir_optim(True)
        if onednn:
            config.enable_mkldnn()
        else:
            config.disable_mkldnn()
        try:
            call = _predictor(inference.create_predictor(config), inputs)
            call()
            found.append((min(timings(call, 0.2)), call))
        except Exception as error:  # a peer that fails in one of its configurations has the other one
            faults.append(f"oneDNN {'on' if onednn else 'off'}: {error}")
    if not found:
        raise RuntimeError("; ".join(faults))
    NOTES.extend(faults)
    return min(found, key=lambda pair: pair[0])[1]


def _predictor(predictor: Any, inputs: Arrays) -> Call:
    sources = [predictor.get_input_handle(name) for name in predictor.get_input_names()]
    results = [predictor.get_output_handle(name) for name in predictor.get_output_names()]

    def call() -> Arrays:
        for source, x in zip(sources, inputs):
            source.copy_from_cpu(x)
        predictor.run()
        return [result.copy_to_cpu() for result in results]

    return call


LIBRARIES: dict[str, Callable[[Path, Path, int, Arrays], Call]] = {
    "polyreme": ours,
    f"polyreme_{FLOAT32}": ours_in_float32,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "torch": torch,
    "paddle": paddle,
}


def timings(call: Call, seconds: float, fewest: int = 2) -> list[float]:
    """Seconds of each of the calls that fit into `seconds`, `fewest` at least; the first is not counted, nor the second if
    more than `fewest` fit."""
    clock = time.perf_counter
    call()
    taken: list[float] = []
    end = clock() + seconds
    while True:
        start = clock()
        call()
        stop = clock()
        taken.append(stop - start)
        if stop >= end and len(taken) >= fewest:
            return taken if len(taken) == fewest else taken[1:]


def prepare(library: str, threads: int, folder: Path, cache: Path) -> tuple[Call, dict[str, Any]]:
    """The call, and what getting there took: `compile_s` without imports of numpy, `first_s` of the first call, `peak_mib` of the process
    so far; `notes` on it. The outputs go to the folder.
    """
    import numpy as np

    with np.load(folder / INPUTS) as stored:
        inputs = [stored[key] for key in stored.files]
    _import(library.removesuffix(f"_{FLOAT32}"))
    start = time.perf_counter()
    call = LIBRARIES[library](folder, cache, threads, inputs)
    compiled = time.perf_counter()
    outputs = call()
    first = time.perf_counter()
    np.savez(folder / f"outputs_{library}.npz", *outputs)
    return call, {"compile_s": compiled - start, "first_s": first - compiled, "peak_mib": peak_mib(), "notes": NOTES}


def _import(library: str) -> None:
    """Import the library, so that the time to do so is not taken for compiling."""
    modules = {"polyreme": ("polyreme.jit.loading",), "paddle": ("paddle.inference",)}
    for module in modules.get(library, (library,)):
        importlib.import_module(module)


def peak_mib() -> float:
    """The most memory that this process has had so far, in MiB.

    Linux says it of the program that runs now. What `getrusage` says is at least what the parent had when it forked, which outlives the
    start of another program.
    """
    import resource

    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    except (OSError, StopIteration):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def answer(handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer each request on standard input by `handle`, until there are no more."""
    # Libraries print; the protocol keeps the real standard output for itself.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        channel.write(json.dumps(handle(json.loads(line))) + "\n")
        channel.flush()


def main() -> None:
    library, threads = sys.argv[1], int(sys.argv[2])
    # The file's folder is not a place to import from: it has modules of the libraries' names.
    sys.path = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    ready: list[Call] = []

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "time":
            return {"seconds": timings(ready[0], request["seconds"])}
        try:
            call, figures = prepare(library, threads, Path(request["folder"]), Path(request["cache"]))
        except Exception as error:  # told to whoever asked, who goes on without this library
            return {"error": f"{type(error).__name__}: {error}"[:500]}
        ready[:] = [call]
        return figures

    answer(handle)


if __name__ == "__main__":
    main()
