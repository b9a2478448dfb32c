"""Cases under Paddle, all of them in one process of their own.

`python -m tests.api.peer OUT [ids on standard input, one a line]` runs in a python that has Paddle and writes outcomes to OUT. A case that ends the process
(some of Paddle's kernels divide by a size of zero) is noted as a crash, and the others go on in a second process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.api.outcome import Failure, read, run_case, save
from tests.api.table import load

ROOT = Path(__file__).parents[2]
PYTHON = "POLYREME_PADDLE_PYTHON"


def python() -> str | None:
    """The python that has Paddle: what the variable names, or this one; None when there is none."""
    named = os.environ.get(PYTHON)
    if named:
        return named
    return sys.executable if find_spec("paddle") is not None else None


def run_under_paddle(ids: list[str], timeout: float = 900) -> dict[str, tuple[int, Any]]:
    """Outcomes with fingerprints, by id."""
    found: dict[str, tuple[int, Any]] = {}
    command = python()
    if command is None:
        raise RuntimeError(f"expected a python with paddlepaddle 3.3.1 in {PYTHON}, or to run in one")
    cases = load()
    left = list(ids)
    while left:
        with TemporaryDirectory() as folder:
            out = Path(folder) / "out.npz"
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_minloglevel": "3"}
            done = subprocess.run(
                [command, "-m", "tests.api.peer", str(out)], input="\n".join(left), text=True, capture_output=True, cwd=ROOT, env=environment,
                timeout=timeout, check=False,
            )  # fmt: skip
            if out.exists():
                found |= read(out)
                break
            progress = Path(f"{out}.at")
            if not progress.exists():
                raise RuntimeError(f"the process under Paddle ended with {done.returncode}:\n{done.stderr[-3000:]}")
            culprit = progress.read_text()
            found[culprit] = cases[culprit].fingerprint, Failure(("crash",), f"the process ended with {done.returncode}")
            left.remove(culprit)
    return found


def main() -> None:
    import paddle

    out = Path(sys.argv[1])
    cases = load()
    found = {}
    with open(f"{out}.at", "w") as progress:
        for name in sys.stdin.read().split("\n"):
            progress.seek(0)
            progress.truncate()
            progress.write(name)
            progress.flush()
            found[name] = cases[name].fingerprint, run_case(cases[name], paddle)
    save(out, found)


if __name__ == "__main__":
    main()
