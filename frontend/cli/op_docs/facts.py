"""What is known of an op beyond its docstring, each found by asking the code that relies on it.

Which element types it takes says its `infer`, what it makes of nan says its `reference`, what it becomes says the conversion, whether it
compiles says the emitter. So a page about an op (`pages.py`) cannot say what is not so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from polyreme.dialects import kernel
from polyreme.dialects.dist import with_group
from polyreme.dialects.host import Call, with_functions
from polyreme.dialects.kernel import grid, warpgroups
from polyreme.dialects.kernel.lockstep import WARP, run_grid
from polyreme.ir.builtin import Func, Module
from polyreme.ir.core import Op
from polyreme.ir.debug.examples import Documented, documentation, example_module
from polyreme.ir.define import Elementwise
from polyreme.ir.diagnostics import InferError, PolyremeError
from polyreme.ir.evaluate import evaluate, random_inputs
from polyreme.ir.python.records import dataclass
from polyreme.ir.rewrite import Pattern
from polyreme.ir.text import print_module
from polyreme.ir.types import (
    SCALARS,
    BufferType,
    FunctionType,
    PendingType,
    ScalarType,
    TensorType,
    Type,
    VectorType,
    element_type,
    f32,
    type_symbols,
)
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.emit.llvm.emit_module import EMIT
from polyreme.lowering.emit.ptx.emit_module import emit_ptx
from polyreme.lowering.emit.ptx.grid import GRID
from polyreme.lowering.gradients.autodiff import GRADIENTS, NOT_DIFFERENTIABLE, forward_backward
from polyreme.lowering.machines.targets import GpuTarget, find_target
from polyreme.lowering.pipeline import llvm_text, lower
from polyreme.lowering.transforms.cleanup import CANONICAL

SIZE = 2
"""What every symbolic size is when an example runs."""
RANKS = 2
"""How many ranks run an example of the `dist` dialect."""
TARGETS = ("x86-64-avx2", "cuda:sm_80")
"""The machines for which examples are compiled."""
FEW_KINDS = 6
SYMBOLS = {"add": " + ", "sub": " - ", "mul": " * ", "div": " / ", "pow": " ** "}
"""How the equations of patterns write functions."""
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0)


@dataclass(frozen=True)
class Run:
    """An example on random inputs: names and arrays; `results` of a function on buffers are what it wrote."""

    inputs: list[tuple[str, Any]]
    results: list[tuple[str, Any]]
    where: str = ""


@dataclass(frozen=True)
class Simplification:
    """A pattern of `canonicalize`, and its equation."""

    name: str
    equation: str


class OpFacts:
    """The facts about one op class, each found when it is first asked for."""

    def __init__(self, cls: type[Op]):
        self.cls = cls
        self.definition = cls.definition

    @cached_property
    def documented(self) -> Documented:
        return documentation(self.cls)

    @cached_property
    def module(self) -> Module:
        """The example."""
        return example_module(self.cls)

    @property
    def func(self) -> Func:
        """The function of the example that runs: `main`, or the only one."""
        found = {f.sym_name: f for f in self.module.functions}
        return found.get("main") or next(iter(found.values()))

    @property
    def shown(self) -> Op:
        """The op as it stands in the example, with the most operands if it does several times."""
        return max((op for op in self.module.walk() if type(op) is self.cls), key=lambda op: len(op.operands))

    # --- types

    @cached_property
    def element_types(self) -> list[list[ScalarType]]:
        """For each declared operand the element types that it may have while operands of other element types stay as the example has them.
        """
        op = self.shown
        types = self.definition.split([v.type for v in op.operands], op.segments)
        return [
            [d for d in SCALARS.values() if first is not None and self._infers(types, first, d) is not None]
            for first in map(_dtype_of, types)
        ]

    @property
    def infers(self) -> bool:
        """Whether result types follow from the operands' alone, so that other types can be tried."""
        return self.definition.infers and not self.definition.regions

    def result_type(self, index: int) -> str:
        """How the element type of a result follows from the operands': "as x", or the one that it always is."""
        op = self.shown
        mine = element_type(op.results[index].type)
        types = self.definition.split([v.type for v in op.operands], op.segments)
        for part, first, accepted in zip(self.definition.operands, map(_dtype_of, types), self.element_types, strict=True):
            if first == mine and len(accepted) > 1:
                made = {d: self._infers(types, first, d) for d in accepted}
                if all(results is not None and element_type(results[index]) == d for d, results in made.items()):
                    return f"as `{part.name}`"
        return str(mine)

    def _infers(self, types: Sequence[Any], old: ScalarType, new: ScalarType) -> tuple[Type, ...] | None:
        """Result types when every operand of `old` elements has `new` ones; None when that is refused."""
        op = self.shown
        changed = [_with_dtype(t, old, new) for t in types]
        if not self.infers:
            return tuple(r.type for r in op.results) if old == new else None
        try:
            return self.definition.infer_types(changed, op.attributes, op.regions)
        except InferError:
            return None

    # --- meaning

    @cached_property
    def special_values(self) -> list[tuple[float, Any]]:
        """For an elementwise op of one float operand: what it makes of nan, infinities, zeros and ones."""
        plain = self.definition.plain and len(self.definition.operands) == 1 and Elementwise in self.cls.traits
        if not plain or self.cls.dialect != "nn" or _dtype_of(self.shown.operands[0].type) != f32:
            return []
        made = self.definition.call_reference([np.array(SPECIAL, np.float32)], None, self.shown.attributes)
        return list(zip(SPECIAL, np.asarray(made).tolist(), strict=True))

    @property
    def accuracy(self) -> str:
        """How far results in the example may be from exact arithmetic; empty where they are exact."""
        accuracy = self.definition.accuracy_of(self.shown.attributes)
        return "" if accuracy.is_exact else str(accuracy)

    @property
    def is_symbolic(self) -> bool:
        """Whether the example has sizes that are names."""
        return any(type_symbols(a.type) for a in self.func.args)

    @cached_property
    def run(self) -> Run:
        """The example on random inputs, every symbolic size `SIZE`."""
        if self.cls.dialect == "dist":
            return self._run_in_ranks()
        inputs = _inputs(self.func, 0)
        before = [x.copy() for x in inputs]
        threads = {grid.__name__: WARP, warpgroups.__name__: warpgroups.WARPGROUP}.get(self.cls.__module__)
        if threads is not None and self.cls is not kernel.Launch:
            made: list[Any] = []
            # All threads run it on the same buffers; the last one to end is the first one.
            run_grid((1,), (threads,), lambda: made.append(self._evaluate(inputs)), "example")
            return self._as_run(before, inputs, made[-1], f"by each thread of a block of {threads}; what thread 0 gets")
        with with_functions({0: lambda arrays: [arrays[0][:SIZE]]}):
            results = evaluate(self.func, inputs)
        where = f"with a function number 0 that keeps the first {SIZE} rows" if self.cls is Call else ""
        return self._as_run(before, inputs, results, where)

    def _evaluate(self, inputs: list[Any]) -> list[Any]:
        return evaluate(self.func, inputs)

    def _as_run(self, before: list[Any], inputs: list[Any], results: list[Any], where: str) -> Run:
        func = self.func
        names = [a.name or str(i) for i, a in enumerate(func.args)]
        written = [
            (n, x) for n, old, x in zip(names, before, inputs, strict=True) if not np.array_equal(old, x, equal_nan=x.dtype.kind in "fc")
        ]
        terminator = func.block.terminator
        made = [(v.name or str(i), r) for i, (v, r) in enumerate(zip(terminator.operands, results, strict=False))]
        return Run([(n, x) for n, x in zip(names, before, strict=True) if n != "sizes"], written + made, where)

    def _run_in_ranks(self) -> Run:
        from polyreme.distributed.group import Group
        from polyreme.runtime.collectives import LocalGroup

        inputs = [_inputs(self.func, rank) for rank in range(RANKS)]

        def run(communicator: Any) -> list[Any]:
            with with_group(Group(communicator)):
                return self._evaluate(inputs[communicator.rank])

        results = LocalGroup(RANKS).run(run)
        runs = [self._as_run(inputs[r], inputs[r], results[r], "") for r in range(RANKS)]
        named = [
            [(f"{name} of rank {rank}", array) for name, array in part]
            for r in ("inputs", "results")
            for rank, part in enumerate(getattr(x, r) for x in runs)
        ]
        return Run(sum(named[:RANKS], []), sum(named[RANKS:], []), f"by {RANKS} ranks")

    # --- what is done with it

    @cached_property
    def simplifications(self) -> list[Simplification]:
        """The patterns of `canonicalize` for this op."""
        return [Simplification(p.name, _equation(p.rewrite)) for p in CANONICAL if self.cls in p.kinds and self._is_named(p)]

    def _is_named(self, pattern: Pattern) -> bool:
        """Whether a pattern that many classes share is about this one: its equation has the op's function."""
        if len(pattern.kinds) <= FEW_KINDS:
            return True
        function = getattr(self.cls, "scalar_fn", "") or self.cls.name.split(".")[1]
        equation = _equation(pattern.rewrite)
        return SYMBOLS.get(function, "\0") in equation or re.search(rf"\b{function}\b", equation) is not None

    @property
    def gradient(self) -> str:
        """"rule", "none" (no gradient flows) or "" (not an op that gradients are taken of)."""
        return "rule" if self.cls in GRADIENTS else "none" if self.cls in NOT_DIFFERENTIABLE else ""

    @cached_property
    def gradient_equation(self) -> str:
        return _equation(GRADIENTS[self.cls]) if self.cls in GRADIENTS else ""

    @cached_property
    def gradient_text(self) -> str:
        """The backward half of the example, as IR; empty where there is none."""
        if self.cls not in GRADIENTS:
            return ""
        floats = [i for i, a in enumerate(self.func.args) if isinstance(a.type, TensorType) and a.type.dtype.is_float and a.name != "sizes"]
        return print_module(forward_backward(self.func, floats).backward)

    @cached_property
    def lowering_equation(self) -> str:
        rules = nn_to_tensor.rules.get(self.cls, [])
        return _equation(rules[0]) if rules else ""

    @cached_property
    def lowered_text(self) -> str:
        """The example at the `tensor` level; empty for ops of other levels than `nn`, and for those that no kernel computes."""
        if self.cls.dialect != "nn" or self.cls not in nn_to_tensor.rules:
            return ""
        module: Module = self.module.clone()
        nn_to_tensor.run(module)
        return print_module(module.function(self.func.sym_name))

    @cached_property
    def compiles_for(self) -> list[str]:
        """Those of `TARGETS` for which the example has machine code, or in words those that it has some for."""
        if self.cls is kernel.DotBlock:
            return ["x86-64 with amx-int8"]
        if self.cls is kernel.DotTerms:
            return ["x86-64 with amx-bf16"]
        if self.cls.__module__ == warpgroups.__name__:
            return ["cuda:sm_90a"]
        if self.cls.dialect == "kernel":
            tables = dict(zip(TARGETS, (EMIT, GRID), strict=True))
            return [name for name, table in tables.items() if self.cls in table]
        if self.cls.dialect not in ("nn", "tensor"):
            return []
        return [name for name in TARGETS if self._compiles(name)]

    def _compiles(self, name: str) -> bool:
        target = find_target(name)
        module: Module = self.module.clone()
        module.function(self.func.sym_name).attributes["sym_name"] = "main"
        try:
            lowered = lower(module, target)
            text = emit_ptx(lowered, target).llvm if isinstance(target, GpuTarget) else llvm_text(lowered, target)
        except PolyremeError:
            return False
        return bool(text)


