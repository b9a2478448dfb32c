"""The high-level interface, readers and generators of random numbers."""

import hashlib
import io
import os
import tarfile
import tempfile
from contextlib import ExitStack, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from tests.api.table import caught, check
from tests.matlab_files import matlab, matrix


def printed(function):
    """What `function()` prints and returns; the counts of a summary, which Paddle makes numpy's, as plain numbers."""
    with redirect_stdout(StringIO()) as stream:
        result = function()
    return stream.getvalue(), {k: int(v) for k, v in result.items()} if isinstance(result, dict) and "total_params" in result else result


@contextmanager
def whole_numbers_of_one_element(paddle):
    """Paddle 3.3.1 counts in tensors of shape [1] and calls int() on them, which newer numpy refuses: let it."""
    before = paddle.Tensor.__int__
    paddle.Tensor.__int__ = lambda tensor: int(tensor.item())
    try:
        yield
    finally:
        paddle.Tensor.__int__ = before


def lenet(paddle):
    nn = paddle.nn
    return nn.Sequential(
        nn.Conv2D(1, 6, 3, padding=1), nn.BatchNorm2D(6), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Conv2D(6, 16, 5, groups=2, bias_attr=False),
        nn.LeakyReLU(),
        nn.AvgPool2D(2, 2), nn.Flatten(), nn.Linear(400, 120), nn.Sequential(nn.Linear(120, 84), nn.Dropout()), nn.Linear(84, 10),
    )  # fmt: skip


def two_inputs(paddle):
    class Two(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.shared, self.last = paddle.nn.Linear(4, 3), paddle.nn.Linear(3, 2)
            self.scale = self.create_parameter([3])
            self.last.weight.stop_gradient = True

        def forward(self, x, y=None):
            if y is None:
                x, y = (x["x"], x["y"]) if isinstance(x, dict) else x
            return self.last(self.shared(x) * self.scale + self.shared(y)), x

    return Two()


@check("paddle.summary", traits=("float32",))
def summary_prints_a_table_of_layers(paddle, np, rng):
    found = [printed(lambda: paddle.summary(lenet(paddle), (1, 1, 28, 28)))]
    found.append(printed(lambda: paddle.summary(lenet(paddle), (None, 1, 28, 28), "float32")))
    found.append(printed(lambda: paddle.summary(lenet(paddle), paddle.static.InputSpec([-1, 1, 28, 28], "float32", "x"))))
    found.append(printed(lambda: paddle.summary(paddle.nn.Linear(4, 3), (5, 4))))
    found.append(printed(lambda: paddle.summary(paddle.nn.Sequential(paddle.nn.Linear(2048, 2048)), (512, 2048))))
    found.append(
        printed(lambda: paddle.summary(paddle.nn.Sequential(paddle.nn.Embedding(10, 4), paddle.nn.LSTM(4, 5, 2)), (2, 7), "int64"))
    )
    return found


@check("paddle.summary", traits=("float32",))
def summary_takes_several_inputs(paddle, np, rng):
    x, y = paddle.ones([2, 4]), paddle.ones([5, 2, 4])
    net = two_inputs(paddle)
    found = [printed(lambda: paddle.summary(net, [(2, 4), (5, 2, 4)], dtypes=["float32", "float32"]))]
    found.append(printed(lambda: paddle.summary(net, input=[x, y])))
    found.append(printed(lambda: paddle.summary(net, input={"x": x, "y": y})))
    return [*found, net.training, net.shared.training]


@check("paddle.summary")
def summary_refuses_shapes_that_say_too_little(paddle, np, rng):
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 3))
    return [
        caught(lambda: paddle.summary(net)),
        caught(lambda: paddle.summary(net, (None, -1))),
        caught(lambda: paddle.summary(net, (0, 4))),
        caught(lambda: paddle.summary(net, ["a"])),
        caught(lambda: paddle.summary(net, input=3)),
    ]


