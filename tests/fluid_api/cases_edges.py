"""Wrong arguments, indices, options, and what variables and optimizers say where there are no values."""

from tests.fluid_api.table import caught, check, kind_of, sizes_of

F = "paddle.fluid."
OPT = F + "optimizer."
BUILD = (
    "async_mode", "cache_runtime_context", "debug_graphviz_path", "enable_auto_fusion", "enable_backward_optimizer_op_deps",
    "enable_inplace", "enable_sequential_execution", "fuse_all_optimizer_ops", "fuse_all_reduce_ops", "fuse_bn_act_ops",
    "fuse_broadcast_ops", "fuse_elewise_add_act_ops", "fuse_relu_depthwise_conv", "hierarchical_allreduce_inter_nranks",
    "is_distribution", "memory_optimize", "nccl_comm_num", "num_trainers", "remove_unnecessary_lock", "sync_batch_norm", "trainer_id",
    "trainers_endpoints", "use_hierarchical_allreduce",
)  # fmt: skip
ENUMS = ("reduce_strategy", "gradient_scale_strategy", "ReduceStrategy", "GradientScaleStrategy", "mkldnn_enabled_op_types")
RUN = (
    "allow_op_delay", "num_iteration_per_drop_scope", "num_iteration_per_run", "num_threads", "use_cuda", "use_experimental_executor",
    "use_thread_barrier",
)  # fmt: skip


def attempt(function, *given):
    return caught(lambda: function(*given))


def set_to(options, name, value):
    setattr(options, name, value)
    found = getattr(options, name)
    return str(found) if isinstance(found, list) else found


@check(F + "layers", F + "layers.fc", F + "layers.cast")
def layers_refuse_what_is_no_variable(fluid, np):
    L = fluid.layers
    x = L.data("x", [3], dtype="float32")
    one = ("relu", "mean", "softmax", "reduce_sum", "square", "scale", "batch_norm", "layer_norm", "flatten", "sqrt")
    two = ("matmul", "mul", "elementwise_add", "elementwise_div", "logical_and")
    return {
        "one": [attempt(getattr(L, name), bad) for name in one for bad in ("x", 3, None, [x])],
        "two": [attempt(getattr(L, name), x, bad) for name in two for bad in ("x", 3, None)]
        + [attempt(getattr(L, name), bad, x) for name in two for bad in ("x", None)],
        "fc": [attempt(L.fc, bad, 3) for bad in ([1, 2], 3, "x", [x, 2], None, {x: 1})],
        "cast": [attempt(L.cast, bad, "float32") for bad in ("x", 3, None)],
        "many": [attempt(getattr(L, name), bad) for name in ("concat", "sums") for bad in ([x, 3], ["x"], 3)],
        "more": [
            caught(lambda: L.reshape("x", [1])), caught(lambda: L.transpose("x", [0])), caught(lambda: L.dropout("x", 0.5)),
            caught(lambda: L.conv2d("x", 3, 3)), caught(lambda: L.cross_entropy("x", x)), caught(lambda: L.embedding("x", [3, 3])),
            caught(lambda: L.square_error_cost(3, x)), caught(lambda: L.reshape([x], [1])),
        ],
        "nothing was appended": len(fluid.default_main_program().global_block().ops),
    }  # fmt: skip


@check(F + "Variable", F + "framework.Variable", F + "layers.slice")
def a_variable_of_one_number_takes_its_axis_away(fluid, np):
    keys = {
        "0, t": lambda t: (0, t), "t": lambda t: t, "t, 0": lambda t: (t, 0), "t, t": lambda t: (t, t),
        "0, 0": lambda t: (0, 0),
        "-1": lambda t: -1, ":, 1": lambda t: (slice(None), 1), "1:, 0": lambda t: (slice(1, None), 0),
    }  # fmt: skip
    found = {}
    for name, key in keys.items():
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            x = fluid.layers.data("x", [2, 4, 3], dtype="float32", append_batch_size=False)
            part = x[key(fluid.layers.fill_constant([1], "int32", 1))]
            feed = {"x": np.arange(24, dtype="float32").reshape(2, 4, 3)}
            values = fluid.Executor(fluid.CPUPlace()).run(fluid.default_main_program(), feed=feed, fetch_list=[part])
            found[name] = [sizes_of(part), values]
    return found


