"""Compiled kernels for eager ops that numpy serves badly, on the CPU: convolutions, pooling, normalisations, activations, recurrent layers,
and their gradients. On a GPU all ops are compiled: `device_kernels.py`.

An op is compiled as a module of its own, with a free batch size, once it has cost enough by reference to be worth it. What counts is work,
not time, so that a program gives the same bits every time it runs. Executables are kept as all are, in memory and on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from polyreme import tape
from polyreme.dialects import nn
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op
from polyreme.ir.dims import symbol
from polyreme.ir.types import TensorType, f32, f64

__all__ = ["BATCHED", "WORTH_COMPILING", "attribute_key", "choose", "free_batch", "one_op_module", "work_of"]

Array = np.ndarray[Any, Any]

# Which operands have the batch as axis 0. Products are not here: numpy has a good library for them.
BATCHED: dict[type[Op], tuple[int, ...]] = {
    nn.Conv: (0,),
    nn.ConvTranspose: (0,),
    nn.ConvFilter: (0, 1),
    nn.MaxPool: (0,),
    nn.AvgPool: (0,),
    nn.BatchNorm: (0,),
    nn.Standardize: (0,),
    nn.StandardizeGradient: (0, 1),
}
# Passes over the operand that numpy makes for an op that touches each element a few times. Each of them is some calls, which cost as much
# as so many multiplications before the first element: an op that is called often enough is compiled, however small its operands are.
CALLS = 5_000
PASSES: dict[type[Op], int] = {nn.BatchNorm: 2, nn.Standardize: 10, nn.StandardizeGradient: 20}
# The same for activations, an exponential counting as several passes and numpy's lack of an error function as many; they are one call in
# all.
ACTIVATIONS: dict[type[Op], int] = {
    nn.Relu: 2, nn.LeakyRelu: 4, nn.Gelu: 100, nn.Silu: 15, nn.Softplus: 30, nn.Softmax: 15, nn.LogSoftmax: 15,
    nn.Sigmoid: 15, nn.Tanh: 10, nn.Erf: 100, nn.Exp: 5,
}
BATCHED.update(dict.fromkeys(ACTIVATIONS, (0,)))
tape.use_compiled_rules(BATCHED)
BATCH = symbol("N")
STEPS = symbol("T")
# Recurrent layers, with the sizes in front of each operand that are free: all of a sequence is one call of a kernel, where numpy is called
# a dozen times a step.
_SEQUENCE, _STATE, _WHOLE = (STEPS, BATCH), (BATCH,), ()
STEPPED: dict[type[Op], tuple[tuple[Any, ...], ...]] = {
    nn.SimpleRNN: (_SEQUENCE, _WHOLE, _STATE, _STATE),
    nn.LSTM: (_SEQUENCE, _WHOLE, _STATE, _STATE, _STATE),
    nn.GRU: (_SEQUENCE, _WHOLE, _STATE, _WHOLE, _STATE),
    nn.SimpleRNNGradient: (_WHOLE, _SEQUENCE, _SEQUENCE, _STATE),
    nn.LSTMGradient: (_SEQUENCE, _WHOLE, _STATE, _STATE, _SEQUENCE, _SEQUENCE, _SEQUENCE, _SEQUENCE, _STATE),
    nn.GRUGradient: (_SEQUENCE, _WHOLE, _STATE, _SEQUENCE, _SEQUENCE, _WHOLE, _STATE),
}

# Multiplications and comparisons that an op may spend by reference before it is compiled: some tenths of a second, as compiling takes.
WORTH_COMPILING = 200_000_000


class Kernel:
    """One op with operands of given types up to the batch: the reference at first, compiled code later."""

    def __init__(self, cls: type[Op], types: Sequence[TensorType | None], attributes: dict[str, Any], name: str):
        self.cls, self.types, self.attributes, self.name = cls, types, attributes, name
        self.spent = 0
        self.executable: Any = None

    def run(self, arrays: Sequence[Array | None], work: int) -> Sequence[Array]:
        """The results; `work` is what this call would cost by reference."""
        if self.executable is None:
            self.spent += work
            if self.spent < WORTH_COMPILING:
                made = self.cls.reference(*arrays, **self.attributes)  # type: ignore[attr-defined]
                return made if isinstance(made, tuple) else (made,)
            from polyreme.compiled.executables import load_module
            from polyreme.device import CPU

            self.executable = load_module(one_op_module(self.cls, self.types, self.attributes), self.name, CPU)
        results: Sequence[Array] = self.executable.run([a for a in arrays if a is not None])
        return results


def one_op_module(cls: type[Op], types: Sequence[Any], attributes: dict[str, Any]) -> Module:
    """A module whose `main` is the op, on operands of these types: None for an absent one, several for a variadic one."""
    module = Module.empty()
    func = Func.empty("main", [t for entry in types for t in (entry if isinstance(entry, tuple) else () if entry is None else (entry,))])
    args = iter(func.args)
    operands = [[next(args) for _ in entry] if isinstance(entry, tuple) else None if entry is None else next(args) for entry in types]
    b = Builder.at_end(func.block)
    op = b.insert_op(cls(*operands, **attributes))
    b.insert(Return(op.results))
    module.block.append(func.finish())
    return module


def attribute_key(value: Any) -> Any:
    """What tells an attribute's value from others: 1, 1.0 and True are equal but not alike, neither are 0.0 and -0.0, and nan equals
    nothing.
    """
    return (type(value), repr(value)) if isinstance(value, (float, int)) else tuple(value) if isinstance(value, list) else value


def free_batch(cls: type[Op], types: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """The operands' types, with any batch size where the op has a batch."""
    batched = _batched(cls, types, attributes)
    return tuple(TensorType((BATCH, *t.shape[1:]), t.dtype) if i in batched and t is not None else t for i, t in enumerate(types))


