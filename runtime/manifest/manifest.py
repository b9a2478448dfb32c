"""A manifest: what a model takes and gives, and whatever else has to be known to call it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.manifest.checks import check_consistent
from polyreme.runtime.manifest.reading import (
    Reader,
    read_argument,
    read_constant,
    read_extra,
    read_guard,
    read_look,
    read_range,
    read_size,
    read_step,
    read_target,
    read_tensor,
    read_update,
)
from polyreme.runtime.manifest.specs import ConstantSpec, GuardSpec, LookSpec, RangeSpec, SizeSpec, StepSpec, TargetSpec, TensorSpec

__all__ = ["FORMAT", "GPU_HOST", "GPU_PLAN", "Manifest"]

FORMAT = 1

# Where `extra` of a manifest has the plan for a GPU, if the artifact is for one.
GPU_PLAN = "gpu"
# Where `extra` of a library for a GPU has the triple of the machine that its own code is for.
GPU_HOST = "host"


@dataclass(frozen=True)
class Manifest:
    """Everything that must be known to call a model.

    `arguments` gives the order of the native function's buffers: pairs ("input" | "constant" | "output" | "looks", number), the
    last for the numbers that a run tells for `looks`. `updates` gives pairs (input, output) that may be one memory in a call: such an
    input is replaced. `objects` gives the bytes of each object file in the code, which is a single one when there are none.

    A model with sizes that only a run tells is in parts: `steps` says what runs in which order. Values are in slots, of which the first are
    the inputs and `results` the outputs, whose shapes may have sizes of the parts. What is said of constants and native functions is said
    by the parts' own manifests then.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constants: tuple[ConstantSpec, ...]
    sizes: tuple[SizeSpec, ...]
    arguments: tuple[tuple[str, int], ...]
    target: TargetSpec
    extra: Mapping[str, str] = field(default_factory=dict)
    guards: tuple[GuardSpec, ...] = ()
    objects: tuple[int, ...] = ()
    ranges: tuple[RangeSpec, ...] = ()
    looks: tuple[LookSpec, ...] = ()
    updates: tuple[tuple[int, int], ...] = ()
    parts: tuple[Manifest, ...] = ()
    steps: tuple[StepSpec, ...] = ()
    results: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_consistent(self)

    @cached_property
    def size_names(self) -> tuple[str, ...]:
        return tuple(size.name for size in self.sizes)

    @cached_property
    def bounds(self) -> tuple[GuardSpec, ...]:
        """The guards that a run has to look at, the types of the inputs aside."""
        return tuple(guard for guard in self.guards if guard.kind == "bound")

    def reasons(self, spec: TensorSpec, axis: int, kind: str) -> str:
        """In words, why an axis of an input has to be of its size: the guards of the kind, or all if there are none of it; empty without
        guards.
        """
        size, begin = str(spec.shape[axis]), f"axis {axis} of '{spec.name}' to be "
        about = [g for g in self.guards if g.size == size and (g.what.startswith(begin) if g.kind == "fixed" else g.kind != "bound")]
        return " and ".join(guard.what for guard in [g for g in about if g.kind == kind] or about)

    @cached_property
    def all_constants(self) -> tuple[ConstantSpec, ...]:
        """The constants of the model, or of all of its parts."""
        return (*self.constants, *(constant for part in self.parts for constant in part.constants))

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of all constants together, to the end of the last."""
        return max((c.offset + c.bytes for c in self.all_constants), default=0)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        return (
            {
                "format": FORMAT,
                "name": self.name,
                "inputs": [{"name": t.name, "dtype": t.dtype, "shape": list(t.shape), "role": t.role} for t in self.inputs],
                "outputs": [{"name": t.name, "dtype": t.dtype, "shape": list(t.shape), "role": t.role} for t in self.outputs],
                "constants": [
                    {"name": c.name, "dtype": c.dtype, "shape": list(c.shape), "offset": c.offset, "bytes": c.bytes} for c in self.constants
                ],
                "sizes": [
                    {"name": s.name, "input": s.input, "axis": s.axis}
                    | ({} if (s.scale, s.offset) == (1, 0) else {"scale": s.scale, "offset": s.offset})
                    for s in self.sizes
                ],
                "arguments": [list(a) for a in self.arguments],
                "target": {"triple": self.target.triple, "cpu": self.target.cpu, "features": self.target.features},
                "extra": dict(sorted(self.extra.items())),
            }
            | (
                {"guards": [{"size": g.size, "what": g.what, "kind": g.kind, "low": g.low, "high": g.high} for g in self.guards]}
                if self.guards
                else {}
            )
            | (
                {"ranges": [{"input": r.input, "low": r.low, "high": r.high, "what": r.what} for r in self.ranges]}
                if self.ranges
                else {}
            )
            | ({"looks": [{"wraps": int(look.wraps), "what": look.what} for look in self.looks]} if self.looks else {})
            | ({"updates": [list(pair) for pair in self.updates]} if self.updates else {})
            | ({"objects": list(self.objects)} if self.objects else {})
            | (
                {
                    "parts": [part.to_json() for part in self.parts],
                    "steps": list(map(_step_to_json, self.steps)),
                    "results": list(self.results),
                }
                if self.steps
                else {}
            )
        )

    def to_bytes(self) -> bytes:
        """JSON; equal manifests give equal bytes."""
        return json.dumps(self.to_json(), separators=(",", ":"), ensure_ascii=True).encode()

    @staticmethod
    def from_json(data: Any, parts: bool = True) -> Manifest:
        """The manifest in `data`; `ArtifactError` names the first field that is missing or wrong. That of a part has no `parts`."""
        top = Reader(data, "manifest")
        found = top.integer("format", 0, 1 << 31)
        if found != FORMAT:
            raise ArtifactError(f"expected a manifest of format {FORMAT} but got format {found}: compile the model again", code="E0802")
        manifest = Manifest(
            name=top.text("name"),
            inputs=tuple(read_tensor(item, ("input", "param", "packed", "state")) for item in top.items("inputs")),
            outputs=tuple(read_tensor(item, ("output",)) for item in top.items("outputs")),
            constants=tuple(read_constant(item) for item in top.items("constants")),
            sizes=tuple(read_size(item) for item in top.items("sizes")),
            arguments=tuple(read_argument(item, i) for i, item in enumerate(top.entries("arguments"))),
            target=read_target(top.child("target")),
            extra=read_extra(top.child("extra")),
            guards=tuple(read_guard(item) for item in top.items("guards")) if "guards" in top.data else (),
            objects=top.counts("objects") if "objects" in top.data else (),
            ranges=tuple(read_range(item) for item in top.items("ranges")) if "ranges" in top.data else (),
            looks=tuple(read_look(item) for item in top.items("looks")) if "looks" in top.data else (),
            updates=tuple(read_update(item, i) for i, item in enumerate(top.entries("updates"))) if "updates" in top.data else (),
            parts=tuple(Manifest.from_json(item, parts=False) for item in top.entries("parts")) if "parts" in top.data and parts else (),
            steps=tuple(read_step(item) for item in top.items("steps")) if "steps" in top.data and parts else (),
            results=top.counts("results") if "results" in top.data and parts else (),
        )
        top.finish()
        return manifest

    @staticmethod
    def from_bytes(data: bytes) -> Manifest:
        try:
            return Manifest.from_json(json.loads(data))
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"expected the manifest to be JSON but got: {error}") from error


def _step_to_json(step: StepSpec) -> dict[str, Any]:
    plain = step._asdict() | {"takes": list(step.takes), "gives": list(step.gives), "names": list(step.names)}
    bodies = [{"steps": list(map(_step_to_json, body.steps)), "yields": list(body.yields)} for body in step.bodies]
    return plain | {"bodies": bodies}
