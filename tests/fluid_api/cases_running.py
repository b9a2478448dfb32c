"""Executors, scopes, feeds, LoD tensors, readers."""

from tests.fluid_api.table import caught, check

F = "paddle.fluid."


def net(fluid):
    x = fluid.layers.data(name="x", shape=[3], dtype="float32")
    y = fluid.layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.5)), bias_attr=False)
    return x, y, fluid.layers.mean(y)


def ones(np, *shape):
    return np.ones(shape, "float32")


@check(F + "Executor", F + "Executor.run", F + "Executor.close", F + "executor.Executor")
def executors_feed_and_fetch(fluid, np):
    x, y, loss = net(fluid)
    exe = fluid.Executor(fluid.CPUPlace())
    early = caught(lambda: exe.run(feed={"x": ones(np, 2, 3)}, fetch_list=[loss]))
    exe.run(fluid.default_startup_program())
    main = fluid.default_main_program()
    run = lambda **more: exe.run(main, **more)
    found = {
        "early": "error" in early,
        "values": run(feed={"x": ones(np, 2, 3)}, fetch_list=[y, loss.name, "w"]),
        "one": run(feed={"x": ones(np, 1, 3)}, fetch_list=loss),
        "nothing": run(feed={"x": ones(np, 2, 3)}),
        "lod tensor": np.array(run(feed={"x": ones(np, 2, 3)}, fetch_list=[y], return_numpy=False)[0]),
        "cached": [run(feed={"x": k * ones(np, 2, 3)}, fetch_list=[loss], use_program_cache=True)[0] for k in (1, 2)],
        "tuple": run(feed={"x": ones(np, 2, 3)}, fetch_list=(y,)),
        "errors": [
            caught(lambda: run(feed={"x": ones(np, 2, 4)}, fetch_list=[loss]), "x"),
            caught(lambda: run(feed={"x": np.ones((2, 3), "int64")}, fetch_list=[loss]), "x"),
            caught(lambda: run(feed=3, fetch_list=[loss])),
            caught(lambda: run(feed={"x": ones(np, 2, 3)}, fetch_list=[3])),
            caught(lambda: run(feed={"x": ones(np, 2, 3)}, fetch_list=["none"]), "none"),
            caught(lambda: exe.run(3)),
        ],
    }
    exe.close()
    found["closed"] = caught(lambda: run(feed={"x": ones(np, 2, 3)}, fetch_list=[loss]))
    return found


@check(F + "Scope", F + "Scope.var", F + "Scope.find_var", F + "Scope.new_scope", F + "Scope.drop_kids", F + "global_scope",
       F + "scope_guard",
       F + "core.Scope", F + "core.Variable", F + "_switch_scope", F + "executor.global_scope", F + "executor.scope_guard")  # fmt: skip
def scopes_have_parents(fluid, np):
    scope = fluid.Scope()
    scope.var("a").get_tensor().set(np.arange(3, dtype="int64"), fluid.CPUPlace())
    kid = scope.new_scope()
    kid.var("b")
    found = {
        "find": [kid.find_var("a") is not None, scope.find_var("b") is None, kid.find_var("none") is None],
        "value": np.array(kid.find_var("a").get_tensor()),
        "same": scope.var("a") is not None,
        "shape": kid.find_var("a").get_tensor().shape(),
        "errors": [caught(lambda: scope.find_var(3)), caught(lambda: scope.var(None))],
    }
    scope.drop_kids()
    before = fluid.global_scope()
    with fluid.scope_guard(scope):
        found["guard"] = [fluid.global_scope() is scope, fluid.global_scope().find_var("a") is not None]
    found["after"] = fluid.global_scope() is before
    old = fluid.executor._switch_scope(scope)
    found["switched"] = [fluid.global_scope() is scope, old is before]
    fluid.executor._switch_scope(old)
    return found


@check(F + "executor.as_numpy", F + "Executor.as_lodtensor", F + "LoDTensor", F + "LoDTensor.lod", F + "LoDTensor.set_lod", F + "Tensor",
       F + "LoDTensor.recursive_sequence_lengths", F + "LoDTensor.set_recursive_sequence_lengths", F + "core.LoDTensor",
       F + "LoDTensor.has_valid_recursive_sequence_lengths", F + "LoDTensor.set", F + "LoDTensor.shape")  # fmt: skip
