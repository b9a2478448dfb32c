"""What has to hold for any model file: it loads or is refused, in time, and with no more memory than its size allows.

The memory that reading may take is a limit of the address space, so that nothing which asks for more goes unseen, touched or not.
"""

from __future__ import annotations

import contextlib
import math
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme import safetensors
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import evaluate, symbols
from polyreme.jit import reading
from polyreme.jit.traced import Traced
from polyreme.loaders import read_model, uses_of
from polyreme.loaders.numpy_files import read_npy, read_npz
from polyreme.runtime.errors import RuntimeFault
from tests.fuzz.checks import Fault, no_crash, time_limit
from tests.fuzz.models import ModelFiles

SECONDS = 10.0
# What reading a file may take beyond what the process has: the modules of the operators that it names, and so much for each byte.
MEMORY, FACTOR = 96 << 20, 256
# A program is compiled and run if its tensors have no more elements than this, and it has no more ops than that.
MOST_ELEMENTS, MOST_OPS = 200_000, 300
FREE_SIZE = 3


def _address_space() -> int:
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[0]) * resource.getpagesize()


@contextlib.contextmanager
def memory_limit(count: int, doing: str) -> Iterator[None]:
    """A fault when the body asks for more than `count` bytes beyond what the process has, whatever becomes of the `MemoryError`."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = _address_space() + count
    limit = most if before[1] == resource.RLIM_INFINITY else min(most, before[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, MemoryError):
                raise Fault(f"memory: more than {count >> 20} MiB while {doing}", repr(error)[:2000]) from None
            cause = cause.__cause__ or cause.__context__
        raise
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def read(file: Path) -> Any:
    """What a file holds, by the door of its kind: a `Traced`, or tensors; None where the file of its parameters is missing."""
    if file.suffix in (".json", ".pdmodel"):
        with contextlib.suppress(PolyremeError):
            uses_of(file)
        try:
            return read_model(file)
        except FileNotFoundError:
            return None  # a program that has parameters now, and had none
    if file.suffix == ".polyreme":
        # Mapped, too: what is in the file is looked at by other code then.
        with contextlib.suppress(PolyremeError):
            reading.read_model(file, mapped=True)
        return reading.read_model(file)
    if file.suffix in (".npy", ".npz"):
        try:
            return read_npy(file) if file.suffix == ".npy" else read_npz(file)
        except ValueError as error:
            raise PolyremeError(f"cannot read {file}: {error}") from None  # as the command line says it
    return safetensors.load_file(file) if file.suffix == ".safetensors" else paddle.load(str(file))


def check_model(model: ModelFiles, runs: bool = False) -> str:
    """What becomes of a model: "refused", "read", "run" when it was compiled and run, or "stopped" when that was refused."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        file = model.write(Path(folder))
        try:
            with time_limit(SECONDS), no_crash("reading"), memory_limit(MEMORY + FACTOR * model.size, "reading"):
                made = read(file)
                if made is None:
                    return "refused"
        except PolyremeError as error:
            with no_crash("saying why a file is refused"):
                text = str(error)
            if file.stem not in text:
                raise Fault(f"no file named: {type(error).__name__}", text[:2000]) from None
            return "refused"
        if not runs or not isinstance(made, Traced) or not is_small(made):
            return "read"
        try:
            with time_limit(60.0), no_crash("compiling and running"):
                run(made)
        except (PolyremeError, RuntimeFault) as error:
            with no_crash("saying why a model does not run"):
                str(error)
            return "stopped"
        return "run"


def is_small(traced: Traced) -> bool:
    """Whether a run of it is a matter of a moment."""
    count = 0
    for op in traced.func.walk():
        count += 1
        for value in op.results:
            sizes = [_size(d) for d in getattr(value.type, "shape", ())]
            if math.prod(sizes) > MOST_ELEMENTS:
                return False
    return count <= MOST_OPS and all(math.prod(map(_size, type.shape)) <= MOST_ELEMENTS for type in traced.inputs)


def _size(dim: Any) -> int:
    if isinstance(dim, int):
        return abs(dim)
    return abs(evaluate(dim, dict.fromkeys(symbols(dim), FREE_SIZE)))


def run(traced: Traced) -> None:
    """It is compiled, and run once on random inputs."""
    from polyreme.jit.loading import TranslatedLayer

    rng = np.random.default_rng(len(traced.inputs))
    inputs = []
    for type in traced.inputs:
        values = rng.uniform(0, 3, [_size(d) for d in type.shape])
        inputs.append(paddle.to_tensor(values.astype(type.dtype.np)))
    results = TranslatedLayer(traced)(*inputs)
    for result in results if isinstance(results, (list, tuple)) else [results]:
        if isinstance(result, paddle.Tensor):
            result.numpy()


def warm() -> None:
    """Import what reading imports late, so that it does not count as a file's."""
    from tests.fuzz.models import models

    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        for model in models():
            with contextlib.suppress(PolyremeError):
                read(model.write(Path(folder)))

