"""Names for Graphcore's processors, for which nothing here makes code: each says so."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["IpuCompiledProgram", "IpuStrategy", "ipu_shard_guard", "set_ipu_shard"]

_WAY_OUT = "this build makes no code for IPUs; run the program with paddle.static.Executor(paddle.CPUPlace())"


class IpuStrategy:
    """Options of a run on IPUs; making one is a `RuntimeError`."""

    def __init__(self) -> None:
        raise RuntimeError(f"Can not use IpuStrategy in non IPU compiled environment: {_WAY_OUT}")


class IpuCompiledProgram:
    """A program compiled for IPUs; making one is a `ValueError`."""

    def __init__(self, program: Any = None, scope: Any = None, ipu_strategy: Any = None):
        _refuse("IpuCompiledProgram")


def ipu_shard_guard(index: int = -1, stage: int = -1) -> NoReturn:
    """Which IPU operators run on: a `ValueError`."""
    _refuse("ipu_shard_guard")


def set_ipu_shard(call_func: Any, index: int = -1, stage: int = -1) -> NoReturn:
    """Which IPU a layer or function runs on: a `ValueError`."""
    _refuse("set_ipu_shard")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"expected no use of {name} but it was called: {_WAY_OUT}")
