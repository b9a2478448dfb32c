"""Optimizers, clipping, regularizers, schedules and initializers."""

from tests.api.table import caught, check, register

GROUP = (
    "paddle.optimizer.SGD", "paddle.optimizer.SGD.step", "paddle.optimizer.SGD.clear_grad",
    "paddle.optimizer.Adam", "paddle.optimizer.Adam.step", "paddle.optimizer.Adam.clear_grad",
)  # fmt: skip

# Each row: the optimizer, and what it is made with.
OPTIMIZERS = {
    "SGD": ("", "weight_decay=0.05", "weight_decay=paddle.regularizer.L1Decay(0.05)", "grad_clip=paddle.nn.ClipGradByValue(0.2)"),
    "Momentum": ("", "momentum=0.8, use_nesterov=True", "weight_decay=paddle.regularizer.L2Decay(0.1)"),
    "Adagrad": ("", "epsilon=1e-3, initial_accumulator_value=0.1", "weight_decay=0.1"),
    "Adadelta": ("", "rho=0.9, epsilon=1e-3", "weight_decay=0.1"),
    "Adamax": ("", "beta1=0.8, beta2=0.9, epsilon=1e-3", "weight_decay=0.1"),
    "RMSProp": ("", "rho=0.9, momentum=0.5", "centered=True, epsilon=1e-3", "weight_decay=0.1"),
    "Adam": (
        "", "beta1=0.8, beta2=0.9, epsilon=1e-3", "amsgrad=True", "weight_decay=0.1", "grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5)",
        "lazy_mode=True", "use_multi_tensor=True",
    ),  # fmt: skip
    "AdamW": ("", "weight_decay=0.1", "weight_decay=0.1, apply_decay_param_fun=lambda n: 'w_0' in n", "amsgrad=True"),
    "Lamb": ("", "lamb_weight_decay=0.1, beta1=0.8", "exclude_from_weight_decay_fn=lambda p: 'b_0' in p.name"),
    "ASGD": ("", "batch_num=3", "batch_num=2, weight_decay=0.1"),
    "NAdam": ("", "beta1=0.8, beta2=0.9, epsilon=1e-3, momentum_decay=0.1", "weight_decay=0.1"),
    "RAdam": ("", "beta1=0.8, beta2=0.7, epsilon=1e-3", "weight_decay=0.1"),
    "Rprop": ("", "learning_rate_range=(0.05, 0.11), etas=(0.3, 1.5)"),
}


