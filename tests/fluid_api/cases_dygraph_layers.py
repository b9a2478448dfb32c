"""Layers, learning rates and traced programs of dygraph mode."""

import os
import tempfile

from tests.fluid_api.table import caught, check, kind_of

F = "paddle.fluid."
D = F + "dygraph."


def seeded(np, layer, seed=0):
    """Numbers for all parameters, which both Paddles then share."""
    rng = np.random.RandomState(seed)
    for parameter in layer.parameters():
        low = 0.5 if parameter.name.endswith("w_2") and "norm" in parameter.name else -0.9
        parameter.set_value(rng.uniform(low, 0.9, [int(s) for s in parameter.shape]).astype("float32"))
    return layer


def told(np, layer):
    """What a Layer says of its parameters."""
    return [[name, p.name, [int(s) for s in p.shape], bool(p.stop_gradient)] for name, p in layer.named_parameters()]


def passed(fluid, np, layer, *arrays):
    """A pass through a Layer and back: result, gradients of inputs and parameters, parameters after it, and the result of `eval()`."""
    d = fluid.dygraph
    seeded(np, layer)
    given = [d.to_variable(a) for a in arrays]
    for x, a in zip(given, arrays):
        x.stop_gradient = a.dtype.kind != "f"
    outs = layer(*given)
    outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
    weight = d.to_variable(np.random.RandomState(7).uniform(-1, 1, [int(s) for s in outs[0].shape]).astype("float32"))
    loss = fluid.layers.reduce_sum(outs[0] * weight)
    loss.backward()
    slopes = [x.gradient() for x, a in zip(given, arrays) if a.dtype.kind == "f"]
    slopes += [p.gradient() for p in layer.parameters() if not p.stop_gradient]
    kept = [p.numpy() for p in layer.parameters() if p.stop_gradient]
    layer.eval()
    again = layer(*given)
    again = list(again) if isinstance(again, (list, tuple)) else [again]
    # Paddle 1.8 makes no gradients of anything while any Layer is in `eval()`.
    layer.train()
    return {"told": told(np, layer), "outs": [o.numpy() for o in outs], "slopes": slopes, "kept": kept, "eval": [o.numpy() for o in again]}


def image(np, *shape):
    return np.random.RandomState(3).uniform(-1, 1, shape).astype("float32")


@check(D + "Conv2D", D + "Conv2DTranspose", D + "Conv3D", D + "Conv3DTranspose", D + "Pool2D")
def windows_of_dygraph(fluid, np):
    d = fluid.dygraph
    x, volume = image(np, 2, 4, 7, 6), image(np, 1, 2, 4, 5, 3)
    with d.guard():
        layers = {
            "conv": (d.Conv2D(4, 6, 3, padding=1, act="relu"), x),
            "strided": (d.Conv2D(4, 6, [3, 2], stride=[2, 1], padding=[1, 0], dilation=2, bias_attr=False), x),
            "groups": (d.Conv2D(4, 8, 3, groups=2, act="tanh"), x),
            "depthwise": (d.Conv2D(4, 4, 3, groups=4, use_cudnn=False), x),
            "transposed": (d.Conv2DTranspose(4, 3, 3, stride=2, padding=1, act="relu"), x),
            "sized": (d.Conv2DTranspose(4, 4, 3, stride=2, groups=2, output_size=[16, 14]), x),
            "conv3d": (d.Conv3D(2, 3, 2, padding=1), volume),
            "transposed3d": (d.Conv3DTranspose(2, 3, 2, stride=2), volume),
            "biased3d": (d.Conv3DTranspose(2, 2, 2, bias_attr=fluid.ParamAttr(name="b3")), volume),
            "max": (d.Pool2D(2, "max", 2, 0, ceil_mode=True), x),
            "avg": (d.Pool2D(3, "avg", 2, 1, exclusive=False), x),
            "global": (d.Pool2D(pool_type="avg", global_pooling=True), x),
        }
        found = {name: passed(fluid, np, layer, given) for name, (layer, given) in sorted(layers.items())}
        found["errors"] = [
            caught(lambda: d.Pool2D(2, "mean"), "max"), caught(lambda: d.Pool2D()), caught(lambda: d.Conv2D(3, 4, 3, groups=2)),
            caught(lambda: d.Conv2D(3, 4, 3, param_attr=False)), caught(lambda: d.Conv2D(3, 4, 3, use_cudnn=1)),
            caught(lambda: d.Conv2DTranspose(3, 4, 3, output_size="x")),
        ]  # fmt: skip
    return found


