"""Blocks in every form that 1.8 has: While, Switch, IfElse, StaticRNN, cond, case, switch_case, while_loop, nested in each other."""

import numpy as np

from tests.fluid.programs.recording import set_weights


def _run(fluid, feeds, fetches, program=None):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, program or fluid.default_main_program())
    results = []
    for feed in feeds:
        results += exe.run(program, feed=feed, fetch_list=fetches)
    return results


def factorials_by_while(fluid):
    """A product in place, and a counter."""
    layers = fluid.layers
    n = layers.data(name="n", shape=[1], dtype="int64", append_batch_size=False)
    i = layers.fill_constant(shape=[1], dtype="int64", value=1)
    product = layers.fill_constant(shape=[1], dtype="int64", value=1)
    cond = layers.less_equal(x=i, y=n)
    loop = layers.While(cond=cond)
    with loop.block():
        layers.assign(layers.elementwise_mul(product, i), output=product)
        layers.increment(x=i, value=1, in_place=True)
        layers.assign(layers.less_equal(x=i, y=n), cond)
    return _run(fluid, [{"n": np.array([k], "int64")} for k in (5, 0, 7)], [product, i])


def power_iteration(fluid):
    """A loop until the value stands still, with a bound on the steps."""
    layers = fluid.layers
    a = layers.data(name="a", shape=[4, 4], dtype="float32", append_batch_size=False)
    v = layers.fill_constant([4, 1], "float32", 0.5)
    value = layers.fill_constant([1], "float32", 0.0)
    change = layers.fill_constant([1], "float32", 1.0)
    step = layers.fill_constant([1], "int64", 0)
    limit = layers.fill_constant([1], "int64", 50)
    small = layers.fill_constant([1], "float32", 1e-3)
    going = layers.logical_and(layers.less_than(step, limit), layers.greater_than(change, small))
    loop = layers.While(going)
    with loop.block():
        w = layers.matmul(a, v)
        norm = layers.sqrt(layers.reduce_sum(layers.square(w)))
        layers.assign(layers.abs(norm - value), change)
        layers.assign(norm, value)
        layers.assign(layers.elementwise_div(w, norm), v)
        layers.increment(step)
        layers.logical_and(layers.less_than(step, limit), layers.greater_than(change, small), out=going)
    draws = np.random.RandomState(0)
    halves = [draws.uniform(0, 1, (4, 4)).astype("float32") for _ in range(2)]
    return _run(fluid, [{"a": h + h.T} for h in halves], [value, v, step])


def tables_by_nested_whiles(fluid):
    """A loop in a loop: sums of i * j."""
    layers = fluid.layers
    rows = layers.data(name="rows", shape=[1], dtype="int64", append_batch_size=False)
    i = layers.fill_constant([1], "int64", 0)
    total = layers.fill_constant([1], "int64", 0)
    inner_steps = layers.fill_constant([1], "int64", 0)
    outer = layers.less_than(i, rows)
    first = layers.While(outer)
    with first.block():
        j = layers.fill_constant([1], "int64", 0)
        inner = layers.less_equal(j, i)
        second = layers.While(inner)
        with second.block():
            layers.assign(total + i * j, total)
            layers.increment(inner_steps)
            layers.increment(j)
            layers.less_equal(j, i, cond=inner)
        layers.increment(i)
        layers.less_than(i, rows, cond=outer)
    return _run(fluid, [{"rows": np.array([k], "int64")} for k in (4, 1, 0)], [total, inner_steps, i])