def _trained(paddle, np, rng, optimizer, layer, steps=4):
    """Weights after each step on inputs drawn once and for all."""
    found = []
    for _ in range(steps):
        x = paddle.to_tensor(rng.standard_normal((5, 3)).astype(str(layer.weight.dtype).removeprefix("paddle.")))
        ((layer(x) - 1) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
        found.append([p.detach().clone() for p in layer.parameters()])
    return found


def _trajectory(name, options):
    @check(f"paddle.optimizer.{name}", *GROUP, rtol=5e-5, atol=1e-6, traits=("float32", "odd"))
    def trains(paddle, np, rng):
        layer = paddle.nn.Linear(3, 2)
        made = eval(f"dict(learning_rate=0.1, {options})", {"paddle": paddle})
        optimizer = getattr(paddle.optimizer, name)(parameters=layer.parameters(), **made)
        found = _trained(paddle, np, rng, optimizer, layer)
        state = optimizer.state_dict()
        return {"weights": found, "state": {k: state[k] for k in sorted(state) if k != "LR_Scheduler"}, "rate": optimizer.get_lr()}

    return trains


def _named(name, options):
    """Register the trajectory under a text of its own: the function is the same for all."""
    from dataclasses import replace
    from zlib import crc32

    from tests.api.table import REGISTRY

    before = set(REGISTRY)
    _trajectory(name, options)
    (made,) = set(REGISTRY) - before
    case = REGISTRY.pop(made)
    text = f"paddle.optimizer.{name}({options}) trains"
    register(replace(case, id=text, source=crc32(text.encode())))


for _name, _choices in OPTIMIZERS.items():
    for _options in _choices:
        _named(_name, _options)


@check(*[f"paddle.optimizer.{name}" for name in OPTIMIZERS], *GROUP, traits=("float64", "odd", "one"), rtol=1e-9)
def float64_weights_train(paddle, np, rng):
    found = {}
    for kind in OPTIMIZERS:
        paddle.set_default_dtype("float64")
        layers = paddle.nn.Linear(3, 2), paddle.nn.Linear(3, 1, bias_attr=False)
        paddle.set_default_dtype("float32")
        for layer in layers:
            optimizer = getattr(paddle.optimizer, kind)(0.1, parameters=layer.parameters())
            found[f"{kind} {list(layer.weight.shape)}"] = _trained(paddle, np, rng, optimizer, layer, 2)
    return found


@check("paddle.optimizer.SGD", *GROUP, traits=("float32", "float64"), rtol=1e-5)
def lars_scales_the_rate_of_each_parameter(paddle, np, rng):
    found = []
    for options in (
        {},
        {"lars_coeff": 0.5, "lars_weight_decay": 0.1, "epsilon": 1e-3},
        {"exclude_from_weight_decay": ["b_0"], "rescale_grad": 0.5},
    ):
        for dtype in ("float32", "float64"):
            paddle.set_default_dtype(dtype)
            layer = paddle.nn.Linear(3, 2)
            paddle.set_default_dtype("float32")
            optimizer = paddle.incubate.optimizer.LarsMomentumOptimizer(0.1, 0.9, parameter_list=layer.parameters(), **options)
            found.append(_trained(paddle, np, rng, optimizer, layer))
    return found


@check("paddle.optimizer.SGD.minimize", "paddle.optimizer.SGD", *GROUP, traits=("float32",))
def minimize_goes_backward_and_steps(paddle, np, rng):
    layer = paddle.nn.Linear(3, 2)
    optimizer = paddle.optimizer.SGD(0.5, layer.parameters())
    x = paddle.to_tensor(rng.standard_normal((4, 3)).astype("float32"))
    loss = layer(x).mean()
    loss.backward()
    _, pairs = optimizer.minimize(loss)
    found = [[p.name for p, _ in pairs], [g.numpy() for _, g in pairs], [p.detach().clone() for p in layer.parameters()]]
    optimizer.clear_grad()
    found.append([p.grad.numpy() for p in layer.parameters()])
    optimizer.clear_grad(set_to_zero=False)
    return [found, [p.grad is None for p in layer.parameters()]]


@check("paddle.optimizer.Adam", "paddle.optimizer.SGD", "paddle.ParamAttr", rtol=5e-5, traits=("float32",))
def groups_have_rates_and_decays_of_their_own(paddle, np, rng):
    found = []
    for kind in ("SGD", "Adam", "Momentum", "AdamW"):
        found.append(_trained_in_groups(paddle, rng, kind))
    return found


def _trained_in_groups(paddle, rng, kind):
    first = paddle.nn.Linear(
        3,
        3,
        weight_attr=paddle.ParamAttr(learning_rate=0.5, regularizer=paddle.regularizer.L2Decay(0.1)),
        bias_attr=paddle.ParamAttr(need_clip=False),
    )
    second = paddle.nn.Linear(3, 2, bias_attr=paddle.ParamAttr(trainable=False))
    groups = [{"params": first.parameters(), "learning_rate": 0.5}, {"params": second.parameters(), "weight_decay": 0.2}]
    optimizer = getattr(paddle.optimizer, kind)(
        learning_rate=0.1, parameters=groups, weight_decay=0.01, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.3)
    )
    for _ in range(2):
        x = paddle.to_tensor(rng.standard_normal((4, 3)).astype("float32"))
        second(first(x)).square().mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    return [p.detach().clone() for p in first.parameters() + second.parameters()]


