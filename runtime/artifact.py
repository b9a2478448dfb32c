"""An artifact: the manifest (what a model takes and gives), its object code, and its constants.

In a file: a header of fixed size, the constants, then the manifest as JSON, the object code, and a checksum per block of constants
(`checksum.py`). Constants come first since they are known before the code is: both are made at the same time. The header holds a digest of
all but the constants, so a truncated or changed file is refused before anything of it is used. Reading checks every field of the manifest
against the limits below. Constants stay where they are read from, which may be a mapped file.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from polyreme.runtime.checksum import checksum_bytes, checksums
from polyreme.runtime.digest import blake2b
from polyreme.runtime.draft import Draft
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.memory import ALIGNMENT
from polyreme.runtime.pieces import Pieces, bytes_of
from polyreme.runtime.sizes import MAX_LENGTH, NAME, parse_size

FORMAT = 1  # of the manifest
FILE_FORMAT = 4
MAGIC = b"polyreme-model\0\0"
HEADER = struct.Struct("<16sIIQQQ32s")  # magic, format, zero, bytes of manifest, object and constants, digest
# Where constants begin in a file.
CONSTANTS_AT = -(-HEADER.size // ALIGNMENT) * ALIGNMENT

# Where `extra` of a manifest has the plan for a GPU, if the artifact is for one.
GPU_PLAN = "gpu"

MAX_MANIFEST_BYTES = 64 << 20
MAX_ARGUMENTS = 100_000
MAX_RANK = 64
MAX_SIZE = 1 << 48
MAX_NAME = 1000

# Bytes of one element, by numpy's name of the dtype.
DTYPES = {
    "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip

Shape = tuple["int | str", ...]

# What is read at every start is made of tuples, which Python makes much quicker than dataclasses.


class TensorSpec(NamedTuple):
    """An input or output. A size is a number or the text of an expression over the manifest's sizes, such as `2*N+1`."""

    name: str
    dtype: str
    shape: Shape
    role: str = "input"  # "input", "param" (a weight passed at every run), "packed" (one as kernels want it), "state", or "output"

    @property
    def is_static(self) -> bool:
        return not any(isinstance(size, str) for size in self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


class ConstantSpec(NamedTuple):
    """An array inside the constants: `bytes` bytes from `offset`, which is a multiple of 64."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    bytes: int


class SizeSpec(NamedTuple):
    """A named size, and where its value is read: axis `axis` of input number `input` has `scale` times the value, plus `offset`."""

    name: str
    input: int
    axis: int
    scale: int = 1
    offset: int = 0


class GuardSpec(NamedTuple):
    """What the code was compiled for, as to `size`, an expression over the manifest's sizes; `what` says it in words, with the line that
    asks for it.

    `kind` is "bound" where `size` has to be from `low` to `high`; "divisor" or "equal" say why inputs have axes of just this size, "fixed"
    why one axis, with which its words begin, has this number.
    """

    size: str
    what: str
    kind: str
    low: int | None = None
    high: int | None = None


class RangeSpec(NamedTuple):
    """All elements of an input, of whole numbers, are from `low` to `high`; `what` says which they are, with the line that asks for it."""

    input: int
    low: int
    high: int
    what: str


class LookSpec(NamedTuple):
    """Positions that a run computes: from 0, or from minus the size of their axis where they wrap; `what` says which they are, with the
    line that reads at them. A run tells three numbers of each: the least, the greatest, and the size.
    """

    wraps: bool
    what: str


GUARD_KINDS = ("divisor", "equal", "bound", "fixed")


class BodySpec(NamedTuple):
    """A body of a branch or loop: steps, and the slots of what it yields. It reads the slots around it, and gives slots of its own."""

    steps: tuple[StepSpec, ...]
    yields: tuple[int, ...]


class StepSpec(NamedTuple):
    """One step of a model in parts: what is in the slots `takes` gives what goes into the slots `gives`.

    "part" runs part number `part`. "first" gives the first rows of a slot, as many as the number in a second one says; "range" gives the
    numbers 0, 1, … below the number in a slot; "size" gives so many rows without elements, if a flag in a second slot says that the number
    is what is needed, which `need` says in words. All make a size of the number.

    "if" takes a flag and gives what the first of two `bodies` yields if it holds, else the second. "while" runs the second of its bodies
    for as long as the first one yields a flag that holds: both read what is carried, which is what the step takes at first and what the
    second body yielded then, in the slots that it gives; a last slot has the number of rounds. `names` are what a step calls the sizes
    that are known once it has run.
    """

    kind: str
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    part: int = 0
    names: tuple[str, ...] = ()
    need: str = ""
    bodies: tuple[BodySpec, ...] = ()

    def reads(self) -> list[int]:
        """The slots that the step needs: those that it takes, and what its bodies read from around it."""
        found = dict.fromkeys(self.takes)
        for body in self.bodies:
            own = set(self.gives)
            for step in body.steps:
                found |= dict.fromkeys(slot for slot in step.reads() if slot not in own)
                own.update(step.gives)
            found |= dict.fromkeys(slot for slot in body.yields if slot not in own)
        return list(found)


# How many slots a step of each kind takes and gives; of a part its manifest says.
STEP_KINDS = {"part": None, "first": (2, 1), "range": (1, 1), "size": (2, 1), "if": None, "while": None}
# How deep branches and loops of a manifest may stand in one another.
MOST_NESTED = 32


class TargetSpec(NamedTuple):
    """The machine that the code is for, in LLVM's words."""

    triple: str
    cpu: str = ""
    features: str = ""


@dataclass(frozen=True)
class Manifest:
    """Everything that must be known to call a model.

    `arguments` gives the order of the native function's buffers: pairs ("input" | "constant" | "output" | "looks", number), the
    last for the numbers that a run tells for `looks`. `objects` gives the bytes
    of each object file in the code, which is a single one when there are none.

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
    parts: tuple[Manifest, ...] = ()
    steps: tuple[StepSpec, ...] = ()
    results: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_consistent(self)

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
        top = _Reader(data, "manifest")
        found = top.integer("format", 0, 1 << 31)
        if found != FORMAT:
            raise ArtifactError(f"expected a manifest of format {FORMAT} but got format {found}: compile the model again", code="E0802")
        manifest = Manifest(
            name=top.text("name"),
            inputs=tuple(_tensor(item, ("input", "param", "packed", "state")) for item in top.items("inputs")),
            outputs=tuple(_tensor(item, ("output",)) for item in top.items("outputs")),
            constants=tuple(_constant(item) for item in top.items("constants")),
            sizes=tuple(_size(item) for item in top.items("sizes")),
            arguments=tuple(_argument(item, i) for i, item in enumerate(top.entries("arguments"))),
            target=_target(top.child("target")),
            extra=_extra(top.child("extra")),
            guards=tuple(_guard(item) for item in top.items("guards")) if "guards" in top.data else (),
            objects=top.counts("objects") if "objects" in top.data else (),
            ranges=tuple(_range(item) for item in top.items("ranges")) if "ranges" in top.data else (),
            looks=tuple(_look(item) for item in top.items("looks")) if "looks" in top.data else (),
            parts=tuple(Manifest.from_json(item, parts=False) for item in top.entries("parts")) if "parts" in top.data and parts else (),
            steps=tuple(_step(item) for item in top.items("steps")) if "steps" in top.data and parts else (),
            results=top.counts("results") if "results" in top.data and parts else (),
        )
        top.finish()
        return manifest

    @staticmethod
    def from_bytes(data: bytes) -> Manifest:
        try:
            return Manifest.from_json(json.loads(data))
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise ArtifactError(f"expected the manifest to be JSON but got: {error}") from error


class _Reader:
    """The fields of one JSON object, each taken once and checked; `path` is for messages."""

    def __init__(self, data: Any, path: str):
        if not isinstance(data, dict):
            raise ArtifactError(f"expected '{path}' to be an object but got {_kind(data)}")
        self.data, self.path = dict(data), path

    def take(self, key: str) -> Any:
        if key not in self.data:
            raise ArtifactError(f"expected a field '{key}' in '{self.path}'")
        return self.data.pop(key)

    def finish(self) -> None:
        if self.data:
            raise ArtifactError(f"expected no other fields in '{self.path}' but got {', '.join(sorted(map(repr, self.data)))}")

    def text(self, key: str, limit: int = MAX_NAME) -> str:
        value = self.take(key)
        if not isinstance(value, str) or len(value) > limit or "\0" in value:
            raise ArtifactError(f"expected '{self.path}.{key}' to be a text of at most {limit} characters but got {_kind(value)}")
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        value = self.take(key)
        if not isinstance(value, str) or value not in choices:
            raise ArtifactError(f"expected '{self.path}.{key}' to be one of {', '.join(choices)} but got {value!r:.100}")
        return value

    def integer(self, key: str, low: int, high: int) -> int:
        value = self.take(key)
        if not _is_int(value) or not low <= value <= high:
            raise ArtifactError(f"expected '{self.path}.{key}' to be a whole number from {low} to {high} but got {value!r:.100}")
        return int(value)

    def limit(self, key: str) -> int | None:
        """A bound of a size, or None."""
        if self.data.get(key, 0) is None:
            self.take(key)
            return None
        return self.integer(key, -MAX_SIZE, MAX_SIZE)

    def entries(self, key: str, limit: int = MAX_ARGUMENTS) -> list[Any]:
        value = self.take(key)
        if not isinstance(value, list) or len(value) > limit:
            raise ArtifactError(f"expected '{self.path}.{key}' to be a list of at most {limit} items but got {_kind(value)}")
        return value

    def items(self, key: str) -> list[_Reader]:
        return [_Reader(item, f"{self.path}.{key}[{i}]") for i, item in enumerate(self.entries(key))]

    def child(self, key: str) -> _Reader:
        return _Reader(self.take(key), f"{self.path}.{key}")

    def counts(self, key: str) -> tuple[int, ...]:
        """A list of numbers of bytes."""
        values = self.entries(key)
        for value in values:
            if not _is_int(value) or not 0 <= value <= MAX_SIZE:
                raise ArtifactError(f"expected '{self.path}.{key}' to be numbers of bytes but got {value!r:.100}")
        return tuple(values)

    def static_shape(self, key: str) -> tuple[int, ...]:
        shape = self.entries(key, MAX_RANK)
        for size in shape:
            if not _is_int(size) or not 0 <= size <= MAX_SIZE:
                raise ArtifactError(f"expected the sizes in '{self.path}.{key}' to be from 0 to {MAX_SIZE} but got {size!r:.100}")
        return tuple(shape)

    def shape(self, key: str) -> Shape:
        shape = self.entries(key, MAX_RANK)
        for size in shape:
            known = _is_int(size) and 0 <= size <= MAX_SIZE
            if not known and not (isinstance(size, str) and 0 < len(size) <= MAX_LENGTH):
                raise ArtifactError(
                    f"expected the sizes in '{self.path}.{key}' to be from 0 to {MAX_SIZE}, or texts, but got {size!r:.100}"
                )
        return tuple(shape)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    return (
        "nothing" if value is None else f"{type(value).__name__} of length {len(value)}" if hasattr(value, "__len__") else f"{value!r:.100}"
    )


def _tensor(reader: _Reader, roles: Sequence[str]) -> TensorSpec:
    spec = TensorSpec(reader.text("name"), reader.choice("dtype", tuple(DTYPES)), reader.shape("shape"), reader.choice("role", roles))
    reader.finish()
    return spec


def _constant(reader: _Reader) -> ConstantSpec:
    name, dtype, shape = reader.text("name"), reader.choice("dtype", tuple(DTYPES)), reader.static_shape("shape")
    spec = ConstantSpec(name, dtype, shape, reader.integer("offset", 0, MAX_SIZE), reader.integer("bytes", 0, MAX_SIZE))
    reader.finish()
    return spec


def _size(reader: _Reader) -> SizeSpec:
    name = reader.text("name")
    if not NAME.match(name):
        raise ArtifactError(f"expected '{reader.path}.name' to be an identifier but got {name!r}")
    place = reader.integer("input", 0, MAX_ARGUMENTS), reader.integer("axis", 0, MAX_RANK)
    line = (reader.integer("scale", 1, MAX_SIZE), reader.integer("offset", -MAX_SIZE, MAX_SIZE)) if "scale" in reader.data else (1, 0)
    reader.finish()
    return SizeSpec(name, *place, *line)


def _guard(reader: _Reader) -> GuardSpec:
    size, what = reader.text("size", MAX_LENGTH), reader.text("what", 4 * MAX_NAME)
    spec = GuardSpec(size, what, reader.choice("kind", GUARD_KINDS), reader.limit("low"), reader.limit("high"))
    reader.finish()
    return spec


def _range(reader: _Reader) -> RangeSpec:
    most = 1 << 62
    spec = RangeSpec(
        reader.integer("input", 0, MAX_ARGUMENTS), reader.integer("low", -most, most), reader.integer("high", -most, most),
        reader.text("what", 4 * MAX_NAME),
    )  # fmt: skip
    reader.finish()
    return spec


def _look(reader: _Reader) -> LookSpec:
    spec = LookSpec(bool(reader.integer("wraps", 0, 1)), reader.text("what", 4 * MAX_NAME))
    reader.finish()
    return spec


def _step_to_json(step: StepSpec) -> dict[str, Any]:
    plain = step._asdict() | {"takes": list(step.takes), "gives": list(step.gives), "names": list(step.names)}
    bodies = [{"steps": list(map(_step_to_json, body.steps)), "yields": list(body.yields)} for body in step.bodies]
    return plain | {"bodies": bodies}


def _body(reader: _Reader, depth: int) -> BodySpec:
    if depth > MOST_NESTED:
        raise ArtifactError(f"expected at most {MOST_NESTED} branches and loops in one another in '{reader.path}'")
    body = BodySpec(tuple(_step(item, depth) for item in reader.items("steps")), reader.counts("yields"))
    reader.finish()
    return body


def _step(reader: _Reader, depth: int = 0) -> StepSpec:
    kind = reader.choice("kind", tuple(STEP_KINDS))
    names = reader.entries("names")
    for name in names:
        if not isinstance(name, str) or len(name) > MAX_NAME or not NAME.match(name):
            raise ArtifactError(f"expected '{reader.path}.names' to be identifiers but got {name!r:.100}")
    takes, gives, part = reader.counts("takes"), reader.counts("gives"), reader.integer("part", 0, MAX_ARGUMENTS)
    spec = StepSpec(kind, takes, gives, part, tuple(names), reader.text("need", 4 * MAX_NAME))
    spec = spec._replace(bodies=tuple(_body(item, depth + 1) for item in reader.items("bodies")))
    reader.finish()
    return spec


def _argument(item: Any, index: int) -> tuple[str, int]:
    kinds = ("input", "constant", "output", "looks")
    if not isinstance(item, list) or len(item) != 2 or item[0] not in kinds or not _is_int(item[1]):
        raise ArtifactError(f"expected 'manifest.arguments[{index}]' to be a kind ({', '.join(kinds)}) and a number but got {item!r:.100}")
    return item[0], item[1]


def _target(reader: _Reader) -> TargetSpec:
    spec = TargetSpec(reader.text("triple"), reader.text("cpu"), reader.text("features", 10_000))
    reader.finish()
    return spec


def _extra(reader: _Reader) -> dict[str, str]:
    return {key: reader.text(key, 1 << 20) for key in sorted(reader.data)}


def _check_consistent(manifest: Manifest) -> None:
    """What holds between fields: names are unique, numbers point at something, expressions use declared sizes."""
    names = manifest.size_names
    _check_unique(names, "sizes")
    _check_unique([t.name for t in manifest.inputs], "inputs")
    _check_unique([t.name for t in manifest.outputs], "outputs")
    for size in manifest.sizes:
        if size.input >= len(manifest.inputs) or size.axis >= len(manifest.inputs[size.input].shape):
            raise ArtifactError(f"expected the size '{size.name}' to be read from an input but got input {size.input}, axis {size.axis}")
        if not _is_line(manifest.inputs[size.input].shape[size.axis], size):
            raise ArtifactError(
                f"expected axis {size.axis} of the input '{manifest.inputs[size.input].name}' to be the size '{size.name}' but got "
                f"'{manifest.inputs[size.input].shape[size.axis]}'"
            )
    later = frozenset(name for step in manifest.steps for name in step.names)
    for tensor in (*manifest.inputs, *manifest.outputs):
        for dim in tensor.shape:
            if isinstance(dim, str):
                try:
                    parse_size(dim, later.union(names) if tensor.role == "output" else names)
                except ValueError as error:
                    raise ArtifactError(f"in the shape of '{tensor.name}': {error}") from error
    for guard in manifest.guards:
        try:
            parse_size(guard.size, names)
        except ValueError as error:
            raise ArtifactError(f"in a guard: {error}") from error
    for found in manifest.ranges:
        if found.input >= len(manifest.inputs) or manifest.inputs[found.input].dtype[:3] not in ("int", "uin"):
            raise ArtifactError(f"expected a range of an input of whole numbers but got one of input {found.input}")
    for constant in manifest.constants:
        elements = 1
        for known in constant.shape:
            elements *= known
        if elements * DTYPES[constant.dtype] != constant.bytes:
            raise ArtifactError(
                f"expected the constant '{constant.name}' to have {elements * DTYPES[constant.dtype]} bytes but got {constant.bytes}"
            )
        if constant.offset % ALIGNMENT:
            raise ArtifactError(f"expected the constant '{constant.name}' at a multiple of {ALIGNMENT} bytes but got {constant.offset}")
    counts = {"input": len(manifest.inputs), "constant": len(manifest.constants), "output": len(manifest.outputs)}
    counts["looks"] = int(bool(manifest.looks))
    expected = {(kind, i) for kind, count in counts.items() for i in range(count)}
    if len(manifest.arguments) != len(expected) or set(manifest.arguments) != expected:
        raise ArtifactError(f"expected the arguments to be {counts} but got {len(manifest.arguments)} that do not match")
    _check_steps(manifest)


def _check_steps(manifest: Manifest) -> None:
    """That each slot is given by an input or one step, before it is taken, and that steps and parts agree."""
    given = set(range(len(manifest.inputs)))
    known = _check_body(manifest, manifest.steps, dict(enumerate(map(_Kind.of, manifest.inputs))), given)
    if given != set(range(len(given))):
        raise ArtifactError("expected the slots of the steps to be numbered without gaps")
    if manifest.steps and (len(manifest.results) != len(manifest.outputs) or not known.keys() >= set(manifest.results)):
        raise ArtifactError(f"expected {len(manifest.outputs)} results that steps give but got {manifest.results}")
    for slot, spec in zip(manifest.results, manifest.outputs, strict=False):
        if not known[slot].fits(_Kind.of(spec)):
            raise ArtifactError(f"expected the output '{spec.name}' to be what slot {slot} has but got {known[slot]}")


class _Kind(NamedTuple):
    """What is in a slot: elements, axes, and whether it is one whole number or flag."""

    dtype: str
    rank: int
    is_number: bool = False

    @staticmethod
    def of(spec: TensorSpec) -> _Kind:
        one = spec.dtype.startswith(("bool", "int", "uint")) and all(size == 1 for size in spec.shape)
        return _Kind(spec.dtype, len(spec.shape), one)

    def fits(self, other: _Kind) -> bool:
        return self[:2] == other[:2]

    def __str__(self) -> str:
        return f"{self.dtype} of {self.rank} axes"


def _check_body(manifest: Manifest, steps: Sequence[StepSpec], known: dict[int, _Kind], given: set[int]) -> dict[int, _Kind]:
    """What is known after these steps; `given` are all slots that some step has given so far."""
    for number, step in enumerate(steps):
        counts = STEP_KINDS[step.kind]
        if step.kind == "part":
            if step.part >= len(manifest.parts):
                raise ArtifactError(f"expected step {number} to run one of {len(manifest.parts)} parts but got part {step.part}")
            counts = len(manifest.parts[step.part].inputs), len(manifest.parts[step.part].outputs)
        elif step.kind == "if":
            counts = 1, len(step.gives)
        elif step.kind == "while":
            counts = len(step.takes), len(step.takes) + 1
        if (len(step.takes), len(step.gives)) != counts:
            raise ArtifactError(f"expected step {number} to take and give {counts} values but got {len(step.takes)}, {len(step.gives)}")
        if not known.keys() >= set(step.takes) or not given.isdisjoint(step.gives) or len(set(step.gives)) != len(step.gives):
            values = f"{step.takes}, {step.gives}"
            raise ArtifactError(f"expected step {number} to take values that are there and to give others but got {values}")
        given.update(step.gives)
        if len(step.bodies) != (2 if step.kind in ("if", "while") else 0):
            raise ArtifactError(f"expected two bodies of a branch or loop, and none of others, but step {number} has {len(step.bodies)}")
        known.update(zip(step.gives, _check_kinds(manifest, step, number, known, given), strict=True))
    return known


def _check_kinds(manifest: Manifest, step: StepSpec, number: int, known: dict[int, _Kind], given: set[int]) -> list[_Kind]:
    """What a step gives, whose bodies and types are checked."""
    taken = [known[slot] for slot in step.takes]
    if step.kind == "part":
        part = manifest.parts[step.part]
        for kind, spec in zip(taken, part.inputs, strict=True):
            if not kind.fits(_Kind.of(spec)):
                raise ArtifactError(f"expected step {number} to take {_Kind.of(spec)} as '{spec.name}' of part {step.part} but got {kind}")
        return list(map(_Kind.of, part.outputs))
    numbers = {"first": taken[1:], "while": []}.get(step.kind, taken)
    yielded: list[list[_Kind]] = []
    for place, body in enumerate(step.bodies):
        around = known | dict(zip(step.gives, taken, strict=False)) if step.kind == "while" else dict(known)
        inside = _check_body(manifest, body.steps, around, given)
        count = 1 if step.kind == "while" and place == 0 else len(taken) if step.kind == "while" else len(step.gives)
        if len(body.yields) != count or not inside.keys() >= set(body.yields):
            raise ArtifactError(f"expected a body of step {number} to yield {count} values that are there but got {body.yields}")
        yielded.append([inside[slot] for slot in body.yields])
    if step.kind == "while":
        numbers, yielded = yielded[0], [taken, yielded[1]]
    if not all(kind.is_number for kind in numbers):
        raise ArtifactError(f"expected step {number} to read whole numbers or flags but got {', '.join(map(str, numbers))}")
    if step.kind == "first" and not taken[0].rank:
        raise ArtifactError(f"expected step {number} to take rows but got {taken[0]}")
    if not step.bodies:
        return [taken[0]._replace(is_number=False) if step.kind == "first" else _Kind("int64", 1 if step.kind == "range" else 2)]
    if not all(one.fits(other) for one, other in zip(*yielded, strict=True)):
        raise ArtifactError(
            f"expected both ways of step {number} to lead to values of the same types but got "
            + " and ".join(f"({', '.join(map(str, kinds))})" for kinds in yielded)
        )
    both = [one._replace(is_number=one.is_number and other.is_number) for one, other in zip(*yielded, strict=True)]
    return [*both, _Kind("int64", 0, True)] if step.kind == "while" else both


def _is_line(text: int | str, size: SizeSpec) -> bool:
    """Whether an axis of this size tells the value of the named one as its spec says."""
    if isinstance(text, int) or (text != size.name and (size.scale, size.offset) == (1, 0)):
        return False
    try:
        value = parse_size(text, [size.name])
    except ValueError:
        return False
    return all(value({size.name: n}) == size.scale * n + size.offset for n in (0, 1, 2))


def _check_unique(names: Sequence[str], what: str) -> None:
    if len(set(names)) != len(names):
        double = next(name for i, name in enumerate(names) if name in names[:i])
        raise ArtifactError(f"expected the names of the {what} to differ but got '{double}' twice")


@dataclass(frozen=True)
class Artifact:
    """A compiled model. `code` is one object file (ELF) for `manifest.target` or several, one after the other. The constants may stand in
    memory of any kind, and in `pieces`; they may be those of a file of the cache, `draft`, which has them in their places and lacks the
    rest.
    """

    manifest: Manifest
    code: bytes
    pieces: bytes | memoryview | Pieces = b""
    draft: Draft | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if len(self.pieces) < self.manifest.constant_bytes:
            raise ArtifactError(f"expected {self.manifest.constant_bytes} bytes of constants but got {len(self.pieces)}")
        if self.manifest.objects and sum(self.manifest.objects) != len(self.code):
            raise ArtifactError(f"expected {sum(self.manifest.objects)} bytes of object code but got {len(self.code)}")

    def __repr__(self) -> str:
        machine, code, constants = self.manifest.target.triple, len(self.code), len(self.pieces)
        return f"<artifact {self.manifest.name} for {machine}: {code} bytes of code, {constants} of constants>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Between processes constants travel as bytes.
        return Artifact, (self.manifest, self.code, bytes(self.constants))

    @property
    def constants(self) -> bytes | memoryview:
        """The constants in one piece."""
        return self.pieces.whole if isinstance(self.pieces, Pieces) else self.pieces

    def settled(self) -> Artifact:
        """The same with its constants in one piece: none of them is left to be made when somebody asks for it."""
        return replace(self, pieces=self.constants)

    @property
    def objects(self) -> list[bytes]:
        """The object files that `code` consists of."""
        if not self.manifest.objects:
            return [self.code]
        ends = list(accumulate(self.manifest.objects, initial=0))
        return [self.code[start:end] for start, end in pairwise(ends)]

    @property
    def name(self) -> str:
        return self.manifest.name

    def to_bytes(self) -> bytes:
        """The content of an artifact file."""
        return b"".join(self.parts())

    def parts(self) -> list[bytes | memoryview]:
        """The content of an artifact file, in pieces: constants are not copied."""
        constants = list(bytes_of(self.pieces))
        head, tail = self._frame(checksums(*constants))
        return [head, *constants, tail]

    def finish(self, draft: Draft) -> None:
        """Write the rest to the file of the cache that has the constants. `OSError` where the disk does not take it."""
        head, tail = self._frame(draft.checksums(CONSTANTS_AT, len(self.pieces)))
        draft.write(0, head)
        draft.write(len(head) + len(self.pieces), tail)

    def _frame(self, sums: bytes) -> tuple[bytes, bytes]:
        """What stands in front of the constants, whose checksums are given, and behind them."""
        manifest = self.manifest.to_bytes()
        body = [manifest, self.code, sums]
        fields = (MAGIC, FILE_FORMAT, 0, len(manifest), len(self.code), len(self.pieces))
        head = HEADER.pack(*fields, _digest(HEADER.pack(*fields, bytes(32)), *body))
        return head.ljust(CONSTANTS_AT, b"\0"), b"".join(body)

    @staticmethod
    def from_bytes(data: bytes | memoryview, what: str = "artifact") -> Artifact:
        """The artifact in `data`, of which its constants stay a part; `ArtifactError`, which starts with `what`, when it is not whole."""
        view = memoryview(data)
        if len(view) < HEADER.size or bytes(view[:16]) != MAGIC:
            raise ArtifactError(f"{what}: expected a polyreme artifact but got {len(view)} bytes of something else")
        magic, version, zero, manifest_bytes, code_bytes, constant_bytes, digest = HEADER.unpack(view[: HEADER.size])
        if version != FILE_FORMAT or zero:
            raise ArtifactError(
                f"{what}: expected an artifact of format {FILE_FORMAT} but got format {version}: compile the model again", code="E0802"
            )
        if manifest_bytes > MAX_MANIFEST_BYTES:
            raise ArtifactError(f"{what}: expected a manifest of at most {MAX_MANIFEST_BYTES} bytes but got {manifest_bytes}")
        manifest_at = CONSTANTS_AT + constant_bytes
        code_at = manifest_at + manifest_bytes
        checks_at = code_at + code_bytes
        end = checks_at + checksum_bytes(constant_bytes)
        if len(view) != end:
            raise ArtifactError(f"{what}: expected {end} bytes but got {len(view)}: the file is damaged")
        head = HEADER.pack(magic, version, zero, manifest_bytes, code_bytes, constant_bytes, bytes(32))
        constants = view[CONSTANTS_AT:manifest_at]
        filling = any(view[HEADER.size : CONSTANTS_AT])
        if filling or _digest(head, view[manifest_at:]) != digest or checksums(constants) != view[checks_at:]:
            raise ArtifactError(f"{what}: expected content that matches its checksum: the file is damaged")
        try:
            manifest = Manifest.from_bytes(bytes(view[manifest_at:code_at]))
            return Artifact(manifest, bytes(view[code_at:checks_at]), constants if constant_bytes else b"")
        except ArtifactError as error:
            raise ArtifactError(f"{what}: {error.message}", error.code) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artifact to `path`, whole or not at all."""
        write_atomically(path, *self.parts())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Artifact:
        """Read what `save` wrote; `ArtifactError` for anything else, `OSError` for a file that cannot be read."""
        return Artifact.from_bytes(Path(path).read_bytes(), os.fspath(path))


def _digest(head: bytes, *body: bytes | memoryview) -> bytes:
    digest = blake2b(head, digest_size=32)
    for part in body:
        digest.update(part)
    return digest.digest()


def write_atomically(path: str | os.PathLike[str], *parts: bytes | memoryview, mode: int = 0o666) -> None:
    """Write a file so that a reader sees the old content or the new, never a part. `mode` is narrowed by the umask. What is no file, such
    as /dev/null, is written into as it is.
    """
    path = Path(path)
    if is_device(path):
        with path.open("wb") as device:
            for part in parts:
                device.write(part)
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
        os.chmod(temporary, mode & ~umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def is_device(path: Path) -> bool:
    """Whether something is there that is neither a file nor a folder, and may not be replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def umask() -> int:
    """The bits that new files of this process lack."""
    # The process's umask can only be read by setting it, which other threads would see; Linux also shows it here.
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        return 0o077
    return 0o022