def switch_in_while(fluid):
    """Each step of a loop takes one of three ways."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32", append_batch_size=False)
    i = layers.fill_constant([1], "float32", 0.0)
    limit = layers.fill_constant([1], "float32", 6.0)
    one, three = layers.fill_constant([1], "float32", 1.0), layers.fill_constant([1], "float32", 3.0)
    out = layers.scale(x, 1.0)
    going = layers.less_than(i, limit)
    loop = layers.While(going)
    with loop.block():
        with layers.Switch() as switch:
            with switch.case(layers.less_than(i, one)):
                layers.assign(out + 10.0, out)
            with switch.case(layers.less_than(i, three)):
                layers.assign(out * 2.0, out)
            with switch.default():
                layers.assign(out - x, out)
        layers.increment(i, 1.0)
        layers.less_than(i, limit, cond=going)
    return _run(fluid, [{"x": np.array(v, "float32")} for v in ([1, 2], [-3, 0.5])], [out, i])


def switch_without_default(fluid):
    """A rate that two cases set; in no case it stays."""
    layers = fluid.layers
    step = layers.data(name="step", shape=[1], dtype="float32", append_batch_size=False)
    rate = layers.create_global_var(shape=[1], value=0.25, dtype="float32", persistable=True, name="rate")
    with layers.Switch() as switch:
        with switch.case(layers.less_than(step, layers.fill_constant([1], "float32", 3.0))):
            layers.assign(input=layers.fill_constant([1], "float32", 1.0), output=rate)
        with switch.case(layers.less_than(step, layers.fill_constant([1], "float32", 6.0))):
            layers.assign(input=layers.scale(rate, 0.5), output=rate)
    return _run(fluid, [{"step": np.array([s], "float32")} for s in (7, 1, 4, 5, 9)], ["rate"])


def arrays_by_while(fluid):
    """A tensor array that a loop fills, read backwards by a second loop."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    n = layers.fill_constant([1], "int64", 4)
    i = layers.fill_constant([1], "int64", 0)
    kept = layers.create_array("float32")
    layers.array_write(layers.scale(x, 1.0), i=i, array=kept)
    going = layers.less_than(i, n)
    loop = layers.While(going)
    with loop.block():
        last = layers.array_read(kept, i)
        layers.increment(i)
        layers.array_write(layers.scale(last, 0.5, bias=1.0), i=i, array=kept)
        layers.less_than(i, n, cond=going)
    length = layers.array_length(kept)
    back = layers.fill_constant([1], "int64", 4)
    zero = layers.fill_constant([1], "int64", 0)
    total = layers.zeros_like(x)
    again = layers.greater_than(back, zero)
    second = layers.While(again)
    with second.block():
        layers.sums([layers.scale(total, 2.0), layers.array_read(kept, back)], out=total)
        layers.increment(back, value=-1)
        layers.greater_than(back, zero, cond=again)
    feeds = [{"x": np.arange(6).reshape(2, 3).astype("float32")}, {"x": np.ones((1, 3), "float32")}]
    return _run(fluid, feeds, [total, length, back])


