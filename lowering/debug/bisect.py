"""Bisecting a wrong number: the first pass after which a model computes something else, the first such op, and a small module that shows
it.

    found = bisect(module, inputs, passes_of(target), target)
    if found is not None:
        print(found.step, found.op, found.misfit)

`ir/debug/tolerance.py` says what a module should compute, and how exactly. The walk evaluates the module after each pass down to the tensor
level. Kernels are slow on numpy and fast as machine code, so they run as that: if the result is right, so was everything before it. If it
is wrong, the module before is reduced to a few ops first. Only for these the kernels are evaluated, which tells a wrong kernel from wrong
machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.dialects import kernel, tensor
from polyreme.ir.accuracy import Array
from polyreme.ir.builtin import Func, Module
from polyreme.ir.core import Op, Region
from polyreme.ir.debug.reduce import KNOWN_SIZES, Case, StillFails, Trial, reduce_case, tidy
from polyreme.ir.debug.tolerance import Expected, Misfit, expect
from polyreme.ir.define import ConstantLike, Terminator
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassLike, pass_text
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType, index
from polyreme.ir.verify import find_faults, verify
from polyreme.lowering.debug.reducer import REDUCTIONS
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.pipeline import check_in_one_piece, compile_module, level_of, pipeline

MACHINE_CODE = "machine-code"
"""The name of the last step: from kernels, or from any level through the passes still to come, to the results of compiled code."""

# The reducer tries many cases that only just run; two trials are enough to know what each allows.
REDUCTION_RUNS = 2


@dataclass(frozen=True)
class BisectStep:
    """A pass, or for None machine code."""

    made: PassLike | None

    def __str__(self) -> str:
        return MACHINE_CODE if self.made is None else pass_text(self.made)

    @property
    def name(self) -> str:
        return MACHINE_CODE if self.made is None else str(self.made.name)


@dataclass(frozen=True)
class Finding:
    """`step` is the first to go wrong, on the whole model as `misfits` say, or with `error` when it fails.

    `case` is the smallest module before the step, with inputs, that shows it. `op` is the first op in it whose value is wrong afterwards,
    `misfit` says how. They are None when no single step is at fault, but many have each lost a little.
    """

    step: BisectStep
    misfits: tuple[Misfit, ...] = ()
    error: str = ""
    case: Case | None = None
    op: Op | None = None
    misfit: Misfit | None = None


def passes_of(target: Target) -> list[PassLike]:
    """The passes of the pipeline for a target."""
    return [p for stage in pipeline(target) for p in stage.passes]


class Bisection:
    """Runs steps on cases for one target; `driver` runs machine code for a GPU, None on this machine's processor."""

    def __init__(self, target: Target, driver: Any = None, report: Callable[[str], None] = lambda line: None):
        self.target, self.driver, self.report = target, driver, report

    # --- running a step

    def after(self, steps: Sequence[BisectStep], case: Case) -> list[Array]:
        """What `main` computes after the steps."""
        assert case.inputs is not None
        module: Module = case.module.clone()
        for step in steps:
            if step.made is None:
                return self.execute(module, case.inputs)
            step.made.run(module)
            verify(module)
        return evaluate(module, [np.array(x) for x in case.inputs])

    def execute(self, module: Module, inputs: Sequence[Array]) -> list[Array]:
        """The results of machine code for the module."""
        from polyreme.lowering.link.artifact import load

        artifact = compile_module(module, self.target).artifact
        return [np.asarray(r) for r in load(artifact, self.driver).run([np.array(x) for x in inputs])]

    def misfits(self, steps: Sequence[BisectStep], case: Case, expected: Expected | None = None) -> list[Misfit]:
        assert case.inputs is not None
        wanted = expected or expect(case.module, case.inputs, runs=REDUCTION_RUNS)
        return wanted.misfits(self.after(steps, case))

    def fails(self, steps: Sequence[BisectStep], case: Case) -> bool:
        """Whether the steps change what the case computes. Cases that do not run, or whose results hold memory never written, do not count.
        """
        assert case.inputs is not None
        try:
            expected = expect(case.module, case.inputs, runs=REDUCTION_RUNS)
            return all(map(_is_written, expected.given)) and bool(expected.misfits(self.after(steps, case)))
        except (PolyremeError, ArithmeticError, LookupError, TypeError, ValueError):
            return False

    # --- the walk

    def run(self, module: Module, inputs: Sequence[Any], passes: Sequence[PassLike], machine_code: bool = True) -> Finding | None:
        """The first step after which `main` no longer computes what it should; None when all is well."""
        verify(module)
        case = Case(module, tuple(np.asarray(x) for x in inputs))
        expected = expect(module, inputs)
        current: Module = module.clone()
        steps = [BisectStep(p) for p in passes]
        for i, step in enumerate(steps):
            before = Case(current.clone(), case.inputs)
            assert step.made is not None
            try:
                step.made.run(current)
                verify(current)
                if machine_code and level_of(current) == "kernel":
                    return self.to_machine_code(before, steps[i:], expected)
                wrong = expected.misfits(evaluate(current, inputs))
            except PolyremeError as error:
                return self.failing(step, before, error)
            self.report(f"{'wrong' if wrong else 'ok':>7}  {step.name}")
            if wrong:
                return self.locate([step], before, wrong)
        return self.to_machine_code(Case(current, case.inputs), [], expected) if machine_code else None

    def to_machine_code(self, before: Case, rest: list[BisectStep], expected: Expected) -> Finding | None:
        """As `run`, from the module in front of the first step that makes kernels."""
        steps = [*rest, BisectStep(None)]
        try:
            wrong = self.misfits(steps, before, expected)
        except PolyremeError as error:
            return self.failing(steps[0], before, error)
        self.report(f"{'wrong' if wrong else 'ok':>7}  {', then '.join(s.name for s in steps)}")
        if not wrong:
            return None
        if not self.fails(steps, before):
            return Finding(steps[-1], tuple(wrong))
        if not rest:
            return self.locate(steps, before, wrong)
        self.report("reducing the module, to evaluate its kernels")
        small = self.reduced(steps, before)
        if self.fails(rest, small):
            return self.locate(rest, small, wrong)
        kernels: Module = small.module.clone()
        for step in rest:
            assert step.made is not None
            step.made.run(kernels)
        return self.locate([BisectStep(None)], Case(kernels, small.inputs), wrong)

    def failing(self, step: BisectStep, before: Case, error: PolyremeError) -> Finding:
        """The step ends in an error: the smallest module for which it is the same."""
        self.report(f"{'failed':>7}  {step.name}")
        fails = self.same_error([step], error)
        small = reduce_case(before, fails, REDUCTIONS) if fails(before) else before
        return Finding(step, error=str(error), case=small, op=_likely(small.module))

    def same_error(self, steps: Sequence[BisectStep], error: PolyremeError) -> StillFails:
        """Whether the steps end in the same error on a case."""
        message = error.diagnostics[0].message

        def fails(case: Case) -> bool:
            try:
                self.after(steps, case)
            except PolyremeError as other:
                return other.diagnostics[0].message == message
            except (ArithmeticError, LookupError, TypeError, ValueError):
                return False
            return False

        return fails

    def failure(self, steps: Sequence[BisectStep], case: Case) -> StillFails:
        """What is wrong with the steps on a case: an error, or that they change what it computes; `PolyremeError` if nothing is."""
        try:
            self.after(steps, case)
        except PolyremeError as error:
            return self.same_error(steps, error)
        if not self.fails(steps, case):
            raise PolyremeError(
                f"expected steps that fail or change what is computed but {', '.join(map(str, steps))} do neither", code="E0412"
            )
        return lambda other: self.fails(steps, other)

    # --- from the step to the op

    def locate(self, steps: list[BisectStep], before: Case, wrong: Sequence[Misfit]) -> Finding:
        """The smallest case that shows what a step does wrong, and the first op in it whose value is wrong."""
        if not self.fails(steps, before):
            return Finding(steps[-1], tuple(wrong))
        self.report("reducing the module")
        case = self.reduced(steps, before)
        op = self.first_wrong(steps, case) or _likely(case.module)
        return Finding(steps[-1], tuple(wrong), "", case, op, self.misfits(steps, case)[0])

    def reduced(self, steps: Sequence[BisectStep], case: Case) -> Case:
        """The smallest case for which the steps are wrong, from the first op on whose value is wrong when `main` returns the values of all.
        """
        fails = lambda other: self.fails(steps, other)
        fixed = reduce_case(case, fails, [KNOWN_SIZES])
        return reduce_case(self.first_wrong_value(steps, fixed) or fixed, fails, REDUCTIONS)

    def first_wrong_value(self, steps: Sequence[BisectStep], case: Case) -> Case | None:
        trial = Trial(case)
        assert trial.main is not None
        values = [r for op in trial.main.block for r in op.results if isinstance(r.type, TensorType) and not op.has(ConstantLike)]
        if len(values) < 2:
            return None
        trial.main.block.terminator.set_operands(values, (len(values),))
        tidy(trial.module)
        try:
            wrong = self.misfits(steps, trial.case)
        except PolyremeError:
            return None
        for misfit in wrong:
            trial.main.block.terminator.set_operands([values[misfit.result]], (1,))
            tidy(trial.module)
            return trial.case if self.fails(steps, trial.case) else None
        return None

    def first_wrong(self, steps: list[BisectStep], case: Case) -> Op | None:
        """The first op of the case, in order, whose own value is wrong after the steps when it is what is returned or stored."""
        ops = list(case.module.walk())
        for at, op in enumerate(ops):
            if op.results and not op.regions and not op.has(ConstantLike) and any(self.fails(steps, probe) for probe in _probes(case, at)):
                return op
        return None


