"""Products of vectors, matrices and more, and the fully connected layer."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import product
from polyreme.ir.types import f64
from polyreme.math.common import cast_to
from polyreme.operators.activation import apply_activation
from polyreme.operators.arguments import UnsupportedError, check_count
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

_XY = {"X": "x", "Y": "y"}
MOST_FACTORS = 1 << 20


@operator(
    "matmul",
    legacy=[
        spelled("matmul_v2", _XY, attributes={"trans_x": "transpose_x", "trans_y": "transpose_y"}, without="alpha"),
        spelled(
            "matmul",
            _XY,
            attributes={"transpose_X": "transpose_x", "transpose_Y": "transpose_y"},
            off={"head_number": 1, "Scale_x": 1.0, "Scale_y": 1.0, "Scale_out": 1.0},
            ignored="force_fp32_output",
        ),
    ],
    nn=nn.MatMul,
)
def matmul(x: Tensor, y: Tensor, *, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0) -> Tensor:
    """`alpha` times the product; only the oldest form has it."""
    return math.matmul(x if alpha == 1.0 else math.scale(x, alpha), y, transpose_x, transpose_y)


@operator("bmm", legacy=spelled("bmm", _XY))
def bmm(x: Tensor, y: Tensor) -> Tensor:
    return math.bmm(x, y)


@operator("mv", legacy=spelled("mv", {"X": "x", "Vec": "vec"}))
def mv(x: Tensor, vec: Tensor) -> Tensor:
    return math.mv(x, vec)


@operator("dot", legacy=spelled("dot", _XY))
def dot(x: Tensor, y: Tensor) -> Tensor:
    return math.dot(x, y)


@operator("dist")
def dist(x: Tensor, y: Tensor, *, p: float = 2.0) -> Tensor:
    return math.dist(x, y, p)


@operator("trace")
def trace(x: Tensor, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return math.trace(x, offset, axis1, axis2)


@operator("kron", legacy=spelled("kron", _XY))
def kron(x: Tensor, y: Tensor) -> Tensor:
    return math.kron(x, y)


@operator("addmm", legacy=spelled("addmm", {"Input": "input", "X": "x", "Y": "y"}, attributes={"Alpha": "alpha", "Beta": "beta"}))
def addmm(input: Tensor, x: Tensor, y: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    return math.addmm(input, x, y, beta, alpha)


@operator("matmul_with_flatten", legacy=spelled("mul", _XY))
def matmul_with_flatten(x: Tensor, y: Tensor, *, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Tensor:
    """A product of matrices, which the operands become by joining their first and their last axes; the result has their other axes again.
    """
    rows, columns = x.type.shape[:x_num_col_dims], y.type.shape[y_num_col_dims:]
    a = math.reshape(x, [product(rows), product(x.type.shape[x_num_col_dims:])])
    b = math.reshape(y, [product(y.type.shape[:y_num_col_dims]), product(columns)])
    return math.reshape(math.matmul(a, b), [*rows, *columns])


@operator("fc", legacy=spelled("fc", {"Input": "input", "W": "w", "Bias": "bias"}))
def fc(
    input: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    in_num_col_dims: int = 1,
    activation_type: str = "",
    padding_weights: bool = False,
) -> Tensor:
    if padding_weights:
        raise UnsupportedError("expected weights without padding")
    y = matmul_with_flatten(input, w, x_num_col_dims=in_num_col_dims)
    if bias is not None:
        y = math.add(y, math.reshape(bias, [-1]))
    return apply_activation(y, activation_type)


@operator("einsum", legacy=spelled("einsum", {"Operands": "x"}, "Out InnerCache XShape"))
def einsum(x: list[Tensor], *, equation: str) -> Tensor:
    """Products of one or two tensors by their letters."""
    terms, arrow, out = equation.replace(" ", "").partition("->")
    inputs, x = terms.split(","), list(x)
    for i, (term, v) in enumerate(zip(inputs, x, strict=False)):
        # A letter that comes twice is a diagonal, whose axis is the last one.
        while len(term) == v.ndim and (twice := next((c for c in term if term.count(c) > 1), "")):
            first, second = term.index(twice), term.rindex(twice)
            v = math.diagonal(v, 0, first, second)
            term = "".join(c for j, c in enumerate(term) if j not in (first, second)) + twice
        inputs[i], x[i] = term, v
    if "." in equation or len(inputs) != len(x) or len(x) not in (1, 2) or any(len(t) != v.ndim for t, v in zip(inputs, x, strict=True)):
        raise UnsupportedError(f"expected an equation of one or two tensors, with a letter for each axis, but got '{equation}'")
    if not arrow:
        letters = "".join(inputs)
        out = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if len(set(out)) != len(out) or not set(out) <= set("".join(inputs)):
        raise UnsupportedError(f"expected the result's letters among those of the operands but got '{equation}'")
    tensors = []
    for i, (term, v) in enumerate(zip(inputs, x, strict=True)):
        others = set(out).union(*(set(t) for j, t in enumerate(inputs) if j != i))
        gone = [axis for axis, c in enumerate(term) if c not in others]
        tensors.append(math.sum(v, gone) if gone else v)
        inputs[i] = "".join(c for c in term if c in others)
    if len(tensors) == 1:
        return math.transpose(tensors[0], [inputs[0].index(c) for c in out]) if out else tensors[0]
    a, b = inputs
    batch = [c for c in out if c in a and c in b]
    inner = [c for c in a if c in b and c not in out]
    free_a, free_b = ([c for c in out if c in term and c not in batch] for term in (a, b))
    size = {c: d for term, v in zip(inputs, tensors, strict=True) for c, d in zip(term, v.type.shape, strict=True)}

    def matrix(term: str, v: Tensor, first: list[str], second: list[str]) -> Tensor:
        order = [*batch, *first, *second]
        moved = math.transpose(v, [term.index(c) for c in order]) if len(order) > 1 else v
        return math.reshape(moved, [*(size[c] for c in batch), product(size[c] for c in first), product(size[c] for c in second)])

    made = math.matmul(matrix(a, tensors[0], free_a, inner), matrix(b, tensors[1], inner, free_b))
    letters = "".join([*batch, *free_a, *free_b])
    apart = math.reshape(made, [size[c] for c in letters])
    return math.transpose(apart, [letters.index(c) for c in out]) if len(out) > 1 else apart


@operator("baddbmm", legacy=spelled("baddbmm", {"Input": "input", "X": "x", "Y": "y"}, attributes={"Alpha": "alpha", "Beta": "beta"}))
def baddbmm(input: Tensor, x: Tensor, y: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    return math.add(math.scale(input, beta), math.scale(math.bmm(x, y), alpha))


@operator("multi_dot", legacy=spelled("multi_dot"))
def multi_dot(x: list[Tensor]) -> Tensor:
    """The product of all matrices; the first and the last one may be vectors. In that order, whatever the sizes."""
    made = x[0]
    for other in x[1:]:
        made = math.matmul(made, other)
    return made


@operator("matrix_power", legacy=spelled("matrix_power"))
def matrix_power(x: Tensor, *, n: int) -> Tensor:
    """The product of `n` such matrices, or of `-n` inverses."""
    check_count(n, MOST_FACTORS, "factors of a power of a matrix")
    if n == 0:
        return math.add(math.multiply(x, dispatch.full((), 0, x.type.dtype)), math.eye(x.type.shape[-1], dtype=x.dtype))
    base, left = (x if n > 0 else _inverse(x)), abs(n)
    made: Tensor | None = None
    while left:
        if left & 1:
            made = base if made is None else math.matmul(made, base)
        left >>= 1
        base = math.matmul(base, base) if left else base
    assert made is not None
    return made


# --- small matrices, taken apart step by step: at most 64 known rows


@operator("inverse", legacy=spelled("inverse", {"Input": "x"}, "Output"))
def inverse(x: Tensor) -> Tensor:
    return dispatch.call(nn.Inverse, x)


@operator("det", legacy=spelled("determinant", {"Input": "x"}), misdeclared=True)
def det(x: Tensor) -> Tensor:
    return dispatch.call(nn.Determinant, x)


@operator("slogdet", legacy=spelled("slogdeterminant", {"Input": "x"}), misdeclared=True)
def slogdet(x: Tensor) -> Tensor:
    """The sign of each determinant, and the logarithm of its absolute value, [2, *batch]."""
    return math.stack(list(slogdet_v2(x)), 0)


@operator("slogdet_v2", legacy=spelled("slogdet_v2", {"x": "x"}, "sign logdet"))
def slogdet_v2(x: Tensor) -> tuple[Tensor, Tensor]:
    """As `slogdet`, apart."""
    made = dispatch.call(nn.Determinant, cast_to(x, f64))
    return cast_to(math.sign(made), x.type.dtype), cast_to(math.log(math.abs(made)), x.type.dtype)


@operator("cholesky", legacy=spelled("cholesky"))
def cholesky(x: Tensor, *, upper: bool = False) -> Tensor:
    return dispatch.call(nn.Cholesky, x, upper=upper)


@operator("solve", legacy=spelled("solve", _XY))
def solve(x: Tensor, y: Tensor) -> Tensor:
    """x⁻¹ y, of matrices or vectors."""
    inverted = _inverse(cast_to(x, f64))
    return cast_to(math.matmul(inverted, cast_to(y, f64)), y.type.dtype)


@operator("triangular_solve", legacy=spelled("triangular_solve", _XY))
def triangular_solve(x: Tensor, y: Tensor, *, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Tensor:
    """x⁻¹ y, of which x is one triangle, or its transpose."""
    half = (math.triu if upper else math.tril)(cast_to(x, f64))
    if unitriangular:
        half = (math.triu(half, 1) if upper else math.tril(half, -1)) + math.eye(x.type.shape[-1], dtype="float64")
    return cast_to(math.matmul(_inverse(half), cast_to(y, f64), transpose_x=transpose), y.type.dtype)


@operator("cholesky_solve", legacy=spelled("cholesky_solve", _XY))
def cholesky_solve(x: Tensor, y: Tensor, *, upper: bool = False) -> Tensor:
    """What (L Lᵀ)⁻¹ makes of `x`, L being the factor `y`, or its transpose if `upper`."""
    inverted = _inverse((math.triu if upper else math.tril)(cast_to(y, f64)))
    first = math.matmul(inverted, cast_to(x, f64), transpose_x=upper)
    return cast_to(math.matmul(inverted, first, transpose_x=not upper), x.type.dtype)


def _inverse(x: Tensor) -> Tensor:
    made: Tensor = dispatch.call(nn.Inverse, x)
    return made
