"""Sequences beside others: losses over alignments, and distances."""

from tests.fluid_api.cases_labelling import labels
from tests.fluid_api.cases_layers import outcome, rows
from tests.fluid_api.table import check

L = "paddle.fluid.layers."


@check(L + "warpctc")
def alignments_cost(fluid, np):
    def of_sequences(lengths, counts, **more):
        x, (y, _) = rows(np, lengths, 4, seed=len(lengths[0])), labels(np, counts, 3)
        return outcome(fluid, np, lambda L, x, y: L.warpctc(x, y, **more), x, (y.astype("int32") + 1, counts))

    scores, size = rows(np, [[6]], 3, 4, seed=5)[0], np.array([6, 2, 4], "int64")
    told, count = np.array([[1, 2, 2], [3, 0, 0], [2, 1, 0]], "int32"), np.array([3, 1, 2], "int64")
    return {
        "ragged": of_sequences([[5, 3, 7]], [[2, 1, 3]]), "one": of_sequences([[4]], [[2]]),
        "single rows": of_sequences([[1, 1]], [[1, 1]]),
        "normalized": of_sequences([[5, 3, 7, 4]], [[2, 1, 3, 1]], norm_by_times=True),
        "another blank": outcome(
            fluid, np, lambda L, x, y: L.warpctc(x, y, blank=3), rows(np, [[4, 6]], 4), (np.array([[0], [2], [1]], "int32"), [[1, 2]])),
        "padded": outcome(fluid, np, lambda L, x, y, n, m: L.warpctc(x, y, 0, False, L.reshape(n, [-1]), L.reshape(m, [-1])),
                          scores, told, size[:, None], count[:, None]),
    }  # fmt: skip


@check(L + "ctc_greedy_decoder")
def the_best_labels_of_steps_are_read(fluid, np):
    def steps(*best):
        x = np.random.RandomState(1).uniform(0, 0.5, (len(best), 4)).astype("float32")
        x[np.arange(len(best)), best] += 1
        return x

    def padded(L, x, n):
        return L.ctc_greedy_decoder(x, 0, input_length=n, padding_value=-5)

    wide = np.stack([steps(1, 1, 0, 1, 2), steps(0, 0, 3, 3, 3), steps(2, 1, 1, 0, 0)])
    size = np.array([[5], [2], [3]], "int64")
    nothing = outcome(fluid, np, lambda L, x: L.ctc_greedy_decoder(x, 0), (steps(0, 0, 0), [[1, 2]]))
    return {
        "ragged": outcome(fluid, np, lambda L, x: L.ctc_greedy_decoder(x, 0), (steps(1, 1, 0, 1, 2, 2, 0, 3, 3), [[5, 1, 3]])),
        "another blank": outcome(fluid, np, lambda L, x: L.ctc_greedy_decoder(x, 3), (steps(1, 1, 0, 3, 0, 2, 0, 3, 3), [[5, 2, 2]])),
        "one": outcome(fluid, np, lambda L, x: L.ctc_greedy_decoder(x, 0), (steps(3, 0, 3), [[3]])),
        "nothing": nothing["values"],  # without the levels, which are not of its one row
        "padded": outcome(fluid, np, padded, wide, size),
    }  # fmt: skip


@check(L + "edit_distance")
def distances_are_counted(fluid, np):
    draws = np.random.RandomState(2)

    def tokens(lengths):
        return draws.randint(0, 4, (sum(lengths[0]), 1)).astype("int64"), lengths

    def made(a, b, **more):
        return outcome(fluid, np, lambda L, x, y: list(L.edit_distance(x, y, **more)), tokens(a), tokens(b))

    wide, told = draws.randint(0, 4, (3, 6)).astype("int64"), draws.randint(0, 4, (3, 4)).astype("int64")
    size, count = np.array([[6], [0], [3]], "int64"), np.array([[4], [2], [1]], "int64")

    def padded(L, x, y, n, m):
        return list(L.edit_distance(x, y, False, None, L.reshape(n, [-1]), L.reshape(m, [-1])))

    return {
        "ragged": made([[5, 3, 8, 1]], [[4, 6, 7, 2]]), "counts": made([[5, 3, 8, 1]], [[4, 6, 7, 2]], normalized=False),
        "one": made([[4]], [[5]]), "empty ones": made([[0, 3, 0]], [[2, 0, 0]], normalized=False),
        "ignored": made([[5, 3, 8]], [[6, 6, 7]], normalized=False, ignored_tokens=[1, 3]),
        "padded": outcome(fluid, np, padded, wide, told, size, count),
    }  # fmt: skip


@check(L + "edit_distance", L + "warpctc", L + "row_conv", L + "gather_tree", L + "chunk_eval", L + "GRUCell")
def padded_batches_run_at_once(fluid, np):
    draws, L = np.random.RandomState(0), fluid.layers
    one = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.1))

    def whole(low, high, *shape):
        return fluid.dygraph.to_variable(draws.randint(low, high, shape).astype("int64"))

    def normal(*shape):
        return fluid.dygraph.to_variable(draws.randn(*shape).astype("float32"))

    def lengths(*values):
        return fluid.dygraph.to_variable(np.array(values, "int64"))

    with fluid.dygraph.guard():
        scores, labels = normal(6, 3, 4), L.cast(whole(1, 4, 3, 2), "int32")
        scores.stop_gradient = False
        loss = L.warpctc(scores, labels, 0, False, lengths(6, 4, 5), lengths(2, 1, 2))
        L.reduce_sum(loss).backward()
        made = [
            loss, L.row_conv(normal(3, 5, 4), 1, one), L.gather_tree(whole(0, 4, 3, 2, 2), whole(0, 2, 3, 2, 2)),
            L.GRUCell(3, one)(normal(2, 4), normal(2, 3))[0], L.add_position_encoding(normal(2, 3, 4), 1.0, 2.0), L.is_empty(scores),
            *L.edit_distance(whole(0, 4, 3, 5), whole(0, 4, 3, 4), False, None, lengths(5, 1, 3), lengths(4, 2, 1)),
            *L.ctc_greedy_decoder(normal(3, 5, 4), 0, L.reshape(lengths(5, 1, 3), [3, 1])),
            *L.chunk_eval(whole(0, 7, 3, 6), whole(0, 7, 3, 6), "IOB", 3, None, L.reshape(lengths(6, 2, 5), [3, 1])),
        ]  # fmt: skip
        return [m.numpy() for m in made] + [scores.gradient()]
