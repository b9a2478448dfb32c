"""Training in all its parts: optimizers, rates that decay, clips, penalties, averages."""

import numpy as np

from tests.fluid.programs.recording import set_weights


def _net(fluid):
    x = fluid.layers.data(name="x", shape=[4], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    hidden = fluid.layers.fc(x, 5, act="tanh", param_attr=fluid.ParamAttr(name="first.w"), bias_attr=fluid.ParamAttr(name="first.b"))
    out = fluid.layers.fc(hidden, 1, param_attr=fluid.ParamAttr(name="last.w"), bias_attr=fluid.ParamAttr(name="last.b"))
    return fluid.layers.mean(fluid.layers.square_error_cost(out, y)), out


def _feeds(steps=5, seed=1):
    draws = np.random.RandomState(seed)
    for _ in range(steps):
        rows = draws.uniform(-1, 1, (6, 4)).astype("float32")
        yield {"x": rows, "y": (rows[:, :1] * rows[:, 1:2] + rows[:, 2:3]).astype("float32")}


def _train(fluid, fetches, after=("first.w", "first.b", "last.w", "last.b"), steps=5):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results = []
    for feed in _feeds(steps):
        results += exe.run(feed=feed, fetch_list=fetches)
    return results + [fluid.global_scope().find_var(name).get_tensor() for name in after]


def momentum_with_decay_in_steps(fluid):
    """A rate in pieces, a warm-up before it, a penalty for all, and a rate of its own for one parameter."""
    layers = fluid.layers
    loss, _ = _net(fluid)
    rate = layers.linear_lr_warmup(layers.piecewise_decay([3, 4], [0.2, 0.1, 0.05]), warmup_steps=2, start_lr=0.01, end_lr=0.2)
    fluid.default_main_program().global_block().var("last.w").optimize_attr["learning_rate"] = 0.5
    optimizer = fluid.optimizer.Momentum(rate, 0.9, regularization=fluid.regularizer.L2DecayRegularizer(regularization_coeff=0.01))
    optimizer.minimize(loss)
    return _train(fluid, [loss, rate])


def adam_with_noam(fluid):
    """The rate of the transformer, scaled, with a clip by the norm of all gradients."""
    loss, _ = _net(fluid)
    rate = fluid.layers.noam_decay(8, 3) * 0.5
    clip = fluid.clip.GradientClipByGlobalNorm(clip_norm=0.3)
    fluid.optimizer.AdamOptimizer(rate, beta1=0.9, beta2=0.98, epsilon=1e-6, grad_clip=clip).minimize(loss)
    return _train(fluid, [loss, rate])


def clips_by_parameter(fluid):
    """`set_gradient_clip` for parameters by their names: 1.8.5 clips none at all where the list leaves one out."""
    loss, _ = _net(fluid)
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(clip_norm=0.05), param_list=["first.w", "first.b", "last.w", "last.b"])
    fluid.optimizer.SGD(0.3).minimize(loss)
    return _train(fluid, [loss])


def clip_by_value_and_error_clip(fluid):
    """Gradients within bounds, and the gradient of an inner variable as well."""
    loss, out = _net(fluid)
    out._set_error_clip(fluid.clip.ErrorClipByValue(max=0.05, min=-0.02))
    fluid.optimizer.SGD(0.5, grad_clip=fluid.clip.GradientClipByValue(max=0.04)).minimize(loss)
    return _train(fluid, [loss, "last.w@GRAD"])


def penalties_of_two_kinds(fluid):
    """An L1 penalty at one parameter, which has precedence over the L2 penalty of the optimizer."""
    loss, _ = _net(fluid)
    block = fluid.default_main_program().global_block()
    block.var("first.w").regularizer = fluid.regularizer.L1Decay(0.05)
    fluid.optimizer.Adam(0.05, regularization=fluid.regularizer.L2Decay(0.1), epsilon=1e-3).minimize(loss)
    return _train(fluid, [loss])


