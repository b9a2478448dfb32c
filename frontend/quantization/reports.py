"""What eight bits did to a model: per layer, and to its answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from polyreme.lowering.transforms.insert_quantization import LeftOut

__all__ = ["Agreement", "LayerReport", "Report", "Signal", "agreement_text", "measure_agreement", "plain"]

Array = Any


class Signal:
    """Sums for the ratio between numbers and what was done to them."""

    def __init__(self) -> None:
        self.signal = self.noise = 0.0
        self.clipped = self.count = 0

    def add(self, exact: Array, found: Array, ends: tuple[Any, Any] | None = None) -> None:
        """`ends` are the least and the greatest number that integers stand for: what lies beyond them counts as clipped."""
        wide = exact.astype(np.float64)
        self.signal += float(np.square(wide).sum())
        self.noise += float(np.square(wide - found).sum())
        self.count += exact.size
        if ends is not None:
            half = (ends[1] - ends[0]) / 510  # up to half a step beyond an end numbers are rounded to it
            self.clipped += int(np.count_nonzero((exact < ends[0] - half) | (exact > ends[1] + half)))

    @property
    def decibels(self) -> float:
        """10 log10 of the ratio of powers; infinite where nothing was changed."""
        if not self.noise:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    @property
    def clipped_share(self) -> float:
        return self.clipped / self.count if self.count else 0.0


@dataclass(frozen=True)
class LayerReport:
    """A product in integers. `scale` and `zero_point` are those of what goes in, whose numbers seen lie in `range`; `clipped` is the share
    of them beyond what integers stand for; `activation_db` and `weight_db` are ratios of signal to noise of both operands, in decibels.
    """

    name: str
    kind: str
    weight: tuple[int, ...]
    scale: float
    zero_point: int
    range: tuple[float, float]
    clipped: float
    activation_db: float
    weight_db: float
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class Agreement:
    """The answers of a model in eight bits beside those of the model itself, on the same data.

    `top1` is the share of samples whose largest element is the same, `top5` that whose largest element is among the five largest of the
    other; None where outputs have no classes. `cosine` is the least cosine between the outputs of a batch, `largest` the largest
    difference, `db` the ratio of signal to noise. `resized` counts the outputs whose sizes, which values tell, became others: nothing else
    is told of these.
    """

    samples: int
    top1: float | None
    top5: float | None
    cosine: float
    largest: float
    db: float
    resized: int = 0


@dataclass(frozen=True)
class Report:
    """`layers` are the products in integers, `left_out` those that stay in floats, with the reason; `agreement` compares answers on the
    calibration data.
    """

    layers: list[LayerReport]
    left_out: list[LeftOut]
    agreement: Agreement

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON: what is not finite is None."""
        return plain(asdict(self))

    def __str__(self) -> str:
        width = max(5, *(len(row.name) for row in self.layers), *(len(row.name) for row in self.left_out))
        lines = [
            f"{'layer':{width}}  {'kind':6}  {'weight':>16}  {'scale':>9}  {'zero':>4}  {'range':>19}  {'clipped':>8}  {'input dB':>8}  "
            f"{'weight dB':>9}"
        ]
        for row in self.layers:
            shape = "x".join(map(str, row.weight))
            seen = f"{row.range[0]:.3g} … {row.range[1]:.3g}"
            lines.append(
                f"{row.name:{width}}  {row.kind:6}  {shape:>16}  {row.scale:>9.3g}  {row.zero_point:>4}  {seen:>19}  {row.clipped:>8.3%}  "
                f"{row.activation_db:>8.1f}  {row.weight_db:>9.1f}"
            )
        lines += [f"{row.name:{width}}  {row.kind:6}  in floats: {row.reason}" for row in self.left_out]
        lines.append(summary(self))
        return "\n".join(lines)


def summary(report: Report) -> str:
    """One paragraph on the whole."""
    before, after = sum(row.bytes_before for row in report.layers), sum(row.bytes_after for row in report.layers)
    said = [
        f"{len(report.layers)} layers in eight bits, {len(report.left_out)} in floats; their weights take {after:,} bytes in place of "
        f"{before:,}"
    ]
    return "\n".join([*said, agreement_text(report.agreement)])


def agreement_text(found: Agreement) -> str:
    """How near answers are, in a line."""
    shares = [f"{name} {share:.2%}" for name, share in (("top-1", found.top1), ("top-5", found.top5)) if share is not None]
    same = f"same {' and '.join(shares)}, " if shares else ""
    resized = f", {found.resized} outputs of other sizes" if found.resized else ""
    numbers = f"cosine {found.cosine:.5f}, largest difference {found.largest:.3g}, {found.db:.1f} dB"
    return f"on {found.samples} samples: {same}{numbers}{resized}"


def measure_agreement(before: Sequence[Sequence[Array]], after: Sequence[Sequence[Array]]) -> Agreement:
    """Compare outputs, batch by batch: the first output of a call for classes, all of floats for the rest."""
    samples = same = near = resized = 0
    cosine, largest, signal = 1.0, 0.0, Signal()
    ranked = all(a[0].ndim == 2 and a[0].shape[1] > 1 and a[0].shape == b[0].shape for a, b in zip(before, after, strict=True) if a)
    classes = min((run[0].shape[-1] for run in before if run and run[0].ndim), default=0)
    for mine, its in zip(before, after, strict=True):
        samples += mine[0].shape[0] if mine[0].ndim else 1
        if ranked:
            best, other = mine[0].argmax(1), its[0].argmax(1)
            same += int((best == other).sum())
            near += int((np.argsort(-its[0], axis=1, kind="stable")[:, :5] == best[:, None]).any(1).sum())
        for a, b in zip(mine, its, strict=True):
            if a.shape != b.shape:
                resized += 1
                continue
            if a.dtype.kind != "f" or not a.size:
                continue
            x, y = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
            norms = float(np.linalg.norm(x) * np.linalg.norm(y))
            cosine = min(cosine, float(x @ y) / norms if norms else float(not (x.any() or y.any())))
            largest = max(largest, float(np.abs(x - y).max()))
            signal.add(x, y)
    top1 = same / samples if ranked and samples else None
    top5 = near / samples if top1 is not None and classes > 5 else None
    return Agreement(samples, top1, top5, cosine, largest, signal.decibels, resized)


def plain(value: Any) -> Any:
    """`value` as JSON has it."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
