"""Gradients, optimizers, saving, many replicas, what is printed."""

import os
import tempfile
from functools import partial

from tests.fluid_api.table import caught, check

F = "paddle.fluid."
OPT = F + "optimizer."


def net(fluid, **attr):
    x = fluid.layers.data(name="x", shape=[3], dtype="float32")
    weight = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.5), **attr)
    y = fluid.layers.fc(x, 2, param_attr=weight, bias_attr=fluid.ParamAttr(name="b", initializer=fluid.initializer.Constant(0.1)))
    return x, y, fluid.layers.mean(fluid.layers.square(y))


def steps(fluid, np, loss, count=3, program=None):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    rng = np.random.RandomState(3)
    return [exe.run(program, feed={"x": rng.randn(4, 3).astype("float32")}, fetch_list=[loss, "w", "b"]) for _ in range(count)]


MAKERS = {
    "SGD": lambda o: o.SGD(0.1), "Momentum": lambda o: o.Momentum(0.1, 0.9, use_nesterov=True), "Adagrad": lambda o: o.Adagrad(0.1),
    "Adam": lambda o: o.Adam(0.1), "Adamax": lambda o: o.Adamax(0.1), "DecayedAdagrad": lambda o: o.DecayedAdagrad(0.1),
    "Adadelta": lambda o: o.Adadelta(0.1), "RMSPropOptimizer": lambda o: o.RMSProp(0.1, centered=True, momentum=0.5)
    if hasattr(o, "RMSProp") else o.RMSPropOptimizer(0.1, centered=True, momentum=0.5),
    "Ftrl": lambda o: o.Ftrl(0.1, l1=0.01, l2=0.01), "LambOptimizer": lambda o: o.LambOptimizer(0.1),
    "LarsMomentum": lambda o: o.LarsMomentum(0.1, 0.9),
}  # fmt: skip
MEMBERS = ("", ".minimize", ".backward", ".apply_gradients", ".apply_optimize", ".current_step_lr", ".get_opti_var_name_list")
NAMES = [n for k in MAKERS for n in ([k] if k.endswith("Optimizer") else [k, k + "Optimizer"])]


@check(*[OPT + n + m for n in NAMES for m in MEMBERS])
def optimizers_step(fluid, np):
    found = {}
    for name, maker in MAKERS.items():
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            x, y, loss = net(fluid)
            optimizer = maker(fluid.optimizer)
            ops, pairs = optimizer.minimize(loss)
            types = [op.type for op in fluid.default_main_program().global_block().ops]
            found[name] = [steps(fluid, np, loss), [p.name for p, _ in pairs], optimizer.type, types[-2:],
                           sorted(optimizer.get_opti_var_name_list())]  # fmt: skip
    return found


@check(F + "append_backward", F + "backward.append_backward", F + "backward.gradients", F + "gradients", OPT + "SGD.backward",
       OPT + "SGD.apply_gradients")  # fmt: skip
def gradients_are_appended(fluid, np):
    x, y, loss = net(fluid)
    pairs = fluid.backward.append_backward(loss, parameter_list=["w"])
    x.stop_gradient = False
    slope, = fluid.gradients([y], [x])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return {
        "pairs": [(p.name, g.name, list(g.shape)) for p, g in pairs],
        "values": exe.run(feed={"x": np.ones((1, 3), "float32")}, fetch_list=[pairs[0][1], slope]),
        "errors": [caught(lambda: fluid.backward.append_backward(3)),
                   caught(lambda: fluid.gradients(3, [x])), caught(lambda: fluid.optimizer.SGD(None)),
                   caught(lambda: fluid.optimizer.Momentum(0.1, None)), caught(lambda: fluid.optimizer.SGD(0.1).minimize(3))],
    }  # fmt: skip