def backward_then_apply(fluid):
    """The two halves of `minimize`, with gradients changed between them."""
    loss, _ = _net(fluid)
    optimizer = fluid.optimizer.Adagrad(0.1)
    pairs = optimizer.backward(loss)
    changed = [(p, fluid.layers.scale(g, 2.0)) for p, g in pairs if p.name.endswith(".w")]
    optimizer.apply_gradients(changed)
    return _train(fluid, [loss, changed[0][1]])


def parameters_in_a_list(fluid):
    """Only those listed learn, by `append_backward` and by `minimize` with `no_grad_set`."""
    loss, _ = _net(fluid)
    pairs = fluid.backward.append_backward(loss, parameter_list=["last.w"], no_grad_set={"first.w"})
    fluid.optimizer.SGD(0.2).apply_gradients(pairs)
    return _train(fluid, [loss, pairs[0][1]])


def no_grad_set_in_minimize(fluid):
    """A set of names that have no gradient."""
    loss, _ = _net(fluid)
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss, no_grad_set={"first.w", "first.b"})
    return _train(fluid, [loss, "last.w@GRAD"])


def gradients_of_inputs(fluid):
    """`gradients` of several targets with respect to a fed variable, with gradients of the targets given."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    x.stop_gradient = False
    a = layers.exp(layers.scale(x, 0.5))
    b = layers.square(x)
    weights = layers.fill_constant_batch_size_like(x, [-1, 3], "float32", 2.0)
    (dx,) = fluid.gradients([a, b], [x], target_gradients=[None, weights])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe.run(feed={"x": np.linspace(-1, 1, 6).reshape(2, 3).astype("float32")}, fetch_list=[a, b, dx])


def second_gradients(fluid):
    """A penalty on the gradient: the gradient of a gradient."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    x.stop_gradient = False
    w = layers.create_parameter([3, 2], "float32", name="w")
    out = layers.square(layers.mul(x, w))
    (dx,) = fluid.gradients(layers.reduce_sum(out), x)
    penalty = layers.reduce_mean(layers.square(dx))
    fluid.optimizer.SGD(0.01).minimize(penalty)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results = []
    for i in range(3):
        results += exe.run(feed={"x": (np.arange(6).reshape(2, 3) * 0.1 * (i + 1)).astype("float32")}, fetch_list=[penalty, dx])
    return results


def moving_average_of_parameters(fluid):
    """An exponential average, applied and taken back."""
    loss, out = _net(fluid)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.2).minimize(loss)
    ema = fluid.optimizer.ExponentialMovingAverage(0.9)
    ema.update()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results = []
    for feed in _feeds():
        results += exe.run(feed=feed, fetch_list=[loss])
    with ema.apply(exe):
        results += exe.run(test_program, feed=feed, fetch_list=[loss, out])
    return results + exe.run(test_program, feed=feed, fetch_list=[loss, out])


def moving_average_with_its_own_steps(fluid):
    """A decay that grows with the steps, and `restore` by hand."""
    loss, out = _net(fluid)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(0.05, epsilon=1e-3).minimize(loss)
    steps = fluid.layers.cast(fluid.layers.autoincreased_step_counter(counter_name="@steps@", begin=1), "float32")
    ema = fluid.optimizer.ExponentialMovingAverage(0.99, thres_steps=steps)
    ema.update()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results = []
    for feed in _feeds(4):
        results += exe.run(feed=feed, fetch_list=[loss])
    with ema.apply(exe, need_restore=False):
        results += exe.run(test_program, feed=feed, fetch_list=[out])
    results += exe.run(test_program, feed=feed, fetch_list=[out])
    ema.restore(exe)
    return results + exe.run(test_program, feed=feed, fetch_list=[out])


def average_over_windows(fluid):
    """`ModelAverage`: means of the parameters over the last steps."""
    loss, out = _net(fluid)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    average = fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=4)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results = []
    for feed in _feeds():
        results += exe.run(feed=feed, fetch_list=[loss])
    with average.apply(exe):
        results += exe.run(test_program, feed=feed, fetch_list=[loss, out])
    return results + exe.run(test_program, feed=feed, fetch_list=[loss])