@check("paddle.optimizer.Adam", traits=("float32",), rtol=5e-5)
def the_state_of_an_optimizer_goes_on_in_another(paddle, np, rng):
    layer = paddle.nn.Linear(3, 2)
    schedule = paddle.optimizer.lr.StepDecay(0.1, 2, 0.5)
    one = paddle.optimizer.Adam(schedule, parameters=layer.parameters())
    before = _trained(paddle, np, rng, one, layer, 2)
    schedule.step()
    state = one.state_dict()
    other_schedule = paddle.optimizer.lr.StepDecay(0.1, 2, 0.5)
    with paddle.utils.unique_name.guard():
        other = paddle.optimizer.Adam(other_schedule, parameters=layer.parameters())
        other.set_state_dict(state)
        after = _trained(paddle, np, rng, other, layer, 2)
    return {"before": before, "keys": sorted(state), "schedule": state["LR_Scheduler"], "after": after, "rate": other.get_lr()}


@check("paddle.optimizer.SGD", "paddle.optimizer.Adam")
def rates_are_read_and_set(paddle, np, rng):
    layer = paddle.nn.Linear(2, 1)
    optimizer = paddle.optimizer.SGD(0.5, parameters=layer.parameters())
    found = [optimizer.get_lr()]
    optimizer.set_lr(0.25)
    found.append(optimizer.get_lr())
    schedule = paddle.optimizer.lr.ExponentialDecay(0.5, 0.5)
    scheduled = paddle.optimizer.Adam(schedule, parameters=layer.parameters())
    schedule.step()
    found.append(scheduled.get_lr())
    errors = [
        caught(lambda: scheduled.set_lr(0.1)), caught(lambda: paddle.optimizer.SGD(0.1, parameters=layer.weight)),
        caught(lambda: paddle.optimizer.SGD("0.1", layer.parameters())),
        caught(lambda: paddle.optimizer.Adam(0.1, beta1=1.5, parameters=layer.parameters())), caught(lambda: paddle.optimizer.SGD(0.1)),
        caught(lambda: paddle.optimizer.SGD(0.1, layer.parameters(), grad_clip=3.0)),
        caught(lambda: paddle.optimizer.Momentum(0.1, momentum=None, parameters=layer.parameters())),
    ]  # fmt: skip
    return {"rates": found, "errors": errors}


@check("paddle.optimizer.LBFGS", "paddle.optimizer.SGD", rtol=1e-4, atol=1e-5, traits=("float32",))
def lbfgs_finds_a_minimum(paddle, np, rng):
    found = []
    for options in ({}, {"line_search_fn": "strong_wolfe"}, {"max_iter": 3, "history_size": 2}):
        layer = paddle.nn.Linear(3, 1)
        x, y = (paddle.to_tensor(rng.standard_normal(s).astype("float32")) for s in ((6, 3), (6, 1)))
        optimizer = paddle.optimizer.LBFGS(learning_rate=0.5, max_iter=options.pop("max_iter", 4), parameters=layer.parameters(), **options)

        def closure():
            optimizer.clear_grad()
            loss = ((layer(x) - y) ** 2).mean()
            loss.backward()
            return loss

        for _ in range(2):
            loss = optimizer.step(closure)
        found.append([float(loss), [p.detach() for p in layer.parameters()]])
    return found


@check("paddle.nn.ClipGradByValue", "paddle.nn.ClipGradByNorm", "paddle.nn.ClipGradByGlobalNorm", traits=("float32", "float64", "odd"))
def gradients_are_clipped(paddle, np, rng):
    found = []
    clips = (
        lambda: paddle.nn.ClipGradByValue(0.5), lambda: paddle.nn.ClipGradByValue(max=0.5, min=-0.1), lambda: paddle.nn.ClipGradByNorm(0.8),
        lambda: paddle.nn.ClipGradByNorm(clip_norm=100.0),
        lambda: paddle.nn.ClipGradByGlobalNorm(1.0), lambda: paddle.nn.ClipGradByGlobalNorm(1000.0),
        lambda: paddle.nn.ClipGradByGlobalNorm(0.5, group_name="g"),
    )  # fmt: skip
    for dtype in ("float32", "float64"):
        for make in clips if dtype == "float32" else clips[:2]:  # Paddle has no clipping by norms in float64
            pairs = []
            for shape, need in (((3, 5), True), ((2,), True), ((1,), False), ((4,), True)):
                p = paddle.create_parameter(list(shape), dtype)
                p.need_clip = need
                pairs.append((p, None if shape == (4,) else paddle.to_tensor(rng.standard_normal(shape).astype(dtype))))
            clip = make()
            found.append([str(clip), [g for _, g in clip(pairs)]])
    return found


