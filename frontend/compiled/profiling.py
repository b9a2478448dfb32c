"""`paddle.profile`: where the time of a compiled model goes, by kernel.

    print(paddle.profile(net, [image]))

The model is compiled once more, with a look at the clock after each call of a kernel, so nothing outside of it is needed, and nothing is in
the way when no profile is asked for. What one look at the clock takes (tens of nanoseconds) is taken off.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from polyreme.ir.builtin import Module

__all__ = ["KernelTime", "Profile", "profile"]

FEWEST_RUNS = 5
MOST_RUNS = 2000


@dataclass(frozen=True)
class KernelTime:
    """One piece of the program, which one kernel or several in a row compute, or all pieces that the same kernels compute.

    `seconds` is the median over the runs, `best` the lowest, of all `calls` together. `operations` (a product with its sum is two) and
    `moved` bytes (every operand and result once) are counted on the tensor level, again of all calls; 0 when not known. `threads` is how
    many may have worked on it.
    """

    kernels: tuple[str, ...]
    ops: str
    shape: str
    layer: str
    place: str
    calls: int
    seconds: float
    best: float
    operations: int
    moved: int
    threads: int

    @property
    def gflops(self) -> float:
        """10⁹ operations a second, of the best run."""
        return self.operations / self.best / 1e9 if self.best else 0.0

    @property
    def gbytes(self) -> float:
        """10⁹ bytes a second, of the best run."""
        return self.moved / self.best / 1e9 if self.best else 0.0

    def with_call_of(self, other: KernelTime) -> KernelTime:
        """Both as one entry, under the names of this one."""
        added = {name: getattr(self, name) + getattr(other, name) for name in ("calls", "seconds", "best", "operations", "moved")}
        return replace(self, **added)


@dataclass(frozen=True)
class Profile:
    """The times of a model's kernels, in the order in which they run; `seconds` is the median of a whole run, `runs` how many there were.
    """

    name: str
    inputs: str
    threads: int
    runs: int
    seconds: float
    entries: tuple[KernelTime, ...]

    def by_kernel(self) -> tuple[KernelTime, ...]:
        """Entries whose work is the same as one, the dearest first."""
        merged: dict[object, KernelTime] = {}
        for entry in self.entries:
            key = (entry.kernels, entry.ops, entry.shape)
            merged[key] = merged[key].with_call_of(entry) if key in merged else entry
        return tuple(sorted(merged.values(), key=lambda e: -e.seconds))

    def table(self, entries: Sequence[KernelTime] | None = None) -> str:
        """`entries` as text, by default those of `by_kernel`."""
        total = sum(e.seconds for e in self.entries) or 1.0
        head = f"{'median µs':>11}{'share':>7}{'best µs':>11}{'calls':>6}{'GFLOP/s':>9}{'GB/s':>7}{'thr':>4}  "
        lines = [
            f"{self.name}  {self.inputs}",
            f"{self.runs} runs, {self.threads} threads, median {self.seconds * 1e6:.1f} µs, in kernels {total * 1e6:.1f} µs",
        ]
        lines.append(f"{head}kernels: what they compute")
        for e in self.by_kernel() if entries is None else entries:
            numbers = (
                f"{e.seconds * 1e6:>11.1f}{e.seconds / total:>7.1%}{e.best * 1e6:>11.1f}{e.calls:>6}"
                f"{e.gflops:>9.1f}{e.gbytes:>7.1f}{e.threads:>4}  "
            )
            more = f" and {e.calls - 1} more" if e.calls > 1 else ""
            where = (e.layer or e.place) + more
            lines.append(f"{numbers}{' + '.join(e.kernels)}: {e.shape} {e.ops}{f' ({where})' if where else ''}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, for JSON."""
        entries = [{**asdict(e), "gflops": e.gflops, "gbytes": e.gbytes} for e in self.entries]
        return {
            "model": self.name,
            "inputs": self.inputs,
            "threads": self.threads,
            "runs": self.runs,
            "seconds": self.seconds,
            "kernels": entries,
        }

    def __str__(self) -> str:
        return self.table()


