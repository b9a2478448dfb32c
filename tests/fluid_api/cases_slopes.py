"""Gradients of functions of `fluid.layers` that other cases compare by their values alone."""

from tests.fluid_api.cases_detection import draw
from tests.fluid_api.cases_index import together
from tests.fluid_api.cases_labelling import with_gradient_of
from tests.fluid_api.cases_layers import L, attr, outcome
from tests.fluid_api.cases_places import each, whole
from tests.fluid_api.table import check


@check(L + "argsort", L + "topk", L + "dropout", L + "unstack", L + "reverse", L + "spectral_norm", L + "IfElse")
def what_is_chosen_has_gradients(fluid, np):
    def halves(L, x):
        chosen = L.IfElse(L.less_than(L.reduce_sum(x, 1, keep_dim=True), L.fill_constant([1], "float32", 0.0)))
        with chosen.true_block():
            chosen.output(L.scale(chosen.input(x), 3.0))
        with chosen.false_block():
            chosen.output(L.square(chosen.input(x)))
        return chosen()[0]

    functions = {
        "argsort": lambda L, x: list(L.argsort(x, 1)), "down": lambda L, x: list(L.argsort(x, 1, True)),
        "rows": lambda L, x: list(L.argsort(x, 0)), "topk": lambda L, x: list(L.topk(x, 2)), "kept": lambda L, x: L.dropout(x, 0.0),
        "kept, greater": lambda L, x: L.dropout(x, 0.0, dropout_implementation="upscale_in_train"),
        "dropped": lambda L, x: L.dropout(x, 1.0), "unstacked": lambda L, x: L.stack(L.unstack(x, axis=1), 0),
        "dropped, greater": lambda L, x: L.dropout(x, 1.0, dropout_implementation="upscale_in_train"),
        "reversed": lambda L, x: L.reverse(x, [0, 1]), "halves": halves,
    }  # fmt: skip
    found = [together(fluid, np, functions, draw(np, *shape)) for shape in ((3, 4), (1, 5), (6, 2))]
    vectors = []
    for shape in ((3, 4), (2, 6), (4, 2, 3)):
        weight = draw(np, *shape, seed=2)
        norm = outcome(fluid, np, lambda L, x, shape=shape: L.spectral_norm(L.reshape(x, list(shape)), 0, 4), weight)
        vectors.append(norm["values"] and [list(v.shape) for v in norm["gradients"]])  # its first vectors are drawn
    return [found, vectors]


@check(L + "GreedyEmbeddingHelper", L + "BasicDecoder", L + "dynamic_decode")
def words_that_are_read_learn(fluid, np):
    def read(L, x):
        return fluid.embedding(x, [6, 4], param_attr=attr(fluid, np, "table", 6, 4))

    return each(fluid, np, with_gradient_of(fluid, np, "table", read), *[[whole(np, shape, 6)] for shape in ((3, 2), (1, 1), (5, 4))])
