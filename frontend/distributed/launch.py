"""`python -m polyreme.distributed.launch --nproc_per_node 2 train.py …`: a script in several processes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from polyreme.ir import config
from polyreme.ir.diagnostics import PolyremeError
from polyreme.runtime.errors import RuntimeFault

__all__ = ["launch", "main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m polyreme.distributed.launch", description="Run a script in several processes that train together."
    )
    parser.add_argument("--nproc_per_node", type=int, help="how many processes; by default one per processor")
    parser.add_argument("--gpus", "--devices", dest="devices", help="a list such as 0,1: one process for each")
    parser.add_argument("script", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")
    return parser


def ranks_of(nproc: int | None, devices: str | None) -> int:
    """How many processes these options ask for."""
    if nproc is None:
        nproc = len(devices.split(",")) if devices else config.processors()
    if nproc < 1:
        raise PolyremeError(f"expected at least one process but got {nproc}", code="E0004")
    return nproc


def launch(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code of the processes."""
    from polyreme.distributed.processes import run_ranks

    options = _parser().parse_args(argv)
    return run_ranks(ranks_of(options.nproc_per_node, options.devices), [sys.executable, options.script, *options.arguments])


def main() -> None:
    try:
        code = launch()
    except (PolyremeError, RuntimeFault) as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