@check(F + "clip.GradientClipByGlobalNorm", F + "clip.GradientClipByNorm", F + "clip.GradientClipByValue", F + "clip.ErrorClipByValue",
       F + "clip.set_gradient_clip", F + "regularizer.L2Decay", F + "regularizer.L1Decay")  # fmt: skip
def clips_and_penalties_train(fluid, np):
    c, r = fluid.clip, fluid.regularizer
    found = []
    for clip, penalty in ((c.GradientClipByValue(0.01), r.L2Decay(0.1)), (c.GradientClipByNorm(0.02), r.L1Decay(0.1)),
                          (c.GradientClipByGlobalNorm(0.03), None)):  # fmt: skip
        for late in (False, True):
            with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
                x, y, loss = net(fluid, regularizer=penalty)
                if late:
                    c.set_gradient_clip(clip)
                fluid.optimizer.SGD(1.0, grad_clip=None if late else clip).minimize(loss)
                found.append(steps(fluid, np, loss, 2))
    return found


@check(OPT + "ModelAverage", OPT + "ModelAverage.apply", OPT + "ModelAverage.restore", OPT + "ModelAverage.minimize",
       OPT + "ModelAverage.backward",
       OPT + "ModelAverage.apply_gradients", OPT + "ModelAverage.apply_optimize", OPT + "ExponentialMovingAverage",
       OPT + "ExponentialMovingAverage.apply", OPT + "ExponentialMovingAverage.restore",
           OPT + "ExponentialMovingAverage.update")  # fmt: skip
def averages_are_applied_and_restored(fluid, np):
    x, y, loss = net(fluid)
    fluid.optimizer.SGD(0.1).minimize(loss)
    moving = fluid.optimizer.ExponentialMovingAverage(0.5)
    moving.update()
    average = fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=4)
    exe = fluid.Executor(fluid.CPUPlace())
    losses = steps(fluid, np, loss, 5)
    get = lambda: np.array(fluid.global_scope().find_var("w").get_tensor())
    with moving.apply(exe):
        inside = [get()]
    with average.apply(exe):
        inside.append(get())
    after = get()
    with average.apply(exe, need_restore=False):
        pass
    kept = get()
    average.restore(exe)
    return [losses, inside, after, kept, get()]


IO = ("save_vars", "save_params", "save_persistables", "load_vars", "load_params", "load_persistables", "save", "load",
      "save_inference_model", "load_inference_model", "load_program_state", "set_program_state", "get_program_parameter",
      "get_program_persistable_vars")  # fmt: skip


@check(*[F + "io." + n for n in IO], F + "save", F + "load")
def models_are_saved_and_loaded(fluid, np):
    io = fluid.io
    x, y, loss = net(fluid)
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    main = fluid.default_main_program()
    trained = steps(fluid, np, loss, 1)[0]
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {"x": np.ones((2, 3), "float32")}
    scope = fluid.global_scope()
    get = lambda name="w": np.array(fluid.global_scope().find_var(name).get_tensor())
    spoil = lambda: scope.find_var("w").get_tensor().set(np.zeros((3, 2), "float32"), fluid.CPUPlace())
    found = {"parameters": sorted(p.name for p in io.get_program_parameter(main)), "trained": trained,
             "persistable": sorted(v.name for v in io.get_program_persistable_vars(main))}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        io.save_params(exe, at("params"), main)
        io.save_persistables(exe, at("all"), main, filename="one")
        io.save_vars(exe, at("vars"), main, predicate=lambda v: v.name == "w")
        fluid.save(main, at("whole"))
        io.save_inference_model(at("model"), ["x"], [y], exe, main)
        found["files"] = [sorted(os.listdir(at(n))) for n in ("params", "all", "vars", "model")]
        found["whole"] = sorted(n for n in os.listdir(folder) if n.startswith("whole"))
        for load in (lambda: io.load_params(exe, at("params"), main), lambda: io.load_persistables(exe, at("all"), main, filename="one"),
                     lambda: io.load_vars(exe, at("vars"), main, predicate=lambda v: v.name == "w"), lambda: fluid.load(main,
                         at("whole"), exe),
                     lambda: io.set_program_state(main, io.load_program_state(at("whole")))):  # fmt: skip
            spoil()
            load()
            found.setdefault("loaded", []).append(get())
        with fluid.scope_guard(fluid.Scope()):
            program, names, targets = io.load_inference_model(at("model"), exe)
            found["model"] = [names, len(targets), exe.run(program, feed=feed, fetch_list=targets),
                              [op.type for op in program.global_block().ops if op.type not in ("feed", "fetch", "scale")]]  # fmt: skip
        found["errors"] = [
            caught(lambda: io.load_params(exe, at("none"), main), "none"), caught(lambda: fluid.load(main, at("none"), exe), "none"),
            caught(lambda: fluid.save(main, at("dir/"))),
            caught(lambda: io.save_vars(exe, at("v"), 3)),
        ]  # fmt: skip
    return found


