"""Functions of `fluid.layers` that read, write and cut out places, and that count and draw."""

from tests.fluid_api.cases_detection import draw, still
from tests.fluid_api.cases_layers import L, outcome, rows
from tests.fluid_api.table import check


def each(fluid, np, function, *cases):
    """The outcomes for several inputs."""
    return [outcome(fluid, np, function, *inputs) for inputs in cases]


def whole(np, shape, most, **more):
    return np.random.RandomState(more.get("seed", 0)).randint(more.get("least", 0), most, shape).astype(more.get("dtype", "int64"))


@check(*[L + n for n in ("gather_nd", "scatter_nd", "scatter_nd_add", "multiplex", "where", "gather_tree", "shard_index")])
def places_are_read_and_written(fluid, np):
    cube, wide = draw(np, 3, 4, 2), draw(np, 2, 5)
    return {
        "gather_nd": each(fluid, np, lambda L, x, i: L.gather_nd(x, i), (cube, whole(np, (4, 2), 3)), (cube, whole(np, (2, 3), 2)),
                          (wide, whole(np, (3, 1, 1), 2))),
        "scatter_nd_add": each(
            fluid, np, lambda L, x, i, u: L.scatter_nd_add(x, i, u), (cube, whole(np, (5, 2), 3), draw(np, 5, 2)),
            (wide, whole(np, (4, 2), 2), draw(np, 4)), (wide, whole(np, (1, 1), 2), draw(np, 1, 5))),
        "scatter_nd": each(
            fluid, np, lambda L, i, u: L.scatter_nd(i, u, [3, 5, 2]), (whole(np, (5, 2), 3), draw(np, 5, 2)),
            (whole(np, (4, 1), 3), draw(np, 4, 5, 2)), (whole(np, (1, 3), 2), draw(np, 1))),
        "multiplex": each(
            fluid, np, lambda L, x, y, z, i: L.multiplex([x, y, z], i), *[
                [draw(np, *shape, seed=s) for s in range(3)] + [whole(np, (shape[0], 1), 3, dtype="int32")]
                for shape in ((4, 3), (1, 2), (5, 2, 2))]),
        "where": each(fluid, np, lambda L, x: L.where(L.cast(x, "bool")), (whole(np, (4, 3), 2),), (whole(np, (9,), 2),),
                      (whole(np, (2, 2, 3), 2, seed=1),)),
        "gather_tree": each(
            fluid, np, lambda L, a, b: still(L.gather_tree(L.reshape(a, [3, 2, 2]), L.reshape(b, [3, 2, 2]))), *[
                (whole(np, (3, 2, 2), 9, seed=s), whole(np, (3, 2, 2), 2, seed=s + 1)) for s in range(3)]),
        "shard_index": each(fluid, np, lambda L, x: L.shard_index(x, 20, 3, 1), (whole(np, (4, 1), 20),), (whole(np, (1, 1), 20),),
                            (whole(np, (9, 1), 20),)),
    }  # fmt: skip


@check(*[L + n for n in ("crop", "crop_tensor", "pad_constant_like", "strided_slice")])
def parts_are_cut_out(fluid, np):
    x, y, z = draw(np, 3, 5), draw(np, 2, 4, 6), draw(np, 4, 3, 2, 2)

    def crop(shape, offsets):
        return lambda L, x: L.crop(x, shape, offsets)

    def tensor(shape, offsets):
        return lambda L, x: L.crop_tensor(x, shape, offsets)

    def some(L, x):
        return L.crop_tensor(x, [2, L.assign(np.array([3], "int32"))], [L.assign(np.array([1], "int32")), 2])

    return {
        "crop": [outcome(fluid, np, crop(*given), v) for v, given in (
            (x, ([2, 3], [1, 1])), (y, ([2, 2, 3], [0, 1, 3])), (z, ([1, 3, 1, 2], None)))],
        "like": each(fluid, np, lambda L, x, y: L.crop(x, y, [1, 0]), (x, draw(np, 2, 3)), (x, draw(np, 1, 5)), (x, draw(np, 2, 1))),
        "by variables": outcome(fluid, np, lambda L, x: L.crop(x, [2, 3], L.assign(np.array([1, 2], "int32"))), x),
        "tensor": [outcome(fluid, np, tensor(*given), v) for v, given in (
            (x, ([2, 3], [1, 1])), (y, ([-1, 2, -1], [0, 1, 3])), (z, ([1, 3, 1, 2], None)))],
        "of variables": outcome(fluid, np, some, x),
        "padded": each(fluid, np, lambda L, x, y: L.pad_constant_like(x, y, 1.5), (x, draw(np, 2, 3)), (y, draw(np, 2, 4, 1)),
                       (z, draw(np, 3, 1, 2, 2))),
        "strided": [outcome(fluid, np, lambda L, x, g=given: L.strided_slice(x, *g), v) for v, given in (
            (x, ([0, 1], [0, 1], [3, 5], [2, 2])), (y, ([2], [5], [0], [-2])), (z, ([1, 3], [-2, 0], [3, 2], [1, 1])))],
    }  # fmt: skip


