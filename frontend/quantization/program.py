"""Quantising a model after training, as a program: whatever can be traced or loaded is, its products by constants take integers, the rest
stays what it is.

Layers are not replaced; the model is traced, batch norms are folded into the products before them, the program is run on calibration data
with what goes into each product among its results, and the products are then rewritten. So products that a `forward` calls as functions are
quantised like those of layers, and so are those of a model file.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from polyreme.compiled.executables import load_module
from polyreme.dialects import nn as ops
from polyreme.dialects.nn.quantize import whole_range
from polyreme.ir.builtin import Func, Module
from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.ir.types import TensorType
from polyreme.jit.loading import TranslatedLayer
from polyreme.jit.program import PresentWeights, TracedProgram
from polyreme.jit.saving import trace_model
from polyreme.jit.traced import Traced
from polyreme.lowering.schedule.regions import has_host_ops
from polyreme.lowering.transforms.cleanup import Dce
from polyreme.lowering.transforms.insert_quantization import (
    PRODUCTS,
    LeftOut,
    QuantizedProduct,
    QuantizedSteps,
    find_products,
    quantize_products,
    quantize_weight,
    steps_between,
    steps_of,
    tidy_for_quantization,
    with_operands_returned,
)
from polyreme.parameter import Parameter
from polyreme.quantization.base import BaseQuanter, QuanterFactory
from polyreme.quantization.batches import Batch, batches_of
from polyreme.quantization.observers import AbsMaxChannelWiseWeightObserver, AbsmaxObserver
from polyreme.quantization.reports import LayerReport, Report, Signal, measure_agreement
from polyreme.tensor import Tensor

__all__ = ["Prepared", "QuantizedModel", "as_traced", "prepare", "quantize_model"]

# Constants of so many elements leave the text of a program for tensors of their own.
TENSOR_ELEMENTS = 64
# What programs are called: one that was run for its report is found again when the model is called.
CALLED = "quantized"


class QuantizedModel(TranslatedLayer):
    """A program with products in integers: called, saved and compiled like any loaded model. `report` says what became of each layer, and
    of the whole.

    What is computed in integers is known when the code is made, scales and weights too. So a call compiles the program anew when it has got
    other weights since the last one; in training mode and on a GPU they are arguments, and products are computed in floats.
    """

    def __init__(self, traced: Traced, report: Report):
        super().__init__(traced)
        self.report = report

    def forward(self, *inputs: Any) -> Any:
        fixed = self._program.fixed
        if not self.training and (fixed is None or not fixed.holds()):
            self._program = TracedProgram(self.traced, CALLED, PresentWeights(self.traced))
        return super().forward(*inputs)


def quantize_model(
    model: Any,
    data: Iterable[Any],
    *,
    input_spec: Sequence[Any] | None = None,
    activation: QuanterFactory | None = None,
    weight: QuanterFactory | None = None,
    skip: Iterable[str] = (),
    symmetric: bool = False,
) -> QuantizedModel:
    """`model` (a Layer, function or loaded model) with its convolutions and products by constants in eight bits, calibrated on `data`.

    `data` are batches: each an array or tensor, a sequence of them for several inputs, or a dict by the names of the inputs. `input_spec`
    says what a Layer takes; without it the first batch does, with an open batch. `activation` and `weight` are factories of observers that
    choose scales: by default the largest magnitude, of a weight per output channel. `skip` are names of layers to leave in floats, with `*`
    and `?` as in file names (the first and the last layer often matter most). Activations are counted in 255 steps from the least number
    seen to the greatest, as far as the threshold lets them; with `symmetric` from minus the threshold to it, and 0 stands for 0.

    Raises `PolyremeError` for data that the model does not take (E1101, E0803), a name in `skip` that no layer has, and a model without
    products by constants (E1102).
    """
    prepared = prepare(model, data, input_spec, skip)
    module, arrays, chosen = prepared.module, prepared.batches, prepared.chosen
    steps, layers, before = _calibrated(
        module, chosen, arrays, activation or AbsmaxObserver(), weight or AbsMaxChannelWiseWeightObserver(), symmetric
    )
    quantize_products(chosen, steps)
    Dce().run(module)  # of the weights that nothing takes any more
    made = as_traced(module, prepared.traced)
    program = load_module(made.frozen(), CALLED)
    after = [program.run(batch) for batch in arrays]
    report = Report(layers, prepared.left_out, measure_agreement(before, after))
    return QuantizedModel(made, report)


class Prepared(NamedTuple):
    """A model as a module whose batch norms are folded and whose weights are constants; calibration data in the order of its inputs; the
    products by weights to change, and those that stay.
    """

    traced: Traced
    module: Module
    batches: list[list[Any]]
    chosen: list[QuantizedProduct]
    left_out: list[LeftOut]


def prepare(model: Any, data: Iterable[Any], input_spec: Sequence[Any] | None, skip: Iterable[str], halves: bool = False) -> Prepared:
    """What `quantize_model` begins with, for eight bits or weights of 16; it raises as that does."""
    batches = batches_of(data)
    spec = input_spec if input_spec is not None else _spec_of(model, batches)
    traced = trace_model(model, spec)
    arrays = [batch.ordered(traced.input_names, i) for i, batch in enumerate(batches)]
    module = traced.frozen()
    name = traced.func.sym_name
    tidy_for_quantization(module, has_host_ops(module.function()))
    products, left = find_products(module.function(), halves)
    chosen, skipped = _without_skipped(products, list(skip))
    if not chosen:
        inner = any(isinstance(op, PRODUCTS) for op in module.function().walk())
        why = (
            "; ".join(f"'{entry.name}' stays in floats: {entry.reason}" for entry in [*left, *skipped][:3])
            or ("those in its loops and branches stay in floats" if inner else "it has no convolution or product by a weight")
        )
        raise PolyremeError(
            f"expected a model with products by constant weights to quantise but got '{name}': {why}", code="E1102"
        )
    return Prepared(traced, module, arrays, chosen, [*left, *skipped])


def _spec_of(model: Any, batches: list[Batch]) -> list[Any] | None:
    """What a Layer without an input_spec takes: the first batch's types, with an open batch."""
    from polyreme.jit.static_function import StaticFunction
    from polyreme.static import InputSpec

    forward = getattr(model, "forward", model)
    known = (
        isinstance(model, TranslatedLayer)
        or (isinstance(forward, StaticFunction) and forward.input_spec is not None)
        or getattr(model, "input_spec", None) is not None
    )
    if known:
        return None
    first = batches[0]
    if first.names is not None:
        return [InputSpec([None, *a.shape[1:]] if a.ndim else [], a.dtype.name, n) for n, a in zip(first.names, first.arrays, strict=True)]
    return [InputSpec([None, *a.shape[1:]] if a.ndim else [], a.dtype.name) for a in first.arrays]