def lod_tensors_know_their_levels(fluid, np):
    t = fluid.LoDTensor()
    t.set(np.arange(12, dtype="float32").reshape(6, 2), fluid.CPUPlace())
    found = {"fresh": [t.lod(), t.recursive_sequence_lengths(), t.has_valid_recursive_sequence_lengths(), t.shape()]}
    t.set_recursive_sequence_lengths([[2, 1], [1, 2, 3]])
    found["nested"] = [t.lod(), t.recursive_sequence_lengths(), t.has_valid_recursive_sequence_lengths()]
    t.set_lod([[0, 2, 6]])
    found["offsets"] = [t.lod(), t.recursive_sequence_lengths(), t.has_valid_recursive_sequence_lengths()]
    t.set_recursive_sequence_lengths([[0, 6, 0]])
    found["empty sequences"] = [t.lod(), t.recursive_sequence_lengths(), t.has_valid_recursive_sequence_lengths()]
    found["errors"] = [
        caught(lambda: t.set_lod([[1, 2]])), caught(lambda: t.set_lod([[0, 3, 2]])), caught(lambda: t.set_lod([[0, 2, 7]])),
        caught(lambda: t.set_lod(3)), caught(lambda: t.set_recursive_sequence_lengths([2, 1])),
    ]  # fmt: skip
    t.set_lod([])
    found["none"] = [t.lod(), t.has_valid_recursive_sequence_lengths(), np.array(t)]
    return found


@check(F + "create_lod_tensor", F + "create_random_int_lodtensor")
def lod_tensors_are_made(fluid, np):
    place = fluid.CPUPlace()
    made = fluid.create_lod_tensor(np.arange(10, dtype="int64").reshape(5, 2), [[2, 3]], place)
    listed = fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]], place)
    again = fluid.create_lod_tensor(made, [[1, 4]], place)
    drawn = fluid.create_random_int_lodtensor([[2, 0, 3]], [4], place, 3, 5)
    values = np.array(drawn)
    return {
        "made": [made.lod(), np.array(made)],
        "listed": [listed.lod(), np.array(listed)],
        "again": [again.lod(), np.array(again)],
        "drawn": [drawn.lod(), list(values.shape), str(values.dtype), bool((values >= 3).all() and (values <= 5).all())],
        "errors": [
            caught(lambda: fluid.create_lod_tensor(np.zeros((5, 2), "int64"), [[2, 2]], place)),
            caught(lambda: fluid.create_lod_tensor([[1, 2], [3]], [[1, 1]], place)),
            caught(lambda: fluid.create_lod_tensor(3, [[1]], place)),
            caught(lambda: fluid.create_random_int_lodtensor(3, [4], place, 0, 1)),
            caught(lambda: fluid.create_random_int_lodtensor([[2]], 4, place, 0, 1)),
        ],
    }


@check(F + "LoDTensorArray", F + "LoDTensorArray.append")
def arrays_of_lod_tensors(fluid, np):
    made = fluid.LoDTensorArray()
    t = fluid.LoDTensor()
    t.set(np.ones((2, 2), "float32"), fluid.CPUPlace())
    made.append(t)
    return [len(made), np.array(made[0]), caught(lambda: made.append(3)), len(made)]


@check(F + "DataFeeder", F + "DataFeeder.feed", F + "DataFeeder.feed_parallel", F + "DataFeeder.decorate_reader")
def feeders_make_batches(fluid, np):
    x = fluid.layers.data(name="x", shape=[2], dtype="float32")
    fluid.layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    feeder = fluid.DataFeeder([x, "words"], fluid.CPUPlace())
    made = feeder.feed([([1.0, 2.0], [[1], [2]]), ([3.0, 4.0], [[3]])])
    parts = list(feeder.feed_parallel([[([1.0, 2.0], [[1]])], [([3.0, 4.0], [[2], [3]])]], num_places=2))
    batches = lambda: iter([[([1.0, 2.0], [[1]])] * 2, [([5.0, 6.0], [[1]])]])
    plain = list(feeder.decorate_reader(batches, multi_devices=False)())
    show = lambda feed: {k: [np.array(v), v.lod()] for k, v in feed.items()}
    return {
        "made": show(made), "parts": [show(p) for p in parts], "plain": [show(p) for p in plain],
        "errors": [
            caught(lambda: feeder.feed([([1.0, 2.0],)])),
            caught(lambda: fluid.DataFeeder(["none"], fluid.CPUPlace()), "none"), caught(lambda: fluid.DataFeeder([3], fluid.CPUPlace())),
        ],
    }  # fmt: skip


