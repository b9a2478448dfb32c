"""Cases under Paddle, which never comes into this process.

`python -m tests.api.peer OUT [ids on standard input, one a line]` runs in a python that has Paddle and writes outcomes to OUT. It imports
Paddle and forks a process for every few cases: one that ends its process (some of Paddle's kernels divide by a size of zero) is noted as a
crash, and the others of its process run again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.api.outcome import Failure, read, run_case, save
from tests.api.table import Case, load

ROOT = Path(__file__).parents[2]
PYTHON = "POLYREME_PADDLE_PYTHON"
FEW = 40
PATIENCE = 10  # seconds for a case: some kernels never end where a size is zero


def python() -> str | None:
    """The python that has Paddle: what the variable names, or this one; None when there is none."""
    named = os.environ.get(PYTHON)
    if named:
        return named
    return sys.executable if find_spec("paddle") is not None else None


def run_under_paddle(ids: list[str], timeout: float = 900) -> dict[str, tuple[int, Any]]:
    """Outcomes with fingerprints, by id."""
    command = python()
    if command is None:
        raise RuntimeError(f"expected a python with paddlepaddle 3.3.1 in {PYTHON}, or to run in one")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out.npz"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_minloglevel": "3"}
        done = subprocess.run(
            [command, "-m", "tests.api.peer", str(out)], input="\n".join(ids), text=True, capture_output=True, cwd=ROOT, env=environment,
            timeout=timeout, check=False,
        )  # fmt: skip
        if not out.exists():
            raise RuntimeError(f"the process under Paddle ended with {done.returncode}:\n{done.stderr[-3000:]}")
        return read(out)


def run_forked(cases: list[Case], paddle: Any, out: Path) -> dict[str, tuple[int, Any]]:
    """Outcomes of cases in a process of their own, and in further ones without those that end it; `out` is where it leaves them."""
    crashed, progress, left = dict[str, tuple[int, Any]](), Path(f"{out}.at"), list(cases)
    while left:
        child = os.fork()
        if not child:
            found = {}
            for number, case in enumerate(left):
                progress.write_text(str(number))
                signal.alarm(PATIENCE)
                found[case.id] = case.fingerprint, run_case(case, paddle)
            save(out, found)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not status:
            return crashed | read(out)
        culprit = left.pop(int(progress.read_text()))
        crashed[culprit.id] = culprit.fingerprint, Failure(("crash",), f"the process ended with {status}")
    return crashed


def main() -> None:
    import paddle

    # Paddle leaves layers in float32 where the processor has no instructions for bfloat16, though all of its kernels run there; outcomes
    # are the same on every machine.
    paddle.amp.is_bfloat16_supported = lambda device=None: True
    out, cases = Path(sys.argv[1]), load()
    wanted = [cases[i] for i in sys.stdin.read().split("\n")]
    found: dict[str, tuple[int, Any]] = {}
    for start in range(0, len(wanted), FEW):
        found |= run_forked(wanted[start : start + FEW], paddle, Path(f"{out}.part.npz"))
    save(out, found)


if __name__ == "__main__":
    main()