@check(D + "Linear", D + "Embedding", D + "BilinearTensorProduct", D + "GRUUnit", D + "PRelu", D + "Dropout")
def products_of_dygraph(fluid, np):
    d = fluid.dygraph
    x, wide = image(np, 3, 4), image(np, 2, 3, 4)
    ids = np.array([[1, 3], [0, 4]], "int64")
    with d.guard():
        layers = {
            "linear": (d.Linear(4, 5, act="sigmoid"), x),
            "wide": (d.Linear(4, 5, bias_attr=False), wide),
            "wide bias": (d.Linear(4, 2), wide),
            "table": (d.Embedding([5, 3]), ids),
            "padded": (d.Embedding([5, 3], padding_idx=-2, is_sparse=False), ids),
            "bilinear": (d.BilinearTensorProduct(4, 3, 5, act="tanh"), x, image(np, 3, 3)),
            "gru": (d.GRUUnit(9), image(np, 2, 9), image(np, 2, 3)),
            "all": (d.PRelu("all"), image(np, 2, 3, 2, 2)),
            "channel": (d.PRelu("channel", channel=3), image(np, 2, 3, 2, 2)),
            "element": (d.PRelu("element", input_shape=[2, 3, 2, 2]), image(np, 2, 3, 2, 2)),
            "dropped": (d.Dropout(0.0), x),
        }
        found = {name: passed(fluid, np, *layer) for name, layer in sorted(layers.items())}
        for way in ("downgrade_in_infer", "upscale_in_train"):
            drop = d.Dropout(0.5, dropout_implementation=way)
            made = drop(d.to_variable(np.ones((40, 50), "float32"))).numpy()
            found[way] = [sorted(set(made.reshape(-1).tolist())), bool(0.4 < (made == 0).mean() < 0.6)]
            drop.eval()
            found[way].append(drop(d.to_variable(x)).numpy())
            drop.train()
        found["errors"] = [caught(lambda: d.Dropout(2)), caught(lambda: d.Dropout(0.5, seed=0.5)), caught(lambda: d.PRelu("row")),
                           caught(lambda: d.PRelu("channel")), caught(lambda: d.Dropout(0.1, dropout_implementation="x"))]  # fmt: skip
    return found


@check(D + "BatchNorm", D + "InstanceNorm", D + "GroupNorm", D + "LayerNorm", D + "SpectralNorm")
def norms_of_dygraph(fluid, np):
    d = fluid.dygraph
    x = image(np, 3, 4, 2, 5)
    attr = fluid.ParamAttr
    with d.guard():
        layers = {
            "batch": (d.BatchNorm(4, act="relu", momentum=0.8), x),
            "named": (d.BatchNorm(4, moving_mean_name="mm", moving_variance_name="mv", epsilon=1e-3), x),
            "global": (d.BatchNorm(4, use_global_stats=True, param_attr=attr(learning_rate=0.5)), x),
            "rows": (d.BatchNorm(4), image(np, 5, 4)),
            "instance": (d.InstanceNorm(4), x),
            "affine": (d.GroupNorm(4, 2, param_attr=attr(name="gw"), bias_attr=attr(name="gb"), act="relu"), x),
            "layer": (d.LayerNorm([2, 5], act="tanh"), x),
            "last": (d.LayerNorm(5, scale=False), x),
            "plain": (d.LayerNorm([4, 2, 5], scale=False, shift=False), x),
        }
        found = {name: passed(fluid, np, *layer) for name, layer in sorted(layers.items())}
        # Its gradient is wrong in 1.8.5 where there is no weight.
        found["group"] = d.GroupNorm(4, 2)(d.to_variable(x)).numpy()
        spectral = seeded(np, d.SpectralNorm([3, 4, 2], dim=1, power_iters=2))
        weight = d.to_variable(image(np, 3, 4, 2))
        found["spectral"] = [told(np, spectral), spectral(weight).numpy(), spectral(weight).numpy()]
        found["errors"] = [caught(lambda: d.LayerNorm([3])(d.to_variable(x)), "normalized_shape"),
                           caught(lambda: d.GroupNorm(4, 2, data_layout="N")),
                           caught(lambda: d.BatchNorm(4, bias_attr=False)), caught(lambda: d.LayerNorm(3, bias_attr=False))]  # fmt: skip
    return found


