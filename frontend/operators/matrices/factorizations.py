"""Matrices as products of simpler ones, and what is told from these. LAPACK computes them, on the host: libraries, which have none, refuse
them.
"""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import host
from polyreme.ir.types import f64, i32
from polyreme.math.common import cast_to, select
from polyreme.operators.arguments import Scalar, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

MOST_EXCHANGES = 256
_EIGEN = "Eigenvalues Eigenvectors"


@operator("svd", legacy=spelled("svd", outputs="U S VH"))
def svd(x: Tensor, *, full_matrices: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    left, right = dispatch.call(host.FullSingularVectors if full_matrices else host.SingularVectors, x)
    return left, svdvals(x), right


@operator("svdvals", legacy=spelled("svdvals", {"x": "x"}, "s"))
def svdvals(x: Tensor) -> Tensor:
    made: Tensor = dispatch.call(host.SingularValues, x)
    return made


@operator("qr", legacy=spelled("qr", outputs="Q R"), misdeclared=True)
def qr(x: Tensor, *, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """With the mode "r" the first one has no elements."""
    if mode not in ("reduced", "complete", "r"):
        raise UnsupportedError(f"expected 'reduced', 'complete' or 'r' as the mode of qr but got {mode!r}")
    q, r = dispatch.call(host.Qr, x, complete=mode == "complete")
    return (math.zeros([0], x.dtype) if mode == "r" else q), r


@operator("eigh", legacy=spelled("eigh", outputs=_EIGEN))
def eigh(x: Tensor, *, UPLO: str = "L") -> tuple[Tensor, Tensor]:  # noqa: N803
    values, vectors = dispatch.call(host.SymmetricEigen, x, upper=_is_upper(UPLO))
    return values, vectors


@operator("eigvalsh", legacy=spelled("eigvalsh", outputs=_EIGEN, attributes={"UPLO": "uplo"}, types={"uplo": "STRING"}, ignored="is_test"))
def eigvalsh(x: Tensor, *, uplo: str = "L", is_test: bool = False) -> tuple[Tensor, Tensor]:
    return eigh(x, UPLO=uplo)


@operator("eig", legacy=spelled("eig", outputs=_EIGEN))
def eig(x: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = dispatch.call(host.Eigen, x)
    return values, vectors


@operator("eigvals", legacy=spelled("eigvals"))
def eigvals(x: Tensor) -> Tensor:
    return eig(x)[0]


@operator("lu", legacy=spelled("lu", outputs="Out Pivots Infos", attributes={"pivots": "pivot"}))
def lu(x: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    if not pivot:
        raise UnsupportedError("expected lu to exchange rows but 'pivot' is False")
    packed, rows, zero = dispatch.call(host.Lu, x)
    return packed, rows, zero


@operator("lu_unpack", legacy=spelled("lu_unpack", {"X": "x", "Pivots": "y"}, "Pmat L U"), misdeclared=True)
def lu_unpack(x: Tensor, y: Tensor, *, unpack_ludata: bool = True, unpack_pivots: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The matrix that exchanges rows, and the two triangular ones."""
    rows, columns, exchanges = x.type.shape[-2], x.type.shape[-1], y.type.shape[-1]
    if not all(isinstance(d, int) and d <= MOST_EXCHANGES for d in (rows, columns)):
        raise UnsupportedError(f"expected known sizes of matrices, up to {MOST_EXCHANGES}, for lu_unpack but got {rows} and {columns}")
    places = math.arange(rows, dtype="int32")
    order = math.zeros_like(math.cast(x[..., 0], "int32")) + places
    for i in range(exchanges):
        other = y[..., i : i + 1] - 1
        there = math.take_along_axis(order, math.cast(other, "int64"), -1)
        here = order[..., i : i + 1]
        order = select(math.equal(places, other), here + math.zeros_like(order), order)
        order = select(math.equal(places, dispatch.full((), i, i32)), there + math.zeros_like(order), order)
    matrix = math.cast(math.equal(math.unsqueeze(places, [-1]), math.unsqueeze(order, [-2])), x.dtype)
    lower = math.tril(x[..., :, :exchanges], -1) + math.eye(rows, exchanges, x.dtype)
    return matrix, lower, math.triu(x[..., :exchanges, :])


@operator("lstsq", legacy=spelled("lstsq", {"X": "x", "Y": "y"}, "Solution Residuals Rank SingularValues"), misdeclared=True)
def lstsq(x: Tensor, y: Tensor, rcond: Scalar = 0.0, *, driver: str = "gels") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The shortest of the solutions of least squares; squares that are left where there are more rows than columns (Paddle gives none of a
    batch in which a rank is less than the columns); the rank, and the singular values, of those drivers that have them.
    """
    wide = cast_to(x, f64)
    left, right = dispatch.call(host.SingularVectors, wide)
    values = svdvals(wide)
    least = cast_to(rcond, f64) if isinstance(rcond, Tensor) else dispatch.full((), float(rcond), f64)
    counts = math.greater_than(values, math.max(values, -1, True) * math.reshape(least, []))
    one = dispatch.full((), 1, f64)
    inverted = select(counts, math.divide(one, select(counts, values, math.ones_like(values))), math.zeros_like(values))
    turned = math.multiply(math.matmul(left, cast_to(y, f64), transpose_x=True), math.unsqueeze(inverted, [-1]))
    solution = math.matmul(right, turned, transpose_x=True)
    none = math.zeros([0], x.dtype)
    rows, columns = x.type.shape[-2:]
    rest = none
    if driver != "gelsy" and isinstance(rows, int) and isinstance(columns, int) and rows > columns:
        rest = cast_to(math.sum(math.square(cast_to(y, f64) - math.matmul(wide, solution)), -2), x.type.dtype)
    rank = math.zeros([0], "int64") if driver == "gels" else math.sum(math.cast(counts, "int32"), -1, dtype="int32")
    return cast_to(solution, x.type.dtype), rest, rank, cast_to(values, x.type.dtype) if driver in ("gelsd", "gelss") else none


def _rank(x: Tensor, least: Tensor, hermitian: bool) -> Tensor:
    values = math.abs(eigh(x)[0]) if hermitian else svdvals(x)
    return math.sum(math.cast(math.greater_than(values, math.unsqueeze(least, [-1])), "int64"), -1)


@operator("matrix_rank", misdeclared=True)
def matrix_rank(x: Tensor, tol: Scalar = 0.0, *, use_default_tol: bool = True, hermitian: bool = False) -> Tensor:
    """How many singular values are greater than `tol`; by default, than the greatest one times the larger size and what rounding leaves."""
    if isinstance(tol, Tensor):
        return _rank(x, cast_to(tol, x.type.dtype), hermitian)
    values = math.max(math.abs(eigh(x)[0]) if hermitian else svdvals(x), -1)
    if not use_default_tol:
        return _rank(x, dispatch.full(values.type.shape, float(tol), x.type.dtype), hermitian)
    rounding = dispatch.full((), float(_ROUNDING[x.type.dtype == f64]), x.type.dtype)
    larger = math.maximum(*(math.cast(math.shape(x)[i], x.dtype) for i in (-2, -1)))
    return _rank(x, values * rounding * larger, hermitian)


# What is added to 1 in float32 and float64 to make the next number.
_ROUNDING = (2.0**-23, 2.0**-52)


@operator(legacy=spelled("matrix_rank", {"X": "x", "TolTensor": "tol"}), misdeclared=True)
def matrix_rank_of_fewer_bits(x: Tensor, tol: Scalar = 0.0, *, use_default_tol: bool = True, hermitian: bool = False) -> Tensor:
    return math.cast(matrix_rank(x, tol, use_default_tol=use_default_tol, hermitian=hermitian), "int32")


@operator("matrix_rank_tol", misdeclared=True)
def matrix_rank_tol(x: Tensor, atol_tensor: Tensor, *, use_default_tol: bool = True, hermitian: bool = False) -> Tensor:
    return _rank(x, cast_to(atol_tensor, x.type.dtype), hermitian)


def _is_upper(uplo: str) -> bool:
    if uplo not in ("L", "U"):
        raise UnsupportedError(f"expected 'L' or 'U', the triangle that is read, but got {uplo!r}")
    return uplo == "U"