@check(F + "ParamAttr", F + "ParamAttr.set_default_initializer", F + "ParamAttr.set_default_param_initializer",
       F + "ParamAttr.set_default_bias_initializer", F + "ParamAttr.to_attr", F + "ParamAttr.to_kwargs",
           F + "WeightNormParamAttr")  # fmt: skip
def attributes_of_parameters(fluid, np):
    attr = fluid.ParamAttr
    show = lambda a: a if a is False else [a.name, type(a.initializer).__name__, a.learning_rate, a.trainable, type(a.regularizer).__name__]
    made = attr()
    made._set_default_bias_initializer()
    kept = attr(initializer=fluid.initializer.Constant(2.0))
    kept._set_default_param_initializer()
    weighted = fluid.WeightNormParamAttr(dim=1, name="w", trainable=False)
    return {
        "default": show(attr()), "bias": type(made.initializer).__name__.replace("Initializer", ""),
        "kept": type(kept.initializer).__name__.replace("Initializer", ""),
        "to": [show(attr._to_attr(v)) for v in (None, "name", False, True)],
        "values": [attr("n")._to_kwargs()[k] for k in ("name", "trainable", "optimize_attr")],
        "norm": [weighted.dim, weighted.name, weighted.trainable, weighted.learning_rate],
        "average": [attr().do_model_average, attr(do_model_average=False).do_model_average],
        "errors": [caught(lambda: attr(name=3)), caught(lambda: attr(learning_rate="fast")), caught(lambda: attr(trainable=None)),
                   caught(lambda: attr._to_attr(3))],
    }  # fmt: skip


@check(F + "metrics.MetricBase", F + "metrics.CompositeMetric", F + "metrics.Precision", F + "metrics.Recall", F + "metrics.Accuracy",
       F + "metrics.ChunkEvaluator", F + "metrics.EditDistance", F + "metrics.Auc", F + "average.WeightedAverage",
       *[F + "metrics." + c + m for c in ("Precision", "Recall", "Accuracy", "ChunkEvaluator", "EditDistance", "Auc", "CompositeMetric",
         "MetricBase") for m in (".update", ".eval", ".reset", ".get_config")], F + "metrics.CompositeMetric.add_metric",
       F + "average.WeightedAverage.add", F + "average.WeightedAverage.eval", F + "average.WeightedAverage.reset",
       F + "metrics.Auc.trapezoid_area")  # fmt: skip
def metrics_count(fluid, np):
    m = fluid.metrics
    scores, labels = np.array([[0.1], [0.7], [0.8], [0.9]]), np.array([[0], [1], [1], [0]])
    precision, recall, both = m.Precision(), m.Recall(), m.CompositeMetric()
    found = {"fresh": [precision.eval(), recall.eval()]}
    both.add_metric(precision)
    both.add_metric(recall)
    both.update(preds=scores, labels=labels)
    found["both"] = [float(v) for v in both.eval()]
    accuracy, chunks, distance, auc = m.Accuracy(), m.ChunkEvaluator(), m.EditDistance("d"), m.Auc(name="auc")
    found["early"] = [caught(accuracy.eval), caught(distance.eval), [float(v) for v in chunks.eval()]]
    accuracy.update(value=0.8, weight=10)
    accuracy.update(value=0.4, weight=30)
    chunks.update(10, 9, 8)
    distance.update(np.array([[1.0], [0.0]]), np.array([2]))
    auc.update(preds=np.hstack([1 - scores, scores]), labels=labels)
    found["values"] = [float(accuracy.eval()), [float(v) for v in chunks.eval()], [float(v) for v in distance.eval()], float(auc.eval())]
    average = fluid.average.WeightedAverage()
    found["average"] = [caught(average.eval)]
    average.add(value=2.0, weight=1)
    average.add(value=4.0, weight=3)
    found["average"] += [float(average.eval()), caught(lambda: average.add(value="two", weight=1)), caught(lambda: average.add(1.0, "w"))]
    average.reset()
    accuracy.reset()
    found["reset"] = [caught(average.eval), caught(accuracy.eval)]
    found["errors"] = [
        caught(lambda: accuracy.update(value="x", weight=1)), caught(lambda: accuracy.update(value=1.0, weight=-1)),
        caught(lambda: both.add_metric(3)), caught(lambda: precision.update(3, labels)),
    ]  # fmt: skip
    found["config"] = sorted(precision.get_config())
    found["trapezoid"] = m.Auc.trapezoid_area(0.0, 2.0, 1.0, 3.0)
    return found