def gradient_through_a_while(fluid):
    """A recurrence of array reads and writes whose weight learns."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    i = layers.zeros(shape=[1], dtype="int64")
    i.stop_gradient = True
    n = layers.fill_constant([1], "int64", 3)
    n.stop_gradient = True
    states = layers.array_write(layers.scale(x, 1.0), i=i)
    going = layers.less_than(i, n)
    loop = layers.While(going)
    with loop.block():
        previous = layers.array_read(states, i)
        hidden = layers.fc(previous, 3, act="tanh", param_attr=fluid.ParamAttr(name="w"), bias_attr=False)
        i = layers.increment(i, in_place=True)
        layers.array_write(hidden, i=i, array=states)
        layers.less_than(x=i, y=n, cond=going)
    last = layers.array_read(states, n)
    loss = layers.mean(layers.square(last))
    fluid.optimizer.SGD(0.5).minimize(loss)
    draws = np.random.RandomState(1)
    return _run(fluid, [{"x": draws.uniform(-1, 1, (2, 3)).astype("float32")} for _ in range(4)], [loss, "w@GRAD", last])


def rows_by_if_else(fluid):
    """Rows go one of two ways and come back in order; both ways learn."""
    layers = fluid.layers
    image = layers.data(name="x", shape=[4], dtype="float32")
    label = layers.data(name="y", shape=[1], dtype="int64")
    limit = layers.fill_constant(dtype="int64", shape=[1], value=2)
    cond = layers.less_than(x=label, y=limit)
    ie = layers.IfElse(cond)
    with ie.true_block():
        hidden = layers.fc(input=ie.input(image), size=5, act="tanh")
        ie.output(layers.fc(input=hidden, size=4, act="softmax"))
    with ie.false_block():
        hidden = layers.fc(input=ie.input(image), size=6, act="tanh")
        ie.output(layers.fc(input=hidden, size=4, act="softmax"))
    prob = ie()[0]
    loss = layers.mean(layers.cross_entropy(input=prob, label=label))
    fluid.optimizer.Momentum(learning_rate=0.1, momentum=0.9).minimize(loss)
    draws, labels = np.random.RandomState(2), ([0, 3, 1, 2], [3, 3, 0, 2], [1, 2, 1, 1])
    feeds = [{"x": draws.uniform(-1, 1, (4, 4)).astype("float32"), "y": np.array(y, "int64").reshape(4, 1)} for y in labels]
    return _run(fluid, feeds, [loss, prob])


def recurrent_by_static_rnn(fluid):
    """A plain recurrent net whose memory starts at a fed state, trained."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[4, 3, 5], dtype="float32", append_batch_size=False)
    boot = layers.data(name="boot", shape=[3, 6], dtype="float32", append_batch_size=False)
    x.stop_gradient = boot.stop_gradient = False
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        prev = rnn.memory(init=boot)
        hidden = layers.fc(input=[word, prev], size=6, act="tanh")
        rnn.update_memory(prev, hidden)
        rnn.step_output(hidden)
    outs = rnn()
    loss = layers.mean(layers.square(outs))
    fluid.optimizer.Adam(0.05).minimize(loss)
    draws = np.random.RandomState(3)
    feeds = [
        {"x": draws.uniform(-1, 1, (4, 3, 5)).astype("float32"), "boot": draws.uniform(-1, 1, (3, 6)).astype("float32")} for _ in range(4)
    ]
    return _run(fluid, feeds, [loss, outs])


def gated_unit_by_static_rnn(fluid):
    """A gated unit by hand, whose memory starts at a number and whose steps give two outputs."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3, 2, 4], dtype="float32", append_batch_size=False)
    x.stop_gradient = False
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        prev = rnn.memory(shape=[-1, 4], batch_ref=word, init_value=0.25)
        joined = layers.concat([word, prev], axis=1)
        update = layers.fc(joined, 4, act="sigmoid")
        reset = layers.fc(joined, 4, act="sigmoid")
        candidate = layers.fc(layers.concat([word, reset * prev], axis=1), 4, act="tanh")
        hidden = update * prev + (1.0 - update) * candidate
        rnn.update_memory(prev, hidden)
        rnn.output(hidden, update)
    outs, gates = rnn()
    last = layers.squeeze(layers.slice(outs, axes=[0], starts=[2], ends=[3]), [0])
    loss = layers.reduce_mean(last * last)
    fluid.optimizer.SGD(0.5).minimize(loss)
    draws = np.random.RandomState(4)
    return _run(fluid, [{"x": draws.uniform(-1, 1, (3, 2, 4)).astype("float32")} for _ in range(3)], [loss, outs, gates])


def cond_of_functions(fluid):
    """`cond` with two results, and gradients through the branch that was taken."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32", append_batch_size=False)
    w = layers.create_parameter([3], "float32", name="w")
    pred = layers.less_than(layers.reduce_sum(x), layers.fill_constant([1], "float32", 0.0))
    a, b = layers.cond(pred, lambda: (w * x, layers.reduce_sum(w)), lambda: (w + x, layers.reduce_max(x)))
    loss = layers.reduce_mean(layers.square(a)) + layers.reduce_mean(b)
    fluid.optimizer.SGD(0.1).minimize(loss)
    feeds = [{"x": np.array(v, "float32")} for v in ([1, 2, 3], [-1, -2, -3], [-1, 0.5, 0], [4, -1, 1])]
    return _run(fluid, feeds, [loss, a, b, "w@GRAD"])