def rates_by_hand(fluid):
    """A rate that is a variable, which the person sets in the scope between runs."""
    loss, _ = _net(fluid)
    rate = fluid.layers.create_global_var(shape=[1], value=0.1, dtype="float32", persistable=True, name="my_rate")
    fluid.optimizer.SGD(learning_rate=rate).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results = []
    for i, feed in enumerate(_feeds()):
        fluid.global_scope().find_var("my_rate").get_tensor().set(np.array([0.3 / (i + 1)], "float32"), fluid.CPUPlace())
        results += exe.run(feed=feed, fetch_list=[loss, rate])
    return results


def decay_by_a_counter(fluid):
    """A schedule made of operators: the person's own, of a step counter."""
    layers = fluid.layers
    loss, _ = _net(fluid)
    step = layers.cast(layers.autoincreased_step_counter(begin=0), "float32")
    rate = layers.elementwise_min(layers.exp(layers.scale(step, -0.3)) * 0.3, layers.fill_constant([1], "float32", 0.2))
    fluid.optimizer.SGD(rate).minimize(loss)
    return _train(fluid, [loss, rate, step])


def _with_all_decays(fluid, make):
    loss, _ = _net(fluid)
    rate = make(fluid.layers)
    fluid.optimizer.Momentum(rate, 0.5).minimize(loss)
    return _train(fluid, [loss, rate])


def cosine_in_epochs(fluid):
    """Half a wave."""
    return _with_all_decays(fluid, lambda layers: layers.cosine_decay(0.2, step_each_epoch=2, epochs=4))


def polynomial_in_cycles(fluid):
    """A rate that falls and starts again."""
    return _with_all_decays(fluid, lambda layers: layers.polynomial_decay(0.2, 2, 0.02, power=2.0, cycle=True))


def exponential_with_warmup(fluid):
    """A warm-up in front of a decay in stairs."""
    return _with_all_decays(
        fluid, lambda layers: layers.linear_lr_warmup(layers.exponential_decay(0.2, 2, 0.5, staircase=True), 3, 0.0, 0.2)
    )


def natural_and_inverse_time(fluid):
    """The smaller of two decays."""
    return _with_all_decays(
        fluid, lambda layers: layers.elementwise_min(layers.natural_exp_decay(0.3, 3, 0.5), layers.inverse_time_decay(0.3, 2, 0.7))
    )


def two_optimizers_in_turn(fluid):
    """Two programs over one net, one run after the other: each has state of its own."""
    first, second, startup = fluid.Program(), fluid.Program(), fluid.Program()
    with fluid.program_guard(first, startup), fluid.unique_name.guard("a."):
        loss_a, _ = _net(fluid)
        fluid.optimizer.Adam(0.05, epsilon=1e-3).minimize(loss_a)
    with fluid.program_guard(second, startup), fluid.unique_name.guard("b."):
        loss_b, _ = _net(fluid)
        fluid.optimizer.LarsMomentum(0.5, 0.9).minimize(loss_b)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    set_weights(fluid, first)
    results = []
    for feed in _feeds(4):
        results += exe.run(first, feed=feed, fetch_list=[loss_a])
        results += exe.run(second, feed=feed, fetch_list=[loss_b])
    return results


def training_in_double(fluid):
    """All in float64: data, parameters and updates."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[4], dtype="float64")
    y = layers.data(name="y", shape=[1], dtype="float64")
    loss = layers.mean(layers.square_error_cost(layers.fc(layers.fc(x, 5, act="sigmoid"), 1), y))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results = []
    for feed in _feeds(4):
        results += exe.run(feed={k: v.astype("float64") for k, v in feed.items()}, fetch_list=[loss, "fc_0.w_0@GRAD"])
    return results


def adam_whose_moments_decay_otherwise(fluid):
    """`beta1` and `beta2` are variables, which the program changes."""
    layers = fluid.layers
    loss, _ = _net(fluid)
    first, second = (
        layers.create_global_var([1], value, "float32", persistable=True, name=name) for name, value in (("beta1", 0.8), ("beta2", 0.95))
    )
    fluid.optimizer.Adam(0.05, beta1=first, beta2=second).minimize(loss)
    layers.assign(layers.elementwise_mul(first, layers.fill_constant([1], "float32", 0.9)), first)
    return _train(fluid, [loss, "beta1"])