def _without_skipped(products: list[QuantizedProduct], skip: list[str]) -> tuple[list[QuantizedProduct], list[LeftOut]]:
    names = [p.name for p in products]
    for wanted in skip:
        if not any(fnmatch.fnmatchcase(name, wanted) for name in names):
            raise PolyremeError(
                f"expected the names of layers in skip ({', '.join(names[:8])}{', …' if len(names) > 8 else ''}) but got "
                f"'{wanted}'{did_you_mean(wanted, names)}",
                code="E1102",
            )
    out = {p.name for p in products if any(fnmatch.fnmatchcase(p.name, wanted) for wanted in skip)}
    return [p for p in products if p.name not in out], [
        LeftOut(p.name, p.kind, "it was asked for in skip") for p in products if p.name in out
    ]


class _WatchedProduct:
    """A value that goes into products: its observer, and the least number seen."""

    def __init__(self, factory: QuanterFactory):
        self.observer: BaseQuanter = factory._instance(None)
        self.least, self.greatest = np.inf, -np.inf

    def see(self, array: Any) -> None:
        self.observer(Tensor._wrap(array))
        if array.size:
            self.least, self.greatest = min(self.least, float(array.min())), max(self.greatest, float(array.max()))


def _calibrated(
    module: Module,
    products: list[QuantizedProduct],
    batches: list[list[Any]],
    activation: QuanterFactory,
    weight: QuanterFactory,
    symmetric: bool,
) -> tuple[dict[str, QuantizedSteps], list[LayerReport], list[list[Any]]]:
    """Steps for every product, what to report of each, and the answers. The program runs twice on all data: scales are chosen before it is
    known what they do to it.
    """
    observed, places = with_operands_returned(module, products)
    outputs = len(module.function().block.terminator.operands)
    program = load_module(observed, "calibration")
    watched = [_WatchedProduct(activation) for _ in range(max(places) + 1)]
    for arrays in batches:
        for watch, seen in zip(watched, program.run(arrays)[outputs:], strict=True):
            watch.see(seen)
    counted = [_activation_steps(watch, symmetric) for watch in watched]
    signals = [Signal() for _ in watched]
    answers = []
    for arrays in batches:
        results = program.run(arrays)
        answers.append(results[:outputs])
        for (step, zero, bits), signal, seen in zip(counted, signals, results[outputs:], strict=True):
            zeros = np.array(zero, np.int8)
            low, high = whole_range(bits)
            counts = ops.QuantizeLinear.reference(seen, step, zeros, axis=0, bit_length=bits)
            ends = (np.float32(low - zero) * step, np.float32(high - zero) * step)
            signal.add(seen, ops.DequantizeLinear.reference(counts, step, zeros, axis=0), ends)
    steps: dict[str, QuantizedSteps] = {}
    layers: list[LayerReport] = []
    for product, place in zip(products, places, strict=True):
        counts, weight_step = _weight_in_integers(product, weight)
        step, zero, bits = counted[place]
        steps[product.name] = QuantizedSteps(step, zero, counts, weight_step, bits)
        restored = ops.DequantizeLinear.reference(counts, weight_step, None, axis=product.axis if weight_step.ndim else 0)
        kept = Signal()
        kept.add(product.weight, restored)
        watch = watched[place]
        layers.append(
            LayerReport(
                product.name, product.kind, tuple(product.weight.shape), float(step), zero, (watch.least, watch.greatest),
                signals[place].clipped_share,
                signals[place].decibels, kept.decibels, product.weight.nbytes, counts.nbytes + weight_step.nbytes,
            )
        )  # fmt: skip
    return steps, layers, answers