@check(F + "io.batch", F + "io.buffered", F + "io.chain", F + "io.compose", F + "io.firstn", F + "io.map_readers", F + "io.shuffle",
       F + "io.cache", F + "io.xmap_readers", F + "io.ComposeNotAligned", F + "io.multiprocess_reader")  # fmt: skip
def readers_are_put_together(fluid, np):
    io = fluid.io
    five, two = lambda: iter(range(5)), lambda: iter([(7, 8), (9, 10)])
    return {
        "batch": [list(io.batch(five, 2)()), list(io.batch(five, 2, drop_last=True)())],
        "buffered": list(io.buffered(five, 2)()),
        "chain": list(io.chain(five, five)()),
        "compose": list(io.compose(two, two)()),
        "unequal": [caught(lambda: list(io.compose(five, two)())), len(list(io.compose(five, two, check_alignment=False)()))],
        "firstn": list(io.firstn(five, 3)()),
        "map": list(io.map_readers(lambda a, b: a + b, five, five)()),
        "shuffle": sorted(io.shuffle(five, 3)()),
        "cache": [list(io.cache(five)()) for _ in range(2)],
        "xmap": list(io.xmap_readers(lambda v: v * v, five, 2, 4, order=True)()),
        "errors": [caught(lambda: io.batch(five, 0)), caught(lambda: list(io.batch(five, "2")()))],
        "none": [list(io.batch(lambda: iter(()), 2)()), list(io.firstn(five, 0)())],
    }


@check(F + "io.PyReader", F + "io.DataLoader", F + "io.DataLoader.from_generator", F + "io.PyReader.decorate_batch_generator",
       F + "io.PyReader.decorate_sample_generator", F + "io.PyReader.decorate_sample_list_generator", F + "io.PyReader.start",
       F + "io.PyReader.reset", F + "reader.PyReader", F + "reader.DataLoader")  # fmt: skip
def readers_feed_programs(fluid, np):
    x, y, loss = net(fluid)
    rows = lambda: iter([(np.full(3, float(i), "float32"),) for i in range(5)])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    losses = []
    reader = fluid.io.PyReader(feed_list=[x], capacity=2, iterable=True)
    reader.decorate_sample_generator(rows, batch_size=2, drop_last=False, places=fluid.CPUPlace())
    for feed in reader():
        losses.append(exe.run(feed=feed, fetch_list=[loss])[0])
    return losses


@check(F + "io.DataLoader", F + "core.EOFException")
def readers_end_a_pass(fluid, np):
    x = fluid.layers.data(name="x", shape=[3], dtype="float32")
    losses = []
    loader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=2, iterable=False)
    loader.set_batch_generator(lambda: iter([[np.ones((2, 3), "float32")]] * 3))
    loss = fluid.layers.mean(x)
    exe = fluid.Executor(fluid.CPUPlace())
    ended = 0
    for _ in range(2):
        loader.start()
        try:
            while True:
                losses.append(exe.run(fetch_list=[loss])[0])
        except fluid.core.EOFException:
            ended += 1
            loader.reset()
    return [losses, ended]


