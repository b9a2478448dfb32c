"""Functions of `fluid.layers` over further kinds of shapes; sequences among them that are empty, alone, and ragged."""

from tests.fluid_api.cases_detection import draw, still
from tests.fluid_api.cases_index import together
from tests.fluid_api.cases_layers import L, attr, outcome, rows
from tests.fluid_api.cases_places import whole
from tests.fluid_api.table import check

LENGTHS = [2, 0, 3], [4], [1, 3, 2]


def each_sequence(fluid, np, functions, columns, lengths=LENGTHS, **more):
    return [together(fluid, np, functions, rows(np, [list(sizes)], columns, **more)) for sizes in lengths]


@check(*[L + "sequence_" + n for n in ("concat", "enumerate", "expand_as", "mask", "pad", "pool", "reshape", "reverse", "slice", "softmax",
                                       "unpad")])  # fmt: skip
def sequences_of_all_kinds(fluid, np):
    def zero(L):
        return L.assign(np.array([0.5], "float32"))

    functions = {
        "concat": lambda L, x: L.sequence_concat([x, L.scale(x, 2.0)]), "pad": lambda L, x: list(L.sequence_pad(x, zero(L))),
        "reverse": lambda L, x: L.sequence_reverse(x), "reshape": lambda L, x: L.sequence_reshape(x, 2),
        "sum": lambda L, x: L.sequence_pool(x, "sum"), "average": lambda L, x: L.sequence_pool(x, "average"),
        "max": lambda L, x: L.sequence_pool(x, "max"), "root": lambda L, x: L.sequence_pool(x, "sqrt"),
        "mask": lambda L, x: L.sequence_mask(L.sequence_pad(x, zero(L))[1], 5, "float32"),
        "unpad": lambda L, x: L.sequence_unpad(*L.sequence_pad(x, zero(L))),
    }  # fmt: skip
    found = {"rows": each_sequence(fluid, np, functions, 4)}
    found["softmax"] = each_sequence(fluid, np, {"softmax": lambda L, x: L.sequence_softmax(x)}, 1)
    found["words"] = each_sequence(fluid, np, {"enumerate": lambda L, x: still(L.sequence_enumerate(x, 2, 7))}, 1, whole=True)
    found["as"] = [together(fluid, np, {"as": lambda L, x, y: L.sequence_expand_as(x, y)}, draw(np, len(sizes), 2),
                            rows(np, [list(sizes)], 1)) for sizes in ([2, 1, 3], [4], [1, 3])]  # fmt: skip
    found["slice"] = [
        together(fluid, np, {"slice": lambda L, x, a, b: L.sequence_slice(x, a, b)}, rows(np, [list(sizes)], 2),
                 np.zeros((len(sizes), 1), "int64"), np.array([[1]] * len(sizes), "int64")) for sizes in ([2, 1, 3], [4], [1, 3])
    ]  # fmt: skip
    return found


@check(L + "dynamic_lstm", L + "dynamic_gru", L + "dynamic_lstmp")
def recurrent_layers_over_all_kinds(fluid, np):
    def lstm(L, x):
        return list(L.dynamic_lstm(x, 8, param_attr=attr(fluid, np, "weight", 2, 8), bias_attr=attr(fluid, np, "bias", 1, 14)))

    def lstmp(L, x):
        given = [fluid.ParamAttr(initializer=fluid.initializer.Constant(0.3)), attr(fluid, np, "bias", 1, 14)]
        return list(L.dynamic_lstmp(x, 8, 3, *given))

    def gru(L, x):
        return L.dynamic_gru(x, 2, attr(fluid, np, "weight", 2, 6), attr(fluid, np, "bias", 1, 6))

    kinds = [1], [4], [1, 3, 2]
    return {"lstm": [outcome(fluid, np, lstm, rows(np, [list(k)], 8)) for k in kinds],
            "lstmp": [outcome(fluid, np, lstmp, rows(np, [list(k)], 8)) for k in kinds],
            "gru": [outcome(fluid, np, gru, rows(np, [list(k)], 6)) for k in kinds]}  # fmt: skip


@check(*[L + n for n in (
    "adaptive_pool2d", "affine_channel", "image_resize", "image_resize_short", "lrn", "maxout", "pad", "pad2d", "pixel_shuffle",
    "resize_bilinear", "resize_nearest", "shuffle_channel")])  # fmt: skip