@check("paddle.flops", traits=("float32",))
def flops_are_counted_by_layer(paddle, np, rng):
    def leaky(layer, inputs, output):
        layer.total_ops += int(inputs[0].numel()) * 3

    def table(function):
        with whole_numbers_of_one_element(paddle):
            text, result = printed(function)
        return (
            [line for line in text.splitlines() if "class" not in line],
            text.count("has been counted"),
            text.count("Customize"),
            text.count("Cannot"),
            result,
        )

    net = lenet(paddle)
    found = [table(lambda: paddle.flops(net, [1, 1, 28, 28])), table(lambda: paddle.flops(net, [1, 1, 28, 28], print_detail=True))]
    found.append(table(lambda: paddle.flops(net, [1, 1, 28, 28], custom_ops={paddle.nn.LeakyReLU: leaky}, print_detail=True)))
    other = paddle.nn.Sequential(paddle.nn.Conv2DTranspose(4, 6, 3), paddle.nn.AdaptiveAvgPool2D(2), paddle.nn.ReLU6(), paddle.nn.Sigmoid())
    found.append(table(lambda: paddle.flops(other, [2, 4, 6, 6], print_detail=True)))
    return [*found, net.training, sorted(net.state_dict())]


# --- Model


def points(paddle, np, rng, count=10):
    """A dataset of `count` vectors of 4 with labels below 3."""
    x, y = rng.standard_normal((count, 4)).astype("float32"), rng.integers(0, 3, (count, 1))

    class Points(paddle.io.Dataset):
        def __getitem__(self, index):
            return x[index], y[index]

        def __len__(self):
            return count

    return Points()


def classifier(paddle, rate=0.1, optimizer="SGD", **options):
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 3))
    model = paddle.Model(net, paddle.static.InputSpec([None, 4], "float32", "x"), paddle.static.InputSpec([None, 1], "int64", "y"))
    made = getattr(paddle.optimizer, optimizer)(learning_rate=rate, parameters=model.parameters(), **options)
    model.prepare(made, paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy(topk=(1, 2)))
    return model


