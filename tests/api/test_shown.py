"""Objects of the API print as short calls that say what they are, never as an address."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from tests.api.test_dir import MODULES, there

CLASSES = {
    f"{name}.{attribute}": value
    for name, module in sorted(MODULES.items())
    for attribute in dir(module)
    if inspect.isclass(value := there(module, attribute))
}

# Of these nothing can be made here: they stand for devices that there are not.
NEVER_MADE = {"IpuCompiledProgram", "IpuStrategy"}
DATA = paddle.io.TensorDataset([paddle.zeros([10, 2]), paddle.zeros([10])])
LR, INIT, MOVES, OPT = paddle.optimizer.lr, paddle.nn.initializer, paddle.vision.transforms, paddle.optimizer


def weights() -> list[Any]:
    return paddle.nn.Linear(2, 3).parameters()


@pytest.mark.parametrize("name", CLASSES)
def test_no_public_class_prints_addresses(name: str) -> None:
    kind = CLASSES[name]
    if kind.__name__ in NEVER_MADE:
        return
    assert kind.__repr__ is not object.__repr__, "expected a class that prints what it is: derive it from `polyreme.utils.shown.Shown`"
    if issubclass(kind, paddle.nn.Layer):
        return  # printed as a tree, which other tests look at
    try:
        made = kind()
    except Exception:
        return  # which arguments a class needs is no subject here
    assert " at 0x" not in repr(made)


# What is made, and how it prints: with the arguments that were given, and the state that matters.
PRINTED = [
    (lambda: OPT.Adam(parameters=weights()), "Adam(learning_rate=0.001, parameters=2)"),
    (lambda: OPT.SGD(0.1, parameters=weights()), "SGD(learning_rate=0.1, parameters=2)"),
    (
        lambda: OPT.Momentum(0.1, 0.8, weights(), use_nesterov=True),
        "Momentum(learning_rate=0.1, parameters=2, momentum=0.8, use_nesterov=True)",
    ),
    (
        lambda: OPT.AdamW(0.1, parameters=weights(), weight_decay=0.2, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)),
        "AdamW(learning_rate=0.1, parameters=2, weight_decay=0.2, grad_clip=ClipGradByGlobalNorm(clip_norm=1.0))",
    ),
    (lambda: OPT.Lamb(parameters=weights(), lamb_weight_decay=0.2), "Lamb(learning_rate=0.001, parameters=2, lamb_weight_decay=0.2)"),
    (lambda: OPT.SGD(LR.NoamDecay(64, 10), parameters=weights()), "SGD(learning_rate=NoamDecay(…), parameters=2)"),
    (
        lambda: LR.CosineAnnealingDecay(0.1, T_max=10),
        "CosineAnnealingDecay(learning_rate=0.1, T_max=10, last_epoch=0, last_lr=0.1)",
    ),
    (lambda: LR.OneCycleLR(0.1, 100), "OneCycleLR(max_learning_rate=0.1, total_steps=100, last_epoch=0, last_lr=0.004)"),
    (
        lambda: LR.CyclicLR(0.1, 0.5, 4),
        "CyclicLR(base_learning_rate=0.1, max_learning_rate=0.5, scale_fn=<lambda>, last_epoch=0, last_lr=0.1)",
    ),
    (lambda: DATA, "TensorDataset(tensors=[float32[10, 2], float32[10]], len=10)"),
    (lambda: paddle.io.Subset(DATA, [1, 2]), f"Subset(dataset={DATA!r}, len=2)"),
    (lambda: paddle.vision.datasets.Digits(), "Digits(len=1440)"),
    (lambda: paddle.data.digits("test"), "Digits(images=float32[357, 1, 28, 28], labels=int64[357])"),
    (lambda: paddle.io.RandomSampler(DATA, num_samples=3), f"RandomSampler(data_source={DATA!r}, num_samples=3, len=3)"),
    (lambda: paddle.io.SubsetRandomSampler(list(range(50))), "SubsetRandomSampler(indices=[0, 1, 2, … 50 in all], len=50)"),
    (
        lambda: paddle.io.BatchSampler(DATA, batch_size=4, shuffle=True),
        f"BatchSampler(dataset={DATA!r}, shuffle=True, batch_size=4, len=3)",
    ),
    (
        lambda: paddle.io.DistributedBatchSampler(DATA, 4, num_replicas=2, rank=1),
        f"DistributedBatchSampler(dataset={DATA!r}, batch_size=4, num_replicas=2, rank=1, len=2)",
    ),
    (
        lambda: paddle.io.DataLoader(DATA, batch_size=4, shuffle=True, num_workers=2),
        f"DataLoader(dataset={DATA!r}, batch_size=4, num_workers=2, shuffle=True, len=3)",
    ),
    (lambda: INIT.Constant(3.0), "Constant(value=3.0)"),
    (lambda: INIT.Normal(0, 0.2), "Normal(std=0.2)"),
    (lambda: INIT.Assign(np.zeros([3, 3], "float32")), "Assign(value=float32[3, 3])"),
    (lambda: INIT.Xavier(uniform=False, fan_in=3), "XavierNormal(fan_in=3)"),
    (lambda: paddle.ParamAttr(name="w", trainable=False), "ParamAttr(name='w', trainable=False)"),
    (lambda: MOVES.Resize(224), "Resize(size=224)"),
    (lambda: MOVES.Normalize([0.5], [0.5], keys=("image", "mask")), "Normalize(mean=[0.5], std=[0.5], keys=('image', 'mask'))"),
    (lambda: paddle.metric.Accuracy((1, 5)), "Accuracy(topk=(1, 5), name=['acc_top1', 'acc_top5'])"),
    (lambda: paddle.callbacks.EarlyStopping(patience=3), "EarlyStopping(patience=3)"),
    (lambda: paddle.Model(paddle.nn.Linear(2, 3)), "Model(network=Linear)"),
    (lambda: paddle.static.Executor(), "Executor(place=Place(cpu))"),
    (lambda: paddle.static.CompiledProgram(paddle.static.Program()), "CompiledProgram(ops=0)"),
    (lambda: paddle.no_grad(), "no_grad()"),
    (lambda: paddle.seed(3), "Generator(seed=3)"),
    (lambda: paddle.quantization.QuantConfig(None, None), "QuantConfig(0 layers, 0 names, 0 types)"),
]


@pytest.mark.parametrize(("make", "text"), PRINTED, ids=[text.partition("(")[0] + f"-{i}" for i, (_, text) in enumerate(PRINTED)])
def test_what_was_given_is_printed(make: Any, text: str) -> None:
    assert repr(make()) == text


def test_what_has_changed_is_printed() -> None:
    rate = LR.StepDecay(0.1, 1, gamma=0.5)
    rate.step()
    assert repr(rate) == "StepDecay(learning_rate=0.1, step_size=1, gamma=0.5, last_epoch=1, last_lr=0.05)"
    adam = OPT.Adam(parameters=weights())
    adam.set_lr(0.5)
    assert repr(adam) == "Adam(learning_rate=0.5, parameters=2)"
    model = paddle.Model(paddle.nn.Linear(2, 3))
    model.prepare(adam, paddle.nn.MSELoss())
    assert repr(model) == f"Model(network=Linear, optimizer={adam!r}, loss=MSELoss)"
    hook = paddle.nn.Linear(2, 3).register_forward_pre_hook(print)
    assert repr(hook) == "HookRemoveHelper(on)"
    hook.remove()
    assert repr(hook) == "HookRemoveHelper(removed)"


def test_what_the_compiler_hands_out_prints_no_addresses() -> None:
    from polyreme.ir.passes import PassManager, Stage, make_pass
    from polyreme.lowering.pipeline import compile_module

    module = paddle.inspect(paddle.nn.ReLU(), [paddle.static.InputSpec([2, 3], "float32", "x")]).module
    compiled = compile_module(module, name="net")
    assert repr(compiled) == "<net compiled for native>"
    assert re.fullmatch(r"<artifact net for \S+: \d+ bytes of code, 0 of constants>", repr(compiled.artifact))
    assert repr(PassManager([Stage("nn", make_pass("cse"))])) == "PassManager([Stage('nn', cse)])"
    assert repr(module.function().block) == "<block of 2 ops (%x: tensor<2x3xf32>)>"
    assert repr(MOVES.Compose([MOVES.ToTensor(), abs])) == "Compose(\n    ToTensor()\n    abs\n)"


class Mine(paddle.io.Dataset):
    """A dataset whose length takes something that is not there yet."""

    def __init__(self, root: str, scale: float = 1.0, words: tuple[str, ...] = ()):
        self.root, self.scale, self._words = root, scale, words

    def __len__(self) -> int:
        return len(self.files)  # type: ignore[attr-defined]


def test_classes_of_users_print_what_they_keep() -> None:
    assert repr(Mine("here", 0.5, ("a",) * 7)) == "Mine(root='here', scale=0.5, words=('a', 'a', 'a', … 7 in all))"
    assert repr(Mine("here" * 20)) == f"Mine(root='{'here' * 14}h…')"


def test_printing_raises_nothing() -> None:
    assert repr(object.__new__(OPT.Adam)) == "Adam(…)"
    assert repr(object.__new__(paddle.io.DataLoader)) == "DataLoader(…)"
    assert re.fullmatch(r"Mine\(.*\)", repr(object.__new__(Mine)))


class Rows(paddle.io.Dataset):
    """A dataset of a user's, which prints what it was made with."""

    def __init__(self, data: Any, size: int = 3):
        self.data, self.size = data, size


class Refuses:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"expected no one to look at {name}")


def rows_that_hold_themselves(times: int) -> Rows:
    rows = Rows(None)
    rows.data = [rows] * times
    return rows


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: rows_that_hold_themselves(2), "Rows(data=[Rows(…), Rows(…)])"),
        (lambda: rows_that_hold_themselves(6), f"Rows(data=[{', '.join(['Rows(…)'] * 6)}])"),
        (lambda: Rows(Rows(Rows(Rows(1)))), "Rows(data=Rows(data=Rows(data=Rows(…))))"),
        (lambda: Rows([[[[1]]]]), "Rows(data=[[list(…)]])"),
        (lambda: Rows(Refuses(), 4), "Rows(data=Refuses(…), size=4)"),
        (lambda: Rows(10**5000, 4), "Rows(data=int(…), size=4)"),
    ],
    ids=["twice", "six times", "nested objects", "nested lists", "refuses", "many digits"],
)
def test_printing_ends_and_tells_what_it_can(made: Any, expected: str) -> None:
    assert repr(made()) == expected