def profile(
    net: Any,
    inputs: Sequence[Any] | None = None,
    input_spec: Sequence[Any] | None = None,
    sizes: dict[str, int] | None = None,
    seconds: float = 2.0,
    threads: int | None = None,
) -> Profile:
    """Run a Layer, function, loaded model or module for about `seconds` and say where the time goes. A step of training runs without being
    taken: each run begins with the parameters and the optimizer's state as they are.

    `inputs` are its arrays, random ones by default; `input_spec` what it takes, as for `paddle.compile`, by default the shapes of `inputs`
    or its own. `sizes` gives the free sizes, 1 by default. `threads` is how many compute, by default as for every model. For this machine's
    processor only.
    """
    from polyreme.compiled.inspection import runnable_module
    from polyreme.runtime.threads import get_num_threads, set_num_threads
    from polyreme.static import InputSpec

    arrays = None if inputs is None else [np.asarray(x) for x in inputs]
    if input_spec is None and arrays is not None:
        input_spec = [InputSpec(list(a.shape), a.dtype.name) for a in arrays]
    module, contents = runnable_module(net, input_spec)
    before = get_num_threads()
    set_num_threads(threads or before)
    try:
        return profile_module(module, getattr(net, "__name__", type(net).__name__), arrays, sizes, seconds, contents)
    finally:
        set_num_threads(before)


def profile_module(
    module: Module,
    name: str,
    arrays: Sequence[Any] | None = None,
    sizes: dict[str, int] | None = None,
    seconds: float = 2.0,
    contents: Sequence[Any] | None = None,
) -> Profile:
    """The same of a module whose weights are constants, or else what its arguments hold is among its `contents`, None standing for inputs;
    on as many threads as models have now.
    """
    from polyreme.compiled.executables import load_profiled
    from polyreme.lowering.debug.profile import steps_of
    from polyreme.runtime.threads import get_num_threads

    executable = load_profiled(module)
    values = dict.fromkeys(executable.manifest.size_names, 1) | (sizes or {})
    inputs = executable.manifest.inputs
    if contents is None:
        arrays = random_inputs(executable.manifest, values) if arrays is None else arrays
    else:
        given, drawn = iter(arrays or ()), random_inputs(executable.manifest, values)
        arrays = [next(given, other) if held is None else held for held, other in zip(contents, drawn, strict=True)]
        inputs = [spec for spec, held in zip(inputs, contents, strict=True) if held is None]
    threads = get_num_threads()
    times, whole = _run(executable, arrays, seconds)
    taken = np.maximum(np.diff(times, axis=1) * 1e-9, 0.0)
    taken = np.maximum(taken[:, 1:] - np.median(taken[:, :1]), 0.0)
    roots: dict[int, list[int]] = {}
    steps = steps_of(executable.manifest)
    for i, step in enumerate(steps):
        roots.setdefault(step.root, []).append(i)
    entries = []
    for members in roots.values():
        per_run, first = taken[:, members].sum(axis=1), steps[members[0]]
        operations, moved = first.counts(values)
        entries.append(
            KernelTime(
                tuple(steps[i].kernel for i in members), first.ops, first.shape, first.layer, first.place, 1, float(np.median(per_run)),
                float(per_run.min()), operations, moved, threads if any(steps[i].parallel for i in members) else 1,
            )
        )  # fmt: skip
    taken_by = dict(zip((spec.name for spec in executable.manifest.inputs), arrays, strict=True))
    shapes = ", ".join(f"{s.name}: {taken_by[s.name].dtype}{list(taken_by[s.name].shape)}" for s in inputs)
    return Profile(name, shapes, threads, len(times), float(np.median(whole)), tuple(entries))


def _run(executable: Any, arrays: Sequence[Any], seconds: float) -> tuple[Any, list[float]]:
    """The times that each run notes (runs x stamps, in nanoseconds), and the seconds of each whole run. The first two are not counted."""
    times: list[Any] = []
    whole: list[float] = []
    for _ in range(2):
        executable.run(arrays)
    end = time.perf_counter() + seconds
    while len(times) < FEWEST_RUNS or (len(times) < MOST_RUNS and time.perf_counter() < end):
        start = time.perf_counter()
        outputs = executable.run(arrays)
        whole.append(time.perf_counter() - start)
        times.append(outputs[-1])
    return np.stack(times), whole


def random_inputs(manifest: Any, sizes: dict[str, int]) -> list[Any]:
    """An array for each input of a compiled model: normal numbers, or small whole ones for integers."""
    from polyreme.runtime.manifest.sizes import parse_size
    from polyreme.runtime.memory import numpy_dtype

    rng = np.random.default_rng(0)
    arrays = []
    names = manifest.size_names
    for spec in manifest.inputs:
        shape = [parse_size(d, names)(sizes) if isinstance(d, str) else d for d in spec.shape]
        dtype = numpy_dtype(spec.dtype)
        numbers = rng.integers(0, 2, shape) if dtype.kind in "iub" else rng.standard_normal(shape)
        arrays.append(np.array(numbers, dtype, order="C"))
    return arrays
