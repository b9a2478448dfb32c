"""Weights in fewer bits for a library, with a report of what that does to each layer.

`lower_precision` goes two ways. In eight bits products take integers (`program.py`). With 16-bit weights all is computed in float32, from
weights that are rounded to bfloat16 and take half of the memory. Either way the model then runs beside what it was, and what each product
gives is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from polyreme.compiled.executables import load_module
from polyreme.dialects import nn as ops
from polyreme.ir.builtin import Module
from polyreme.jit.loading import TranslatedLayer
from polyreme.lowering.transforms.insert_quantization import PRODUCTS, named_products, narrow_weights, with_values_returned
from polyreme.quantization.program import as_traced, prepare, quantize_model
from polyreme.quantization.reports import Agreement, Signal, agreement_text, measure_agreement, plain

__all__ = ["PRECISIONS", "LayerPrecision", "PrecisionReport", "lower_precision"]

PRECISIONS = ("bf16-weights", "int8")


@dataclass(frozen=True)
class LayerPrecision:
    """A product: how its weight is kept, and why in float32 where it is. `error` is how far its output is from that of the model in
    float32, as a share of its size: the root of the mean square of either, on all of the data. It is that of the whole model up to there.
    None where the output is not seen, in a loop or branch, or has sizes that values tell, which became others.
    """

    name: str
    kind: str
    weight: tuple[int, ...]
    precision: str
    error: float | None
    reason: str = ""


@dataclass(frozen=True)
class PrecisionReport:
    """All products in order, and how the answers compare with those in float32."""

    precision: str
    layers: list[LayerPrecision]
    bytes_before: int
    bytes_after: int
    agreement: Agreement

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON: what is not finite is None."""
        return plain(asdict(self))

    def __str__(self) -> str:
        width = max(5, *(len(row.name) for row in self.layers))
        kinds = max(4, *(len(row.kind) for row in self.layers))
        lines = [f"{'layer':{width}}  {'kind':{kinds}}  {'weight':>16}  {'kept in':>8}  {'error':>8}"]
        for row in self.layers:
            shape, error = "x".join(map(str, row.weight)), "-" if row.error is None else f"{row.error:.3%}"
            line = f"{row.name:{width}}  {row.kind:{kinds}}  {shape:>16}  {row.precision:>8}  {error:>8}  {row.reason}"
            lines.append(line.rstrip())
        changed = sum(not row.reason for row in self.layers)
        lines.append(
            f"{changed} of {len(self.layers)} layers in {self.precision}; their weights take {self.bytes_after:,} bytes in place of "
            f"{self.bytes_before:,}"
        )
        return "\n".join([*lines, agreement_text(self.agreement)])


def lower_precision(
    model: Any, precision: str, data: Iterable[Any], *, input_spec: Sequence[Any] | None = None, skip: Iterable[str] = ()
) -> tuple[TranslatedLayer, PrecisionReport]:
    """`model` with its weights in `precision`, "int8" or "bf16-weights", and what that does to each layer on `data`.

    Arguments are those of `quantize_model`, which makes the model in eight bits. With 16-bit weights `data` changes nothing but the report.
    Raises `PolyremeError` as `quantize_model` does, and `ValueError` for another precision.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"expected a precision ({', '.join(PRECISIONS)}) but got '{precision}'")
    batches, skipped = list(data), list(skip)
    prepared = prepare(model, batches, input_spec, skipped, halves=precision != "int8")
    before = prepared.module.clone()
    reasons = {entry.name: entry.reason for entry in prepared.left_out}
    bytes_before = sum(product.weight.nbytes for product in prepared.chosen)
    made: TranslatedLayer
    if precision == "int8":
        quantized = quantize_model(model, batches, input_spec=input_spec, skip=skipped)
        bytes_after = sum(row.bytes_after for row in quantized.report.layers)
        made, after = quantized, quantized.traced.frozen()
    else:
        narrow_weights(prepared.chosen)
        bytes_after = bytes_before // 2
        after = prepared.module.clone()
        made = TranslatedLayer(as_traced(prepared.module, prepared.traced))
    errors, answers = _errors(before, after, prepared.batches)
    layers = []
    for (name, op, position), error in zip(named_products(before.function()), errors, strict=True):
        weight = () if position is None else tuple(op.operands[position].type.shape)
        reason = "" if name in {p.name for p in prepared.chosen} else reasons.get(name, "both of its operands are computed")
        if isinstance(op, ops.Gather) and precision == "int8":
            reason = "rows are taken from it, and nothing is multiplied"
        kept = precision.removesuffix("-weights") if not reason else "float32"
        layers.append(LayerPrecision(name, op.name.partition(".")[2], weight, kept, error, reason))
    inner = [op for op in before.function().walk() if isinstance(op, PRODUCTS) and op.parent is not before.function().block]
    layers += [LayerPrecision(op.result.name or "", op.name.partition(".")[2], (), "float32", None, "in a loop or branch") for op in inner]
    return made, PrecisionReport(precision, layers, bytes_before, bytes_after, measure_agreement(*answers))


def _errors(before: Module, after: Module, batches: list[list[Any]]) -> tuple[list[float | None], tuple[list[list[Any]], list[list[Any]]]]:
    """How far the outputs of products are off, in order, and the answers of either module."""
    programs, outputs = [], 0
    for module in (before, after):
        values = [op.result for _, op, _ in named_products(module.function())]
        outputs = len(module.function().block.terminator.operands)
        programs.append((load_module(with_values_returned(module, values), "compared"), len(values)))
    (exact, count), (found, other) = programs
    assert count == other, "expected the same products in either module"
    signals: list[Signal | None] = [Signal() for _ in range(count)]
    answers: tuple[list[list[Any]], list[list[Any]]] = ([], [])
    for arrays in batches:
        wanted, got = exact.run(arrays), found.run(arrays)
        answers[0].append(wanted[:outputs])
        answers[1].append(got[:outputs])
        for i, (signal, a, b) in enumerate(zip(signals, wanted[outputs:], got[outputs:], strict=True)):
            if a.shape != b.shape:
                signals[i] = None
            elif signal is not None:
                signal.add(a, b.astype(np.float64))
    return [None if s is None else math.sqrt(s.noise / s.signal) if s.signal else float(s.noise > 0) for s in signals], answers
