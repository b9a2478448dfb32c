"""Arrays whose elements differ in rows and levels, and searches that keep such arrays."""

from tests.fluid_api.cases_layers import outcome, rows
from tests.fluid_api.table import check

L = "paddle.fluid.layers."


@check(L + "create_array", L + "array_write", L + "array_read", L + "array_length", L + "tensor_array_to_tensor")
def elements_differ_in_rows(fluid, np):
    def at(L, i):
        return L.fill_constant([1], "int64", i)

    def joined(L, *xs):
        array = L.create_array("float32")
        for i, x in enumerate(xs):
            L.array_write(x, at(L, i), array)
        made, sizes = L.tensor_array_to_tensor(array, axis=0)
        return [made, L.reshape(sizes, [-1]), L.array_length(array), L.array_read(array, at(L, len(xs) - 1))]

    def replaced(L, x, y, z):
        array = L.array_write(x, at(L, 0))
        L.array_write(y, at(L, 1), array)
        L.array_write(z, at(L, 0), array)
        made = [L.array_read(array, at(L, i)) for i in (0, 1)] + [L.array_length(array)]
        for v in made:
            v.stop_gradient = True
        return made

    def read(i):
        def apply(L, x, y):
            array = L.array_write(x, at(L, 0))
            L.array_write(y, at(L, 1), array)
            made = L.array_read(array, at(L, i))
            made.stop_gradient = True
            return made

        return apply

    flat = [rows(np, [[1] * n], 3, seed=n)[0] for n in (1, 2, 4)]
    one, other, deep = rows(np, [[2, 1, 3]], 2), rows(np, [[0, 4]], 2, seed=3), rows(np, [[2]], 2, seed=4)
    return {
        "three": outcome(fluid, np, joined, *flat), "two": outcome(fluid, np, joined, flat[2], flat[0]),
        "one": outcome(fluid, np, joined, flat[1]), "replaced": outcome(fluid, np, replaced, flat[0], flat[2], flat[1]),
        "sequences": [outcome(fluid, np, read(i), one, other) for i in (0, 1)],
        "one sequence": [outcome(fluid, np, read(i), other, deep) for i in (0, 1)],
    }  # fmt: skip


@check(L + "While", L + "create_array", L + "array_write", L + "array_read", L + "array_length")
def arrays_grow_by_fewer_rows(fluid, np):
    """Each round keeps the rows that are greater than its number, as sequences of one row each."""

    def kept(L, x, last):
        number, array, last = L.fill_constant([1], "int64", 0), L.create_array("float32"), L.reshape(last, [1])
        L.array_write(x, number, array)
        again = L.less_than(number, last)
        loop = L.While(again)
        with loop.block():
            now = L.array_read(array, number)
            chosen = L.where(L.greater_than(L.reduce_sum(now, dim=1), L.cast(number, "float32")))
            L.increment(number, 1.0)
            L.array_write(L.gather(now, L.reshape(chosen, [-1])), number, array)
            L.less_than(number, last, cond=again)
        made = [L.array_read(array, number), L.array_length(array), L.tensor_array_to_tensor(array, axis=0)[0]]
        for v in made:
            v.stop_gradient = True
        return made

    def given(count, high, seed):
        return np.random.RandomState(seed).uniform(0, high, (count, 2)).astype("float32")

    return [
        outcome(fluid, np, kept, given(count, high, count), np.array([last], "int64"))
        for count, high, last in ((6, 2, 3), (1, 1.5, 2), (4, 0.3, 1), (9, 4, 5))
    ]


@check(L + "While", L + "create_array", L + "array_write", L + "array_read", L + "sequence_concat")
def sequences_are_collected(fluid, np):
    """Each round makes longer sequences, and writes them to an array that has none in front of the loop."""

    def collected(L, x):
        number, last = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", 3)
        array, state = L.create_array("float32"), L.scale(x, 1.0)
        again = L.less_than(number, last)
        loop = L.While(again)
        with loop.block():
            L.assign(L.sequence_concat([state, x]), state)
            L.array_write(state, number, array=array)
            L.increment(number, 1.0)
            L.less_than(number, last, cond=again)
        made = [L.array_read(array, L.fill_constant([1], "int64", i)) for i in range(3)]
        for v in made:
            v.stop_gradient = True
        return made

    return [outcome(fluid, np, collected, rows(np, [list(sizes)], 2)) for sizes in ([1, 2], [3], [2, 0, 4])]


