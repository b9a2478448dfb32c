"""Labels of sequences: conditional random fields, and chunks."""

from tests.fluid_api.cases_layers import attr, outcome, rows
from tests.fluid_api.table import caught, check

L = "paddle.fluid.layers."


def labels(np, lengths, count, *more):
    """Sequences of labels [rows, 1]."""
    found = np.random.RandomState(7).randint(0, count, (sum(lengths[-1]), 1) + more).astype("int64")
    return found, lengths


def with_gradient_of(fluid, np, name, function):
    """As a function of layers, with the gradient of its weighed sum with respect to a parameter as a second result."""

    def apply(layers, *inputs):
        made = function(layers, *inputs)
        parameter = fluid.default_main_program().global_block().var(name)
        (found,) = fluid.gradients(layers.reduce_sum(layers.square(layers.scale(made, 1.0, 0.2))), parameter)
        return [made, found]

    return apply


@check(L + "linear_chain_crf")
def ways_through_labels_cost(fluid, np):
    def crf(L, x, y, n=None):
        return L.linear_chain_crf(x, y, attr(fluid, np, "crfw", 6, 4), length=n)

    def of_sequences(lengths, seed=1):
        x, y = rows(np, lengths, 4, seed=seed), labels(np, lengths, 4)
        return outcome(fluid, np, with_gradient_of(fluid, np, "crfw", crf), x, y)

    padded, taken = rows(np, [[1, 1, 1]], 5, 4, seed=6)[0], labels(np, [[3]], 4, 5)[0].reshape(3, 5, 1)
    size = np.array([[5], [1], [3]], "int64")
    return {
        "ragged": of_sequences([[3, 1, 4]]), "one": of_sequences([[5]]), "single rows": of_sequences([[1, 1]]),
        "many": of_sequences([[2, 7, 1, 3, 5, 2]], 3), "empty ones": of_sequences([[2, 0, 3, 0]]),
        "padded": outcome(fluid, np, with_gradient_of(fluid, np, "crfw", crf), padded, taken, size),
        "no variable": caught(lambda: fluid.layers.linear_chain_crf("x", "y")),
    }  # fmt: skip


@check(L + "crf_decoding")
def the_best_labels_are_found(fluid, np):
    def made(decode):
        def apply(L, x, y, n=None):
            L.linear_chain_crf(x, y, attr(fluid, np, "crfw", 6, 4), length=n)
            return decode(L, x, y, n)
        return apply

    def alone(L, x, y, n):
        return L.crf_decoding(x, fluid.ParamAttr(name="crfw"), length=n)

    def compared(L, x, y, n):
        return L.crf_decoding(x, fluid.ParamAttr(name="crfw"), label=y, length=n)

    found = {}
    for name, lengths in (("ragged", [[3, 1, 4]]), ("one", [[5]]), ("many", [[2, 7, 1, 3, 5, 2]]),
                          ("empty ones", [[2, 0, 3, 0]])):  # fmt: skip
        x, y = rows(np, lengths, 4, seed=8), labels(np, lengths, 4)
        found[name] = outcome(fluid, np, made(alone), x, y)
        found[name + ", compared"] = outcome(fluid, np, made(compared), x, y)
    padded, taken = rows(np, [[1, 1, 1]], 5, 4, seed=6)[0], labels(np, [[3]], 4, 5)[0].reshape(3, 5, 1)
    size = np.array([[5], [1], [3]], "int64")
    found["padded"] = outcome(fluid, np, made(alone), padded, taken, size)
    found["padded, compared"] = outcome(fluid, np, made(compared), padded, taken, size)
    found["no parameter"] = caught(lambda: fluid.layers.crf_decoding(fluid.layers.data("x", [4]), fluid.ParamAttr(name="none")))
    return found


@check(L + "chunk_eval")
def chunks_are_counted(fluid, np):
    found, tags = {}, {"IOB": 2, "IOE": 2, "IOBES": 4, "plain": 1}
    draws = np.random.RandomState(3)
    for lengths in ([[7]], [[0, 6, 0, 5, 1]], [[25, 30]]):
        for scheme, count in tags.items():
            told = draws.randint(0, 3 * count + 1, (sum(lengths[0]), 1)).astype("int64")
            other = draws.randint(0, 3 * count + 1, told.shape).astype("int64")
            guess = np.where(draws.rand(*told.shape) < 0.7, told, other)
            for excluded in (None, [1]):
                found[f"{lengths} {scheme} {excluded}"] = outcome(
                    fluid, np, lambda L, x, y, s=scheme, e=excluded: list(L.chunk_eval(x, y, s, 3, e)), (guess, lengths), (told, lengths))
    told, guess = (draws.randint(0, 7, (3, 6)).astype("int64") for _ in range(2))
    guess[:, :3] = told[:, :3]
    size = np.array([[6], [1], [4]], "int64")
    found["padded"] = outcome(fluid, np, lambda L, x, y, n: list(L.chunk_eval(x, y, "IOB", 3, None, n)), guess, told, size)
    return found
