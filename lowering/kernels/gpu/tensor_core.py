"""Products of bfloat16 on tensor cores: warps multiply the tiles of `tiles.py` in pieces of 16 x 8 x 16, with sums in float32.

A device without such instructions (before sm_80) gets the tiles of `tiles.py` with the same sums in float32.
"""

from __future__ import annotations

from math import isqrt

from polyreme.dialects import kernel
from polyreme.ir.core import Value
from polyreme.ir.types import ScalarType, bf16, element_type, f16, f32
from polyreme.lowering.kernels.code import Index
from polyreme.lowering.kernels.gpu.product import choose_tile, find_product, plan_product
from polyreme.lowering.kernels.gpu.tiles import Filler, TiledProduct
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.machines.gpu import MMA_COLUMNS, MMA_DEPTH, MMA_ROWS, MMA_SUMS, TENSOR_CORES, VECTOR_BYTES, WARP
from polyreme.lowering.machines.targets import GpuTarget


def build_tensor_core(request: Request) -> KernelPlan | None:
    """The plan of a group around a contract of 16-bit floats; None for any other."""
    found = find_product(request, (bf16, f16))
    if found is None:
        return None
    target = request.target
    assert isinstance(target, GpuTarget)
    if target.sm >= 80 and element_type(found.contract.result.type) == bf16:
        return plan_product(found, choose_tile(found, TENSOR_CORES), WarpProduct)
    return plan_product(found, choose_tile(found), _WidenedProduct)


class _WidenedProduct(TiledProduct):
    """Elements are widened when tiles are brought in."""

    @property
    def stored(self) -> ScalarType:
        return f32


class WarpProduct(TiledProduct):
    """Tiles lie as lines along the depth, one line per row or column; where an operand has rows or columns side by side, in vectors that
    are copied whole, as lines along these.
    """

    what = "tensor_core"

    def takes_vectors(self, deep: bool) -> bool:
        return True

    @staticmethod
    def _is_across(filler: Filler) -> bool:
        """Whether lines of the tile go along rows or columns."""
        return filler.lanes > 1 and not filler.deep

    @property
    def padding(self) -> int:
        """How many elements lines in shared memory lie more apart than they are long, so that the 8 lines that one instruction loads fill
        different banks.
        """
        return VECTOR_BYTES // self.stored.bytes

    def board_size(self, filler: Filler) -> int:
        padding, depth = self.padding, self.tile.depth
        return depth * (filler.extent + padding) if self._is_across(filler) else filler.extent * (depth + padding)

    def board_at(self, filler: Filler, along: Index, depth: Index) -> Index:
        code = self.code
        if self._is_across(filler):
            return code.add(code.mul(depth, filler.extent + self.padding), along)
        return code.add(code.mul(along, self.tile.depth + self.padding), depth)

    @property
    def quarter(self) -> tuple[int, int]:
        """Rows and columns of the tile that a warp has."""
        return self.tile.rows // self.warps_across, self.tile.columns // self.warps_across

    @property
    def warps_across(self) -> int:
        """Warps of a block along each side of the tile."""
        return isqrt(self.tile.threads // WARP)

    def zeros(self) -> list[Value]:
        rows, columns = self.quarter
        return [self.code.zero(f32, MMA_SUMS) for _ in range(rows // MMA_ROWS * columns // MMA_COLUMNS)]

    def _mine(self) -> tuple[Index, Index]:
        """The first row and column of the warp's part of the tile."""
        code, (rows, columns) = self.code, self.quarter
        warp = code.div(self.thread, WARP)
        return code.mul(code.div(warp, self.warps_across), rows), code.mul(code.mod(warp, self.warps_across), columns)

    def multiply(self, left: Filler, right: Filler, sums: list[Value]) -> list[Value]:
        code = self.code
        row, column = self._mine()
        for step in range(0, self.tile.depth, MMA_DEPTH):
            rows = [self._load(left, code.add(row, i * MMA_ROWS), step, False) for i in range(self.quarter[0] // MMA_ROWS)]
            # Two pieces of columns at once.
            columns: list[Value] = []
            for j in range(self.quarter[1] // (2 * MMA_COLUMNS)):
                pair = self._load(right, code.add(column, j * 2 * MMA_COLUMNS), step, True)
                columns += [code.shuffle(pair, pair, picks) for picks in ((0, 1, 2, 3), (4, 5, 6, 7))]
            sums = [
                code.b(kernel.Mma, rows[i], columns[j], sums[i * len(columns) + j]) for i in range(len(rows)) for j in range(len(columns))
            ]
        return sums

    def _load(self, filler: Filler, start: Index, step: int, depth_first: bool) -> Value:
        """Four matrices of 8 x 8: of 16 lines from `start` on and 16 steps of the depth from `step` on. The second one follows the first
        along the depth or along the lines.

        Lane l says where line l % 8 of matrix l / 8 begins. Of tiles whose lines go along rows or columns, matrices come transposed.
        """
        code = self.code
        lane = code.mod(code.value(self.thread), WARP)
        line, second, third = code.mod(lane, 8), code.mul(code.mod(code.div(lane, 8), 2), 8), code.mul(code.div(lane, 16), 8)
        along, depth = (third, second) if depth_first else (second, third)
        depth = code.add(depth, step)
        if self._is_across(filler):
            at = filler.at(code.add(start, along), code.add(depth, line))
        else:
            at = filler.at(code.add(start, along, line), depth)
        value: Value = code.b(kernel.LoadMatrix, filler.board, code.value(at), count=4, transpose=self._is_across(filler))
        return value

    def write(self, sums: list[Value]) -> None:
        code = self.code
        row, column = self._mine()
        lane = code.mod(self.thread, WARP)
        down, across = code.div(lane, 4), code.mul(code.mod(lane, 4), 2)
        pieces = self.quarter[1] // MMA_COLUMNS
        for k, piece in enumerate(sums):
            for r in range(2):
                pair = code.shuffle(piece, piece, (2 * r, 2 * r + 1))
                at = code.add(row, k // pieces * MMA_ROWS + 8 * r, down)
                self.write_vector(pair, at, code.add(column, k % pieces * MMA_COLUMNS, across))