def search(fluid, np, source, words=11, width=4, hidden=5, beams=2, end=1, most=6):
    """The program of the book: a sentence is read, and of each the best translations are searched for, word by word."""
    L, draws = fluid.layers, np.random.RandomState(3)

    def attr(name, *shape):
        values = draws.uniform(-1.5, 1.5, shape).astype("float32")
        return fluid.ParamAttr(name=name, initializer=fluid.initializer.NumpyArrayInitializer(values))

    read = L.embedding(source, [words, width], param_attr=attr("words read", words, width))
    start = L.sequence_pool(L.fc(read, hidden, act="tanh", param_attr=attr("reader", width, hidden)), "last")
    limit, counter = L.fill_constant([1], "int64", most), L.zeros([1], "int64", force_cpu=True)
    states, ids, scores = L.create_array("float32"), L.create_array("int64"), L.create_array("float32")
    first = L.data("first", [1], dtype="int64", lod_level=2)
    first_scores = L.data("first_scores", [1], dtype="float32", lod_level=2)
    for array, x in ((states, start), (ids, first), (scores, first_scores)):
        L.array_write(x, array=array, i=counter)
    again = L.less_than(counter, limit)
    loop = L.While(again)
    with loop.block():
        before, state, score = (L.array_read(array, counter) for array in (ids, states, scores))
        state = L.sequence_expand(state, score)
        word = L.embedding(before, [words, width], param_attr=attr("words written", words, width))
        weights = [attr("states", hidden, hidden), attr("from words", width, hidden)]
        after = L.fc([state, word], hidden, act="tanh", param_attr=weights)
        shares = L.fc(L.lod_reset(after, score), words, act="softmax", param_attr=attr("shares of all", hidden, words))
        best, chosen = L.topk(shares, beams + 1)
        total = L.elementwise_add(L.log(best), L.reshape(score, [-1]), axis=0)
        following, gained = L.beam_search(before, score, chosen, total, beams, end, level=0)
        L.increment(counter, 1, in_place=True)
        for array, x in ((states, after), (ids, following), (scores, gained)):
            L.array_write(x, array=array, i=counter)
        L.logical_and(L.less_than(counter, limit), L.logical_not(L.is_empty(following)), out=again)
    return L.beam_search_decode(ids, scores, beams, end)


@check(L + "beam_search_decode", L + "beam_search", L + "sequence_expand", L + "While")
def sentences_are_translated(fluid, np):
    def translated(lengths, **more):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            made = search(fluid, np, fluid.layers.data("source", [1], dtype="int64", lod_level=1), **more)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(fluid.default_startup_program())
            found = []
            for sizes in lengths:
                count, draws = len(sizes), np.random.RandomState(sum(sizes))
                place, ones = fluid.CPUPlace(), [[1] * count, [1] * count]
                feed = {
                    "source": fluid.create_lod_tensor(draws.randint(0, 11, (sum(sizes), 1)).astype("int64"), [sizes], place),
                    "first": fluid.create_lod_tensor(np.zeros((count, 1), "int64"), ones, place),
                    "first_scores": fluid.create_lod_tensor(np.ones((count, 1), "float32"), ones, place),
                }
                values = exe.run(feed=feed, fetch_list=list(made), return_numpy=False)
                found.append([[np.array(v), v.recursive_sequence_lengths()] for v in values])
            return found

    lengths = [[2, 3], [4], [1, 2, 5], [3, 1, 1, 6]]
    return [
        translated(lengths), translated(lengths[:2], beams=3, most=4), translated(lengths[2:], beams=1, end=3),
        translated(lengths, end=5),
    ]  # fmt: skip


@check(L + "fc", L + "beam_search", L + "Switch", L + "is_empty")
def rows_of_a_search_are_added_in_a_loop_that_a_switch_ends(fluid, np):
    L, width, words = fluid.layers, 4, 8
    table = {name: fluid.ParamAttr(name=name, initializer=fluid.initializer.NumpyArrayInitializer(
        np.random.RandomState(i).uniform(-1, 1, shape).astype("float32"))) for i, (name, shape) in enumerate(
            {"words": (words, width), "states": (width, width), "read": (width, width), "shares": (width, words)}.items())}  # fmt: skip
    state = L.data("state", [width])
    first, score = L.data("first", [1], dtype="int64", lod_level=2), L.data("score", [1], lod_level=2)
    counter, limit = L.zeros([1], "int64", force_cpu=True), L.fill_constant([1], "int64", 4)
    arrays = [L.array_write(x, counter) for x in (state, first, score)]
    again = L.less_than(counter, limit)
    loop = L.While(again)
    with loop.block():
        before, words_before, gained = (L.array_read(array, counter) for array in arrays)
        word = L.embedding(words_before, [words, width], param_attr=table["words"])
        weights = [table["states"], table["read"]]
        after = L.fc([L.sequence_expand(before, gained), word], width, act="tanh", param_attr=weights, bias_attr=False)
        shares = L.fc(L.lod_reset(after, gained), words, act="softmax", param_attr=table["shares"], bias_attr=False)
        best, chosen = L.topk(shares, 2)
        total = L.elementwise_add(L.log(best), L.reshape(gained, [-1]), axis=0)
        following, gained = L.beam_search(words_before, gained, chosen, total, 2, 1, level=0)
        with L.Switch() as switch:
            with switch.case(L.is_empty(following)):
                L.assign(L.fill_constant([1], "bool", False), again)
            with switch.default():
                L.increment(counter, 1, in_place=True)
                for array, x in zip(arrays, (after, following, gained)):
                    L.array_write(x, counter, array)
                L.logical_and(L.less_than(counter, limit), L.logical_not(L.is_empty(following)), out=again)
    made = L.beam_search_decode(arrays[1], arrays[2], 2, 1)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    ones = [[1, 1], [1, 1]]
    feed = {
        "state": np.random.RandomState(9).uniform(-1, 1, (2, width)).astype("float32"),
        "first": fluid.create_lod_tensor(np.zeros((2, 1), "int64"), ones, fluid.CPUPlace()),
        "score": fluid.create_lod_tensor(np.ones((2, 1), "float32"), ones, fluid.CPUPlace()),
    }
    return [[np.array(v), v.recursive_sequence_lengths()] for v in exe.run(feed=feed, fetch_list=list(made), return_numpy=False)]
