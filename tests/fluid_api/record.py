"""`python -m tests.fluid_api.record`: run the cases under Paddle 1.8.5, and store what came.

`POLYREME_PADDLE_185_PYTHON` names a python (3.8) that has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fluid_api.table import load

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "fixtures" / "fluid_api" / "1.8.5.json"


def stored() -> dict[str, Any]:
    """By id, the fingerprint and the outcome."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def run_under_paddle(timeout: float = 600) -> dict[str, Any]:
    """What `stored` gives, made anew."""
    python = os.environ.get("POLYREME_PADDLE_185_PYTHON")
    if python is None:
        raise RuntimeError("expected a python with paddlepaddle 1.8.5 in POLYREME_PADDLE_185_PYTHON")
    command = [python, "-W", "ignore", "-m", "tests.fluid_api.record", "--in-paddle"]
    environment = dict(os.environ, PYTHONPATH=str(ROOT), GLOG_minloglevel="3")
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError(f"the process under Paddle ended with {done.returncode}:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.rpartition("\n@@")[2])
    return found


def in_paddle() -> None:
    import numpy as np
    import paddle.fluid as fluid

    found = {i: [case.fingerprint, case.run(fluid, np)] for i, case in load().items() if not case.older}
    print("\n@@" + json.dumps(found), flush=True)
    os._exit(0)  # Paddle's readers have threads that abort the process at its usual end


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--in-paddle"]:
        in_paddle()
        return
    found = run_under_paddle()
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(i)}: {json.dumps(v)}" for i, v in sorted(found.items())) + "\n}\n", encoding="utf-8")
    print(len(found), "cases")
    for i, (_, outcome) in found.items():
        if isinstance(outcome, dict) and "raised" in outcome:
            print(f"  refused by Paddle: {i}\n      {outcome['raised']}: {outcome['text'][-300:]}")


if __name__ == "__main__":
    main(sys.argv[1:])