@check(*[L + n for n in ("unique", "unique_with_counts", "rank", "size", "is_empty", "mean_iou")])
def elements_are_counted(fluid, np):
    some, one, many = (whole(np, (n,), 5, seed=n) for n in (7, 1, 20))
    images = whole(np, (3, 4), 5, dtype="int32"), whole(np, (3, 4), 5, seed=3, dtype="int32")
    return {
        "unique": each(fluid, np, lambda L, x: still(L.unique(L.reshape(x, [-1]))), (some,), (one,), (many,)),
        "counts": each(fluid, np, lambda L, x: still(L.unique_with_counts(L.reshape(x, [-1]), "int64")), (some,), (one,), (many,)),
        "of floats": outcome(fluid, np, lambda L, x: still(L.unique_with_counts(L.reshape(x, [-1]))), some.astype("float32")),
        "rank": [outcome(fluid, np, lambda L, x: L.rank(x), v)["values"][0].tolist() for v in (some, images[0], draw(np, 2, 2, 2))],
        "size": each(fluid, np, lambda L, x: L.size(x), (some.astype("float32"),), (images[0],), (draw(np, 2, 3, 2),)),
        "empty": each(fluid, np, lambda L, x: L.is_empty(x), (draw(np, 1, 2),), (draw(np, 3, 2),), (draw(np, 2, 3, 2),)),
        "iou": each(fluid, np, lambda L, x, y: still(L.mean_iou(x, y, 5)), images, (images[0][:1], images[1][:1]), images[::-1]),
        "iou of more": outcome(fluid, np, lambda L, x, y: still(L.mean_iou(x, y, 9)), *images),
    }  # fmt: skip


@check(*[L + n for n in (
    "uniform_random_batch_size_like", "gaussian_random_batch_size_like", "sampling_id", "random_crop")])  # fmt: skip
def draws_have_their_distributions(fluid, np):
    def drawn(function, *inputs):
        return outcome(fluid, np, function, *inputs)["values"][0]

    def spread(value):
        return {"shape": list(value.shape), "dtype": str(value.dtype), "mean": float(np.round(value.mean(), 1)),
                "deviation": float(np.round(value.std(), 1))}

    batch, shares = draw(np, 300, 2), np.array([[0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0]], "float32").repeat(4000, 0)
    chosen = drawn(lambda L, x: L.sampling_id(x), shares)
    images = np.arange(2 * 3 * 5 * 6, dtype="float32").reshape(2, 3, 5, 6)
    parts = drawn(lambda L, x: L.random_crop(x, [3, 2, 4]), images)
    sequences = drawn(lambda L, x: L.uniform_random_batch_size_like(x, [-1, 3]), rows(np, [[2, 1, 3]], 4))
    return {
        "uniform": spread(drawn(lambda L, x: L.uniform_random_batch_size_like(x, [-1, 200], min=2.0, max=6.0), batch)),
        "along 1": spread(drawn(lambda L, x: L.uniform_random_batch_size_like(
            x, [100, -1, 7], input_dim_idx=0, output_dim_idx=1), batch)),
        "normal": spread(drawn(lambda L, x: L.gaussian_random_batch_size_like(x, [-1, 200], mean=3.0, std=2.0), batch)),
        "sequences": list(sequences.shape),
        "ids": {"dtype": str(chosen.dtype), "shape": list(chosen.shape), "second": float(chosen[4000:].std() + chosen[4000]),
                "shares": [float(np.round((chosen[:4000] == i).mean(), 1)) for i in range(4)]},
        "parts": {"shape": list(parts.shape), "whole": [
            bool((np.diff(parts, axis=axis) == step).all()) for axis, step in ((1, 30), (2, 6), (3, 1))]},
    }  # fmt: skip