@check(F + "BuildStrategy", *[F + "BuildStrategy." + n for n in BUILD + ENUMS])
def build_strategies_keep_options(fluid, np):
    made = fluid.BuildStrategy()
    names = [str(getattr(made, n)).split(".")[-1] for n in ("reduce_strategy", "gradient_scale_strategy")]
    fresh = {n: str(getattr(made, n)) for n in BUILD}
    wrong = (("fuse_bn_act_ops", "x"), ("num_trainers", "x"), ("debug_graphviz_path", 3), ("mkldnn_enabled_op_types", ["a"]), ("nosuch", 3),
             ("reduce_strategy", 1), ("memory_optimize", 3), ("trainer_id", 1.5), ("trainers_endpoints", 3), ("sync_batch_norm", [1]),
             ("gradient_scale_strategy", "One"))  # fmt: skip
    right = (("memory_optimize", True), ("memory_optimize", None), ("enable_inplace", 3), ("fuse_broadcast_ops", 0), ("sync_batch_norm", 1),
             ("trainers_endpoints", ["a", "b"]), ("trainer_id", 2), ("num_trainers", 3), ("is_distribution", True))  # fmt: skip
    kinds = fluid.BuildStrategy
    found = {
        "fresh": fresh, "names": names, "wrong": [attempt(set_to, made, n, v) for n, v in wrong],
        "right": [attempt(set_to, made, n, v) for n, v in right],
        "members": [hasattr(kinds.ReduceStrategy, n) for n in ("AllReduce", "Reduce")]
        + [hasattr(kinds.GradientScaleStrategy, n) for n in ("CoeffNumDevice", "One", "Customized")],
    }  # fmt: skip
    made.reduce_strategy = kinds.ReduceStrategy.Reduce
    made.gradient_scale_strategy = kinds.GradientScaleStrategy.One
    found["set"] = [made.reduce_strategy == kinds.ReduceStrategy.Reduce, made.gradient_scale_strategy == kinds.GradientScaleStrategy.One]
    found["others"] = [str(fluid.BuildStrategy().memory_optimize), fluid.BuildStrategy().trainer_id]
    return found


@check(F + "ExecutionStrategy", *[F + "ExecutionStrategy." + n for n in RUN])
def execution_strategies_keep_options(fluid, np):
    made = fluid.ExecutionStrategy()
    fresh = {n: getattr(made, n) for n in RUN if n not in ("use_cuda", "use_experimental_executor")}
    wrong = [attempt(set_to, made, n, v) for n in RUN for v in ("x", [1])]
    right = [attempt(set_to, made, n, v) for n, v in (("num_iteration_per_run", 2), ("num_iteration_per_drop_scope", 7))]
    return {"fresh": fresh, "wrong": wrong, "right": right, "none": caught(lambda: setattr(made, "nosuch", 1))}


PARAMETER = ("dtype", "grad_name", "lod_level", "name", "persistable", "shape", "stop_gradient", "astype", "backward", "gradient", "numpy")


@check(F + "Variable.grad_name", F + "framework.Operator.idx", *[F + "framework.Parameter." + n for n in PARAMETER])
def parameters_tell_what_they_are(fluid, np):
    w = fluid.layers.create_parameter([3, 2], "float32", name="w")
    block = fluid.default_main_program().global_block()
    half = w.astype("float64")
    return {
        "plain": [w.name, w.grad_name, w.lod_level, w.persistable, w.stop_gradient, half.persistable, sizes_of(w)],
        "kinds": [kind_of(fluid, w), kind_of(fluid, half), kind_of(fluid, w.astype(half.dtype))],
        "places": [op.idx for op in block.ops], "types": [op.type for op in block.ops],
        "errors": [caught(lambda: w.astype("nosuch")), caught(lambda: w.astype()), caught(lambda: w.backward()),
                   caught(lambda: w.gradient()), caught(lambda: w.numpy())],
    }  # fmt: skip