def images_of_all_kinds(fluid, np):
    functions = {
        "adaptive_pool2d": lambda L, x: L.adaptive_pool2d(x, [2, 1], "avg"),
        "affine_channel": lambda L, x: L.affine_channel(
            x, L.assign(np.arange(1, 5, dtype="float32")), L.assign(np.arange(4, dtype="float32"))),
        "image_resize": lambda L, x: L.image_resize(x, [5, 3]), "image_resize_short": lambda L, x: L.image_resize_short(x, 6),
        "lrn": lambda L, x: L.lrn(x, 3), "maxout": lambda L, x: L.maxout(x, 2), "pad": lambda L, x: L.pad(x, [0, 1, 1, 0, 0, 0, 2, 1], 0.5),
        "pad2d": lambda L, x: L.pad2d(x, [1, 0, 1, 2], "constant", 0.3), "pixel_shuffle": lambda L, x: L.pixel_shuffle(x, 2),
        "resize_bilinear": lambda L, x: L.resize_bilinear(x, [6, 5]), "resize_nearest": lambda L, x: L.resize_nearest(x, [4, 7]),
        "shuffle_channel": lambda L, x: L.shuffle_channel(x, 2),
    }  # fmt: skip
    return [together(fluid, np, functions, draw(np, *shape)) for shape in ((2, 4, 3, 4), (1, 4, 4, 2), (3, 4, 2, 5))]


@check(L + "pool3d", L + "resize_trilinear", L + "grid_sampler")
def volumes_and_places_of_all_kinds(fluid, np):
    volumes = {
        "pool3d": lambda L, x: L.pool3d(x, 2, "max", 1, 0), "means": lambda L, x: L.pool3d(x, [1, 2, 1], "avg", [1, 1, 2]),
        "resize_trilinear": lambda L, x: L.resize_trilinear(x, [3, 4, 5]),
    }  # fmt: skip
    found = [together(fluid, np, volumes, draw(np, *shape)) for shape in ((2, 2, 2, 3, 4), (1, 3, 3, 2, 2), (3, 1, 2, 4, 3))]
    read = {"grid_sampler": lambda L, x, g: L.grid_sampler(x, g)}
    return found + [together(fluid, np, read, draw(np, *x), draw(np, *g, seed=1) * 0.9) for x, g in (
        ((2, 3, 4, 5), (2, 4, 5, 2)), ((1, 1, 3, 3), (1, 3, 3, 2)), ((3, 2, 2, 6), (3, 2, 6, 2)))]  # fmt: skip


@check(*[L + n for n in (
    "argmax", "argsort", "bpr_loss", "cumsum", "dropout", "greater_than", "hard_swish", "label_smooth", "margin_rank_loss", "rank_loss",
    "selu", "soft_relu", "topk")])  # fmt: skip
def rows_of_all_kinds(fluid, np):
    functions = {
        "argmax": lambda L, x: L.argmax(x, -1), "argsort": lambda L, x: [still(v) for v in L.argsort(x, 1)],
        "cumsum": lambda L, x: L.cumsum(x, axis=-1), "dropout": lambda L, x: still(L.dropout(x, 0.3, is_test=True)),
        "greater_than": lambda L, x: L.cast(L.greater_than(x, L.zeros_like(x)), "int32"), "hard_swish": lambda L, x: L.hard_swish(x),
        "label_smooth": lambda L, x: L.label_smooth(x, epsilon=0.2), "selu": lambda L, x: L.selu(x),
        "soft_relu": lambda L, x: L.soft_relu(x, 3.0), "topk": lambda L, x: [still(v) for v in L.topk(x, 2)],
    }  # fmt: skip
    found = [together(fluid, np, functions, draw(np, *shape) * 2) for shape in ((3, 4), (1, 6), (5, 3))]
    bayes = {"bpr_loss": lambda L, x, y: L.bpr_loss(x, y)}
    found += [together(fluid, np, bayes, draw(np, n, 4), whole(np, (n, 1), 4)) for n in (3, 1, 6)]
    pairs = {
        "rank_loss": lambda L, first, x, y: L.rank_loss(first, x, y),
        "margin": lambda L, first, x, y: L.margin_rank_loss(L.scale(first, 2.0, -1.0), x, y, 0.2),
    }  # fmt: skip
    return found + [together(fluid, np, pairs, whole(np, (n, 1), 2).astype("float32"), draw(np, n, 1), draw(np, n, 1, seed=1))
                    for n in (4, 1, 7)]  # fmt: skip