def _batched(cls: type[Op], types: Sequence[Any], attributes: dict[str, Any]) -> tuple[int, ...]:
    """The operands that have the batch as axis 0: of a normalisation also the statistics, where each image has its own, and none where the
    weight runs along it.
    """
    found = BATCHED.get(cls, ())
    if cls in (nn.Standardize, nn.StandardizeGradient):
        over, along = ([a % types[0].rank for a in attributes[name]] for name in ("axes", "affine"))
        return () if 0 in along else found if 0 in over or cls is nn.Standardize else (*found, 2, 3)
    return () if cls in (nn.BatchNorm, nn.Softmax, nn.LogSoftmax) and attributes["axis"] % types[0].rank == 0 else found


_kernels: dict[Any, Kernel] = {}


def choose(
    cls: type[Op], types: Sequence[Any], attributes: dict[str, Any], result_types: tuple[TensorType, ...]
) -> Callable[..., Sequence[Array]] | None:
    """A kernel that is called with the arrays as the reference is; None for ops that the reference serves well."""
    if cls in STEPPED:
        if types[0].dtype not in (f32, f64) or 0 in result_types[0].shape:
            return None
        free = tuple(t and TensorType((*sizes, *t.shape[len(sizes) :]), t.dtype) for t, sizes in zip(types, STEPPED[cls], strict=True))
    elif cls not in BATCHED or types[0].dtype not in (f32, f64) or not types[0].shape:
        return None
    else:
        free = free_batch(cls, types, attributes)
    key = (cls, free, tuple((k, attribute_key(attributes[k])) for k in sorted(attributes)))
    kernel = _kernels.get(key)
    if kernel is None:
        kernel = _kernels[key] = Kernel(cls, free, attributes, cls.name.replace(".", "_"))
    work = work_of(cls, types, attributes, result_types)
    missing = [None] * len(types)

    def run(*arrays: Array | None) -> Sequence[Array]:
        return kernel.run([*arrays, *missing[len(arrays) :]], work)

    return run


def work_of(cls: type[Op], types: Sequence[Any], attributes: dict[str, Any], result_types: Sequence[TensorType]) -> int:
    """Multiplications, or comparisons, of one call of an op that may be compiled."""
    result = _product(result_types[0].shape)
    if cls in STEPPED:
        steps, batch, _ = result_types[0].shape
        weight = types[0] if cls is nn.SimpleRNNGradient else types[1]
        return int(steps) * (_product((batch, *weight.shape)) + 10 * CALLS)
    if cls is nn.ConvFilter:
        # Each element of the filter sums over the batch and the places of the output.
        batch, _, *places = types[1].shape
        return result * _product([batch, *places])
    if cls is nn.ConvTranspose:
        return _product(types[0].shape) * _product(types[1].shape[1:])
    if cls is nn.Conv:
        return result * _product(types[1].shape[1:])
    if cls in ACTIVATIONS:
        return result * ACTIVATIONS[cls] + CALLS
    if cls in PASSES:
        return (_product(types[0].shape) + CALLS) * PASSES[cls]
    # A numpy reduction over windows costs far more for each element than a multiplication in a product.
    return result * _product(attributes["kernel"]) * 10


def _product(sizes: Iterable[Any]) -> int:
    return math.prod(map(int, sizes))
