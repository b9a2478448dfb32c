"""`python -m tests.fluid_api.record [--all]`: run the cases that are not recorded as they stand, or all, under Paddle 1.8.5, and store what
came.

`POLYREME_PADDLE_185_PYTHON` names a python (3.8) that has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fluid_api.table import load

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "fixtures" / "fluid_api" / "1.8.5.json"


def stored() -> dict[str, Any]:
    """By id, the fingerprint and the outcome."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def run_under_paddle(cases: Sequence[str] = (), timeout: float = 600) -> dict[str, Any]:
    """What `stored` gives, made anew for these cases, or all."""
    python = os.environ.get("POLYREME_PADDLE_185_PYTHON")
    if python is None:
        raise RuntimeError("expected a python with paddlepaddle 1.8.5 in POLYREME_PADDLE_185_PYTHON")
    command = [python, "-W", "ignore", "-m", "tests.fluid_api.record", "--in-paddle", *cases]
    environment = dict(os.environ, PYTHONPATH=str(ROOT), GLOG_minloglevel="3")
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError(f"the process under Paddle ended with {done.returncode}:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.rpartition("\n@@")[2])
    return found


def in_paddle(cases: Sequence[str]) -> None:
    import numpy as np
    import paddle.fluid as fluid

    found = {i: [case.fingerprint, case.run(fluid, np)] for i, case in load().items() if not case.older and (i in cases or not cases)}
    print("\n@@" + json.dumps(found), flush=True)
    os._exit(0)  # Paddle's readers have threads that abort the process at its usual end


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--in-paddle"]:
        in_paddle(arguments[1:])
        return
    kept = {} if "--all" in arguments or not FILE.exists() else stored()
    asked = {i: case.fingerprint for i, case in load().items() if not case.older}
    fresh = [i for i, fingerprint in asked.items() if i not in kept or kept[i][0] != fingerprint]
    if not fresh:
        return
    made = run_under_paddle(fresh)
    found = {i: made.get(i, kept.get(i)) for i in asked}
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(i)}: {json.dumps(v)}" for i, v in sorted(found.items())) + "\n}\n", encoding="utf-8")
    print(len(made), "cases")
    for i, (_, outcome) in made.items():
        if isinstance(outcome, dict) and "raised" in outcome:
            print(f"  refused by Paddle: {i}\n      {outcome['raised']}: {outcome['text'][-300:]}")


if __name__ == "__main__":
    main(sys.argv[1:])