def _activation_steps(watch: _WatchedProduct, symmetric: bool) -> tuple[Any, int, int]:
    scales = watch.observer.scales()
    if scales is None or scales.size != 1:
        raise ValueError(
            f"expected an observer of activations with one scale for all but {type(watch.observer).__name__} has "
            f"{'none' if scales is None else scales.size}"
        )
    threshold = scales._value.reshape(())
    bits = _bits(watch.observer)
    if symmetric:
        return steps_of(threshold, bits), 0, bits
    return *steps_between(max(watch.least, -float(threshold)), min(watch.greatest, float(threshold)), bits), bits


def _weight_in_integers(product: QuantizedProduct, factory: QuanterFactory) -> tuple[Any, Any]:
    observer = factory._instance(None)
    if getattr(observer, "_axis", -1) is None:
        observer._axis = product.axis  # there is no layer to tell it where the channels are
    observer(Tensor._wrap(product.weight))
    scales = observer.scales()
    if scales is None or scales.ndim > 1:
        raise ValueError(
            f"expected an observer of weights with one scale, or one per channel, but {type(observer).__name__} has "
            f"{'none' if scales is None else scales.shape}"
        )
    found = scales._value.reshape(()) if scales.size == 1 and observer.quant_axis() == -1 else scales._value
    if found.ndim and found.shape != (product.weight.shape[product.axis],):
        raise ValueError(
            f"expected one scale for each of {product.weight.shape[product.axis]} output channels of '{product.name}' but got "
            f"{list(found.shape)}"
        )
    return quantize_weight(product.weight, found, product.axis, _bits(observer))


def _bits(observer: BaseQuanter) -> int:
    bits = observer.bit_length()
    assert isinstance(bits, int)
    return bits


def as_traced(module: Module, before: Traced) -> Traced:
    """The program of a module whose constants of some size become tensors again, under the names they have."""
    func: Func = module.function()
    names, roles = list(func.attributes["arg_names"]), list(func.attributes["arg_roles"])
    sources: list[int | Tensor] = list(range(len(names)))
    for op in func.block.ops:
        if not isinstance(op, ops.Constant) or op.value.size < TENSOR_ELEMENTS:
            continue
        name = op.result.name or "constant"
        unique = next(n for n in (name, *(f"{name}_{i}" for i in range(1, len(names) + 2))) if n not in names)
        kind = op.result.type
        assert isinstance(kind, TensorType)
        arg = func.block.add_arg(kind, unique)
        op.result.replace_all_uses_with(arg)
        array = op.value.array
        op.erase()
        names.append(unique)
        roles.append("param")
        sources.append(_tensor(array, unique))
    func.attributes["arg_names"], func.attributes["arg_roles"] = tuple(names), tuple(roles)
    func.finish()
    func.attributes["sym_name"] = before.func.sym_name
    func.detach()
    return Traced(func, before.inputs, sources, before.outputs, before.output_count)


def _tensor(array: Any, name: str) -> Tensor:
    tensor = Tensor._wrap(array)
    if array.dtype.kind == "f" and not name.endswith("_scale"):
        tensor = Parameter(tensor, trainable=True)
    tensor.name = name
    return tensor