@check(D + "MSELoss", D + "L1Loss", D + "BCELoss", D + "NLLLoss")
def losses_of_dygraph(fluid, np):
    d = fluid.dygraph
    x, y, share = image(np, 3, 4), image(np, 3, 4) ** 2, np.random.RandomState(1).uniform(0.1, 0.9, (3, 4)).astype("float32")
    labels = np.array([1, 3, 0], "int64")
    found = {}
    with d.guard():
        for way in ("mean", "sum", "none"):
            kinds = {
                "mse": (d.MSELoss(way), x, y), "l1": (d.L1Loss(way), x, y), "bce": (d.BCELoss(None, way), share, y),
                "weighted": (d.BCELoss(d.to_variable(share), way), share, y), "nll": (d.NLLLoss(None, way), np.log(share), labels),
                "ignored": (d.NLLLoss(d.to_variable(share[0]), way, 3), np.log(share), labels),
            }  # fmt: skip
            for name, (layer, *given) in sorted(kinds.items()):
                first = d.to_variable(given[0])
                first.stop_gradient = False
                loss = layer(first, d.to_variable(given[1]))
                fluid.layers.reduce_sum(loss).backward()
                found[name + " " + way] = [loss.numpy(), first.gradient()]
        found["errors"] = [caught(lambda: d.MSELoss("x"), "reduction"), caught(lambda: d.L1Loss("x"))]
    return found


DECAYS = ["CosineDecay", "ExponentialDecay", "InverseTimeDecay", "LambdaDecay", "LinearLrWarmup", "MultiStepDecay", "NaturalExpDecay",
          "NoamDecay", "PiecewiseDecay", "PolynomialDecay", "ReduceLROnPlateau", "StepDecay"]  # fmt: skip


