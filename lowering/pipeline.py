"""The compiler on one page: from what a model says to code that runs.

    compiled = compile_module(module)          # nn, tensor or kernel level
    compiled.load().run([x])                   # in this process
    print(compiled.stages["kernel"])           # any level as text
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from polyreme.ir import config
from polyreme.ir.builtin import Func, Module
from polyreme.ir.debug.additions import extended
from polyreme.ir.define import ControlFlow
from polyreme.ir.diagnostics import Diagnostic, PolyremeError, did_you_mean
from polyreme.ir.passes import FuncPass, Pass, PassLike, PassManager, Stage, register_pass
from polyreme.ir.python.garbage import collect_new, set_aside, without_collections
from polyreme.ir.python.records import dataclass
from polyreme.ir.text import print_module
from polyreme.ir.timing import reported
from polyreme.lowering.analysis.program import Program, has_prepare
from polyreme.lowering.decompose.inside_positions import InsidePositions
from polyreme.lowering.decompose.look_at_positions import LookAtPositions
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.decompose.patch_products import PatchProducts
from polyreme.lowering.decompose.places import ComputePlaces
from polyreme.lowering.kernels.conv.adaptive_pooling import build_adaptive_pooling
from polyreme.lowering.kernels.conv.depthwise import build_depthwise_or_pooling
from polyreme.lowering.kernels.conv.direct import build_direct_conv
from polyreme.lowering.kernels.conv.inverted_residual import build_inverted_residual
from polyreme.lowering.kernels.conv.nchw_choice import build_nchw_conv
from polyreme.lowering.kernels.conv.nchw_windows import build_nchw_windows
from polyreme.lowering.kernels.conv.winograd import build_winograd
from polyreme.lowering.kernels.gemm.bf16x3 import build_bf16x3
from polyreme.lowering.kernels.gemm.contract import build_contract
from polyreme.lowering.kernels.gemm.strassen import build_strassen
from polyreme.lowering.kernels.gemm.winograd_inner_product import build_winograd_inner_product
from polyreme.lowering.kernels.general.cumulate import build_cumulate
from polyreme.lowering.kernels.general.interleave import build_interleave
from polyreme.lowering.kernels.general.loops import build_loops, build_scatter, build_take
from polyreme.lowering.kernels.general.random import build_random
from polyreme.lowering.kernels.general.sort import build_sort
from polyreme.lowering.kernels.plan import KernelBuilder
from polyreme.lowering.kernels.sequence.flash_attention import build_attention
from polyreme.lowering.kernels.sequence.recurrent import build_recurrent, preferred_order_of_input
from polyreme.lowering.kernels.sequence.scan import build_scan
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.instructions import multiplies_pairs
from polyreme.lowering.machines.targets import GpuTarget, Target, find_target, host
from polyreme.lowering.schedule.bufferize import Progress, TensorToKernel, Watch, outline_constants
from polyreme.lowering.schedule.choose_schedules import ChooseSchedules
from polyreme.lowering.schedule.group_adaptive_pooling import GroupAdaptivePooling
from polyreme.lowering.schedule.group_inverted_residuals import GroupInvertedResiduals
from polyreme.lowering.schedule.group_padded_windows import GroupPaddedWindows
from polyreme.lowering.schedule.group_turned_convolutions import GroupTurnedConvolutions
from polyreme.lowering.schedule.recompute import Recompute
from polyreme.lowering.schedule.regions import is_host_op, makes_size, runs_in_parts, sizes_learnt
from polyreme.lowering.schedule.rounds import CutScans
from polyreme.lowering.transforms.argmax import ExtremesInTwoPasses
from polyreme.lowering.transforms.batch_tiling import TileBatch
from polyreme.lowering.transforms.channels_last import ChannelsLast
from polyreme.lowering.transforms.cleanup import Canonicalize, Cse, Dce
from polyreme.lowering.transforms.control_cleanup import HoistFromLoops
from polyreme.lowering.transforms.fold_norm import FoldBatchNorm
from polyreme.lowering.transforms.fuse import Fuse
from polyreme.lowering.transforms.group_attention import GroupAttention
from polyreme.lowering.transforms.integer_products import IntegerProducts
from polyreme.lowering.transforms.join_products import JoinProducts
from polyreme.lowering.transforms.long_reductions import ReduceRowsFirst, ReduceWholeImages
from polyreme.lowering.transforms.move_pads import MovePads
from polyreme.lowering.transforms.scan_steps import HoistFromScans, UnrollScans
from polyreme.lowering.transforms.sink_reshapes import SinkReshapes
from polyreme.lowering.transforms.solve_sizes import SolveDims
from polyreme.lowering.transforms.sort_short_rows import CountRanks
from polyreme.lowering.transforms.split_complex import SplitComplex
from polyreme.lowering.transforms.stack_rows import StackRows
from polyreme.lowering.transforms.widen_halves import WidenHalves

if TYPE_CHECKING:
    from polyreme.lowering.link.artifact import LibraryCode, Room

# Up to so many elements of a row are sorted by comparing each with each, in place of a radix sort.
SHORT_ROW_TO_SORT = 32

LEVELS = ("nn", "tensor", "kernel")
# Who makes the kernels of a root: the first one that takes it.
BUILDERS = (
    build_attention,
    build_inverted_residual,
    build_depthwise_or_pooling,
    build_adaptive_pooling,
    build_interleave,
    build_nchw_windows,
    build_winograd,
    build_winograd_inner_product,
    build_bf16x3,
    build_direct_conv,
    build_nchw_conv,
    build_strassen,
    build_contract,
    build_random,
    build_recurrent,
    build_scan,
    build_cumulate,
    build_sort,
    build_scatter,
    build_take,
    build_loops,
)


# Those whose choice is a value that is read back.
WAYS = tuple(build for build in BUILDERS if isinstance(build, Way))


def builders(target: Target) -> tuple[KernelBuilder, ...]:
    """Who makes kernels for a target, in the order in which they are asked."""
    if target.code == "ptx":
        from polyreme.lowering.kernels.gpu import GPU_BUILDERS

        found: tuple[KernelBuilder, ...] = GPU_BUILDERS
    else:
        found = BUILDERS
    if config.tunes():
        from polyreme.lowering.link.tune import tuned, tuning_driver

        if target == host() or tuning_driver(target) is not None:
            return tuple(tuned(build) if isinstance(build, Way) else build for build in found)
    return found


def _to_kernels(target: Target, prepare: str, watch: Watch | None = None, progress: Progress | None = None) -> TensorToKernel:
    return TensorToKernel(target, builders(target), prepare, watch, progress, None if target.code == "ptx" else preferred_order_of_input)


@register_pass
@dataclass(frozen=True)
class MakeKernels(Pass):
    """Give every root of `main` kernels for the machine called `target`, and let `main` call them: `TensorToKernel` by name."""

    name: ClassVar[str] = TensorToKernel.name
    takes: ClassVar[tuple[str, ...]] = TensorToKernel.takes
    leaves: ClassVar[str] = TensorToKernel.leaves
    target: str = "native"
    cpu: str = ""
    prepare: str = ""

    def run(self, module: Module) -> None:
        target = find_target(self.target, self.cpu or None)
        _to_kernels(target, self.prepare).run(module)


@register_pass
@dataclass(frozen=True)
class ChooseByName(Pass):
    """Before and after: `tensor` ops, in groups. Groups of `main` carry the schedules that are chosen for the machine called `target`.

    It is `ChooseSchedules` with the machine by name.
    """

    name: ClassVar[str] = ChooseSchedules.name
    takes: ClassVar[tuple[str, ...]] = ChooseSchedules.takes
    target: str = "native"
    cpu: str = ""
    prepare: str = ""

    def run(self, module: Module) -> None:
        choose_schedules(module, find_target(self.target, self.cpu or None), self.prepare)


def choose_schedules(module: Module, target: Target, prepare: str = "") -> None:
    """Let each root of a module at tensor level carry its schedule, as `ChooseSchedules` has it."""
    ChooseSchedules(target, builders(target), prepare).run(module)


@dataclass(frozen=True)
class _ByName(FuncPass, ABC):
    """A pass with its machine by name, as text says it: what `on` gives for the machine called `target`."""

    target: str = "native"
    cpu: str = ""

    def run_on(self, func: Func) -> None:
        self.on(find_target(self.target, self.cpu or None)).run_on(func)

    @abstractmethod
    def on(self, target: Target) -> FuncPass:
        """The pass for a machine."""


@register_pass
@dataclass(frozen=True)
class MakeInvertedResiduals(_ByName):
    """Before and after: `tensor` ops, in groups. Inverted residuals become one group each, for the machine called `target`."""

    name: ClassVar[str] = GroupInvertedResiduals.name
    takes: ClassVar[tuple[str, ...]] = GroupInvertedResiduals.takes
    prepare: str = ""

    def on(self, target: Target) -> FuncPass:
        return GroupInvertedResiduals(target, self.prepare)


@register_pass
@dataclass(frozen=True)
class MakePaddedWindows(_ByName):
    """Before and after: `tensor` ops, in groups. Pads join the groups whose windows slide over them, for the machine called `target`."""

    name: ClassVar[str] = GroupPaddedWindows.name
    takes: ClassVar[tuple[str, ...]] = GroupPaddedWindows.takes

    def on(self, target: Target) -> FuncPass:
        return GroupPaddedWindows(target)


@register_pass
@dataclass(frozen=True)
class MakeAdaptivePoolings(_ByName):
    """Before and after: `tensor` ops. Adaptive poolings become groups, for the machine called `target`."""

    name: ClassVar[str] = GroupAdaptivePooling.name
    takes: ClassVar[tuple[str, ...]] = GroupAdaptivePooling.takes

    def on(self, target: Target) -> FuncPass:
        return GroupAdaptivePooling(target)


@register_pass
@dataclass(frozen=True)
class MakeTurnedConvolutions(_ByName):
    """Before and after: `tensor` ops, groups among them. Convolutions write channels first where they are read so, on `target`."""

    name: ClassVar[str] = GroupTurnedConvolutions.name
    takes: ClassVar[tuple[str, ...]] = GroupTurnedConvolutions.takes
    prepare: str = ""

    def on(self, target: Target) -> FuncPass:
        return GroupTurnedConvolutions(target, self.prepare)


def pipeline(target: Target, prepare: str = "", watch: Watch | None = None, progress: Progress | None = None) -> list[Stage]:
    """What the model says, what is computed, how it is computed. The rest, LLVM IR and machine code, is `link.build_artifact`'s.

    `prepare` says which packs of weights leave `main` for a function of their own, `watch` is told of every root, and `progress` of
    how far it has come, as `TensorToKernel` has it. Passes of the user's own are among them where `ir/debug/additions.py` was told so.
    """
    make = _gpu_passes if target.code == "ptx" else _cpu_passes
    made = [
        # Sizes are solved first: everything after compares shapes.
        Stage("nn", SolveDims(), LookAtPositions(), Canonicalize(), FoldBatchNorm(), Cse(), Dce()),
        Stage("tensor", *make(target, prepare)),
        # Builders choose tiles, order and lanes for each root; memory is planned when the code is emitted, once all buffers are known.
        Stage("kernel", _to_kernels(target, prepare, watch, progress)),
    ]
    return extended(made)


def _cpu_passes(target: Target, prepare: str) -> list[PassLike]:
    """From `nn` to fused `tensor` ops for a processor."""
    return [
        # Where weights change in each step; on the level that tells the adjoints of a convolution from others.
        PatchProducts(target.winograd, target.caches[2] // 4),
        nn_to_tensor,
        SplitComplex(),
        IntegerProducts(multiplies_pairs(target)),
        WidenHalves(),
        HoistFromScans(),
        HoistFromLoops(),
        CountRanks(SHORT_ROW_TO_SORT),
        Canonicalize(),
        # Once more: what was folded in a step is a constant now.
        HoistFromScans(),
        # Cleaning up comes before fusion, since a group is harder to see into than single ops.
        Cse(),
        Dce(),
        InsidePositions(),
        JoinProducts(),
        GroupAttention(),
        ChannelsLast(blocks=target.winograd, row_windows=target.masked),
        Dce(),
        StackRows(),
        TileBatch(target.caches[1]),
        ExtremesInTwoPasses(),
        ReduceWholeImages(),
        ReduceRowsFirst(),
        GroupAdaptivePooling(target),
        SinkReshapes(),
        # Behind all that merges equal ops, and in front of what takes its copies into kernels.
        Recompute(),
        Fuse(write_pads=True),
        GroupInvertedResiduals(target, prepare),
        GroupPaddedWindows(target),
        GroupTurnedConvolutions(target, prepare),
    ]


def _gpu_passes(target: Target, prepare: str) -> list[PassLike]:
    """The same for a GPU. Threads run along rows of pixels in their own order, pads are never written, and no kernel loops over steps or
    multiplies bytes.
    """
    return [
        nn_to_tensor,
        SplitComplex(),
        UnrollScans(),
        CountRanks(),
        Canonicalize(),
        Cse(),
        Dce(),
        InsidePositions(),
        GroupAttention(),
        SinkReshapes(),
        MovePads(),
        Fuse(write_pads=False, whole_rows=True),
    ]


def lower(
    module: Module,
    target: Target | None = None,
    to: str = "kernel",
    verify: bool = False,
    inputs: Sequence[Any] | None = None,
    prepare: str = "",
    progress: Progress | None = None,
) -> Module:
    """A copy of `module`, at whatever level it is, brought down to level `to`: "nn" (tidied), "tensor" (fused) or "kernel".

    `verify` checks the module after every pass; `inputs` also runs it there, and compares. `prepare`, `progress`: see `pipeline`.
    """
    _check_level(to)
    check_in_one_piece(module, target)
    set_aside()
    lowered: Module = module.clone()
    made = stages(target or find_target(), "nn", to, prepare, progress) if level_of(module) != "kernel" else []
    with without_collections():
        return PassManager(made, verify_each=verify, inputs=inputs, after_stage=_collect_constants).run(lowered)


def check_in_one_piece(module: Module, target: Target | None = None) -> None:
    """A function that the stages can take: one that the host runs parts of has to be cut first."""
    # What needs Python first: of everything else a library would make parts.
    for op in module.walk():
        if is_host_op(op) and not op.has(ControlFlow) and not makes_size(op):
            why = (
                f"expected a function that is compiled in one piece but '{op.name}' runs on the host, in Python, "
                "which a library does not have; a function of `paddle.jit.to_static` is cut there and runs in parts (`split_regions`, "
                "`load_module`); else leave out what draws, or choose with paddle.where in place of a mask"
            )
            raise PolyremeError(Diagnostic(why, op.location), code="E0408")
    for op in module.walk():
        if op.has(ControlFlow):
            if names := sizes_learnt(op):
                why = (
                    f"expected a function that is compiled in one piece but the size '{names[0]}' is known only when '{op.name}' has run, "
                    f"and native code knows all sizes when it starts; give "
                    "both branches results of one shape, or write into a tensor of the full size; a function of `paddle.jit.to_static`, "
                    f"and a library in which Python does nothing, is cut there and runs in parts"
                )
                raise PolyremeError(Diagnostic(why, op.location), code="E0408")
            if target is not None and target.code == "ptx" and is_host_op(op, branches=True):
                why = (
                    f"expected launches in one fixed order for a GPU but '{op.name}' chooses among them when it runs, "
                    "which a file of launches cannot; a function of `paddle.jit.to_static`, and a library (.so), is cut there, and the "
                    "host chooses"
                )
                raise PolyremeError(Diagnostic(why, op.location), code="E0408")
        elif makes_size(op):
            why = (
                f"expected a function that is compiled in one piece but '{op.name}' makes a size of what is computed: libraries and "
                "functions of `paddle.jit.to_static` are cut there and run in parts (`split_regions`), where nothing beside it needs Python"
            )
            raise PolyremeError(Diagnostic(why, op.location), code="E0408")


def _collect_constants(stage: Stage, _: Module) -> None:
    """Free the constants of a network that were erased. Kernels have none, and are too many to look for garbage among them."""
    if stage.name == "kernel":
        set_aside()
    else:
        collect_new()


def stages(target: Target, first: str, last: str, prepare: str = "", progress: Progress | None = None) -> list[Stage]:
    """The stages of the pipeline from one level's to another's, both included; `PolyremeError` where they come in the other order."""
    _check_level(first)
    _check_level(last)
    if LEVELS.index(first) > LEVELS.index(last):
        raise PolyremeError(
            f"expected a level to stop at that '{first}' leads to ({', '.join(LEVELS[LEVELS.index(first) :])}) but got '{last}'",
            code="E0005",
        )
    return pipeline(target, prepare, progress=progress)[LEVELS.index(first) : LEVELS.index(last) + 1]


def _check_level(name: str) -> None:
    if name not in LEVELS:
        raise PolyremeError(f"expected a level ({', '.join(LEVELS)}) but got '{name}'{did_you_mean(name, LEVELS)}", code="E0005")


def level_of(module: Module) -> str:
    """The highest level that the module has ops of: "nn", "tensor" or "kernel"."""
    found = {op.dialect for op in module.walk()}
    return next((level for level in LEVELS if level in found), "tensor")


def compile_module(
    module: Module,
    target: Target | None = None,
    name: str = "model",
    verify: bool = False,
    prepare: str = "",
    room: Room | None = None,
    library: LibraryCode | None = None,
    parts: bool = False,
) -> CompiledModule:
    """Machine code for `main` of a module at any level. The module is left as it is. `prepare`: see `pipeline`; `room` and `library`: see
    `link.build_artifact`. `parts`: code for a GPU may be in parts, too, since a library runs them.
    """
    return CompiledModule(module, target or find_target(), name, verify, prepare, room, library, parts)


class CompiledModule:
    """A module with what is made from it, each when it is first asked for."""

    def __init__(
        self,
        module: Module,
        target: Target,
        name: str,
        verify: bool = False,
        prepare: str = "",
        room: Room | None = None,
        library: LibraryCode | None = None,
        parts: bool = False,
    ):
        self.module: Module = module.clone()
        self.parts = parts
        self.target, self.name, self.verify, self.prepare, self.room, self.library = target, name, verify, prepare, room, library

    def __repr__(self) -> str:
        return f"<{self.name} compiled for {self.target.name}>"

    @cached_property
    def lowered(self) -> Module:
        """The module at kernel level."""
        return lower(self.module, self.target, "kernel", self.verify, prepare=self.prepare)

    @cached_property
    def artifact(self) -> Any:
        """The runtime's `Artifact`: code, constants, manifest."""
        from polyreme.lowering.link.artifact import build_artifact
        from polyreme.lowering.link.objects import EarlyObjects

        on_gpu = isinstance(self.target, GpuTarget)
        if (self.parts or not on_gpu) and runs_in_parts(self.module.function(), branches=on_gpu):
            return self._in_parts()
        natives = self.library.system_works() if self.library is not None else None
        with reported(f"compile {self.name}"), without_collections(), EarlyObjects(self.target, natives=natives) as early:
            if "lowered" not in self.__dict__ and not isinstance(self.target, GpuTarget) and not config.is_watched():
                self.lowered = lower(self.module, self.target, "kernel", self.verify, prepare=self.prepare, progress=early.planned)
            final = Program.of(self.lowered, leaves=early.same.known)
            constants = outline_constants(final)
            return build_artifact(final, self.target, self.name, constants, room=self.room, early=early, library=self.library)

    def _in_parts(self) -> Any:
        """The artifact of a function with sizes that it computes: it is cut where it does, and its parts are compiled one by one."""
        from polyreme.lowering.link.artifact import build_artifact
        from polyreme.lowering.link.objects import EarlyObjects
        from polyreme.lowering.link.parts import Assembly, part_name

        whole, on_gpu = self.module.clone(), isinstance(self.target, GpuTarget)
        PassManager([Stage("nn", Canonicalize(), ComputePlaces(), Cse(), Dce(), CutScans(on_gpu))], verify_each=self.verify).run(whole)
        assembly = Assembly(whole.function(), branches=on_gpu)
        parts = []
        for number, func in enumerate(assembly.functions):
            alone = Module.empty()
            copy = func.clone()
            copy.attributes["sym_name"] = "main"
            alone.block.append(copy)
            part, name = part_name(number), f"{self.name}_{part_name(number)}"
            with reported(f"compile {name}"), without_collections(), EarlyObjects(self.target, part) as early:
                final = Program.of(lower(alone, self.target, "kernel", self.verify, progress=early.planned))
                parts.append(build_artifact(final, self.target, name, outline_constants(final), early=early, part=part))
        return assembly.joined(parts, self.target, self.name)

    @cached_property
    def prepare_artifact(self) -> Any:
        """The `Artifact` that packs weights for `artifact`; None where there is nothing to pack."""
        from polyreme.lowering.link.artifact import build_artifact

        with reported(f"compile {self.name}_prepare"), without_collections():
            if not has_prepare(self.lowered):
                return None
            final = Program.of(self.lowered, "prepare")
            return build_artifact(final, self.target, f"{self.name}_prepare", outline_constants(final))

    @cached_property
    def stages(self) -> Mapping[str, str]:
        """The text of the module by level, made when it is asked for."""
        return _Stages(self)

    def load(self) -> Any:
        """The artifact as the runtime's `Executable` in this process."""
        from polyreme.lowering.link.artifact import load

        return load(self.artifact)


