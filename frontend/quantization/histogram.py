"""How often magnitudes occur, and thresholds chosen from that: a share of them, the least squared error, or the least loss of information.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Histogram:
    """Counts of magnitudes in `bins` equal parts of [0, `top`]. When larger ones come the range doubles until they fit, and parts join in
    pairs, so that nothing counted before is lost. Elements that are not finite are not counted.
    """

    def __init__(self, bins: int = 2048):
        if bins < 2 or bins % 2:
            raise ValueError(f"expected an even number of bins but got {bins}")
        self.counts = np.zeros(bins, np.int64)
        self.top = 0.0

    def add(self, values: Array) -> None:
        magnitudes = np.abs(values.reshape(-1)).astype(np.float32, copy=False)
        magnitudes = magnitudes[np.isfinite(magnitudes)]
        peak = float(magnitudes.max()) if magnitudes.size else 0.0
        if not self.top:
            if not peak:
                self.counts[0] += magnitudes.size
                return
            self.top = peak
        while peak > self.top:
            joined = self.counts.reshape(-1, 2).sum(1)
            self.counts = np.concatenate([joined, np.zeros_like(joined)])
            self.top *= 2
        self.counts += np.histogram(magnitudes, len(self.counts), (0.0, self.top))[0]

    @property
    def edges(self) -> Array:
        """The upper end of each part."""
        return np.arange(1, len(self.counts) + 1) * (self.top / len(self.counts))

    @property
    def middles(self) -> Array:
        return self.edges - self.top / len(self.counts) / 2

    def share(self, percent: float) -> float:
        """The least end of a part below which at least the share `percent` (0 to 1) of all magnitudes lies."""
        total = np.cumsum(self.counts)
        if not total[-1] or not self.top:
            return 0.0
        return float(self.edges[np.searchsorted(total, percent * total[-1])])

    def least_error(self, bits: int = 8, candidates: int = 128) -> float:
        """The threshold whose rounding and clipping add up to the least squared error, each part counted at its middle."""
        if not self.top:
            return 0.0
        high = (1 << (bits - 1)) - 1
        best, least = self.top, np.inf
        for threshold in self.top * np.arange(1, candidates + 1) / candidates:
            step = threshold / high
            errors = self.middles - np.minimum(np.rint(self.middles / step), high) * step
            # A part wider than a step is spread over it evenly: rounding errs there by a twelfth of the step's square.
            spread = np.where(self.middles < threshold, step * step / 12, 0.0) if step < self.top / len(self.counts) else 0.0
            error = float((self.counts * np.maximum(errors * errors, spread)).sum())
            if error < least:
                best, least = float(threshold), error
        return best

    def least_divergence(self, bits: int = 8) -> float:
        """The threshold that loses least information, by the Kullback-Leibler divergence between the clipped counts and the same in
        2**(bits - 1) levels.

        After Migacz, "8-bit inference with TensorRT" (2017): counts beyond the threshold go into its last part before levels are made.
        """
        levels = 1 << (bits - 1)
        counts = self.counts.astype(np.float64)
        counts[0] = 0.0  # zeros are exact in any scale
        if not self.top or not counts.any():
            return self.top
        best, least = len(counts), np.inf
        for end in range(levels, len(counts) + 1, max(len(counts) // 256, 1)):
            head = counts[:end]
            wanted = head.copy()
            wanted[-1] += counts[end:].sum()
            groups = np.arange(end) * levels // end
            filled = head > 0
            size = np.bincount(groups, filled, levels)
            level = np.divide(np.bincount(groups, head, levels), size, out=np.zeros(levels), where=size > 0)
            made = np.where(filled, level[groups], 0.0)
            if not made.any():
                continue
            p, q = wanted / wanted.sum(), made / made.sum()
            at = p > 0
            divergence = float((p[at] * np.log(p[at] / np.maximum(q[at], 1e-10))).sum())
            if divergence < least:
                best, least = end, divergence
        return float(self.edges[best - 1])