@check(F + "CompiledProgram", F + "CompiledProgram.with_data_parallel", F + "BuildStrategy", F + "ExecutionStrategy",
       F + "ParallelExecutor",
       F + "ParallelExecutor.run", F + "ParallelExecutor.drop_local_exe_scopes", F + "ParallelExecutor.device_count",
       F + "CompiledProgram.with_inference_optimize")  # fmt: skip
def replicas_run_as_one(fluid, np):
    os.environ["CPU_NUM"] = "2"
    x, y, loss = net(fluid)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    build, running = fluid.BuildStrategy(), fluid.ExecutionStrategy()
    flags = {n: getattr(build, n) for n in ("fuse_elewise_add_act_ops", "sync_batch_norm", "fuse_relu_depthwise_conv")}
    flags["strategies"] = [build.reduce_strategy == fluid.BuildStrategy.ReduceStrategy.AllReduce,
                           build.gradient_scale_strategy == fluid.BuildStrategy.GradientScaleStrategy.CoeffNumDevice]  # fmt: skip
    flags["running"] = [running.num_iteration_per_drop_scope, running.num_iteration_per_run]
    compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name, build_strategy=build)
    feed = {"x": np.arange(12, dtype="float32").reshape(4, 3)}
    run = lambda: exe.run(compiled, feed=feed, fetch_list=[loss.name])
    found = [run(), run(), caught(lambda: exe.run(compiled, feed={"x": feed["x"][:1]}, fetch_list=[loss.name]))]
    parallel = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name)
    again = [parallel.run([loss.name], feed=feed), parallel.device_count]
    parallel.drop_local_exe_scopes()
    return [flags, found, again, caught(lambda: fluid.CompiledProgram(3)), caught(lambda: parallel.run([loss.name], feed=3))]


@check(F + "memory_optimize", F + "release_memory", F + "transpiler.memory_optimize", F + "transpiler.release_memory")
def memory_is_given_free(fluid, np):
    x, y, loss = net(fluid)
    fluid.optimizer.SGD(0.1).minimize(loss)
    plain = steps(fluid, np, loss, 2)
    fluid.memory_optimize(fluid.default_main_program())
    fluid.release_memory(fluid.default_main_program())
    return [plain, steps(fluid, np, loss, 2)]


@check(F + "nets.sequence_conv_pool")
def windows_over_sequences(fluid, np):
    x = fluid.layers.data("x", [3], dtype="float32", lod_level=1)
    attr = lambda name: fluid.ParamAttr(name=name, initializer=fluid.initializer.Constant(0.1))
    made = [
        fluid.nets.sequence_conv_pool(x, 2, size, attr(f"w{size}"), act, kind, attr(f"b{size}"))
        for size, act, kind in ((3, "sigmoid", "max"), (2, "tanh", "average"), (1, None, "sum"))
    ]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    rows = (np.arange(15).reshape(5, 3) / 7 - 1).astype("float32")
    return exe.run(feed={"x": fluid.create_lod_tensor(rows, [[2, 3]], fluid.CPUPlace())}, fetch_list=made)


