"""Compiled gradient rules for eager ops, on the CPU.

A rule is a handful of `nn` ops, which the tape runs one after another by numpy: for a pooling that means all windows in memory, several
times. Here the whole rule of one op is a module, compiled as the op itself is (see `heavy_kernels.py`): once it has cost enough, with a
free batch size, for just the gradients that are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import polyreme.compiled.heavy_kernels as heavy_kernels
from polyreme.compiled.heavy_kernels import BATCHED, attribute_key, free_batch, work_of
from polyreme.dialects import nn
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.rewrite import erase_unused
from polyreme.ir.types import TensorType, f32, f64

__all__ = ["CompiledRule", "rule_for", "rule_module"]

Array = np.ndarray[Any, Any]

# A rule's steps by numpy cost about so many times what the op itself does.
STEPS = 4


class CompiledRule:
    """The gradients of one op for operands of given types up to the batch: nothing at first, compiled code when the rule has been asked for
    often.
    """


    def __init__(
        self, cls: type[Op], types: Sequence[TensorType | None], attributes: dict[str, Any], given: Sequence[bool], wanted: Sequence[bool]
    ):
        self.make = lambda: rule_module(cls, types, attributes, given, wanted)
        self.name = f"{cls.name.replace('.', '_')}_gradient"
        self.wanted = wanted
        self.spent = 0
        self.executable: Any = None
        self.taken: list[tuple[str, int]] = []

    def run(self, sources: dict[str, Sequence[Array | None]], work: int) -> list[Array | None] | None:
        """One gradient per operand, None where it is not wanted. None altogether while the rule is not worth compiling yet: the tape runs
        its steps then.
        """
        if self.executable is None:
            self.spent += work
            if self.spent < heavy_kernels.WORTH_COMPILING:
                return None
            from polyreme.compiled.executables import load_module
            from polyreme.device import CPU

            module, self.taken = self.make()
            self.executable = load_module(module, self.name, CPU)
        made = iter(self.executable.run([sources[kind][i] for kind, i in self.taken]))
        return [next(made) if wanted else None for wanted in self.wanted]


def rule_module(
    cls: type[Op], types: Sequence[TensorType | None], attributes: dict[str, Any], given: Sequence[bool], wanted: Sequence[bool]
) -> tuple[Module, list[tuple[str, int]]]:
    """A module whose `main` is the rule of an op: it gives the gradients of the operands that are `wanted`, from those of the results that
    are `given`.

    The list says what `main` takes: operand, result or gradient ("grad") number i. Operands and results that the rule does not look at are
    left out.
    """
    from polyreme.lowering.gradients.autodiff import GRADIENTS

    func = Func.empty("main", [t for t in types if t is not None])
    args = iter(func.args)
    operands: list[Value | None] = [None if t is None else next(args) for t in types]
    b = Builder.at_end(func.block)
    op = b.insert_op(cls(*operands, **attributes))
    places = {arg: ("operand", i) for i, arg in enumerate(operands) if arg is not None}
    grads: list[Value | None] = []
    for i, result in enumerate(op.results):
        grads.append(func.block.add_arg(result.type, f"grad{i}") if given[i] else None)
        if (grad := grads[-1]) is not None:
            places[grad] = ("grad", i)
    made = list(GRADIENTS[cls](op, b, *grads))
    for i, result in enumerate(op.results):
        if result.uses:
            kept = func.block.add_arg(result.type, f"result{i}")
            result.replace_all_uses_with(kept)
            places[kept] = ("result", i)
    op.erase()
    returned = []
    for operand, grad, asked in zip(operands, made, wanted, strict=True):
        if asked:
            assert operand is not None
            returned.append(grad if grad is not None else b(nn.Full, value=0, shape=operand.type.shape, dtype=operand.type.dtype))
    b.insert(Return(returned))
    # Steps towards gradients that nobody asked for.
    erase_unused(func)
    taken = [places[arg] for arg in func.args if arg.uses]
    for i in reversed(range(len(func.args))):
        if not func.args[i].uses:
            func.block.erase_arg(i)
    module = Module.empty()
    module.block.append(func.finish())
    return module, taken


_rules: dict[Any, tuple[CompiledRule, int]] = {}


def rule_for(
    cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any], given: Sequence[bool], wanted: Sequence[bool]
) -> tuple[CompiledRule, int] | None:
    """The rule for operands (tensors or None) of these types, and what one call costs by numpy; None for ops whose rules are cheap."""
    if cls not in BATCHED or operands[0].type.dtype not in (f32, f64) or not operands[0].type.shape:
        return None
    key = (
        cls,
        tuple(None if t is None else t.type for t in operands),
        tuple(given),
        tuple(wanted),
        tuple((k, attribute_key(v)) for k, v in attributes.items()),
    )
    found = _rules.get(key)
    if found is None:
        types = [None if t is None else t.type for t in operands]
        free = free_batch(cls, types, attributes)
        shared = (cls, free, *key[2:])
        rule, _ = _rules.get(shared) or (CompiledRule(cls, free, attributes, given, wanted), 0)
        results = cls.definition.infer_types(types, attributes)
        found = rule, STEPS * work_of(cls, types, attributes, results)
        _rules[shared] = _rules[key] = found
    return found
