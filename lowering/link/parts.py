"""A model in parts: regions of a function that are compiled each by itself, and the steps that run them, in one artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from polyreme.dialects import host, nn
from polyreme.ir.builtin import Call, Func
from polyreme.ir.core import Op, Value
from polyreme.ir.types import TensorType
from polyreme.lowering.analysis.names import argument_names, result_names
from polyreme.lowering.gradients.autodiff import bound_symbols
from polyreme.lowering.link.manifest import dtype_name, manifest_of_inputs, shape_text
from polyreme.lowering.link.runtime import (
    ALIGNMENT,
    GPU_PLAN,
    Artifact,
    BodySpec,
    Manifest,
    Piece,
    Pieces,
    StepSpec,
    TargetSpec,
    TensorSpec,
)
from polyreme.lowering.machines.targets import GpuTarget, Target
from polyreme.lowering.schedule.regions import PART_OPS, body_function, has_host_ops, split_regions

__all__ = ["Assembly", "moved", "part_name"]


def part_name(number: int) -> str:
    """What tells the native functions of a part from those of others."""
    return f"part{number}"


class Assembly:
    """The steps that run a function, and the functions of its parts, which are to be compiled one by one. `branches` as in `is_host_op`.
    """

    def __init__(self, func: Func, branches: bool = False):
        self.func, self.branches = func, branches
        self.functions: list[Func] = []
        self._slots = len(func.args)
        self._whole = self._body(func, range(self._slots))

    def _body(self, func: Func, args: Sequence[int]) -> BodySpec:
        """The steps of a function whose arguments are in these slots: each value has a slot of its own."""
        if not has_host_ops(func, self.branches):
            returned = func.block.terminator.operands
            if len(func.block.ops) == 1:
                places = dict(zip(func.args, args, strict=True))
                return BodySpec((), tuple(places[v] for v in returned))
            gives = self._new(len(returned))
            return BodySpec((self._part(func, tuple(args), gives),), gives)
        cut = split_regions(func, self.branches)
        main = cut.function()
        slots: dict[Value, int] = dict(zip(main.args, args, strict=True))
        steps: list[StepSpec] = []
        for op in main.block:
            takes = tuple(slots[v] for v in op.operands)
            if op is main.block.terminator:
                return BodySpec(tuple(steps), takes)
            gives = self._new(len(op.results))
            if isinstance(op, Call):
                steps.append(self._part(cut.function(op.callee.name), takes, gives))
            elif isinstance(op, PART_OPS):
                need = op.need if isinstance(op, host.Size) else ""
                steps.append(StepSpec(op.name.removeprefix("host."), takes, gives, names=_names(op), need=need))
            else:
                assert isinstance(op, (nn.If, nn.While)), "as `runs_in_parts` and `cut-scans` have it"
                steps.append(self._control(op, slots, takes, gives))
            slots.update(zip(op.results, gives, strict=True))
        raise AssertionError("a function without a terminator")

    def _control(self, op: Op, slots: Mapping[Value, int], takes: tuple[int, ...], gives: tuple[int, ...]) -> StepSpec:
        """A branch reads what it captures where that is; a loop reads what it carries in the slots of its results."""
        first = 1 if isinstance(op, nn.If) else len(gives) - 1
        given = takes[first:] if isinstance(op, nn.If) else (*gives[:-1], *takes[first:])
        bodies = []
        for region in op.regions:
            func, tellers = body_function(region, slots)
            bodies.append(self._body(func, (*given, *(slots[v] for v in tellers))))
        return StepSpec("if" if isinstance(op, nn.If) else "while", takes[:first], gives, names=_names(op), bodies=tuple(bodies))

    def _new(self, count: int) -> tuple[int, ...]:
        self._slots += count
        return tuple(range(self._slots - count, self._slots))

    def _part(self, func: Func, takes: tuple[int, ...], gives: tuple[int, ...]) -> StepSpec:
        self.functions.append(func)
        return StepSpec("part", takes, gives, len(self.functions) - 1)

    def joined(self, parts: Sequence[Artifact], target: Target, name: str) -> Artifact:
        """The artifact of the whole, of those of its parts."""
        pieces: list[Piece] = []
        end = 0
        manifests = []
        for part in parts:
            gap = -end % ALIGNMENT
            pieces += [bytes(gap), *(part.pieces.parts if isinstance(part.pieces, Pieces) else [part.pieces])]
            manifests.append(moved(part.manifest, end + gap))
            end += gap + len(part.pieces)
        code = b"".join(part.code for part in parts)
        outputs = []
        for value, output in zip(self.func.block.terminator.operands, result_names(self.func, argument_names(self.func)), strict=True):
            assert isinstance(value.type, TensorType), "as a function that is cut is verified"
            outputs.append(TensorSpec(output, dtype_name(value.type), shape_text(value.type), "output"))
        given = manifest_of_inputs(self.func, name)
        manifest = replace(
            given,
            outputs=tuple(outputs),
            arguments=(*given.arguments, *(("output", i) for i in range(len(outputs)))),
            target=TargetSpec(target.triple, target.cpu, target.features),
            objects=tuple(len(o) for part in parts for o in part.objects),
            parts=tuple(manifests),
            steps=self._whole.steps,
            results=self._whole.yields,
            # Whoever looks for launches finds them in the parts.
            extra={GPU_PLAN: ""} if isinstance(target, GpuTarget) else {},
        )
        return Artifact(manifest, code, Pieces(pieces))


def _names(op: Op) -> tuple[str, ...]:
    """What the sizes are called that are known once an op has run."""
    return tuple(sorted(bound_symbols(op.results)))


def moved(part: Manifest, offset: int) -> Manifest:
    """A part, with its own ones, whose constants stand so many bytes further behind."""
    constants = tuple(c._replace(offset=c.offset + offset) for c in part.constants)
    return replace(part, constants=constants, parts=tuple(moved(own, offset) for own in part.parts), objects=())
