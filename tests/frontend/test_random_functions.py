"""Random functions with control flow, mutation and views are the same eagerly and with `to_static`; the long runs are `python -m tests.fuzz
--functions 1000`.

What the runs found stands here in small, each as a function that was different once.
"""

from collections import Counter

import numpy as np
import pytest

import polyreme as paddle
from polyreme.jit.gather import Gatherer
from tests.fuzz.checks import Fault
from tests.fuzz.differences import check_functions
from tests.fuzz.functions import written
from tests.fuzz.reduce import smallest_module

FIRST, COUNT, BATCH = 0, 24, 8


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_functions_are_the_same_eagerly_and_compiled(first):
    outcomes = Counter(check_functions(written(5, number)) for number in range(first, first + BATCH))
    assert sum(n for outcome, n in outcomes.items() if outcome.startswith(("whole", "gathered"))) > BATCH // 2


def test_a_seed_and_a_number_say_the_function():
    assert [written(3, n) for n in range(20)] == [written(3, n) for n in range(20)]
    assert len({written(3, n) for n in range(20)}) == 20


def test_every_written_function_is_python():
    for number in range(300):
        compile(written(9, number), "random", "exec")


def _module(body, parameters="x", inputs=((("N", 4), True),)):
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return f"""import polyreme as paddle
INPUTS = {[(list(shape), needs) for shape, needs in inputs]}
NUMBERS = [None, None, None, None]
KEPT = paddle.to_tensor([0.3, -0.2, 0.7, 0.1])
FREE = paddle.to_tensor([0.2, 0.4, -0.6, 0.3], stop_gradient=False)
class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(4, 4)
        self.register_buffer("sums", paddle.full([4], 0.25))
    def forward(self, t):
        return t
NET = Net()
def entry({parameters}):
{lines}
ENTRY = entry
def change(call):
    pass
"""


TWO = ((("N", 4), True), (("N", 4), False))
DIFFERED = {
    "a view written under no_grad leaves its base in the graph": ("y = x * 2\nfloat(y.mean())\ny = x * 3\nwith paddle.no_grad():\n    "
    "y[:].add_(paddle.to_tensor(0.5))\nreturn x * y",),
    "a tensor written under no_grad is no leaf": ("y = x * 2\nif x.mean() < 5:\n    with paddle.no_grad():\n        y.fill_(0.5)\n    "
    "y.scale_(0.5)\nreturn y",),
    "what is written through a detached tensor gives its base no gradients": ("float(x.mean())\ny = "
    "x.detach()\ny.add_(NET.linear(x))\nreturn x.sum()",),
    "a write through a row of a detached tensor keeps its gradients": ("float(x.mean())\ny = (x * 2).detach()\ny[0] = "
    "NET.linear.bias\ny[0].scale_(0.5)\nreturn y * 0.9",),
    "an operand whose gradients are stopped midway": (
        "l = []\nv = x - 0.25\nfor r in v:\n    with paddle.no_grad():\n        y[-1] = r\n    l.append(r * 0.5)\nz = "
        "paddle.maximum(paddle.stack(l), y)\nreturn v * 0.5", "x, y", TWO,
    ),
    "a view of a buffer that only one branch takes is written": (
        "if y.max() >= 0.5:\n    v = NET.sums.detach()\nelse:\n    v = paddle.full([4], 0.5) * 0.5\nv.fill_(0.125)\nNET.sums.scale_(0.5)",
        "y", TWO[1:],
    ),
    "an argument that only one branch takes is written": ("z = y * 2\nif y.max() > 0.9:\n    z = y\nz.add_(paddle.to_tensor(0.5))\nreturn "
    "z * 1", "y", TWO[1:]),
    "an argument is the result of one branch": ("if y.max() > 0.9:\n    y = y - 0.5\nreturn y", "y", TWO[1:]),
    "a loop that may not run leaves an argument": ("z = y\nwhile z.max() > 0.9:\n    z = z * 0.5\nz.scale_(0.5)\nreturn z * "
    "1", "y", TWO[1:]),
    "a loop writes to what it was given": ("z = y\nc = y * 0.9\nwhile c.abs().sum() > 0.77:\n    c = c * 0.5\n    z.scale_(0.5)\n    z = z "
    "* 2\nreturn c * 1, z * 1", "y", TWO[1:]),
    "contents that are there already leave a tensor in the graph": ("KEPT[:] = NET.linear.bias\nKEPT.copy_(NET.sums, True)\nif x.max() > "
    "-0.2:\n    KEPT[0] = 0.5\nKEPT.stop_gradient = True",),
    "a tensor decides under no_grad": ("v = x * 0.5\nwith paddle.no_grad():\n    if x.sum() > -0.2:\n        v *= 0.25\nreturn v",),
    "gradients that are needed are stopped in one branch": ("z = x * 2\nif x.max() > 0.9:\n    z = x * 3\n    z.stop_gradient = "
    "True\nreturn z",),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERED)
def test_what_was_different_once(name):
    assert check_functions(_module(*DIFFERED[name])).startswith(("whole", "gathered"))


@pytest.mark.parametrize("needs", [False, True])
def test_an_argument_written_through_an_alias_without_gradients_is_one_program(needs):
    @paddle.jit.to_static(full_graph=True)
    def halved(x, z):
        z = z.detach()
        z.fill_(0.5)
        return x * 2

    x, z = paddle.ones([2, 3]), paddle.ones([4])
    x.stop_gradient = not needs
    assert np.array_equal(halved(x, z).numpy(), np.full((2, 3), 2.0)) and np.array_equal(z.numpy(), np.full(4, 0.5))


def test_a_planted_difference_is_found_and_made_small(monkeypatch):
    monkeypatch.setattr(Gatherer, "_keeps_place", staticmethod(lambda tensor, value: False))
    text = _module(*DIFFERED["a view written under no_grad leaves its base in the graph"])
    with pytest.raises(Fault, match="different by default"):
        check_functions(text)

    def differs(part):
        try:
            check_functions(part)
        except Fault:
            return True
        return False

    assert len(smallest_module(text, differs, seconds=10.0)) < len(text)


def test_a_reduced_module_still_shows_what_it_is_reduced_for():
    text = "a = 1\nif a:\n    b = 2\n    c = 3\nd = 4\n"
    assert smallest_module(text, lambda t: "c = 3" in t) == "c = 3\n"