@cache
def facts_of(cls: type[Op]) -> OpFacts:
    """The facts about an op class; what was found once is kept."""
    return OpFacts(cls)


def _inputs(func: Func, seed: int) -> list[Any]:
    """Random inputs of a function, which may take vectors."""
    drawn = random_inputs(func, seed, SIZE)
    rng = np.random.default_rng(seed)
    for i, arg in enumerate(func.args):
        if isinstance(arg.type, VectorType):
            values = rng.integers(-16, 17, arg.type.lanes) / 8 if arg.type.dtype.kind in "fc" else rng.integers(0, 2, arg.type.lanes)
            drawn[i] = values.astype(arg.type.dtype.np)
    return drawn


def _dtype_of(type: Any) -> ScalarType | None:
    """The element type of an operand as declared: a type, a tuple of them, or None."""
    if isinstance(type, tuple):
        return _dtype_of(type[0]) if type else None
    return None if type is None or isinstance(type, FunctionType) else element_type(type)


def _with_dtype(type: Any, old: ScalarType, new: ScalarType) -> Any:
    if isinstance(type, tuple):
        return tuple(_with_dtype(t, old, new) for t in type)
    if type is None or _dtype_of(type) != old:
        return type
    return new if isinstance(type, ScalarType) else replace(type, dtype=new)


def _equation(rule: Any) -> str:
    """The first paragraph of a rule's docstring, on one line."""
    return " ".join((rule.__doc__ or "").strip().split("\n\n")[0].split())


def shape_word(type: Type) -> str:
    """What kind of thing a value of this type is."""
    kinds = {
        TensorType: "tensor",
        PendingType: "pending tensor",
        BufferType: "buffer",
        VectorType: "vector or scalar",
        ScalarType: "scalar",
        FunctionType: "function",
    }
    return kinds[type.__class__]


