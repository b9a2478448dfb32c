"""Products of bfloat16 on tensor cores: the tiles of `product.py`, multiplied by warps in pieces of 16 x 8 x 16, with sums in float32.

A device without such instructions (before sm_80) gets the tiles of `product.py` with the same sums in float32.
"""

from __future__ import annotations

from polyreme.dialects import kernel
from polyreme.ir.core import Value
from polyreme.ir.types import ScalarType, bf16, element_type, f16, f32
from polyreme.lowering.code import Index
from polyreme.lowering.gpu.grid import WARP
from polyreme.lowering.gpu.product import Tile, TiledProduct, choose_tile, find_product, plan_product
from polyreme.lowering.schedule import KernelPlan, Request
from polyreme.lowering.targets import GpuTarget

# 4 warps, two by two; each has 32 x 32 of the result.
TILE = Tile(64, 64, 16, 4, 8)
WARPS_ACROSS, WARP_ROWS, WARP_COLUMNS = 2, 32, 32
# One `mma`: rows, columns and depth; 4 sums of it are each lane's.
ROWS, COLUMNS, DEPTH, SUMS = 16, 8, 16, 4
# Lines of 16 elements lie 24 apart, so that the 8 lines that one instruction loads fill different banks.
LINE = 24


def build_tensor_core(request: Request) -> KernelPlan | None:
    """The plan of a group around a contract of 16-bit floats; None for any other."""
    found = find_product(request, (bf16, f16))
    if found is None:
        return None
    target = request.target
    assert isinstance(target, GpuTarget)
    if target.sm >= 80 and element_type(found.contract.result.type) == bf16:
        return plan_product(found, lambda p, *rest: _WarpProduct(p, TILE, *rest).build())
    return plan_product(found, lambda p, *rest: _WidenedProduct(p, choose_tile(p), *rest).build())


class _WidenedProduct(TiledProduct):
    """Elements are widened when tiles are brought in."""

    @property
    def stored(self) -> ScalarType:
        return f32


class _WarpProduct(TiledProduct):
    """Tiles lie as lines of 16 steps of the depth, one line per row or column."""

    what = "tensor_core"

    def board_size(self, extent: int) -> int:
        return extent * LINE

    def board_at(self, extent: int, along: Index, depth: Index) -> Index:
        return self.code.add(self.code.mul(along, LINE), depth)

    def zeros(self) -> list[Value]:
        count = (WARP_ROWS // ROWS) * (WARP_COLUMNS // COLUMNS)
        return [self.code.zero(f32, SUMS) for _ in range(count)]

    def _mine(self) -> tuple[Index, Index]:
        """The first row and column of the warp's part of the tile."""
        warp = self.code.div(self.thread, WARP)
        return self.code.mul(self.code.div(warp, WARPS_ACROSS), WARP_ROWS), self.code.mul(self.code.mod(warp, WARPS_ACROSS), WARP_COLUMNS)

    def multiply(self, left: Value, right: Value, sums: list[Value]) -> list[Value]:
        code = self.code
        row, column = self._mine()
        lane = code.mod(self.thread, WARP)
        # Lane l says where line l % 16 of the matrices begins: lines first, then the second half of the depth.
        line, half = code.mod(lane, 16), code.mul(code.div(lane, 16), 8)
        rows = [self._load(left, code.add(row, i * ROWS, line), half) for i in range(WARP_ROWS // ROWS)]
        # The same for columns, two pieces at once: their matrices come as (piece 0, piece 1) of the first half, then of the second.
        columns = []
        for j in range(WARP_COLUMNS // (2 * COLUMNS)):
            pair = self._load(right, code.add(column, j * 2 * COLUMNS, line), half)
            columns += [code.shuffle(pair, pair, picks) for picks in ((0, 1, 4, 5), (2, 3, 6, 7))]
        return [
            code.b(kernel.Mma, rows[i], columns[j], sums[i * len(columns) + j]) for i in range(len(rows)) for j in range(len(columns))
        ]

    def _load(self, board: Value, line: Index, depth: Index) -> Value:
        code = self.code
        value: Value = code.b(kernel.LoadMatrix, board, code.value(code.add(code.mul(line, LINE), depth)), count=4)
        return value

    def write(self, sums: list[Value]) -> None:
        code = self.code
        row, column = self._mine()
        lane = code.mod(self.thread, WARP)
        down, across = code.div(lane, 4), code.mul(code.mod(lane, 4), 2)
        pieces = WARP_COLUMNS // COLUMNS
        for k, piece in enumerate(sums):
            for r in range(2):
                pair = code.shuffle(piece, piece, (2 * r, 2 * r + 1))
                at = code.add(row, k // pieces * ROWS + 8 * r, down)
                self.write_vector(pair, at, code.add(column, k % pieces * COLUMNS, across))
