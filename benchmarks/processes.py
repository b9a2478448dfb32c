"""Libraries in processes of their own, asked by JSON lines: the benchmark and its workers share this protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["Worker", "answer"]


class Worker:
    """A library's process; what it prints beside its answers is shown when it stops too early."""

    def __init__(self, library: str, command: Sequence[str], env: Mapping[str, str] | None = None):
        self.library = library
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)

    def ask(self, **request: Any) -> dict[str, Any]:
        """What the worker answers to a request; `SystemExit` with what it printed last if it has ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            _, errors = self.process.communicate()
            raise SystemExit(f"{self.library} stopped:\n{errors[-2000:]}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def answer(handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """In a worker: answer each request on standard input by `handle`, until there are no more."""
    # Libraries print; the protocol keeps the real standard output for itself.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        channel.write(json.dumps(handle(json.loads(line))) + "\n")
        channel.flush()
