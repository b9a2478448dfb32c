"""Functions of `fluid.layers` over three kinds of shapes or more, where other cases go over fewer."""

from tests.fluid_api.cases_decoding import cell, words
from tests.fluid_api.cases_detection import boxes, draw, still
from tests.fluid_api.cases_layers import L, attr, outcome
from tests.fluid_api.cases_places import each, whole
from tests.fluid_api.table import check


@check(L + "lstm_unit", L + "affine_grid", L + "adaptive_pool3d")
def steps_grids_and_volumes(fluid, np):
    def step(L, x, h, c):
        weight, bias = attr(fluid, np, "weight", x.shape[1] + h.shape[1], 4 * h.shape[1]), attr(fluid, np, "bias", 4 * h.shape[1])
        return L.concat(list(L.lstm_unit(x, h, c, 0.3, weight, bias)), axis=1)

    def grid(count, *size):
        return outcome(
            fluid, np, lambda L, t: L.affine_grid(L.reshape(t, [count, 2, 3]), [count, *size]), draw(np, count, 2, 3, seed=count))

    def pooled(kind, size, *shape):
        return outcome(fluid, np, lambda L, x: L.adaptive_pool3d(x, size, kind), draw(np, *shape))

    return {
        "step": each(fluid, np, step, *[[draw(np, n, x), draw(np, n, h, seed=1), draw(np, n, h, seed=2)]
                                        for n, x, h in ((3, 4, 2), (1, 2, 3), (5, 3, 3))]),
        "grid": [grid(2, 3, 4, 5), grid(1, 1, 3, 2), grid(3, 2, 2, 7)],
        "pooled": [pooled(kind, *given) for kind in ("max", "avg") for given in (
            ([2, 1, 3], 2, 3, 2, 3, 4), (1, 1, 2, 3, 2, 2), ([1, 2, 2], 3, 1, 3, 4, 5))],
    }  # fmt: skip


@check(L + "box_decoder_and_assign", L + "polygon_box_transform", L + "target_assign", L + "bipartite_match")
def boxes_of_more_kinds(fluid, np):
    def assigned(L, p, x, s):
        variance = L.assign(np.array([0.1, 0.1, 0.2, 0.2], "float32"))
        return still(list(L.box_decoder_and_assign(p, variance, x, s, 4.135)))

    def matched(L, distance, x):
        return still(list(L.target_assign(x, L.bipartite_match(distance)[0], mismatch_value=7)))

    def pairs(lengths, columns):
        return (draw(np, sum(lengths), columns, low=0), [lengths]), (draw(np, sum(lengths), 1, 4, seed=1), [lengths])

    return {
        "assigned": each(fluid, np, assigned, *[
            [boxes(np, n, seed=1) * 20, draw(np, n, 4 * k, seed=5), draw(np, n, k, seed=6)] for n, k in ((4, 3), (1, 2), (6, 5))]),
        "polygons": each(fluid, np, lambda L, x: still(L.polygon_box_transform(x)), *[
            [draw(np, *shape)] for shape in ((2, 8, 3, 4), (1, 4, 1, 5), (3, 2, 4, 1))]),
        "targets": each(fluid, np, matched, pairs([2, 1, 3], 5), pairs([4], 3), pairs([1, 2], 6)),
    }  # fmt: skip


