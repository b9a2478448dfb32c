"""Levels of detail: which results and gradients have them, and where they go through blocks."""

from tests.fluid_api.table import check

L = "paddle.fluid.layers."


def sequences(fluid, np, columns=4):
    """The sequences that the cases are fed: of 2, 1 and 3 rows."""
    rows = np.random.RandomState(0).uniform(-1, 1, (6, columns)).astype("float32")
    return fluid.create_lod_tensor(rows, [[2, 1, 3]], fluid.CPUPlace())


def levels_of(fluid, np, results, declared=True):
    """Lengths, shapes and declared numbers of levels of results by name; `x` is fed."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    made = exe.run(feed={"x": sequences(fluid, np)}, fetch_list=list(results.values()), return_numpy=False)
    found = {}
    for (name, variable), value in zip(results.items(), made):
        found[name] = [value.recursive_sequence_lengths(), list(np.array(value).shape)] + ([variable.lod_level] if declared else [])
    return found


@check(L + "concat", L + "argmax", L + "transpose")
def results_that_keep_levels_and_those_that_do_not(fluid, np):
    L = fluid.layers
    x = L.data("x", [4], dtype="float32", lod_level=1)
    flat, ids = L.transpose(x, [0, 1]), L.cast(L.slice(L.abs(x), [1], [0], [1]), "int64")
    return levels_of(fluid, np, {
        "argmax": L.argmax(x, 1), "argmin": L.argmin(x, 1), "argsort": L.argsort(x, 1)[1], "topk": L.topk(x, 2)[0],
        "transpose": L.transpose(x, [0, 1]), "reshape": L.reshape(x, [-1, 2, 2]), "unsqueeze": L.unsqueeze(x, [1]),
        "mul": L.mul(x, L.fill_constant([4, 2], "float32", 1.0)), "sum": L.reduce_sum(x, 1), "slice": L.slice(x, [1], [0], [2]),
        "add": L.elementwise_add(x, flat), "add to": L.elementwise_add(flat, x), "sums": L.sums([x, flat]), "sums to": L.sums([flat, x]),
        "beside": L.concat([x, flat], axis=1), "beside to": L.concat([flat, x], axis=1), "split": L.split(x, 2, dim=1)[1],
        "behind": L.concat([x, L.scale(x, 2.0)], axis=0), "behind, from the end": L.concat([x, x], axis=-2),
        "behind, whole": L.cumsum(L.concat([x, x], axis=0), axis=1), "one hot": L.one_hot(ids, 4), "embedding": L.embedding(ids, [4, 3]),
        "scatter": L.scatter(x, L.assign(np.array([0], "int32")), L.fill_constant([1, 4], "float32", 1.0)),
        "norm": L.l2_normalize(x, 1), "smooth": L.smooth_l1(x, x), "unstack": L.unstack(x, axis=1)[0], "reverse": L.reverse(x, 1),
        "rank": L.rank_loss(*[L.slice(x, [1], [i], [i + 1]) for i in range(3)]), "divergence": L.kldiv_loss(x, x, "none"),
        "expand as": L.expand_as(x, x), "expand": L.expand(x, [1, 2]), "less": L.less_than(x, flat), "cast": L.cast(x, "int64"),
        "entropy": L.softmax_with_cross_entropy(x, ids), "entropy to": L.softmax_with_cross_entropy(flat, ids),
        "batch like": L.fill_constant_batch_size_like(x, [-1, 3], "float32", 1.0), "zeros": L.zeros_like(x),
    })  # fmt: skip


@check(L + "concat", L + "sequence_pool")
def gradients_have_the_levels_of_what_they_are_of(fluid, np):
    L = fluid.layers
    functions = {
        "scale": lambda x: L.scale(x, 2.0), "transpose": lambda x: L.transpose(x, [0, 1]), "mul": lambda x: L.fc(x, 3, bias_attr=False),
        "matmul": lambda x: L.matmul(x, L.fill_constant([4, 2], "float32", 1.0)), "behind": lambda x: L.concat([x, x], axis=0),
        "slice": lambda x: L.slice(x, [1], [0], [2]), "softmax": lambda x: L.softmax(x), "relu": lambda x: L.relu(x),
        "expand": lambda x: L.expand(x, [1, 2]), "layer norm": lambda x: L.layer_norm(x), "clip": lambda x: L.clip(x, -0.5, 0.5),
        "pool": lambda x: L.sequence_pool(x, "sum"), "reversed": lambda x: L.sequence_reverse(x), "conv": lambda x: L.sequence_conv(x, 3),
        "first": lambda x: L.sequence_first_step(x), "expanded": lambda x: L.sequence_expand(L.sequence_first_step(x), x),
        "lstm": lambda x: L.dynamic_lstm(x, 4, use_peepholes=False)[0], "reshape": lambda x: L.reshape(x, [-1, 2, 2]),
        "stack": lambda x: L.stack([x, x], axis=1), "mean": lambda x: L.mean(x), "sums": lambda x: L.sums([x, x]),
    }  # fmt: skip
    x, found = L.data("x", [4], dtype="float32", lod_level=1), {}
    for name, function in functions.items():
        given = L.scale(x, 1.0)
        given.stop_gradient = False
        made = function(given)
        (found[name],) = fluid.gradients(L.reduce_sum(made * made), given)
    return levels_of(fluid, np, found)


def repeated(L, times, body):
    """A `While` of so many rounds; `body` is given the number of the round."""
    i, last = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", times)
    i.stop_gradient = last.stop_gradient = True
    again = L.less_than(i, last)
    loop = L.While(again)
    with loop.block():
        body(i)
        L.increment(i, 1)
        L.less_than(i, last, cond=again)


@check(L + "While", L + "array_write", L + "array_read")
def levels_go_through_a_while(fluid, np):
    L = fluid.layers
    x = L.data("x", [4], dtype="float32", lod_level=1)

    def at(place):
        return L.fill_constant([1], "int64", place)

    kept, reversed_, written, replaced, joined, reset = (L.scale(x, 1.0) for _ in range(6))
    fresh, chain = L.create_array("float32"), L.array_write(L.scale(x, 1.0), at(0))
    nested = L.create_array("float32")
    flat = L.fill_constant([1, 4], "float32", 0.0)

    def body(i):
        L.assign(L.tanh(L.scale(kept, 1.5)), kept)
        L.assign(L.sequence_reverse(reversed_), reversed_)
        L.assign(L.elementwise_add(written, L.sequence_expand(L.sequence_pool(written, "sum"), reversed_)), written)
        L.array_write(L.scale(x, 2.0), i, array=fresh)
        before = L.array_read(chain, i)
        after = L.elementwise_add(before, L.sequence_expand(L.sequence_pool(before, "average"), x))
        L.array_write(after, L.increment(i, 1, in_place=False), array=chain)
        L.assign(L.scale(x, 3.0), flat)
        repeated(L, 2, lambda k: L.array_write(L.scale(x, 4.0), i, array=nested))

    repeated(L, 3, body)
    repeated(L, 1, lambda i: L.assign(L.sequence_first_step(replaced), replaced))
    repeated(L, 2, lambda i: L.assign(L.sequence_concat([joined, x]), joined))
    repeated(L, 2, lambda i: L.assign(L.lod_reset(reset, target_lod=[0, 1, 6]), reset))
    read = [L.array_read(fresh, at(1)), L.array_read(chain, at(3)), L.array_read(nested, at(2))]
    results = [kept, reversed_, written, replaced, joined, reset, flat, *read]
    results += [L.sequence_pool(r, "sum") for r in results if r is not replaced]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    made = exe.run(feed={"x": sequences(fluid, np)}, fetch_list=results, return_numpy=False)
    return {"values": [np.array(m) for m in made], "lengths": [m.recursive_sequence_lengths() for m in made]}


@check(L + "While", "paddle.fluid.backward.append_backward")
def gradients_go_through_an_array_of_sequences(fluid, np):
    L = fluid.layers
    x = L.data("x", [4], dtype="float32", lod_level=1)
    start = L.scale(x, 1.0)
    start.stop_gradient = False
    weight = L.create_parameter([4, 4], "float32", name="w", default_initializer=fluid.initializer.Constant(0.3))
    first = L.fill_constant([1], "int64", 0)
    first.stop_gradient = True
    rows = L.array_write(start, first)

    def body(i):
        L.array_write(L.tanh(L.mul(L.array_read(rows, i), weight)), L.increment(i, 1, in_place=False), array=rows)

    repeated(L, 3, body)
    last = L.array_read(rows, L.fill_constant([1], "int64", 3))
    pooled = L.sequence_pool(last, "sum")
    ((_, gradient),) = fluid.backward.append_backward(L.reduce_sum(pooled * pooled))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    made = exe.run(feed={"x": sequences(fluid, np)}, fetch_list=[last, pooled, gradient], return_numpy=False)
    return {"values": [np.array(m) for m in made], "lengths": [m.recursive_sequence_lengths() for m in made]}


@check(L + "Switch", L + "cond")
def levels_go_through_branches(fluid, np):
    L = fluid.layers
    x = L.data("x", [4], dtype="float32", lod_level=1)
    results = []
    for yes in (True, False):
        taken = L.less_than(L.fill_constant([1], "float32", 0.0 if yes else 100.0), L.reduce_sum(L.abs(x)))
        same, other, flat = L.scale(x, 1.0), L.scale(x, 1.0), L.fill_constant([1, 4], "float32", 0.0)
        with L.Switch() as switch:
            with switch.case(taken):
                L.assign(L.scale(x, 2.0), same)
                L.assign(L.lod_reset(x, target_lod=[0, 1, 6]), other)
                L.assign(L.scale(x, 4.0), flat)
            with switch.default():
                L.assign(L.scale(x, 3.0), same)
        results += [same, other, flat, L.sequence_pool(same, "sum"), L.sequence_pool(other, "sum")]
    exe = fluid.Executor(fluid.CPUPlace())
    made = exe.run(feed={"x": sequences(fluid, np)}, fetch_list=results, return_numpy=False)
    return {"values": [np.array(m) for m in made], "lengths": [m.recursive_sequence_lengths() for m in made]}