@check(F + "LoDTensor.set_recursive_sequence_lengths", F + "LoDTensor.has_valid_recursive_sequence_lengths", older=True)
def lengths_that_do_not_fit_are_not_valid(fluid, np):
    t = fluid.LoDTensor()
    t.set(np.zeros((6, 2), "float32"), fluid.CPUPlace())
    t.set_recursive_sequence_lengths([[2, 1]])  # which 1.8.5 refuses at once, and its elders do not
    assert t.lod() == [[0, 2, 3]] and not t.has_valid_recursive_sequence_lengths()


@check(F + "regularizer.L1Decay", F + "regularizer.L2Decay", F + "regularizer.L1DecayRegularizer", F + "regularizer.L2DecayRegularizer",
       F + "L2Decay", F + "regularizer.WeightDecayRegularizer", F + "clip.ErrorClipByValue", F + "clip.GradientClipByValue",
       F + "clip.GradientClipByNorm", F + "clip.GradientClipByGlobalNorm", F + "clip.set_gradient_clip", F + "clip.BaseGradientClipAttr",
       F + "clip.BaseErrorClipAttr")  # fmt: skip
def penalties_and_clips(fluid, np):
    c, r = fluid.clip, fluid.regularizer
    show = lambda v: str(v)
    return {
        "text": [show(r.L1Decay(0.5)), show(r.L2Decay(0.25)), show(c.GradientClipByValue(1.0)), show(c.GradientClipByNorm(2.0)),
                 show(c.GradientClipByGlobalNorm(3.0)), show(c.ErrorClipByValue(1.0))],
        "names": [r.L1DecayRegularizer is r.L1Decay, r.L2DecayRegularizer is r.L2Decay],
        "values": [c.GradientClipByValue(1.0).min, c.GradientClipByValue(max=2.0, min=-1.0).max, c.ErrorClipByValue(1.5).min],
        "bases": [isinstance(r.L1Decay(0.1), r.WeightDecayRegularizer), isinstance(c.ErrorClipByValue(1.0), c.BaseErrorClipAttr)],
        "errors": [caught(lambda: r.L1Decay(None)), caught(lambda: r.L2Decay(None)), caught(lambda: c.set_gradient_clip(3))],
    }  # fmt: skip


@check(*[F + "initializer." + n + s for n in ("Constant", "Uniform", "Normal", "TruncatedNormal", "Xavier", "Bilinear", "MSRA")
         for s in ("", "Initializer")], F + "initializer.NumpyArrayInitializer")  # fmt: skip
def initializers_append_their_operators(fluid, np):
    i = fluid.initializer
    made = [i.Constant(3.0), i.Uniform(-2.0, 2.0), i.Normal(1.0, 0.0), i.TruncatedNormal(2.0, 0.0), i.Xavier(), i.Xavier(uniform=False),
            i.MSRA(), i.MSRA(uniform=False), i.NumpyArrayInitializer(np.arange(6, dtype="float32").reshape(2, 3))]  # fmt: skip
    for k, initializer in enumerate(made):
        fluid.layers.create_parameter([2, 3], "float32", name="p" + str(k), attr=fluid.ParamAttr(name="p" + str(k),
            initializer=initializer))
    fluid.layers.create_parameter([1, 1, 4, 4], "float32", attr=fluid.ParamAttr(name="b", initializer=i.Bilinear()))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    get = lambda name: np.array(fluid.global_scope().find_var(name).get_tensor())
    return {
        "types": sorted(op.type for op in fluid.default_startup_program().global_block().ops),
        "values": [get("p0"), get("p2"), get("p3"), get("p8"), get("b")[0, 0, 0, 0], get("b").shape],
        "bounds": [bool(np.abs(get("p1")).max() <= 2), bool(np.abs(get("p4")).max() <= (6 / 5) ** 0.5),
            bool(np.abs(get("p6")).max() <= 3**0.5)],
        "errors": [caught(lambda: i.NumpyArrayInitializer([1.0])), caught(lambda: i.Constant(None)), caught(lambda: i.Xavier(uniform=None)),
                   caught(lambda: i.Normal("a"))],
    }  # fmt: skip