@check(*[D + n for n in DECAYS], F + "optimizer.AdamOptimizer.current_step_lr", F + "optimizer.AdamOptimizer.state_dict")
def rates_of_dygraph(fluid, np):
    d, L = fluid.dygraph, fluid.layers
    found = {}
    with d.guard():
        by_step = {
            "cosine": d.CosineDecay(0.1, 3, 4), "exp": d.ExponentialDecay(0.1, 3, 0.5), "stairs": d.ExponentialDecay(0.1, 3, 0.5, True),
            "inverse": d.InverseTimeDecay(0.1, 3, 0.5), "natural": d.NaturalExpDecay(0.1, 3, 0.5, staircase=True),
            "noam": d.NoamDecay(64, 5), "late": d.NoamDecay(64, 5, begin=3, step=2, learning_rate=2.0),
            "pieces": d.PiecewiseDecay([2, 5], [0.3, 0.2, 0.1], 0), "poly": d.PolynomialDecay(0.1, 6, 0.01, 2.0),
            "cycle": d.PolynomialDecay(0.1, 3, 0.01, 1.0, True), "warm": d.LinearLrWarmup(0.2, 4, 0.0, 0.2),
            "both": d.LinearLrWarmup(d.ExponentialDecay(0.1, 3, 0.5), 4, 0.0, 0.1),
            "of layers": L.noam_decay(64, 5), "pieces of layers": L.piecewise_decay([2, 5], [0.3, 0.2, 0.1]),
            "exp of layers": L.exponential_decay(0.1, 3, 0.5), "natural of layers": L.natural_exp_decay(0.1, 3, 0.5),
            "inverse of layers": L.inverse_time_decay(0.1, 3, 0.5), "cosine of layers": L.cosine_decay(0.1, 3, 4),
            "poly of layers": L.polynomial_decay(0.1, 6), "warm of layers": L.linear_lr_warmup(0.2, 4, 0.0, 0.2),
        }  # fmt: skip
        for name, rate in sorted(by_step.items()):
            layer = seeded(np, d.Linear(2, 2))
            opt = fluid.optimizer.AdamOptimizer(rate, parameter_list=layer.parameters())
            seen = []
            for k in range(8):
                seen.append(float(opt.current_step_lr()))
                loss = fluid.layers.reduce_sum(layer(d.to_variable(np.full((1, 2), k + 1, "float32"))))
                loss.backward()
                opt.minimize(loss)
                layer.clear_gradients()
            found[name] = [seen, layer.weight.numpy(), rate.state_dict(), type(rate).__name__]
        state = opt.state_dict()
        found["state"] = [sorted(k.split(".")[-1] for k in state), state["LR_Scheduler"], state["global_step"].numpy()]
        by_epoch = {"step": d.StepDecay(0.4, 2, 0.5), "multi": d.MultiStepDecay(0.4, [1, 3], 0.1)}
        by_epoch["lambda"] = d.LambdaDecay(0.4, lambda e: 0.9**e)
        for name, rate in sorted(by_epoch.items()):
            opt = fluid.optimizer.SGDOptimizer(rate, parameter_list=layer.parameters())
            seen = []
            for _ in range(5):
                seen.append(float(opt.current_step_lr()))
                rate.epoch()
            rate.epoch(1)
            found[name] = [seen, float(rate().numpy()[0]), rate.state_dict()]
        plateau = d.ReduceLROnPlateau(1.0, patience=1, decay_rate=0.5, cooldown=1, min_lr=0.2)
        found["plateau"] = []
        for loss in (3.0, 2.0, 2.0, 2.1, 2.2, 2.3, 2.4, 1.0, 1.0, 1.0, 1.0, 1.0):
            plateau.step(d.to_variable(np.array([loss], "float32")))
            found["plateau"].append(float(plateau().numpy()[0]))
        found["errors"] = [
            caught(lambda: d.StepDecay("x", 3)), caught(lambda: d.StepDecay(-1.0, 3)), caught(lambda: d.StepDecay(1.0, 3, 2.0)),
            caught(lambda: d.MultiStepDecay(1.0, [3, 2])), caught(lambda: d.LambdaDecay(1.0, 3)),
            caught(lambda: d.LinearLrWarmup("x", 3, 0, 1)),
            caught(lambda: d.ReduceLROnPlateau(1.0, "x")), caught(lambda: d.ReduceLROnPlateau(1.0, decay_rate=2.0)),
            caught(lambda: d.NoamDecay(64, 5).set_dict({"x": 1}), "step_num"),
        ]  # fmt: skip
    return found


@check(D + "TracedLayer", D + "declarative", D + "ParallelEnv", D + "DataParallel", D + "BackwardStrategy", D + "prepare_context",
       *[D + "TracedLayer." + n for n in ("trace", "program", "save_inference_model", "set_strategy")],
       *[D + "DataParallel." + n for n in ("scale_loss", "apply_collective_grads")],
       *[D + "ParallelEnv." + n for n in ("nranks", "local_rank", "dev_id", "current_endpoint", "trainer_endpoints")],
       D + "BackwardStrategy.sort_sum_gradient")  # fmt: skip