def cond_in_cond(fluid):
    """Conditions within conditions, four ways in all."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[1], dtype="float32", append_batch_size=False)
    y = layers.data(name="y", shape=[1], dtype="float32", append_batch_size=False)
    zero = layers.fill_constant([1], "float32", 0.0)

    def left():
        return layers.cond(layers.less_than(y, zero), lambda: x * y, lambda: x - y)

    def right():
        return layers.cond(layers.less_than(y, zero), lambda: x + 3.0, lambda: layers.sqrt(x + y))

    out = layers.cond(layers.less_than(x, zero), left, right)
    feeds = [{"x": np.array([a], "float32"), "y": np.array([b], "float32")} for a, b in ((-1, -2), (-1, 2), (1, -2), (1, 3))]
    return _run(fluid, feeds, [out])


def case_of_predicates(fluid):
    """The first that holds; the last of all where none does."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[1], dtype="float32", append_batch_size=False)
    pairs = [(x > float(n), lambda n=n: layers.fill_constant([2], "float32", n) * x) for n in (10.0, 5.0, 1.0)]
    first = layers.case(pred_fn_pairs=pairs, default=lambda: layers.fill_constant([2], "float32", -1.0))
    second = layers.case(pred_fn_pairs=pairs[:2])
    return _run(fluid, [{"x": np.array([v], "float32")} for v in (12, 6, 2, -4)], [first, second])


def switch_case_of_numbers(fluid):
    """Functions by number, as a dictionary, as pairs and as a list."""
    layers = fluid.layers
    which = layers.data(name="which", shape=[1], dtype="int64", append_batch_size=False)
    x = layers.data(name="x", shape=[2], dtype="float32", append_batch_size=False)
    by_dict = layers.switch_case(which, {1: lambda: x + 1.0, 2: lambda: x * 2.0}, default=lambda: x - 3.0)
    by_pairs = layers.switch_case(which, [(0, lambda: layers.exp(x)), (4, lambda: layers.square(x))])
    by_list = layers.switch_case(which, [lambda: x, lambda: layers.scale(x, -1.0)])
    feeds = [{"which": np.array([k], "int64"), "x": np.array([0.5, -1], "float32")} for k in (0, 1, 2, 4)]
    return _run(fluid, feeds, [by_dict, by_pairs, by_list])


def while_loop_of_functions(fluid):
    """Several loop variables through `while_loop`."""
    layers = fluid.layers
    n = layers.data(name="n", shape=[1], dtype="int64", append_batch_size=False)
    i = layers.fill_constant([1], "int64", 0)
    a = layers.fill_constant([1], "int64", 0)
    b = layers.fill_constant([1], "int64", 1)
    trail = layers.fill_constant([2], "float32", 1.0)

    def body(i, a, b, trail):
        return [i + 1, b, a + b, layers.scale(trail, 0.5)]

    i, a, b, trail = layers.while_loop(lambda i, a, b, trail: layers.less_than(i, n), body, [i, a, b, trail])
    return _run(fluid, [{"n": np.array([k], "int64")} for k in (10, 0, 3)], [i, a, b, trail])


def cond_in_while_loop(fluid):
    """The way of Collatz: halves or thrice and one, until 1."""
    layers = fluid.layers
    n = layers.data(name="n", shape=[1], dtype="int64", append_batch_size=False)
    one = layers.fill_constant([1], "int64", 1)
    two = layers.fill_constant([1], "int64", 2)
    steps = layers.fill_constant([1], "int64", 0)

    def body(n, steps):
        half = layers.elementwise_div(n, two)
        even = layers.equal(half * 2, n)
        return [layers.cond(even, lambda: half + 0, lambda: n * 3 + 1), steps + 1]

    last, steps = layers.while_loop(lambda n, steps: layers.greater_than(n, one), body, [n + 0, steps])
    return _run(fluid, [{"n": np.array([k], "int64")} for k in (6, 7, 1, 27)], [last, steps])


