"""Functions that came with the first Paddle 2 and that 1.8 has under `fluid.layers`."""

from tests.fluid_api.cases_detection import draw, still
from tests.fluid_api.cases_layers import L, outcome
from tests.fluid_api.cases_places import each, whole
from tests.fluid_api.table import check


@check(*[L + n for n in (
    "logsumexp", "clamp", "addmm", "addcmul", "bmm", "dot", "dist", "cross", "kron", "trace", "diag_embed", "tril", "triu", "t",
    "log_softmax", "allclose", "elementwise_equal")])  # fmt: skip
def sums_products_and_matrices(fluid, np):
    x, y, cube = draw(np, 3, 4), draw(np, 3, 4, seed=1), draw(np, 2, 3, 3)
    one = draw(np, 1, 4), draw(np, 1, 4, seed=1)
    pairs = (x, y), one, (cube, draw(np, 2, 3, 3, seed=1))
    return {
        "logsumexp": [outcome(fluid, np, lambda L, x, d=dim: L.logsumexp(x, d, True), v)
                      for v, dim in ((x, 1), (cube, [1, 2]), (one[0], 0))],
        "clamp": each(fluid, np, lambda L, x: L.clamp(x, -0.3, 0.4), (x,), (cube,), one[:1]),
        "clamp above": outcome(fluid, np, lambda L, x: L.clamp(x, min=0.2), x),
        "addmm": each(fluid, np, lambda L, x, y: L.addmm(
            L.matmul(x, y, transpose_y=True), x, L.transpose(y, [1, 0]), 0.5, 2.0), (x, y), one),
        "addcmul": each(fluid, np, lambda L, x, y: L.addcmul(x, y, x, 0.5), *pairs),
        "bmm": each(fluid, np, lambda L, x, y: L.bmm(x, y), pairs[2], (draw(np, 1, 2, 3), draw(np, 1, 3, 2))),
        "dot": each(fluid, np, lambda L, x, y: L.dot(x, y), (x, y), one), "dist": each(fluid, np, lambda L, x, y: L.dist(x, y, 2), *pairs),
        "dist by 1": outcome(fluid, np, lambda L, x, y: L.dist(x, y, 1), x, y),
        "cross": each(fluid, np, lambda L, x, y: L.cross(x, y, 1), pairs[2], (draw(np, 2, 3), draw(np, 2, 3, seed=1))),
        "kron": each(fluid, np, lambda L, x, y: L.kron(L.reshape(x, [3, 4]), L.reshape(y, [3, 4])), (x, y)),
        "trace": [outcome(fluid, np, lambda L, x, d=dims: L.trace(x, 0, *d), v) for v, dims in ((x, (0, 1)), (cube, (1, 2)))],
        "diag_embed": each(fluid, np, lambda L, x: still(L.diag_embed(x)), (x,), (cube,), one[:1]),
        "triangles": [outcome(fluid, np, lambda L, x, f=f: getattr(L, f)(x, 1), v) for f in ("tril", "triu") for v in (x, cube)],
        "t": each(fluid, np, lambda L, x: L.t(x), (x,), one[:1]),
        "log_softmax": [outcome(fluid, np, lambda L, x, a=axis: L.log_softmax(x, a), v) for v, axis in ((x, None), (cube, 1))],
        "allclose": each(fluid, np, lambda L, x, y: L.allclose(x, y), (x, y), (x, x)),
        "equal": each(fluid, np, lambda L, x, y: L.elementwise_equal(x, y), (whole(np, (3, 4), 2), whole(np, (3, 4), 2, seed=1))),
    }  # fmt: skip


@check(*[L + n for n in (
    "nonzero", "index_select", "index_sample", "flip", "roll", "meshgrid", "interpolate", "full", "full_like", "arange", "randint",
    "randn", "randperm")])  # fmt: skip
def places_and_draws(fluid, np):
    x, cube = draw(np, 3, 4), draw(np, 2, 3, 3)

    def of_shape(function):
        value = outcome(fluid, np, function, x)["values"][0]
        return [str(value.dtype), list(value.shape)]

    return {
        "nonzero": each(fluid, np, lambda L, x: L.nonzero(L.cast(x, "bool")), (whole(np, (3, 4), 2),), (whole(np, (2, 2, 2), 2),)),
        "columns": outcome(fluid, np, lambda L, x: list(L.nonzero(L.cast(x, "bool"), True)), whole(np, (3, 4), 2)),
        "index_select": [outcome(fluid, np, lambda L, x, d=dim: L.index_select(x, L.assign(np.array([1, 0, 1])), d), v)
                         for v, dim in ((x, 0), (x, 1), (cube, 2))],
        "index_sample": outcome(fluid, np, lambda L, x, i: L.index_sample(x, i), x, whole(np, (3, 2), 4)),
        "flip": [outcome(fluid, np, lambda L, x, d=dims: L.flip(x, d), v) for v, dims in ((x, [1]), (cube, [0, 2]))],
        "roll": [outcome(fluid, np, lambda L, x, d=dims: L.roll(x, 1, d), v) for v, dims in ((x, 1), (cube, 0))],
        "meshgrid": outcome(fluid, np, lambda L, x: L.meshgrid([L.assign(cube[0, 0]), L.assign(cube[0, 1, :2])]), x)["values"],
        "interpolate": outcome(fluid, np, lambda L, x: L.interpolate(x, [4, 5]), draw(np, 1, 2, 3, 3)),
        "full": of_shape(lambda L, x: L.full([2, 3], 1.5)), "like": outcome(fluid, np, lambda L, x: L.full_like(x, 2.5), x)["values"],
        "arange": outcome(fluid, np, lambda L, x: L.arange(1, 8, 2, "int64"), x)["values"],
        "randint": of_shape(lambda L, x: L.randint(1, 5, [3, 2])), "randn": of_shape(lambda L, x: L.randn([3, 2])),
        "randperm": of_shape(lambda L, x: L.randperm(7)),
    }  # fmt: skip