def dygraph_becomes_programs(fluid, np):
    d = fluid.dygraph
    x = image(np, 2, 1, 6, 6)
    found = {}
    globals()["fluid"] = fluid  # where 1.8.5 looks for what `doubled` reads
    with d.guard():

        class Net(d.Layer):
            def __init__(self):
                super().__init__()
                self.conv, self.norm = d.Conv2D(1, 3, 3, act="relu"), d.BatchNorm(3)
                self.pool, self.fc = d.Pool2D(2, "max", 2), d.Linear(12, 4, act="softmax")

            def forward(self, x):
                made = self.pool(self.norm(self.conv(x)))
                made = fluid.layers.reshape(made, [-1, 12])
                return self.fc(made), made

        net = seeded(np, Net())
        net.eval()
        outs, traced = d.TracedLayer.trace(net, [d.to_variable(x)])
        found["outs"] = [o.numpy() for o in outs]
        found["again"] = [np.array(v) for v in traced([d.to_variable(x[:1] * 0.5)])]
        found["types"] = [op.type for op in traced.program.global_block().ops if op.type not in ("feed", "fetch", "scale")]
        files = tempfile.TemporaryDirectory()
        traced.save_inference_model(files.name, fetch=[0])
        found["files"] = len(os.listdir(files.name))

        @d.declarative
        def doubled(x):
            if fluid.layers.reduce_sum(x) > 0:
                made = x * 2
            else:
                made = x - 1
            return made

        found["declarative"] = [np.array(doubled(d.to_variable(sign * np.abs(x))).numpy()) for sign in (1, -1)]
        net.train()
        place = d.ParallelEnv()
        found["env"] = [place.nranks, place.local_rank, place.dev_id, place.current_endpoint, list(place.trainer_endpoints)]
        strategy = d.prepare_context()
        both = d.DataParallel(net, strategy or type("Alone", (), {"nranks": 1})())
        loss = fluid.layers.mean(both(d.to_variable(x))[0] ** 2)
        scaled = both.scale_loss(loss)
        scaled.backward()
        both.apply_collective_grads()
        found["parallel"] = [scaled.numpy(), net.fc.weight.gradient(), sorted(both.state_dict()), strategy is None]
        way = d.BackwardStrategy()
        way.sort_sum_gradient = True
        found["sorted"] = way.sort_sum_gradient
        loss = fluid.layers.mean(net(d.to_variable(x))[0] ** 2)
        net.clear_gradients()
        loss.backward(way)
        found["by strategy"] = net.fc.weight.gradient()
    with files:
        executor = fluid.Executor(fluid.CPUPlace())
        program, names, targets = fluid.io.load_inference_model(files.name, executor)
        found["loaded"] = [len(names), np.array(executor.run(program, {names[0]: x}, targets)[0])]
    return found


@check(D + "Linear", D + "Layer.train", D + "Layer.eval")
def a_dygraph_net_trains_and_goes_on_from_files(fluid, np):
    d = fluid.dygraph
    rng = np.random.RandomState(0)
    data = rng.uniform(-1, 1, (6, 8, 1, 6, 6)).astype("float32")
    labels = rng.randint(0, 3, (6, 8, 1)).astype("int64")
    with d.guard():

        class Net(d.Layer):
            def __init__(self):
                super().__init__("net")
                self.conv, self.norm = d.Conv2D(1, 3, 3), d.BatchNorm(3, act="relu")
                self.fc = d.Linear(48, 3, act="softmax")

            def forward(self, x, label=None):
                out = self.fc(fluid.layers.reshape(self.norm(self.conv(x)), [-1, 48]))
                return out if label is None else (out, fluid.layers.accuracy(out, label))

        def steps(net, opt, count):
            seen = []
            for x, y in list(zip(data, labels))[:count]:
                out, acc = net(d.to_variable(x), d.to_variable(y))
                loss = fluid.layers.mean(fluid.layers.cross_entropy(out, d.to_variable(y)))
                loss.backward()
                opt.minimize(loss)
                net.clear_gradients()
                seen += [loss.numpy(), acc.numpy()]
            return seen

        def optimizer(net):
            return fluid.optimizer.AdamOptimizer(
                d.PolynomialDecay(0.05, 10, 0.01), parameter_list=net.parameters(), regularization=fluid.regularizer.L2Decay(1e-3),
                grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0),
            )  # fmt: skip

        net = seeded(np, Net())
        opt = optimizer(net)
        found = {"losses": steps(net, opt, 6), "told": told(np, net)}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net")
            d.save_dygraph(net.state_dict(), path)
            d.save_dygraph(opt.state_dict(), path)
            found["files"] = sorted(os.listdir(folder))
            state, opt_state = d.load_dygraph(path)
            other = Net()
            other.set_dict(state)
            opt = optimizer(other)
            opt.set_dict(opt_state)
            found["rate"] = float(opt.current_step_lr())
            found["same"] = bool(all((a.numpy() == b.numpy()).all() for a, b in zip(net.parameters(), other.parameters())))
        other.eval()
        found["eval"] = other(d.to_variable(data[0])).numpy()
        other.train()
        found["dtype"] = kind_of(fluid, other(d.to_variable(data[0])))
    return found