MAKERS = {
    "SGD": (0.1,), "Momentum": (0.1, 0.9), "Adagrad": (0.1,), "Adam": (0.1,), "Adamax": (0.1,), "DecayedAdagrad": (0.1,),
    "Adadelta": (0.1,),    "RMSPropOptimizer": (0.1,), "Ftrl": (0.1,), "LambOptimizer": (0.1,),
    "LarsMomentum": (0.1, 0.9), "ModelAverage": (0.5,),
}  # fmt: skip
NAMES = [n for k in MAKERS for n in ([k] if k.endswith(("Optimizer", "Average")) else [k, k + "Optimizer"])]


@check(*[OPT + n + m for n in NAMES for m in (".clear_gradients", ".state_dict", ".set_dict")])
def optimizers_of_programs_have_no_state_at_hand(fluid, np):
    found = {}
    for name, given in MAKERS.items():
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            made = getattr(fluid.optimizer, name)(*given)
            found[name] = [caught(made.clear_gradients), caught(made.state_dict), attempt(made.set_dict, {}), attempt(made.set_dict)]
    return found


@check(*[OPT + n + m for n in NAMES if not n.startswith(("Model", "Ftrl", "Decayed", "Adadelta", "RMS", "Lars"))
         for m in (".clear_gradients", ".state_dict", ".set_dict")])  # fmt: skip
def optimizers_of_dygraph_keep_state(fluid, np):
    found = {}
    with fluid.dygraph.guard():
        for name in ("SGD", "Momentum", "Adagrad", "Adam"):
            w = fluid.layers.create_parameter([2], "float32", name="w" + name, default_initializer=fluid.initializer.Constant(2.0))
            made = getattr(fluid.optimizer, name)(*MAKERS[name], parameter_list=[w])
            steps = []
            for _ in range(2):
                loss = fluid.layers.reduce_sum(fluid.layers.square(w))
                loss.backward()
                made.minimize(loss)
                made.clear_gradients()
                steps.append([w.numpy(), w.gradient()])
            found[name] = [steps, len(made.state_dict())]
    return found


@check(F + "fetch_var", F + "executor.fetch_var")
def values_are_fetched_from_scopes(fluid, np):
    fluid.layers.create_parameter([3, 2], "float32", name="w", default_initializer=fluid.initializer.Constant(0.5))
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    fetch = fluid.executor._fetch_var
    return [fetch("w"), np.array(fetch("w", return_numpy=False)), caught(lambda: fetch("none"), "none"), caught(lambda: fetch(3))]


@check(*[F + "Tensor." + n for n in ("lod", "set_lod", "recursive_sequence_lengths", "set_recursive_sequence_lengths", "set", "shape",
                                     "has_valid_recursive_sequence_lengths")])  # fmt: skip
def tensors_of_scopes_take_what_is_set(fluid, np):
    t = fluid.global_scope().var("t").get_tensor()
    found = [t.lod(), t.shape()]
    for kind in ("float32", "float64", "int32", "int64", "bool", "uint8", "float16", "int8"):
        t.set(np.arange(6).reshape(3, 2).astype(kind), fluid.CPUPlace())
        found.append([np.array(t).astype("float64") if kind == "float16" else np.array(t), t.shape()])
    t.set(np.zeros((0, 2), "float32"), fluid.CPUPlace())
    found.append([np.array(t), t.shape()])
    t.set(np.ones((3, 1), "float32"), fluid.CPUPlace())
    t.set_lod([[0, 1, 3]])
    found.append([t.lod(), t.recursive_sequence_lengths()])
    t.set_recursive_sequence_lengths([[3, 0]])
    found.append([t.lod(), t.has_valid_recursive_sequence_lengths()])
    found.append([caught(lambda: t.set(3, fluid.CPUPlace()))])
    return found