@check(F + "nets.glu", F + "nets.scaled_dot_product_attention", F + "nets.simple_img_conv_pool", F + "nets.img_conv_group",
       F + "input.one_hot", F + "input.embedding", F + "one_hot", F + "embedding")  # fmt: skip
def nets_compose_layers(fluid, np):
    n, attr = fluid.nets, lambda: fluid.ParamAttr(initializer=fluid.initializer.Constant(0.1))
    x = fluid.layers.data(name="x", shape=[2, 6, 6], dtype="float32")
    q = fluid.layers.data(name="q", shape=[3, 4], dtype="float32")
    ids = fluid.data("ids", [None], "int64")
    made = [
        n.glu(q, -1), n.scaled_dot_product_attention(q, q, q), n.simple_img_conv_pool(x, 3, 3, 2, 2, act="relu",
            param_attr=attr()),
        n.img_conv_group(x, [2, 2], 2, conv_act="relu", param_attr=attr(), pool_stride=2),
        fluid.one_hot(ids, 3), fluid.embedding(ids, [3, 2], param_attr=attr()),
    ]  # fmt: skip
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.arange(144, dtype="float32").reshape(2, 2, 6, 6) / 50, "q": np.arange(24, dtype="float32").reshape(2, 3, 4) / 9,
            "ids": np.array([2, 0, 1], "int64")}  # fmt: skip
    return [exe.run(feed=feed, fetch_list=made), [[-1 if s == -1 else int(s) for s in v.shape] for v in made],
            caught(lambda: n.scaled_dot_product_attention(q, q, q, num_heads=3)), caught(lambda: fluid.embedding(3, [3, 2]))]  # fmt: skip


@check(F + "transpiler.RoundRobin", F + "transpiler.HashName", F + "transpiler.RoundRobin.dispatch", F + "transpiler.HashName.dispatch",
       F + "transpiler.RoundRobin.reset", F + "transpiler.HashName.reset", F + "transpiler.RoundRobin.eps", F + "transpiler.HashName.eps",
       F + "transpiler.ps_dispatcher.RoundRobin", F + "transpiler.ps_dispatcher.HashName",
           F + "transpiler.ps_dispatcher.PSDispatcher")  # fmt: skip
def variables_are_dealt_to_servers(fluid, np):
    class Named:
        def __init__(self, name):
            self._name = name

        def name(self):
            return self._name

    ps = fluid.transpiler
    turn = ps.RoundRobin(["a", "b"])
    some = [Named(n) for n in "uvw"]
    return [turn.dispatch(some), turn.dispatch(some), turn.reset(), turn.dispatch(some), turn.eps, len(ps.HashName(["a",
        "b"]).dispatch(some))]


@check(*[OPT + "LookaheadOptimizer" + m for m in ("", ".minimize")], *[OPT + "RecomputeOptimizer" + m for m in (
    "", ".minimize", ".backward", ".apply_gradients", ".apply_optimize", ".load", ".current_step_lr", ".clear_gradients", ".state_dict",
    ".set_dict", ".get_opti_var_name_list")])  # fmt: skip