def bisect(
    module: Module,
    inputs: Sequence[Any],
    passes: Sequence[PassLike],
    target: Target,
    machine_code: bool = True,
    driver: Any = None,
    report: Callable[[str], None] = lambda line: None,
) -> Finding | None:
    """The first of `passes`, or after them machine code, that changes what `main` computes on `inputs` by more than roundings can; None
    when none does.

    `report` gets a line for each step.
    """
    check_in_one_piece(module)
    return Bisection(target, driver, report).run(module, inputs, passes, machine_code)


def _is_written(array: Array) -> bool:
    """Whether no element is what the evaluator fills fresh memory with."""
    if array.dtype.kind == "b":
        return True
    return (
        not bool(np.any(array == np.iinfo(array.dtype).max))
        if array.dtype.kind in "iu"
        else bool(np.isfinite(array.astype(np.complex128)).all())
    )


def _likely(module: Module) -> Op | None:
    """The last op that computes: the one at the end of what the reducer left."""
    found = [op for op in module.walk() if not isinstance(op, (Module, Func)) and not op.has(Terminator) and not op.has(ConstantLike)]
    values = [
        op
        for op in found
        if op.results and not op.regions and op.results[0].type != index and not isinstance(op, (kernel.Load, kernel.Alloc, kernel.View))
    ]
    return (values or found or [None])[-1]  # type: ignore[list-item]