@check(F + "DataFeedDesc", *[F + "DataFeedDesc." + n for n in ("desc", "set_batch_size", "set_dense_slots", "set_use_slots")])
def feeds_of_files_are_described(fluid, np):
    import os
    import tempfile

    slot = 'slots {\n name: "%s"\n type: "%s"\n is_dense: false\n is_used: %s\n}\n'
    text = 'name: "MultiSlotDataFeed"\nbatch_size: 2\nmulti_slot_desc {\n' + slot % ("a", "uint64", "true") + slot % ("b", "float", "false")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "feed.proto")
        with open(path, "w") as file:
            file.write(text + "}")
        made = fluid.DataFeedDesc(path)
        with open(path, "w") as file:
            file.write("thread_num: 3 multi_slot_desc { " + (slot % ("a", "uint64", "true")) + "}")
        bare = fluid.DataFeedDesc(path)
    found = [made.desc()]
    made.set_batch_size(128)
    made.set_dense_slots(["a"])
    made.set_use_slots(["b"])
    return [*found, made.desc(), bare.desc(), caught(lambda: bare.set_use_slots(["a"])),
             caught(lambda: made.set_dense_slots(["none"])), caught(lambda: made.set_use_slots(["none"]))]


# --- feeding


@check("paddle.fluid.DataFeeder", "paddle.fluid.DataFeeder.feed", "paddle.fluid.data_feeder.DataFeeder")
def samples_are_reshaped_where_they_have_other_axes(fluid, np):
    numbers = np.random.RandomState(0).uniform(-1, 1, 16).astype("float32")
    found = []
    for shape, sample in (
        ([4], numbers[:5]), ([4], numbers[:4]), ([4], numbers[:4].reshape(2, 2)), ([2, 2], numbers[:4]), ([1, 4, 4], numbers),
        ([-1, 3], numbers[:6].reshape(2, 3)), ([-1, 3], numbers[:3]), ([-1, -1, 3], numbers[:12].reshape(2, 6)), ([1], 3.0), ([1], [3.0]),
        ([1], numbers[:2]), ([3], numbers[:4]),
    ):  # fmt: skip
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            rows = fluid.layers.data("rows", shape)
            words = fluid.layers.data("words", [size for size in shape if size > 0], lod_level=1)
            feeders = [fluid.DataFeeder([variable], fluid.CPUPlace()) for variable in (rows, words)]
        for feeder, samples in zip(feeders, ([(sample,), (sample,)], [([sample] * 2,), ([sample],)])):
            found.append(caught(lambda feeder=feeder, samples=samples: found.append(np.array(next(iter(feeder.feed(samples).values()))))))
    return found


@check("paddle.fluid.default_startup_program")
def counters_start_below_their_first_number(fluid, np):
    executor, found = fluid.Executor(fluid.CPUPlace()), []
    for begin, step in ((1, 1), (5, 2), (0, 3)):
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            counter = fluid.layers.autoincreased_step_counter(f"counter_{begin}_{step}", begin, step)
            executor.run(fluid.default_startup_program())
            found.append([executor.run(fluid.default_main_program(), fetch_list=[counter])[0] for _ in range(3)])
    return found


# --- functions of Python, and losses by drawing


@check("paddle.fluid.Executor.run", "paddle.fluid.gradients")
def functions_of_python_have_gradients(fluid, np):
    layers, executor = fluid.layers, fluid.Executor(fluid.CPUPlace())
    x = layers.data("x", [4])
    x.stop_gradient = False
    block = fluid.default_main_program().current_block()
    made = [block.create_var(name=f"made_{i}", dtype="float32", shape=[-1, 4]) for i in range(3)]
    layers.py_func(lambda a: np.tanh(np.array(a)), x, made[0],
                   backward_func=lambda a, y, g: np.array(g) * (1 - np.square(np.array(y))))  # fmt: skip
    layers.py_func(lambda y, g: (np.array(y) + np.array(g), np.array(y) * 2), [made[0], x], made[1:])
    loss = layers.mean(layers.Print(made[0] * made[0], first_n=0, message="seen", summarize=2))
    slope = fluid.gradients(loss, x)
    feed = {"x": np.linspace(-1, 1, 8).reshape(2, 4).astype("float32")}
    return executor.run(feed=feed, fetch_list=[loss, slope[0]] + made)


