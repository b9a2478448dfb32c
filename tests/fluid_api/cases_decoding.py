"""Cells, what lets them go over steps, and decoding step by step."""

from tests.fluid_api.cases_layers import attr, outcome, rows
from tests.fluid_api.table import check

L = "paddle.fluid.layers."


def gru(fluid, np, size=3, columns=4):
    return fluid.layers.GRUCell(
        size, fluid.ParamAttr(name="gru", initializer=fluid.initializer.Constant(0.2)),
        fluid.ParamAttr(name="grub", initializer=fluid.initializer.Constant(0.1)))


@check(L + "rnn", L + "GRUCell", L + "LSTMCell", L + "RNNCell")
def cells_go_over_the_steps(fluid, np):
    x, size = rows(np, [[1, 1]], 4, 3, seed=2)[0], np.array([[4], [2]], "int64")

    def lstm(L):
        return L.LSTMCell(3, attr(fluid, np, "lstm", 6, 12), attr(fluid, np, "lstmb", 12), forget_bias=0.5)

    def ends(L, made):
        outputs, states = made
        return [outputs] + (list(states) if isinstance(states, (list, tuple)) else [states])

    class Twice(fluid.layers.RNNCell):
        def call(self, inputs, states):
            after = fluid.layers.elementwise_add(fluid.layers.scale(states, 2.0), inputs)
            return after, after

        @property
        def state_shape(self):
            return [3]

    def names(L, x):
        cell = L.GRUCell(2)
        cell(x, L.scale(L.slice(x, [1], [0], [2]), 1.0))
        return [p.name for p in fluid.default_main_program().all_parameters()]

    wide = fluid.layers.data("wide", [3], dtype="float32")
    return {
        "gru": outcome(fluid, np, lambda L, x: ends(L, L.rnn(gru(fluid, np), x)), x),
        "lstm": outcome(fluid, np, lambda L, x: ends(L, L.rnn(lstm(L), x)), x),
        "lengths": outcome(fluid, np, lambda L, x, n: ends(L, L.rnn(lstm(L), x, sequence_length=L.reshape(n, [-1]))), x, size),
        "from the end": outcome(
            fluid, np, lambda L, x, n: ends(L, L.rnn(gru(fluid, np), x, sequence_length=L.reshape(n, [-1]), is_reverse=True)), x, size),
        "own": outcome(fluid, np, lambda L, x: ends(L, L.rnn(Twice(), L.transpose(x, [1, 0, 2]), time_major=True)), x),
        "started": outcome(fluid, np, lambda L, x, h: ends(L, L.rnn(gru(fluid, np), x, h)), x, rows(np, [[1, 1]], 3)[0]),
        "names": names(fluid.layers, wide),
    }  # fmt: skip


def words(fluid, np):
    """What embeds words, and what makes scores of states."""
    L = fluid.layers

    def embedded(ids):
        return fluid.embedding(ids, [6, 4], param_attr=attr(fluid, np, "words", 6, 4))

    def scored(x):
        return L.fc(x, 6, num_flatten_dims=len(x.shape) - 1, param_attr=attr(fluid, np, "scores, scaled", 3, 6), bias_attr=False)

    return embedded, scored


def cell(fluid, np):
    """A cell whose states go far apart."""
    attrs = []
    for name, shape in (("far", (7, 12)), ("farb", (12,))):
        values = np.random.RandomState(5).uniform(-2, 2, shape).astype("float32")
        attrs.append(fluid.ParamAttr(name=name, initializer=fluid.initializer.NumpyArrayInitializer(values)))
    return fluid.layers.LSTMCell(3, *attrs)


@check(L + "BeamSearchDecoder", L + "dynamic_decode", L + "gather_tree")
def the_best_beams_are_kept(fluid, np):
    start = rows(np, [[1, 1, 1]], 3, seed=3)[0]

    def decoded(**more):
        def apply(L, h):
            embedded, scored = words(fluid, np)
            decoder = L.BeamSearchDecoder(cell(fluid, np), 0, 1, 3, embedded, scored)
            made, states, size = L.dynamic_decode(decoder, [h, L.scale(h, 0.5)], max_step_num=5, return_length=True, **more)
            for v in (made, size):
                v.stop_gradient = True
            return [made, states.log_probs, L.cast(states.finished, "int32"), states.lengths, size, states.cell_states[0]]
        return outcome(fluid, np, apply, start)

    ids = np.array([[[2, 2], [6, 1]], [[3, 9], [6, 1]], [[0, 1], [9, 0]]], "int64")
    parents = np.array([[[0, 0], [1, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 1]]], "int64")
    return {
        "plain": decoded(), "by steps": decoded(output_time_major=True),
        "tree": outcome(fluid, np, lambda L, x, y: L.gather_tree(x, y), ids, parents),
        "tiled": outcome(fluid, np, lambda L, x: L.BeamSearchDecoder.tile_beam_merge_with_batch(x, 2), start),
    }  # fmt: skip


