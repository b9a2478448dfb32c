"""A model in parts: regions of a function that are compiled each by itself, and the steps that run them, in one artifact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polyreme.dialects import host
from polyreme.ir.builtin import Call, Func
from polyreme.ir.core import Value
from polyreme.ir.dims import line_of
from polyreme.ir.types import TensorType
from polyreme.lowering.analysis.names import argument_names, result_names
from polyreme.lowering.link.manifest import dtype_name, manifest_of_inputs, shape_text
from polyreme.lowering.link.runtime import ALIGNMENT, Artifact, Manifest, Piece, Pieces, StepSpec, TargetSpec, TensorSpec
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.schedule.regions import PART_OPS

__all__ = ["join_parts", "part_name"]


def part_name(number: int) -> str:
    """What tells the native functions of a part from those of others."""
    return f"part{number}"


def join_parts(main: Func, functions: Sequence[str], parts: Sequence[Artifact], target: Target, name: str) -> Artifact:
    """The artifact of `main`, which calls `functions`, of which `parts` are the code, and has ops of `PART_OPS` between the calls."""
    pieces: list[Piece] = []
    end = 0
    manifests = []
    for part in parts:
        gap = -end % ALIGNMENT
        pieces += [bytes(gap), *(part.pieces.parts if isinstance(part.pieces, Pieces) else [part.pieces])]
        manifests.append(_moved(part.manifest, end + gap))
        end += gap + len(part.pieces)
    code = b"".join(part.code for part in parts)
    objects = tuple(len(o) for part in parts for o in part.objects)
    manifest = _with_steps(main, functions, tuple(manifests), target, name)
    return Artifact(replace(manifest, objects=objects), code, Pieces(pieces))


def _moved(part: Manifest, offset: int) -> Manifest:
    """A part whose constants stand so many bytes further behind."""
    return replace(part, constants=tuple(c._replace(offset=c.offset + offset) for c in part.constants), objects=())


def _with_steps(main: Func, functions: Sequence[str], parts: tuple[Manifest, ...], target: Target, name: str) -> Manifest:
    """What runs in which order: each value of `main` has a slot of its own."""
    slots: dict[Value, int] = {arg: i for i, arg in enumerate(main.args)}
    steps = []
    for op in main.block:
        takes = tuple(slots[v] for v in op.operands)
        if op is main.block.terminator:
            break
        for result in op.results:
            slots[result] = len(slots)
        gives = tuple(slots[r] for r in op.results)
        if isinstance(op, Call):
            steps.append(StepSpec("part", takes, gives, functions.index(op.callee.name)))
        else:
            assert isinstance(op, PART_OPS), "as `runs_in_parts` has it"
            line = line_of(op.count)
            need = op.need if isinstance(op, host.Size) else ""
            steps.append(StepSpec(op.name.removeprefix("host."), takes, gives, size=line[0] if line else "", need=need))
    returned = main.block.terminator.operands
    outputs = []
    for value, output in zip(returned, result_names(main, argument_names(main)), strict=True):
        assert isinstance(value.type, TensorType), "as a function that is cut is verified"
        outputs.append(TensorSpec(output, dtype_name(value.type), shape_text(value.type), "output"))
    given = manifest_of_inputs(main, name)
    return replace(
        given,
        outputs=tuple(outputs),
        arguments=(*given.arguments, *(("output", i) for i in range(len(outputs)))),
        target=TargetSpec(target.triple, target.cpu, target.features),
        parts=parts,
        steps=tuple(steps),
        results=takes,
    )