SCHEDULES = (
    "NoamDecay(64, 4, 0.5)", "PiecewiseDecay([3, 6], [0.1, 0.05, 0.01])", "NaturalExpDecay(0.5, 0.1)", "InverseTimeDecay(0.5, 0.1)",
    "PolynomialDecay(0.5, 5, power=2.0)",
    "PolynomialDecay(0.5, 4, cycle=True)", "LinearWarmup(0.5, 5, 0.0, 0.5)",
    "LinearWarmup(paddle.optimizer.lr.StepDecay(0.5, 2), 3, 0.0, 0.5)", "ExponentialDecay(0.5, 0.9)",
    "MultiStepDecay(0.5, [2, 5], 0.8)", "StepDecay(0.5, 3, 0.8)", "LambdaDecay(0.5, lambda n: 0.9 ** n)",
    "MultiplicativeDecay(0.5, lambda n: 0.95)", "CosineAnnealingDecay(0.5, 5)",
    "CosineAnnealingDecay(0.5, 4, 0.1)", "CosineAnnealingWarmRestarts(0.5, 3, 2)", "CosineAnnealingWarmRestarts(0.5, T_0=4, eta_min=0.1)",
    "LinearLR(0.5, 5)",
    "LinearLR(0.5, 4, 0.25, 0.9)", "OneCycleLR(1.0, 20)", "OneCycleLR(1.0, 20, anneal_strategy='linear', three_phase=True)",
    "CyclicLR(0.1, 1.0, 3, 2)",
    "CyclicLR(0.1, 1.0, 2, mode='triangular2')", "CyclicLR(0.1, 1.0, 2, mode='exp_range', exp_gamma=0.9)",
    "ReduceOnPlateau(0.5, patience=1)",
    "ReduceOnPlateau(1.0, mode='max', factor=0.5, patience=1, cooldown=1, threshold_mode='abs', min_lr=0.1)",
)  # fmt: skip
METRICS = (1.0, 0.9, 0.9, 0.95, 0.91, 0.5, 0.5, 0.6, 0.6, 0.7, 0.4)


@check("paddle.optimizer.lr.LRScheduler", "paddle.optimizer.SGD", "paddle.optimizer.Adam")
def schedules_give_rates_and_take_their_state(paddle, np, rng):
    found = {}
    for text in SCHEDULES:
        make = lambda: eval(f"paddle.optimizer.lr.{text}", {"paddle": paddle})
        schedule = make()
        plateau = text.startswith("Reduce")
        rates = [schedule()]
        for metric in METRICS:
            schedule.step(metric) if plateau else schedule.step()
            rates.append(schedule())
        state = schedule.state_dict()
        other = make()
        other.set_state_dict(state)
        for metric in METRICS[:3]:
            other.step(metric) if plateau else other.step()
        if "WarmRestarts" in text:  # whose state in Paddle lacks where it is in its cycle
            state = {}
        found[text] = {
            "rates": rates,
            "state": {k: v for k, v in state.items() if not callable(v)},
            "goes on": [other(), other.last_epoch] if state else [],
        }
    return found


@check("paddle.optimizer.lr.LRScheduler")
def schedules_start_elsewhere_and_jump(paddle, np, rng):
    lr = paddle.optimizer.lr
    jumped = lr.StepDecay(0.5, 2, 0.5)
    jumped.step(5)
    return [
        jumped(),
        lr.ExponentialDecay(0.5, 0.9, last_epoch=3)(),
        [caught(lambda: lr.StepDecay("a", 3)), caught(lambda: lr.StepDecay(0.5, 2, 2.0)), caught(lambda: lr.MultiStepDecay(0.5, 3))],
    ]