@check(L + "SampleEmbeddingHelper")
def words_are_drawn_and_go_on(fluid, np):
    """A temperature near 0 leaves nothing to chance; otherwise words are those that there are, and not always the same."""

    def drawn(count, temperature, seed=None, most=4):
        start = rows(np, [[1] * count], 3, seed=3)[0]

        def apply(L, h):
            embedded, scored = words(fluid, np)
            first = L.fill_constant_batch_size_like(h, [-1], "int64", 2)
            decoder = L.BasicDecoder(cell(fluid, np), L.SampleEmbeddingHelper(embedded, first, 1, temperature, seed), scored)
            made, states = L.dynamic_decode(decoder, [h, L.scale(h, 0.5)], max_step_num=most, is_test=True)
            for part in (made.cell_outputs, made.sample_ids):
                part.stop_gradient = True
            return [made.cell_outputs, made.sample_ids]

        return outcome(fluid, np, apply, start)

    found = {str(n): drawn(n, 1e-6) for n in (3, 1, 6)}
    for seed in (None, 7):
        ids = drawn(40, None, seed, 9)["values"][1]
        some = len(set(ids.ravel().tolist())) > 2
        found["by chance, " + str(seed)] = [list(ids.shape[:1]), int(ids.min()) >= 0, int(ids.max()) < 6, some]
    return found


@check(L + "BasicDecoder", L + "DecodeHelper", L + "TrainingHelper", L + "GreedyEmbeddingHelper", L + "Decoder")
def helpers_say_what_a_step_is_given(fluid, np):
    start, x = rows(np, [[1, 1, 1]], 3, seed=3)[0], rows(np, [[1, 1, 1]], 4, 4, seed=6)[0]
    size = np.array([[3], [4], [1]], "int64")

    def training(L, x, h, n):
        helper = L.TrainingHelper(x, L.reshape(n, [-1]))
        decoder = L.BasicDecoder(cell(fluid, np), helper, words(fluid, np)[1])
        made, states, lengths = L.dynamic_decode(decoder, [h, L.scale(h, 0.5)], return_length=True)
        return [made.cell_outputs, made.sample_ids, states[0], lengths]

    def greedy(L, h):
        embedded, scored = words(fluid, np)
        first = L.fill_constant_batch_size_like(h, [-1], "int64", 2)
        decoder = L.BasicDecoder(cell(fluid, np), L.GreedyEmbeddingHelper(embedded, first, 1), scored)
        made, states = L.dynamic_decode(decoder, [h, L.scale(h, 0.5)], max_step_num=4, impute_finished=True, is_test=True)
        made.cell_outputs.stop_gradient = True
        return [made.cell_outputs, made.sample_ids, states[0]]

    return {"training": outcome(fluid, np, training, x, start, size), "greedy": outcome(fluid, np, greedy, start)}


@check(L + "beam_search")
def the_best_words_of_each_source_follow(fluid, np):
    draws = np.random.RandomState(8)

    def made(levels, ended, whole=False, **more):
        count = sum(levels[1])
        before = draws.randint(2, 9, (count, 1)).astype("int64")
        before[ended] = 1
        words = np.array([draws.permutation(9)[:4] for _ in range(count)], "int64")
        shares = -np.sort(-draws.uniform(0.05, 0.9, (count, 4)), axis=1).astype("float32")

        def apply(L, ids, old, words, scores):
            chosen = L.beam_search(ids, old, None if whole else words, scores, 3, 1, return_parent_idx=True, **more)
            for v in chosen:
                v.stop_gradient = True
            return list(chosen)

        old = draws.uniform(0.2, 0.8, (count, 1)).astype("float32"), levels
        return outcome(fluid, np, apply, (before, levels), old, (words, levels), (shares, levels))

    return {
        "ragged": made([[2, 1, 3], [1] * 6], [1]), "one": made([[2], [1, 1]], []),
        "shares": made([[3, 2], [1] * 5], [2], is_accumulated=False),
        "a source has ended": made([[2, 2], [1] * 4], [0, 1]), "all words": made([[2, 1], [1] * 3], [], whole=True),
        "parts": made([[2, 1], [2, 1, 2]], [4]),
    }  # fmt: skip
