"""Peak memory of processes that compile a saved model, and that load one and compute a first result, beside Paddle's.

    python -m benchmarks.memory MODEL.json --shape 1x3x224x224 --paddle ../paddle/bin/python

Each line is a process of its own, or what it starts, whichever takes most: its largest resident memory, libraries and mapped files
included. `empty` and `kept` say whether the cache has the model.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FIRST = """
import numpy as np
x = np.ones([int(n) for n in SHAPE.split("x")], "float32")
"""
LOAD = FIRST + "net = paddle.jit.load(PROGRAM)\nnet(paddle.to_tensor(x)).numpy()\n"
PREDICT = (
    FIRST
    + """
config = inference.Config(FILE, PROGRAM + ".pdiparams")
config.disable_gpu()
config.disable_glog_info()
predictor = inference.create_predictor(config)
predictor.get_input_handle(predictor.get_input_names()[0]).copy_from_cpu(x)
predictor.run()
predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
"""
)


def peak(command: list[str], environment: dict[str, str]) -> int:
    """MiB of the largest process of a command."""
    # The largest one of all that this process has waited for: so each command is waited for by a process of its own.
    watch = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=sys.stderr); "
    watch += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    out = subprocess.run([sys.executable, "-c", watch, *command], check=True, capture_output=True, text=True, env=environment).stdout
    return int(out) >> 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--shape", required=True, help="of the only input, such as 1x3x224x224")
    parser.add_argument("--paddle", metavar="PYTHON", help="a Python with PaddlePaddle")
    given = parser.parse_args()
    file = given.file.resolve()
    names = f"SHAPE, FILE, PROGRAM = {given.shape!r}, {str(file)!r}, {str(file.with_suffix(''))!r}\n"

    def report(what: str, command: list[str], environment: dict[str, str]) -> None:
        print(f"{what:40} {peak(command, environment):6} MiB", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        for i, what in enumerate(("compile", "load and first result")):
            environment = dict(os.environ, POLYREME_CACHE=f"{folder}/cache{i}")
            run = ["-c", "import polyreme as paddle\n" + names + LOAD]
            if not i:
                run = ["-m", "polyreme", "compile", "-q", str(file), "-o", f"{folder}/net.so"]
            report(f"{what}, empty", [sys.executable, *run], environment)
            report(f"{what}, kept", [sys.executable, *run], environment)
    if given.paddle:
        programs = {"jit.load": f"import paddle\n{names}{LOAD}", "inference": f"from paddle import inference\n{names}{PREDICT}"}
        for what, program in programs.items():
            report(f"Paddle, {what}", [given.paddle, "-W", "ignore", "-c", program], dict(os.environ))


if __name__ == "__main__":
    main()