INITIALIZERS = (
    "Constant()", "Constant(2.5)", "Uniform()", "Uniform(-0.5, 2.0)", "Normal()", "Normal(1.0, 0.5)", "TruncatedNormal()",
    "TruncatedNormal(1.0, 0.5, -1.0, 1.0)", "XavierUniform()",
    "XavierUniform(4, 6)", "XavierNormal()", "XavierNormal(fan_in=3, gain=2.0)", "KaimingUniform()",
    "KaimingUniform(fan_in=3, negative_slope=0.2, nonlinearity='leaky_relu')",
    "KaimingNormal()", "KaimingNormal(nonlinearity='tanh')", "Orthogonal()", "Orthogonal(gain=2.0)",
)  # fmt: skip


@check("paddle.nn.initializer.Constant", "paddle.ParamAttr", traits=("float32", "float64", "odd", "one"))
def initializers_fill_parameters(paddle, np, rng):
    found = {}
    for text in INITIALIZERS:
        for dtype in ("float32", "float64"):
            for shape in ([3, 5], [4, 2, 3, 1]) if "Orthogonal" not in text else ([3, 5],):
                made = eval(f"paddle.nn.initializer.{text}", {"paddle": paddle})
                found[f"{text} {dtype} {shape}"] = paddle.create_parameter(shape, dtype, default_initializer=made)
    make = paddle.nn.initializer
    found["assign"] = paddle.create_parameter([2, 2], "float32", default_initializer=make.Assign(np.arange(4.0).reshape(2, 2)))
    found["list"] = paddle.create_parameter([2], "float32", default_initializer=make.Assign([1.0, 2.0]))
    found["tensor"] = paddle.create_parameter([2], "float32", default_initializer=make.Assign(paddle.to_tensor([3.0, 4.0])))
    found["dirac"] = paddle.create_parameter([4, 2, 3], "float32", default_initializer=make.Dirac(groups=2))
    found["vector"] = paddle.create_parameter([3], "float32", default_initializer=make.Constant(1.0))
    found["gains"] = [make.calculate_gain(n) for n in ("sigmoid", "tanh", "relu", "linear", "conv2d", "selu", "leaky_relu")] + [
        make.calculate_gain("leaky_relu", 0.1)
    ]
    found["errors"] = [caught(lambda: make.Constant(None)), caught(lambda: make.calculate_gain("unknown")), caught(lambda: make.Dirac(0))]
    return found


@check("paddle.nn.initializer.Constant")
def an_initializer_may_fill_all_parameters(paddle, np, rng):
    make = paddle.nn.initializer
    make.set_global_initializer(make.Constant(0.5), make.Constant(0.25))
    line = paddle.nn.Linear(2, 2)
    make.set_global_initializer(None)
    return [line.weight, line.bias, paddle.nn.Linear(2, 2, bias_attr=make.Constant(3.0)).bias]


@check("paddle.ParamAttr")
def attributes_reach_the_parameter(paddle, np, rng):
    attr = paddle.ParamAttr(
        name="own",
        initializer=paddle.nn.initializer.Constant(2.0),
        learning_rate=0.5,
        trainable=False,
        need_clip=False,
        do_model_average=True,
    )
    line = paddle.nn.Linear(2, 1, weight_attr=attr, bias_attr="named")
    w = line.weight
    return [
        w.name,
        w,
        w.optimize_attr,
        w.trainable,
        w.need_clip,
        w.stop_gradient,
        line.bias.name,
        caught(lambda: paddle.ParamAttr(trainable="yes")),
    ]


@check("paddle.nn.initializer.Xavier", traits=("float32", "float64", "odd", "one"))
def xavier_by_its_older_name_is_the_uniform_one(paddle, np, rng):
    make = paddle.nn.initializer
    xavier = getattr(make, "Xavier", make.XavierUniform)  # 3.3.1 has the newer names alone
    return [
        paddle.create_parameter(shape, dtype, default_initializer=xavier())
        for shape in ([3, 5], [4, 1, 3])
        for dtype in ("float32", "float64")
    ]
