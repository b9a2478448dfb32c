"""Feeds of several devices: sequences are shared out whole, and a loader gives each place a batch."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme.fluid as fluid

layers = fluid.layers
PLACES = [fluid.CPUPlace()] * 2


def _trained(feeds, parallel):
    words = layers.data("words", [1], dtype="int64", lod_level=2)
    rates = layers.data("rates", [1])
    seen = layers.embedding(words, [9, 3], param_attr=fluid.ParamAttr("table", initializer=fluid.initializer.Constant(0.5)))
    sums = layers.sequence_pool(layers.sequence_pool(seen, "sum"), "average")
    made = layers.fc(sums, 1, param_attr=fluid.ParamAttr("weight", initializer=fluid.initializer.Constant(0.1)), bias_attr=False)
    loss = layers.mean(layers.square_error_cost(made, rates))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.default_main_program()
    if parallel:
        program = fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name, places=PLACES)
    losses = [np.mean(exe.run(program, feed=feed, fetch_list=[loss])[0]) for feed in feeds]
    return [*losses, *(np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("table", "weight"))]


def test_sequences_are_shared_out_whole():
    rng = np.random.RandomState(0)
    feeds = [
        {
            "words": fluid.create_lod_tensor(rng.randint(0, 9, (8, 1)), [outer, inner], fluid.CPUPlace()),
            "rates": rng.rand(4, 1).astype("float32"),
        }
        for outer, inner in (([1, 2, 1, 1], [2, 1, 3, 1, 1]), ([1, 1, 1, 1], [1, 5, 1, 1]))
    ]
    alone = _trained(feeds, parallel=False)
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        shared = _trained(feeds, parallel=True)
    for one, two in zip(alone, shared, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)


def test_fewer_sequences_than_devices_are_refused():
    words = layers.data("words", [1], dtype="int64", lod_level=1)
    total = layers.reduce_sum(layers.sequence_pool(layers.cast(words, "float32"), "sum"))
    compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(places=PLACES)
    feed = {"words": fluid.create_lod_tensor(np.ones((3, 1), "int64"), [[3]], fluid.CPUPlace())}
    with pytest.raises(ValueError, match="expected at least 2 samples of 'words', one for each device, but got 1"):
        fluid.Executor(fluid.CPUPlace()).run(compiled, feed=feed, fetch_list=[total])


@pytest.mark.parametrize("return_list", [False, True])
@pytest.mark.parametrize(
    ("places", "drop_last", "given"),
    [
        (fluid.CPUPlace(), True, [[0], [1], [2], [3], [4]]),
        (PLACES, True, [[0, 1], [2, 3]]),
        (PLACES, False, [[0, 1], [2, 3], [4]]),
    ],
)
def test_a_loader_gives_each_place_a_batch(return_list, places, drop_last, given):
    x, y = fluid.data("x", [None, 2]), fluid.data("y", [None, 1], "int64")
    loader = fluid.io.DataLoader.from_generator([x, y], capacity=4, return_list=return_list, drop_last=drop_last)
    loader.set_batch_generator(lambda: ((np.full((2, 2), k, "float32"), np.full((2, 1), k)) for k in range(5)), places=places)
    found = [[batch[0] if return_list else batch["x"] for batch in batches] for batches in loader()]
    assert [[int(np.array(x)[0, 0]) for x in batch] for batch in found] == given
