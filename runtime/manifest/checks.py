"""What has to hold between the fields of a manifest, and between the steps of a model in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.manifest.sizes import parse_size
from polyreme.runtime.manifest.specs import DTYPES, STEP_KINDS, SizeSpec, StepSpec, TensorSpec
from polyreme.runtime.memory import ALIGNMENT

if TYPE_CHECKING:
    from polyreme.runtime.manifest.manifest import Manifest

__all__ = ["check_consistent"]


def check_consistent(manifest: Manifest) -> None:
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
    for source, target in manifest.updates:
        there = source < len(manifest.inputs) and target < len(manifest.outputs)
        if not there or manifest.inputs[source][1:3] != manifest.outputs[target][1:3]:
            raise ArtifactError(f"expected an output of the kind of the input that it replaces but got output {target} for input {source}")
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