@check("paddle.fluid.backward.append_backward")
def classes_are_told_from_drawn_ones(fluid, np):
    layers, executor = fluid.layers, fluid.Executor(fluid.CPUPlace())
    x, label = layers.data("x", [3]), layers.data("label", [1], dtype="int64")
    attr = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(np.linspace(-1, 1, 6).reshape(2, 3).astype("float32")))
    # One of the two classes is drawn for sure.
    cost = layers.nce(x, label, 2, param_attr=attr, num_neg_samples=4, sampler="custom_dist", custom_dist=[0.0, 1.0], name="nce")
    pairs = fluid.backward.append_backward(layers.mean(cost))
    executor.run(fluid.default_startup_program())
    feed = {"x": np.linspace(-1, 1, 6).reshape(2, 3).astype("float32"), "label": np.array([[1], [1]])}
    return [[p.name for p, _ in pairs], list(cost.shape)[1:], executor.run(feed=feed, fetch_list=[cost] + [g for _, g in pairs])]


@check(*(F + "initializer." + name for name in ("Xavier", "Uniform", "Normal", "TruncatedNormal", "MSRA")), F + "Program.random_seed")
def seeds_fill_parameters(fluid, np):
    made = fluid.initializer
    own = {
        "xavier": made.Xavier(seed=3), "uniform": made.Uniform(-1, 1, seed=5), "normal": made.Normal(1, 2, seed=4),
        "truncated": made.TruncatedNormal(seed=9), "msra": made.MSRA(seed=2), "xavier normal": made.Xavier(uniform=False, seed=2**31 - 2),
    }  # fmt: skip
    for name, initializer in own.items():
        fluid.layers.create_parameter([4, 3, 3], "float32", name=name, default_initializer=initializer)
    fluid.layers.create_parameter([5], "float64", name="wide", default_initializer=made.Uniform(0, 1, seed=7))
    fluid.default_startup_program().random_seed = 90
    fluid.layers.fc(fluid.layers.data("x", [6]), 5, param_attr=fluid.ParamAttr(name="w"), bias_attr=False)
    fluid.layers.create_parameter([3, 3], "float32", name="seeded", default_initializer=made.Normal())
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    found = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in [*own, "wide", "w", "seeded"]}
    with fluid.dygraph.guard():
        fluid.default_main_program().random_seed = 7
        layers = fluid.dygraph.Linear(3, 4), fluid.dygraph.Conv2D(2, 3, 2), fluid.dygraph.Embedding([5, 3])
        found["dygraph"] = [layer.weight.numpy() for layer in layers]
    return found


@check(F + "Program.to_string", F + "Variable.to_string")
def programs_with_results_for_gradients_alone_print(fluid, np):
    L = fluid.layers
    x, words = L.data("x", [4]), L.data("words", [1], dtype="int64", lod_level=1)
    hidden = L.dropout(L.reshape(L.transpose(L.unsqueeze(x, [1]), [0, 2, 1]), [-1, 4]), 0.5)
    L.cross_entropy(L.fc(hidden, 3, act="softmax"), L.data("label", [1], dtype="int64"))
    L.sequence_pool(L.dynamic_gru(L.fc(L.embedding(words, [9, 4]), 12), 4), "max")
    main = fluid.default_main_program()
    return [len(main.to_string(True)) > 1000, all(len(v.to_string(True)) > 10 for v in main.list_vars() if v.persistable)]