def recorder(paddle):
    """A callback that notes what it is told, but for the logs that Paddle keeps by mistake from earlier batches and evaluations in one dict
    for all.
    """

    class Recorder(paddle.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.told = []

        def __getattribute__(self, name):
            if not name.startswith("on_"):
                return super().__getattribute__(name)

            def note(*args):
                logs = {} if name.endswith("batch_begin") or name == "on_train_end" else args[-1] or {}
                self.told.append([name, *args[:-1], plain(logs)])

            return note

    return Recorder()


def plain(logs):
    """Logs with plain numbers: Paddle's metrics give some of numpy's."""
    return {k: float(v) if "acc" in k else v for k, v in logs.items()}


def without_times(text):
    """Lines of progress without how long a step takes."""
    return [
        " - ".join(part for part in line.split(" - ") if "s/step" not in part and "cost" not in part and "ips" not in part)
        for line in text.splitlines()
    ]


@check("paddle.Model", traits=("float32", "gradient"), rtol=1e-5, atol=1e-6)
def a_model_trains_by_batches(paddle, np, rng):
    model = classifier(paddle, optimizer="Adam")
    x, y = rng.standard_normal((6, 4)).astype("float32"), rng.integers(0, 3, (6, 1))
    found = [
        model.train_batch([x], [y]),
        model.train_batch([x], [y], update=False),
        model.train_batch([paddle.to_tensor(x)], [paddle.to_tensor(y)]),
    ]
    found.append(model.eval_batch([x], [y]))
    found = [(losses, [[float(value) for value in metric] for metric in metrics]) for losses, metrics in found]
    found += [model.predict_batch([x]), model.network.training]
    model.prepare(loss=paddle.nn.CrossEntropyLoss())
    found += [model.eval_batch([x], [y]), caught(lambda: model.train_batch([x], [y]))]
    model.prepare()
    return [*found, model.eval_batch([x], [y]), [p.shape for p in model.parameters()], dict(model.network.state_dict())]


@check("paddle.Model", traits=("float32", "gradient"), rtol=1e-5, atol=1e-6)
def a_model_fits_and_tells_its_callbacks(paddle, np, rng):
    model, data, held_out, calls = classifier(paddle), points(paddle, np, rng), points(paddle, np, rng, 5), recorder(paddle)
    model.fit(data, held_out, batch_size=(4, 2), epochs=3, eval_freq=2, verbose=0, callbacks=[calls])
    found = [calls.told, dict(calls.params), dict(model.network.state_dict())]
    found.append(plain(model.evaluate(held_out, batch_size=3, verbose=0)))
    found.append(model.predict(held_out, batch_size=2, verbose=0))
    found.append(model.predict(held_out, batch_size=2, stack_outputs=True, verbose=0))
    calls = recorder(paddle)
    model.fit(data, batch_size=4, verbose=0, shuffle=False, drop_last=True, accumulate_grad_batches=2, callbacks=calls)
    model.fit(data, batch_size=4, verbose=0, shuffle=False, num_iters=5, callbacks=calls)
    return [*found, calls.told, dict(model.network.state_dict())]


@check("paddle.Model", traits=("float32",))
def a_model_prints_its_progress(paddle, np, rng):
    model, data, held_out = classifier(paddle), points(paddle, np, rng), points(paddle, np, rng, 5)
    found = [without_times(printed(lambda: model.fit(data, held_out, batch_size=2, epochs=2, log_freq=2, verbose=v))[0]) for v in (0, 2, 3)]
    found.append(without_times(printed(lambda: model.evaluate(held_out, batch_size=2, log_freq=1))[0]))
    found.append(without_times(printed(lambda: model.predict(held_out, batch_size=2, verbose=2))[0]))
    return [*found, printed(model.summary)]


@check("paddle.Model", traits=("float32",), rtol=1e-5, atol=1e-6)
def callbacks_of_a_model_steer_it(paddle, np, rng):
    data, held_out, found = points(paddle, np, rng), points(paddle, np, rng, 5), []
    callbacks = paddle.callbacks
    for given in (
        callbacks.EarlyStopping("loss", patience=1, min_delta=0.5, save_best_model=False),
        callbacks.EarlyStopping("acc_top1", mode="max", patience=2, baseline=0.9, verbose=0),
        callbacks.EarlyStopping("acc_top2", patience=1),
        callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=0.3, cooldown=1, min_lr=0.02),
        callbacks.ReduceLROnPlateau("acc_top1", factor=0.5, patience=1, mode="auto"),
    ):
        model, calls = classifier(paddle), recorder(paddle)
        text, _ = printed(lambda m=model, g=given, c=calls: m.fit(data, held_out, batch_size=5, epochs=6, verbose=0, callbacks=[g, c]))
        found.append([text, len(calls.told), model.stop_training, model._optimizer.get_lr()])
        # which in Paddle says that it changes the rate, but updates keep the old one
        if not isinstance(given, callbacks.ReduceLROnPlateau):
            found.append(dict(model.network.state_dict()))
    for given in ([], [callbacks.LRScheduler(by_step=False, by_epoch=True)]):
        model = classifier(paddle, paddle.optimizer.lr.StepDecay(0.1, 2, 0.5))
        model.fit(data, batch_size=5, epochs=3, verbose=0, callbacks=given)
        found.append([model._optimizer.get_lr(), dict(model.network.state_dict())])
    return [*found, caught(lambda: callbacks.LRScheduler(True, True)), caught(lambda: callbacks.ReduceLROnPlateau(factor=1.0))]


@check("paddle.Model")
def a_model_refuses_what_it_cannot_use(paddle, np, rng):
    model = classifier(paddle)
    return [
        caught(lambda: model.fit()),
        caught(lambda: model.fit(points(paddle, np, rng), batch_size=[1, 2, 3])),
        caught(lambda: model.prepare(loss=3)),
        caught(lambda: model.prepare(metrics=[3])),
        caught(lambda: model.fit(points(paddle, np, rng), num_iters=0)),
        caught(lambda: paddle.Model(model.network, paddle.static.InputSpec([4], "float32"))),
    ]


