"""xxHash of rows of integers (Collet, https://github.com/Cyan4973/xxHash: XXH64), computed on tensors of uint64.

Multiplications wrap around at 64 bits; a shift to the right is a division by a power of two.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim
from polyreme.ir.types import i32, i64, u64
from polyreme.math.common import cast_to
from polyreme.operators.arguments import UnsupportedError, check_count
from polyreme.operators.definition import REQUIRED, operator, spelled
from polyreme.tensor import Tensor

# The five primes of XXH64.
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip
_BITS = 64
_MOST_COLUMNS = 1024


@operator(legacy=spelled("hash"))
def hash(x: Tensor, *, mod_by: int = REQUIRED, num_hash: int = 1) -> Tensor:
    """XXH64 of the bytes of each row [N, D] of int32 or int64, with the seeds 0, 1, …, modulo `mod_by`: [N, num_hash, 1]."""
    if x.ndim != 2 or x.type.dtype not in (i32, i64) or not isinstance(x.type.shape[1], int):
        raise UnsupportedError(f"expected rows [N, D] of int32 or int64, with a known D, for 'hash' but got {x.type}")
    if mod_by < 1 or num_hash < 1:
        raise UnsupportedError(f"expected a 'mod_by' and a 'num_hash' of 1 or more for 'hash' but got {mod_by} and {num_hash}")
    check_count(x.type.shape[1] * num_hash, _MOST_COLUMNS, "columns to hash")
    lanes, half = _lanes(x)
    size = x.type.shape[1] * x.type.dtype.bits // 8
    found = [_mod(_hashed(lanes, half, size, seed, x.type.shape[0]), mod_by) for seed in range(num_hash)]
    return cast_to(math.unsqueeze(math.stack(found, 1), 2), x.type.dtype)


def _lanes(x: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """The columns as numbers of eight bytes, and the last four bytes where these are left."""
    columns = [dispatch.call(nn.Cast, x[:, i], dtype=u64) for i in range(x.shape[1])]
    if x.type.dtype == i64:
        return columns, None
    # Of a negative int32 only the lower half.
    columns = [dispatch.call(nn.Mod, column, _number(1 << 32)) for column in columns]
    pairs = [_plus(low, _times(high, 1 << 32)) for low, high in zip(columns[::2], columns[1::2], strict=False)]
    return pairs, columns[-1] if len(columns) % 2 else None


def _hashed(lanes: Sequence[Tensor], half: Tensor | None, size: int, seed: int, rows: Dim) -> Tensor:
    def started(value: int) -> Tensor:
        return dispatch.full((rows,), value % (1 << _BITS), u64)

    whole = len(lanes) - len(lanes) % 4 if size >= 32 else 0
    if whole:
        parts = [started(seed + first) for first in (_P1 + _P2, _P2, 0, -_P1)]
        for i in range(whole):
            parts[i % 4] = _mixed(parts[i % 4], lanes[i])
        made = started(0)
        for part, by in zip(parts, (1, 7, 12, 18), strict=True):
            made = _plus(made, _turned(part, by))
        for part in parts:
            made = _plus(_times(_xor(made, _mixed(started(0), part)), _P1), _number(_P4))
    else:
        made = started(seed + _P5)
    made = _plus(made, _number(size))
    for lane in lanes[whole:]:
        made = _plus(_times(_turned(_xor(made, _mixed(started(0), lane)), 27), _P1), _number(_P4))
    if half is not None:
        made = _plus(_times(_turned(_xor(made, _times(half, _P1)), 23), _P2), _number(_P3))
    for by, prime in ((33, _P2), (29, _P3)):
        made = _times(_xor(made, _shifted(made, by)), prime)
    return _xor(made, _shifted(made, 32))


def _mixed(part: Tensor, lane: Tensor) -> Tensor:
    return _times(_turned(_plus(part, _times(lane, _P2)), 31), _P1)


def _mod(x: Tensor, by: int) -> Tensor:
    return cast_to(dispatch.call(nn.Mod, x, _number(by)), i64)


def _number(value: int) -> Tensor:
    return dispatch.full((), value % (1 << _BITS), u64)


def _plus(x: Tensor, y: Tensor) -> Tensor:
    return dispatch.call(nn.Add, x, y)


def _times(x: Tensor, by: int) -> Tensor:
    return dispatch.call(nn.Mul, x, _number(by))


def _xor(x: Tensor, y: Tensor) -> Tensor:
    return dispatch.call(nn.BitwiseXor, x, y)


def _shifted(x: Tensor, by: int) -> Tensor:
    return dispatch.call(nn.FloorDivide, x, _number(1 << by))


def _turned(x: Tensor, by: int) -> Tensor:
    return dispatch.call(nn.BitwiseOr, _times(x, 1 << by), _shifted(x, _BITS - by))