def optimizers_around_others_step(fluid, np):
    found = {}
    for name in ("ahead", "again"):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            _, y, loss = net(fluid)
            inner = fluid.optimizer.Momentum(0.1, 0.9)
            if name == "ahead":
                opt = fluid.optimizer.LookaheadOptimizer(inner, alpha=0.3, k=2)
            else:
                opt = fluid.optimizer.RecomputeOptimizer(inner)
                found["unset"] = caught(partial(opt.minimize, loss), "_set_checkpoints")
                opt._set_checkpoints([y])
                found["load"] = caught(partial(opt.load, {}))
                found["others"] = [caught(opt.clear_gradients)]
            made, pairs = opt.minimize(loss)
            found[name] = [[p.name for p, _ in pairs], steps(fluid, np, loss, 5)]
            if name == "ahead":
                kept = [np.array(fluid.global_scope().find_var(n).get_tensor()) for n in ("w@SLOW", "b@SLOW", "lookahead_step")]
                found["slow"] = [k.reshape(-1).tolist() for k in kept]
    look = fluid.optimizer.LookaheadOptimizer
    found["errors"] = [caught(lambda: look(None)), caught(lambda: look(inner, alpha=2.0)), caught(lambda: look(inner, k=0))]
    with fluid.dygraph.guard():
        found["dygraph"] = [caught(lambda: look(inner)), caught(lambda: fluid.optimizer.RecomputeOptimizer(inner))]
    return found


@check(F + "layers.switch_case", F + "layers.case", F + "optimizer.SGDOptimizer.minimize")
def steps_are_taken_in_the_branch_that_runs(fluid, np):
    L, made_by, found = fluid.layers, fluid.optimizer, []
    x, which = L.data("x", [3], dtype="float32"), L.data("k", [1], dtype="int32", append_batch_size=False)
    first = fluid.initializer.NumpyArrayInitializer(np.linspace(-1, 1, 6).reshape(3, 2).astype("float32"))

    def rows(name):
        return L.fc(x, 2, param_attr=fluid.ParamAttr(name=name, initializer=first), bias_attr=False)

    loss = L.mean(L.square(rows("w")))
    ways = [made_by.SGD(0.1), made_by.Adagrad(0.2), made_by.Adam(0.05, regularization=fluid.regularizer.L2Decay(0.1))]

    def step(way):
        def take():
            way.minimize(loss)

        return take

    def own_net():
        own = L.mean(L.square(rows("v")))
        made_by.Momentum(0.2, 0.9).minimize(own)
        return own

    def other_net():
        own = L.mean(rows("u"))
        made_by.SGD(0.2).minimize(own)
        return own

    L.case([(L.equal(which, L.fill_constant([1], "int32", n)), step(way)) for n, way in enumerate(ways[:2])], step(ways[2]))
    inner = L.switch_case(which, {0: own_net, 1: other_net})
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for i in range(6):
        feed = {"x": np.random.RandomState(i).uniform(-1, 1, (2, 3)).astype("float32"), "k": np.array([i % 3], "int32")}
        found += exe.run(feed=feed, fetch_list=[loss, inner])
        found += [np.array(fluid.global_scope().find_var(name).get_tensor()) for name in "wvu"]
    return found


@check(F + "layers.while_loop", F + "layers.cond", F + "layers.py_func", F + "layers.Print")
def functions_of_loops_and_branches_write_print_and_call(fluid, np):
    L = fluid.layers
    x, last = L.data("x", [2], dtype="float32"), L.fill_constant([1], "int64", 3)
    start, nested = L.fill_constant([1], "int64", 0), {"a": L.scale(x), "b": [L.scale(x, 2.0)]}

    def body(i, held):
        return [L.increment(i, 1), {"a": held["a"] + held["b"][0], "b": [held["b"][0] * 0.5]}]

    count, held = L.while_loop(lambda i, _: L.less_than(i, last), body, [L.scale(start, 1), nested])
    made = fluid.default_main_program().global_block().create_var(name="made", dtype="float32", shape=[-1, 2])
    yes = L.less_than(L.reduce_sum(x), L.fill_constant([1], "float32", 1.0))
    called = L.cond(yes, lambda: L.Print(x * 2.0, message="yes"), lambda: L.py_func(lambda a: np.array(a) + 1, x, made) * 3.0)
    found = []
    for low in (-1.0, 1.0):
        feed = {"x": (np.arange(6).reshape(3, 2) / 10 + low).astype("float32")}
        found += fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[count, held["a"], held["b"][0], called])
    return found