class _Stages(Mapping[str, str]):
    """Level to text, from `nn` to `asm`, which is PTX for a GPU."""

    names = ("nn", "tensor", "kernel", "llvm", "asm")

    def __init__(self, compiled: CompiledModule):
        self.compiled = compiled

    def __getitem__(self, name: str) -> str:
        made = self.compiled
        if name in ("nn", "tensor"):
            return print_module(lower(made.module, made.target, name))
        if name == "kernel":
            return print_module(made.lowered)
        if name == "llvm":
            return llvm_text(made.lowered, made.target)
        if name == "asm":
            return assembly_text(made.lowered, made.target)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


# What begins the name of a label of assembly that is of no use elsewhere.
_LABEL = re.compile(r"\.L(?=\w)")


def llvm_text(module: Module, target: Target) -> str:
    """The LLVM IR of `main` of a module at kernel level, as `link.build_artifact` compiles it; the module is left as it is."""
    if isinstance(target, GpuTarget):
        from polyreme.lowering.emit.ptx.emit_module import emit_ptx

        return emit_ptx(module, target).llvm
    from polyreme.lowering.emit.llvm.emit_module import emit_llvm
    from polyreme.lowering.link.artifact import MODEL

    return emit_llvm(_planned(module), target, MODEL)


def _planned(module: Module) -> Program:
    """A copy of a module at kernel level as code is made of it."""
    from polyreme.lowering.schedule.arena import plan_memory

    final = Program.of(module)
    outline_constants(final)
    plan_memory(final.function())
    return final


def assembly_text(module: Module, target: Target) -> str:
    """The assembly, or PTX, of `main` of a module at kernel level; the module is left as it is."""
    if isinstance(target, GpuTarget):
        from polyreme.lowering.emit.ptx.emit_module import emit_ptx

        return emit_ptx(module, target).ptx
    from polyreme.lowering.emit.llvm.codegen import assembly
    from polyreme.lowering.emit.llvm.emit_module import split_llvm
    from polyreme.lowering.link.artifact import MODEL

    # As objects are made: LLVM looks for cheaper addresses in some parts only, and labels of one part are others than those of the next.
    parts = split_llvm(_planned(module), target, MODEL)
    return "\n".join(_LABEL.sub(f".L{i}_", assembly(part.text(), target, part.reduce, part.quick)) for i, part in enumerate(parts))
