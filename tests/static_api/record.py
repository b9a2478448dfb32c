"""`python -m tests.static_api.record [VERSION ...]`: run cases under the Paddles that tell what is right, and store what came.

`POLYREME_PADDLE_PYTHON` names a python that has Paddle 3.3.1, and `POLYREME_PADDLE_262_PYTHON` one that has 2.6.2.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.api.outcome import Failure, read, run_case, save
from tests.static_api.table import VERSIONS, load

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "fixtures" / "static_api"
PYTHONS = {"3.3.1": "POLYREME_PADDLE_PYTHON", "2.6.2": "POLYREME_PADDLE_262_PYTHON"}


def stored() -> dict[str, tuple[int, Any]]:
    """What is kept: fingerprints and outcomes by id."""
    found: dict[str, tuple[int, Any]] = {}
    for version in VERSIONS:
        path = FOLDER / f"{version}.npz"
        found |= read(path) if path.exists() else {}
    return found


def run_under_paddle(version: str, ids: list[str], timeout: float = 600) -> dict[str, tuple[int, Any]]:
    """Outcomes with fingerprints by id, each case in a process of its own."""
    python = os.environ.get(PYTHONS[version])
    if python is None:
        raise RuntimeError(f"expected a python with paddlepaddle {version} in {PYTHONS[version]}")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out.npz"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_minloglevel": "3"}
        done = subprocess.run(
            [python, "-m", "tests.static_api.record", "--in-paddle", str(out)], input="\n".join(ids), text=True, capture_output=True,
            cwd=ROOT, env=environment, timeout=timeout, check=False,
        )  # fmt: skip
        if not out.exists():
            raise RuntimeError(f"the process under Paddle ended with {done.returncode}:\n{done.stderr[-3000:]}")
        return read(out)


def in_paddle(out: Path) -> None:
    """Run the cases whose ids stand on standard input, in the process that has Paddle; one that ends its process is a failure."""
    import paddle

    cases = load()
    found: dict[str, tuple[int, Any]] = {}
    for case in [cases[i] for i in sys.stdin.read().split("\n")]:
        part = Path(f"{out}.part.npz")
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            save(part, {case.id: (case.fingerprint, run_case(case, paddle))})
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found |= read(part) if not status else {case.id: (case.fingerprint, Failure(("crash",), f"the process ended with {status}"))}
    save(out, found)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--in-paddle"]:
        in_paddle(Path(arguments[1]))
        return
    cases = load()
    for version in arguments or VERSIONS:
        own = [i for i, case in cases.items() if case.subject == version]
        outcomes = run_under_paddle(version, own)
        path = FOLDER / f"{version}.npz"
        save(path, outcomes)
        print(f"{version}: {len(own)} cases, {path.stat().st_size} bytes")
        for i, (_, outcome) in outcomes.items():
            if isinstance(outcome, Failure):
                print(f"  refused by Paddle: {i}\n      {outcome.kinds[0]}: {' '.join(outcome.text.split())[:300]}")


if __name__ == "__main__":
    main(sys.argv[1:])