def greedy_decoding(fluid):
    """A step of a translation: the best word goes in again, into an array, until the end mark or the length."""
    layers = fluid.layers
    context = layers.data(name="context", shape=[1, 4], dtype="float32", append_batch_size=False)
    table = layers.create_parameter([6, 4], "float32", name="table")
    word = layers.fill_constant([1, 1], "int64", 1)
    i = layers.fill_constant([1], "int64", 0)
    limit = layers.fill_constant([1], "int64", 5)
    end = layers.fill_constant([1], "int64", 0)
    words = layers.create_array("int64")
    scores = layers.fill_constant([1], "float32", 0.0)
    layers.array_write(word, i, array=words)
    state = layers.scale(context, 1.0)
    going = layers.less_than(i, limit)
    loop = layers.While(going)
    with loop.block():
        last = layers.array_read(words, i)
        embedded = layers.reshape(layers.gather(table, layers.reshape(last, [1])), [1, 4])
        layers.assign(layers.fc([embedded, state], 4, act="tanh"), state)
        best, place = layers.topk(layers.softmax(layers.matmul(state, table, transpose_y=True)), k=1)
        layers.assign(scores + layers.reshape(layers.log(best), [1]), scores)
        layers.increment(i)
        layers.array_write(place, i, array=words)
        layers.logical_and(layers.less_than(i, limit), layers.not_equal(layers.reshape(place, [1]), end), out=going)
    final = layers.array_read(words, i)
    draws = np.random.RandomState(5)
    return _run(fluid, [{"context": draws.uniform(-2, 2, (1, 4)).astype("float32")} for _ in range(4)], [final, i, scores, state])


def running_sums_in_place(fluid):
    """State between runs that operators of the program write: a count, a sum and the greatest value so far."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[1], dtype="float32", append_batch_size=False)
    count = layers.create_global_var([1], 0, "int64", persistable=True, name="count")
    total = layers.create_global_var([1], 0.0, "float32", persistable=True, name="total")
    greatest = layers.create_global_var([1], -1e9, "float32", persistable=True, name="greatest")
    layers.increment(count, value=1)
    layers.sums([total, x], out=total)
    layers.assign(layers.elementwise_max(greatest, x), output=greatest)
    mean = layers.elementwise_div(total, layers.cast(count, "float32"))
    return _run(fluid, [{"x": np.array([v], "float32")} for v in (3, -1, 5, 2)], [count, "total", greatest, mean])


def in_place_order(fluid):
    """What is read before a write keeps the older value, what is read after has the newer."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32", append_batch_size=False)
    held = layers.fill_constant([2], "float32", 1.0)
    before = held + x
    layers.assign(x * 3.0, output=held)
    between = held + x
    layers.increment(layers.fill_constant([1], "float32", 1.0))
    layers.sums([held, x, x], out=held)
    after = held * 1.0
    layers.fill_constant([2], "float32", 7.0, out=held)
    flag = layers.less_than(x, before)
    layers.less_than(before, x, cond=flag)
    return _run(fluid, [{"x": np.array([1, -2], "float32")}], [before, between, after, held, flag])


def newton_by_while_in_cond(fluid):
    """A loop inside one branch of a condition."""
    layers = fluid.layers
    a = layers.data(name="a", shape=[1], dtype="float32", append_batch_size=False)
    zero = layers.fill_constant([1], "float32", 0.0)

    def root():
        i = layers.fill_constant([1], "int64", 0)
        n = layers.fill_constant([1], "int64", 12)
        guess = layers.scale(a, 0.5, bias=0.5)
        _, found = layers.while_loop(
            lambda i, g: layers.less_than(i, n), lambda i, g: [i + 1, 0.5 * (g + layers.elementwise_div(a, g))], [i, guess]
        )
        return found

    out = layers.cond(layers.greater_than(a, zero), root, lambda: a * 1.0)
    return _run(fluid, [{"a": np.array([v], "float32")} for v in (2, 81, -3)], [out])