@check("paddle.batch")
def batches_of_a_reader(paddle, np, rng):
    def reader():
        yield from range(7)

    batched = paddle.batch(reader, 3)
    found = [
        list(batched()),
        list(batched()),
        list(paddle.batch(reader, 3, drop_last=True)()),
        list(paddle.batch(reader, "7")()),
        list(paddle.batch(reader, 9)()),
    ]
    return [
        *found,
        caught(lambda: paddle.batch(reader, 0)),
        caught(lambda: paddle.batch(reader, -2)),
        list(paddle.batch(lambda: iter([]), 2)()),
    ]


@check("paddle.nn.layer.layers.HookRemoveHelper", "paddle.nn.layer.layers.HookRemoveHelper.remove")
def hooks_are_taken_off(paddle, np, rng):
    from collections import OrderedDict

    helper_class = paddle.nn.layer.layers.HookRemoveHelper
    net, calls = paddle.nn.Linear(2, 2), []
    first = net.register_forward_post_hook(lambda layer, x, y: calls.append("first"))
    second = net.register_forward_pre_hook(lambda layer, x: calls.append("second"))
    net(paddle.ones([1, 2]))
    found = [list(calls), isinstance(first, helper_class), isinstance(second, helper_class), first.remove(), first.remove()]
    net(paddle.ones([1, 2]))
    second.remove()
    net(paddle.ones([1, 2]))
    tables = [OrderedDict(), OrderedDict(), OrderedDict()]
    helper = helper_class(tables[0], extra_hook_dict=tables[1:])
    for table in tables:
        table[helper._hook_id], table["other"] = "hook", 1
    helper.remove()
    return [*found, calls, [list(t) for t in tables]]


@check("paddle.get_cuda_rng_state", "paddle.set_cuda_rng_state")
def generators_of_gpus_have_states(paddle, np, rng):
    if paddle.is_compiled_with_cuda():
        states = paddle.get_cuda_rng_state()
        paddle.set_cuda_rng_state(states)
        return [[] if len(states) else "no state", None]
    before = paddle.get_rng_state()
    paddle.set_cuda_rng_state(paddle.get_cuda_rng_state())
    return [paddle.get_cuda_rng_state(), paddle.set_cuda_rng_state([]), len(before)]


@check("paddle.dataset.flowers.train")
def flowers_are_read_with_their_labels(paddle, np, rng):
    """Three published files, made small, with bytes for images: Paddle reads them by the same names and checksums."""
    flowers = paddle.dataset.flowers
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, ".cache", "paddle", "dataset", "flowers")
        folder.mkdir(parents=True)
        with tarfile.open(folder / "102flowers.tgz", "w:gz") as archive:
            for number in range(1, 7):
                entry = tarfile.TarInfo(f"jpg/image_{number:05}.jpg")
                entry.size = number
                archive.addfile(entry, io.BytesIO(bytes([number]) * number))
        (folder / "imagelabels.mat").write_bytes(matlab(matrix("labels", np.array([77, 3, 9, 1, 102, 50], np.uint8))))
        parts = [matrix(name, np.array(ids, "<u2")) for name, ids in (("trnid", [1]), ("valid", [3, 4]), ("tstid", [2, 5, 6]))]
        (folder / "setid.mat").write_bytes(matlab(*parts))
        sums = [hashlib.md5((folder / name).read_bytes()).hexdigest() for name in ("102flowers.tgz", "imagelabels.mat", "setid.mat")]
        with ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, HOME=home))
            if hasattr(flowers, "DATA_MD5"):
                stack.enter_context(patch.object(paddle.dataset.common, "DATA_HOME", str(folder.parent)))
                for name, value in zip(("DATA_MD5", "LABEL_MD5", "SETID_MD5"), sums, strict=True):
                    stack.enter_context(patch.object(flowers, name, value))
            else:
                stack.enter_context(patch.dict(flowers.CHECKSUMS, dict(zip(flowers.CHECKSUMS, sums, strict=True))))
            read = {
                name: list(getattr(flowers, name)(mapper=lambda sample: sample, use_xmap=False)()) for name in ("train", "test", "valid")
            }
    return {name: [[list(content), label] for content, label in samples] for name, samples in read.items()}