def _probes(case: Case, at: int) -> list[Case]:
    """Variants of the case that give the value of the op at position `at` instead of what they give."""
    op = list(case.module.walk())[at]
    around = op.parent_op
    if isinstance(around, Func) and around.sym_name == "main" and isinstance(op.results[0].type, TensorType):
        return _valid(case, at, _return_it)
    if isinstance(around, tensor.Fused):
        return _valid(case, at, _yield_it)
    stores = sum(isinstance(o, kernel.Store) for o in case.module.walk())
    return [
        probe
        for i in range(stores)
        for probe in _valid(case, at, lambda trial, op, i=i: _store_it(trial, op, i))  # type: ignore[misc]
    ]


def _valid(case: Case, at: int, change: Callable[[Trial, Op], bool]) -> list[Case]:
    trial = Trial(case)
    if not change(trial, list(trial.module.walk())[at]):
        return []
    tidy(trial.module)
    return [] if find_faults(trial.module) else [trial.case]


def _return_it(trial: Trial, op: Op) -> bool:
    assert trial.main is not None
    trial.main.block.terminator.set_operands(op.results, (len(op.results),))
    return True


def _yield_it(trial: Trial, op: Op) -> bool:
    """The group gives the op's value alone, and `main` returns it."""
    group = op.parent_op
    assert isinstance(group, tensor.Fused) and trial.main is not None
    if group.parent_op is not trial.main:
        return False
    group.block.terminator.set_operands(op.results[:1], (1,))
    region: Region = group.regions.pop()
    alone = tensor.Fused.build(group.operands, {"schedule": ""}, [region], [op.results[0].type], group.location, group.segments)
    assert group.parent is not None
    group.parent.insert(alone, group)
    trial.main.block.terminator.set_operands(alone.results, (1,))
    for later in reversed(trial.main.block.ops[:-1]):
        if later is not alone and not later.is_used:
            later.erase()
    return True


def _store_it(trial: Trial, op: Op, number: int) -> bool:
    """A kernel stores the op's value where it stores another of the same type."""
    store = [o for o in trial.module.walk() if isinstance(o, kernel.Store)][number]
    if store.value.type != op.results[0].type:
        return False
    store.set_operand(0, op.results[0])
    return True