@check(L + "sampling_id", L + "random_crop")
def draws_of_more_kinds(fluid, np):
    """Shares of 1 leave nothing to chance, and crops are parts of what there is."""
    found = []
    for count, columns in ((3, 4), (1, 7), (6, 2)):
        sure = np.eye(columns, dtype="float32")[whole(np, (count,), columns)]
        found.append(outcome(fluid, np, lambda L, x: still(L.sampling_id(x)), sure)["values"])
    for shape, size in (((2, 3, 5, 6), [3, 2, 4]), ((1, 4, 4), [2, 3]), ((4, 7), [7])):
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        part = outcome(fluid, np, lambda L, x, size=size: still(L.random_crop(x, size)), x)["values"][0]
        step = [x.strides[axis] // 4 for axis in range(1, x.ndim)]
        found.append([list(part.shape), [bool((np.diff(part, axis=i + 1) == s).all()) for i, s in enumerate(step)]])
    return found


@check(L + "RNNCell", L + "rnn", L + "TrainingHelper", L + "BasicDecoder")
def cells_and_helpers_over_more_shapes(fluid, np):
    class Halves(fluid.layers.RNNCell):
        def call(self, inputs, states):
            after = fluid.layers.elementwise_add(fluid.layers.scale(states, 0.5), inputs)
            return fluid.layers.tanh(after), after

        @property
        def state_shape(self):
            return [3]

    def training(L, x, h, n):
        decoder = L.BasicDecoder(cell(fluid, np), L.TrainingHelper(x, L.reshape(n, [-1])), words(fluid, np)[1])
        made, states, lengths = L.dynamic_decode(decoder, [h, L.scale(h, 0.5)], return_length=True)
        return [made.cell_outputs, made.sample_ids, states[0], lengths]

    def sizes(*counts):
        return np.array(counts, "int64").reshape(-1, 1)

    return {
        "cell": each(fluid, np, lambda L, x: list(L.rnn(Halves(), x)), *[
            [draw(np, *shape)] for shape in ((2, 4, 3), (1, 1, 3), (3, 2, 3))]),
        "training": [outcome(fluid, np, training, draw(np, len(n), most, 4, seed=6), draw(np, len(n), 3, seed=3), sizes(*n))
                     for n, most in (([3, 4, 1], 4), ([2], 2), ([5, 1], 5))],
    }  # fmt: skip


@check(L + "noam_decay", L + "cosine_decay", L + "linear_lr_warmup", L + "cond", L + "autoincreased_step_counter", L + "create_tensor")
def numbers_of_programs_over_more_shapes(fluid, np):
    """What a program makes of nothing, beside what it is fed."""
    found = {}
    for shape in ((2, 3), (1, 4), (3, 2, 2)):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            layers = fluid.layers
            x = layers.data("x", list(shape[1:]))
            x.stop_gradient = False
            rates = [layers.noam_decay(16, 3), layers.cosine_decay(0.1, 2, 4), layers.linear_lr_warmup(0.1, 3, 0.01, 0.1)]
            count = layers.autoincreased_step_counter("steps", begin=2, step=3)
            total = layers.reduce_sum(x)
            ways = [lambda x=x: fluid.layers.scale(x, 2.0), lambda x=x: fluid.layers.square(x)]
            chosen = layers.cond(layers.less_than(total, layers.fill_constant([1], "float32", 0.5)), *ways)
            kept = layers.create_tensor("float32")
            layers.assign(chosen, kept)
            (slope,) = fluid.gradients(layers.reduce_sum(chosen), [x])
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(fluid.default_startup_program())
            feeds = [draw(np, *shape, low=low, high=low + 1) for low in (-1, 1, 0)]
            found[str(shape)] = [exe.run(feed={"x": fed}, fetch_list=[*rates, count, chosen, kept, slope]) for fed in feeds]
    return found


@check(L + "MultivariateNormalDiag")
def vectors_of_more_sizes(fluid, np):
    found = []
    for size in (2, 1, 4):
        low, high = draw(np, size, low=0, high=1), draw(np, size, low=1.5, high=2)
        matrix, other = (np.diag(draw(np, size, low=0.3, high=1, seed=s)) for s in (0, 1))

        def told(L, x, low=low, high=high, matrix=matrix, other=other):
            one, two = L.MultivariateNormalDiag(low, matrix), L.MultivariateNormalDiag(high, other)
            return [one.entropy(), one.kl_divergence(two), x]

        found.append(outcome(fluid, np, told, draw(np, size, 1))["values"])
    return found


@check(L + "py_reader", L + "create_py_reader_by_data", L + "double_buffer", L + "read_file")
def readers_of_more_shapes(fluid, np):
    def pulled(by_data, *shape):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            layers = fluid.layers
            if by_data:
                given = [layers.data("x", list(shape[1:])), layers.data("y", [1], dtype="int64")]
                reader = layers.create_py_reader_by_data(4, given, use_double_buffer=False)
            else:
                reader = layers.py_reader(4, [(-1,) + shape[1:], (-1, 1)], ["float32", "int64"], use_double_buffer=False)
            x, y = layers.read_file(layers.double_buffer(reader))
            made = layers.elementwise_mul(layers.square(x), layers.cast(y, "float32"), axis=0)

            def batches():
                for i in range(3):
                    rows = draw(np, *shape, seed=i)
                    yield [(row, np.array([i + k], "int64")) for k, row in enumerate(rows)]

            reader.decorate_paddle_reader(batches)
            exe, found = fluid.Executor(fluid.CPUPlace()), []
            exe.run(fluid.default_startup_program())
            reader.start()
            while len(found) < 9:
                try:
                    found.append(exe.run(fetch_list=[made])[0])
                except fluid.core.EOFException:
                    reader.reset()
                    break
            return found

    return [pulled(by_data, *shape) for by_data in (False, True) for shape in ((2, 3), (1, 5), (4, 1))]


@check(L + "im2sequence")
def windows_of_more_images(fluid, np):
    def made(*shape, **more):
        return outcome(fluid, np, lambda L, x: L.im2sequence(x, **more), draw(np, *shape))

    return [made(*shape, filter_size=[2, 1], stride=[1, 2], padding=[0, 1, 1, 0]) for shape in ((2, 3, 5, 6), (1, 1, 4, 4), (3, 2, 2, 7))]


@check(L + "merge_selected_rows", L + "get_tensor_from_selected_rows")
def rows_of_more_tables(fluid, np):
    found = []
    for ids in ([3, 1, 3], [0], [2, 2, 4, 0, 2]):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            layers = fluid.layers
            table, given = attr(fluid, np, "table", 5, 3), layers.data("ids", [1], dtype="int64")
            read = layers.embedding(given, [5, 3], is_sparse=True, param_attr=table)
            ((_, gradient),) = fluid.backward.append_backward(layers.mean(layers.square(read)))
            whole_rows = layers.get_tensor_from_selected_rows(layers.merge_selected_rows(gradient))
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(fluid.default_startup_program())
            feed = {"ids": np.array(ids, "int64").reshape(-1, 1)}
            found.append(exe.run(feed=feed, fetch_list=[layers.reduce_sum(whole_rows, dim=0)]))
    return found
